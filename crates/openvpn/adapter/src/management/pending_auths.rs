//! Clients of a server that programs at the socket judge (`management-client-auth`): the programs' events about them, and
//! the answers that may still be given. All programs hear of a client; the first that answers is the one that judges it.
//!
//! Source of the words: OpenVPN manage.c, doc/management-notes.txt ("The CLIENT notification").

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::{IpNet, UnixTime};
use adit_openvpn::request::{ClientEvent, ClientStep};

use super::program::ProgramId;
use crate::management::output::Output;

/// The answers that programs may give about a client, by the client's number.
#[derive(Clone, Default)]
pub(super) struct PendingAuths(Arc<Mutex<BTreeMap<u64, PendingAuth>>>);

/// Where a client stands.
struct PendingAuth {
    /// The number of its latest keys.
    key: u32,
    /// The latest keys are not judged yet.
    waits: bool,
    /// The program that judges these keys: the first that answered.
    judge: Option<ProgramId>,
}

impl PendingAuths {
    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, PendingAuth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to a client.
    pub(super) fn note(&self, event: &ClientEvent) {
        match event.step {
            ClientStep::AuthRequest { key, .. } => {
                let auth = PendingAuth { key, waits: true, judge: None };
                self.clients().insert(event.client, auth);
            }
            ClientStep::Disconnected => {
                self.clients().remove(&event.client);
            }
            ClientStep::Established { .. }
            | ClientStep::Addressed { .. }
            | ClientStep::ChallengeResponse { .. } => {}
        }
    }

    /// Whether these are the client's latest keys, and not judged yet.
    pub(super) fn waits(&self, client: u64, key: u32) -> bool {
        self.clients().get(&client).is_some_and(|auth| auth.key == key && auth.waits)
    }

    /// Has `program` judge these keys of a client, if no other program does. Whether it is the judge.
    pub(super) fn claim(&self, client: u64, key: u32, program: ProgramId) -> bool {
        let mut clients = self.clients();
        let Some(auth) = clients.get_mut(&client).filter(|auth| auth.key == key) else { return true };
        *auth.judge.get_or_insert(program) == program
    }

    /// A program has left: others may judge the clients that it had not judged.
    pub(super) fn leave(&self, program: ProgramId) {
        for auth in self.clients().values_mut() {
            auth.judge.take_if(|judge| *judge == program);
        }
    }

    /// Whether programs were asked about that client, who has not left.
    pub(super) fn knows(&self, client: u64) -> bool {
        self.clients().contains_key(&client)
    }

    /// Whether these are the client's latest keys.
    pub(super) fn is_there(&self, client: u64, key: u32) -> bool {
        self.clients().get(&client).is_some_and(|auth| auth.key == key)
    }

    /// Its latest keys were judged.
    pub(super) fn judged(&self, client: u64) {
        if let Some(auth) = self.clients().get_mut(&client) {
            auth.waits = false;
        }
    }
}

/// An event for a program, all of it or nothing.
pub(super) struct Told {
    pub(super) event: ClientEvent,
    /// How many clients there are.
    pub(super) clients: usize,
    /// The tunnel's device.
    pub(super) device: String,
    /// When the tunnel was set up.
    pub(super) since: UnixTime,
}

impl Told {
    /// About how many bytes it takes up.
    pub(super) fn size(&self) -> usize {
        let env: usize = self.event.env.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let step = match &self.event.step {
            ClientStep::AuthRequest { password, .. } => password.len(),
            ClientStep::ChallengeResponse { response, .. } => response.len(),
            ClientStep::Established { networks } => networks.len() * size_of::<(IpNet, bool)>(),
            ClientStep::Addressed { .. } | ClientStep::Disconnected => 0,
        };
        size_of::<Told>() + env + step
    }

