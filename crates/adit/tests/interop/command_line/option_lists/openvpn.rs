//! The verdict of OpenVPN 2.6 on a list. It takes a tenth of a second each, so most verdicts are recorded in
//! verdicts.txt.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use adit_testbed::{Scratch, program};

use super::lists::OptionList;

/// The recorded verdicts: the hash of a list, and the verdict.
const RECORDED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/command_line/option_lists/verdicts.txt");

/// Set to have all lists judged, and the verdicts recorded.
const RECORD: &str = "ADIT_RECORD_VERDICTS";

/// Every so many of the recorded ones are compared with OpenVPN.
const EVERY: usize = 60;

/// Programs that run at once.
const THREADS: usize = 4;

/// Seconds for one, on a machine that is busy and slow.
const TIME: &str = "30";

/// The exit code of timeout(1) when that was too short.
const KILLED: i32 = 124;

/// The last options of each list: OpenVPN shows the parameters of a list that it accepts (show_settings), and its name
/// after that.
const LAST: [&str; 3] = ["--suppress-timestamps", "--verb", "4"];

/// How the line begins by which OpenVPN says its name, once it has accepted a list. It ends soon after: its certificate is none.
const NAME: &str = "[SSL (OpenSSL)]";

/// The parameters that are compared, as OpenVPN calls them, in lists with one of these options.
pub(super) const PARAMETERS: [(&str, &[&str]); 12] = [
    ("tun_mtu", &["tun-mtu"]),
    ("ping_send_timeout", &["ping", "keepalive"]),
    ("ping_rec_timeout", &["ping-restart", "ping-exit", "keepalive"]),
    ("renegotiate_seconds", &["reneg-sec"]),
    ("handshake_window", &["hand-window"]),
    ("transition_window", &["tran-window"]),
    ("tls_timeout", &["tls-timeout"]),
    ("replay_window", &["replay-window"]),
    ("replay_time", &["replay-window"]),
    ("session_timeout", &["session-timeout"]),
    ("inactivity_timeout", &["inactive"]),
    ("max_clients", &["max-clients"]),
];

/// The values of [`PARAMETERS`]; `None`: the list was refused.
pub(super) type Verdict = Option<Vec<String>>;

/// Its verdicts on all lists.
pub(super) fn verdicts(lists: &[OptionList]) -> Vec<Verdict> {
    let records = std::env::var_os(RECORD).is_some();
    let recorded = if records { BTreeMap::new() } else { recorded() };
    let known = |list: &OptionList| recorded.get(&list.hash());
    let asked: Vec<usize> =
        (0..lists.len()).filter(|index| index % EVERY == 0 || known(&lists[*index]).is_none()).collect();
    let answers: BTreeMap<usize, Verdict> = ask_all(lists, &asked);
    for (index, answer) in &answers {
        let known = known(&lists[*index]);
        assert!(
            known.is_none_or(|known| known == answer),
            "{:?}: recorded is {known:?}, OpenVPN says {answer:?}: record all with {RECORD}=1",
            lists[*index].words()
        );
    }
    let verdict = |(index, list): (usize, &OptionList)| match answers.get(&index) {
        Some(answer) => answer.clone(),
        None => known(list).cloned().flatten(),
    };
    let verdicts: Vec<Verdict> = lists.iter().enumerate().map(verdict).collect();
    if records {
        let line =
            |(list, verdict): (&OptionList, &Verdict)| format!("{:016x} {}\n", list.hash(), written(verdict));
        let mut text: Vec<String> = lists.iter().zip(&verdicts).map(line).collect();
        text.sort();
        std::fs::write(RECORDED, text.concat()).unwrap();
    }
    verdicts
}

fn recorded() -> BTreeMap<u64, Verdict> {
    let text = std::fs::read_to_string(RECORDED).unwrap_or_default();
    let line = |line: &str| {
        let (hash, verdict) = line.split_once(' ').unwrap();
        (u64::from_str_radix(hash, 16).unwrap(), read(verdict))
    };
    text.lines().map(line).collect()
}

fn written(verdict: &Verdict) -> String {
    verdict.as_ref().map_or_else(|| "refused".to_owned(), |values| values.join(" "))
}

fn read(text: &str) -> Verdict {
    (text != "refused").then(|| text.split(' ').map(str::to_owned).collect())
}

/// Asks about the lists of these numbers.
fn ask_all(lists: &[OptionList], asked: &[usize]) -> BTreeMap<usize, Verdict> {
    let scratch = files();
    let directory = scratch.path();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|first| {
                let own = asked.iter().skip(first).step_by(THREADS);
                scope.spawn(move || {
                    own.map(|index| (*index, ask(&lists[*index], directory))).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Files that are there and hold nothing of use.
fn files() -> Scratch {
    let scratch = Scratch::create("option-lists").unwrap();
    for name in ["ca", "cert", "key", "dh", "secret", "crl", "pass", "p12", "pool"] {
        scratch.write(name, "nothing\n").unwrap();
    }
    std::fs::create_dir(scratch.path().join("dir")).unwrap();
    scratch
}

fn ask(list: &OptionList, directory: &Path) -> Verdict {
    let mut command = program("timeout").unwrap();
    command.arg(TIME).arg(program("openvpn").unwrap().get_program()).args(list.words()).args(LAST);
    let output = command.current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if text.contains("Options error: ") {
        return None;
    }
    if !text.contains(NAME) {
        assert_ne!(output.status.code(), Some(KILLED), "{:?}: no verdict in {TIME} s", list.words());
        return None;
    }
    let value = |(parameter, _): &(&str, &[&str])| {
        let start = format!("  {parameter} = ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("?").to_owned()
    };
    Some(PARAMETERS.iter().map(value).collect())
}
