//! Post-quantum preshared keys with a peer (docs/build/POST-QUANTUM.md): which keys there are,
//! and the exchange within the current session that makes the next.
//!
//! The responder of a session offers, if the initiation was marked; its initiator answers; the responder's last message
//! proves that it has the key. An end names in its initiations only a key that the other end is known to have; the
//! responder takes the named key, or else the configured one, and the initiator tries both. So neither loss nor a
//! restart leaves ends without a handshake.

mod keys;

use std::time::Duration;

use adit_core::{Instant, SessionId, Severity};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use self::keys::{Key, Keys};
use super::Peer;
use super::initiation_mark::Mark;
use super::sessions::{Session, id_of};
use super::timers::REKEY_AFTER_TIME;
use crate::crypto::{MAC_LEN, Refused};
use crate::hybrid::{ANSWER_SEED_LEN, Answer, OFFER_SEED_LEN, Offer, Parties};
use crate::inner::{CIPHERTEXT_LEN, ENCAPSULATION_KEY_LEN, Inner};
use crate::keys::{PresharedKey, PublicKey};
use crate::mark;
use crate::params::PostQuantum;
use crate::request::DataEvent;
use crate::shared::Shared;
use crate::tai64n::Tai64n;

/// An offer or answer is sent again after 1, 2, 4, 8 s and then each 16 s, until the session is 120 s old: the next one has
/// an exchange of its own.
const FIRST_RESEND: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 4;
/// The handshake with the first post-quantum key begins at once, but so long after the last initiation: a responder
/// takes none within 20 ms of another (wireguard-go: `HandshakeInitationRate`), and the network may bring the second sooner.
const BETWEEN_INITIATIONS: Duration = Duration::from_millis(100);

/// The age at which a session without a key has packets that wait for one make a new handshake begin.
const EXCHANGE_LASTS: Duration = Duration::from_secs(20);

/// The state of a peer with which post-quantum keys are agreed on.
#[derive(Default)]
pub(super) struct Agreement {
    /// No packet is sent without such a key.
    required: bool,
    keys: Keys,
    exchange: Option<Exchange>,
    /// When a handshake begins for the sake of its keys.
    upgrade: Option<Instant>,
}

/// The exchange of the current session.
struct Exchange {
    session: SessionId,
    step: Step,
    /// Our last message.
    message: Vec<u8>,
    sendings: u32,
    resend: Option<Instant>,
}

enum Step {
    /// As responder: it waits for the answer.
    Offered(Offer),
    /// As initiator: it waits for the proof.
    Answered(Answer),
    /// The agreement is complete at this end.
    Complete,
}

impl Agreement {
    pub(super) fn due(&self) -> Option<Instant> {
        let resend = self.exchange.as_ref().and_then(|exchange| exchange.resend);
        [resend, self.upgrade].into_iter().flatten().min()
    }

    /// Another session is the current one: an exchange in the one before is of no use any more. True if that was not answered,
    /// though its message was sent several times.
    fn session_changed(&mut self) -> bool {
        self.upgrade = None;
        let unanswered = |exchange: Exchange| exchange.resend.is_some() && exchange.sendings > DOUBLINGS;
        self.exchange.take().is_some_and(unanswered)
    }
}

impl Peer {
    /// Whether post-quantum keys are agreed on with the peer. A session without one ends if it is required from now on, and
    /// is used as any other if it is not.
    pub(crate) fn set_post_quantum(&mut self, shared: &mut Shared, mode: PostQuantum) {
        let was_held = self.sessions.current.filter(|current| self.lacks_key(*current));
        match mode {
            PostQuantum::Off => self.post_quantum = None,
            on => self.post_quantum.get_or_insert_default().required = on == PostQuantum::Required,
        }
        match self.sessions.current {
            Some(current) if was_held.is_some() && !self.lacks_key(current) => self.activate(shared, current),
            Some(current) if was_held.is_none() && self.lacks_key(current) => self.start_over(shared),
            _ => {}
        }
    }

    /// Whether a session carries messages of the exchange and keepalives alone, and packets wait.
    pub(super) fn is_held(&self, session: Session) -> bool {
        self.awaits_admission() || self.lacks_key(session)
    }

    /// Whether packets need a session with a post-quantum key, and this one has none.
    fn lacks_key(&self, session: Session) -> bool {
        !session.post_quantum && self.post_quantum.as_ref().is_some_and(|state| state.required)
    }

    /// Whether packets wait for an exchange that is under way.
    pub(super) fn awaits_exchange(&self, now: Instant) -> bool {
        self.sessions
            .current
            .is_some_and(|current| self.lacks_key(current) && current.age(now) < EXCHANGE_LASTS)
    }

    /// The configured key is another one, or one end's static key is: the keys that were made with it go.
    pub(super) fn forget_post_quantum_keys(&mut self) {
        if let Some(state) = &mut self.post_quantum {
            **state = Agreement { required: state.required, ..Agreement::default() };
        }
    }

