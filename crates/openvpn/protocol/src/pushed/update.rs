//! PUSH_UPDATE: settings that a server changes while the tunnel is up.
//!
//! Source: OpenVPN 2.7 options_util.c (`check_push_update_option_flags`), options.c (`update_option`, `remove_option`).

use adit_core::{AddressChange, Dns};

use super::{Pushed, Refused, Topology};
use crate::control_message::redacted;
use crate::dns::DnsOptions;

/// The options that an update may change (OpenVPN 2.7 options_util.c, `updatable_options`).
const UPDATABLE: [&str; 15] = [
    "block-ipv6",
    "block-outside-dns",
    "dhcp-option",
    "dns",
    "ifconfig",
    "ifconfig-ipv6",
    "redirect-gateway",
    "redirect-private",
    "route",
    "route-gateway",
    "route-ipv6",
    "route-metric",
    "topology",
    "tun-mtu",
    "keepalive",
];

/// One change: `NAME ARGUMENTS` sets, `-NAME` removes, and with `?` before the name an end that cannot do it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    /// The option is removed.
    removes: bool,
    /// The change may be left out.
    optional: bool,
    /// The option without these marks.
    pub(crate) option: &'a str,
}

impl<'a> Change<'a> {
    /// Reads one change.
    pub(crate) fn parse(text: &'a str) -> Self {
        let text = text.trim_start();
        let (removes, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (optional, option) = text.strip_prefix('?').map_or((false, text), |rest| (true, rest));
        Change { removes, optional, option }
    }

    /// Whether an update may change it. `None`: it may not, but may be left out.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn check(self) -> Result<Option<Self>, String> {
        match UPDATABLE.contains(&self.name()) {
            true => Ok(Some(self)),
            false if self.optional => Ok(None),
            false => Err(format!("\"{}\" cannot be changed by an update", redacted(self.option))),
        }
    }

    /// Whether an end that refuses it goes on.
    pub(crate) fn is_optional(self) -> bool {
        self.optional
    }

    fn name(self) -> &'a str {
        self.option.split(' ').next().unwrap_or_default()
    }

    /// Options of one kind replace each other.
    fn kind(self) -> &'a str {
        if self.name() == "redirect-private" { "redirect-gateway" } else { self.name() }
    }
}

/// An update while it is read: the first option of a kind replaces all values that the kind had.
#[derive(Default)]
pub(crate) struct Update<'a> {
    replaced: Vec<&'a str>,
}

impl<'a> Update<'a> {
    /// Applies one change that [`Change::check`] let pass. On an error `pushed` is as before.
    pub(crate) fn apply(&mut self, change: Change<'a>, pushed: &mut Pushed) -> Result<(), Refused> {
        if change.removes {
            pushed.reset(change.kind());
            return Ok(());
        }
        if self.replaced.contains(&change.kind()) {
            return pushed.apply(change.option);
        }
        // A malformed option replaces nothing. It is read beside `pushed`, of which a copy each time would be much
        // work.
        Pushed { max_mtu: pushed.max_mtu, ..Pushed::default() }.apply(change.option)?;
        pushed.reset(change.kind());
        self.replaced.push(change.kind());
        pushed.apply(change.option)
    }
}

