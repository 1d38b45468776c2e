//! `client-connect`: a script that judges a client that has its addresses, and may say more for it.

use std::net::IpAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use super::authentication::{deferred_result, is_fault};
use crate::lease::ClientLease;
use crate::request::{PeerSettings, Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};

/// The exit code by which a script puts off its answer.
const DEFERRED: i32 = 2;

/// A client about which the script is being asked.
pub(super) struct Connecting {
    id: ScriptId,
    lease: ClientLease,
    settings: PeerSettings,
}

/// The result of the script.
pub(super) enum Connected {
    /// The script was another one.
    NotOurs,
    /// The script will answer later.
    NotYet,
    /// No, and why.
    Refused { lease: ClientLease, reason: String },
    /// Nothing that could be understood, for this reason.
    Failed { lease: ClientLease, reason: String },
    /// Yes.
    Accepted {
        lease: ClientLease,
        /// The settings from before, and those that the script adds.
        settings: Box<PeerSettings>,
        added: Box<PeerSettings>,
    },
}

impl Connecting {
    pub(super) fn new(id: ScriptId, lease: ClientLease, settings: PeerSettings) -> Self {
        Connecting { id, lease, settings }
    }

    pub(super) fn id(&self) -> ScriptId {
        self.id
    }

    pub(super) fn is(&self, id: ScriptId) -> bool {
        self.id == id
    }

    pub(super) fn lease_mut(&mut self) -> &mut ClientLease {
        &mut self.lease
    }

    pub(super) fn into_lease(self) -> ClientLease {
        self.lease
    }

    /// The script to run; it writes settings to the file that is its last argument.
    pub(super) fn script(
        &self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        (source, timeout): (IpAddr, Duration),
    ) -> Script {
        let file = |is_argument, variable| ScriptFile {
            content: Zeroizing::default(),
            is_argument,
            variable: Some(variable),
        };
        let files =
            vec![file(false, "client_connect_deferred_file"), file(true, "client_connect_config_file")];
        Script {
            id: self.id,
            source: Some(source),
            priority: ScriptPriority::Authenticated,
            argv,
            env,
            secrets: Vec::new(),
            files,
            settings: Some(1),
            defers: true,
            in_order: None,
            beside: None,
            timeout,
        }
    }

    /// The script answered; an error if it will do so later.
    pub(super) fn done(self: Box<Self>, outcome: &ScriptOutcome) -> Result<Connected, Box<Self>> {
        let passed = match (&outcome.exit, deferred_result(outcome)) {
            (Ok(0), _) | (Ok(DEFERRED), Some(true)) => Ok(()),
            (Ok(DEFERRED), None) => return Err(self),
            (Ok(code), _) if !is_fault(&outcome.exit) => {
                Err((false, format!("client-connect says no (exit code {code})")))
            }
            (Ok(code), _) => Err((true, format!("client-connect failed (exit code {code})"))),
            (Err(why), _) => Err((true, format!("client-connect: {why}"))),
        };
        let Connecting { lease, settings, .. } = *self;
        let refused = |lease, reason| Ok(Connected::Refused { lease, reason });
        match (passed, &outcome.settings) {
            (Err((false, reason)), _) => refused(lease, reason),
            (Err((true, reason)), _) => Ok(Connected::Failed { lease, reason }),
            (Ok(()), Some(Err(why))) => {
                Ok(Connected::Failed { lease, reason: format!("client-connect: {why}") })
            }
            (Ok(()), Some(Ok(added))) if added.disabled => {
                refused(lease, "client-connect says `disable`".to_owned())
            }
            (Ok(()), Some(Ok(added))) => {
                Ok(Connected::Accepted { lease, settings: Box::new(settings), added: added.clone() })
            }
            (Ok(()), None) => {
                Ok(Connected::Accepted { lease, settings: Box::new(settings), added: Box::default() })
            }
        }
    }
}
