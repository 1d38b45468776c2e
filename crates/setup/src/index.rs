//! The index of a server's directory: every certificate issued, and every key of a client.

mod peers;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use adit_pki::Purpose;
use adit_pki::issue::IkeName;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub use self::peers::{Keys, Peer};
use self::users::User;

use crate::{Endpoint, KeyProtocol, Proto};

/// The form of the file; a later adit that changes it counts up.
const FORMAT: u32 = 1;

/// The kind of a certificate's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A server's.
    Server,
    /// A client's.
    Client,
}

impl From<Kind> for Purpose {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Server => Purpose::Server,
            Kind::Client => Purpose::Client,
        }
    }
}

/// The owner of a certificate that is to be issued.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) kind: Kind,
    /// The common name.
    pub(crate) name: &'a str,
    /// The protocol that the certificate is for; `None`: that of `server.conf`.
    pub(crate) protocol: Option<&'a str>,
    /// The names by which peers know the owner, beside the common name.
    pub(crate) names: &'a [IkeName],
}

impl<'a> Owner<'a> {
    /// An owner by the protocol of `server.conf`.
    pub(crate) const fn new(kind: Kind, name: &'a str) -> Self {
        Owner { kind, name, protocol: None, names: &[] }
    }
}

/// The index: every certificate issued, the keys of the second protocol, and the facts that new profiles state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    format: u32,
    /// The way by which clients reach the server.
    pub endpoint: Endpoint,
    /// The transport of the tunnel.
    pub proto: Proto,
    /// The common name of the server's certificate.
    pub server_name: String,
    /// The number of revocation lists that were made.
    #[serde(default)]
    pub(crate) lists: u64,
    /// Certificates in the order of issue.
    issued: Vec<Issue>,
    /// The clients that have passwords, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    users: Vec<User>,
    /// The second protocol, if the directory has it. It stands in the file under the name of the protocol.
    #[serde(skip)]
    pub keys: Option<Keys>,
    /// The name of the second protocol.
    #[serde(skip)]
    protocol: String,
}

/// The index as its file has it.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    index: &'a Index,
    #[serde(flatten)]
    keys: BTreeMap<&'a str, &'a Keys>,
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Issue {
    /// Serial number in hexadecimal.
    pub(crate) serial: String,
    /// Common name.
    pub(crate) name: String,
    /// The kind of the owner.
    pub(crate) kind: Kind,
    /// First moment of validity, RFC 3339.
    pub(crate) not_before: String,
    /// Last moment of validity, RFC 3339.
    pub(crate) not_after: String,
    /// When it was revoked, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<String>,
    /// Its client's profile is not known to have been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unfinished: bool,
    /// The protocol that it is for; `None`: that of `server.conf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
}

impl Issue {
    pub(crate) fn new(
        serial: String,
        owner: Owner<'_>,
        not_before: OffsetDateTime,
        not_after: OffsetDateTime,
    ) -> Self {
        Issue {
            serial,
            name: owner.name.to_owned(),
            kind: owner.kind,
            not_before: text(not_before),
            not_after: text(not_after),
            revoked: None,
            unfinished: false,
            protocol: owner.protocol.map(str::to_owned),
        }
    }

    fn is_of(&self, protocol: Option<&str>) -> bool {
        self.protocol.as_deref() == protocol
    }
}

fn text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_default()
}

impl Index {
    /// An empty index of a server, whose second protocol may be `protocol`.
    pub fn new(endpoint: Endpoint, proto: Proto, server_name: &str, protocol: &str) -> Self {
        Index {
            format: FORMAT,
            endpoint,
            proto,
            server_name: server_name.into(),
            lists: 0,
            issued: Vec::new(),
            users: Vec::new(),
            keys: None,
            protocol: protocol.to_owned(),
        }
    }

