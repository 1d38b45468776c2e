use std::io::Read as _;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Randomness for a machine.
pub fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    // Without it the seeds are the same: good enough for a load, and nothing secret is sent.
    let _ = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    seed
}

/// Clients and attackers hold more sockets than a process usually may: raises the limit as far as the system lets it.
pub fn allow_many_sockets() {
    let limits = getrlimit(Resource::Nofile);
    // Without it there are fewer of them, which the counters show.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
}