    /// Writes it, with as much of the environment as the program wants (`env-filter`).
    pub(super) fn print(&self, level: i64, out: &mut Output) {
        let ClientEvent { client, step, .. } = &self.event;
        match step {
            ClientStep::AuthRequest { key, again, .. } => {
                let what = if *again { "REAUTH" } else { "CONNECT" };
                out.line(&format!(">CLIENT:{what},{client},{key}"));
            }
            ClientStep::ChallengeResponse { key, response } => {
                out.secret(&[&format!(">CLIENT:CR_RESPONSE,{client},{key},"), response]);
            }
            // As OpenVPN's `management_learn_addr`: a line without an environment.
            ClientStep::Addressed { network } => {
                return out.line(&format!(">CLIENT:ADDRESS,{client},{},1", shown(*network)));
            }
            ClientStep::Established { networks } => {
                for (network, own) in networks {
                    out.line(&format!(">CLIENT:ADDRESS,{client},{},{}", shown(*network), u8::from(*own)));
                }
                out.line(&format!(">CLIENT:ESTABLISHED,{client}"));
            }
            ClientStep::Disconnected => out.line(&format!(">CLIENT:DISCONNECT,{client}")),
        }
        self.print_env(level, out);
        out.line(">CLIENT:ENV,END");
    }

    fn print_env(&self, level: i64, out: &mut Output) {
        let ClientEvent { step, env, .. } = &self.event;
        let mut print = |name: &str, value: &str| {
            // Variables that a client sends pass every filter, as long as it is being judged.
            let told = matches!(step, ClientStep::AuthRequest { .. } | ClientStep::ChallengeResponse { .. });
            if passes(name, level) || (told && (name.starts_with("IV_") || name.starts_with("UV_"))) {
                out.secret(&[">CLIENT:ENV,", name, "=", value]);
            }
        };
        if *step != ClientStep::Disconnected {
            print("n_clients", &self.clients.to_string());
        }
        for (name, value) in env {
            print(name, value);
        }
        if let ClientStep::AuthRequest { password, .. } = step {
            print("password", password);
        }
        // Of a client that was never in, no more is said than its number.
        if !env.is_empty() {
            print("dev", &self.device);
            print("daemon_pid", &std::process::id().to_string());
            print("daemon_start_time", &self.since.0.to_string());
        }
    }
}

/// Whether a variable passes the filter of that level (OpenVPN manage.c `env_filter_match`).
fn passes(name: &str, level: i64) -> bool {
    let named = || {
        name.starts_with("tls_serial_")
            || matches!(
                name,
                "username"
                    | "password"
                    | "X509_0_CN"
                    | "untrusted_ip"
                    | "ifconfig_local"
                    | "ifconfig_netmask"
                    | "daemon_start_time"
                    | "daemon_pid"
                    | "dev"
                    | "ifconfig_pool_remote_ip"
                    | "ifconfig_pool_netmask"
                    | "time_duration"
                    | "bytes_sent"
                    | "bytes_received"
                    | "session_id"
                    | "session_state"
            )
    };
    match level {
        0 => true,
        ..=1 => name.starts_with("X509_") || named(),
        2 => named(),
        _ => false,
    }
}

