//! The options that a server pushes, read into settings.

mod arguments;
mod dhcp_option;
mod settings;
mod update;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use adit_core::{Cipher, Dns, IpNet, Ipv6Net, PeerLimits, Redirect};

use self::arguments::{
    cipher, first, idle, length, redirect_gateway, route4, route6, seconds, topology, two_addresses,
};
use self::dhcp_option::DhcpOption;
pub(crate) use self::update::{Change, Update, address_change};
use crate::codec::Compression;
use crate::dns::DnsOptions;
use crate::params::{DataParams, Keepalive, MAX_PUSHED_MTU, PushedCompression};

/// The smallest MTU: the size that IPv4 hosts must take (RFC 791 §3.2).
const MIN_PUSHED_MTU: u16 = 576;
/// Variables for scripts that are taken.
const MAX_VARIABLES: usize = 64;

/// How `ifconfig` is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Topology {
    /// Two addresses of a point-to-point link. The meaning of an old server that names no topology.
    #[default]
    PointToPoint,
    /// An address and a netmask.
    Subnet,
}

/// A gateway as written, before it is known which addresses lie in the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gateway {
    Tunnel,
    System,
    Address(IpAddr),
}

/// All that a push reply said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pushed {
    topology: Topology,
    ifconfig: Option<(Ipv4Addr, Ipv4Addr)>,
    ifconfig6: Option<Ipv6Net>,
    /// The other end's address beside it.
    peer_ipv6: Option<Ipv6Addr>,
    route_gateway: Option<Ipv4Addr>,
    route_metric: Option<u32>,
    routes: Vec<(IpNet, Gateway, Option<u32>)>,
    redirect_gateway: Option<Redirect>,
    block_ipv6: bool,
    /// `dhcp-option`.
    dhcp: Dns,
    /// The `dhcp-option`s that were read, printed anew, for scripts.
    dhcp_options: Vec<String>,
    /// `setenv-safe`, for scripts.
    variables: Vec<(String, String)>,
    /// `dns`; goes before `dhcp-option`.
    dns: DnsOptions,
    pub(crate) ping: Option<Duration>,
    pub(crate) ping_timeout: Option<Duration>,
    pub(crate) ping_exit: bool,
    pub(crate) limits: PeerLimits,
    pub(crate) peer_id: Option<u32>,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) exporter: bool,
    pub(crate) cc_exit: bool,
    pub(crate) dynamic_tls_crypt: bool,
    /// The data channel has the epoch format.
    pub(crate) epoch: bool,
    /// The framing, and whether packets that are compressed in it are decompressed.
    pub(crate) compression: Option<(Compression, bool)>,
    /// The reaction to algorithms.
    pushed_compression: PushedCompression,
    pub(crate) tun_mtu: Option<u16>,
    /// The largest that is taken (`tun-mtu-max`).
    max_mtu: Option<u16>,
    pub(crate) exit_notify: bool,
}

/// Why an option was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Said in the log; the tunnel works without it.
    Ignored(String),
    /// The tunnel cannot work as the server means it.
    Fatal(String),
}

fn ignored(reason: &str) -> Refused {
    Refused::Ignored(reason.to_owned())
}

