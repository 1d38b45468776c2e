//! The driver's mailbox under loom: every order in which its threads can take their steps, with a bound on preemptions.
//! No mail is lost, none stays in a queue whose taker sleeps, and a taker that sleeps was not woken for nothing it missed.
//!
//! The file under test is compiled once more, with loom's types in the place of those of `src/sync.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "the model does not use all of the mailbox")]

#[path = "../src/mailbox.rs"]
mod mailbox;

/// loom's counterparts to `src/sync.rs`.
mod sync {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, mpsc};
    use loom::sync::{Condvar, Mutex};

    /// An eventfd: set or not.
    #[derive(Debug)]
    pub(crate) struct WakeDescriptor {
        readable: Mutex<bool>,
        changed: Condvar,
    }

    impl WakeDescriptor {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(WakeDescriptor { readable: Mutex::new(false), changed: Condvar::new() })
        }

        pub(crate) fn set(&self) {
            *self.readable.lock().unwrap() = true;
            self.changed.notify_all();
        }

        pub(crate) fn clear(&self) {
            *self.readable.lock().unwrap() = false;
        }

        /// Sleeps until it is set, as poll(2) does. loom fails the model if no thread can set it any more.
        pub(crate) fn poll(&self) {
            let mut readable = self.readable.lock().unwrap();
            while !*readable {
                readable = self.changed.wait(readable).unwrap();
            }
        }
    }

    impl AsFd for WakeDescriptor {
        fn as_fd(&self) -> BorrowedFd<'_> {
            panic!("the model has no descriptors")
        }
    }
}

use loom::thread;
use mailbox::{MailReceiver, mailbox};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// As the driver's threads do: sleep, acknowledge, take all; until `total` mails have come.
fn take(receiver: &MailReceiver<u32>, total: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    while taken.len() < total {
        receiver.descriptor().poll();
        receiver.acknowledge();
        taken.extend(std::iter::from_fn(|| receiver.take()));
    }
    taken
}

#[test]
fn two_givers_wake_the_taker_for_all_their_mail() {
    model(|| {
        let (sender, receiver) = mailbox().unwrap();
        let other = sender.clone();
        let one = thread::spawn(move || {
            sender.post(1);
            sender.wake_for_mail();
        });
        let two = thread::spawn(move || {
            other.post(2);
            other.wake();
        });
        let mut taken = take(&receiver, 2);
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
        assert_eq!(receiver.waiting(), 0);
        one.join().unwrap();
        two.join().unwrap();
    });
}

#[test]
fn what_is_for_later_comes_with_what_another_giver_posts() {
    model(|| {
        let (sender, receiver) = mailbox().unwrap();
        let other = sender.clone();
        let one = thread::spawn(move || {
            sender.post_for_later(1);
            sender.post(2);
            sender.wake_for_mail();
        });
        let two = thread::spawn(move || {
            other.post(3);
            other.wake_for_mail();
        });
        let mut taken = take(&receiver, 3);
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
        one.join().unwrap();
        two.join().unwrap();
    });
}

#[test]
fn a_taker_that_just_acknowledged_is_woken_again() {
    model(|| {
        let (sender, receiver) = mailbox().unwrap();
        let giver = thread::spawn(move || {
            for mail in 1..=3 {
                sender.post(mail);
                sender.wake_for_mail();
            }
        });
        assert_eq!(take(&receiver, 3), [1, 2, 3]);
        giver.join().unwrap();
    });
}

#[test]
fn what_is_left_for_later_keeps_the_taker_awake() {
    model(|| {
        let (sender, receiver) = mailbox().unwrap();
        let giver = thread::spawn(move || {
            for mail in 1..=2 {
                sender.post(mail);
                sender.wake();
            }
        });
        // One mail a turn, as a thread does that has other work as well.
        for mail in 1..=2 {
            loop {
                receiver.descriptor().poll();
                receiver.acknowledge();
                let taken = receiver.take();
                if receiver.waiting() > 0 {
                    receiver.stay_awake();
                }
                if taken.is_some() {
                    assert_eq!(taken, Some(mail));
                    break;
                }
            }
        }
        giver.join().unwrap();
    });
}

#[test]
fn what_is_offered_is_in_or_refused() {
    model(|| {
        let (sender, receiver) = mailbox().unwrap();
        let other = sender.clone();
        let one = thread::spawn(move || sender.offer(1, 1));
        let two = other.offer(2, 1);
        let one = one.join().unwrap();
        assert!(one || two);
        assert_eq!(std::iter::from_fn(|| receiver.take()).count(), usize::from(one) + usize::from(two));
        assert_eq!(receiver.waiting(), 0);
    });
}
