//! One module, in the process that has loaded it.

use std::time::{Duration, Instant};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, CertificateType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::{AuthPin, Ulong};

use super::{Ability, Found, Hash, Identity, Listing, Operation, Pin, Provider, Unreadable};

/// Why something is not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The token is not there.
    Absent,
    /// The PIN of the token with that label is needed.
    PinNeeded(String),
    /// The PIN of the token with that label was wrong.
    PinWrong(String),
    /// The module said so.
    Failed(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error.to_string())
    }
}

/// A module that is loaded and initialized.
pub(super) struct Module {
    provider: Provider,
    pkcs11: Pkcs11,
    /// The tokens that were used. The user stays logged in at one as long as its session is open.
    open: Vec<OpenToken>,
}

struct OpenToken {
    slot: Slot,
    serial: String,
    session: Session,
    logged_in: Option<Instant>,
}

impl Module {
    /// Loads a module: its code runs from here on.
    ///
    /// # Errors
    /// Why it cannot be used, with its path.
    pub(super) fn load(provider: &Provider) -> Result<Self, String> {
        let named = |error: Error| format!("{}: {error}", provider.path.display());
        let pkcs11 = Pkcs11::new(&provider.path).map_err(named)?;
        pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).map_err(named)?;
        Ok(Module { provider: provider.clone(), pkcs11, open: Vec::new() })
    }

    /// Adds the certificates on its tokens to the listing. A token that cannot be read hides no other.
    ///
    /// The first token that needs a PIN takes it: this token asked for it, and the PIN of one token must not count as a wrong one
    /// at another. Where `wanted` is given, no token but that of this identity needs a PIN: of the others, the certificates are
    /// listed that can be seen without one.
    ///
    /// # Errors
    /// [`Trouble::PinNeeded`] and [`Trouble::PinWrong`] alone.
    pub(super) fn find(
        &mut self,
        (wanted, pin): (Option<&Identity>, &mut Option<&Pin>),
        listing: &mut Listing,
    ) -> Result<(), Trouble> {
        let tokens = match self.tokens() {
            Ok(tokens) => tokens,
            Err(error) => {
                let why = format!("{}: {error}", self.provider.path.display());
                listing.unreadable.push(Unreadable { token: None, why });
                return Ok(());
            }
        };
        for (slot, token) in tokens {
            let is_wanted = wanted.is_none_or(|wanted| wanted.is_on_token_of(&name(&token)));
            let logs_in = is_wanted && self.provider.private_certificates;
            match self.certificates(slot, &token, logs_in.then_some(&mut *pin)) {
                Ok(found) => listing.certificates.extend(found),
                // It was taken out meanwhile.
                Err(Trouble::Absent) => {}
                Err(Trouble::Failed(why)) => {
                    // Another program may have reset it: the next request opens it again.
                    self.open.retain(|open| open.slot != slot);
                    let why = format!("the token {} cannot be read: {why}", token.label());
                    listing.unreadable.push(Unreadable { token: Some(name(&token)), why });
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// The certificates on one token. With `login`, which takes the PIN if it needs it, also those that are private.
    fn certificates(
        &mut self,
        slot: Slot,
        token: &TokenInfo,
        login: Option<&mut Option<&Pin>>,
    ) -> Result<Vec<Found>, Trouble> {
        let index = self.open_token(slot, token)?;
        if let Some(pin) = login {
            self.log_in(index, token, pin, None)?;
        }
        let signs_by = self.abilities(slot)?;
        let session = &self.open.get(index).ok_or(Trouble::Absent)?.session;
        let template =
            [Attribute::Class(ObjectClass::CERTIFICATE), Attribute::CertificateType(CertificateType::X_509)];
        let mut found = Vec::new();
        for object in session.find_objects(&template)? {
            let (mut id, mut certificate) = (Vec::new(), Vec::new());
            for attribute in session.get_attributes(object, &[AttributeType::Id, AttributeType::Value])? {
                match attribute {
                    Attribute::Id(value) => id = value,
                    Attribute::Value(value) => certificate = value,
                    _ => {}
                }
            }
            if !id.is_empty() && !certificate.is_empty() {
                let identity = Identity { id, ..name(token) };
                found.push(Found { identity, certificate, signs_by: signs_by.clone() });
            }
        }
        Ok(found)
    }

    /// Has a token sign. A PIN that was given before holds for `cache`, or as long as the token is there.
    pub(super) fn sign(
        &mut self,
        identity: &Identity,
        (operation, data): (Operation, &[u8]),
        pin: Option<&Pin>,
        cache: Option<Duration>,
    ) -> Result<Vec<u8>, Trouble> {
        let (slot, token) = self.slot_of(identity)?;
        let index = self.open_token(slot, &token)?;
        // A key that wants the PIN for each signature gets the same one, which was given for this signature.
        let mut for_login = pin;
        self.log_in(index, &token, &mut for_login, cache)?;
        let signed = self.sign_with((index, &token), identity, (operation, data), pin);
        if !matches!(signed, Ok(_) | Err(Trouble::PinNeeded(_))) {
            // The card may have been taken out meanwhile, or was reset by another program.
            self.open.retain(|open| open.slot != slot);
        }
        signed
    }

    fn sign_with(
        &self,
        (index, token): (usize, &TokenInfo),
        identity: &Identity,
        (operation, data): (Operation, &[u8]),
        mut pin: Option<&Pin>,
    ) -> Result<Vec<u8>, Trouble> {
        let session = &self.open.get(index).ok_or(Trouble::Absent)?.session;
        let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Id(identity.id.clone())];
        let key = session.find_objects(&template)?.into_iter().next();
        let key = key.ok_or_else(|| Trouble::Failed(format!("there is no private key for {identity}")))?;
        let mechanism = mechanism(operation);
        if !wants_pin_each_time(session, key) {
            return Ok(session.sign(&mechanism, key, data)?);
        }
        let pin = pin_for(&self.provider, token, &mut pin)?;
        session.sign_init(&mechanism, key)?;
        logged_in(session.login(UserType::ContextSpecific, pin.as_ref()), token)?;
        // `Session::sign` would begin the operation anew, which undoes the login.
        session.sign_update(data).map_err(|error| {
            Trouble::Failed(format!(
                "the key of {identity} wants the PIN for each signature, and its module takes the data of such a \
                 signature by C_Sign alone, which adit cannot call there: {error}"
            ))
        })?;
        Ok(session.sign_final()?)
    }

    /// The tokens that are there. One that cannot be read, such as a card that the module does not know, hides no other.
    fn tokens(&self) -> Result<Vec<(Slot, TokenInfo)>, Error> {
        let slots = self.pkcs11.get_slots_with_token()?;
        let token = |slot: Slot| {
            let token = self.pkcs11.get_token_info(slot).ok()?;
            token.token_initialized().then_some((slot, token))
        };
        Ok(slots.into_iter().filter_map(token).collect())
    }

    /// Where the token of that certificate is.
    fn slot_of(&self, identity: &Identity) -> Result<(Slot, TokenInfo), Trouble> {
        for (slot, token) in self.tokens()? {
            if identity.is_on_token_of(&name(&token)) {
                return Ok((slot, token));
            }
        }
        Err(Trouble::Absent)
    }

    /// Opens that token, if it is not open; gives its place among the open ones.
    fn open_token(&mut self, slot: Slot, token: &TokenInfo) -> Result<usize, Trouble> {
        let is_it = |open: &OpenToken| {
            open.slot == slot
                && open.serial == token.serial_number()
                && open.session.get_session_info().is_ok()
        };
        if let Some(index) = self.open.iter().position(is_it) {
            return Ok(index);
        }
        self.open.retain(|open| open.slot != slot);
        let session = self.pkcs11.open_ro_session(slot)?;
        let serial = token.serial_number().to_owned();
        self.open.push(OpenToken { slot, serial, session, logged_in: None });
        Ok(self.open.len() - 1)
    }

    /// Logs the user in at an open token, if that has to be. Takes the PIN if it is used.
    fn log_in(
        &mut self,
        index: usize,
        token: &TokenInfo,
        pin: &mut Option<&Pin>,
        cache: Option<Duration>,
    ) -> Result<(), Trouble> {
        let open = self.open.get_mut(index).ok_or(Trouble::Absent)?;
        if let (Some(since), Some(cache)) = (open.logged_in, cache)
            && since.elapsed() >= cache
        {
            // Its result changes nothing: it may have logged the user out already.
            let _ = open.session.logout();
            open.logged_in = None;
        }
        if open.logged_in.is_some() || !token.login_required() {
            return Ok(());
        }
        let pin = pin_for(&self.provider, token, pin)?;
        logged_in(open.session.login(UserType::User, pin.as_ref()), token)?;
        open.logged_in = Some(Instant::now());
        Ok(())
    }

    /// The abilities by which a token signs.
    fn abilities(&self, slot: Slot) -> Result<Vec<Ability>, Trouble> {
        let known = [
            (MechanismType::RSA_PKCS, Ability::RsaPkcs1),
            (MechanismType::RSA_PKCS_PSS, Ability::RsaPss),
            (MechanismType::RSA_X_509, Ability::RsaRaw),
            (MechanismType::ECDSA, Ability::Ecdsa),
            (MechanismType::EDDSA, Ability::Eddsa),
        ];
        let listed = self.pkcs11.get_mechanism_list(slot)?;
        let has =
            |(mechanism, ability): (MechanismType, Ability)| listed.contains(&mechanism).then_some(ability);
        Ok(known.into_iter().filter_map(has).collect())
    }
}

/// The name of a token, without a certificate.
fn name(token: &TokenInfo) -> Identity {
    Identity {
        manufacturer: token.manufacturer_id().to_owned(),
        model: token.model().to_owned(),
        serial: token.serial_number().to_owned(),
        label: token.label().to_owned(),
        id: Vec::new(),
    }
}

/// Whether the key wants the PIN for each signature (PKCS #11 v2.40, section 4.9: `CKA_ALWAYS_AUTHENTICATE`).
fn wants_pin_each_time(session: &Session, key: ObjectHandle) -> bool {
    let attributes = session.get_attributes(key, &[AttributeType::AlwaysAuthenticate]);
    attributes.is_ok_and(|attributes| attributes.contains(&Attribute::AlwaysAuthenticate(true)))
}

/// The PIN for a login, which is taken; `None` where the token asks for it itself.
fn pin_for(
    provider: &Provider,
    token: &TokenInfo,
    pin: &mut Option<&Pin>,
) -> Result<Option<AuthPin>, Trouble> {
    if provider.protected || token.protected_authentication_path() {
        return Ok(None);
    }
    match pin.take() {
        Some(pin) => Ok(Some(AuthPin::new(pin.text().into()))),
        None => Err(Trouble::PinNeeded(token.label().to_owned())),
    }
}

/// The result of a login.
fn logged_in(result: Result<(), Error>, token: &TokenInfo) -> Result<(), Trouble> {
    match result {
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
        Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange, _)) => {
            Err(Trouble::PinWrong(token.label().to_owned()))
        }
        Err(Error::Pkcs11(RvError::PinLocked, _)) => Err(Trouble::Failed(format!(
            "the PIN of the token {} is locked, as a wrong one was given too often",
            token.label()
        ))),
        Err(error) => Err(error.into()),
    }
}

fn mechanism(operation: Operation) -> Mechanism<'static> {
    match operation {
        Operation::RsaPkcs1 => Mechanism::RsaPkcs,
        Operation::RsaPss(hash) => {
            let (hash_alg, mgf, length) = match hash {
                Hash::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, 32),
                Hash::Sha384 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, 48),
                Hash::Sha512 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, 64),
            };
            Mechanism::RsaPkcsPss(PkcsPssParams { hash_alg, mgf, s_len: Ulong::new(length) })
        }
        Operation::RsaRaw => Mechanism::RsaX509,
        Operation::Ecdsa => Mechanism::Ecdsa,
        Operation::Eddsa => Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)),
    }
}
