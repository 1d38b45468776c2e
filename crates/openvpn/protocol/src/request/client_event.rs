use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::PeerSettings;

/// A step of a server's client, for a management client that authenticates clients and accounts for them
/// (`management-client-auth`).
#[derive(Clone)]
pub struct ClientEvent {
    /// The client's number, as in [`super::PeerDetail::number`] (management: CID).
    pub client: u64,
    /// The step of the client.
    pub step: ClientStep,
    /// The facts of the client, by the names that scripts know. Without its password.
    pub env: Vec<(String, String)>,
}

/// A step of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// The client asks to be authenticated (`CONNECT`, `REAUTH`). Answered with
    /// [`super::Reply::ClientDecision`].
    AuthRequest {
        /// The number of the keys that it has just agreed on (management: KID).
        key: u32,
        /// The client is connected already and renews its keys.
        again: bool,
        /// The password it showed, without control characters; perhaps none, perhaps a token.
        password: Zeroizing<String>,
    },
    /// The client answers the question of [`ClientDecision::Pending`] (`CR_RESPONSE`).
    ChallengeResponse {
        /// The number of the keys whose authentication is pending.
        key: u32,
        /// Its answer: base64 text.
        response: Zeroizing<String>,
    },
    /// The client is connected and has these addresses (`ESTABLISHED`): its own are marked, others are networks behind
    /// it.
    Established {
        /// The networks.
        networks: Vec<(IpNet, bool)>,
    },
    /// The client is connected, and has this address from now on (`ADDRESS`, by itself).
    Addressed {
        /// The address.
        network: IpNet,
    },
    /// The client is gone, or was refused (`DISCONNECT`). Once for every client that asked, with no more than its
    /// number if it was never connected.
    Disconnected,
}

impl fmt::Debug for ClientEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientEvent")
            .field("client", &self.client)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientStep::AuthRequest { key, again, .. } => {
                write!(f, "AuthRequest {{ key: {key}, again: {again} }}")
            }
            ClientStep::ChallengeResponse { key, .. } => write!(f, "ChallengeResponse {{ key: {key} }}"),
            ClientStep::Established { networks } => write!(f, "Established {{ networks: {networks:?} }}"),
            ClientStep::Addressed { network } => write!(f, "Addressed {{ network: {network} }}"),
            ClientStep::Disconnected => f.write_str("Disconnected"),
        }
    }
}

/// The decision of a management client on a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientDecision {
    /// The client is authenticated. The settings hold for it alone, from when it connects.
    Accept(Option<Box<PeerSettings>>),
    /// The client is refused, or disconnected if it was accepted before.
    Deny {
        /// Why, for the log.
        reason: String,
        /// Why, for the client; perhaps nothing.
        told: String,
    },
    /// The client must do something first (`client-pending-auth`).
    Pending {
        /// The method and its text, in the protocol's own words (`WEB_AUTH:…`, `CR_TEXT:…`).
        text: String,
        /// How long it has for that, if its handshake may last that long.
        timeout: Duration,
    },
}
