//! The way from text to [`Config`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use adit_core::configuration::own_settings::{self, Comment};
use adit_core::configuration::{Disposition, Failure, Fingerprint, Kind, Problem};
use adit_core::printable;
use adit_wireguard::{AllowedIp, KEY_LEN, PresharedKey, PrivateKey, PublicKey};

use super::advice::{self, AllowedIpsLine};
use super::directives;
use super::model::{Config, Interface, Peer};
use super::values::{self, Value};

/// A file that was taken.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The file's content.
    pub config: Config,
    /// The result of each line, in the order of the file.
    pub report: Vec<Disposition>,
    /// Points that do not stop the tunnel but that its owner should know.
    pub warnings: Vec<Problem>,
}

/// A setting as it stands in a line.
struct Setting<'a> {
    key: &'a str,
    value: &'a str,
}

/// Reads a file, which was named `file`.
///
/// # Errors
/// All its problems.
pub fn parse(text: &[u8], file: &str) -> Result<Parsed, Failure> {
    let mut reader = Reader { file, ..Reader::default() };
    if adit_core::configuration::is_utf_16(text) {
        reader.problem(None, adit_core::configuration::IS_UTF_16.to_owned());
        return reader.finish();
    }
    // An editor's mark of byte order is no part of the first line.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        // A comment may be in any encoding: only what is read must be text.
        let behind = line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
        match (std::str::from_utf8(line), line.get(..behind).map(std::str::from_utf8)) {
            (Ok(line), _) => reader.line(number, line),
            (Err(_), Some(Ok(line))) if !is_hook(line.trim()) => reader.line(number, line),
            _ => reader.problem(Some(number), "it is not text (UTF-8)".to_owned()),
        }
    }
    reader.finish()
}

const NO_SECTION: &str = "it stands before any section; [Interface] or [Peer] comes first";

#[derive(Default)]
enum Section {
    #[default]
    None,
    Interface,
    Peer,
    /// A section that is none: its lines are not looked at.
    Unknown,
}

/// A peer, perhaps without a key yet.
#[derive(Default)]
struct Draft {
    line: u32,
    public_key: Option<PublicKey>,
    peer: Option<Peer>,
    /// The line of each allowed IP.
    allowed_ip_lines: Vec<u32>,
}

#[derive(Default)]
struct Reader<'a> {
    file: &'a str,
    section: Section,
    interface: Interface,
    has_interface: bool,
    mtu_line: Option<u32>,
    drafts: Vec<Draft>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    report: Vec<Disposition>,
}

