//! All rows.

use std::path::Path;
use std::time::Duration;

use adit_testbed::TestbedError;

use super::super::keys::{Keys, Wrapping};
use super::setup::{Scripts, Setup};
use super::{Access, CONTROL_MESSAGES, MANY, NETWORK, Pace, Row, Sources, Threat};

/// As fast as the server answers.
const UNLIMITED: u32 = 1_000_000;

/// Where the attackers of [`by_source`] are: a row for each place.
const PLACES: [(&str, Sources); 3] = [
    ("one IPv4 address", Sources::One),
    ("one IPv6 /64", Sources::Prefix(NETWORK, 64)),
    ("one IPv6 /61", Sources::Prefix(NETWORK, 61)),
];

impl Keys {
    /// All rows, first those whose attackers return the server's cookie or connect over TCP. `rate`: forged datagrams a
    /// second; `load`: the program `adit-load-openvpn`.
    pub(in crate::commands::attackers) fn rows(
        &self,
        rate: u32,
        load: &Path,
    ) -> Result<Vec<Row<'_>>, TestbedError> {
        let [plain, ..] = &self.wrappings;
        let mut rows = reachable(plain, &self.refused);
        for wrapping in &self.wrappings {
            let setup = Setup { protocol: "udp4", wrapping, scripts: Scripts::None };
            for (index, kind) in wrapping.kinds(load)?.into_iter().enumerate() {
                let name = format!("{}: {}", wrapping.name, kind.name);
                if index == 0 {
                    let threat = Threat::Forged { datagrams: kind.datagrams.clone(), rate: None };
                    rows.push(row(&format!("{name}, as fast as the machine sends"), setup, threat));
                }
                let threat = Threat::Forged { datagrams: kind.datagrams, rate: Some(rate) };
                rows.push(row(&name, setup, threat));
            }
        }
        Ok(rows)
    }
}

/// Rows whose attackers can be reached at their addresses.
pub(in crate::commands::attackers) fn reachable<'a>(
    plain: &'a Wrapping,
    refused: &'a Wrapping,
) -> Vec<Row<'a>> {
    let everywhere = by_source(plain, refused);
    everywhere.into_iter().flat_map(Row::at_each_place).chain(from_one_address(plain)).collect()
}

/// The rows that fill a table whose limits are by source.
fn by_source<'a>(plain: &'a Wrapping, refused: &'a Wrapping) -> [Row<'a>; 6] {
    let setup = |protocol, scripts| Setup { protocol, wrapping: plain, scripts };
    let (udp, tcp) = (setup("udp4", Scripts::None), setup("tcp4", Scripts::None));
    let key = Setup { wrapping: refused, scripts: Scripts::Key, ..udp };
    let sign_on = setup("udp4", Scripts::SignOn);
    [
        row("certificate: handshake, EXIT, repeat", udp, channels("exit", 32, UNLIMITED))
            .with_access(Access::Granted),
        row("tls-crypt-v2: a key that the script refuses", key, channels("half-open", 2048, 400)),
        row("TCP: silence", tcp, Threat::Connections { talk: "silence" }).with_lead(3),
        row("TCP: garbage", tcp, Threat::Connections { talk: "garbage" }).with_lead(3),
        row("no certificate: put off for sign-on, gone", sign_on, channels("put-off", 64, 150)).with_lead(10),
        row("no key: half-open", udp, channels("half-open", MANY, 2000)).with_lead(3),
    ]
}

/// The rows whose harm does not depend on how many addresses they have.
fn from_one_address(plain: &Wrapping) -> [Row<'_>; 6] {
    let setup = |scripts| Setup { protocol: "udp4", wrapping: plain, scripts };
    let (udp, slow) = (setup(Scripts::None), setup(Scripts::Slow));
    let soft_resets = || channels("soft-resets", 16, UNLIMITED);
    // A second client of the same name would end the first.
    let messages = channels(CONTROL_MESSAGES, 1, 100);
    [
        row("no certificate, 2 s script: login, EXIT, repeat", slow, channels("exit", 32, 400)),
        row("no certificate, 2 s script: soft resets while half-open", slow, soft_resets()),
        row("certificate and 2 s script: soft resets while half-open", slow, soft_resets())
            .with_access(Access::Certificate),
        row("certificate: data from two ports", udp, Threat::Roaming { rate: 50_000 })
            .with_access(Access::Granted),
        row("certificate: unprintable control messages", udp, messages).with_access(Access::Granted),
        row("no key: garbage in place of TLS", udp, channels("garbage-tls", 256, 3000)),
    ]
}

fn channels(behaviour: &'static str, at_once: usize, per_second: u32) -> Threat {
    Threat::ControlChannels { behaviour, pace: Pace { at_once, per_second } }
}

