//! `tls-crypt-v2-verify`: a script judges the metadata of a client's own key, before the client gets a
//! control channel. Only a client that has a key that this server wrapped, and receives at its address, comes
//! this far.
//!
//! The script judges the key alone, so its answer holds for all clients that bring that key: it runs once for those
//! that wait at the same time, and a key that it refused is refused for a while without a further run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Instant, Path, PrefixTable, Rejected, TableUsage};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::limits;
use super::pre_auth::PendingClient;
use crate::request::{Event, Request, Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};
use crate::wire::{HEADER_LEN, Header, Sid};
use crate::wrap::v2::wrapped_key_at_end;

/// Names a client's key: SHA-256 of it as the server wrapped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest of the key which a datagram brings, if it brings one. Nothing of it is verified.
    pub(super) fn of(datagram: &[u8]) -> Option<Self> {
        let header = Header::from_byte(*datagram.first()?)?;
        let (_, wrapped) = wrapped_key_at_end(datagram.get(HEADER_LEN..)?)?;
        header.opcode.carries_client_key().then(|| KeyDigest(Sha256::digest(wrapped).into()))
    }
}

/// A client that waits for the answer about its key.
struct Waiting {
    key: KeyDigest,
    pending: Box<PendingClient>,
    /// The datagram that brought the key, and those after it.
    datagrams: Vec<Vec<u8>>,
}

/// A key about which the script is being asked.
struct Asked {
    script: ScriptId,
    /// The script was killed by then.
    until: Instant,
    source: IpAddr,
    waiting: BTreeSet<(Path, Sid)>,
}

/// The script to run, and its time limit.
pub(super) struct KeyQuery {
    pub(super) id: ScriptId,
    pub(super) argv: Vec<String>,
    pub(super) timeout: Duration,
}

/// The clients that are being judged.
pub(super) struct TlsCryptV2Verify {
    waiting: PrefixTable<(Path, Sid), Waiting>,
    asked: BTreeMap<KeyDigest, Asked>,
    /// The time until which each key is refused.
    refused: PrefixTable<KeyDigest, Instant>,
}

/// The result of the script.
pub(super) enum KeyVerdict {
    /// The client may have a control channel, which begins with these packets.
    Enter { path: Path, pending: Box<PendingClient>, datagrams: Vec<Vec<u8>> },
    /// The clients that may not, and why.
    Refused { paths: Vec<Path>, reason: String },
}

impl TlsCryptV2Verify {
    pub(super) fn new() -> Self {
        TlsCryptV2Verify {
            waiting: PrefixTable::new("clients whose keys are being judged", limits::JUDGED_KEYS),
            asked: BTreeMap::new(),
            refused: PrefixTable::new("keys that tls-crypt-v2-verify refused", limits::REFUSED_KEYS),
        }
    }

    /// Keeps a packet of a client whose key is being judged until the answer is there: a ClientHello with a
    /// post-quantum key share takes two packets, and the second would come again only after a retransmission's time.
    /// Gives whether the packet is of such a client.
    pub(super) fn keep(&mut self, client: (Path, Sid), datagram: &[u8]) -> bool {
        let Some(Waiting { datagrams, .. }) = self.waiting.get_mut(&client) else { return false };
        if datagrams.len() < limits::PACKETS_OF_A_JUDGED_CLIENT {
            datagrams.push(datagram.to_vec());
        }
        true
    }

    /// Whether a packet that may begin a control channel is looked at: not when the script refused its key.
    pub(super) fn check(&self, now: Instant, datagram: &[u8]) -> Result<(), Rejected> {
        if self.refused.is_empty() {
            return Ok(());
        }
        match KeyDigest::of(datagram).and_then(|key| self.refused.get(&key)) {
            Some(until) if now < *until => {
                Err(Rejected::Unauthentic("its key was refused (tls-crypt-v2-verify)"))
            }
            _ => Ok(()),
        }
    }

