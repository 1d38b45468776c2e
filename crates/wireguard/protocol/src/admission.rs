//! Which handshake messages are worth a Diffie-Hellman computation (whitepaper §5.3).

use std::time::Duration;

use adit_core::{AnswerLimit, ClientLimit, Instant, Path, Permit, Rate, Rejected};

use crate::macs::CookieSecret;
use crate::shared::{Identity, Shared};
use crate::wire::WithMacs;

/// How long cookies are asked for after the last message that was too many (wireguard-go: `UnderLoadAfterTime`).
const LOAD_LASTS: Duration = Duration::from_secs(1);
/// Messages with a valid cookie that are answered, for each IPv4 address or IPv6 /64: 20 a second, 5 at once (as
/// upstream's limiters).
const PER_SOURCE: Rate = Rate { count: 5, period: Duration::from_millis(250) };

/// Decides by mac1, mac2 and the load. Its memory does not grow.
pub(crate) struct Admission {
    cookies: CookieSecret,
    sources: AnswerLimit,
    load: ClientLimit,
    loaded_until: Instant,
    /// The adapter says that there is load.
    told: bool,
}

impl Admission {
    pub(crate) fn new(load: Rate) -> Self {
        Admission {
            cookies: CookieSecret::new(),
            sources: AnswerLimit::new(PER_SOURCE),
            load: ClientLimit::new(Some(load)),
            loaded_until: Instant::ORIGIN,
            told: false,
        }
    }

    pub(crate) fn tell(&mut self, loaded: bool) {
        self.told = loaded;
    }

    /// Counts a message with a valid mac1.
    fn is_loaded(&mut self, now: Instant) -> bool {
        if self.load.ask(now) != Permit::Granted {
            self.loaded_until = now + LOAD_LASTS;
        }
        self.told || now < self.loaded_until
    }

    /// Whether a message may go on. One without a cookie is answered with one if there is load.
    pub(crate) fn admit(
        &mut self,
        shared: &mut Shared,
        path: Path,
        message: &impl WithMacs,
    ) -> Result<(), Rejected> {
        let now = shared.now;
        let Some(Identity { receiver_keys, .. }) = &shared.identity else {
            return Err(Rejected::Unexpected("there is no private key"));
        };
        let receiver_keys = *receiver_keys;
        if !receiver_keys.mac1_verifies(message) {
            return Err(Rejected::Unauthentic("mac1"));
        }
        if !self.is_loaded(now) {
            return Ok(());
        }
        self.cookies.refresh(now, |bytes| shared.fill(bytes));
        if !self.cookies.mac2_verifies(now, path.remote(), message) {
            let mut nonce = [0; 24];
            shared.fill(&mut nonce);
            if let Ok(reply) = self.cookies.reply(&receiver_keys, path.remote(), message, nonce) {
                shared.send(path, &reply);
            }
            return Err(Rejected::Limited("under load, a cookie was asked for"));
        }
        match self.sources.ask(now, self.cookies.places(path.source_prefix().octets())) {
            Permit::Granted => Ok(()),
            Permit::Refused { .. } => Err(Rejected::Limited("handshake messages of this address")),
        }
    }
}
