//! Settings of a server only: addresses, admission, access, and settings of one client.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use adit_core::Rate;
use adit_core::{IpNet, Ipv4Net, Ipv6Net};
use adit_openvpn::access::PasswordScript;
use adit_openvpn::params::TlsCryptV2;
use adit_pki::CertificateDemand;

use super::{Listen, PasswordBackEnd};
use crate::TokenSecret;

/// The settings of a server. Its topology is always `subnet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Our IPv4 address and the addresses for clients.
    pub ipv4: Option<ServerIpv4>,
    /// Our IPv6 address and the addresses for clients.
    pub ipv6: Option<ServerIpv6>,
    /// The options to push, in order, as text: those of the file and those that `server`, `server-ipv6`,
    /// `keepalive` and `tcp-nodelay` stand for. Without `ifconfig`, `peer-id` and `cipher`, which differ from
    /// client to client.
    pub push: Vec<String>,
    /// Carry packets from client to client (`client-to-client`).
    pub client_to_client: bool,
    /// Where packets of clients are forwarded to beyond this machine (`#adit: forward`); a prefix of length 0 is the internet.
    pub forward: Vec<IpNet>,
    /// Let several clients use the same certificate name (`duplicate-cn`).
    pub duplicate_cn: bool,
    /// The other server that gets the connections to its TCP ports that are no client's (`port-share`).
    pub port_share: Option<PortShare>,
    /// How many clients at once (default 1024).
    pub max_clients: u32,
    /// How initial packets of unauthenticated peers are answered.
    pub admission: Admission,
    /// On shutdown, tell clients to reconnect (1) or to try their next remote (2); 0 sends nothing
    /// (`explicit-exit-notify`).
    pub exit_notify: u8,
    /// The settings that differ from client to client.
    pub per_client: PerClient,
    /// The conditions for clients to be let in, and the scripts that run.
    pub access: Access,
}

/// `port-share`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShare {
    /// Name or address of the other server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A directory that has a file for each of these connections, with the address that it comes from.
    pub journal: Option<PathBuf>,
}

/// The conditions for clients to be let in by a server besides certificates, and the scripts that run for it.
/// Each command is a program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether clients must show certificates (`verify-client-cert`).
    pub certificates: CertificateDemand,
    /// The script that verifies usernames and passwords (`auth-user-pass-verify`).
    pub verify: Option<PasswordScript>,
    /// The programs that judge usernames and passwords, too (`plugin`). All must accept.
    pub back_ends: Vec<PasswordBackEnd>,
    /// The management client authenticates clients, too, and gets their events (`management-client-auth`).
    pub management: bool,
    /// Clients without username and password are passed to the script, too (`auth-user-pass-optional`).
    pub optional: bool,
    /// A client's name is its username (`username-as-common-name`).
    pub username_as_name: bool,
    /// Clients get tokens in place of their passwords (`auth-gen-token`).
    pub tokens: Option<TokenTimes>,
    /// The key of the tokens (`auth-gen-token-secret`); without, each start makes a new one.
    pub token_secret: Option<TokenSecret>,
    /// Judges each certificate (`tls-verify`).
    pub tls_verify: Option<Vec<String>>,
    /// The command of [`Access::tls_verify`] gets the certificate in a file (`tls-export-cert`).
    pub export_certificates: bool,
    /// Judges the metadata of clients' own tls-crypt-v2 keys (`tls-crypt-v2-verify`).
    pub key_verify: Option<Vec<String>>,
    /// Judges clients' answers to a question of [`Access::verify`] (`client-crresponse`).
    pub client_crresponse: Option<Vec<String>>,
    /// Judges each client that has its addresses (`client-connect`).
    pub client_connect: Option<Vec<String>>,
    /// Runs when a client is gone (`client-disconnect`).
    pub client_disconnect: Option<Vec<String>>,
    /// Runs for each address that a client gets or gives up (`learn-address`).
    pub learn_address: Option<Vec<String>>,
    /// Environment of all scripts (`setenv`).
    pub env: Vec<(String, String)>,
}

impl Access {
    /// Whether a script takes part.
    pub(crate) fn has_scripts(&self) -> bool {
        let Access { tls_verify, key_verify, client_crresponse, client_connect, client_disconnect, .. } =
            self;
        let scripts = [tls_verify, key_verify, client_crresponse, client_connect, client_disconnect];
        self.verify.is_some() || self.learn_address.is_some() || scripts.iter().any(|script| script.is_some())
    }
}

/// `auth-gen-token`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenTimes {
    /// How long tokens are good after the first authentication; `None` without end.
    pub lifetime: Option<Duration>,
    /// Half of how long one token is good; `None` for as long as a key lives.
    pub renewal: Option<Duration>,
    /// The script verifies tokens too (`external-auth`).
    pub external: bool,
}

/// The settings of a server for single clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerClient {
    /// A directory with a file for each client (`client-config-dir`), which [`crate::parse_client_file`]
    /// reads.
    pub directory: Option<PathBuf>,
    /// Clients without a file of their own are not let in (`ccd-exclusive`).
    pub exclusive: bool,
    /// The file of the pool's addresses and their owners (`ifconfig-pool-persist`).
    pub pool_file: Option<PoolFile>,
}

/// `ifconfig-pool-persist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFile {
    /// Which file.
    pub path: PathBuf,
    /// How often it is written; `None` never.
    pub every: Option<Duration>,
}

/// How a server meets clients that it does not know yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Clients with a key of their own (`tls-crypt-v2`), beside those whose wrapping
    /// [`Config::wrap`](super::Config::wrap) names.
    pub tls_crypt_v2: Option<TlsCryptV2>,
    /// New clients at most (`connect-freq`); `None` without limit.
    pub connect_freq: Option<Rate>,
    /// Answers at most to first packets from one address (`connect-freq-initial`); `None` for the default, 100 in
    /// 10 s.
    pub connect_freq_initial: Option<Rate>,
}

/// A server's inner IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIpv4 {
    /// Our address with the network's prefix length.
    pub address: Ipv4Net,
    /// First and last address for clients, within the network; `None` gives out none.
    pub pool: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// A server's inner IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIpv6 {
    /// Our address with the network's prefix length.
    pub address: Ipv6Net,
    /// First address for clients, with the prefix length that is pushed to them; the pool ends with the network.
    pub pool: Option<Ipv6Net>,
}