    /// The sessions are gone, and with them the keys that they were made with. One that no handshake used yet stays.
    pub(super) fn forget_used_keys(&mut self) {
        if let Some(state) = &mut self.post_quantum {
            state.session_changed();
            state.keys.forget_used();
        }
    }

    /// Puts the mark into the timestamp of an initiation, and gives the key that it names.
    pub(super) fn mark_timestamp(
        &mut self,
        shared: &Shared,
        timestamp: Tai64n,
    ) -> Result<(Tai64n, Option<PresharedKey>), Refused> {
        let Some(state) = &self.post_quantum else { return Ok((timestamp, None)) };
        if let Some(key) = state.keys.newest() {
            return Ok((mark::put(&key.mark, timestamp), Some(key.preshared.clone())));
        }
        let none = mark::key_of_none(&self.static_shared(shared)?);
        Ok((mark::put(&none, timestamp), None))
    }

    /// Reads the mark of an initiation that is proved to be the peer's, and new.
    pub(super) fn read_mark(&mut self, shared: &Shared, timestamp: Tai64n) -> Result<Mark, Refused> {
        let Some(state) = &mut self.post_quantum else { return Ok(Mark::default()) };
        if let Some(key) = state.keys.named_by(timestamp) {
            return Ok(Mark { present: true, key: Some(key) });
        }
        let none = mark::key_of_none(&self.static_shared(shared)?);
        Ok(Mark { present: mark::has(&none, timestamp), key: None })
    }

    /// Our initiation was answered with the key that it named, or without.
    pub(super) fn named_key_was_used(&mut self, named: &PresharedKey, was_used: bool) {
        let Some(state) = &mut self.post_quantum else { return };
        match was_used {
            true => state.keys.used_by_both(named),
            // The peer has restarted, or does not take part any more.
            false => state.keys.peer_lacks(named),
        }
    }

    /// A session is the current one from now on. `lost_key`: our initiation named a key that the peer does not have. A
    /// handshake without it shows whether the peer takes part; to one that does not, it is one initiation more.
    pub(super) fn session_began(&mut self, shared: &mut Shared, session: Session, lost_key: bool) {
        let Some(state) = &mut self.post_quantum else { return };
        // Not when the initiation arrives: an old one that an attacker held back names no key either.
        if session.offers && !session.post_quantum {
            state.keys.peer_has_none();
        }
        if state.session_changed() {
            self.report_unanswered(shared);
        }
        if lost_key {
            self.upgrade_soon(shared);
        } else if session.offers {
            self.offer(shared, id_of(session.index));
        }
    }

    fn upgrade_soon(&mut self, shared: &Shared) {
        let earliest = self.handshake_sent.map_or(shared.now, |sent| sent + BETWEEN_INITIATIONS);
        if let Some(state) = &mut self.post_quantum {
            state.upgrade = Some(earliest.max(shared.now));
        }
    }

    pub(super) fn handle_post_quantum_timeout(&mut self, shared: &mut Shared) {
        let Some(state) = &mut self.post_quantum else { return };
        let now = shared.now;
        if state.upgrade.take_if(|due| *due <= now).is_some() && self.timers.retry.is_none() {
            self.handshake_sent = None;
            self.initiate(shared, false);
        }
        let exchange = self.post_quantum.as_mut().and_then(|state| state.exchange.as_mut());
        let Some(exchange) = exchange.filter(|exchange| exchange.resend.is_some_and(|due| due <= now)) else {
            return;
        };
        if self.sessions.current.is_some_and(|current| current.age(now) < REKEY_AFTER_TIME) {
            return self.send_exchange(shared);
        }
        exchange.resend = None;
        self.report_unanswered(shared);
    }

    fn report_unanswered(&self, shared: &mut Shared) {
        let text = format!("{}: the post-quantum key exchange was not answered", self.called());
        shared.report(Severity::Warning, self.path, text);
    }

    /// Sends the exchange's last message, again if it was sent before.
    fn send_exchange(&mut self, shared: &mut Shared) {
        let exchange = self.post_quantum.as_mut().and_then(|state| state.exchange.as_mut());
        let Some(exchange) = exchange else { return };
        let waits = !matches!(exchange.step, Step::Complete);
        exchange.resend = waits.then(|| shared.now + FIRST_RESEND * (1 << exchange.sendings.min(DOUBLINGS)));
        exchange.sendings += 1;
        let (session, payload) = (exchange.session, exchange.message.clone());
        shared.order(DataEvent::InjectInto { peer: self.id, session, payload });
        self.sent_anything(shared.now);
    }

    fn begin_step(&mut self, shared: &mut Shared, session: SessionId, step: Step, message: Vec<u8>) {
        let Some(state) = &mut self.post_quantum else { return };
        state.exchange = Some(Exchange { session, step, message, sendings: 0, resend: None });
        self.send_exchange(shared);
    }

