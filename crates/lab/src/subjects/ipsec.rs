//! IKEv2 and ESP: adit and strongSwan, each at both ends, and one at either end. Both read files of one form.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{Namespace, TestbedError};

use super::strongswan::{self, Daemon, Place};
use super::{Availability, Subject, Tools, Tunnel, adit, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

const ENDS: [&str; 2] = ["server", "client"];
/// How long adit may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The line of adit's log when it listens.
const READY: &str = "tunnel up";
/// The words of adit's log for a child SA whose ESP goes in UDP.
const IN_UDP: &str = "ESP in UDP";

/// A program that runs an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Adit,
    StrongSwan(Place),
}

use Program::{Adit, StrongSwan};

/// The algorithms of ESP.
#[derive(Clone, Copy, Debug)]
struct Suite {
    suffix: &'static str,
    words: &'static str,
    /// In swanctl.conf's language.
    proposal: &'static str,
}

const AES_256_GCM: Suite = Suite { suffix: "", words: "AES-256-GCM", proposal: "aes256gcm16" };
/// The suites that are measured with one program at both ends.
const SUITES: [Suite; 4] = [
    AES_256_GCM,
    Suite { suffix: "-aes128", words: "AES-128-GCM", proposal: "aes128gcm16" },
    Suite { suffix: "-chacha20", words: "ChaCha20-Poly1305", proposal: "chacha20poly1305" },
    Suite { suffix: "-cbc", words: "AES-256-CBC with HMAC-SHA2-256", proposal: "aes256-sha256" },
];

/// A tunnel between two programs, or between two processes of one.
#[derive(Debug)]
struct Ipsec {
    server: Program,
    client: Program,
    suite: Suite,
    /// Whether ESP of adit must go as an IP protocol, and not in UDP.
    is_raw: bool,
}

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let programs = [Adit, StrongSwan(Place::UserSpace), StrongSwan(Place::Kernel)];
    let same = programs.into_iter().flat_map(|program| {
        SUITES.map(|suite| Ipsec { server: program, client: program, suite, is_raw: false })
    });
    let raw = Ipsec { server: Adit, client: Adit, suite: AES_256_GCM, is_raw: true };
    let mixed = programs.into_iter().skip(1).flat_map(|peer| {
        [(peer, Adit), (Adit, peer)].map(|(server, client)| Ipsec {
            server,
            client,
            suite: AES_256_GCM,
            is_raw: false,
        })
    });
    same.chain([raw]).chain(mixed).map(|subject| Box::new(subject) as Box<dyn Subject>).collect()
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Adit => "adit-ipsec",
            StrongSwan(Place::UserSpace) => "strongswan",
            StrongSwan(Place::Kernel) => "strongswan-kernel",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Adit => "adit with ESP",
            StrongSwan(Place::UserSpace) => "strongSwan with ESP in user space (kernel-libipsec)",
            StrongSwan(Place::Kernel) => "strongSwan with ESP by the kernel",
        }
    }

    fn availability(self, tools: &Tools) -> Availability {
        match self {
            StrongSwan(place) => strongswan::availability(place),
            Adit => match version_at(&tools.adit, &["--version"]) {
                Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
                None => Availability::Unbuilt(adit::unbuilt(tools)),
            },
        }
    }
}

impl Ipsec {
    fn ends(&self) -> [Program; 2] {
        [self.server, self.client]
    }

    /// Writes an end's file of connections.
    fn write(&self, testbed: &Testbed, own: usize) -> Result<PathBuf, TestbedError> {
        let (is_adit, other) = (self.ends()[own] == Adit, 1 - own);
        let encap = if is_adit && !self.is_raw { " encap = yes\n" } else { "" };
        let start = if is_adit && own == 1 { " start_action = start\n" } else { "" };
        let file = format!(
            "connections {{ t {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n{encap} \
             proposals = aes256gcm16-prfsha384-x25519\n local {{\n auth = psk\n id = {}\n }}\n \
             remote {{\n auth = psk\n id = {}\n }}\n children {{ c {{\n local_ts = {}/32\n remote_ts = {}/32\n \
             esp_proposals = {}\n{start} }} }}\n }} }}\nsecrets {{ ike-1 {{ secret = \"measured here\" }} }}\n",
            OUTER[own], OUTER[other], ENDS[own], ENDS[other], INNER[own], INNER[other], self.suite.proposal,
        );
        testbed.directory.write(&format!("{}.connections", ENDS[own]), &file)
    }

