//! The parsing rules of programs that read OpenVPN's state, applied to ours.
//!
//! Sources: kumina/openvpn_exporter 0.3.0 (exporters/openvpn_exporter.go), patrickjahns/openvpn_exporter
//! (pkg/openvpn/parser.go), openvpn-monitor 2.0.4 (vpns/openvpn/data_collector.py).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::tests::state;
use super::*;

/// A client as an exporter reads it: its columns by name.
type Columns = BTreeMap<String, String>;

/// kumina's exporter: any line whose first word it does not know is an error, and a line of a table has as many columns as
/// the table's `HEADER`.
fn kumina(text: &str) -> Result<Vec<Columns>, String> {
    let by = if text.starts_with("TITLE\t") { '\t' } else { ',' };
    if !text.starts_with("TITLE") {
        return Err(format!("unexpected file contents: {text}"));
    }
    let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut clients = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(by).collect();
        match (fields[0], fields.len()) {
            ("END", 1) | ("GLOBAL_STATS", _) | ("TITLE", 2) => {}
            ("TIME", 3) => {
                fields[2].parse::<f64>().map_err(|error| error.to_string())?;
            }
            ("HEADER", 3..) => {
                headers.insert(fields[1], fields[2..].to_vec());
            }
            (table @ ("CLIENT_LIST" | "ROUTING_TABLE"), _) => {
                let names =
                    headers.get(table).ok_or_else(|| format!("{table} should be preceded by HEADERS"))?;
                if fields.len() != names.len() + 1 {
                    return Err(format!("HEADER for {table} describes a different number of columns"));
                }
                let row: Columns = names
                    .iter()
                    .zip(&fields[1..])
                    .map(|(name, field)| ((*name).to_owned(), (*field).to_owned()))
                    .collect();
                let values: &[&str] = match table {
                    "CLIENT_LIST" => &["Bytes Received", "Bytes Sent"],
                    _ => &["Last Ref (time_t)"],
                };
                for value in values {
                    row[*value].parse::<f64>().map_err(|error| format!("{value}: {error}"))?;
                }
                if table == "CLIENT_LIST" {
                    clients.push(row);
                }
            }
            (other, _) => return Err(format!("unsupported key: {other}")),
        }
    }
    Ok(clients)
}

/// patrickjahns' exporter, versions 2 and 3: version, architecture and the rest of the title.
fn patrickjahns(text: &str) -> Option<(String, String, String)> {
    let by = if text.starts_with("TITLE,OpenVPN") { ',' } else { '\t' };
    let title = text.lines().next()?.strip_prefix(&format!("TITLE{by}"))?;
    let words: Vec<&str> = title.split(' ').collect();
    let mut rows = text.lines().map(|line| line.split(by).collect::<Vec<_>>());
    let client = rows.find(|fields| fields[0] == "CLIENT_LIST")?;
    let numbers = [client[5], client[6], client[8]];
    numbers.iter().all(|number| number.parse::<u64>().is_ok()).then_some(())?;
    let rest = words.get(3..)?.join(" ");
    let word = |place| words.get(place).map(|word: &&str| (*word).to_owned());
    Some((word(1)?, word(2)?, rest))
}

/// openvpn-monitor reads version 3 by position, and which columns there are by the version of OpenVPN.
fn openvpn_monitor(version: &str, status: &str) -> Result<Vec<(IpAddr, u64, String)>, String> {
    let release = version.lines().find(|line| line.starts_with("OpenVPN")).ok_or("no version")?;
    let release = release.replace("OpenVPN Version: ", "");
    let semver: Vec<u32> = release
        .split(' ')
        .nth(1)
        .ok_or("no second word")?
        .split('.')
        .map(|number| number.parse().map_err(|_| format!("{release} is not a semantic version")))
        .collect::<Result<_, String>>()?;
    let new = semver.len() == 3 && semver[0] >= 2 && semver[1] >= 4;
    let mut sessions = Vec::new();
    for line in status.lines().filter(|line| line.starts_with("CLIENT_LIST")) {
        let mut parts = line.split('\t').skip(3);
        let mut next = || parts.next().ok_or("too few columns");
        let mut local = next()?;
        if new {
            let v6 = next()?;
            local = if v6.is_empty() { local } else { v6 };
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        let received = number(next()?)?;
        // Bytes sent, since when as text and as a number, the username.
        number(next()?)?;
        next()?;
        number(next()?)?;
        next()?;
        let cid = if new { next()?.to_owned() } else { String::new() };
        let local = local.parse().map_err(|_| format!("{local:?} is no address"))?;
        sessions.push((local, received, cid));
    }
    Ok(sessions)
}

#[test]
fn exporters_read_our_state() {
    for version in [2, 3] {
        let text = print(Form::Clients(version), &state());
        let clients = kumina(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let client = &clients[0];
        assert_eq!(clients.len(), 1);
        assert_eq!(client["Bytes Received"], "1000");
        assert_eq!(client["Virtual Address"], "10.8.0.2");
        assert_eq!(
            (client["Connected Since (time_t)"].as_str(), client["Username"].as_str()),
            ("1767225510", "UNDEF")
        );
        let (version, architecture, rest) = patrickjahns(&text).expect("a title and a client");
        assert_eq!((version.as_str(), architecture.as_str()), ("2.6.14", "adit"));
        assert!(!rest.is_empty());
    }
    // kumina's knows this form of a client's statistics, but not the date that OpenVPN writes since 2.5.
    let text = print(Form::Statistics, &state());
    let keys = [
        "TUN/TAP read bytes",
        "TUN/TAP write bytes",
        "TCP/UDP read bytes",
        "TCP/UDP write bytes",
        "Auth read bytes",
    ];
    assert!(text.starts_with("OpenVPN STATISTICS\nUpdated,"));
    for line in text.lines().skip(2).filter(|line| *line != "END") {
        let (key, number) = line.split_once(',').expect("two columns");
        assert!(keys.contains(&key) && number.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn openvpn_monitor_reads_our_state() {
    let text = print(Form::Clients(3), &state());
    let version = format!("OpenVPN Version: {VERSION}\r\nManagement Version: 5\r\nEND\r\n");
    let sessions = openvpn_monitor(&version, &text);
    assert_eq!(sessions, Ok(vec![("10.8.0.2".parse().expect("an address"), 1000, "4".to_owned())]));
    assert!(
        openvpn_monitor("OpenVPN Version: adit 0.1.0\r\n", &text).is_err(),
        "the rule tells versions apart"
    );
}
