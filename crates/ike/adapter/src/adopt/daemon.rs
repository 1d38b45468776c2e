//! The settings of strongSwan's daemon (strongswan.conf(5)) beside those that adit has.

use adit_ike_config::{Config, DaemonSetting};

use super::environment::{Environment, SOCKET, path_of};
use crate::vici;

/// The use of a setting.
enum Use {
    /// It says what adit does in any case, or how the daemon is put together.
    Same,
    /// It is without effect: the reason.
    Ignored(&'static str),
    /// adit cannot do it: what to write instead.
    Refused(&'static str),
}

const PORTS: &str = "adit has UDP ports 500 and 4500 alone: remove the line, and have the peers use these";
const NAME_SERVERS: &str = "adit gives peers what their pool in swanctl.conf says: write `dns = ADDRESS, …` (or `nbns`, `subnet`) there, and remove \
                            the line";
const RESPONDER: &str = "adit answers the peers of its connections: remove the line, and let UDP ports 500 and 4500 in from them alone";
const OF_SOCKET: &str =
    "adit listens where a line of swanctl.conf says: write `#adit: vici-socket = PATH` there with this path";

/// The daemon's settings that adit does not follow: a line for each.
///
/// # Errors
/// The settings that adit cannot carry out, a line each, or why they cannot be read.
pub(super) fn differences(environment: &Environment, config: &Config) -> Result<Vec<String>, String> {
    let (mut told, mut refused) = (Vec::new(), Vec::new());
    for setting in environment.settings()? {
        let DaemonSetting { name, value, place } = &setting;
        match use_of(name, value, config) {
            Use::Same => {}
            Use::Ignored(why) => told.push(format!("{place}: ignored `{name} = {value}`: {why}")),
            Use::Refused(why) => refused.push(format!("{place}: `{name} = {value}`: {why}")),
        }
    }
    if refused.is_empty() { Ok(told) } else { Err(refused.join("\n")) }
}

fn use_of(name: &str, value: &str, config: &Config) -> Use {
    let default_or = |is_default: bool, why| if is_default { Use::Same } else { Use::Refused(why) };
    match name {
        "port" => default_or(value == "500", PORTS),
        "port_nat_t" => default_or(value == "4500", PORTS),
        "dns1" | "dns2" | "nbns1" | "nbns2" => Use::Refused(NAME_SERVERS),
        "initiator_only" => default_or(is_no(value), RESPONDER),
        SOCKET => {
            let wanted = config.vici.socket.as_deref().unwrap_or(vici::PATH);
            default_or(path_of(value).is_some_and(|path| is_same(path, wanted)), OF_SOCKET)
        }
        _ => of_group(name),
    }
}

/// The use of a setting of which only the group matters.
fn of_group(name: &str) -> Use {
    let is_part = |start: &str| name.starts_with(start);
    let is_module = name == "load" || name == "load_modular" || name.ends_with(".load");
    if is_module {
        return Use::Same;
    }
    if is_part("plugins.attr.") {
        return Use::Refused(NAME_SERVERS);
    }
    let reasons = [
        ("filelog.", "adit's log is that of the unit (journalctl)"),
        ("syslog.", "adit's log is that of the unit (journalctl)"),
        ("journal.", "adit's log is that of the unit (journalctl)"),
        ("retransmit_", "adit has times of its own for retransmissions"),
        (
            "install_routes",
            "adit sets the routes of `remote_ts`, unless a connection has a device of its own",
        ),
        ("install_virtual_ip", "adit gives its device the address that a gateway gives"),
        ("interfaces_", "adit listens at all addresses; a firewall can keep others out"),
        ("cookie_threshold", "adit has limits of its own for IKE SAs that are half open"),
        ("block_threshold", "adit has limits of its own for IKE SAs that are half open"),
        ("init_limit_", "adit has limits of its own for IKE SAs that are half open"),
        ("half_open_timeout", "adit has limits of its own for IKE SAs that are half open"),
        ("dos_protection", "adit has limits of its own for IKE SAs that are half open"),
        (
            "start-scripts.",
            "adit reads swanctl.conf itself; other commands belong into the unit (ExecStartPost=)",
        ),
        ("stop-scripts.", "such commands belong into the unit (ExecStopPost=)"),
        ("plugins.", "it is for a plugin of strongSwan"),
    ];
    let found = reasons.iter().find(|(start, _)| is_part(start));
    Use::Ignored(found.map_or("adit has no such setting", |(_, why)| why))
}

/// Whether a value is a no (strongswan.conf(5)).
fn is_no(value: &str) -> bool {
    ["no", "false", "disabled", "0"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a path is that one, where `/var/run` leads to `/run`.
fn is_same(path: &std::path::Path, wanted: &str) -> bool {
    let plain = |path: &str| {
        path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path).to_owned()
    };
    path.to_str().is_some_and(|path| plain(path) == plain(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, text};

    /// The lines about a daemon's file with these settings beside a file of swanctl with that line in front.
    fn lines(settings: &str, own: &str) -> Result<Vec<String>, String> {
        let scratch = adit_testbed::Scratch::create("adopt-daemon").expect("a directory");
        let daemon =
            scratch.write("strongswan.conf", &format!("charon {{\n{settings}\n}}\n")).expect("a file");
        let variable = format!("STRONGSWAN_CONF={}\0", daemon.display());
        let environment = Environment::read(variable.as_bytes());
        differences(&environment, &config(&format!("{own}\n{}", text("", ""))))
    }

    #[test]
    fn settings_that_adit_has_not_are_named_or_refused_before_anything_stops() {
        for same in [
            "load_modular = yes",
            "port = 500",
            "port_nat_t = 4500",
            "initiator_only = no",
            "plugins {\n vici {\n load = yes\n socket = unix:///run/charon.vici\n }\n}",
        ] {
            assert_eq!(lines(same, ""), Ok(Vec::new()), "{same}");
        }
        for (ignored, words) in [
            ("retransmit_tries = 3", "strongswan.conf:2: ignored `retransmit_tries = 3`: adit has times"),
            ("filelog {\n a {\n path = /x\n }\n}", "ignored `filelog.a.path = /x`: adit's log"),
            (
                "plugins {\n resolve {\n file = /x\n }\n}",
                "ignored `plugins.resolve.file = /x`: it is for a plugin",
            ),
            ("threads = 16", "ignored `threads = 16`: adit has no such setting"),
        ] {
            let told = lines(ignored, "").expect("it can be run").join("\n");
            assert!(told.contains(words), "{told}");
        }
        for (refused, words) in [
            ("port = 1500", "strongswan.conf:2: `port = 1500`: adit has UDP ports 500"),
            ("port_nat_t = 0", "UDP ports 500"),
            ("dns1 = 10.1.0.1", "`dns = ADDRESS"),
            ("plugins {\n attr {\n load = yes\n dns = 10.1.0.1\n }\n}", "`plugins.attr.dns = 10.1.0.1`"),
            ("initiator_only = yes", "let UDP ports"),
            ("plugins {\n vici {\n socket = unix:///run/own.vici\n }\n}", "#adit: vici-socket"),
        ] {
            let why = lines(refused, "").expect_err("it cannot be run");
            assert!(why.contains(words), "{why}");
        }
        let socket = "plugins {\n vici {\n socket = unix:///run/own.vici\n }\n}";
        assert_eq!(lines(socket, "#adit: vici-socket = /run/own.vici"), Ok(Vec::new()));
    }
}
