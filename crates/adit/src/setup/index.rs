use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::authority::Kind;
use super::{Endpoint, Proto};

/// The form of the file; a later adit that changes it counts up.
const FORMAT: u32 = 1;

/// Every certificate issued, and what new profiles need to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    format: u32,
    /// How clients reach the server.
    pub(super) endpoint: Endpoint,
    /// What carries the tunnel.
    pub(super) proto: Proto,
    /// The common name of the server's certificate.
    pub(super) server_name: String,
    /// Certificates in the order of issue.
    issued: Vec<Issue>,
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Issue {
    /// Serial number in hexadecimal.
    pub(super) serial: String,
    /// Common name.
    pub(super) name: String,
    /// Whose.
    pub(super) kind: Kind,
    /// First moment of validity, RFC 3339.
    pub(super) not_before: String,
    /// Last moment of validity, RFC 3339.
    pub(super) not_after: String,
}

impl Issue {
    pub(super) fn new(
        serial: String,
        name: &str,
        kind: Kind,
        not_before: OffsetDateTime,
        not_after: OffsetDateTime,
    ) -> Self {
        let text = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
        Issue { serial, name: name.into(), kind, not_before: text(not_before), not_after: text(not_after) }
    }
}

impl Index {
    pub(super) fn new(endpoint: Endpoint, proto: Proto, server_name: &str) -> Self {
        Index { format: FORMAT, endpoint, proto, server_name: server_name.into(), issued: Vec::new() }
    }

    /// Reads the file; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let index: Index = serde_json::from_str(text).map_err(|error| error.to_string())?;
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
        Ok(index)
    }

    pub(super) fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and failing writers, make this fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Whether a certificate of that name was issued; names are compared without case, as some file systems
    /// do.
    pub(super) fn has(&self, name: &str) -> bool {
        self.issued.iter().any(|issue| issue.name.eq_ignore_ascii_case(name))
    }

    /// Whether that serial number is taken.
    pub(super) fn has_serial(&self, serial: &str) -> bool {
        self.issued.iter().any(|issue| issue.serial == serial)
    }

    pub(super) fn add(&mut self, issue: Issue) {
        self.issued.push(issue);
    }
}
