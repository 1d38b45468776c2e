//! The queue on this machine's threads. `tests/mailbox_model.rs` has every order of their steps.

use crate::mailbox::{MailReceiver, mailbox};

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
fn what_is_for_later_waits_for_something_urgent_or_to_be_asked_for() {
    let (sender, receiver) = mailbox().unwrap();
    sender.post_for_later(1);
    sender.wake_for_mail();
    assert!(!is_awake(&receiver));
    sender.post(2);
    sender.wake_for_mail();
    assert!(is_awake(&receiver));
    receiver.acknowledge();
    assert_eq!((receiver.take(), receiver.take()), (Some(1), Some(2)), "in order");
    sender.wake_for_any();
    assert!(!is_awake(&receiver), "nothing waits");
    sender.post_for_later(3);
    sender.wake_for_any();
    assert!(is_awake(&receiver));
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
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut ready, Some(&timeout)).unwrap(), 1, "asleep after {taken}");
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
