//! The verdict on a login.

use adit_openvpn_config::auth_ldap::{AuthLdap, Directory, Filter, Group, LdapPlace, LdapUrl, Membership};

use super::Trust;
use super::connection::{Connection, Manner};
use super::message::SUCCESS;
use crate::login::{Answered, Login, dynamic_answer, static_answer};
use crate::verdict::Refusal;

/// The most referrals to other servers that a search follows.
const MAX_REFERRALS: u32 = 8;
/// The most groups that a filter may find.
const MAX_GROUPS: u32 = 1024;

/// Judges a login.
///
/// # Errors
/// When it is refused or cannot be judged, and why.
pub fn judge(config: &AuthLdap, trust: &Trust, login: &Login) -> Result<(), Refusal> {
    let refused = |why: &str| Err(Refusal::Refused(why.to_owned()));
    let answered = match config.password_is_response {
        false => Answered { password: login.password.clone(), answer: zeroize::Zeroizing::default() },
        true => match static_answer(&login.password).or_else(|| dynamic_answer(&login.password)) {
            Some(answered) => answered,
            None => return refused("its password has no answer to a question with it (PasswordIsCR)"),
        },
    };
    // A directory takes a name without a password for an anonymous bind, and accepts it (RFC 4513, 5.1.2).
    if answered.password.is_empty() {
        return refused("it gave an empty password");
    }
    let user = if config.by_common_name { &login.common_name } else { &login.username };
    if user.is_empty() {
        return refused("it has no name");
    }
    let mut judge = Judge { directory: &config.directory, trust, referrals_left: MAX_REFERRALS };
    let mut connection = judge.connect()?;
    let filter = Filter::parse(&config.filter, user).map_err(Refusal::failed)?;
    let found = judge.find(&mut connection, None, &config.base, &filter)?;
    let Some(entry) = found else { return refused("the directory has no such user") };
    judge.prove(&entry, &answered.password)?;
    if config.groups.is_empty() || judge.is_member(&mut connection, &config.groups, (&entry.name, user))? {
        return Ok(());
    }
    refused("it is in no group that is let in (RequireGroup)")
}

/// The entry of a user.
struct Entry {
    name: String,
    /// The server that has it, if that is none of the file's.
    place: Option<LdapPlace>,
}

struct Judge<'a> {
    directory: &'a Directory,
    trust: &'a Trust,
    referrals_left: u32,
}

