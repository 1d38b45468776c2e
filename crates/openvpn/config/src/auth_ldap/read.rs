use std::path::PathBuf;
use std::time::Duration;

use adit_core::configuration::Problem;
use adit_core::is_unprintable;
use zeroize::Zeroizing;

use super::{
    AuthLdap, Directory, Filter, Group, LdapPlace, LdapTls, LdapUrl, Membership, SearchAccount, filter,
};
use crate::Secret;

/// How long each step may take where the file does not say.
const USUAL_TIMEOUT: Duration = Duration::from_secs(15);

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The file's content.
    pub config: AuthLdap,
    /// Points that stop nothing but that its owner should know.
    pub warnings: Vec<Problem>,
}

/// Reads such a file; `file` is the name to use in messages.
///
/// # Errors
/// All problems found, each with its line.
pub fn parse(text: &[u8], file: &str) -> Result<Parsed, Vec<Problem>> {
    let mut reader = Reader { file, problems: Vec::new(), warnings: Vec::new() };
    let Ok(text) = std::str::from_utf8(text) else {
        reader.problem(None, "it is not UTF-8 text");
        return Err(reader.problems);
    };
    let sections = reader.sections(text.strip_prefix('\u{feff}').unwrap_or(text));
    let config = reader.config(sections);
    match config {
        Some(config) if reader.problems.is_empty() => Ok(Parsed { config, warnings: reader.warnings }),
        _ => Err(reader.problems),
    }
}

/// The kinds of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ldap,
    Authorization,
    Group,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Ldap, Kind::Authorization, Kind::Group];

    fn name(self) -> &'static str {
        match self {
            Kind::Ldap => "LDAP",
            Kind::Authorization => "Authorization",
            Kind::Group => "Group",
        }
    }

    /// The section that it stands in.
    fn outer(self) -> Option<Kind> {
        (self == Kind::Group).then_some(Kind::Authorization)
    }
}

/// A section as it stands.
struct Section {
    kind: Kind,
    line: u32,
    settings: Vec<Setting>,
}

/// A key with its value. The value may be a password.
struct Setting {
    key: String,
    value: Zeroizing<String>,
    line: u32,
}

impl Section {
    fn take(&mut self, key: &str) -> Option<Setting> {
        let index = self.settings.iter().position(|setting| setting.key.eq_ignore_ascii_case(key))?;
        Some(self.settings.remove(index))
    }

    fn add(&mut self, key: &str, value: &str, line: u32) -> Result<(), String> {
        if self.settings.iter().any(|known| known.key.eq_ignore_ascii_case(key)) {
            return Err(format!("`{key}` stands twice"));
        }
        self.settings.push(Setting { key: key.to_owned(), value: Zeroizing::new(value.to_owned()), line });
        Ok(())
    }
}