impl Pushed {
    /// Reads one option.
    pub(crate) fn apply(&mut self, option: &str) -> Result<(), Refused> {
        let words: Vec<&str> = option.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let [name, arguments @ ..] = words.as_slice() else { return Ok(()) };
        let malformed = || ignored("it is malformed");
        match *name {
            "topology" => self.topology = topology(arguments).ok_or_else(|| ignored("no such topology"))?,
            "ifconfig" => self.ifconfig = Some(two_addresses(arguments).ok_or_else(|| fatal(option))?),
            "ifconfig-ipv6" => {
                self.ifconfig6 = Some(first(arguments).ok_or_else(|| fatal(option))?);
                self.peer_ipv6 = arguments.get(1).and_then(|peer| peer.parse().ok());
            }
            "route-gateway" => self.route_gateway = Some(first(arguments).ok_or_else(malformed)?),
            "route-metric" => self.route_metric = Some(first(arguments).ok_or_else(malformed)?),
            // The server is kept outside the tunnel anyway, and the gateway is in it.
            "route" if matches!(arguments, ["remote_host", _, "net_gateway", ..] | ["vpn_gateway", ..]) => {}
            "route" => self.routes.push(route4(arguments).ok_or_else(malformed)?),
            "route-ipv6" => self.routes.push(route6(arguments).ok_or_else(malformed)?),
            "redirect-gateway" => self.redirect_gateway = Some(redirect_gateway(arguments)),
            "redirect-private" => {
                let flags = redirect_gateway(arguments);
                self.redirect_gateway = Some(Redirect { ipv4: false, ipv6: false, ..flags });
            }
            "block-ipv6" => self.block_ipv6 = true,
            "dhcp-option" => self.dhcp_option(arguments)?,
            "setenv-safe" => self.set_variable(arguments)?,
            "dns" => self.dns.apply(arguments).map_err(|why| Refused::Ignored(why.to_owned()))?,
            "ping" => self.ping = seconds(arguments).ok_or_else(malformed)?,
            "ping-restart" => {
                (self.ping_timeout, self.ping_exit) = (seconds(arguments).ok_or_else(malformed)?, false)
            }
            "ping-exit" => {
                (self.ping_timeout, self.ping_exit) = (seconds(arguments).ok_or_else(malformed)?, true)
            }
            "keepalive" => {
                let (ping, timeout) = arguments.split_at_checked(1).ok_or_else(malformed)?;
                let both = (seconds(ping).ok_or_else(malformed)?, seconds(timeout).ok_or_else(malformed)?);
                (self.ping, self.ping_timeout, self.ping_exit) = (both.0, both.1, false);
            }
            "inactive" => self.limits.idle = Some(idle(arguments).ok_or_else(malformed)?),
            "session-timeout" => self.limits.length = Some(length(arguments).ok_or_else(malformed)?),
            "peer-id" => self.peer_id = first(arguments).filter(|id: &u32| *id < 1 << 24),
            "cipher" => self.cipher = Some(cipher(arguments)?),
            "key-derivation" if arguments == ["tls-ekm"] => self.exporter = true,
            "protocol-flags" => self.protocol_flags(arguments)?,
            "tun-mtu" => self.tun_mtu = Some(self.accept_mtu(arguments)?),
            "explicit-exit-notify" => self.exit_notify = true,
            "comp-lzo" | "compress" => return self.compression(name, arguments),
            // These would change nothing on this platform, or they are ours to choose.
            "block-outside-dns" | "register-dns" | "persist-tun" | "persist-key" | "sndbuf" | "rcvbuf"
            | "socket-flags" | "echo" | "parameter" | "ip-win32" | "client" | "route-delay" | "reneg-sec"
            | "tun-ipv6" => {}
            _ => return Err(ignored("this client does not know it")),
        }
        Ok(())
    }

    /// The options for a client that takes no larger MTU than this, and compression like that.
    pub(crate) fn accepting(max_mtu: u16, pushed_compression: PushedCompression) -> Self {
        Pushed { max_mtu: Some(max_mtu), pushed_compression, ..Pushed::default() }
    }

    fn accept_mtu(&self, arguments: &[&str]) -> Result<u16, Refused> {
        let most = self.max_mtu.unwrap_or(MAX_PUSHED_MTU);
        first(arguments).filter(|mtu| (MIN_PUSHED_MTU..=most).contains(mtu)).ok_or_else(|| {
            Refused::Ignored(format!("tun-mtu must be from {MIN_PUSHED_MTU} to {most} (tun-mtu-max)"))
        })
    }

