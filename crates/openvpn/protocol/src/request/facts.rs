/// The facts of the peer for scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFacts {
    /// Their environment, with the variables that hold for all scripts.
    pub env: Vec<(String, String)>,
    /// Where the peer is, in OpenVPN's form: `[AF_INET]192.0.2.1 1194`.
    pub address: String,
}

/// The facts of our end of the tunnel for scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelFacts {
    /// Their environment, with the variables that hold for all scripts, but for those of the routes.
    pub env: Vec<(String, String)>,
    /// The variables of the routes.
    pub routes: Vec<(String, String)>,
    /// Further ones, whose value is the system's default gateway.
    pub gateways: Vec<GatewayVariable>,
    /// Our IPv4 address, or nothing.
    pub local: String,
    /// The other end's IPv4 address of a point-to-point link, or else the netmask, or nothing.
    pub remote: String,
}

/// An environment variable whose value is the system's default gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayVariable {
    /// Its name.
    pub name: String,
    /// Whether the gateway is that of IPv6.
    pub ipv6: bool,
}