/// An address, or a network with its netmask (IPv6: its length).
fn shown(network: IpNet) -> String {
    match network {
        _ if network.prefix_len() == network.max_prefix_len() => network.addr().to_string(),
        IpNet::V4(network) => format!("{}/{}", network.addr(), network.netmask()),
        IpNet::V6(network) => network.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: ClientStep, env: &[(&str, &str)]) -> Told {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Told {
            event: ClientEvent { client: 7, step, env },
            clients: 2,
            device: "tun3".to_owned(),
            since: UnixTime(77),
        }
    }

    fn asks(key: u32, again: bool) -> ClientStep {
        ClientStep::AuthRequest { key, again, password: "p w".to_owned().into() }
    }

    fn printed(told: &Told, level: i64) -> Vec<String> {
        let mut out = Output::default();
        told.print(level, &mut out);
        let text = String::from_utf8_lossy(out.waiting()).into_owned();
        text.split_terminator("\r\n").map(str::to_owned).collect()
    }

    const ENV: [(&str, &str); 5] = [
        ("IV_VER", "2.6"),
        ("X509_1_CN", "authority"),
        ("X509_0_CN", "ann"),
        ("untrusted_port", "5"),
        ("username", "a\nb"),
    ];

    #[test]
    fn a_question_is_told() {
        let pid = format!(">CLIENT:ENV,daemon_pid={}", std::process::id());
        assert_eq!(
            printed(&told(asks(1, false), &ENV), 0),
            [
                ">CLIENT:CONNECT,7,1",
                ">CLIENT:ENV,n_clients=2",
                ">CLIENT:ENV,IV_VER=2.6",
                ">CLIENT:ENV,X509_1_CN=authority",
                ">CLIENT:ENV,X509_0_CN=ann",
                ">CLIENT:ENV,untrusted_port=5",
                ">CLIENT:ENV,username=a b",
                ">CLIENT:ENV,password=p w",
                ">CLIENT:ENV,dev=tun3",
                &pid,
                ">CLIENT:ENV,daemon_start_time=77",
                ">CLIENT:ENV,END",
            ]
        );
        assert_eq!(printed(&told(asks(2, true), &ENV), 0)[0], ">CLIENT:REAUTH,7,2");
    }

    #[test]
    fn a_filter_lets_less_through() {
        let names = |step, level| -> String {
            let lines = printed(&told(step, &ENV), level);
            let name = |line: &String| Some(line.strip_prefix(">CLIENT:ENV,")?.split_once('=')?.0.to_owned());
            lines.iter().filter_map(name).collect::<Vec<_>>().join(" ")
        };
        let process = "dev daemon_pid daemon_start_time";
        for level in [1, -1] {
            let all = format!("IV_VER X509_1_CN X509_0_CN username password {process}");
            assert_eq!(names(asks(1, false), level), all);
        }
        assert_eq!(names(asks(1, false), 2), format!("IV_VER X509_0_CN username password {process}"));
        assert_eq!(names(asks(1, false), 3), "IV_VER");
        assert_eq!(names(ClientStep::Disconnected, 2), format!("X509_0_CN username {process}"));
        assert_eq!(names(ClientStep::Disconnected, 3), "");
    }

    #[test]
    fn addresses_answers_and_the_end_are_told() {
        let networks = ["10.8.0.2/32 1", "fd00::2/128 1", "192.168.7.0/24 0", "fd07::/48 0"].map(|text| {
            let (network, own) = text.split_once(' ').expect("two words");
            (network.parse().expect("a network"), own == "1")
        });
        let lines = printed(&told(ClientStep::Established { networks: networks.to_vec() }, &[]), 0);
        assert_eq!(
            lines,
            [
                ">CLIENT:ADDRESS,7,10.8.0.2,1",
                ">CLIENT:ADDRESS,7,fd00::2,1",
                ">CLIENT:ADDRESS,7,192.168.7.0/255.255.255.0,0",
                ">CLIENT:ADDRESS,7,fd07::/48,0",
                ">CLIENT:ESTABLISHED,7",
                ">CLIENT:ENV,n_clients=2",
                ">CLIENT:ENV,END",
            ]
        );
        let network = "10.8.0.9/32".parse().expect("a network");
        assert_eq!(
            printed(&told(ClientStep::Addressed { network }, &[]), 0),
            [">CLIENT:ADDRESS,7,10.8.0.9,1"]
        );
        let response = ClientStep::ChallengeResponse { key: 3, response: "MTIz".to_owned().into() };
        assert_eq!(printed(&told(response, &[]), 3), [">CLIENT:CR_RESPONSE,7,3,MTIz", ">CLIENT:ENV,END"]);
        assert_eq!(
            printed(&told(ClientStep::Disconnected, &[]), 0),
            [">CLIENT:DISCONNECT,7", ">CLIENT:ENV,END"]
        );
    }

    #[test]
    fn who_is_asked_about_is_remembered_until_it_leaves() {
        let pending_auths = PendingAuths::default();
        let stands = |key| (pending_auths.is_there(7, key), pending_auths.waits(7, key));
        assert_eq!(stands(1), (false, false));
        pending_auths.note(&told(asks(1, false), &[]).event);
        assert_eq!((stands(1), stands(2)), ((true, true), (false, false)));
        pending_auths.judged(7);
        assert_eq!(stands(1), (true, false));
        pending_auths.note(&told(asks(2, true), &[]).event);
        assert_eq!((stands(1), stands(2)), ((false, false), (true, true)));
        pending_auths.note(&told(ClientStep::Disconnected, &[]).event);
        assert_eq!(stands(2), (false, false));
        pending_auths.judged(7);
        assert!(pending_auths.clients().is_empty());
    }
}
