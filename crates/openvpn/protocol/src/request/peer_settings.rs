use std::net::{Ipv4Addr, Ipv6Addr};

use adit_core::PeerLimits;
use ipnet::{IpNet, Ipv6Net};

/// The settings for one peer of a server alone: `client-config-dir` has a file for each client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// The peer is not let in (`disable`).
    pub disabled: bool,
    /// Its IPv4 address, and the second word of `ifconfig-push`: a netmask, or the other end's address.
    pub ipv4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Its IPv6 address with the prefix length that is sent to it, and the gateway if one was named
    /// (`ifconfig-ipv6-push`).
    pub ipv6: Option<(Ipv6Net, Option<Ipv6Addr>)>,
    /// Networks behind the peer (`iroute`, `iroute-ipv6`).
    pub routes: Vec<IpNet>,
    /// The options that are pushed to it otherwise than to the other peers, in order.
    pub push: Vec<PushChange>,
    /// How long it may stay connected.
    pub limits: PeerLimits,
    /// The username of its session, in place of the one that it gave (`override-username`).
    pub username: Option<String>,
}

/// One change to the pushed options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushChange {
    /// This option too (`push`).
    Add(String),
    /// None of the options so far (`push-reset`).
    Reset,
    /// No option that starts with this text (`push-remove`).
    Remove(String),
}

impl PeerSettings {
    /// Adds the settings of a later source; where both name an address, the later one holds.
    pub fn merge(&mut self, later: PeerSettings) {
        self.disabled |= later.disabled;
        self.ipv4 = later.ipv4.or(self.ipv4);
        self.ipv6 = later.ipv6.or(self.ipv6);
        self.routes.extend(later.routes);
        self.push.extend(later.push);
        self.limits = self.limits.merged(later.limits);
        self.username = later.username.or(self.username.take());
    }
}
