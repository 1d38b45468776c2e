use super::*;
use proptest::prelude::*;

const START: Instant = Instant::from_nanos(5_000_000_000);

fn at(seconds: u64) -> Instant {
    START + Duration::from_secs(seconds)
}

fn sent(window: &mut SendWindow, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| window.poll(now).map(|packet| packet.id)).collect()
}

fn filled(count: u32) -> SendWindow {
    let mut window = SendWindow::new();
    for id in 0..count {
        assert_eq!(window.push(START, Opcode::Control, vec![id as u8]), id);
    }
    window
}

#[test]
fn six_in_flight_and_the_rest_wait() {
    let mut window = filled(5);
    assert!(window.has_room());
    window.push(START, Opcode::Control, vec![5]);
    assert!(!window.has_room());
    window.push(START, Opcode::Control, vec![6]);
    assert_eq!(sent(&mut window, START), [0, 1, 2, 3, 4, 5]);
    window.acknowledge(at(1), &[1, 2]);
    assert_eq!(sent(&mut window, at(1)), []);
    window.acknowledge(at(1), &[0]);
    assert_eq!(window.poll_timeout(), Some(START));
    assert_eq!(sent(&mut window, at(1)), [6]);
}

#[test]
fn retransmits_after_2_4_8_8_seconds() {
    let mut window = filled(1);
    let mut times = Vec::new();
    while times.len() < 6 {
        let now = window.poll_timeout().unwrap();
        assert_eq!(sent(&mut window, now), [0]);
        times.push((now - START).as_secs());
    }
    assert_eq!(times, [0, 2, 6, 14, 22, 30]);
    window.acknowledge(at(31), &[0]);
    assert!(window.is_empty());
    assert_eq!(window.poll_timeout(), None);
}

#[test]
fn three_later_acks_retransmit_early_and_once() {
    let mut window = filled(6);
    sent(&mut window, START);
    window.acknowledge(at(1), &[1, 2]);
    window.acknowledge(at(1), &[1, 2, 1, 2]);
    assert_eq!(sent(&mut window, at(1)), []);
    window.acknowledge(at(1), &[3]);
    assert_eq!(window.poll_timeout(), Some(at(1)));
    assert_eq!(sent(&mut window, at(1)), [0]);
    window.acknowledge(at(1), &[4]);
    assert_eq!(sent(&mut window, at(1)), []);
}

