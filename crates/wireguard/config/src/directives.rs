//! adit's own settings in a WireGuard file: `#adit: key = value` on a line of its own, within the section that it is about.
//!
//! `wg` and wg-quick take such a line for a comment, so that they read the same file. To adit it is none: a setting that it
//! does not know, or that stands in the wrong place, is a mistake. A further setting is a row of a table below.

use std::time::Duration;

use adit_core::configuration::{own_settings, words};
use adit_core::escaped;
use adit_wireguard::PostQuantum;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use super::model::{FullTunnel, Interface, Peer};
use super::values;

/// Reads a setting's value. An error says what would be right.
type Read<T> = fn(&mut T, &str) -> Result<(), String>;

/// The name of a setting, and the function that reads it.
type Row<T> = (&'static str, Read<T>);

/// The settings of `[Interface]`.
const OF_INTERFACE: &[Row<Interface>] = &[
    ("client-connect", |interface, value| once(&mut interface.client_connect, command(value))),
    ("client-disconnect", |interface, value| once(&mut interface.client_disconnect, command(value))),
    ("full-tunnel", |interface, value| once(&mut interface.full_tunnel, full_tunnel(value))),
    ("forward", |interface, value| own_settings::add_forward(&mut interface.forward, value)),
    ("listen-tcp", |interface, value| once(&mut interface.listen_tcp, values::listen_tcp(value))),
    ("post-quantum", |interface, value| once(&mut interface.post_quantum, post_quantum(value))),
];

/// The settings of `[Peer]`.
const OF_PEER: &[Row<Peer>] = &[
    ("name", |peer, value| once(&mut peer.name, name(value))),
    ("expires", |peer, value| once(&mut peer.expires, moment(value))),
    ("tcp", |peer, value| once(&mut peer.tcp, values::http_url(value))),
    ("tcp-ca", |peer, value| once(&mut peer.tcp_ca, values::file(value))),
    ("session-limit", |peer, value| once(&mut peer.session_limit, period(value))),
    ("post-quantum", |peer, value| once(&mut peer.post_quantum, post_quantum(value))),
];

/// Takes a setting of `[Interface]`.
///
/// # Errors
/// The fault of the line.
pub(super) fn of_interface(interface: &mut Interface, text: &str) -> Result<(), String> {
    let (key, value) = key_and_value(text)?;
    let read = find(OF_INTERFACE, key).ok_or_else(|| unknown(key, find(OF_PEER, key).is_some(), "[Peer]"))?;
    read(interface, value).map_err(|why| format!("{key}: {why}"))?;
    interface.directives.push(text.to_owned());
    Ok(())
}

/// Takes a setting of `[Peer]`.
///
/// # Errors
/// The fault of the line.
pub(super) fn of_peer(peer: &mut Peer, text: &str) -> Result<(), String> {
    let (key, value) = key_and_value(text)?;
    let is_others = || find(OF_INTERFACE, key).is_some();
    let read = find(OF_PEER, key).ok_or_else(|| unknown(key, is_others(), "[Interface]"))?;
    read(peer, value).map_err(|why| format!("{key}: {why}"))?;
    peer.directives.push(text.to_owned());
    Ok(())
}

/// The key of a setting, for the report.
pub(super) fn key(text: &str) -> &str {
    text.split_once('=').map_or(text, |(key, _)| key.trim())
}

/// The settings that name a program.
const PROGRAMS: [&str; 2] = ["client-connect", "client-disconnect"];

/// The remark on a setting that was taken: a warning where the setting names a program, and empty otherwise. A reader who looks for
/// the commands in a file looks for wg-quick's keys, and takes a line with `#adit:` for a comment.
pub(super) fn remark(text: &str) -> String {
    let Some((key, program)) = text.split_once('=') else { return String::new() };
    match PROGRAMS.iter().any(|name| name.eq_ignore_ascii_case(key.trim())) {
        true => format!(
            "this comment is a setting of adit, and has it run a program as root: {}",
            escaped(program.trim())
        ),
        false => String::new(),
    }
}

fn find<T>(table: &[Row<T>], key: &str) -> Option<Read<T>> {
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, read)| *read)
}

