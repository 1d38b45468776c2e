//! A key on a smart card or the like (`pkcs11-id`): the certificate is read at the start, and the token signs when it has to.

use std::fmt;
use std::sync::Arc;

use adit_openvpn_config::Pkcs11Identity;
use adit_pki::KeyKind;
use adit_pki::signature::{KeyHolder, Scheme, ecdsa_from_pair};
use rand_core::{OsRng, TryRngCore as _};

use super::CurrentStep;
use super::encoding::{Kind, digest_info, pss_block};
use crate::fault::Fault;
use crate::management::{Listed, PendingQueries, Topic};
use crate::pkcs11::{Ability, Cards, Found, Identity, Listing, Operation, Outcome, Pin, Provider};
use adit_host::terminal::{Terminal, Turns, Waiting};

/// How often a PIN is asked for, for one signature. Many tokens lock themselves after as many wrong ones (pkcs11-helper's
/// default, too).
const TRIES: usize = 3;

/// Asks for a PIN and a token: the program at the management socket, if that answers such questions, or else the person at the
/// terminal.
#[derive(Clone)]
pub(super) struct PinPrompt(pub(super) Option<Arc<PendingQueries>>);

impl PinPrompt {
    fn ask_for_pin(&self, label: &str, waiting: &dyn Waiting) -> Result<Pin, String> {
        let pin = match &self.0 {
            Some(questions) => questions.ask(Topic::Token(label.to_owned()), "", waiting)?.password,
            None => {
                let question = format!("PIN of the token {label}: ");
                Terminal::open().and_then(|mut terminal| terminal.ask(&question, false, waiting))?
            }
        };
        match pin.is_empty() {
            true => Err(format!("no PIN was given for the token {label}")),
            false => Ok(Pin::new(&pin)),
        }
    }

    /// Waits until the program or the person says that the token with that label is there.
    fn ask_for_token(&self, label: &str, waiting: &dyn Waiting) -> Result<(), String> {
        let answer = match &self.0 {
            Some(questions) => questions.ask(Topic::Insertion(label.to_owned()), "", waiting)?.password,
            None => {
                let mut terminal = Terminal::open()?;
                terminal.ask(&format!("Insert the token {label}, and press Enter: "), true, waiting)?;
                return Ok(());
            }
        };
        match answer.as_str() {
            "ok" => Ok(()),
            _ => Err(format!("the token {label} is not there")),
        }
    }

    fn was_wrong(&self, label: &str) {
        if let Some(questions) = &self.0 {
            questions.was_wrong(Topic::Token(label.to_owned()), "");
        }
    }

    /// Does that with the token of that label, as soon as it is there, and a PIN, as soon as one is asked for.
    fn with_token(
        &self,
        label: &str,
        waiting: &dyn Waiting,
        mut act: impl FnMut(Option<Pin>) -> Result<Outcome, String>,
    ) -> Result<Outcome, String> {
        let (mut pin, mut tried) = (None, 0);
        loop {
            match act(pin.take())? {
                Outcome::PinNeeded(label) => pin = Some(self.ask_for_pin(&label, waiting)?),
                Outcome::PinWrong(label) => {
                    self.was_wrong(&label);
                    tried += 1;
                    if tried >= TRIES {
                        return Err(format!("the PIN of the token {label} is wrong"));
                    }
                }
                Outcome::Absent => self.ask_for_token(label, waiting)?,
                Outcome::Failed(why) => return Err(why),
                done => return Ok(done),
            }
        }
    }
}

/// Asks the person at the terminal for the PIN of the token with that label.
///
/// # Errors
/// When there is no terminal, or no PIN was given.
pub(crate) fn ask_at_terminal(label: &str) -> Result<Pin, String> {
    PinPrompt(None).ask_for_pin(label, &Turns::default().next())
}

/// Asks the program at the management socket which certificate it is to be.
fn choose(
    (cards, holders): (&Cards, &PinPrompt),
    chooser: Option<&PendingQueries>,
    waiting: &dyn Waiting,
) -> Result<Identity, String> {
    let chooser = chooser.ok_or("there is no management socket to ask at")?;
    let wanted = || waiting.wants_it();
    // A PIN that is needed to see certificates is asked for here.
    holders.with_token("", waiting, |pin| cards.find(None, pin, &wanted))?;
    let list = || -> Option<Vec<Listed>> {
        match cards.find(None, None, &wanted) {
            Ok(Outcome::Found(listing)) => Some(listing.certificates.into_iter().map(listed).collect()),
            _ => None,
        }
    };
    Identity::parse(&chooser.ask_which(list, waiting)?)
}

