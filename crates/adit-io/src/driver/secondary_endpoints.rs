//! Sockets that several endpoints use, as a data thread sees them: the first bytes say whose a datagram is.
//!
//! The *host* of a socket has bound it, the others are its *guests*. Where a socket has no guest, nothing here is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::{PeerId, SessionId};
use adit_dataplane::codec::{Class, Demultiplexer, Steering};

use super::data::Running;
use super::ids::EndpointId;
use super::members::socket_path;
use crate::udp::UdpSocket;

/// An endpoint that uses a socket of another.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// The endpoint.
    pub(crate) endpoint: EndpointId,
    /// Which datagrams are for it.
    pub(crate) recognises: fn(&[u8]) -> bool,
    /// What they are, with the ids of the data plane.
    pub(crate) demultiplexer: Arc<dyn Demultiplexer>,
}

/// The guests of each socket.
#[derive(Default)]
pub(super) struct Guests(BTreeMap<u32, Vec<Guest>>);

impl Guests {
    pub(super) fn add(&mut self, number: u32, guest: Guest) {
        self.0.entry(number).or_default().push(guest);
    }

    /// The endpoint is none of the socket's guests any more.
    pub(super) fn remove(&mut self, number: u32, endpoint: EndpointId) {
        if let Some(guests) = self.0.get_mut(&number) {
            guests.retain(|guest| guest.endpoint != endpoint);
            if guests.is_empty() {
                self.0.remove(&number);
            }
        }
    }

    /// The guests of a socket.
    pub(super) fn at(&self, number: u32) -> &[Guest] {
        self.0.get(&number).map(Vec::as_slice).unwrap_or_default()
    }

    /// The sockets where an endpoint is a guest.
    pub(super) fn sockets_of(&self, endpoint: EndpointId) -> impl Iterator<Item = u32> {
        let has_it = move |guests: &[Guest]| guests.iter().any(|guest| guest.endpoint == endpoint);
        self.0.iter().filter(move |(_, guests)| has_it(guests)).map(|(number, _)| *number)
    }

    /// The guest that a datagram is for.
    pub(super) fn recognise(&self, number: u32, datagram: &[u8]) -> Option<EndpointId> {
        recognise(self.at(number), datagram).map(|guest| guest.endpoint)
    }
}

fn recognise<'a>(guests: &'a [Guest], datagram: &[u8]) -> Option<&'a Guest> {
    guests.iter().find(|guest| (guest.recognises)(datagram))
}

/// Tells apart what arrives at a socket with guests.
#[derive(Debug)]
struct Together {
    /// `None`: the endpoint that bound it has ended.
    host: Option<Arc<dyn Demultiplexer>>,
    guests: Vec<Guest>,
}

impl Together {
    fn own(&self, datagram: &[u8]) -> Option<&dyn Demultiplexer> {
        match recognise(&self.guests, datagram) {
            Some(guest) => Some(&*guest.demultiplexer),
            None => self.host.as_deref(),
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
        self.host.as_ref().is_some_and(|host| host.follows_streams())
    }

    fn steering(&self) -> Option<Steering> {
        self.host.as_ref()?.steering()
    }
}

impl Running {
    /// A socket has one more guest. It is received from, whether its host has begun to or not.
    pub(super) fn add_guest(
        &mut self,
        number: u32,
        socket: Arc<UdpSocket>,
        guest: Guest,
    ) -> Result<(), String> {
        self.links.guests.add(number, guest);
        self.links.use_socket(number, socket, &self.poller).map_err(no_socket)?;
        self.classify_at(number);
        Ok(())
    }

    /// A socket has its host, and tells datagrams apart in a way of its own, or else in its endpoint's.
    pub(super) fn add_host(
        &mut self,
        (endpoint, number): (EndpointId, u32),
        socket: Arc<UdpSocket>,
        own: Option<Arc<dyn Demultiplexer>>,
    ) -> Result<(), String> {
        self.links.use_socket(number, socket, &self.poller).map_err(no_socket)?;
        let own = own.or_else(|| self.members.demultiplexer(endpoint));
        self.links.set_host(number, endpoint, own);
        self.classify_at(number);
        Ok(())
    }

    /// An endpoint uses a socket no more, which is closed when nobody else does.
    pub(super) fn leave_socket(&mut self, endpoint: EndpointId, number: u32) {
        if self.links.host(number) == Some(endpoint) {
            self.links.forget_addresses(number);
        }
        self.links.leave(number, endpoint, &self.poller);
        self.classify_at(number);
    }

    /// Has what arrives at a socket told apart for all who use it.
    fn classify_at(&mut self, number: u32) {
        let path = socket_path(number);
        let own = self.links.demultiplexer(number);
        let demultiplexer = match self.links.guests.at(number) {
            [] => own,
            guests => {
                let has_host = self.links.host(number).is_some();
                let host = || own.or_else(|| self.ingress.default_demultiplexer());
                let host = if has_host { host() } else { None };
                Some(Arc::new(Together { host, guests: guests.to_vec() }) as Arc<dyn Demultiplexer>)
            }
        };
        match demultiplexer {
            Some(demultiplexer) => self.ingress.set_demultiplexer(&path, demultiplexer),
            None => self.ingress.forget_demultiplexer(&path),
        }
    }
}

fn no_socket(error: std::io::Error) -> String {
    format!("cannot wait for a UDP socket: {error}")
}