impl Reader<'_> {
    fn problem(&mut self, line: Option<u32>, text: String) {
        self.problems.push(Problem { file: self.file.to_owned(), line, text });
    }

    fn line(&mut self, number: u32, raw: &str) {
        let uncommented = raw.split('#').next().unwrap_or_default().trim();
        match own_settings::comment(raw) {
            Comment::Ours(text) => return self.directive(number, text),
            Comment::Behind if !is_hook(uncommented) => {
                let text = "a setting of adit stands on a line of its own".to_owned();
                return self.problem(Some(number), text);
            }
            Comment::Plain | Comment::Behind => {}
        }
        if uncommented.is_empty() {
            return;
        }
        if uncommented.starts_with('[') {
            return self.begin(number, uncommented);
        }
        if matches!(self.section, Section::Unknown) {
            return;
        }
        let Some((key, value)) = uncommented.split_once('=') else {
            let text = "a line is a key, =, and a value, or a section in brackets".to_owned();
            return self.problem(Some(number), text);
        };
        let (key, value) = (key.trim(), value.trim());
        let whole = raw.split_once('=').map_or("", |(_, value)| value.trim());
        let taken = match self.section {
            Section::Interface => self.interface_key(number, key, value, whole),
            Section::Peer => self.peer_key(number, key, value),
            Section::None | Section::Unknown => Err(NO_SECTION.to_owned()),
        };
        match taken {
            Ok(remark) => self.used(number, Setting { key, value: whole }, remark),
            Err(why) => self.problem(Some(number), format!("{}: {why}", shown(key))),
        }
    }

    /// A setting of adit's own.
    fn directive(&mut self, number: u32, text: &str) {
        let taken = match self.section {
            Section::Interface => directives::of_interface(&mut self.interface, text),
            Section::Peer => self.draft_peer(number).map_or(Ok(()), |peer| directives::of_peer(peer, text)),
            Section::None => Err(NO_SECTION.to_owned()),
            Section::Unknown => return,
        };
        match taken {
            Ok(()) => self.used(
                number,
                Setting { key: directives::key(text), value: text },
                directives::remark(text),
            ),
            Err(why) => self.problem(Some(number), why),
        }
    }

    /// The peer that the lines are about.
    fn draft_peer(&mut self, number: u32) -> Option<&mut Peer> {
        let draft = self.drafts.last_mut()?;
        Some(draft.peer.get_or_insert_with(|| unnamed_peer(number)))
    }

    fn begin(&mut self, number: u32, line: &str) {
        let name: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        self.section = if name.eq_ignore_ascii_case("[interface]") {
            self.has_interface = true;
            Section::Interface
        } else if name.eq_ignore_ascii_case("[peer]") {
            self.drafts.push(Draft { line: number, ..Draft::default() });
            Section::Peer
        } else {
            let text = format!("{} is no section; there are [Interface] and [Peer]", shown(&name));
            self.problem(Some(number), text);
            Section::Unknown
        };
    }

    fn used(&mut self, line: u32, setting: Setting<'_>, reason: String) {
        let Setting { key, value } = setting;
        if !reason.is_empty() {
            self.warnings.push(Problem {
                file: self.file.to_owned(),
                line: Some(line),
                text: format!("{key}: {reason}"),
            });
        }
        let (file, directive) = (self.file.to_owned(), key.to_owned());
        let fingerprint = Fingerprint::of(&[], Some(value));
        self.report.push(Disposition { file, line, directive, kind: Kind::Used, reason, fingerprint });
    }

    /// `whole` is the value with what may be a comment. Gives a remark, or nothing.
    fn interface_key(&mut self, number: u32, key: &str, value: &str, whole: &str) -> Result<String, String> {
        let interface = &mut self.interface;
        let compact = without_space(value);
        match wg_key(key).as_str() {
            "privatekey" => {
                interface.private_key = PrivateKey::new(*values::key(&compact).map_err(str::to_owned)?);
            }
            "listenport" => set(&mut interface.listen_port, values::port(&compact))?,
            "fwmark" => set(&mut interface.fwmark, values::fwmark(&compact))?,
            "address" => list(words(value), values::address, &mut interface.addresses)?,
            // wg-quick takes nothing for nothing said.
            "mtu" if value.is_empty() => (interface.mtu, self.mtu_line) = (None, None),
            "mtu" => {
                set(&mut interface.mtu, values::mtu(&compact))?;
                self.mtu_line = Some(number);
            }
            "dns" => words(value).try_for_each(|word| dns(interface, word))?,
            "table" => interface.table = values::table(value).map_err(str::to_owned)?,
            "preup" => interface.pre_up.push(whole.to_owned()),
            "postup" => interface.post_up.push(whole.to_owned()),
            "predown" => interface.pre_down.push(whole.to_owned()),
            "postdown" => interface.post_down.push(whole.to_owned()),
            "saveconfig" => interface.save_config = values::save(value).map_err(str::to_owned)?,
            "publickey" | "presharedkey" | "allowedips" | "endpoint" | "persistentkeepalive" => {
                return Err("it belongs into [Peer]".to_owned());
            }
            _ => return Err("[Interface] has no such key".to_owned()),
        }
        Ok(String::new())
    }

    fn peer_key(&mut self, number: u32, key: &str, value: &str) -> Result<String, String> {
        let Some(draft) = self.drafts.last_mut() else { return Ok(String::new()) };
        let peer = draft.peer.get_or_insert_with(|| unnamed_peer(number));
        let compact = without_space(value);
        match wg_key(key).as_str() {
            "publickey" => {
                let key = values::key(&compact).map_err(str::to_owned)?;
                draft.public_key = Some(PublicKey(*key));
            }
            "presharedkey" => {
                set(&mut peer.preshared_key, values::key(&compact).map(|key| PresharedKey::new(*key)))?;
            }
            "endpoint" => set(&mut peer.endpoint, values::endpoint(&compact))?,
            "persistentkeepalive" => set(&mut peer.persistent_keepalive, values::keepalive(&compact))?,
            "allowedips" => {
                let remark = allowed_ips(&compact, &mut peer.allowed_ips)?;
                draft.allowed_ip_lines.resize(peer.allowed_ips.len(), number);
                return Ok(remark);
            }
            "privatekey" | "listenport" | "fwmark" | "address" | "mtu" | "dns" | "table" | "preup"
            | "postup" | "predown" | "postdown" | "saveconfig" => {
                return Err("it belongs into [Interface]".to_owned());
            }
            _ => return Err("[Peer] has no such key".to_owned()),
        }
        Ok(String::new())
    }

    fn finish(mut self) -> Result<Parsed, Failure> {
        // wg-quick runs peers alone, too: a key may come by `wg set`.
        if !self.has_interface && self.drafts.is_empty() && self.problems.is_empty() {
            self.problem(None, "it has no section [Interface]".to_owned());
        }
        let (mut peers, mut allowed_ips) = (Vec::new(), Vec::new());
        let mut lines: BTreeMap<PublicKey, u32> = BTreeMap::new();
        for Draft { line, public_key, peer, allowed_ip_lines } in std::mem::take(&mut self.drafts) {
            let (Some(public_key), Some(peer)) = (public_key, peer) else {
                // A key that is wrong was reported already.
                self.problem(Some(line), "[Peer] has no PublicKey, or none that can be read".to_owned());
                continue;
            };
            if peer.tcp.is_some() && peer.endpoint.is_some() {
                let text = "it has an Endpoint and `tcp`: it is reached by one of them";
                self.problem(Some(line), text.to_owned());
            }
            if peer.tcp_ca.is_some() && peer.tcp.as_ref().is_none_or(|url| !url.tls) {
                let text = "it has `tcp-ca` without a `tcp` that begins with https://";
                self.problem(Some(line), text.to_owned());
            }
            if let Some(first) = lines.insert(public_key, line) {
                let text = format!("this peer has the same key as that of line {first}: they are one peer");
                let file = self.file.to_owned();
                self.warnings.push(Problem { file, line: Some(line), text });
            }
            let with_lines = peer.allowed_ips.iter().zip(allowed_ip_lines);
            allowed_ips.extend(with_lines.map(|(change, line)| AllowedIpsLine {
                change: *change,
                public_key,
                line,
            }));
            peers.push(Peer { line, public_key, ..peer });
        }
        let advice = advice::of_interface(&self.interface, &peers, self.mtu_line);
        for (line, text) in advice.into_iter().chain(advice::of_allowed_ips(&allowed_ips)) {
            self.warnings.push(Problem { file: self.file.to_owned(), line, text });
        }
        self.problems.sort_by_key(|problem| problem.line);
        self.warnings.sort_by_key(|warning| warning.line);
        let Reader { interface, problems, warnings, report, .. } = self;
        if problems.is_empty() {
            Ok(Parsed { config: Config { interface, peers }, report, warnings })
        } else {
            Err(Failure { problems, report })
        }
    }
}