    fn start_server(&self, testbed: &mut Testbed, tools: &Tools) -> Result<(), TestbedError> {
        let file = self.write(testbed, 0)?;
        match self.server {
            Adit => {
                testbed.start_server(adit::command(tools, &file))?;
                testbed
                    .processes
                    .last_mut()
                    .map_or(Ok(()), |server| server.wait_for_line(0, READY, TIMEOUT).map(drop))
            }
            StrongSwan(place) => {
                let command = daemon(testbed, 0).command(place)?;
                testbed.start_server(command)?;
                daemon(testbed, 0).load(&testbed.server, &file)
            }
        }
    }

    fn start_client(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, TestbedError> {
        let file = self.write(testbed, 1)?;
        let shared = &*testbed;
        let (process, started) = match self.client {
            Adit => shared.started_client(adit::command(tools, &file), |_| Ok(()))?,
            StrongSwan(place) => {
                let command = daemon(shared, 1).command(place)?;
                shared.started_client(command, |namespace| initiate(&daemon(shared, 1), namespace, &file))?
            }
        };
        testbed.processes.push(process);
        Ok(Tunnel::up(started))
    }
}

fn daemon(testbed: &Testbed, end: usize) -> Daemon<'_> {
    Daemon { directory: &testbed.directory, name: ENDS[end] }
}

fn initiate(daemon: &Daemon<'_>, namespace: &Namespace, file: &Path) -> Result<(), TestbedError> {
    daemon.load(namespace, file)?;
    daemon.control(namespace, &["--initiate", "--child", "c", "--timeout", "10"])
}

impl Subject for Ipsec {
    fn name(&self) -> String {
        let (server, client) = (self.server.name(), self.client.name());
        match server == client {
            true if self.is_raw => format!("{client}-raw"),
            true => format!("{client}{}", self.suite.suffix),
            false => format!("{client}-to-{server}"),
        }
    }

    fn about(&self) -> String {
        let [server, client] = self.ends().map(Program::words);
        let programs = if server == client { client.to_owned() } else { format!("{client}, to {server}") };
        let way = match self.ends().contains(&Adit) {
            true if self.is_raw => " as an IP protocol",
            true => " in UDP",
            false => "",
        };
        format!("{programs}{way}, {}", self.suite.words)
    }

    fn stand_in(&self) -> Option<String> {
        let is_stand_in = self.ends() == [StrongSwan(Place::UserSpace); 2];
        is_stand_in.then(|| "strongSwan with the kernel's ESP".to_owned())
    }

    fn availability(&self, tools: &Tools) -> Availability {
        let [server, client] = self.ends();
        if server == client {
            return client.availability(tools);
        }
        match (server.availability(tools), client.availability(tools)) {
            (Availability::Installed(server), Availability::Installed(client)) => {
                Availability::Installed(format!("{client}; {server}"))
            }
            (Availability::Installed(_), lacks) | (lacks, _) => lacks,
        }
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        for (namespace, address) in [(&testbed.server, INNER[0]), (&testbed.client, INNER[1])] {
            namespace.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
        }
        self.start_server(testbed, tools)?;
        let tunnel = self.start_client(testbed, tools)?;
        if self.is_raw {
            check_raw(testbed)?;
        }
        Ok(tunnel)
    }
}

/// An error if adit's log says that ESP goes in UDP: then the tunnel is not what the subject is called.
fn check_raw(testbed: &Testbed) -> Result<(), LabError> {
    let in_udp = testbed.processes.iter().find_map(|process| process.last_line(IN_UDP));
    in_udp.map_or(Ok(()), |line| {
        Err(LabError::Usage(format!("ESP goes in UDP and not as an IP protocol: {line}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_programs_and_which_suite() {
        let names: Vec<String> = all().iter().map(|subject| subject.name()).collect();
        let expected = [
            "adit-ipsec",
            "adit-ipsec-aes128",
            "adit-ipsec-chacha20",
            "adit-ipsec-cbc",
            "strongswan",
            "strongswan-aes128",
            "strongswan-chacha20",
            "strongswan-cbc",
            "strongswan-kernel",
            "strongswan-kernel-aes128",
            "strongswan-kernel-chacha20",
            "strongswan-kernel-cbc",
            "adit-ipsec-raw",
            "adit-ipsec-to-strongswan",
            "strongswan-to-adit-ipsec",
            "adit-ipsec-to-strongswan-kernel",
            "strongswan-kernel-to-adit-ipsec",
        ];
        assert_eq!(names, expected);
    }
}
