use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use zeroize::Zeroizing;

use crate::PeerSettings;

/// What happens to a server's client, for a program that judges clients and keeps books on them (OpenVPN:
/// `management-client-auth`).
#[derive(Clone)]
pub struct ClientNews {
    /// The client's number, as in [`crate::PeerInfo::number`] (OpenVPN: CID).
    pub client: u64,
    /// What happened.
    pub step: ClientStep,
    /// What is known of the client, in OpenVPN's names. Without its password.
    pub env: Vec<(String, String)>,
}

/// A step in the life of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// It wants to come in. Answered with [`crate::Command::Rule`].
    Asks {
        /// The number of the keys that it has just agreed on (OpenVPN: KID).
        key: u32,
        /// It is in already, and wants to stay.
        again: bool,
        /// The password it showed, without control characters; perhaps none, perhaps a token.
        password: Zeroizing<String>,
    },
    /// It answers what it was asked by [`ClientRuling::Wait`].
    Responds {
        /// The number of the keys that are being judged.
        key: u32,
        /// Its answer: base64 text.
        response: Zeroizing<String>,
    },
    /// It is in, and reached at these addresses: its own are marked, others are networks behind it.
    Enters {
        /// The networks.
        networks: Vec<(IpNet, bool)>,
    },
    /// It is gone, or was refused. Said of every client that asked, once, with no more than its number if it never was
    /// in.
    Leaves,
}

impl fmt::Debug for ClientNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientNews")
            .field("client", &self.client)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientStep::Asks { key, again, .. } => write!(f, "Asks {{ key: {key}, again: {again} }}"),
            ClientStep::Responds { key, .. } => write!(f, "Responds {{ key: {key} }}"),
            ClientStep::Enters { networks } => write!(f, "Enters {{ networks: {networks:?} }}"),
            ClientStep::Leaves => f.write_str("Leaves"),
        }
    }
}

/// What a program says of a client that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRuling {
    /// It may come in, or stay. The settings hold for it alone, from when it comes in.
    Accept(Option<Box<PeerSettings>>),
    /// It must go, even if the same program had accepted it.
    Deny {
        /// Why, for the log.
        reason: String,
        /// Why, for the client; perhaps nothing.
        told: String,
    },
    /// The client is to do something first.
    Wait {
        /// What, in the protocol's own words (OpenVPN: `WEB_AUTH:…`, `CR_TEXT:…`).
        text: String,
        /// How long it has for that, if its handshake may last that long.
        timeout: Duration,
    },
}
