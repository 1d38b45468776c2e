//! systemd-resolved, over D-Bus: name servers by link (org.freedesktop.resolve1(5)).

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Dns, is_domain};
use rustbus::RpcConn;
use rustbus::connection::Timeout;
use rustbus::connection::ll_conn::DuplexConn;
use rustbus::message_builder::{MarshalledMessage, MessageBuilder, MessageType};

const NAME: &str = "org.freedesktop.resolve1";
const OBJECT: &str = "/org/freedesktop/resolve1";
const INTERFACE: &str = "org.freedesktop.resolve1.Manager";
/// The longest wait for an answer. systemd-resolved answers at once; this is against waiting for ever.
const TIMEOUT: Timeout = Timeout::Duration(Duration::from_secs(2));
/// linux/socket.h `AF_INET` and `AF_INET6`.
const FAMILIES: (i32, i32) = (2, 10);

/// A way to systemd-resolved.
#[derive(Debug)]
pub(super) struct Resolved {
    bus: Bus,
}

/// Which bus to ask.
#[derive(Debug)]
enum Bus {
    System,
    /// The one that the environment names.
    #[cfg(test)]
    Session,
}

impl Resolved {
    /// systemd-resolved, if it runs here.
    pub(super) fn find() -> Option<Self> {
        let resolved = Resolved { bus: Bus::System };
        std::path::Path::new("/run/systemd/resolve").is_dir().then_some(resolved)
    }

    /// Tells it to ask these servers by that link. An error is a sentence.
    pub(super) fn set(&self, link: u32, dns: &Dns) -> Result<(), String> {
        let link = i32::try_from(link).map_err(|_| "the device's number is too large".to_owned())?;
        let mut bus = self.connect()?;
        let servers: Vec<(i32, Vec<u8>)> = dns.servers.iter().map(server).collect();
        call(&mut bus, "SetLinkDNS", |message| message.body.push_param2(link, servers))?;
        let domains = domains(dns);
        call(&mut bus, "SetLinkDomains", |message| message.body.push_param2(link, domains))?;
        let for_all = dns.only_for.is_empty();
        call(&mut bus, "SetLinkDefaultRoute", |message| message.body.push_param2(link, for_all))
    }

    /// Has systemd-resolved forget the settings of that link.
    pub(super) fn revert(&self, link: u32) -> Result<(), String> {
        let link = i32::try_from(link).map_err(|_| "the device's number is too large".to_owned())?;
        call(&mut self.connect()?, "RevertLink", |message| message.body.push_param(link))
    }

    fn connect(&self) -> Result<RpcConn, String> {
        let failed = |error: rustbus::connection::Error| format!("the system bus does not answer: {error:?}");
        let path = match &self.bus {
            Bus::System => rustbus::connection::get_system_bus_path().map_err(failed)?,
            #[cfg(test)]
            Bus::Session => rustbus::connection::get_session_bus_path().map_err(failed)?,
        };
        let mut bus = DuplexConn::connect_to_bus(path, false).map_err(failed)?;
        bus.send_hello(TIMEOUT).map_err(failed)?;
        Ok(RpcConn::new(bus))
    }
}

fn server(server: &IpAddr) -> (i32, Vec<u8>) {
    match server {
        IpAddr::V4(address) => (FAMILIES.0, address.octets().to_vec()),
        IpAddr::V6(address) => (FAMILIES.1, address.octets().to_vec()),
    }
}

/// Domains to search; and with `true` those whose names are asked for here alone. Where no such are named, all
/// names are asked for here.
fn domains(dns: &Dns) -> Vec<(String, bool)> {
    let sound = |domains: &[String], only| -> Vec<(String, bool)> {
        domains.iter().filter(|domain| is_domain(domain)).map(|domain| (domain.clone(), only)).collect()
    };
    let mut all = sound(&dns.search, false);
    all.extend(sound(&dns.only_for, true));
    if dns.only_for.is_empty() {
        all.push((".".to_owned(), true));
    }
    all
}

