//! Two thousand lists of options, right and wrong: adit's verdict on them, beside that of OpenVPN 2.6. Where the two
//! differ, a row of docs/use/OPENVPN-COMMAND.md says why.

mod differences;
mod lists;
mod openvpn;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use adit_openvpn_config::{COMMAND_LINE, Config, Role, command_line_text, parse, split_command_line};
use adit_testbed::can_run;

use crate::bed::PROGRAMS;
use differences::Differences;
use lists::OptionList;
use openvpn::{PARAMETERS, Verdict};

/// How many differences that no row explains are shown.
const SHOWN: usize = 60;

#[test]
fn option_lists_are_judged_as_by_openvpn() {
    if !can_run("option lists", &[PROGRAMS[0], "timeout"]) {
        return;
    }
    let lists = lists::all();
    let verdicts = openvpn::verdicts(&lists);
    let accepted = verdicts.iter().filter(|verdict| verdict.is_some()).count();
    assert!((lists.len() / 5..lists.len() * 4 / 5).contains(&accepted), "OpenVPN accepts {accepted}");
    let mut differences = Differences::read();
    let mut unexplained = Vec::new();
    for (list, theirs) in lists.iter().zip(&verdicts) {
        let ours = judge(list);
        for difference in compare(list, &ours, theirs) {
            if !differences.explain(list, difference.0) {
                unexplained.push(format!("{}: {}", list.words().join(" "), difference.1));
            }
        }
    }
    let number = unexplained.len();
    unexplained.truncate(SHOWN);
    assert!(unexplained.is_empty(), "{number} differences:\n{}", unexplained.join("\n"));
    let unused = differences.unused();
    assert!(unused.is_empty(), "these differ no more: {unused:?}");
}

/// The page's word for adit's verdict where it is another, and the difference in words.
type Differing = (&'static str, String);

fn compare(list: &OptionList, ours: &Result<Config, String>, theirs: &Verdict) -> Vec<Differing> {
    match (ours, theirs) {
        (Err(_), None) => Vec::new(),
        (Err(why), Some(_)) => vec![("refuses", format!("adit refuses: {}", why.replace('\n', "; ")))],
        (Ok(_), None) => vec![("accepts", "adit accepts".to_owned())],
        (Ok(config), Some(theirs)) => {
            let names: BTreeSet<&str> = list.options.iter().map(|option| option[0].as_str()).collect();
            let all = PARAMETERS.iter().zip(values(config)).zip(theirs);
            let differing = all.filter_map(|(((name, options), ours), theirs)| {
                let is_set = options.iter().any(|option| names.contains(option));
                (is_set && ours != *theirs).then(|| ("differs", format!("{name} is {ours}, not {theirs}")))
            });
            differing.collect()
        }
    }
}

/// adit's verdict, with files of the right content.
fn judge(list: &OptionList) -> Result<Config, String> {
    let options = split_command_line(&list.words())?;
    let text = command_line_text(&options)?;
    let parsed = parse(COMMAND_LINE, text.as_bytes(), &load);
    parsed.map(|parsed| parsed.config).map_err(|failure| failure.to_string())
}

fn load(path: &Path) -> Result<Vec<u8>, String> {
    let block = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
    let text = match path.to_str() {
        // The last: the files in the directory `dir` by hashes of names.
        Some("ca" | "cert" | "dir/*") => block("CERTIFICATE"),
        Some("key") => block("PRIVATE KEY"),
        Some("crl") => block("X509 CRL"),
        Some("secret") => {
            let line = "00112233445566778899aabbccddeeff\n";
            let kind = "OpenVPN Static key V1";
            format!("-----BEGIN {kind}-----\n{}-----END {kind}-----\n", line.repeat(16))
        }
        Some("dh" | "pass" | "p12" | "pool") => "anna\nsecret\n".to_owned(),
        _ => return Err("No such file or directory".to_owned()),
    };
    Ok(text.into_bytes())
}

/// The values of [`PARAMETERS`].
fn values(config: &Config) -> [String; PARAMETERS.len()] {
    let Config { liveness, rekey, limits, .. } = config;
    let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs().to_string();
    let max_clients = match &config.role {
        Role::Server(server) => server.max_clients,
        // OpenVPN's default, which it shows of other ends too.
        Role::Client(_) | Role::PointToPoint(_) => 1024,
    };
    [
        config.device.mtu.to_string(),
        seconds(liveness.ping),
        seconds(liveness.timeout),
        seconds(rekey.after),
        seconds(Some(rekey.handshake)),
        seconds(Some(rekey.transition)),
        seconds(Some(rekey.retransmit)),
        config.data.replay_window.packets.to_string(),
        seconds(Some(config.data.replay_window.time)),
        seconds(limits.length),
        seconds(limits.idle.map(|idle| idle.after)),
        max_clients.to_string(),
    ]
}