impl Judge<'_> {
    /// Connects to the first server that can be reached.
    fn open(&self) -> Result<Connection, Refusal> {
        let mut failures = Vec::new();
        for url in &self.directory.urls {
            match Connection::open(&url.place, self.manner(self.directory.tls.start)) {
                Ok(connection) => return Ok(connection),
                Err(why) => failures.push(why),
            }
        }
        Err(Refusal::Failed(format!("no directory can be reached: {}", failures.join("; "))))
    }

    /// Opens a connection, bound as the account that searches, if the file names one (`BindDN`).
    fn connect(&self) -> Result<Connection, Refusal> {
        let mut connection = self.open()?;
        if let Some(account) = &self.directory.search_as {
            let outcome = connection.bind(&account.dn, account.password.text()).map_err(Refusal::failed)?;
            if outcome.code != SUCCESS {
                return Err(Refusal::Failed(format!(
                    "the directory refuses `{}` (BindDN): {outcome}",
                    account.dn
                )));
            }
        }
        Ok(connection)
    }

    fn manner(&self, start_tls: bool) -> Manner<'_> {
        Manner { trust: self.trust, start_tls, timeout: self.directory.timeout }
    }

    /// The entry of a user, also from other servers that this one names. `place` is the server of the connection, if that is
    /// none of the file's.
    fn find(
        &mut self,
        connection: &mut Connection,
        place: Option<&LdapPlace>,
        base: &str,
        filter: &Filter,
    ) -> Result<Option<Entry>, Refusal> {
        let mut found = connection.search(base, filter, 2).map_err(Refusal::failed)?;
        if found.entries.len() > 1 || found.is_cut {
            let why = "several entries of the directory match (SearchFilter), and one user is one entry";
            return Err(Refusal::Refused(why.to_owned()));
        }
        if let Some(name) = found.entries.pop() {
            return Ok(Some(Entry { name, place: place.cloned() }));
        }
        if !self.directory.follow_referrals {
            return Ok(None);
        }
        let mut failure = None;
        for url in found.references {
            if self.referrals_left == 0 {
                break;
            }
            self.referrals_left -= 1;
            match self.find_at(&url, base, filter) {
                Ok(None) => {}
                // A later server may have the entry.
                Err(why @ Refusal::Failed(_)) => failure = Some(why),
                decided => return decided,
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Finds an entry at a server that another server has named.
    fn find_at(&mut self, url: &str, base: &str, filter: &Filter) -> Result<Option<Entry>, Refusal> {
        let url = LdapUrl::parse(url).map_err(|why| Refusal::failed(format!("a referral: {why}")))?;
        let mut other = self.follow(&url.place)?;
        let base = url.entry.as_deref().unwrap_or(base);
        self.find(&mut other, Some(&url.place), base, filter)
    }

    /// Connects anonymously to a server that another one has named. If the file asks for TLS, this connection has TLS too, as
    /// the password is sent there.
    fn follow(&self, place: &LdapPlace) -> Result<Connection, Refusal> {
        let start_tls = self.directory.tls.start || self.directory.urls.iter().any(has_tls);
        match place {
            LdapPlace::Unix(_) => Err(Refusal::failed("a referral leads to a socket of this system")),
            LdapPlace::Tcp { .. } | LdapPlace::Tls { .. } => {
                Connection::open(place, self.manner(start_tls)).map_err(Refusal::failed)
            }
        }
    }

    /// Binds as the entry with the password, on a new connection: the directory accepts or refuses the password.
    fn prove(&self, entry: &Entry, password: &str) -> Result<(), Refusal> {
        // A bind without a name is anonymous, as one without a password.
        if entry.name.is_empty() {
            return Err(Refusal::Failed("the directory's entry has no name".to_owned()));
        }
        let mut connection = match &entry.place {
            Some(place) => self.follow(place)?,
            None => self.open()?,
        };
        let outcome = connection.bind(&entry.name, password).map_err(Refusal::failed)?;
        match outcome.code {
            SUCCESS => Ok(()),
            _ => Err(Refusal::Refused(format!("the directory refuses it as `{}`: {outcome}", entry.name))),
        }
    }

    /// Whether an entry, or its username, is in one of the groups.
    ///
    /// # Errors
    /// When a search failed or was cut short, or no group has the member and another server has more groups.
    fn is_member(
        &self,
        connection: &mut Connection,
        groups: &[Group],
        (entry, user): (&str, &str),
    ) -> Result<bool, Refusal> {
        let mut elsewhere = None;
        for group in groups {
            let member = match group.membership {
                Membership::Name => entry,
                Membership::Username => user,
            };
            let filter = Filter::parse(&group.filter, user).map_err(Refusal::failed)?;
            let names =
                search_all(connection, &group.base, &filter, &mut elsewhere).map_err(Refusal::failed)?;
            for name in names {
                if holds(connection, group, (&name, member), &mut elsewhere).map_err(Refusal::failed)? {
                    return Ok(true);
                }
            }
        }
        match elsewhere {
            None => Ok(false),
            Some(url) => Err(Refusal::Failed(format!(
                "it is in no group of this directory, which names {url} for more of them; for groups no referral is \
                 followed"
            ))),
        }
    }
}

/// The names of all entries below `base` that a filter finds on this server. `elsewhere` becomes the URL of a server that has
/// more, if there is one.
///
/// # Errors
/// When the search failed, or the directory does not give all entries: a part of the groups is not enough for a verdict.
fn search_all(
    connection: &mut Connection,
    base: &str,
    filter: &Filter,
    elsewhere: &mut Option<String>,
) -> Result<Vec<String>, String> {
    let found = connection.search(base, filter, MAX_GROUPS)?;
    if found.is_cut {
        return Err(format!(
            "the search below `{base}` finds more entries than the directory gives, or than {MAX_GROUPS} \
             (sizeLimitExceeded)"
        ));
    }
    if elsewhere.is_none() {
        *elsewhere = found.references.into_iter().next();
    }
    Ok(found.entries)
}

/// Whether the group of that name has the member.
fn holds(
    connection: &mut Connection,
    group: &Group,
    (name, member): (&str, &str),
    elsewhere: &mut Option<String>,
) -> Result<bool, String> {
    if group.by_search {
        let filter = Filter::Equal(group.attribute.clone(), member.as_bytes().to_vec());
        return Ok(!search_all(connection, name, &filter, elsewhere)?.is_empty());
    }
    connection.compare(name, &group.attribute, member)
}

fn has_tls(url: &LdapUrl) -> bool {
    matches!(url.place, LdapPlace::Tls { .. })
}
