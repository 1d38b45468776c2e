//! `tls-crypt-v2-verify`: a script judges what a client's own key says of itself, before the client gets a
//! session. Only who has a key that this server wrapped, and receives at its address, comes this far.

use std::collections::BTreeMap;
use std::time::Duration;

use adit_core::{Event, Instant, Path, Rejected, Script, ScriptFile, ScriptId, ScriptOutcome};
use zeroize::Zeroizing;

use super::door::Newcomer;
use crate::wire::Sid;

/// Clients that are being judged, or were refused a while ago.
const MAX_ENTRIES: usize = 256;

enum Entry {
    /// The script runs; the client's packet waits with it.
    Asked { id: ScriptId, newcomer: Box<Newcomer>, datagram: Vec<u8>, until: Instant },
    /// It said no: it is not asked for each packet that the client sends again.
    Refused { until: Instant },
}

/// Who is being judged.
#[derive(Default)]
pub(super) struct KeyJudge {
    entries: BTreeMap<(Path, Sid), Entry>,
}

/// What the script said.
pub(super) enum Ruling {
    /// The client may have a session, which begins with this packet.
    Enter { path: Path, newcomer: Box<Newcomer>, datagram: Vec<u8> },
    /// It may not, and why.
    Refused { path: Path, reason: String },
}

impl KeyJudge {
    /// Whether a packet may knock: not while the script is being asked about its sender, nor after it said no.
    pub(super) fn lets_knock(&self, now: Instant, path: Path, sid: Sid) -> Result<(), Rejected> {
        match self.entries.get(&(path, sid)) {
            Some(Entry::Asked { until, .. }) if now < *until => {
                Err(Rejected::Unexpected("its key is being judged (tls-crypt-v2-verify)"))
            }
            Some(Entry::Refused { until }) if now < *until => {
                Err(Rejected::Unauthentic("its key was refused (tls-crypt-v2-verify)"))
            }
            _ => Ok(()),
        }
    }

    /// Asks the script about a client's key.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (path, datagram): (Path, &[u8]),
        newcomer: Newcomer,
        (id, argv, patience): (ScriptId, Vec<String>, Duration),
    ) -> Result<Event, Rejected> {
        self.entries.retain(|_, entry| match entry {
            Entry::Asked { until, .. } | Entry::Refused { until } => now < *until,
        });
        if self.entries.len() >= MAX_ENTRIES {
            return Err(Rejected::Limited("clients whose keys are being judged (tls-crypt-v2-verify)"));
        }
        let (kind, content) = newcomer.metadata.as_ref().and_then(|metadata| metadata.parts()).ok_or(
            Rejected::Unauthentic("its tls-crypt-v2 key says nothing of itself (tls-crypt-v2-verify)"),
        )?;
        let env = [("script_type", "tls-crypt-v2-verify".to_owned()), ("metadata_type", kind.to_string())];
        let file = ScriptFile {
            content: Zeroizing::new(content),
            is_argument: false,
            variable: Some("metadata_file"),
        };
        let script = Script {
            id,
            argv,
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            secrets: Vec::new(),
            files: vec![file],
            settings: None,
            defers: false,
            in_order: false,
            beside: None,
            patience,
        };
        // The script is killed after its patience; that its end is heard takes a moment more.
        let until = now + patience.saturating_mul(2);
        let key = (path, newcomer.sid);
        let (newcomer, datagram) = (Box::new(newcomer), datagram.to_vec());
        self.entries.insert(key, Entry::Asked { id, newcomer, datagram, until });
        Ok(Event::RunScript(Box::new(script)))
    }

    /// A script ended; `None` if it was none of these.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        remembered: Duration,
    ) -> Option<Ruling> {
        let ours = |entry: &Entry| matches!(entry, Entry::Asked { id: asked, .. } if *asked == id);
        let key = self.entries.iter().find(|(_, entry)| ours(entry)).map(|(key, _)| *key)?;
        let Some(Entry::Asked { newcomer, datagram, .. }) = self.entries.remove(&key) else { return None };
        let path = key.0;
        let reason = match &outcome.exit {
            Ok(0) => return Some(Ruling::Enter { path, newcomer, datagram }),
            Ok(code) => format!("tls-crypt-v2-verify says no (exit code {code})"),
            Err(why) => format!("tls-crypt-v2-verify: {why}"),
        };
        self.entries.insert(key, Entry::Refused { until: now + remembered });
        Some(Ruling::Refused { path, reason })
    }

    /// The connection is gone, and with it who came along it.
    pub(super) fn closed(&mut self, gone: Path) {
        self.entries.retain(|(path, _), _| *path != gone);
    }

    /// Nobody is judged any more.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}
