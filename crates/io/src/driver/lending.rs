//! UDP sockets of one endpoint that others of the tunnel use, too: a port for several protocols.
//!
//! An endpoint that binds the port of another endpoint uses the other endpoint's sockets, if its datagrams are known by
//! their first bytes ([`Demultiplexer::recognises`]). [`super::secondary_endpoints`] describes the data threads' part.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use adit_dataplane::codec::Steering;

use super::binding::{Numbered, UdpSockets};
use crate::udp::UdpSocket;

#[cfg(doc)]
use adit_dataplane::codec::Demultiplexer;

/// The sockets that endpoints of a device listen at.
#[derive(Default)]
pub(super) struct Lending(Mutex<Vec<Offer>>);

/// The sockets at one address, one for each worker. They are gone when no endpoint uses them any more.
struct Offer {
    number: u32,
    port: u16,
    sockets: Vec<Weak<UdpSocket>>,
    steering: Option<Steering>,
}

impl Offer {
    /// `None` if they are gone.
    fn sockets(&self) -> Option<Vec<Arc<UdpSocket>>> {
        self.sockets.iter().map(Weak::upgrade).collect()
    }
}

/// Sockets of another endpoint.
pub(super) struct Borrowed {
    /// The sockets by which a protocol begins to talk.
    pub(super) sockets: UdpSockets,
    /// All at the port.
    pub(super) numbered: Vec<Numbered>,
}

impl Lending {
    /// Sockets that others may use. Their own datagrams are steered by that rule.
    pub(super) fn offer(&self, (number, sockets): (u32, &[Arc<UdpSocket>]), steering: Option<Steering>) {
        let address = sockets.first().and_then(|socket| socket.local_address().ok());
        let Some(port) = address.map(|address| address.port()) else { return };
        let sockets = sockets.iter().map(Arc::downgrade).collect();
        self.lock().push(Offer { number, port, sockets, steering });
    }

    /// The sockets at a port, to which `steering` is added. `None` if no endpoint has any.
    ///
    /// # Errors
    /// The kernel refused the rule.
    pub(super) fn borrow(&self, port: u16, steering: Option<Steering>) -> io::Result<Option<Borrowed>> {
        let mut offers = self.lock();
        offers.retain(|offer| offer.sockets().is_some());
        let mut numbered: Vec<Numbered> = Vec::new();
        for offer in offers.iter().filter(|offer| offer.port == port) {
            let Some(sockets) = offer.sockets() else { continue };
            if let Some(first) = sockets.first() {
                let rules: Vec<Steering> = offer.steering.into_iter().chain(steering).collect();
                first.steer(sockets.len(), &rules)?;
            }
            numbered.push((offer.number, sockets));
        }
        let that = |reaches: fn(&UdpSocket) -> bool| {
            let found = numbered.iter().find(|(_, group)| group.first().is_some_and(|first| reaches(first)));
            found.map(|(number, _)| *number)
        };
        let (ipv4, ipv6) = (that(UdpSocket::reaches_ipv4), that(UdpSocket::reaches_ipv6));
        let sockets = UdpSockets { port, ipv4, ipv6 };
        Ok((!numbered.is_empty()).then_some(Borrowed { sockets, numbered }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Offer>> {
        // Each change is whole before anything can fail.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