fn call<E: std::fmt::Debug>(
    bus: &mut RpcConn,
    method: &str,
    fill: impl FnOnce(&mut MarshalledMessage) -> Result<(), E>,
) -> Result<(), String> {
    let mut message =
        MessageBuilder::new().call(method).with_interface(INTERFACE).on(OBJECT).at(NAME).build();
    fill(&mut message).map_err(|error| format!("{method}: {error:?}"))?;
    let context = bus.send_message(&mut message).map_err(|error| format!("{method}: {error:?}"))?;
    let serial = context.write_all().map_err(rustbus::connection::ll_conn::force_finish_on_error);
    let serial = serial.map_err(|error| format!("{method}: {error:?}"))?;
    let answer = bus.wait_response(serial, TIMEOUT).map_err(|error| format!("{method}: {error:?}"))?;
    match answer.typ {
        MessageType::Error => {
            let name = answer.dynheader.error_name.clone().unwrap_or_default();
            let text = answer.body.parser().get::<String>().unwrap_or_default();
            Err(format!("{method}: {name} {text}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use rustbus::standard_messages::request_name;

    use super::*;

    /// Plays systemd-resolved for so many calls, and gives their arguments.
    fn play(calls: usize, ready: &mpsc::Sender<()>) -> Vec<String> {
        let mut bus = RpcConn::session_conn(TIMEOUT).unwrap();
        let serial = bus.send_message(&mut request_name(NAME, 0)).unwrap().write_all().unwrap();
        bus.wait_response(serial, TIMEOUT).unwrap();
        bus.set_filter(Box::new(|message| matches!(message.typ, MessageType::Call)));
        ready.send(()).unwrap();
        let mut told = Vec::new();
        for _ in 0..calls {
            let call = bus.wait_call(TIMEOUT).unwrap();
            let method = call.dynheader.member.clone().unwrap();
            let mut parser = call.body.parser();
            let link: i32 = parser.get().unwrap();
            let rest = match method.as_str() {
                "SetLinkDNS" => format!("{:?}", parser.get::<Vec<(i32, Vec<u8>)>>().unwrap()),
                "SetLinkDomains" => format!("{:?}", parser.get::<Vec<(String, bool)>>().unwrap()),
                "SetLinkDefaultRoute" => format!("{}", parser.get::<bool>().unwrap()),
                _ => String::new(),
            };
            told.push(format!("{method} {link} {rest}"));
            let mut answer = call.dynheader.make_response();
            bus.send_message(&mut answer).unwrap().write_all().unwrap();
        }
        told
    }

    /// Runs as a process of its own, for which the environment names a bus.
    #[test]
    #[ignore = "the other test runs it"]
    fn on_a_bus() {
        let (ready, wait) = mpsc::channel();
        let server = std::thread::spawn(move || play(4, &ready));
        wait.recv().unwrap();
        let resolved = Resolved { bus: Bus::Session };
        let dns = Dns {
            servers: vec!["10.8.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            search: vec!["corp.example".to_owned(), "$(reboot)".to_owned()],
            only_for: Vec::new(),
        };
        resolved.set(7, &dns).unwrap();
        resolved.revert(7).unwrap();
        let told = server.join().unwrap();
        // The service has ended, as the bus reports.
        let error = resolved.revert(7).unwrap_err();
        assert!(error.starts_with("RevertLink: org.freedesktop.DBus.Error."), "{error}");
        let v6 = "[253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]";
        assert_eq!(
            told,
            [
                format!("SetLinkDNS 7 [(2, [10, 8, 0, 1]), (10, {v6})]"),
                "SetLinkDomains 7 [(\"corp.example\", false), (\".\", true)]".to_owned(),
                "SetLinkDefaultRoute 7 true".to_owned(),
                "RevertLink 7 ".to_owned(),
            ]
        );
    }

    #[test]
    fn systemd_resolved_is_told_over_the_bus() {
        let started = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut daemon) = started else {
            let must = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!must, "there is no dbus-daemon");
            #[allow(clippy::print_stderr)]
            {
                eprintln!("NOT TESTED: there is no dbus-daemon");
            }
            return;
        };
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let outcome = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "dns::resolved::tests::on_a_bus", "--ignored"])
            .env("DBUS_SESSION_BUS_ADDRESS", address.trim())
            .output();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let outcome = outcome.unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
    }

    #[test]
    fn some_domains_alone() {
        let dns = Dns { only_for: vec!["corp.example".to_owned()], ..Dns::default() };
        assert_eq!(domains(&dns), [("corp.example".to_owned(), true)]);
    }
}