struct Reader<'a> {
    file: &'a str,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Reader<'_> {
    fn at(&self, line: Option<u32>, text: impl Into<String>) -> Problem {
        Problem { file: self.file.to_owned(), line, text: text.into() }
    }

    fn problem(&mut self, line: Option<u32>, text: impl Into<String>) {
        let problem = self.at(line, text);
        self.problems.push(problem);
    }

    /// Splits the file into its sections, in their order.
    fn sections(&mut self, text: &str) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        // The places of those that are open.
        let mut open: Vec<usize> = Vec::new();
        for (number, line) in (1_u32..).zip(text.lines()) {
            let line = line.trim();
            // The problem's text is shown on terminals.
            if let Some(odd) = line.chars().find(|c| is_unprintable(*c) && *c != '\t') {
                let text = format!("the line holds the character U+{:04X}; remove it", u32::from(odd));
                self.problem(Some(number), text);
                continue;
            }
            let tag = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).map(str::trim);
            let innermost = open.last().and_then(|index| sections.get_mut(*index));
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let outcome = match (tag, innermost) {
                (Some(tag), section) => {
                    let innermost = section.map(|section| section.kind);
                    match tag.strip_prefix('/') {
                        Some(name) => ends(name, innermost).map(|()| {
                            open.pop();
                        }),
                        None => begins(tag, innermost).map(|kind| {
                            open.push(sections.len());
                            sections.push(Section { kind, line: number, settings: Vec::new() });
                        }),
                    }
                }
                (None, Some(section)) => {
                    setting(line).and_then(|(key, value)| section.add(key, value, number))
                }
                (None, None) => {
                    Err("it stands in no section: write `<LDAP>` or `<Authorization>` before it".to_owned())
                }
            };
            if let Err(text) = outcome {
                self.problem(Some(number), text);
            }
        }
        for section in open.iter().filter_map(|index| sections.get(*index)) {
            let name = section.kind.name();
            self.problem(Some(section.line), format!("`<{name}>` has no end: write `</{name}>`"));
        }
        sections
    }

    fn config(&mut self, sections: Vec<Section>) -> Option<AuthLdap> {
        let (mut ldap, mut authorization, mut groups) = (None, None, Vec::new());
        for section in sections {
            let slot = match section.kind {
                Kind::Ldap => &mut ldap,
                Kind::Authorization => &mut authorization,
                Kind::Group => {
                    groups.push(section);
                    continue;
                }
            };
            if slot.is_some() {
                self.problem(Some(section.line), format!("`<{}>` stands twice", section.kind.name()));
            }
            *slot = Some(section);
        }
        for (kind, is_missing) in
            [(Kind::Ldap, ldap.is_none()), (Kind::Authorization, authorization.is_none())]
        {
            if is_missing {
                self.problem(None, format!("the section `<{}>` is missing", kind.name()));
            }
        }
        let directory = ldap.map(|section| self.directory(section));
        let authorization = authorization.map(|section| self.authorization(section, groups));
        Some(AuthLdap { directory: directory??, ..authorization?? })
    }

    fn directory(&mut self, mut section: Section) -> Option<Directory> {
        let urls = self.urls(&mut section);
        let timeout = self.timeout(section.take("Timeout"));
        let search_as = self.search_as(&mut section);
        let follow_referrals = self.boolean(section.take("FollowReferrals"), false);
        let tls = self.tls(&mut section, urls.as_deref().unwrap_or_default());
        self.rest(section);
        Some(Directory { urls: urls?, timeout, search_as, follow_referrals, tls })
    }

    /// `URL`: one, or several in quotes, as OpenLDAP takes them.
    fn urls(&mut self, section: &mut Section) -> Option<Vec<LdapUrl>> {
        let setting = self.required(section, "URL")?;
        let words = setting.value.split_whitespace().map(|word| word.trim_matches(','));
        let words = words.filter(|word| !word.is_empty());
        let urls: Result<Vec<LdapUrl>, String> = words.map(LdapUrl::parse).collect();
        match urls {
            Ok(urls) if !urls.is_empty() => return Some(urls),
            Ok(_) => self.problem(Some(setting.line), "`URL`: write `ldap://HOST`"),
            Err(text) => self.problem(Some(setting.line), format!("`URL`: {text}")),
        }
        None
    }

    fn timeout(&mut self, setting: Option<Setting>) -> Duration {
        let Some(setting) = setting else { return USUAL_TIMEOUT };
        match setting.value.parse::<u64>() {
            Ok(seconds @ 1..=3600) => Duration::from_secs(seconds),
            _ => {
                let text = format!(
                    "`Timeout`: found `{}`; write a whole number of seconds from 1 to 3600",
                    setting.value.as_str()
                );
                self.problem(Some(setting.line), text);
                USUAL_TIMEOUT
            }
        }
    }

    fn search_as(&mut self, section: &mut Section) -> Option<SearchAccount> {
        match (section.take("BindDN"), section.take("Password")) {
            (Some(dn), Some(password)) => Some(SearchAccount {
                dn: dn.value.as_str().to_owned(),
                password: Secret::new(&password.value),
            }),
            (Some(dn), None) => {
                self.problem(
                    Some(dn.line),
                    "`BindDN` without `Password`: a directory would take it for anonymous",
                );
                None
            }
            (None, Some(password)) => {
                self.problem(Some(password.line), "`Password` without `BindDN`: write whose it is");
                None
            }
            (None, None) => None,
        }
    }

    fn tls(&mut self, section: &mut Section, urls: &[LdapUrl]) -> LdapTls {
        let enable = section.take("TLSEnable");
        let line = enable.as_ref().map_or(section.line, |setting| setting.line);
        let start = self.boolean(enable, false);
        if start && urls.iter().any(|url| !matches!(url.place, LdapPlace::Tcp { .. })) {
            let text = "`TLSEnable` is for `ldap://` alone: `ldaps` is TLS already, and `ldapi` does not leave the system; \
                        remove it";
            self.problem(Some(line), text);
        }
        if !start && urls.iter().any(|url| matches!(url.place, LdapPlace::Tcp { .. })) {
            let text =
                "passwords go to the directory in the clear: write `TLSEnable yes`, or `ldaps://` in `URL`";
            let warning = self.at(Some(line), text);
            self.warnings.push(warning);
        }
        if let Some(suites) = section.take("TLSCipherSuite") {
            let text =
                "`TLSCipherSuite` has no effect: adit offers what is considered strong today; remove it";
            let warning = self.at(Some(suites.line), text);
            self.warnings.push(warning);
        }
        let [ca_file, ca_directory, certificate, key] =
            ["TLSCACertFile", "TLSCACertDir", "TLSCertFile", "TLSKeyFile"].map(|name| section.take(name));
        let path = |setting: Setting| PathBuf::from(setting.value.as_str());
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                self.problem(Some(one.line), "`TLSCertFile` and `TLSKeyFile` belong together: write both");
                None
            }
        };
        LdapTls { start, ca_file: ca_file.map(path), ca_directory: ca_directory.map(path), certificate }
    }

    /// `<Authorization>`, with a directory of no server.
    fn authorization(&mut self, mut section: Section, groups: Vec<Section>) -> Option<AuthLdap> {
        let line = section.line;
        let (base, filter) = self.base_and_filter(&mut section);
        let requires = self.boolean(section.take("RequireGroup"), false);
        let by_common_name = self.boolean(section.take("UseCn"), false);
        let password_is_response = self.boolean(section.take("PasswordIsCR"), false);
        self.rest(section);
        if let Some((template, line)) = &filter
            && !template.contains("%u")
        {
            let text = "`SearchFilter` does not name the user, so that any username would pass with one entry's password: \
                        write `%u` in it, as in `(uid=%u)`";
            self.problem(Some(*line), text);
        }
        if requires && groups.is_empty() {
            self.problem(Some(line), "`RequireGroup` needs a `<Group>` in this section");
        }
        let groups: Vec<Option<Group>> = groups.into_iter().map(|group| self.group(group)).collect();
        let groups: Option<Vec<Group>> = groups.into_iter().collect();
        let directory = Directory {
            urls: Vec::new(),
            timeout: USUAL_TIMEOUT,
            search_as: None,
            follow_referrals: false,
            tls: LdapTls::default(),
        };
        Some(AuthLdap {
            directory,
            base: base?,
            filter: filter?.0,
            groups: groups?.into_iter().filter(|_| requires).collect(),
            by_common_name,
            password_is_response,
        })
    }

    fn group(&mut self, mut section: Section) -> Option<Group> {
        let (base, filter) = self.base_and_filter(&mut section);
        let attribute = self.required(&mut section, "MemberAttribute");
        let by_name = self.boolean(section.take("RFC2307bis"), true);
        let by_comparison = self.boolean(section.take("UseCompareOperation"), true);
        self.rest(section);
        if let Some(setting) = &attribute
            && let Err(text) = filter::attribute(&setting.value)
        {
            self.problem(Some(setting.line), format!("`MemberAttribute`: {text}"));
        }
        Some(Group {
            base: base?,
            filter: filter?.0,
            attribute: attribute?.value.as_str().to_owned(),
            membership: if by_name { Membership::Name } else { Membership::Username },
            by_search: !by_comparison,
        })
    }

    /// `BaseDN` and `SearchFilter` with its line.
    fn base_and_filter(&mut self, section: &mut Section) -> (Option<String>, Option<(String, u32)>) {
        let base = self.required(section, "BaseDN");
        let filter = self.required(section, "SearchFilter");
        if let Some(filter) = &filter {
            self.check_filter(&filter.value, ("SearchFilter", filter.line));
        }
        (
            base.map(|setting| setting.value.as_str().to_owned()),
            filter.map(|setting| (setting.value.as_str().to_owned(), setting.line)),
        )
    }

    fn check_filter(&mut self, template: &str, (key, line): (&str, u32)) {
        if let Err(text) = Filter::parse(template, "x") {
            self.problem(Some(line), format!("`{key}`: {text}"));
        }
    }

    fn required(&mut self, section: &mut Section, key: &str) -> Option<Setting> {
        let setting = section.take(key);
        if setting.is_none() {
            self.problem(Some(section.line), format!("`{key}` is missing in `<{}>`", section.kind.name()));
        }
        setting
    }

    fn boolean(&mut self, setting: Option<Setting>, usual: bool) -> bool {
        let Some(setting) = setting else { return usual };
        match setting.value.to_ascii_lowercase().as_str() {
            "yes" | "true" | "1" => true,
            "no" | "false" | "0" => false,
            found => {
                let text = format!("`{}`: found `{found}`; write `true` or `false`", setting.key);
                self.problem(Some(setting.line), text);
                usual
            }
        }
    }

    /// Settings that were not taken are unknown.
    fn rest(&mut self, section: Section) {
        for setting in section.settings {
            let text = match setting.key.to_ascii_lowercase().as_str() {
                "pftable" => "`PFTable` is for BSD's packet filter; remove it".to_owned(),
                _ => format!("there is no `{}` in `<{}>`", setting.key, section.kind.name()),
            };
            self.problem(Some(setting.line), text);
        }
    }
}