fn row<'a>(name: &str, setup: Setup<'a>, threat: Threat) -> Row<'a> {
    let (sources, access) = (Sources::One, Access::None);
    Row { name: name.to_owned(), setup, threat, sources, access, lead: Duration::from_secs(2) }
}

impl<'a> Row<'a> {
    fn with_access(self, access: Access) -> Self {
        Row { access, ..self }
    }

    fn with_lead(self, seconds: u64) -> Self {
        Row { lead: Duration::from_secs(seconds), ..self }
    }

    /// The row's attack from each of [`PLACES`], over its family.
    fn at_each_place(self) -> impl Iterator<Item = Row<'a>> {
        PLACES.into_iter().map(move |(place, sources)| Row {
            name: format!("{}, {place}", self.name),
            setup: if sources == Sources::One { self.setup } else { self.setup.over_v6() },
            sources,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    use super::super::{Attacker, Work};
    use super::*;

    fn rows(plain: &Wrapping) -> Vec<Row<'_>> {
        reachable(plain, plain)
    }

    fn arguments(row: &Row<'_>) -> String {
        let attacker = Attacker { ca: "ca".into(), certificate: "cert".into(), key: "key".into() };
        let server: SocketAddr = match row.setup.is_v6() {
            true => (Ipv6Addr::LOCALHOST, 1194).into(),
            false => (Ipv4Addr::LOCALHOST, 1194).into(),
        };
        let (kind, arguments) = row.arguments(server, &attacker).unwrap();
        format!("{kind} {}", arguments.join(" "))
    }

    fn find<'r, 'a>(rows: &'r [Row<'a>], name: &str) -> &'r Row<'a> {
        rows.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn each_attack_on_a_limit_by_source_comes_at_each_place() {
        let plain = Wrapping::none();
        let rows = rows(&plain);
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names.len(), rows.len()), (24, 24));
        let among = |name: &str| rows.iter().filter(|row| row.name.contains(name)).count();
        assert!(names.iter().all(|name| among(name) == 1), "each can be selected alone: {names:?}");
        for attack in by_source(&plain, &plain).map(|row| row.name) {
            let protocols =
                PLACES.map(|(place, _)| find(&rows, &format!("{attack}, {place}")).setup.protocol);
            let expected =
                if attack.starts_with("TCP") { ["tcp4", "tcp6", "tcp6"] } else { ["udp4", "udp6", "udp6"] };
            assert_eq!(protocols, expected, "{attack}");
        }
    }

    #[test]
    fn attackers_get_the_network_of_their_row() {
        let plain = Wrapping::none();
        let rows = rows(&plain);
        assert_eq!(
            arguments(find(&rows, "TCP: silence, one IPv6 /61")),
            "connections [::1]:1194 --sources 2001:db8:8000::/61 --talk silence --count 1300"
        );
        assert_eq!(
            arguments(find(&rows, "certificate: handshake, EXIT, repeat, one IPv6 /64")),
            "control-channels [::1]:1194 --sources 2001:db8:8000::/64 --behaviour exit --at-once 32 \
             --per-second 1000000 --ca ca --certificate cert --key key"
        );
        assert_eq!(
            arguments(find(&rows, "TCP: garbage, one IPv4 address")),
            "connections 127.0.0.1:1194 --talk garbage --count 1300"
        );
    }

    #[test]
    fn a_certificate_alone_lets_no_attacker_in() {
        let plain = Wrapping::none();
        let rows = rows(&plain);
        let waits = find(&rows, "certificate and 2 s script: soft resets while half-open");
        assert!(arguments(waits).ends_with("--username attacker --ca ca --certificate cert --key key"));
        let let_in = |name: &str| find(&rows, name).let_in(Work { begun: 3, done: 500 });
        assert_eq!(waits.let_in(Work { begun: 3, done: 500 }), 0);
        assert_eq!(let_in("certificate: handshake, EXIT, repeat, one IPv4 address"), 500);
        assert_eq!(let_in("certificate: data from two ports"), 1);
        assert_eq!(let_in("certificate: unprintable control messages"), 3);
        assert_eq!(let_in("no key: half-open, one IPv4 address"), 0);
    }

    #[test]
    fn control_messages_are_an_attack_once_one_was_taken() {
        let plain = Wrapping::none();
        let rows = rows(&plain);
        let under_way = |name: &str| find(&rows, name).under_way(Work { begun: 1, done: 0 });
        assert_eq!(under_way("certificate: unprintable control messages"), 0);
        assert_eq!(under_way("no key: half-open, one IPv4 address"), 1);
    }
}
