//! Many seeds of ends over a bad network. Beside what the data planes assert at all times (no nonce twice, no key that
//! the other end lacks, no session beyond 180 s, no keys 540 s after the last handshake), packets pass again, in both
//! directions between all ends, soon after the network is good again.

use std::time::Duration;

use crate::support::world::{CLEAR, Weather, World};
use adit_wireguard::PostQuantum;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One stretch of bad times.
fn trouble(world: &mut World) {
    let count = world.ends.len() as u32;
    world.weather = Weather {
        loss: [0, 50, 300, 1000][world.below(4) as usize],
        doubled: [0, 100][world.below(2) as usize],
        delay: [20, 400, 7000][world.below(3) as usize],
    };
    for _ in 0..world.below(30) {
        let (from, to) = (world.below(count) as usize, world.below(count) as usize);
        if from != to {
            let after = Duration::from_millis(u64::from(world.below(60_000)));
            world.packet(from, to, after);
        }
    }
    let index = world.below(count) as usize;
    let time = [3, 15, 70, 200, 600][world.below(5) as usize];
    match world.below(8) {
        0 => world.move_end(index),
        1 => world.restart(index),
        2 => world.set_clock(index),
        3 => (0..world.ends.len()).for_each(|index| world.restart(index)),
        // Ten minutes, or less.
        4 => world.sleep(index, seconds(time)),
        _ => {}
    }
    world.run(seconds(time));
}

/// The network is good again: all packets sent from 25 s on arrive (a handshake that was just lost is tried again after
/// at most 5.3 s; one that waits for a session made by a restarted end, after 15.3 s of silence).
fn heal(world: &mut World, seed: u64) {
    world.weather = CLEAR;
    world.run(seconds(10));
    world.tell_addresses();
    world.missing.clear();
    let count = world.ends.len();
    for step in 0..40 {
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                world.packet(from, to, seconds(step));
            }
        }
    }
    let start = world.now;
    world.run(seconds(45));
    let window = seconds(25)..seconds(41);
    let late: Vec<_> =
        world.missing.iter().filter(|(_, (sent, ..))| window.contains(&(*sent - start))).collect();
    assert!(late.is_empty(), "seed {seed}: {late:?} did not arrive");
    world.check_post_quantum();
}

fn simulate(seed: u64, count: usize, rounds: u32) {
    simulate_world(World::new(seed, count), seed, rounds);
}

fn simulate_world(mut world: World, seed: u64, rounds: u32) {
    for _ in 0..rounds {
        trouble(&mut world);
        if world.below(3) == 0 {
            heal(&mut world, seed);
        }
    }
    heal(&mut world, seed);
    // Long silence: keys go, and come back.
    world.run(seconds(700));
    heal(&mut world, seed);
}

#[test]
fn two_ends() {
    (0..150).for_each(|seed| simulate(seed, 2, 12));
}

/// Both ends agree on post-quantum keys, one does, or packets wait for them.
#[test]
fn two_ends_with_post_quantum_keys() {
    use PostQuantum::{Off, On, Required};
    for seed in 2000..2040 {
        let modes = [[On, On], [On, Off], [Required, Required], [Off, On], [On, Required]];
        simulate_world(World::with(seed, modes[seed as usize % 5].to_vec()), seed, 12);
    }
}

#[test]
fn eight_ends_with_post_quantum_keys() {
    for seed in 3000..3002 {
        simulate_world(World::with(seed, vec![PostQuantum::On; 8]), seed, 6);
    }
}

#[test]
fn eight_ends() {
    (1000..1006).for_each(|seed| simulate(seed, 8, 6));
}

/// A flow goes on through rekeys without losing a packet.
#[test]
fn rekeys_lose_nothing() {
    for seed in 0..2 {
        let mut world = World::new(seed, 2);
        world.packet(0, 1, seconds(0));
        // Both may begin at once, because of keepalives.
        world.run(seconds(12));
        world.missing.clear();
        let before = world.ends[0].plane.installed;
        // A hundred a second each way.
        for step in 0..40_000 {
            world.packet(0, 1, Duration::from_millis(step * 10));
            world.packet(1, 0, Duration::from_millis(step * 10 + 5));
        }
        world.run(seconds(410));
        assert_eq!(world.missing.len(), 0, "seed {seed}");
        let rekeys = world.ends[0].plane.installed - before;
        assert!((3..=4).contains(&rekeys), "seed {seed}: {rekeys} rekeys in 400 s");
    }
}
