//! The situations: which end has the script, the files, and the events.

/// The end that has the script, and the kind of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Client,
    /// A client whose servers stand in `<connection>` blocks.
    ClientOfBlocks,
    ClientTcp,
    Server,
    PointConnects,
    PointWaits,
    StaticConnects,
}

/// A step of a situation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The script was called so often.
    Until(&'static str, usize),
    /// SIGUSR1.
    Restart,
    /// The other end is killed and starts again.
    KillOther,
    /// The other end ends and starts again.
    StopOther,
    /// The other end is killed.
    OtherIsGone,
    /// A script that should not be called has time to be.
    Settle,
    /// The program ends by itself.
    EndsItself,
}

/// A situation.
#[derive(Debug)]
pub(super) struct Situation {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) steps: &'static [Step],
}

impl Kind {
    /// The end that has the script is the one that waits.
    pub(super) fn subject_waits(self) -> bool {
        matches!(self, Kind::Server | Kind::PointWaits)
    }

    pub(super) fn is_server(self) -> bool {
        self == Kind::Server
    }

    pub(super) fn is_static(self) -> bool {
        self == Kind::StaticConnects
    }

    pub(super) fn is_tcp(self) -> bool {
        self == Kind::ClientTcp
    }

    /// The lines of all situations of this kind.
    pub(super) fn lines(self, is_server: bool) -> &'static str {
        match (self, is_server) {
            (Kind::Client | Kind::ClientOfBlocks | Kind::Server, true) => {
                "proto udp\nexplicit-exit-notify 1\n"
            }
            (Kind::ClientTcp, true) => "proto tcp-server\n",
            (Kind::Client | Kind::Server, false) => {
                "client\nnobind\nremote-cert-tls server\nconnect-retry 1 1\nremote 10.9.1.1 1194 udp\n"
            }
            (Kind::ClientOfBlocks, false) => "client\nnobind\nremote-cert-tls server\nconnect-retry 1 1\n",
            (Kind::ClientTcp, false) => {
                "client\nnobind\nremote-cert-tls server\nconnect-retry 1 1\nremote 10.9.1.1 1194 tcp-client\n"
            }
            (Kind::PointConnects | Kind::PointWaits, true) => {
                "proto udp\ntls-server\nifconfig 10.4.0.1 10.4.0.2\nkeepalive 1 4\n"
            }
            (Kind::PointConnects | Kind::PointWaits, false) => {
                "proto udp\ntls-client\nifconfig 10.4.0.2 10.4.0.1\nremote 10.9.1.1 1194\nkeepalive 1 4\nconnect-retry 1 1\n\
                 remote-cert-tls server\n"
            }
            (Kind::StaticConnects, true) => {
                "proto udp\ncipher AES-256-CBC\nifconfig 10.4.0.1 10.4.0.2\nkeepalive 1 4\n\
                 setenv opt allow-deprecated-insecure-static-crypto\n"
            }
            (Kind::StaticConnects, false) => {
                "proto udp\ncipher AES-256-CBC\nifconfig 10.4.0.2 10.4.0.1\nremote 10.9.1.1 1194\nkeepalive 1 4\n\
                 setenv opt allow-deprecated-insecure-static-crypto\n"
            }
        }
    }
}

const SUBNET: &str = "server 10.8.0.0 255.255.255.0\ntopology subnet\n";
const BOTH: &str = "server 10.8.0.0 255.255.255.0\ntopology subnet\nserver-ipv6 fd00:8::/64\n";
const IS_UP: &[Step] = &[Step::Until("route-up", 1)];
/// OpenVPN reports an order by another word while it still starts.
const HAS_STARTED: &[Step] = &[Step::Until("route-up", 1), Step::Settle];
const RESTARTS: &[Step] = &[Step::Until("route-up", 1), Step::Restart, Step::Until("route-up", 2)];
const RESTARTS_IN_PLACE: &[Step] =
    &[Step::Until("route-up", 1), Step::Restart, Step::Until("ipchange", 2), Step::Settle];

const fn client(name: &'static str, server: &'static str, client: &'static str) -> Situation {
    Situation { name, kind: Kind::Client, server, client, steps: IS_UP }
}