    fn offer(&mut self, shared: &mut Shared, session: SessionId) {
        let mut seed = Zeroizing::new([0; OFFER_SEED_LEN]);
        shared.fill(seed.as_mut_slice());
        let offer = Offer::new(&seed);
        let message = Inner::Offer { encapsulation_key: offer.encapsulation_key() }.write();
        self.begin_step(shared, session, Step::Offered(offer), message);
    }

    /// A payload that is no IP packet came in a session. A payload that is no message of the exchange is dropped, as
    /// upstream does.
    pub(crate) fn take_inner(&mut self, shared: &mut Shared, session: SessionId, payload: &[u8]) {
        let current = self.sessions.current.filter(|current| id_of(current.index) == session);
        let (Some(current), Some(_)) = (current, &self.post_quantum) else { return };
        let taken = match Inner::parse(payload) {
            Some(Inner::Offer { encapsulation_key }) if current.is_initiator => {
                self.take_offer(shared, session, encapsulation_key)
            }
            Some(Inner::Answer { public, ciphertext }) => {
                self.take_answer(shared, session, PublicKey(*public), ciphertext)
            }
            Some(Inner::Done { public, tag }) => self.take_done(shared, current, PublicKey(*public), tag),
            _ => return,
        };
        if taken.is_err() {
            let text =
                format!("{}: a message of the post-quantum key exchange does not verify", self.called());
            shared.report(Severity::Debug, self.path, text);
        }
    }

    fn take_offer(
        &mut self,
        shared: &mut Shared,
        session: SessionId,
        encapsulation_key: &[u8; ENCAPSULATION_KEY_LEN],
    ) -> Result<(), Refused> {
        // One that comes again is answered by the timer, or was already.
        if self.exchange_in(session).is_some() {
            return Ok(());
        }
        let own = shared.identity.as_ref().ok_or(Refused)?.pair.public;
        let mut seed = Zeroizing::new([0; ANSWER_SEED_LEN]);
        shared.fill(seed.as_mut_slice());
        let parties = Parties { offerer: &self.key, answerer: &own, preshared: &self.preshared };
        let (answer, ciphertext) = Answer::new(&parties, shared.ephemeral()?, &seed, encapsulation_key)?;
        let message = Inner::Answer { public: &answer.public().0, ciphertext: &ciphertext }.write();
        self.begin_step(shared, session, Step::Answered(answer), message);
        Ok(())
    }

    fn take_answer(
        &mut self,
        shared: &mut Shared,
        session: SessionId,
        public: PublicKey,
        ciphertext: &[u8; CIPHERTEXT_LEN],
    ) -> Result<(), Refused> {
        let own = shared.identity.as_ref().ok_or(Refused)?.pair.public;
        let parties = Parties { offerer: &own, answerer: &self.key, preshared: &self.preshared };
        let offer = match self.exchange_in(session).map(|exchange| &exchange.step) {
            Some(Step::Offered(offer)) => offer,
            // The last message was lost.
            Some(Step::Complete) => {
                self.send_exchange(shared);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let ephemeral = shared.ephemeral()?;
        let agreed = offer.finish(&parties, &ephemeral, &public, ciphertext)?;
        let message = Inner::Done { public: &ephemeral.public.0, tag: &agreed.tag }.write();
        if let Some(state) = &mut self.post_quantum {
            state.keys.derived_first(Key::new(agreed));
        }
        self.begin_step(shared, session, Step::Complete, message);
        Ok(())
    }

    fn take_done(
        &mut self,
        shared: &mut Shared,
        current: Session,
        public: PublicKey,
        tag: &[u8; MAC_LEN],
    ) -> Result<(), Refused> {
        // While our own initiation waits for its response, it names the previous key. If the new key were taken now, the
        // offerer would not see it named, and would replace it in the next session's exchange: the ends would differ.
        if self.pending.is_some() {
            return Ok(());
        }
        let own = shared.identity.as_ref().ok_or(Refused)?.pair.public;
        let parties = Parties { offerer: &self.key, answerer: &own, preshared: &self.preshared };
        let Some(state) = &mut self.post_quantum else { return Ok(()) };
        let exchange = state.exchange.as_mut().filter(|exchange| exchange.session == id_of(current.index));
        let Some(Exchange { step, resend, .. }) = exchange else { return Ok(()) };
        let Step::Answered(answer) = step else { return Ok(()) };
        let agreed = answer.finish(&parties, &public)?;
        if !bool::from(agreed.tag.ct_eq(tag)) {
            return Err(Refused);
        }
        (*step, *resend) = (Step::Complete, None);
        state.keys.confirmed(Key::new(agreed));
        if !current.post_quantum {
            self.upgrade_soon(shared);
        }
        Ok(())
    }

    fn exchange_in(&self, session: SessionId) -> Option<&Exchange> {
        let exchange = self.post_quantum.as_ref()?.exchange.as_ref()?;
        (exchange.session == session).then_some(exchange)
    }
}
