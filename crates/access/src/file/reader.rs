//! Text to an [`AccessFile`], with all mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use adit_core::{IpNet, escaped};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{AccessFile, Action, FileRule, Place, Problem, RuleProtocol};

type Value<'i> = Spanned<DeValue<'i>>;

const MAY: &str = "may-reach";
const MAY_NOT: &str = "may-not-reach";

/// A file under construction.
pub(super) struct Reader<'i> {
    text: &'i str,
    problems: Vec<Problem>,
    /// Names and groups that rules mention.
    mentioned: BTreeSet<String>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(text: &'i str) -> Self {
        Reader { text, problems: Vec::new(), mentioned: BTreeSet::new() }
    }

    pub(super) fn read(mut self) -> Result<AccessFile, Vec<Problem>> {
        let mut file = AccessFile::default();
        match self.text.len() {
            0..=AccessFile::MAX_LEN => self.file(&mut file),
            len => self.refuse(&(0..0), format!("a file of {len} bytes: {} at most", AccessFile::MAX_LEN)),
        }
        if self.problems.is_empty() {
            return Ok(file);
        }
        self.problems.sort();
        Err(self.problems)
    }

    fn file(&mut self, file: &mut AccessFile) {
        let document = match DeTable::parse(self.text) {
            Ok(document) => document.into_inner(),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                return self.refuse(&span, error.message().to_owned());
            }
        };
        let mut default = None;
        // Rules come after groups, whose names they must know.
        for (key, value) in document.iter() {
            match key.get_ref().as_ref() {
                "default" => default = self.default(value),
                "groups" => file.groups = self.groups(value),
                "rule" => {}
                other => self.refuse(
                    &key.span(),
                    format!("{}: there are `default`, `groups` and `rule`", quoted(other)),
                ),
            }
        }
        for (_, value) in document.iter().filter(|(key, _)| key.get_ref() == "rule") {
            file.rules = self.rules(value, &file.groups);
        }
        if !document.iter().any(|(key, _)| key.get_ref() == "default") {
            let right = "write default = \"allow\" or default = \"deny\" in front of the first [section]";
            self.refuse(
                &(0..0),
                format!("what becomes of packets that no rule matches is not said: {right}"),
            );
        }
        if self.mentioned.len() > AccessFile::MAX_NAMES {
            self.refuse(&(0..0), format!("rules mention more than {} names", AccessFile::MAX_NAMES));
        }
        file.default = default.unwrap_or_default();
    }

    fn default(&mut self, value: &Value<'_>) -> Option<Action> {
        match value.get_ref().as_str() {
            Some("allow") => Some(Action::Allow),
            Some("deny") => Some(Action::Deny),
            _ => {
                let wrong = self.excerpt(value);
                self.refuse(&value.span(), format!("default = {wrong}: \"allow\" or \"deny\" is needed"));
                None
            }
        }
    }

    fn groups(&mut self, value: &Value<'_>) -> BTreeMap<String, Vec<String>> {
        let mut groups = BTreeMap::new();
        let Some(table) = value.get_ref().as_table() else {
            self.refuse(
                &value.span(),
                "groups: a table is needed: [groups], and below it staff = [\"alice\"]".into(),
            );
            return groups;
        };
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            if name.is_empty() || name.starts_with('@') {
                self.refuse(&key.span(), format!("{}: a group's name is needed, without @", quoted(name)));
            }
            let members = self.each(value, &format!("{} = [\"alice\", \"bob\"]", escaped(name)), |member| {
                member.as_str().filter(|member| is_name(member)).map(str::to_owned)
            });
            groups.insert(name.to_owned(), members);
        }
        groups
    }

    fn rules(&mut self, value: &Value<'_>, groups: &BTreeMap<String, Vec<String>>) -> Vec<FileRule> {
        let mut rules = Vec::new();
        let Some(array) = value.get_ref().as_array() else {
            self.refuse(&value.span(), "a rule begins with [[rule]], in two pairs of brackets".into());
            return rules;
        };
        if array.len() > AccessFile::MAX_RULES {
            let many = format!("{} rules: {} at most", array.len(), AccessFile::MAX_RULES);
            self.refuse(&value.span(), many);
            return rules;
        }
        for rule in array {
            match rule.get_ref().as_table() {
                Some(table) => rules.extend(self.rule(rule.span(), table, groups)),
                None => self.refuse(&rule.span(), "a rule begins with [[rule]]".into()),
            }
        }
        rules
    }

    fn rule(
        &mut self,
        span: Range<usize>,
        table: &DeTable<'_>,
        groups: &BTreeMap<String, Vec<String>>,
    ) -> Option<FileRule> {
        let mut rule = FileRule {
            line: self.line(span.start),
            action: Action::Allow,
            from: Vec::new(),
            to: Vec::new(),
            protocols: Vec::new(),
            ports: Vec::new(),
        };
        let (mut has_who, mut targets) = (false, 0);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "who" => (has_who, rule.from) = (true, self.places(value, groups)),
                word @ (MAY | MAY_NOT) => {
                    rule.action = if word == MAY { Action::Allow } else { Action::Deny };
                    rule.to = self.places(value, groups);
                    targets += 1;
                }
                "protocol" => rule.protocols = self.protocols(value),
                "ports" => rule.ports = self.ports(value),
                other => {
                    let right = "a rule has `who`, `may-reach` or `may-not-reach`, `protocol` and `ports`";
                    self.refuse(&key.span(), format!("{}: {right}", quoted(other)));
                }
            }
        }
        if !has_who {
            self.refuse(&span, "the rule does not say who: who = \"@staff\"".into());
        }
        if targets != 1 {
            let right = "one of may-reach = [\"lan\"] and may-not-reach = [\"lan\"] is needed";
            self.refuse(&span, format!("the rule has {targets} of may-reach and may-not-reach: {right}"));
        }
        let of_ports = |protocol: &RuleProtocol| matches!(protocol, RuleProtocol::Tcp | RuleProtocol::Udp);
        if !rule.ports.is_empty() && !rule.protocols.iter().all(of_ports) {
            self.refuse(&span, "ports are of tcp and udp: protocol = \"tcp\", or no protocol at all".into());
        }
        if !rule.ports.is_empty() && rule.protocols.is_empty() {
            rule.protocols = vec![RuleProtocol::Tcp, RuleProtocol::Udp];
        }
        Some(rule)
    }

    fn places(&mut self, value: &Value<'_>, groups: &BTreeMap<String, Vec<String>>) -> Vec<Place> {
        let right =
            "[\"@group\", \"a-name\", \"192.168.1.0/24\", \"lan\", \"internet\", \"clients\", \"any\"]";
        let places = self.some(value, right, |value| place(value.as_str()?));
        for place in &places {
            let unknown = match place {
                Place::Group(group) => Some(group).filter(|group| !groups.contains_key(*group)),
                _ => None,
            };
            if let Some(group) = unknown {
                let known: Vec<String> =
                    groups.keys().take(8).map(|group| format!("@{}", escaped(group))).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let right = format!(
                    "[groups] has {known}; a group of certificates alone is written {} = []",
                    escaped(group)
                );
                self.refuse(&value.span(), format!("@{} is no group of this file: {right}", escaped(group)));
            }
            if let Place::Name(name) | Place::Group(name) = place {
                self.mentioned.insert(name.clone());
            }
        }
        places
    }

    fn protocols(&mut self, value: &Value<'_>) -> Vec<RuleProtocol> {
        self.some(value, "\"tcp\", \"udp\", \"icmp\" or a number up to 255", |value| match value {
            DeValue::String(word) => match word.as_ref() {
                "tcp" => Some(RuleProtocol::Tcp),
                "udp" => Some(RuleProtocol::Udp),
                "icmp" => Some(RuleProtocol::Icmp),
                _ => None,
            },
            other => Some(match number(other)?.try_into().ok()? {
                6 => RuleProtocol::Tcp,
                17 => RuleProtocol::Udp,
                number => RuleProtocol::Number(number),
            }),
        })
    }

    fn ports(&mut self, value: &Value<'_>) -> Vec<RangeInclusive<u16>> {
        self.some(value, "[443, \"8000-8100\"]", |value| match value {
            DeValue::String(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                (first <= last).then_some(first..=last)
            }
            other => number(other).and_then(|port| u16::try_from(port).ok()).map(|port| port..=port),
        })
    }

    /// One value, or each value of an array that has some. `right` is an example of what would be right.
    fn some<T>(
        &mut self,
        value: &Value<'_>,
        right: &str,
        read: impl FnMut(&DeValue<'_>) -> Option<T>,
    ) -> Vec<T> {
        if value.get_ref().as_array().is_some_and(|array| array.is_empty()) {
            self.refuse(&value.span(), format!("an empty list is not understood: write {right}"));
        }
        self.each(value, right, read)
    }

    /// One value, or each value of an array. `right` is an example of what would be right.
    fn each<T>(
        &mut self,
        value: &Value<'_>,
        right: &str,
        mut read: impl FnMut(&DeValue<'_>) -> Option<T>,
    ) -> Vec<T> {
        let all = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        let mut found = Vec::new();
        for value in all {
            match read(value.get_ref()) {
                Some(one) => found.push(one),
                None => {
                    let wrong = self.excerpt(value);
                    self.refuse(&value.span(), format!("{wrong} is not understood: write {right}"));
                }
            }
        }
        found
    }

    /// The text of a value, shortened.
    fn excerpt(&self, value: &Value<'_>) -> String {
        let text = self.text.get(value.span()).unwrap_or_default();
        let short: String = text.chars().take(40).collect();
        let rest = if short.len() < text.len() { "…" } else { "" };
        format!("`{}{rest}`", escaped(&short))
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    fn refuse(&mut self, span: &Range<usize>, text: String) {
        let line = self.line(span.start);
        self.problems.push(Problem { line, text: escaped(&text).replace('\t', " ") });
    }
}

fn quoted(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    format!("`{}` is not known", escaped(&short))
}

fn number(value: &DeValue<'_>) -> Option<u32> {
    let number = value.as_integer()?;
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('@')
}

fn place(text: &str) -> Option<Place> {
    match text {
        "any" => return Some(Place::Any),
        "clients" => return Some(Place::Clients),
        "lan" => return Some(Place::Lan),
        "internet" => return Some(Place::Internet),
        _ => {}
    }
    if let Some(group) = text.strip_prefix('@') {
        return (!group.is_empty()).then(|| Place::Group(group.to_owned()));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Place::Network(address.into()));
    }
    match text.parse::<IpNet>() {
        Ok(net) => Some(Place::Network(net.trunc())),
        // The beginning of an address is a network with a mistake, not a name.
        Err(_) if text.split_once('/').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok()) => None,
        Err(_) => is_name(text).then(|| Place::Name(text.to_owned())),
    }
}
