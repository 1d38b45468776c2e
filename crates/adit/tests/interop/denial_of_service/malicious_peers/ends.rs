//! adit and the malicious peer, one of them a client and the other a server.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use adit_core::{Transport, UnixTime};
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls, server_tls};
use adit_openvpn::params::{AuthRetry, ClientParams, ControlParams, RemoteParams, ServerParams, UserAuth};
use adit_openvpn::request::UserPassword;
use adit_openvpn::testing::{Authority, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};
use adit_testbed::{Purpose, Scratch, Validity};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::time_provider::DefaultTimeProvider;

use super::peer::Peer;
use crate::bed::{Bed, Host};
use crate::options::{Options, Program};

/// Where the server is.
const SERVER: &str = "10.9.1.1:1194";
/// The scripts of an adit that is a client.
const OF_CLIENT: [&str; 6] = ["tls-verify", "ipchange", "up", "route-up", "route-pre-down", "down"];
/// The scripts of an adit that is a server.
const OF_SERVER: [&str; 6] = [
    "tls-verify",
    "auth-user-pass-verify",
    "client-connect",
    "learn-address",
    "client-crresponse",
    "client-disconnect",
];

/// A script that asks a question, and leaves the client waiting.
const ASK: &str = "printf '600\\ncrtext\\nCR_TEXT:R,E:Code?\\n' >\"$auth_pending_file\"\nexit 2\n";

/// The end that suffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sufferer {
    /// A client that is connected.
    Client,
    /// A server that has the client connected.
    Server,
    /// A server that has asked the client a question, and waits for the answer.
    AskingServer,
}

/// An adit that suffers, and its malicious peer.
pub(super) struct Ends {
    sufferer: Sufferer,
    started: bool,
    /// The malicious end, which ends before the namespace that it is in.
    peer: Peer,
    bed: Bed,
}

impl Ends {
    /// An end with a script for each occasion, which `recorder` makes of its name and of what it does at last. Nothing is started
    /// but the malicious end.
    pub(super) fn new(
        sufferer: Sufferer,
        recorder: &dyn Fn(&str, &str) -> PathBuf,
        scratch: &Scratch,
    ) -> Ends {
        let credentials = RefCell::new(None);
        let bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |authority, texts| {
            let purpose = if sufferer == Sufferer::Client { Purpose::Server } else { Purpose::Client };
            let identity = authority.issue("mallory", purpose, Validity::Now).unwrap();
            credentials.replace(Some(Credentials {
                ca: authority.certificate.clone().into_bytes(),
                certificate: identity.certificate.into_bytes(),
                private_key: identity.key.into_bytes().into(),
            }));
            // The malicious end has no data plane, which would answer pings.
            let lines = [
                ("reneg-sec 10", "reneg-sec 0"),
                ("hand-window 5", ""),
                ("keepalive 1 5", "keepalive 60 600"),
            ];
            for (text, names) in texts.iter_mut().zip([OF_SERVER, OF_CLIENT]) {
                lines.iter().for_each(|(old, new)| *text = text.replace(old, new));
                text.push_str("script-security 2\n");
                for name in names {
                    let is_verifier = name == "auth-user-pass-verify";
                    let asks = is_verifier && sufferer == Sufferer::AskingServer;
                    let script = recorder(name, if asks { ASK } else { "" });
                    let way = if is_verifier { " via-file" } else { "" };
                    text.push_str(&format!("{name} {}{way}\n", script.display()));
                }
            }
        });
        let mut bed = bed.unwrap();
        let resolver = scratch.write("resolv.conf", "nameserver 192.0.2.53\n").unwrap();
        bed.clients[0].arguments(&["--resolv-conf", resolver.to_str().unwrap()]);
        let credentials = credentials.into_inner().unwrap();
        let server: SocketAddr = SERVER.parse().unwrap();
        let peer = match sufferer {
            Sufferer::Client => Peer::server(&bed.server.namespace, server, server_of(&credentials)),
            Sufferer::Server | Sufferer::AskingServer => {
                Peer::client(&bed.clients[0].namespace, server, move || client_of(&credentials))
            }
        };
        Ends { sufferer, started: false, peer, bed }
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The end that suffers.
    pub(super) fn adit(&mut self) -> &mut Host {
        match self.sufferer {
            Sufferer::Client => &mut self.bed.clients[0],
            Sufferer::Server | Sufferer::AskingServer => &mut self.bed.server,
        }
    }

    /// Starts the end that suffers.
    pub(super) fn start(&mut self) {
        self.adit().start().unwrap();
        self.started = true;
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.started && self.adit().process().is_running()
    }

    /// KiB of memory of its processes.
    pub(super) fn memory(&mut self) -> u64 {
        resident(self.adit().process().id())
    }

    pub(super) fn logs(&self) -> String {
        self.bed.logs()
    }
}

/// KiB of memory of a process and of those that it has started.
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let own: u64 = own.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = lists.collect::<String>().split_whitespace().flat_map(str::parse).collect();
    own + children.into_iter().map(resident).sum::<u64>()
}

fn environment() -> TlsEnvironment {
    TlsEnvironment::new(Arc::new(DefaultTimeProvider))
}

fn wall() -> UnixTime {
    UnixTime(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs())
}

fn server_of(credentials: &Credentials) -> ServerParams {
    let tls = server_tls(credentials, PeerRequirements::default(), &environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Server(tls), wall());
    let push = ["route-gateway 10.8.0.1", "topology subnet"].map(str::to_owned).to_vec();
    // `server_params` judges certificates by a clock of its own, by which those of this test are not valid yet: it gets others,
    // which nothing uses.
    let others = Authority::new().issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    ServerParams { control, push, ..server_params(&others, WrapConfig::Plain) }
}

fn client_of(credentials: &Credentials) -> ClientParams {
    let tls = client_tls(credentials, PeerRequirements::default(), &environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Client(tls), wall());
    let remote = RemoteParams::new("server".to_owned(), Transport::Udp);
    let login = UserPassword { username: "mallory".to_owned(), password: "secret".to_owned().into() };
    let auth = UserAuth {
        credentials: Some(login),
        retry: AuthRetry::NoInteract,
        nocache: false,
        by_program: false,
        challenge: None,
    };
    let peer_info = vec![("IV_SSO".to_owned(), "crtext".to_owned())];
    ClientParams { auth: Some(auth), peer_info, ..ClientParams::new(control, vec![remote]) }
}
