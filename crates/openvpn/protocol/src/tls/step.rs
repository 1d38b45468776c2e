//! A step of a TLS handshake that is made outside of the machine, as our private key signs there.
//!
//! rustls asks for a signature in the middle of working through a record, by a call that returns it
//! ([`rustls::sign::Signer`]), and keeps no state from which it could go on after a refusal. A signature that a person must
//! allow, or that another program makes, takes long, and the machine must not wait. So the whole connection goes out with
//! the records, the adapter runs it on a thread that may wait, and the machine takes it back when it is done.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rustls::Connection;
use zeroize::Zeroizing;

use super::certificate_fault::{CertificateFault, take_refused};
use super::{collect_output, receive_record};

/// A step of a TLS handshake, to be [run](Self::run) where it may wait for a signature. Copies are the same step.
#[derive(Clone)]
pub struct TlsStep(Arc<Shared>);

struct Shared {
    /// The machine still waits for it.
    wanted: AtomicBool,
    work: Mutex<Option<StepWork>>,
}

/// The connection, the records that it has to work through, and the result.
pub(super) struct StepWork {
    connection: Box<Connection>,
    records: Vec<Vec<u8>>,
    done: Option<Outcome>,
}

/// The result of a connection's records.
struct Outcome {
    outgoing: Vec<u8>,
    messages: Vec<Zeroizing<Vec<u8>>>,
    result: Result<(), rustls::Error>,
    refused: Option<Box<CertificateFault>>,
}

/// A step that has run.
pub(super) struct DoneStep {
    pub(super) connection: Box<Connection>,
    /// Ciphertext for the peer.
    pub(super) outgoing: Vec<u8>,
    /// The plaintext of each record that had some.
    pub(super) messages: Vec<Zeroizing<Vec<u8>>>,
    pub(super) outcome: Result<(), rustls::Error>,
    pub(super) refused: Option<Box<CertificateFault>>,
}

impl StepWork {
    pub(super) fn new(connection: Box<Connection>, records: Vec<Vec<u8>>) -> Self {
        StepWork { connection, records, done: None }
    }

    fn run(&mut self) {
        if self.done.is_some() {
            return;
        }
        let mut outcome =
            Outcome { outgoing: Vec::new(), messages: Vec::new(), result: Ok(()), refused: None };
        for record in std::mem::take(&mut self.records) {
            let received = receive_record(&mut self.connection, &record);
            collect_output(&mut self.connection, &mut outcome.outgoing);
            match received {
                Ok(message) => outcome.messages.extend(message),
                Err(error) => {
                    outcome.result = Err(error);
                    outcome.refused = take_refused().map(Box::new);
                    break;
                }
            }
        }
        self.done = Some(outcome);
    }
}

impl TlsStep {
    pub(super) fn new(work: StepWork) -> Self {
        TlsStep(Arc::new(Shared { wanted: AtomicBool::new(true), work: Mutex::new(Some(work)) }))
    }

    /// Makes the step; waits as long as our key's holder does ([`adit_pki::signature::KeyHolder::sign`]). Then the
    /// adapter reports it to the machine by [`crate::request::Reply::TlsStepDone`]. Further calls do nothing.
    pub fn run(&self) {
        let mut work = self.0.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = work.as_mut() {
            work.run();
        }
    }

    /// Whether the machine still waits for it. When it does not, a signature that is asked for can be given up.
    pub fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed)
    }
}

impl PartialEq for TlsStep {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsStep {}

impl fmt::Debug for TlsStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStep").field("is_wanted", &self.is_wanted()).finish_non_exhaustive()
    }
}

/// The machine's copy of a step. When it is dropped, the step is not wanted any more.
pub(super) struct AwaitedStep(TlsStep);

impl AwaitedStep {
    pub(super) fn new(step: TlsStep) -> Self {
        AwaitedStep(step)
    }

    /// Whether it is that step.
    pub(super) fn is(&self, step: &TlsStep) -> bool {
        self.0 == *step
    }

    /// The result of the step; `None` if it has not run, or is running.
    pub(super) fn take(&self) -> Option<DoneStep> {
        let shared = &self.0.0;
        let mut work = match shared.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let StepWork { connection, done, .. } = work.take_if(|work| work.done.is_some())?;
        let Outcome { outgoing, messages, result, refused } = done?;
        Some(DoneStep { connection, outgoing, messages, outcome: result, refused })
    }
}

impl Drop for AwaitedStep {
    fn drop(&mut self) {
        self.0.0.wanted.store(false, Ordering::Relaxed);
    }
}
