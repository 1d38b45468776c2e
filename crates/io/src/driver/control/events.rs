//! The protocol's events for the data plane, the driver and the program.

use adit_core::{DataEvent, Event, EventOf, Install, PeerOrder, Protocol};

use super::Control;
use crate::driver::mail::Mail;
use crate::driver::workers::or_install;

impl<P: Protocol> Control<'_, P> {
    pub(super) fn carry_out(&mut self, event: EventOf<P>) {
        match event {
            Event::Data(event) => return self.data(event),
            Event::Open { remote } => self.open(remote),
            Event::Close { path } => self.close(path),
            Event::Up(settings) => return self.establish(settings),
            Event::Down => self.come_down(),
            Event::LeasesMoved => return self.workers.membership().tell_others(|| Mail::LeasesMoved),
            Event::Request(request) => return self.observer.request(request, self.tun.name()),
            Event::Ended(ref ended) => self.ended = Some(ended.clone()),
            Event::PeerUp { .. } if self.network.stages.is_waiting() => {
                return self.network.stages.hold(event);
            }
            Event::PeerDown { .. } => self.network.stages.peer_down(),
            Event::PeerUp { .. } | Event::Report(_) => {}
        }
        self.observer.event(&event, self.tun.name());
    }

    fn data(&mut self, event: DataEvent<P::Codec>) {
        match &event {
            DataEvent::Peer(PeerOrder::Add(config)) => {
                self.peers.entry(config.peer).or_insert((0, 0));
            }
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                self.peers.remove(peer);
            }
            _ => {}
        }
        self.carriers.note(&event);
        match or_install(event) {
            Ok(order) => self.workers.order(order),
            // Keys that do not fit install nothing; datagrams that come with them are counted as without a
            // session.
            Err(install) => {
                if let Ok(codec) = (self.make_codec)(&install) {
                    let Install { peer, session, series, on_first_opened, .. } = *install;
                    self.workers.install(Install { peer, session, series, on_first_opened, codec });
                }
            }
        }
    }
}