    /// Reads the file, in which the second protocol is `protocol`.
    ///
    /// # Errors
    /// The fault of the file.
    pub fn parse(text: &str, protocol: &dyn KeyProtocol) -> Result<Self, String> {
        let mut index: Index = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if index.format != FORMAT {
            return Err(format!("it has form {}, and this adit knows {FORMAT}", index.format));
        }
        // The endpoint and the server's name go into profiles as they stand.
        let endpoint = index.endpoint.to_string().parse::<Endpoint>();
        if endpoint.as_ref() != Ok(&index.endpoint) {
            return Err("its endpoint is no host and port".into());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-');
        if index.server_name.is_empty() || !index.server_name.chars().all(plain) {
            return Err("its server name has characters that a name cannot have".into());
        }
        index.keys = Keys::parse(text, protocol.name())?;
        index.protocol = protocol.name().to_owned();
        index.keys.as_ref().map_or(Ok(()), |keys| protocol.check(keys))?;
        Ok(index)
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and failing writers, make this fail.
        let keys = self.keys.iter().map(|keys| (self.protocol.as_str(), keys)).collect();
        let mut text = serde_json::to_string_pretty(&Document { index: self, keys }).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Whether a new certificate for that protocol cannot have that name: one was issued and not revoked. Names are compared without
    /// case, as some file systems do. One whose profile was not written does not take the name from a new attempt. A client of another
    /// protocol with the same name is the same client, one whose name differs in case is another.
    pub(crate) fn has(&self, name: &str, protocol: Option<&str>) -> bool {
        let takes = |issue: &Issue| match issue.name == name {
            true => issue.is_of(protocol) && !issue.unfinished,
            false => issue.name.eq_ignore_ascii_case(name),
        };
        self.issued.iter().any(|issue| issue.revoked.is_none() && takes(issue))
            || self.has_peer_in_other_case(name)
            || self.has_user_in_other_case(name)
    }

    /// Whether a client has ever had that name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.has_had_certificate(name) || self.knows_peer(name) || self.knows_user(name)
    }

    /// Whether a client of that name has ever had a certificate.
    pub(crate) fn has_had_certificate(&self, name: &str) -> bool {
        self.issued.iter().any(|issue| issue.kind == Kind::Client && issue.name == name)
    }

    /// Whether there is a client of that name with a certificate for that protocol that is not revoked.
    pub(crate) fn is_client(&self, name: &str, protocol: Option<&str>) -> bool {
        let is = |issue: &Issue| issue.kind == Kind::Client && issue.name == name && issue.revoked.is_none();
        self.issued.iter().any(|issue| is(issue) && issue.is_of(protocol))
    }

    /// Notes that the profile with the newest certificate is about to be written.
    pub(crate) fn begin(&mut self) {
        if let Some(issue) = self.issued.last_mut() {
            issue.unfinished = true;
        }
    }

    /// Whether the certificate of that client and serial number is unfinished.
    pub(crate) fn is_unfinished(&self, name: &str, serial: &str) -> bool {
        let is = |issue: &&Issue| issue.name == name && issue.serial == serial;
        self.issued.iter().find(is).is_some_and(|issue| issue.unfinished && issue.revoked.is_none())
    }

    /// Notes that the client's files for that protocol were written.
    pub(crate) fn finish(&mut self, name: &str, protocol: Option<&str>) {
        let of_client = self.issued.iter_mut().filter(|issue| issue.name == name && issue.is_of(protocol));
        of_client.for_each(|issue| issue.unfinished = false);
    }

    /// Whether an attempt to make files for that protocol was interrupted before they were written.
    pub(crate) fn has_unfinished(&self, name: &str, protocol: Option<&str>) -> bool {
        let is = |issue: &Issue| issue.name == name && issue.is_of(protocol) && issue.unfinished;
        self.issued.iter().any(|issue| is(issue) && issue.revoked.is_none())
    }

    /// Notes that all certificates, keys and passwords of that client are revoked. False if they were all revoked before.
    pub(crate) fn revoke(&mut self, name: &str, now: OffsetDateTime) -> bool {
        let is =
            |issue: &&mut Issue| issue.revoked.is_none() && issue.kind == Kind::Client && issue.name == name;
        let mut found = self.revoke_peers(name, now) | self.revoke_user(name, now);
        for issue in self.issued.iter_mut().filter(is) {
            issue.revoked = Some(text(now));
            found = true;
        }
        found
    }

    /// The names of revoked clients with a certificate whose serial number is not in `listed`.
    pub(crate) fn revoked_but_not_in(&self, listed: &BTreeSet<String>) -> BTreeSet<&str> {
        let missing = |issue: &&Issue| issue.revoked.is_some() && !listed.contains(&issue.serial);
        self.issued.iter().filter(missing).map(|issue| issue.name.as_str()).collect()
    }

    /// Serial number and moment of each revocation. A moment that cannot be read back counts as `now`.
    pub(crate) fn revoked(&self, now: OffsetDateTime) -> Vec<(Vec<u8>, OffsetDateTime)> {
        let revoked = self.issued.iter().filter_map(|issue| Some((issue, issue.revoked.as_deref()?)));
        revoked
            .map(|(issue, when)| (bytes(&issue.serial), OffsetDateTime::parse(when, &Rfc3339).unwrap_or(now)))
            .collect()
    }

    /// Whether that serial number is taken.
    pub fn has_serial(&self, serial: &str) -> bool {
        self.issued.iter().any(|issue| issue.serial == serial)
    }

    pub(crate) fn add(&mut self, issue: Issue) {
        self.issued.push(issue);
    }
}

/// The bytes of a number in hexadecimal.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit)).collect()
}