fn listed(found: Found) -> Listed {
    Listed { name: found.identity.to_string(), certificate: found.certificate }
}

/// The certificate that is wanted, as soon as its token is there.
fn look_for(
    wanted: &Identity,
    (cards, holders): (&Cards, &PinPrompt),
    waiting: &dyn Waiting,
) -> Result<Found, String> {
    loop {
        let find = |pin| cards.find(Some(wanted), pin, &|| waiting.wants_it());
        let outcome = holders.with_token(&wanted.label, waiting, find)?;
        let Outcome::Found(listing) = outcome else {
            return Err("the process for smart cards answers something else".to_owned());
        };
        if let Some(it) = listing.certificates.iter().find(|found| wanted.means(&found.identity)) {
            return Ok(it.clone());
        }
        let why = absent(&listing);
        if is_token_there(wanted, &listing) {
            return Err(why);
        }
        holders.ask_for_token(&wanted.label, waiting).map_err(|refusal| format!("{why}; {refusal}"))?;
    }
}

/// The certificate that the configuration names.
///
/// # Errors
/// It is no name of a certificate.
pub(super) fn named(config: &Pkcs11Identity) -> Result<Option<Identity>, Fault> {
    config.id.as_deref().map(Identity::parse).transpose().map_err(fault_of_id)
}

fn fault_of_id(why: String) -> Fault {
    ("pkcs11-id", format!("pkcs11-id: {why}"))
}

/// The token, by the process that speaks to it.
pub(super) struct TokenKey {
    cards: Cards,
    identity: Identity,
    signs_by: Vec<Ability>,
    holders: PinPrompt,
    current: Arc<CurrentStep>,
}

impl TokenKey {
    /// Loads the modules, and finds the certificate: gives it in DER. Where the file does not name it, `chooser` is asked.
    ///
    /// # Errors
    /// The directive at fault, and why.
    pub(super) fn find(
        config: &Pkcs11Identity,
        (holders, chooser, current): (PinPrompt, Option<&PendingQueries>, Arc<CurrentStep>),
        waiting: &dyn Waiting,
    ) -> Result<(Self, Vec<u8>), Fault> {
        let named = named(config)?;
        let providers: Vec<Provider> = config
            .providers
            .iter()
            .map(|provider| Provider {
                path: provider.path.clone(),
                protected: provider.protected,
                private_certificates: provider.private_certificates,
            })
            .collect();
        let cards = Cards::start(&providers, config.pin_cache, &|| waiting.wants_it())
            .map_err(|why| ("pkcs11-providers", format!("pkcs11-providers: {why}")))?;
        let wanted = match named {
            Some(named) => named,
            None => choose((&cards, &holders), chooser, waiting)
                .map_err(|why| ("pkcs11-id-management", format!("pkcs11-id-management: {why}")))?,
        };
        let Found { identity, certificate, signs_by } =
            look_for(&wanted, (&cards, &holders), waiting).map_err(fault_of_id)?;
        Ok((TokenKey { cards, identity, signs_by, holders, current }, certificate))
    }

    fn can(&self, ability: Ability) -> bool {
        self.signs_by.contains(&ability)
    }

    /// The operation of the token, and its data.
    fn task(&self, kind: Kind, key: KeyKind, message: &[u8]) -> Result<(Operation, Vec<u8>), String> {
        Ok(match kind {
            Kind::Pkcs1(hash) => (Operation::RsaPkcs1, digest_info(hash, message)),
            Kind::Pss(hash) if self.can(Ability::RsaPss) => (Operation::RsaPss(hash), hash.digest(message)),
            Kind::Pss(hash) => {
                let KeyKind::Rsa { bits } = key else {
                    return Err(format!("a key of {key:?} makes no RSA signature"));
                };
                let mut salt = vec![0; hash.length()];
                OsRng
                    .try_fill_bytes(&mut salt)
                    .map_err(|error| format!("no randomness from the system: {error}"))?;
                (Operation::RsaRaw, pss_block(hash, message, &salt, bits)?)
            }
            Kind::Ecdsa(hash) => (Operation::Ecdsa, hash.digest(message)),
            Kind::Ed25519 => (Operation::Eddsa, message.to_vec()),
        })
    }
}

