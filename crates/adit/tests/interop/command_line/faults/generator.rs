//! Faults, one in a configuration: in its lines, in its blocks, or in a file beside it.

use super::bases::{Entry, Files};

/// Random numbers from a seed (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(41))
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Arguments that are rarely right.
const ODD: [&str; 9] = ["-1", "99999999999", "\"", "x", "0", "256.1.1.1", "none", "no such", "\u{fc}"];
/// Lines that name files or users that are not there, or contradict others.
const WRONG_LINES: [&str; 22] = [
    "user no-such-user",
    "group no-such-group",
    "script-security 2\nup /nowhere/up",
    "script-security 2\ntls-verify /nowhere/verify",
    "script-security 2\nroute-up clients",
    "client-config-dir /nowhere",
    "writepid /nowhere/pid",
    "log /nowhere/log",
    "management /nowhere/socket unix",
    "management 127.0.0.1 7505 /nowhere/password",
    "management 127.0.0.1 0\nmanagement-client-user no-such-user",
    "crl-verify /nowhere/list",
    "crl-verify up.sh",
    "askpass /nowhere/password",
    "auth-user-pass /nowhere/password",
    "pkcs12 /nowhere/own.p12",
    "extra-certs up.sh",
    "tls-version-min 1.3\ntls-version-max 1.2",
    "cipher NONE-SUCH",
    "plugin /nowhere/plugin.so",
    "peer-fingerprint 00:11",
    "no-such-directive",
];
/// Lines whose hosts would be looked up as names if they were changed.
const WITH_HOSTS: [&str; 2] = ["remote ", "Endpoint"];

/// Makes one fault, and says which.
pub(super) fn break_one(files: &mut Files, random: &mut Random) -> String {
    match random.below(10) {
        0 | 1 if !files.beside.is_empty() => break_file(files, random),
        0..=2 => break_block(files, random),
        3 => append(files, random),
        _ => break_line(files, random),
    }
}

fn append(files: &mut Files, random: &mut Random) -> String {
    let wrong = random.one_of(&WRONG_LINES);
    files.lines.extend(wrong.lines().map(str::to_owned));
    format!("with `{wrong}`")
}

fn break_line(files: &mut Files, random: &mut Random) -> String {
    let head = files.lines.iter().position(|line| line.starts_with('<')).unwrap_or(files.lines.len());
    let at = random.below(head);
    let before = files.lines[at].clone();
    let is_host = WITH_HOSTS.iter().any(|start| before.starts_with(start));
    match random.below(if is_host { 2 } else { 7 }) {
        0 => drop(files.lines.remove(at)),
        1 => files.lines.insert(at, before.clone()),
        2 => files.lines[at] = garbled(&before, random),
        3 => {
            let other = random.below(head);
            files.lines.swap(at, other);
        }
        4 => files.lines[at] = format!("{before} {}", random.one_of(&ODD)),
        5 => files.lines[at] = before.rsplit_once(' ').map_or(before.as_str(), |(start, _)| start).to_owned(),
        _ => {
            let start = before.rsplit_once(' ').map_or(before.as_str(), |(start, _)| start);
            files.lines[at] = format!("{start} {}", random.one_of(&ODD));
        }
    }
    let now = files.lines.get(at).cloned().unwrap_or_default();
    format!("line {} was `{before}` and is `{now}`", at + 1)
}

/// One character is another.
fn garbled(text: &str, random: &mut Random) -> String {
    let at = random.below(text.len().max(1));
    let other = random.one_of(b"aZ09-/. \"<#");
    let garble = |(index, byte): (usize, u8)| if index == at { char::from(other) } else { char::from(byte) };
    text.bytes().enumerate().map(garble).collect()
}

/// Breaks an inline block; where there is none, a line.
fn break_block(files: &mut Files, random: &mut Random) -> String {
    let starts: Vec<usize> = (0..files.lines.len())
        .filter(|line| files.lines[*line].starts_with('<') && !files.lines[*line].starts_with("</"))
        .collect();
    if starts.is_empty() {
        return break_line(files, random);
    }
    let end = |files: &Files, start: usize| {
        (start..files.lines.len()).find(|line| files.lines[*line].starts_with("</")).unwrap()
    };
    let (start, other) = (random.one_of(&starts), random.one_of(&starts));
    let (last, other_last) = (end(files, start), end(files, other));
    let within = start + 1 + random.below(last - start - 1);
    let what = match random.below(6) {
        0 => {
            files.lines.remove(within);
            "a line of it is missing"
        }
        1 => {
            files.lines[within] = garbled(&files.lines[within].clone(), random);
            "a character of it is another"
        }
        2 => {
            files.lines.drain(within..last);
            "its end is missing"
        }
        3 => {
            let body: Vec<String> = files.lines[other + 1..other_last].to_vec();
            files.lines.splice(start + 1..last, body);
            "it has the content of another, or its own"
        }
        4 => {
            files.lines.drain(start + 1..last);
            "it is empty"
        }
        _ => {
            files.lines.remove(last);
            "its end tag is missing"
        }
    };
    format!("block at line {}: {what}", start + 1)
}

fn break_file(files: &mut Files, random: &mut Random) -> String {
    let (at, other) = (random.below(files.beside.len()), random.below(files.beside.len()));
    let of_other = match &files.beside[other].1 {
        Entry::Text(text) => text.clone(),
        Entry::Directory => Vec::new(),
    };
    let name = files.beside[at].0;
    let text = match &files.beside[at].1 {
        Entry::Text(text) => text.clone(),
        Entry::Directory => Vec::new(),
    };
    let what = match random.below(6) {
        0 => {
            files.beside.remove(at);
            "is missing"
        }
        1 => {
            files.beside[at].1 = Entry::Directory;
            "is a directory"
        }
        2 => {
            files.beside[at].1 = Entry::Text(of_other);
            "has the content of another, or its own"
        }
        3 => {
            files.beside[at].1 = Entry::Text(text[..random.below(text.len() + 1)].to_vec());
            "is cut"
        }
        4 => {
            files.beside[at].1 = Entry::Text(Vec::new());
            "is empty"
        }
        _ => {
            let garbled = garbled(&String::from_utf8_lossy(&text), random);
            files.beside[at].1 = Entry::Text(garbled.into_bytes());
            "has another character"
        }
    };
    format!("the file {name} {what}")
}
