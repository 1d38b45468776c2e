//! Sockets that several endpoints use, as a data thread sees them: the first bytes say whose a datagram is.
//!
//! The *primary* of a socket has bound it, the others are its *secondaries*. Where a socket has no secondary, nothing here is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::{PeerId, SessionId};
use adit_dataplane::codec::{Class, Demultiplexer, Steering};

use super::ids::EndpointId;

/// An endpoint that uses a socket of another.
#[derive(Clone, Debug)]
pub(crate) struct SecondaryEndpoint {
    /// The endpoint.
    pub(crate) endpoint: EndpointId,
    /// Which datagrams are for it.
    pub(crate) recognises: fn(&[u8]) -> bool,
    /// The demultiplexer of its datagrams, with the ids of the data plane.
    pub(crate) demultiplexer: Arc<dyn Demultiplexer>,
}

/// The secondaries of each socket.
#[derive(Default)]
pub(super) struct SecondaryEndpoints(BTreeMap<u32, Vec<SecondaryEndpoint>>);

impl SecondaryEndpoints {
    pub(super) fn add(&mut self, number: u32, secondary: SecondaryEndpoint) {
        self.0.entry(number).or_default().push(secondary);
    }

    /// The endpoint is none of the socket's secondaries any more.
    pub(super) fn remove(&mut self, number: u32, endpoint: EndpointId) {
        if let Some(secondaries) = self.0.get_mut(&number) {
            secondaries.retain(|secondary| secondary.endpoint != endpoint);
            if secondaries.is_empty() {
                self.0.remove(&number);
            }
        }
    }

    /// The secondaries of a socket.
    pub(super) fn at(&self, number: u32) -> &[SecondaryEndpoint] {
        self.0.get(&number).map(Vec::as_slice).unwrap_or_default()
    }

    /// The sockets where an endpoint is a secondary.
    pub(super) fn sockets_of(&self, endpoint: EndpointId) -> impl Iterator<Item = u32> {
        let has_it = move |secondaries: &[SecondaryEndpoint]| {
            secondaries.iter().any(|secondary| secondary.endpoint == endpoint)
        };
        self.0.iter().filter(move |(_, secondaries)| has_it(secondaries)).map(|(number, _)| *number)
    }

    /// The secondary that a datagram is for.
    pub(super) fn recognise(&self, number: u32, datagram: &[u8]) -> Option<EndpointId> {
        recognise(self.at(number), datagram).map(|secondary| secondary.endpoint)
    }
}

fn recognise<'a>(secondaries: &'a [SecondaryEndpoint], datagram: &[u8]) -> Option<&'a SecondaryEndpoint> {
    secondaries.iter().find(|secondary| (secondary.recognises)(datagram))
}

/// Tells apart the datagrams that arrive at a socket with secondaries.
#[derive(Debug)]
pub(super) struct Together {
    /// `None`: the endpoint that bound it has ended.
    pub(super) primary: Option<Arc<dyn Demultiplexer>>,
    pub(super) secondaries: Vec<SecondaryEndpoint>,
}

impl Together {
    fn own(&self, datagram: &[u8]) -> Option<&dyn Demultiplexer> {
        match recognise(&self.secondaries, datagram) {
            Some(secondary) => Some(&*secondary.demultiplexer),
            None => self.primary.as_deref(),
        }
    }
}

impl Demultiplexer for Together {
    fn classify(&self, datagram: &[u8]) -> Class {
        self.own(datagram).map_or(Class::Malformed, |own| own.classify(datagram))
    }

    fn session_of(&self, peer: PeerId, datagram: &[u8]) -> Option<SessionId> {
        self.own(datagram)?.session_of(peer, datagram)
    }

    fn follows_streams(&self) -> bool {
        self.primary.as_ref().is_some_and(|primary| primary.follows_streams())
    }

    fn steering(&self) -> Option<Steering> {
        self.primary.as_ref()?.steering()
    }
}
