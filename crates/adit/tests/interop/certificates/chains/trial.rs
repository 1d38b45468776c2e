//! One verification: two programs, one handshake.

use std::thread;
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, Process, Scratch, wait_until};

use super::issue::Made;
use crate::options::{Part, Program};

/// How long to wait for an action that a program does in a moment.
pub(in crate::certificates) const TIMEOUT: Duration = Duration::from_secs(40);

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::certificates) enum Verdict {
    Accepts,
    Refuses,
    /// The program refuses its own configuration.
    DoesNotStart,
    /// The other end refuses the certificates of this one.
    IsRefused,
}

impl Verdict {
    pub(in crate::certificates) fn word(self) -> &'static str {
        match self {
            Verdict::Accepts => "accepts",
            Verdict::Refuses => "refuses",
            Verdict::DoesNotStart => "does not start",
            Verdict::IsRefused => "is refused",
        }
    }
}

/// The outcome of a verification.
#[derive(Clone, Debug)]
pub(in crate::certificates) struct Outcome {
    pub(in crate::certificates) verdict: Verdict,
    /// The text of the verifying program behind `VERIFY ERROR: ` when it refused.
    pub(in crate::certificates) error: Option<String>,
    /// All that it wrote.
    pub(in crate::certificates) log: String,
}

/// One verification: the program that verifies, its end, and the certificates.
pub(in crate::certificates) struct Trial<'a> {
    pub(in crate::certificates) verifier: Program,
    pub(in crate::certificates) part: Part,
    /// The certificates that are verified.
    pub(in crate::certificates) made: &'a Made,
    /// The judging end's own certificate, which the other end believes.
    pub(in crate::certificates) own: &'a Made,
}

/// The lines that the judging program logs when it refuses, and at no other time.
fn refusals(verifier: Program) -> &'static [&'static str] {
    match verifier {
        Program::Adit => &["the peer is not who", "the peer's certificate", "so no peer can be accepted"],
        _ => &[
            "VERIFY ERROR",
            "VERIFY KU ERROR",
            "VERIFY EKU ERROR",
            "Certificate does not have",
            "VERIFY FAIL",
            // Of TLS; an error of OpenSSL about a file that it cannot read has another number.
            "OpenSSL: error:0A",
        ],
    }
}

/// The text of that program behind `VERIFY ERROR: `. It stands before the line that the handshake failed.
fn verify_error(verifier: &Process) -> Option<String> {
    let _ =
        wait_until("the end of the handshake", TIMEOUT, || verifier.log().contains("TLS handshake failed"));
    let log = verifier.log();
    let (_, error) = log.lines().find_map(|line| line.split_once("VERIFY ERROR: "))?;
    Some(error.to_owned())
}

/// How much later than the other end's the verifier's line about a certificate may stand in its log.
const TIME_TO_LOG: Duration = Duration::from_secs(2);

impl Trial<'_> {
    fn lines(&self, part: Part) -> String {
        let [verifying, shows] = if part == self.part {
            [&self.made.verifying, &self.own.shows]
        } else {
            [&self.own.verifying, &self.made.shows]
        };
        format!("verb 3\nproto udp4\nhand-window 30\n{verifying}{shows}")
    }

    /// A point-to-point tunnel without a device: OpenVPN judges certificates alike there.
    fn of_openvpn(&self, part: Part) -> String {
        let end = match part {
            Part::Server => "tls-server\ndh none\nlocal 127.0.0.1\nport 1194\n",
            Part::Client if self.verifier == Program::Adit => "client\nnobind\nremote 127.0.0.1 1194\n",
            Part::Client => "tls-client\nnobind\nremote 127.0.0.1 1194\n",
        };
        // The end that shows certificates has to show such as OpenSSL would not take itself.
        let shows = if part == self.part { "" } else { "tls-cert-profile insecure\n" };
        format!("dev null\n{end}{shows}{}", self.lines(part))
    }

    fn of_adit(&self, part: Part) -> String {
        let end = match part {
            Part::Server => "server 10.8.0.0 255.255.255.0\ntopology subnet\ndh none\nport 1194\n",
            Part::Client => "client\nnobind\nremote 127.0.0.1 1194\n",
        };
        format!("dev tun\n{end}{}", self.lines(part))
    }

    fn start(&self, part: Part, namespace: &Namespace, directory: &Scratch) -> Process {
        let program = if part == self.part { self.verifier } else { Program::OpenVpn };
        let text = match program {
            Program::Adit => self.of_adit(part),
            _ => self.of_openvpn(part),
        };
        let file = directory.write(&format!("{part:?}.conf"), &text).unwrap();
        // In OpenVPN's manner adit writes OpenVPN's lines beside its own.
        let mut command = program.called_as("openvpn", directory);
        command.arg("--config").arg(&file);
        namespace.spawn(&format!("{program:?} {part:?}"), command).unwrap()
    }

    /// Has one end verify the certificates of the other end, and gives the outcome. The namespace is free
    /// afterwards.
    pub(in crate::certificates) fn run(
        &self,
        namespace: &Namespace,
        directory: &Scratch,
    ) -> Result<Outcome, String> {
        let mut server = self.start(Part::Server, namespace, directory);
        let listens = || !server.is_running() || namespace.is_bound(false, 1194).unwrap_or(false);
        wait_until("the server to listen", TIMEOUT, listens).map_err(|error| error.to_string())?;
        let mut client = self.start(Part::Client, namespace, directory);
        let verdict = self.verdict(&mut server, &mut client);
        let verifier = if self.part == Part::Server { &server } else { &client };
        let refuses = verdict == Some(Verdict::Refuses);
        let error = refuses.then(|| verify_error(verifier)).flatten();
        let _ = (client.kill(), server.kill());
        let gone = || !namespace.is_bound(false, 1194).unwrap_or(true);
        wait_until("the port to be free", TIMEOUT, gone).map_err(|error| error.to_string())?;
        let verdict = verdict.ok_or_else(|| {
            format!("==== server\n{}\n==== client\n{}", server.log_tail(), client.log_tail())
        })?;
        let log = if self.part == Part::Server { server.log() } else { client.log() };
        Ok(Outcome { verdict, error, log })
    }

    fn verdict(&self, server: &mut Process, client: &mut Process) -> Option<Verdict> {
        let (verifier, other) = if self.part == Part::Server { (server, client) } else { (client, server) };
        let end = Instant::now() + TIMEOUT;
        let (mut failed, mut ended) = (None, None);
        while Instant::now() < end {
            let is_running = verifier.is_running();
            let other = other.log();
            let log = verifier.log();
            if refusals(self.verifier).iter().any(|words| log.contains(words)) {
                return Some(Verdict::Refuses);
            }
            if other.contains("Peer Connection Initiated") {
                return Some(Verdict::Accepts);
            }
            // A thread of its own writes the verifier's log, so the other end may be first to say that the handshake failed.
            if other.contains("TLS Error: TLS handshake failed")
                && failed.get_or_insert_with(Instant::now).elapsed() > TIME_TO_LOG
            {
                return Some(Verdict::IsRefused);
            }
            // OpenVPN's last words: a refusal would stand before them.
            if log.contains("Exiting due to fatal error") {
                return Some(Verdict::DoesNotStart);
            }
            // A thread reads the lines of a process, and may not have read the last ones of one that has ended.
            if !is_running && ended.get_or_insert_with(Instant::now).elapsed() > TIME_TO_LOG {
                return Some(Verdict::DoesNotStart);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }
}