#[rustfmt::skip]
pub(super) static SITUATIONS: &[Situation] = &[
    client("subnet", SUBNET, ""),
    client("subnet, both families", BOTH, ""),
    client("IPv6 alone", "server-ipv6 fd00:8::/64\ntopology subnet\n", ""),
    client("net30", "server 10.8.0.0 255.255.255.0\ntopology net30\npush \"route 10.99.0.0 255.255.0.0\"\n", ""),
    client("p2p", "server 10.8.0.0 255.255.255.0\ntopology p2p\n", ""),
    client("pushed routes", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"route 10.20.0.0 255.255.0.0\"\n\
        push \"route 10.21.0.0 255.255.0.0 vpn_gateway 7\"\npush \"route 10.22.0.1\"\npush \"route 10.23.0.0 255.255.0.0 10.8.0.9\"\n", ""),
    client("pushed routes of IPv6", "server 10.8.0.0 255.255.255.0\ntopology subnet\nserver-ipv6 fd00:8::/64\n\
        push \"route-ipv6 fd00:20::/64\"\npush \"route-ipv6 fd00:21::/64 fd00:8::9 5\"\n", ""),
    client("routes of the file", BOTH, "route 10.77.0.0 255.255.0.0 net_gateway 5\nroute 10.78.0.0 255.255.0.0\n\
        route 10.79.0.0 255.255.0.0 10.8.0.7\nroute-ipv6 fd00:99::/64\n"),
    client("a metric for all routes", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"route 10.20.0.0 255.255.0.0\"\n",
        "route 10.77.0.0 255.255.0.0\nroute-metric 12\n"),
    client("a pushed metric", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"route-metric 9\"\n\
        push \"route 10.20.0.0 255.255.0.0\"\n", ""),
    client("redirect-gateway", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"redirect-gateway def1\"\n", ""),
    client("redirect-gateway of both families", "server 10.8.0.0 255.255.255.0\ntopology subnet\nserver-ipv6 fd00:8::/64\n\
        push \"redirect-gateway def1 ipv6\"\n", ""),
    client("pushed name servers", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"dhcp-option DNS 10.8.0.1\"\n\
        push \"dhcp-option DOMAIN a.example\"\npush \"dhcp-option DNS 10.8.0.3\"\npush \"dhcp-option WINS 10.8.0.4\"\n", ""),
    client("pushed dns lines", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"dns server 1 address 10.8.0.1 10.8.0.2\"\n\
        push \"dns server 1 resolve-domains corp.example\"\npush \"dns search-domains a.example b.example\"\n\
        push \"dhcp-option DNS 10.8.0.3\"\n", ""),
    client("name servers of the file", SUBNET, "dhcp-option DNS 9.9.9.9\n"),
    client("variables", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"setenv-safe PUSHED yes\"\n",
        "setenv OWN value\nsetenv-safe ALSO other\n"),
    client("a smaller MTU", "server 10.8.0.0 255.255.255.0\ntopology subnet\ntun-mtu 1400\n", "tun-mtu 1400\n"),
    Situation { name: "TCP", kind: Kind::ClientTcp, server: SUBNET, client: "", steps: IS_UP },
    client("two servers", SUBNET, "remote 10.9.1.1 1195 udp4\nremote 10.9.1.1 1194 udp\n"),
    Situation { name: "servers behind proxies", kind: Kind::ClientOfBlocks, server: SUBNET, steps: IS_UP, client: "<connection>\nremote 10.9.1.1 1194 udp\n</connection>\n\
        <connection>\nremote 10.9.1.1 1195 tcp-client\nhttp-proxy 10.9.1.1 3128\n</connection>\n\
        <connection>\nremote 10.9.1.1 1196 tcp-client\nsocks-proxy 10.9.1.2 1080\n</connection>\n" },
    Situation { name: "SIGUSR1", kind: Kind::Client, server: BOTH, client: "", steps: RESTARTS },
    Situation { name: "SIGUSR1 with persist-tun", kind: Kind::Client, server: BOTH, client: "persist-tun\n", steps: RESTARTS_IN_PLACE },
    Situation { name: "SIGUSR1 with up-restart", kind: Kind::Client, server: BOTH, client: "persist-tun\nup-restart\n",
        steps: &[Step::Until("route-up", 1), Step::Restart, Step::Until("up", 2), Step::Settle] },
    Situation { name: "ping-restart", kind: Kind::Client, server: SUBNET, client: "ping 1\nping-restart 3\n",
        steps: &[Step::Until("route-up", 1), Step::KillOther, Step::Until("route-up", 2)] },
    Situation { name: "the server restarts", kind: Kind::Client, server: SUBNET, client: "",
        steps: &[Step::Until("route-up", 1), Step::StopOther, Step::Until("route-up", 2)] },
    Situation { name: "a broken connection", kind: Kind::ClientTcp, server: SUBNET, client: "",
        steps: &[Step::Until("route-up", 1), Step::KillOther, Step::Until("route-up", 2)] },
    Situation { name: "ping-exit", kind: Kind::Client, server: SUBNET, client: "ping 1\nping-exit 2\n",
        steps: &[Step::Until("route-up", 1), Step::OtherIsGone, Step::EndsItself] },
    client("ifconfig-noexec and route-noexec", "server 10.8.0.0 255.255.255.0\ntopology subnet\nserver-ipv6 fd00:8::/64\n\
        push \"route 10.20.0.0 255.255.0.0\"\npush \"redirect-gateway def1\"\n", "ifconfig-noexec\nroute-noexec\n"),
    client("route-nopull", "server 10.8.0.0 255.255.255.0\ntopology subnet\npush \"route 10.20.0.0 255.255.0.0\"\n\
        push \"dhcp-option DNS 10.8.0.1\"\n", "route-nopull\nroute 10.77.0.0 255.255.0.0\n"),
    client("down-pre", SUBNET, "down-pre\n"),
    client("explicit-exit-notify", SUBNET, "explicit-exit-notify 1\n"),
    client("route-delay", SUBNET, "route-delay 1\n"),
    Situation { name: "a user", kind: Kind::Client, server: SUBNET, client: "user nobody\ngroup nogroup\npersist-key\n",
        steps: IS_UP },
    Situation { name: "a server", kind: Kind::Server, server: "server 10.8.0.0 255.255.255.0\ntopology subnet\n", client: "", steps: HAS_STARTED },
    Situation { name: "a server with routes", kind: Kind::Server, server: "server 10.8.0.0 255.255.255.0\ntopology subnet\n\
        server-ipv6 fd00:8::/64\nroute 10.33.0.0 255.255.0.0 10.8.0.9\nroute 10.34.0.0 255.255.0.0\nroute-ipv6 fd00:33::/64\n\
        user nobody\ngroup nogroup\n", client: "", steps: HAS_STARTED },
    Situation { name: "a server restarts", kind: Kind::Server, server: "server 10.8.0.0 255.255.255.0\ntopology subnet\n", client: "",
        steps: &[Step::Until("route-up", 1), Step::Settle, Step::Restart, Step::Until("route-up", 2), Step::Settle] },
    Situation { name: "point-to-point, connecting", kind: Kind::PointConnects, server: "", client: "route 10.66.0.0 255.255.0.0\n",
        steps: &[Step::Until("route-up", 1), Step::Until("ipchange", 1)] },
    Situation { name: "point-to-point, waiting", kind: Kind::PointWaits, server: "ifconfig-ipv6 fd00:4::1/64 fd00:4::2\nroute 10.67.0.0 255.255.0.0\n", client: "",
        steps: &[Step::Until("route-up", 1), Step::Until("ipchange", 1)] },
    Situation { name: "point-to-point, waiting, restart", kind: Kind::PointWaits, server: "", client: "",
        steps: &[Step::Until("ipchange", 1), Step::Restart, Step::Until("route-up", 2), Step::Settle] },
    Situation { name: "static key, connecting", kind: Kind::StaticConnects, server: "", client: "",
        steps: &[Step::Until("route-up", 1), Step::Until("ipchange", 1)] },
];