/// `<NAME>`.
fn begins(name: &str, innermost: Option<Kind>) -> Result<Kind, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
    let kind = kind.ok_or_else(|| {
        format!("there is no section `<{name}>`: write `<LDAP>`, `<Authorization>` or `<Group>`")
    })?;
    if kind.outer() == innermost {
        return Ok(kind);
    }
    Err(match kind.outer() {
        Some(outer) => format!("`<{}>` stands in `<{}>` alone", kind.name(), outer.name()),
        None => format!("`<{}>` stands in no other section", kind.name()),
    })
}

/// `</NAME>`.
fn ends(name: &str, innermost: Option<Kind>) -> Result<(), String> {
    match innermost {
        Some(kind) if kind.name().eq_ignore_ascii_case(name) => Ok(()),
        Some(kind) => {
            Err(format!("`</{name}>` ends a section that is not open; `</{}>` comes first", kind.name()))
        }
        None => Err(format!("`</{name}>` ends a section that was not begun")),
    }
}

/// `KEY VALUE`, with the value in quotes if it has spaces.
fn setting(line: &str) -> Result<(&str, &str), String> {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let end = line.find(|c| !is_of_key(c)).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    if key.is_empty() {
        return Err("write `KEY VALUE`, `<SECTION>` or `</SECTION>`".to_owned());
    }
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => {
            quoted.split_once('"').ok_or_else(|| format!("`{key}`: a quote is opened and not closed"))?
        }
        None if rest.starts_with('#') => ("", ""),
        None => rest.split_once([' ', '\t']).unwrap_or((rest, "")),
    };
    let rest = rest.trim_start();
    if value.is_empty() {
        return Err(format!("`{key}` has no value"));
    }
    if !rest.is_empty() && !rest.starts_with('#') {
        return Err(format!("`{key}`: more words follow its value; put the value into quotes"));
    }
    Ok((key, value))
}
