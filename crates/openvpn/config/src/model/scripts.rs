use std::net::Ipv4Addr;
use std::time::Duration;

/// Programs that are run when the tunnel comes up and goes down, their environment, and the settings that are left to
/// them. Each is a program with its first arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelScripts {
    /// The device is there and has its addresses (`up`).
    pub up: Option<Vec<String>>,
    /// The device is gone (`down`).
    pub down: Option<Vec<String>>,
    /// The routes are set (`route-up`).
    pub route_up: Option<Vec<String>>,
    /// The routes are about to go (`route-pre-down`).
    pub route_pre_down: Option<Vec<String>>,
    /// The peer has authenticated itself, or its address has changed (`ipchange`).
    pub ip_change: Option<Vec<String>>,
    /// Judges each certificate of the peer's (`tls-verify`). A server's is in [`super::Access`].
    pub tls_verify: Option<Vec<String>>,
    /// The setter of the name servers (`dns-updown`).
    pub names: NameServerSetting,
    /// `up` and `down` run at restarts that keep the device, too (`up-restart`).
    pub at_restarts: bool,
    /// `down` runs before the device goes (`down-pre`).
    pub down_before_close: bool,
    /// A restart keeps the device (`persist-tun`), so that scripts do not run. adit keeps it in any case.
    pub keeps_device: bool,
    /// Addresses and MTU are left to `up` (`ifconfig-noexec`).
    pub leaves_device: bool,
    /// The routes are left to `route-up` (`route-noexec`).
    pub leaves_routes: bool,
    /// How long after `up` the routes are set (`route-delay`).
    pub route_delay: Option<Duration>,
    /// The gateway in the tunnel for scripts (`route-gateway`).
    pub gateway: Option<Ipv4Addr>,
    /// Environment variables (`setenv`), besides those in [`super::ClientConfig::peer_info`]. A server's are in
    /// [`super::Access`].
    pub env: Vec<(String, String)>,
}

/// The setter of the name servers that a server pushes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameServerSetting {
    /// adit, unless there is an `up` script.
    #[default]
    Default,
    /// adit, in spite of an `up` script (`dns-updown force`).
    Force,
    /// Other programs (`dns-updown disable`).
    Disable,
    /// This program (`dns-updown COMMAND`).
    Script(Vec<String>),
}

impl NameServerSetting {
    /// adit sets them in the place of an `up` script that would do nothing else, and that does not run.
    pub fn take_over(&mut self) {
        if *self == NameServerSetting::Default {
            *self = NameServerSetting::Force;
        }
    }
}

impl TunnelScripts {
    /// All programs.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        let TunnelScripts { up, down, route_up, route_pre_down, ip_change, tls_verify, names, .. } = self;
        let names = match names {
            NameServerSetting::Script(argv) => Some(argv),
            _ => None,
        };
        [up, down, route_up, route_pre_down, ip_change, tls_verify].into_iter().flatten().chain(names)
    }

    /// Whether something else than adit sets the name servers.
    pub fn leaves_names(&self) -> bool {
        match self.names {
            NameServerSetting::Default => self.up.is_some(),
            NameServerSetting::Force => false,
            NameServerSetting::Disable | NameServerSetting::Script(_) => true,
        }
    }
}