fn key_and_value(text: &str) -> Result<(&str, &str), String> {
    let (key, value) = text.split_once('=').ok_or("a setting of adit is `#adit: key = value`")?;
    Ok((key.trim(), value.trim()))
}

fn unknown(key: &str, is_others: bool, other: &str) -> String {
    if is_others {
        return format!("{key}: it belongs into {other}");
    }
    let names = OF_INTERFACE.iter().map(|(name, _)| *name).chain(OF_PEER.iter().map(|(name, _)| *name));
    let names = names.collect::<Vec<_>>().join(", ");
    format!("{}: adit has no such setting; there are {names}", super::read::shown(key))
}

fn once<T, E: Into<String>>(place: &mut Option<T>, value: Result<T, E>) -> Result<(), String> {
    let value = value.map_err(Into::into)?;
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err("it stands in the section already".to_owned()),
    }
}

/// The words of a command line. No shell reads it.
fn command(value: &str) -> Result<Vec<String>, String> {
    let words = words::split(value, words::MAX_LINE)?;
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(words),
        _ => Err("it is a program with its whole path, and its arguments".to_owned()),
    }
}

fn post_quantum(value: &str) -> Result<PostQuantum, String> {
    match value {
        "off" => Ok(PostQuantum::Off),
        "on" => Ok(PostQuantum::On),
        "required" => Ok(PostQuantum::Required),
        _ => Err("it is off, on or required".to_owned()),
    }
}

fn full_tunnel(value: &str) -> Result<FullTunnel, String> {
    match value {
        "strict" => Ok(FullTunnel::Strict),
        "wg-quick" => Ok(FullTunnel::WgQuick),
        _ => Err("it is strict or wg-quick".to_owned()),
    }
}

/// Most bytes of a peer's name.
const LONGEST_NAME: usize = 64;

fn name(value: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    match (1..=LONGEST_NAME).contains(&value.len()) && value.chars().all(plain) {
        true => Ok(value.to_owned()),
        false => Err(format!("a name is 1 to {LONGEST_NAME} letters, digits and `._@-`")),
    }
}

/// A day, which is its beginning by UTC, or a moment: time since 1970-01-01T00:00:00Z.
fn moment(value: &str) -> Result<Duration, String> {
    const RIGHT: &str = "it is a day such as 2027-12-31, which is its beginning by UTC, or a moment as in RFC 3339, such as \
                         2027-12-31T18:00:00Z";
    let day = || Date::parse(value, format_description!("[year]-[month]-[day]")).map(Date::midnight);
    let moment = OffsetDateTime::parse(value, &Rfc3339).or_else(|_| day().map(|day| day.assume_utc()));
    let seconds = moment.ok().and_then(|moment| u64::try_from(moment.unix_timestamp()).ok());
    seconds.map(Duration::from_secs).ok_or_else(|| RIGHT.to_owned())
}

