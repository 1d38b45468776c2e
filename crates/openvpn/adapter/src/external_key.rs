//! Our private key, where another program holds it: which program signs, and the thread that waits for the signature.
//!
//! The machine asks for steps of its TLS handshakes ([`Request::TlsStep`](adit_openvpn::request::Request::TlsStep)). One thread
//! makes them, one after the other; a signature that is not wanted any more is given up, so that the next step has its turn.

mod encoding;
mod management;
mod pkcs11;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use adit_core::Protocol;
use adit_io::Handle;
use adit_openvpn::credentials::Credentials;
use adit_openvpn::request::{Reply, TlsStep};
use adit_openvpn_config::{
    Config, ExternalIdentity, ManagementCertificate, ManagementIdentity, Pkcs11Identity,
};
use adit_pki::pem;
use adit_pki::signature::KeyHolder;

use self::management::ManagementKey;
pub(crate) use self::pkcs11::ask_at_terminal;
use self::pkcs11::{PinPrompt, TokenKey};
use super::management::{Management, PendingQueries};
use crate::fault::Fault;
use adit_host::terminal::Waiting;

/// A key that is held elsewhere.
#[derive(Clone)]
pub(crate) struct ExternalKey {
    /// Signs with it.
    pub(crate) holder: Arc<dyn KeyHolder>,
    current: Arc<CurrentStep>,
}

/// The step that is being made, which tells the holder whether its signature is still wanted.
#[derive(Default)]
struct CurrentStep {
    step: Mutex<Option<TlsStep>>,
    ended: AtomicBool,
}

impl CurrentStep {
    fn step(&self) -> MutexGuard<'_, Option<TlsStep>> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting for CurrentStep {
    fn wants_it(&self) -> bool {
        !self.ended.load(Ordering::SeqCst) && self.step().as_ref().is_some_and(TlsStep::is_wanted)
    }
}

/// Finds out who holds our key, if the configuration says that it is held elsewhere, and puts its certificate into
/// `credentials`, for which the holder may have to be asked.
///
/// # Errors
/// The directive at fault, and why.
pub(crate) fn find(
    config: &Config,
    credentials: &mut Credentials,
    management: Option<&Management>,
    waiting: &dyn Waiting,
) -> Result<Option<ExternalKey>, Fault> {
    let current = Arc::new(CurrentStep::default());
    let (holder, certificate) = match &config.tls.external {
        None => return Ok(None),
        Some(ExternalIdentity::Management(identity)) => {
            at_management(identity, management, Arc::clone(&current), waiting)?
        }
        Some(ExternalIdentity::Pkcs11(identity)) => {
            let holders = PinPrompt(management.and_then(Management::questions));
            let chooser = management.map(Management::front_end);
            on_a_token(identity, (holders, chooser.as_deref(), Arc::clone(&current)), waiting)?
        }
    };
    credentials.certificate = certificate;
    Ok(Some(ExternalKey { holder, current }))
}

/// The holder that signs, and the certificate in PEM.
type Holder = (Arc<dyn KeyHolder>, Vec<u8>);

/// Judges what the configuration says of a key that is held elsewhere, as far as no one has to be asked.
///
/// # Errors
/// The directive at fault, and why.
pub(crate) fn judge(config: &Config) -> Result<(), Fault> {
    let Some(ExternalIdentity::Pkcs11(identity)) = &config.tls.external else { return Ok(()) };
    for provider in &identity.providers {
        let path = &provider.path;
        // A name without a slash is looked for where the system has its libraries.
        if path.components().count() > 1
            && let Err(error) = std::fs::metadata(path)
        {
            return Err(("pkcs11-providers", format!("pkcs11-providers: {}: {error}", path.display())));
        }
    }
    pkcs11::named(identity).map(drop)
}

/// The key at the management socket, if the configuration has its certificate, which is put into `credentials`. It signs nothing.
pub(crate) fn without_asking(config: &Config, credentials: &mut Credentials) -> Option<ExternalKey> {
    let Some(ExternalIdentity::Management(identity)) = &config.tls.external else { return None };
    let ManagementCertificate::Given(certificate) = &identity.certificate else { return None };
    credentials.certificate = certificate.text().as_bytes().to_vec();
    let current = Arc::new(CurrentStep::default());
    let holder = Arc::new(ManagementKey::new(None, identity.forms, Arc::clone(&current)));
    Some(ExternalKey { holder, current })
}

fn at_management(
    identity: &ManagementIdentity,
    management: Option<&Management>,
    current: Arc<CurrentStep>,
    waiting: &dyn Waiting,
) -> Result<Holder, Fault> {
    let Some(management) = management else {
        return Err(("management-external-key", "there is no management socket to ask at".to_owned()));
    };
    let questions = management.front_end();
    let certificate = match &identity.certificate {
        ManagementCertificate::Given(certificate) => certificate.text().as_bytes().to_vec(),
        ManagementCertificate::Asked { hint, extra } => {
            let asked = questions.ask_for_certificate(hint, waiting);
            let mut certificate = asked.map_err(|why| ("management-external-cert", why))?;
            certificate.push('\n');
            certificate.push_str(extra.as_ref().map_or("", |extra| extra.text()));
            certificate.into_bytes()
        }
    };
    let holder: Arc<dyn KeyHolder> = Arc::new(ManagementKey::new(Some(questions), identity.forms, current));
    Ok((holder, certificate))
}

fn on_a_token(
    identity: &Pkcs11Identity,
    with: (PinPrompt, Option<&PendingQueries>, Arc<CurrentStep>),
    waiting: &dyn Waiting,
) -> Result<Holder, Fault> {
    let (key, certificate) = TokenKey::find(identity, with, waiting)?;
    let mut pem = pem::certificate(&certificate);
    pem.extend_from_slice(identity.extra.as_ref().map_or("", |extra| extra.text()).as_bytes());
    let holder: Arc<dyn KeyHolder> = Arc::new(key);
    Ok((holder, pem))
}

/// The thread that makes the steps.
pub(crate) struct Signing {
    steps: Option<mpsc::Sender<TlsStep>>,
    current: Arc<CurrentStep>,
    thread: Option<JoinHandle<()>>,
}

impl Signing {
    /// Starts it. It gives the protocol each step back when that is made.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn start<P>(key: &ExternalKey, handle: Handle<P>) -> io::Result<Self>
    where
        P: Protocol<Reply = Reply> + 'static,
    {
        let (sender, receiver) = mpsc::channel::<TlsStep>();
        let current = Arc::clone(&key.current);
        let work = move || {
            for step in receiver {
                *current.step() = Some(step.clone());
                if step.is_wanted() {
                    step.run();
                }
                *current.step() = None;
                handle.reply(Reply::TlsStepDone(step));
            }
        };
        let thread = thread::Builder::new().name("adit-sign".to_owned()).spawn(work)?;
        Ok(Signing { steps: Some(sender), current: Arc::clone(&key.current), thread: Some(thread) })
    }

    /// Makes a step, once those before it are made. The calling thread does not wait.
    pub(crate) fn make(&self, step: TlsStep) {
        if let Some(steps) = &self.steps {
            // The thread is there until this is dropped.
            let _ = steps.send(step);
        }
    }
}

impl Drop for Signing {
    fn drop(&mut self) {
        self.current.ended.store(true, Ordering::SeqCst);
        self.steps = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
