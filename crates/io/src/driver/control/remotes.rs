//! The remotes of the endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::Path;
use adit_dataplane::codec::Demultiplexer;

use crate::config::{Remote, UdpSource};
use crate::helper::DriverHelper;
use crate::opener::KnownAddresses;

/// The remotes, and how they were opened.
pub(super) struct Remotes {
    pub(super) all: Vec<Remote>,
    /// The demultiplexers of UDP sockets that have one of their own.
    demultiplexers: BTreeMap<UdpSource, Arc<dyn Demultiplexer>>,
    /// The process that opens paths in place of this one.
    pub(super) helper: Option<Arc<dyn DriverHelper>>,
    pub(super) kill_switch: bool,
    /// How often each was opened.
    attempts: BTreeMap<usize, usize>,
    /// The UDP paths that were opened last.
    pub(super) opened_last: BTreeMap<usize, Path>,
    pub(super) known_addresses: KnownAddresses,
}

impl Remotes {
    pub(super) fn new(
        all: Vec<Remote>,
        demultiplexers: BTreeMap<UdpSource, Arc<dyn Demultiplexer>>,
        helper: Option<Arc<dyn DriverHelper>>,
        kill_switch: bool,
    ) -> Self {
        let (attempts, opened_last) = (BTreeMap::new(), BTreeMap::new());
        let known_addresses = KnownAddresses::default();
        Remotes { all, demultiplexers, helper, kill_switch, attempts, opened_last, known_addresses }
    }

    /// The number of the attempt that begins now.
    pub(super) fn next_attempt(&mut self, remote: usize) -> usize {
        let attempt = self.attempts.entry(remote).or_insert(0);
        *attempt += 1;
        *attempt - 1
    }

    /// The remotes whose names this process resolves at the attempt with that number: all, at the first of all.
    pub(super) fn to_learn_ahead(&self, attempt: usize) -> Vec<Remote> {
        let is_first = attempt == 0 && self.attempts.len() == 1;
        if self.helper.is_none() && is_first { self.all.clone() } else { Vec::new() }
    }

    /// The demultiplexer of a remote's own.
    pub(super) fn demultiplexer(&self, remote: usize) -> Option<Arc<dyn Demultiplexer>> {
        self.demultiplexers.get(&UdpSource::Remote(remote)).map(Arc::clone)
    }
}