#[test]
fn ids_not_in_flight_are_no_news() {
    let mut window = filled(7);
    window.acknowledge(START, &[0, 3]);
    assert_eq!(sent(&mut window, START), [0, 1, 2, 3, 4, 5]);
    window.acknowledge(at(1), &[6, 7, 1000, u32::MAX]);
    assert_eq!(sent(&mut window, at(1)), []);
    assert_eq!(sent(&mut window, at(2)), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn clear_keeps_the_next_id() {
    let mut window = filled(3);
    window.clear();
    assert!(window.is_empty());
    assert_eq!(window.push(START, Opcode::Control, Vec::new()), 3);
}

#[test]
fn receives_in_order_once() {
    let mut window = ReceiveWindow::new(1);
    let mut accept = |id| window.accept(id, Opcode::Control, vec![id as u8]);
    assert_eq!(accept(0), Accept::OutOfWindow);
    assert_eq!(accept(2), Accept::New);
    assert_eq!(accept(2), Accept::Duplicate);
    assert_eq!(accept(13), Accept::OutOfWindow);
    assert_eq!(accept(12), Accept::New);
    assert_eq!(window.pop(), None);
    assert_eq!(window.accept(1, Opcode::Control, vec![1]), Accept::New);
    assert_eq!(window.pop().map(|packet| packet.id), Some(1));
    assert_eq!(window.pop(), Some(Received { id: 2, opcode: Opcode::Control, payload: vec![2] }));
    assert_eq!(window.pop(), None);
    assert_eq!(window.accept(1, Opcode::Control, vec![]), Accept::Duplicate);
    assert_eq!(window.accept(14, Opcode::Control, vec![]), Accept::New);
    assert_eq!(window.accept(15, Opcode::Control, vec![]), Accept::OutOfWindow);
}

#[test]
fn acks_new_first_then_the_latest() {
    let mut acks = AckQueue::new();
    assert!(acks.take(8).is_empty());
    for id in [0, 1, 1, 2] {
        acks.push(id);
    }
    assert!(acks.pending());
    assert_eq!(acks.take(2), [0, 1]);
    assert!(acks.pending());
    assert_eq!(acks.take(4), [2, 0, 1]);
    assert!(!acks.pending());
    assert_eq!(acks.take(4), [2, 0, 1]);
    acks.push(1);
    acks.push(3);
    assert_eq!(acks.take(3), [1, 3, 2]);
    for id in 10..30 {
        acks.push(id);
    }
    assert_eq!(acks.take(100), (10..18).collect::<Vec<_>>());
}

/// One direction's packets or acks on their way, with the time they arrive.
#[derive(Default)]
struct LossyPath<T>(Vec<(Instant, T)>);

impl<T: Clone> LossyPath<T> {
    /// `fate` 0 and 1 lose it, 2 duplicates it; the rest is the delay.
    fn send(&mut self, now: Instant, fate: u8, item: T) {
        let arrival = now + Duration::from_millis(u64::from(fate) * 20);
        match fate {
            0 | 1 => {}
            2 => self.0.extend([(arrival, item.clone()), (arrival + Duration::from_secs(9), item)]),
            _ => self.0.push((arrival, item)),
        }
    }

    fn receive(&mut self, now: Instant) -> Vec<T> {
        let (here, later) = std::mem::take(&mut self.0).into_iter().partition(|(time, _)| *time <= now);
        self.0 = later;
        let mut here: Vec<_> = here;
        here.sort_by_key(|(time, _)| *time);
        here.into_iter().map(|(_, item)| item).collect()
    }
}

proptest! {
    /// Loss (a fifth), duplication and reordering both ways: all arrives, in order, once.
    #[test]
    fn all_arrives_in_order(
        fates in prop::collection::vec(0u8..10, 200),
        count in 1u32..60,
        max_acks in 1usize..=8,
    ) {
        let mut fates = fates.into_iter().cycle();
        let mut fate = move || fates.next().unwrap();
        let (mut sender, mut receiver) = (SendWindow::new(), ReceiveWindow::new(0));
        let mut acks = AckQueue::new();
        let (mut forth, mut back) = (LossyPath::default(), LossyPath::default());
        let mut arrived = Vec::new();
        let mut pushed = 0;
        let mut now = START;
        while !(sender.is_empty() && pushed == count) {
            prop_assert!(now < at(4000), "stuck at {:?}", arrived.len());
            while pushed < count && sender.has_room() {
                sender.push(now, Opcode::Control, pushed.to_be_bytes().to_vec());
                pushed += 1;
            }
            while let Some(packet) = sender.poll(now) {
                forth.send(now, fate(), (packet.id, packet.payload.to_vec()));
            }
            for (id, payload) in forth.receive(now) {
                if receiver.accept(id, Opcode::Control, payload) != Accept::OutOfWindow {
                    acks.push(id);
                }
            }
            arrived.extend(std::iter::from_fn(|| receiver.pop()).map(|packet| packet.payload));
            while acks.pending() {
                back.send(now, fate(), acks.take(max_acks));
            }
            for ids in back.receive(now) {
                sender.acknowledge(now, &ids);
            }
            now += Duration::from_millis(20);
        }
        let expected: Vec<_> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
        prop_assert_eq!(arrived, expected);
    }

    #[test]
    fn forged_acks_and_ids_keep_the_windows_bounded(
        steps in prop::collection::vec((any::<u32>(), 0u32..20, any::<bool>()), 0..200),
    ) {
        let (mut sender, mut receiver) = (SendWindow::new(), ReceiveWindow::new(0));
        for (wild, near, use_wild) in steps {
            let id = if use_wild { wild } else { near };
            if sender.has_room() {
                sender.push(START, Opcode::Control, Vec::new());
            }
            sender.acknowledge(START, &[id]);
            sender.poll(START);
            prop_assert!(sender.entries.len() <= SEND_WINDOW as usize);
            receiver.accept(id, Opcode::Control, Vec::new());
            prop_assert!(receiver.slots.len() <= RECEIVE_WINDOW as usize);
        }
    }
}