    /// Asks the script about a client's key, unless it is being asked already. Gives the client that makes room for
    /// this one.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (path, datagram): (Path, &[u8]),
        pending: PendingClient,
        query: KeyQuery,
        events: &mut impl Extend<Event>,
    ) -> Result<Option<Path>, Rejected> {
        self.forget_late(now, events);
        let nothing = "its tls-crypt-v2 key says nothing of itself (tls-crypt-v2-verify)";
        let metadata = pending.metadata.as_ref().and_then(|metadata| metadata.parts());
        let (Some((kind, content)), Some(key)) = (metadata, KeyDigest::of(datagram)) else {
            return Err(Rejected::Unauthentic(nothing));
        };
        let (client, source) = ((path, pending.sid), path.remote().ip());
        match self.asked.get_mut(&key) {
            Some(asked) if asked.waiting.len() >= limits::JUDGED_OF_ONE_KEY => {
                self.waiting.count_refusal();
                return Err(Rejected::Limited("clients whose key is being judged (tls-crypt-v2-verify)"));
            }
            Some(asked) => {
                asked.waiting.insert(client);
            }
            None => {
                // The script is killed after its timeout; that its end is heard takes a moment more.
                let until = now + query.timeout.saturating_mul(2);
                let (script, waiting) = (query.id, BTreeSet::from([client]));
                self.asked.insert(key, Asked { script, until, source, waiting });
                let script = script_about(query, source, kind, content);
                events.extend([Event::Request(Request::RunScript(Box::new(script)))]);
            }
        }
        let waiting = Waiting { key, pending: Box::new(pending), datagrams: vec![datagram.to_vec()] };
        let Some((evicted, Waiting { key, .. })) = self.waiting.insert(source, client, (), waiting) else {
            return Ok(None);
        };
        self.waits_no_more(key, evicted, events);
        Ok(Some(evicted.0))
    }

    /// A script ended; `None` if it was none of these.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        remembered: Duration,
    ) -> Option<Vec<KeyVerdict>> {
        let key = *self.asked.iter().find(|(_, asked)| asked.script == id)?.0;
        let Asked { source, waiting, .. } = self.asked.remove(&key)?;
        let (remembered, reason) = match &outcome.exit {
            Ok(0) => {
                let enters = |client: (Path, Sid)| {
                    let Waiting { pending, datagrams, .. } = self.waiting.remove(&client)?;
                    Some(KeyVerdict::Enter { path: client.0, pending, datagrams })
                };
                return Some(waiting.into_iter().filter_map(enters).collect());
            }
            Ok(code) => (remembered, format!("tls-crypt-v2-verify says no (exit code {code})")),
            Err(why) => (remembered.min(limits::KEY_RETRY_TIME), format!("tls-crypt-v2-verify: {why}")),
        };
        for client in &waiting {
            self.waiting.remove(client);
        }
        while let Some((&key, _)) = self.refused.oldest().filter(|(_, until)| now >= **until) {
            self.refused.remove(&key);
        }
        // One that makes room here is judged again.
        let _ = self.refused.insert(source, key, (), now + remembered);
        let paths = waiting.into_iter().map(|(path, _)| path).collect();
        Some(vec![KeyVerdict::Refused { paths, reason }])
    }

    /// The connection is gone, and with it the clients that came along it.
    pub(super) fn closed(&mut self, gone: Path, events: &mut impl Extend<Event>) {
        let of_path =
            |(key, waiting): (&(Path, Sid), &Waiting)| (key.0 == gone).then_some((*key, waiting.key));
        let clients: Vec<((Path, Sid), KeyDigest)> = self.waiting.iter().filter_map(of_path).collect();
        for (client, key) in clients {
            self.waiting.remove(&client);
            self.waits_no_more(key, client, events);
        }
    }

    /// Scripts that did not answer in the time in which they are killed.
    fn forget_late(&mut self, now: Instant, events: &mut impl Extend<Event>) {
        let late = |(key, asked): (&KeyDigest, &Asked)| (now >= asked.until).then_some(*key);
        let late: Vec<KeyDigest> = self.asked.iter().filter_map(late).collect();
        for key in late {
            let Some(asked) = self.asked.remove(&key) else { continue };
            for client in asked.waiting {
                self.waiting.remove(&client);
            }
            events.extend([Event::Request(Request::CancelScript(asked.script))]);
        }
    }

    /// One client less waits for the answer about a key. The last one takes the question with it.
    fn waits_no_more(&mut self, key: KeyDigest, client: (Path, Sid), events: &mut impl Extend<Event>) {
        let Some(asked) = self.asked.get_mut(&key) else { return };
        asked.waiting.remove(&client);
        if asked.waiting.is_empty() {
            events.extend([Event::Request(Request::CancelScript(asked.script))]);
            self.asked.remove(&key);
        }
    }

    /// Drops all pending clients and queries.
    pub(super) fn clear(&mut self, events: &mut impl Extend<Event>) {
        let scripts = std::mem::take(&mut self.asked).into_values();
        events.extend(scripts.map(|asked| Event::Request(Request::CancelScript(asked.script))));
        self.waiting.clear();
        self.refused.clear();
    }

    pub(super) fn usage(&self) -> [TableUsage; 2] {
        [self.waiting.usage(), self.refused.usage()]
    }
}

fn script_about(query: KeyQuery, source: IpAddr, kind: u8, content: Vec<u8>) -> Script {
    let env = [("script_type", "tls-crypt-v2-verify".to_owned()), ("metadata_type", kind.to_string())];
    let file =
        ScriptFile { content: Zeroizing::new(content), is_argument: false, variable: Some("metadata_file") };
    Script {
        id: query.id,
        source: Some(source),
        priority: ScriptPriority::Unauthenticated,
        argv: query.argv,
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        secrets: Vec::new(),
        files: vec![file],
        settings: None,
        defers: false,
        in_order: None,
        beside: None,
        timeout: query.timeout,
    }
}
