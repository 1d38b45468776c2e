//! Queues between the driver's threads, with a descriptor that wakes the taker.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
struct Shared {
    wake: OwnedFd,
    /// The taker was woken and has not acknowledged it: waking it once more would change nothing.
    woken: AtomicBool,
    waiting: AtomicUsize,
}

impl Shared {
    fn wake(&self) {
        // Whatever was posted before this is seen by a taker that acknowledges after it.
        if !self.woken.swap(true, Ordering::AcqRel) {
            // It fails only when the counter is full, and then the taker is awake.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
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
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let shared = Arc::new(Shared { wake, woken: AtomicBool::new(false), waiting: AtomicUsize::new(0) });
    let (sender, receiver) = mpsc::channel();
    Ok((Mailbox { sender, shared: Arc::clone(&shared) }, MailReceiver { receiver, shared }))
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox { sender: self.sender.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<T> Mailbox<T> {
    /// Puts in what must not be lost. Its number is bounded by who makes it. True unless the taker is gone.
    pub(crate) fn post(&self, mail: T) -> bool {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender.send(mail).is_ok()
    }

    /// Puts in what the network can make any number of: refused when `limit` mails wait.
    pub(crate) fn offer(&self, mail: T, limit: usize) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) < limit && self.post(mail)
    }

    /// Wakes the taker.
    pub(crate) fn wake(&self) {
        self.shared.wake();
    }

    /// Wakes the taker if any mail waits for it.
    pub(crate) fn wake_for_mail(&self) {
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

    /// Lets the descriptor sleep again. To be called before the mails are taken.
    pub(crate) fn acknowledge(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        self.shared.woken.swap(false, Ordering::AcqRel);
    }
}

impl<T> AsFd for MailReceiver<T> {
    /// Readable after [`Mailbox::wake`] until [`MailReceiver::acknowledge`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_awake(receiver: &MailReceiver<i32>) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut ready = [PollFd::new(receiver, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn every_mail_after_an_acknowledgement_wakes_again() {
        let (sender, receiver) = mailbox().unwrap();
        sender.wake_for_mail();
        assert!(!is_awake(&receiver));
        for mail in 0..3 {
            sender.post(mail);
            sender.wake_for_mail();
            sender.wake();
            assert!(is_awake(&receiver));
            receiver.acknowledge();
            assert!(!is_awake(&receiver));
            assert_eq!(receiver.take(), Some(mail));
            sender.wake_for_mail();
            assert!(!is_awake(&receiver), "nothing waits");
        }
        sender.wake();
        assert!(is_awake(&receiver), "asked for in so many words");
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        let (sender, receiver) = mailbox().unwrap();
        let total = 20_000;
        let giver = std::thread::spawn(move || {
            for mail in 0..total {
                sender.post(mail);
                sender.wake_for_mail();
            }
            sender
        });
        let mut taken = 0;
        while taken < total {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut ready = [PollFd::new(&receiver, PollFlags::IN)];
            let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
            assert_eq!(poll(&mut ready, Some(&patience)).unwrap(), 1, "asleep after {taken}");
            receiver.acknowledge();
            while receiver.take().is_some() {
                taken += 1;
            }
        }
        drop(giver.join().unwrap());
    }

    #[test]
    fn offers_are_bounded_and_posts_are_not() {
        let (sender, receiver) = mailbox().unwrap();
        assert!(sender.offer(1, 2) && sender.offer(2, 2));
        assert!(!sender.offer(3, 2));
        assert!(sender.post(4));
        let taken: Vec<i32> = std::iter::from_fn(|| receiver.take()).collect();
        assert_eq!(taken, [1, 2, 4]);
        assert!(sender.offer(5, 2));
        drop(receiver);
        assert!(!sender.post(6));
    }
}