/// A number of seconds, minutes, hours or days.
fn period(value: &str) -> Result<Duration, String> {
    let unit = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let found = unit.iter().find_map(|(unit, seconds)| {
        let number = value.strip_suffix(unit)?.trim_end();
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u32>().ok().filter(|number| is_number && *number > 0)?.checked_mul(*seconds)
    });
    let right = || "it is a number with s, m, h or d behind it, such as 8h".to_owned();
    found.map(|seconds| Duration::from_secs(seconds.into())).ok_or_else(right)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_core::configuration::Problem;

    use super::*;
    use crate::parse;

    #[test]
    fn destinations_of_several_lines_are_taken_together() {
        let text = file("#adit: forward = internet\n#adit: forward = 192.168.1.0/24", "");
        let interface = parse(text.as_bytes(), "wg0.conf").expect("a good file").config.interface;
        let expected = ["0.0.0.0/0", "::/0", "192.168.1.0/24"].map(|net| net.parse().expect("a network"));
        assert_eq!(interface.forward, expected);
        assert!(
            problem("#adit: forward = 192.168.1.7/24", "")
                .starts_with("wg0.conf:4: forward: 192.168.1.7/24 has")
        );
    }

    const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

    fn file(of_interface: &str, of_peer: &str) -> String {
        format!(
            "[Interface]\nPrivateKey = {KEY}\nListenPort = 1\n{of_interface}\n[Peer]\nPublicKey = {KEY}\n{of_peer}\n"
        )
    }

    fn problem(of_interface: &str, of_peer: &str) -> String {
        let text = file(of_interface, of_peer);
        let failure = parse(text.as_bytes(), "wg0.conf").expect_err(&text);
        failure.problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn settings_are_read_and_kept() {
        let of_interface = "#adit: client-connect = /etc/on up \"two words\"\n# Adit:client-disconnect=/etc/off\n\
                            #adit: listen-tcp = 443\n#adit: full-tunnel = wg-quick";
        let of_peer = "#adit: name = phone\n  #adit:expires = 2027-01-31\n#adit: session-limit = 8h\n# a comment\n\
                       #adit: tcp = http://vpn.example:8080/a?b";
        let parsed = parse(file(of_interface, of_peer).as_bytes(), "wg0.conf").expect("a good file");
        let (interface, peer) = (&parsed.config.interface, &parsed.config.peers[0]);
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(interface.client_connect, words(&["/etc/on", "up", "two words"]));
        assert_eq!(interface.client_disconnect, words(&["/etc/off"]));
        assert_eq!(peer.name.as_deref(), Some("phone"));
        assert_eq!(peer.expires, Some(Duration::from_secs(1_801_353_600)));
        assert_eq!(peer.session_limit, Some(Duration::from_secs(8 * 3600)));
        assert_eq!(interface.listen_tcp, Some("[::]:443".parse().expect("an address")));
        assert_eq!(interface.full_tunnel, Some(FullTunnel::WgQuick));
        let tcp = peer.tcp.as_ref().map(|it| (it.host.as_str(), it.port, it.target.as_str()));
        assert_eq!(tcp, Some(("vpn.example", 8080, "/a?b")));
        let tcp = "tcp = http://vpn.example:8080/a?b";
        assert_eq!(peer.directives, ["name = phone", "expires = 2027-01-31", "session-limit = 8h", tcp]);
        assert_eq!((parsed.report.len(), interface.directives.len()), (11, 4));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (of_interface, of_peer, start) in [
            ("#adit: expire = 2027-01-01", "", "wg0.conf:4: expire: adit has no such setting; there are "),
            ("#adit: expires = 2027-01-01", "", "wg0.conf:4: expires: it belongs into [Peer]"),
            ("", "#adit: client-connect = /x", "wg0.conf:7: client-connect: it belongs into [Interface]"),
            ("", "#adit: name", "wg0.conf:7: a setting of adit is "),
            ("", "#adit: name = a b", "wg0.conf:7: name: a name is "),
            ("", "#adit: name = a\n#adit: name = a", "wg0.conf:8: name: it stands in the section already"),
            ("", "#adit: expires = 2027-02-30", "wg0.conf:7: expires: it is a day "),
            ("", "#adit: expires = 1969-12-31", "wg0.conf:7: expires: it is a day "),
            ("", "#adit: expires = 30d", "wg0.conf:7: expires: it is a day "),
            ("", "#adit: session-limit = 0h", "wg0.conf:7: session-limit: it is a number "),
            ("", "#adit: session-limit = +8h", "wg0.conf:7: session-limit: it is a number "),
            ("", "#adit: session-limit = 4294967295d", "wg0.conf:7: session-limit: it is a number "),
            ("", "#adit: post-quantum = yes", "wg0.conf:7: post-quantum: it is off, on or required"),
            ("#adit: client-connect = x", "", "wg0.conf:4: client-connect: it is a program "),
            ("#adit: full-tunnel = loose", "", "wg0.conf:4: full-tunnel: it is strict or wg-quick"),
            ("#adit: listen-tcp = 0", "", "wg0.conf:4: listen-tcp: it is PORT, "),
            ("#adit: tcp = http://a", "", "wg0.conf:4: tcp: it belongs into [Peer]"),
            ("", "#adit: tcp = a:80", "wg0.conf:7: tcp: it is http://HOST"),
            ("", "#adit: tcp = https://u@a/", "wg0.conf:7: tcp: it is http://HOST"),
            ("", "#adit: tcp = https://a\n#adit: tcp-ca = ca.pem", "wg0.conf:8: tcp-ca: it is a file "),
            ("", "#adit: tcp = http://a\n#adit: tcp-ca = /ca.pem", "wg0.conf:5: it has `tcp-ca` without "),
            ("", "#adit: tcp-ca = /ca.pem", "wg0.conf:5: it has `tcp-ca` without "),
            ("", "#adit: tcp = http://a\nEndpoint = a:1", "wg0.conf:5: it has an Endpoint and `tcp`"),
            (
                "",
                "Endpoint = a:1 #adit: name = a",
                "wg0.conf:7: a setting of adit stands on a line of its own",
            ),
        ] {
            let found = problem(of_interface, of_peer);
            assert!(found.starts_with(start) && !found.contains('\n'), "{found:?} is not {start:?}");
        }
        let before = parse(b"#adit: name = a\n[Interface]\n", "wg0.conf").expect_err("no section");
        assert!(before.problems[0].to_string().starts_with("wg0.conf:1: it stands before any section"));
    }

    #[test]
    fn a_server_over_tls_has_authorities_of_its_own_or_the_systems() {
        let peer = |lines: &str| {
            let parsed = parse(file("", lines).as_bytes(), "wg0.conf").expect("a good file");
            parsed.config.peers.into_iter().next().expect("a peer")
        };
        let systems = peer("#adit: tcp = https://vpn.example/a");
        let url = systems.tcp.as_ref().map(|url| (url.tls, url.port, url.target.as_str()));
        assert_eq!((url, systems.tcp_ca), (Some((true, 443, "/a")), None));
        let own = peer("#adit: tcp-ca = /etc/adit/ca.pem\n#adit: tcp = https://vpn.example:8443");
        assert_eq!(own.tcp_ca.as_deref(), Some(Path::new("/etc/adit/ca.pem")));
        assert_eq!(own.tcp.map(|url| url.port), Some(8443));
    }

    #[test]
    fn post_quantum_is_of_both_sections() {
        for (value, read) in
            [("off", PostQuantum::Off), ("on", PostQuantum::On), ("required", PostQuantum::Required)]
        {
            let setting = format!("#adit: post-quantum = {value}");
            let config = |of_interface, of_peer| {
                parse(file(of_interface, of_peer).as_bytes(), "wg0.conf").expect("a good file").config
            };
            let of_interface = config(&setting, "");
            assert_eq!(of_interface.interface.post_quantum, Some(read));
            assert_eq!(of_interface.post_quantum(&of_interface.peers[0]), read);
            let of_peer = config("#adit: post-quantum = on", &setting);
            assert_eq!(of_peer.post_quantum(&of_peer.peers[0]), read, "the peer's own counts");
        }
        let none = parse(file("", "").as_bytes(), "wg0.conf").expect("a good file").config;
        assert_eq!(none.post_quantum(&none.peers[0]), PostQuantum::Off);
    }

    #[test]
    fn moments_and_periods() {
        let seconds = |text| moment(text).map(|since| since.as_secs()).ok();
        assert_eq!(seconds("1970-01-02"), Some(86_400));
        assert_eq!(seconds("1970-01-02T00:00:01+01:00"), Some(86_400 - 3600 + 1));
        for (text, found) in [("90s", 90), ("2m", 120), ("1d", 86_400)] {
            assert_eq!(period(text), Ok(Duration::from_secs(found)), "{text}");
        }
    }
}