/// The changes of a client's addresses by an update, which its server has to follow (OpenVPN 2.7 push_util.c,
/// `send_single_push_update`).
///
/// # Errors
/// The option that gives an address, and does not name one.
pub(crate) fn address_change(changes: &[Change<'_>]) -> Result<AddressChange, String> {
    let (mut update, mut pushed) = (Update::default(), Pushed::default());
    let mut outcome = AddressChange::default();
    for change in changes {
        let name = change.name();
        if !matches!(name, "ifconfig" | "ifconfig-ipv6") {
            continue;
        }
        update.apply(*change, &mut pushed).map_err(|_| format!("\"{}\" names no address", change.option))?;
        match name {
            "ifconfig" => outcome.v4 = Some(pushed.ifconfig.map(|(own, _)| own)),
            _ => outcome.v6 = Some(pushed.ifconfig6),
        }
    }
    Ok(outcome)
}

impl Pushed {
    /// Forgets the values of options of that kind.
    fn reset(&mut self, kind: &str) {
        match kind {
            "route" => self.routes.retain(|(destination, ..)| destination.addr().is_ipv6()),
            "route-ipv6" => self.routes.retain(|(destination, ..)| destination.addr().is_ipv4()),
            "route-gateway" => self.route_gateway = None,
            "route-metric" => self.route_metric = None,
            "redirect-gateway" => self.redirect_gateway = None,
            "block-ipv6" => self.block_ipv6 = false,
            "dns" => self.dns = DnsOptions::default(),
            "dhcp-option" => {
                self.dhcp = Dns::default();
                self.dhcp_options.clear();
            }
            "ifconfig" => self.ifconfig = None,
            "ifconfig-ipv6" => (self.ifconfig6, self.peer_ipv6) = (None, None),
            // The topology of a server since 2.7 that names none (OpenVPN helper.c, `helper_setdefault_topology`): a
            // client that knows updates talks to no older one.
            "topology" => self.topology = Topology::Subnet,
            "tun-mtu" => self.tun_mtu = None,
            "keepalive" => (self.ping, self.ping_timeout, self.ping_exit) = (None, None, false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, settings};
    use super::*;
    use crate::params::{LocalSettings, ScriptParams};

    /// Applies an update, and says which options were refused.
    fn update(pushed: &mut Pushed, options: &[&str]) -> Vec<String> {
        let (mut update, mut refused) = (Update::default(), Vec::new());
        for option in options {
            let result = match Change::parse(option).check() {
                Ok(Some(change)) => update.apply(change, pushed).map_err(|why| format!("{why:?}")),
                Ok(None) => Ok(()),
                Err(why) => Err(why),
            };
            refused.extend(result.err());
        }
        refused
    }

    #[test]
    fn marks_are_read() {
        for (text, removes, optional, option) in [
            ("route 10.0.0.0", false, false, "route 10.0.0.0"),
            (" -route", true, false, "route"),
            ("?dns x", false, true, "dns x"),
            ("-?block-ipv6", true, true, "block-ipv6"),
        ] {
            assert_eq!(Change::parse(text), Change { removes, optional, option }, "{text}");
        }
        // A `-` behind a `?` is part of a name that does not exist.
        assert!(Change::parse("?-dns").check() == Ok(None));
        assert!(Change::parse("cipher AES-256-GCM").check().is_err());
        assert!(Change::parse("").check().is_err() && Change::parse("-").check().is_err());
        assert_eq!(Change::parse("?cipher AES-256-GCM").check(), Ok(None));
        assert!(Change::parse("routes").check().is_err());
        let refused = Change::parse("auth-token SESS_ID_AT_x").check().unwrap_err();
        assert!(refused.contains("auth-token") && !refused.contains("SESS_ID"), "{refused}");
    }

    /// Scripts get the present values: nothing of the options that an update took away or replaced.
    #[test]
    fn scripts_hear_of_new_values_alone() {
        let mut pushed = read(&[
            "ifconfig-ipv6 fd00::2/64 fd00::1",
            "dhcp-option DNS 192.0.2.1",
            "dhcp-option DOMAIN a.example",
        ]);
        let told = |pushed: &Pushed| {
            let (scripts, local) = (ScriptParams::default(), LocalSettings::default());
            let env = pushed.facts(&scripts, (&local, &settings(pushed)), false).env;
            let about = |name: &str| name.starts_with("foreign_option") || name.ends_with("_remote");
            env.into_iter().filter(|(name, _)| about(name)).map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(told(&pushed), ["fd00::1", "dhcp-option DNS 192.0.2.1", "dhcp-option DOMAIN a.example"]);
        let more = ["dhcp-option DNS 192.0.2.2", "ifconfig-ipv6 fd00::3/64 fd00::4"];
        assert_eq!(update(&mut pushed, &more), [""; 0]);
        assert_eq!(told(&pushed), ["fd00::4", "dhcp-option DNS 192.0.2.2"]);
        assert_eq!(update(&mut pushed, &["-dhcp-option", "-ifconfig-ipv6"]), [""; 0]);
        assert_eq!(told(&pushed), [""; 0]);
        assert_eq!(pushed.peer_ipv6, None);
    }

    #[test]
    fn the_first_of_a_kind_replaces_all_before() {
        let mut pushed =
            read(&["route 10.1.0.0 255.255.0.0", "route 10.2.0.0 255.255.0.0", "route-ipv6 fd01::/64"]);
        let more = ["route 10.3.0.0 255.255.0.0", "route 10.4.0.0 255.255.0.0"];
        assert!(update(&mut pushed, &more).is_empty());
        let routes = |pushed: &Pushed| {
            settings(pushed).routes.iter().map(|route| route.destination.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(routes(&pushed), ["fd01::/64", "10.3.0.0/16", "10.4.0.0/16"]);
        assert!(update(&mut pushed, &["-route"]).is_empty());
        assert_eq!(routes(&pushed), ["fd01::/64"]);
        assert!(update(&mut pushed, &["-route-ipv6", "route 10.5.0.0 255.255.0.0"]).is_empty());
        assert_eq!(routes(&pushed), ["10.5.0.0/16"]);
    }

    #[test]
    fn what_is_malformed_changes_nothing() {
        let mut pushed = read(&["route 10.1.0.0 255.255.0.0", "dns server 1 address 192.0.2.1"]);
        let before = settings(&pushed);
        assert_eq!(update(&mut pushed, &["route here", "ifconfig x y", "tun-mtu 9", "peer-id 4"]).len(), 4);
        assert_eq!(settings(&pushed), before);
    }

    #[test]
    fn a_server_reads_what_becomes_of_addresses() {
        let of = |options: &[&str]| {
            let changes: Vec<Change<'_>> = options.iter().map(|text| Change::parse(text)).collect();
            address_change(&changes)
        };
        let (v4, v6) = ("10.8.0.9".parse().unwrap(), "fd00::9/64".parse().unwrap());
        assert_eq!(of(&["route 10.0.0.0", "topology subnet"]), Ok(AddressChange::default()));
        let both = ["ifconfig 10.8.0.9 255.255.255.0", "ifconfig-ipv6 fd00::9/64 fd00::1"];
        assert_eq!(of(&both), Ok(AddressChange { v4: Some(Some(v4)), v6: Some(Some(v6)) }));
        assert_eq!(
            of(&["-ifconfig", "-ifconfig-ipv6"]),
            Ok(AddressChange { v4: Some(None), v6: Some(None) })
        );
        // The last word counts.
        let again = of(&[both[0], "-ifconfig", "?ifconfig 10.8.0.9 10.8.0.10"]);
        assert_eq!(again, Ok(AddressChange { v4: Some(Some(v4)), v6: None }));
        for wrong in
            ["ifconfig", "ifconfig x 255.255.255.0", "ifconfig-ipv6 fd00::9", "ifconfig-ipv6 10.8.0.9/24"]
        {
            assert!(of(&[wrong]).is_err_and(|why| why.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn what_scripts_are_told_goes_with_its_option() {
        let mut pushed = read(&[
            "dhcp-option DNS 192.0.2.53",
            "ifconfig-ipv6 fd00::9/64 fd00::1",
            "dhcp-option DOMAIN a.example",
        ]);
        assert!(update(&mut pushed, &["dhcp-option DNS 192.0.2.54"]).is_empty());
        assert_eq!(pushed.dhcp_options, ["DNS 192.0.2.54"]);
        assert!(update(&mut pushed, &["-dhcp-option", "-ifconfig-ipv6"]).is_empty());
        assert!(pushed.dhcp_options.is_empty() && pushed.peer_ipv6.is_none());
    }

    #[test]
    fn each_updatable_option_changes_and_goes() {
        let mut pushed = read(&["topology subnet", "ifconfig 10.8.0.2 255.255.255.0", "tun-mtu 1400"]);
        let options = [
            "ifconfig 10.8.0.9 255.255.255.0",
            "ifconfig-ipv6 fd00::9/64 fd00::1",
            "redirect-gateway def1",
            "block-ipv6",
            "block-outside-dns",
            "dhcp-option DNS 192.0.2.53",
            "dns server 1 address 192.0.2.54",
            "route-gateway 10.8.0.1",
            "route-metric 7",
            "tun-mtu 1300",
            "keepalive 5 20",
        ];
        assert_eq!(update(&mut pushed, &options), [""; 0]);
        let with = settings(&pushed);
        assert_eq!(with.addresses.len(), 2);
        assert!(with.redirect.is_some_and(|redirect| redirect.ipv4) && with.block_ipv6);
        assert_eq!(pushed.tun_mtu, Some(1300));
        assert_eq!(pushed.ping, Some(std::time::Duration::from_secs(5)));
        assert_eq!(pushed.ping_timeout, Some(std::time::Duration::from_secs(20)));
        assert_eq!(update(&mut pushed, &["redirect-private"]), [""; 0]);
        assert!(
            settings(&pushed).redirect.is_some_and(|redirect| !redirect.ipv4),
            "it takes the other's place"
        );
        let all: Vec<String> = UPDATABLE.iter().map(|name| format!("-{name}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(update(&mut pushed, &all), [""; 0]);
        let nothing = settings(&Pushed::default());
        assert_eq!(settings(&pushed), nothing);
        assert_eq!((pushed.tun_mtu, pushed.ping, pushed.ping_timeout), (None, None, None));
    }
}