/// A peer whose key is not known yet.
fn unnamed_peer(line: u32) -> Peer {
    Peer::new(line, PublicKey([0; KEY_LEN]))
}

/// Hooks keep what looks like a comment.
fn is_hook(line: &str) -> bool {
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    ["PreUp", "PostUp", "PreDown", "PostDown"].iter().any(|hook| hook.eq_ignore_ascii_case(key))
}

fn set<T>(place: &mut Option<T>, value: Value<T>) -> Result<(), String> {
    *place = Some(value.map_err(str::to_owned)?);
    Ok(())
}

/// A key in small letters. `wg` takes white space out of its own, also from within; wg-quick does not.
fn wg_key(key: &str) -> String {
    const OF_WG: [&str; 8] = [
        "privatekey",
        "listenport",
        "fwmark",
        "publickey",
        "presharedkey",
        "allowedips",
        "endpoint",
        "persistentkeepalive",
    ];
    let compact = without_space(key).to_ascii_lowercase();
    if OF_WG.contains(&compact.as_str()) { compact } else { key.to_ascii_lowercase() }
}

/// Words with commas or white space between, as wg-quick reads its lists.
fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty())
}

/// Words with commas between, as `wg` reads its lists. Nothing is no word.
fn words_of_wg(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').filter(move |_| !value.is_empty())
}

fn list<'a, T>(
    words: impl Iterator<Item = &'a str>,
    read: fn(&str) -> Value<T>,
    into: &mut Vec<T>,
) -> Result<(), String> {
    for word in words {
        into.push(read(word).map_err(|right| format!("{}: {right}", shown(word)))?);
    }
    Ok(())
}

fn allowed_ips(value: &str, into: &mut Vec<AllowedIp>) -> Result<String, String> {
    let mut changes = Vec::new();
    list(words_of_wg(value), values::allowed_ip, &mut changes)?;
    let cut = changes.iter().find(|(_, cut)| *cut).map(|(change, _)| *change);
    into.extend(changes.into_iter().map(|(change, _)| change));
    Ok(match cut {
        Some(AllowedIp::Add(net) | AllowedIp::Remove(net)) => {
            format!("bits beyond the prefix length are cut: it is taken as {net}")
        }
        None => String::new(),
    })
}

fn dns(interface: &mut Interface, word: &str) -> Result<(), String> {
    match word.parse::<IpAddr>() {
        Ok(server) => interface.dns.push(server),
        Err(_) if adit_core::is_domain(word) => interface.search.push(word.to_owned()),
        Err(_) => return Err(format!("{} is neither an address nor a domain", shown(word))),
    }
    Ok(())
}

/// wg takes white space out of values, also from within.
fn without_space(value: &str) -> zeroize::Zeroizing<String> {
    let mut compact = zeroize::Zeroizing::new(String::with_capacity(value.len()));
    value.chars().filter(|c| !c.is_whitespace()).for_each(|c| compact.push(c));
    compact
}

/// A word of the file for a message, without what commands a terminal. A key has 43 characters or more, with or without
/// the `=` at its end: it may stand anywhere by mistake, and is not shown.
pub(super) fn shown(word: &str) -> String {
    const LONGEST: usize = 40;
    if word.len() <= LONGEST { printable(word) } else { "a word that is too long for this place".to_owned() }
}