/// Whether the token is there, or may be one that could not be read: to wait for it would not help.
fn is_token_there(wanted: &Identity, listing: &Listing) -> bool {
    let mut unreadable = listing.unreadable.iter().map(|unreadable| unreadable.token.as_ref());
    listing.certificates.iter().any(|found| wanted.is_on_token_of(&found.identity))
        || unreadable.any(|token| token.is_none_or(|token| wanted.is_on_token_of(token)))
}

/// The error that the certificate is not there, with those that are, and those that could not be read.
fn absent(listing: &Listing) -> String {
    let names: Vec<String> = listing.certificates.iter().map(|found| found.identity.to_string()).collect();
    let mut why = match names.is_empty() {
        true => "no token with a certificate is there".to_owned(),
        false => format!("no token has this certificate; there are {}", names.join(" and ")),
    };
    if let Some(reasons) = listing.reasons() {
        why.push_str(&format!("; {reasons}"));
    }
    why
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl KeyHolder for TokenKey {
    fn signs_by(&self, scheme: Scheme) -> bool {
        match Kind::of(scheme) {
            Some(Kind::Pkcs1(_)) => self.can(Ability::RsaPkcs1),
            Some(Kind::Pss(_)) => self.can(Ability::RsaPss) || self.can(Ability::RsaRaw),
            Some(Kind::Ecdsa(_)) => self.can(Ability::Ecdsa),
            Some(Kind::Ed25519) => self.can(Ability::Eddsa),
            None => false,
        }
    }

    fn sign(&self, key: KeyKind, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, String> {
        let kind = Kind::of(scheme).ok_or_else(|| format!("adit does not sign by {scheme}"))?;
        let (operation, data) = self.task(kind, key, message)?;
        let wanted = || self.current.wants_it();
        let act = |pin| self.cards.sign(&self.identity, (operation, data.as_slice()), pin, &wanted);
        match self.holders.with_token(&self.identity.label, &*self.current, act)? {
            Outcome::Signed(signature) if matches!(kind, Kind::Ecdsa(_)) => ecdsa_from_pair(&signature)
                .ok_or_else(|| "the token's signature has not the form of ECDSA".to_owned()),
            Outcome::Signed(signature) => Ok(signature),
            _ => Err("the process for smart cards answers something else".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pkcs11::Unreadable;

    fn identity(name: &str) -> Identity {
        Identity::parse(name).expect("a good name")
    }

    fn unreadable(token: Option<&str>, why: &str) -> Unreadable {
        Unreadable { token: token.map(identity), why: why.to_owned() }
    }

    #[test]
    fn a_token_that_cannot_be_read_hides_no_other_and_is_named() {
        let wanted = identity("pkcs11:token=mine;id=%01");
        let other = Found {
            identity: identity("pkcs11:token=other;id=%01"),
            certificate: vec![1],
            signs_by: Vec::new(),
        };
        let mut listing = Listing {
            certificates: vec![other],
            unreadable: vec![unreadable(Some("pkcs11:token=a;id=%01"), "a: reset")],
        };
        assert!(!is_token_there(&wanted, &listing), "it can still be put in");
        let why = absent(&listing);
        assert!(why.contains("///other/01") && why.ends_with("; a: reset"), "{why}");
        listing.unreadable.push(unreadable(Some("pkcs11:token=mine;id=%01"), "mine: reset"));
        assert!(is_token_there(&wanted, &listing));
        assert!(absent(&listing).ends_with("; a: reset; mine: reset"));
        let listing =
            Listing { certificates: Vec::new(), unreadable: vec![unreadable(None, "m.so: no daemon")] };
        assert!(is_token_there(&wanted, &listing));
        assert_eq!(absent(&listing), "no token with a certificate is there; m.so: no daemon");
        assert_eq!(absent(&Listing::default()), "no token with a certificate is there");
    }
}
