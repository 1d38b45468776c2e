//! The files of both ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::super::authority::Authority;
use super::super::bed::{Certified, End, Program};
use super::cases::Proof;
use super::{Case, Fault};

/// The outer addresses.
const OUTER: [&str; 2] = ["10.9.0.1", "10.9.0.2"];

/// The inner address of an end in the networks of a connection.
pub(super) fn address(number: usize, end: usize) -> IpAddr {
    IpAddr::from([10, 100 + u8::try_from(number).unwrap(), u8::try_from(end).unwrap() + 1, 1])
}

/// The name of an end in a connection.
fn host(number: usize, end: usize) -> String {
    format!("end{}-{number}.example", end + 1)
}

/// The connections, with what their certificates need.
pub(super) struct Book<'a> {
    programs: [Program; 2],
    cases: &'a [Case],
    authorities: BTreeMap<&'static str, Authority>,
    /// The certificates by connection and end.
    certificates: BTreeMap<(usize, usize), Certified>,
    revocations: Vec<String>,
}

impl<'a> Book<'a> {
    pub(super) fn new(programs: [Program; 2], cases: &'a [Case]) -> Self {
        let mut book = Book {
            programs,
            cases,
            authorities: BTreeMap::new(),
            certificates: BTreeMap::new(),
            revocations: Vec::new(),
        };
        for (number, case) in cases.iter().enumerate() {
            if let Proof::Certificate(kind, _) = case.proof {
                [0, 1].into_iter().for_each(|end| book.certify(number, end, kind));
            }
        }
        book
    }

    fn fault(&self, number: usize, end: usize) -> Option<Fault> {
        self.cases[number].fault.filter(|(faulty, _)| *faulty == self.programs[end]).map(|(_, fault)| fault)
    }

    fn certify(&mut self, number: usize, end: usize, kind: &'static str) {
        let fault = self.fault(number, end);
        let authority = self.authorities.entry(kind).or_insert_with(|| Authority::new(kind));
        let host = host(number, end);
        let certified = match fault {
            Some(Fault::Authority) => Authority::new(kind).issue(&host, authority),
            Some(Fault::Name) => authority.issue(&format!("other-{host}"), authority),
            Some(Fault::Expired) => authority.issue_expired(&host, authority),
            _ => authority.issue(&host, authority),
        };
        if fault == Some(Fault::Revoked) {
            self.revocations.push(authority.revoke(&host));
        }
        self.certificates.insert((number, end), certified);
    }

    /// Writes the files of an end, and gives it its inner addresses.
    pub(super) fn write(&self, own: usize, end: &End, daemon: &str) {
        for (number, authority) in self.authorities.values().enumerate() {
            end.put(&format!("x509ca/{number}.pem"), &authority.certificate());
        }
        for (number, list) in self.revocations.iter().enumerate() {
            end.put(&format!("x509crl/{number}.pem"), list);
        }
        let (mut connections, mut secrets) = (String::new(), String::new());
        for number in 0..self.cases.len() {
            if let Some(certified) = self.certificates.get(&(number, own)) {
                end.put(&format!("x509/own{number}.pem"), &certified.certificate);
                end.put(&format!("private/own{number}.pem"), &certified.key);
            }
            let inner = address(number, own).to_string();
            end.namespace.ip(&["address", "add", &inner, "dev", "lo"]).unwrap();
            connections.push_str(&self.connection(number, own));
            let own_part = if self.fault(number, own) == Some(Fault::Secret) { "another" } else { "one" };
            let _ = write!(
                secrets,
                "ike-{number} {{\n id = {}\n secret = {own_part} secret of row {number}\n }}\n",
                host(number, 1 - own)
            );
        }
        end.write_text(&format!("connections {{\n{connections}}}\nsecrets {{\n{secrets}}}\n"), daemon, "");
    }

    fn connection(&self, number: usize, own: usize) -> String {
        let (case, fault, other) = (&self.cases[number], self.fault(number, own), 1 - own);
        let ike = if fault == Some(Fault::Ike) { "aes128-sha256-ecp256" } else { case.ike };
        let esp = if fault == Some(Fault::Esp) { "aes128-sha256" } else { case.esp };
        let id =
            if fault == Some(Fault::Identity) { "unknown.example".to_owned() } else { host(number, own) };
        let [local, remote] = match case.proof {
            Proof::SharedKey => ["psk".to_owned(), "psk".to_owned()],
            Proof::Certificate(..) if self.programs[own] == Program::Adit => {
                [format!("pubkey\n certs = own{number}.pem"), "pubkey".to_owned()]
            }
            Proof::Certificate(_, auth) => [format!("{auth}\n certs = own{number}.pem"), auth.to_owned()],
        };
        let net = |end: usize| format!("10.{}.{}.0/24", 100 + number, end + 1);
        let networks = if fault == Some(Fault::Selectors) { "10.99.0.0/24".to_owned() } else { net(own) };
        let start = if own == 1 && self.programs[own] == Program::Adit { "start" } else { "none" };
        format!(
            "t{number} {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n proposals = {ike}\n local {{\n auth = {local}\n id = {id}\n }}\n \
             remote {{\n auth = {remote}\n id = {}\n }}\n children {{\n c{number} {{\n local_ts = {networks}\n remote_ts = {}\n \
             esp_proposals = {esp}\n start_action = {start}\n }}\n }}\n}}\n",
            OUTER[own],
            OUTER[other],
            host(number, other),
            net(other),
        )
    }
}
