//! The state of the checks.

use std::collections::VecDeque;

use adit_core::{Instant, Path};

use crate::openvpn::challenges::Challenges;
use crate::openvpn::learn_address::LearnedAddresses;
use crate::openvpn::limits::Limits;
use crate::openvpn::management::Management;
use crate::openvpn::scenario::Scenario;
use crate::rng::Rng;

/// The state of the checks beside the [`crate::openvpn::model::Model`] of packets and keys.
pub(crate) struct Checks {
    /// How long peers may stay connected.
    pub(crate) limits: Limits,
    /// The addresses that the server's `learn-address` script was given.
    pub(crate) learned: LearnedAddresses,
    /// The messages and challenges that clients get while keys are renegotiated.
    pub(crate) challenges: Challenges,
    /// The management client that authenticates clients.
    pub(crate) management: Management,
    /// TCP connections of the attacker, and when they were made.
    pub(crate) unauthenticated: VecDeque<(Instant, Path)>,
    /// When hard resets came to the server.
    pub(crate) resets: VecDeque<Instant>,
    /// Each end's drops at the beginning of the last calm part.
    pub(crate) drops: Vec<u64>,
}

impl Checks {
    pub(crate) fn new(scenario: &Scenario, rng: Rng) -> Self {
        Checks {
            limits: Limits::new(scenario),
            learned: LearnedAddresses::default(),
            challenges: Challenges::default(),
            management: Management::new(rng),
            unauthenticated: VecDeque::new(),
            resets: VecDeque::new(),
            drops: Vec::new(),
        }
    }

    /// The server is another process, and knows nothing of these.
    pub(crate) fn forget_server(&mut self) {
        self.learned.forget();
        self.challenges.forget_connections();
        self.management.forget();
    }
}
