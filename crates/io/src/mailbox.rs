//! Queues between the driver's threads, with a descriptor that wakes the taker.
//!
//! `tests/mailbox_model.rs` compiles this file with loom's types in place of those in `sync`, and tries every order of the
//! threads' steps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, WakeDescriptor, mpsc};

#[derive(Debug)]
struct Shared {
    wake: WakeDescriptor,
    /// The taker was woken and has not acknowledged it: waking it once more would change nothing.
    woken: AtomicBool,
    waiting: AtomicUsize,
    /// Something was posted that the taker is to be woken for.
    is_urgent: AtomicBool,
}

impl Shared {
    fn wake(&self) {
        // Whatever was posted before this is seen by a taker that acknowledges after it.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.wake.set();
        }
    }
}

/// The giving end. Posting does not wake: call [`Mailbox::wake`] after a batch.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    sender: mpsc::Sender<T>,
    shared: Arc<Shared>,
}

/// The taking end.
#[derive(Debug)]
pub(crate) struct MailReceiver<T> {
    receiver: mpsc::Receiver<T>,
    shared: Arc<Shared>,
}

/// A new queue.
pub(crate) fn mailbox<T>() -> io::Result<(Mailbox<T>, MailReceiver<T>)> {
    let wake = WakeDescriptor::new()?;
    let shared = Arc::new(Shared {
        wake,
        woken: AtomicBool::new(false),
        waiting: AtomicUsize::new(0),
        is_urgent: AtomicBool::new(false),
    });
    let (sender, receiver) = mpsc::channel();
    Ok((Mailbox { sender, shared: Arc::clone(&shared) }, MailReceiver { receiver, shared }))
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox { sender: self.sender.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<T> Mailbox<T> {
    /// Puts in mail that must not be lost. Its number is bounded by its givers. True unless the taker is
    /// gone.
    pub(crate) fn post(&self, mail: T) -> bool {
        let is_sent = self.post_for_later(mail);
        // After the mail: a taker that another giver wakes for this one then finds it. A plain store would end the release
        // sequence of the other giver's.
        self.shared.is_urgent.swap(true, Ordering::Release);
        is_sent
    }

    /// Puts in mail for which the taker need not be woken: it takes all mail before it does anything that the mail
    /// could change. [`Mailbox::wake_for_any`] must follow at some time.
    pub(crate) fn post_for_later(&self, mail: T) -> bool {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender.send(mail).is_ok()
    }

    /// Puts in mail of which the network can make any number: refused when `limit` mails wait.
    pub(crate) fn offer(&self, mail: T, limit: usize) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) < limit && self.post(mail)
    }

    /// Wakes the taker.
    pub(crate) fn wake(&self) {
        self.shared.wake();
    }

    /// Wakes the taker if anything was posted since it was last woken so, other than for later.
    pub(crate) fn wake_for_mail(&self) {
        if self.shared.is_urgent.load(Ordering::Relaxed)
            && self.shared.is_urgent.swap(false, Ordering::AcqRel)
        {
            self.wake();
        }
    }

    /// Wakes the taker if any mail waits for it.
    pub(crate) fn wake_for_any(&self) {
        if self.shared.waiting.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }
}

impl<T> MailReceiver<T> {
    /// The next mail, without waiting.
    pub(crate) fn take(&self) -> Option<T> {
        let mail = self.receiver.try_recv().ok()?;
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(mail)
    }

    /// How many mails wait, about.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Keeps the descriptor awake for mails that were left for later.
    pub(crate) fn stay_awake(&self) {
        self.shared.wake();
    }

    /// The descriptor that [`Mailbox::wake`] sets.
    pub(crate) fn descriptor(&self) -> &WakeDescriptor {
        &self.shared.wake
    }

    /// Lets the descriptor sleep again. To be called before the mails are taken.
    pub(crate) fn acknowledge(&self) {
        self.shared.wake.clear();
        self.shared.woken.swap(false, Ordering::AcqRel);
    }
}

impl<T> AsFd for MailReceiver<T> {
    /// Readable after [`Mailbox::wake`] until [`MailReceiver::acknowledge`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}