    fn protocol_flags(&mut self, flags: &[&str]) -> Result<(), Refused> {
        for flag in flags {
            match *flag {
                "cc-exit" => self.cc_exit = true,
                "tls-ekm" => self.exporter = true,
                "dyn-tls-crypt" => self.dynamic_tls_crypt = true,
                "aead-epoch" => self.epoch = true,
                other => {
                    return Err(Refused::Fatal(format!(
                        "the server wants the protocol flag \"{other}\", which we did not offer"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Why the epoch data format that the server wants cannot be.
    pub(crate) fn refused_epochs(&self, data: &DataParams, cipher: Cipher) -> Option<&'static str> {
        match self.epoch {
            false => None,
            true if data.before_2_6 || data.before_2_7 => Some(
                "the server wants the epoch data format (aead-epoch), which compat-mode here keeps from being offered",
            ),
            true if !cipher.is_aead() || self.peer_id.is_none() => Some(
                "the server wants the epoch data format (aead-epoch) without an AEAD cipher or without a peer-id",
            ),
            true => None,
        }
    }

    fn dhcp_option(&mut self, arguments: &[&str]) -> Result<(), Refused> {
        let option = DhcpOption::parse(arguments).map_err(ignored)?;
        self.dhcp_options.push(option.to_string());
        match option {
            DhcpOption::Server(_, server) => self.dhcp.servers.push(server),
            DhcpOption::Search(_, domain) => self.dhcp.search.push(domain.to_owned()),
            DhcpOption::OnlyFor(domain) => self.dhcp.only_for.push(domain.to_owned()),
            // Scripts may have a use for it, as with OpenVPN.
            DhcpOption::Other(_) => return Err(ignored("this dhcp-option has no use here, but for scripts")),
        }
        Ok(())
    }

    /// A script gets it under a name that no program's libraries obey.
    fn set_variable(&mut self, arguments: &[&str]) -> Result<(), Refused> {
        let [name, value @ ..] = arguments else { return Err(ignored("it is malformed")) };
        if self.variables.len() >= MAX_VARIABLES {
            return Err(ignored("there are too many variables"));
        }
        self.variables.push((format!("OPENVPN_{name}"), value.join(" ")));
        Ok(())
    }

    fn compression(&mut self, name: &str, arguments: &[&str]) -> Result<(), Refused> {
        let (framing, compresses) = match (name, arguments) {
            ("comp-lzo", ["no"]) => (Compression::LzoNo, false),
            ("comp-lzo", _) | ("compress", ["lzo"]) => (Compression::LzoNo, true),
            ("compress", [] | ["stub"]) => (Compression::Stub, false),
            ("compress", ["stub-v2"]) => (Compression::StubV2, false),
            ("compress", ["lz4"]) => (Compression::Stub, true),
            ("compress", ["lz4-v2"]) => (Compression::StubV2, true),
            ("compress", ["migrate"]) => (Compression::None, false),
            _ => return Err(Refused::Fatal("an unknown kind of compression".to_owned())),
        };
        let decompress = compresses && self.pushed_compression == PushedCompression::Decompressed;
        self.compression = Some((framing, decompress));
        match self.pushed_compression {
            PushedCompression::FramingAlone if compresses => Err(ignored(
                "packets that the server compresses will be dropped; switch compression off there, or write \
                 `allow-compression asym` to have them decompressed",
            )),
            PushedCompression::Refused if compresses => Err(Refused::Fatal(format!(
                "the server wants compression ({name}), which `allow-compression no` here forbids; switch it off there"
            ))),
            _ => Ok(()),
        }
    }

    /// The keepalive in force: pushed values go before the file's.
    pub(crate) fn keepalive(&self, local: Keepalive) -> Keepalive {
        Keepalive {
            ping: self.ping.or(local.ping),
            timeout: self.ping_timeout.or(local.timeout),
            exit: if self.ping_timeout.is_some() { self.ping_exit } else { local.exit },
        }
    }
}

fn fatal(option: &str) -> Refused {
    Refused::Fatal(format!("the server pushed \"{option}\", which is malformed"))
}

#[cfg(test)]
mod tests {
    use adit_core::{Route, RouteVia, TunnelSettings};

    use super::*;
    use crate::params::LocalSettings;

    pub(super) fn read(options: &[&str]) -> Pushed {
        let mut pushed = Pushed::default();
        for option in options {
            pushed.apply(option).unwrap();
        }
        pushed
    }

    pub(super) fn settings(pushed: &Pushed) -> TunnelSettings {
        pushed.settings(&LocalSettings::default(), false, 1500, "192.0.2.1".parse().unwrap())
    }

    /// OpenVPN's init.c, `do_init_route_list`: there is one default metric.
    #[test]
    fn a_pushed_metric_holds_for_the_files_routes_without_one() {
        let route = |last: u8, via, metric| Route {
            destination: IpNet::new([10, 9, last, 0].into(), 24).unwrap(),
            via,
            metric,
        };
        let tunnel = RouteVia::Tunnel;
        let own = |default| {
            let routes = vec![
                route(1, tunnel, default),
                route(2, tunnel, Some(3)),
                route(3, RouteVia::SystemGateway, None),
            ];
            LocalSettings { routes, route_metric: default, ..LocalSettings::default() }
        };
        let metrics = |pushed: &Pushed, default, nopull| -> Vec<Option<u32>> {
            let settings = pushed.settings(&own(default), nopull, 1500, "192.0.2.1".parse().unwrap());
            settings.routes.iter().map(|route| route.metric).collect()
        };
        let pushed = read(&["route-metric 9"]);
        assert_eq!(metrics(&pushed, None, false), [Some(9), Some(3), None]);
        assert_eq!(metrics(&pushed, Some(5), false), [Some(9), Some(3), None]);
        assert_eq!(metrics(&pushed, Some(5), true), [Some(5), Some(3), None], "route-nopull");
        assert_eq!(metrics(&read(&[]), Some(5), false), [Some(5), Some(3), None]);
    }

    /// A script that is given them runs as root.
    #[test]
    fn scripts_are_given_no_dhcp_option_that_was_not_read() {
        let mut pushed = Pushed::default();
        for option in [
            "dhcp-option DOMAIN $(touch${IFS}pwned)",
            "dhcp-option DNS 10.0.0.1;reboot",
            "dhcp-option DNS 10.0.0.2",
            "dhcp-option DOMAIN-SEARCH -x`id`",
        ] {
            let is_good = option.ends_with("10.0.0.2");
            assert_eq!(pushed.apply(option).is_ok(), is_good, "{option}");
        }
        assert_eq!(pushed.dhcp_options, ["DNS 10.0.0.2"]);
    }

    #[test]
    fn epochs_need_what_they_are_made_of() {
        let (data, gcm) = (DataParams::default(), Cipher::Aes256Gcm);
        let whole = read(&["peer-id 3", "protocol-flags cc-exit tls-ekm aead-epoch"]);
        assert_eq!(whole.refused_epochs(&data, gcm), None);
        let older = DataParams { before_2_7: true, ..DataParams::default() };
        assert!(whole.refused_epochs(&older, gcm).is_some_and(|reason| reason.contains("compat-mode")));
        assert!(whole.refused_epochs(&data, Cipher::Aes256Cbc).is_some());
        assert!(read(&["protocol-flags aead-epoch"]).refused_epochs(&data, gcm).is_some(), "no peer-id");
        assert_eq!(read(&["protocol-flags tls-ekm"]).refused_epochs(&older, Cipher::Aes256Cbc), None);
    }

    #[test]
    fn a_pushed_algorithm_is_what_the_file_makes_of_it() {
        use Compression::{LzoNo, Stub, StubV2};
        use PushedCompression::{Decompressed, FramingAlone};
        let read = |option, accepts| {
            let mut pushed = Pushed::accepting(1600, accepts);
            (pushed.apply(option), pushed.compression)
        };
        for (option, framing) in [
            ("comp-lzo yes", LzoNo),
            ("comp-lzo", LzoNo),
            ("compress lzo", LzoNo),
            ("compress lz4", Stub),
            ("compress lz4-v2", StubV2),
        ] {
            assert_eq!(read(option, Decompressed), (Ok(()), Some((framing, true))), "{option}");
            let (outcome, compression) = read(option, FramingAlone);
            assert!(matches!(outcome, Err(Refused::Ignored(_))), "{option}");
            assert_eq!(compression, Some((framing, false)), "{option}");
            let (outcome, _) = read(option, PushedCompression::Refused);
            assert!(matches!(outcome, Err(Refused::Fatal(_))), "{option}");
        }
        for (option, framing) in [("comp-lzo no", LzoNo), ("compress", Stub), ("compress stub-v2", StubV2)] {
            for accepts in [Decompressed, FramingAlone, PushedCompression::Refused] {
                assert_eq!(read(option, accepts), (Ok(()), Some((framing, false))), "{option}");
            }
        }
    }

    #[test]
    fn reads_what_a_modern_server_pushes() {
        let pushed = read(&[
            "route 10.20.0.0 255.255.0.0",
            "route-gateway 10.8.0.1",
            "topology subnet",
            "ping 10",
            "ping-restart 60",
            "ifconfig-ipv6 fd00::1000/64 fd00::1",
            "ifconfig 10.8.0.2 255.255.255.0",
            "peer-id 3",
            "cipher AES-256-GCM",
            "protocol-flags cc-exit tls-ekm dyn-tls-crypt aead-epoch",
            "tun-mtu 1500",
            "dhcp-option DNS 10.8.0.1",
        ]);
        let settings = settings(&pushed);
        assert_eq!(
            settings.addresses,
            ["10.8.0.2/24".parse().unwrap(), "fd00::1000/64".parse::<IpNet>().unwrap()]
        );
        assert_eq!(settings.routes[0].via, RouteVia::Tunnel);
        assert_eq!(settings.dns.servers, ["10.8.0.1".parse::<IpAddr>().unwrap()]);
        assert!(pushed.exporter && pushed.cc_exit && pushed.dynamic_tls_crypt && pushed.epoch);
        assert_eq!((pushed.peer_id, pushed.cipher), (Some(3), Some(Cipher::Aes256Gcm)));
        assert_eq!(pushed.keepalive(Keepalive::default()).timeout, Some(Duration::from_secs(60)));
    }

    #[test]
    fn net30_is_a_point_to_point_link() {
        let pushed = read(&["route 10.8.0.1", "topology net30", "ifconfig 10.8.0.6 10.8.0.5"]);
        let settings = settings(&pushed);
        assert_eq!(settings.addresses, ["10.8.0.6/32".parse::<IpNet>().unwrap()]);
        assert_eq!(settings.peer_address, Some("10.8.0.5".parse().unwrap()));
        assert_eq!(settings.routes[0].destination, "10.8.0.1/32".parse::<IpNet>().unwrap());
    }

    #[test]
    fn an_ipv6_route_without_a_length_is_a_64() {
        let pushed = read(&["route-ipv6 fd01::7", "route-ipv6 fd02::7/128", "route-ipv6 fd03::/32"]);
        let routes: Vec<String> =
            settings(&pushed).routes.iter().map(|route| route.destination.to_string()).collect();
        assert_eq!(routes, ["fd01::/64", "fd02::7/128", "fd03::/32"]);
    }

    /// Names and addresses that would be commands, or further lines, for the program that passes them on.
    #[test]
    fn cve_2025_10680_what_is_no_name_or_address_sets_nothing() {
        for bad in ["$(reboot)", "`reboot`", "a;reboot", "a|b", "a&b", "a\u{7f}b", "a'b", "a..b", "-n/../x"] {
            for option in [
                format!("dhcp-option DOMAIN {bad}"),
                format!("dhcp-option DOMAIN-SEARCH {bad}"),
                format!("dhcp-option ADAPTER_DOMAIN_SUFFIX {bad}"),
                format!("dhcp-option DNS {bad}"),
                format!("dns search-domains {bad}"),
                format!("dns server 1 resolve-domains corp.example {bad}"),
                format!("dns server 1 address {bad}"),
                format!("dns server 1 sni {bad}"),
            ] {
                let mut pushed = Pushed::default();
                let outcome = pushed.apply(&option);
                let dns = settings(&pushed).dns;
                // A word ends at a blank: the text behind it is another word, and refused as such.
                let refused = matches!(outcome, Err(Refused::Ignored(_)));
                assert!(refused && dns == Dns::default(), "{option:?}: {outcome:?} {dns:?}");
            }
        }
    }

    /// M11.
    #[test]
    fn ipv6_is_blocked_by_the_file_or_the_server() {
        assert!(settings(&read(&["block-ipv6"])).block_ipv6);
        assert!(!settings(&read(&[])).block_ipv6);
        let local = LocalSettings { block_ipv6: true, ..LocalSettings::default() };
        let server = "192.0.2.1".parse().unwrap();
        assert!(read(&[]).settings(&local, false, 1500, server).block_ipv6);
        let pushed = read(&["block-ipv6"]);
        let unheard = pushed.settings(&LocalSettings::default(), true, 1500, server);
        assert!(!unheard.block_ipv6, "route-nopull keeps the server from changing routes");
    }

    #[test]
    fn unknown_is_ignored_and_wrong_is_fatal() {
        let mut pushed = Pushed::default();
        assert!(matches!(pushed.apply("frobnicate 1"), Err(Refused::Ignored(_))));
        assert!(matches!(pushed.apply("ifconfig 10.8.0.2"), Err(Refused::Fatal(_))));
        assert!(matches!(pushed.apply("cipher BF-CBC"), Err(Refused::Fatal(_))));
        assert!(matches!(pushed.apply("route 1.2.3"), Err(Refused::Ignored(_))));
        assert!(matches!(pushed.apply("dhcp-option DOMAIN $(reboot)"), Err(Refused::Ignored(_))));
        assert_eq!(pushed.apply(""), Ok(()));
    }
}
