//! Carries out the effects of ends: on the network, in the model, and between the halves of an end.

use adit_core::Path;
use adit_wireguard::Request;

use super::end::{Effect, Input, Order};
use super::world::{Scheduled, World};
use crate::violation::Violation;

impl World {
    /// Carries out the effects of an end, and passes on the inputs of its data plane to its protocol.
    pub(crate) fn settle(&mut self, end: usize) -> Result<(), Violation> {
        loop {
            let Some(running) = self.hosts[end].end.as_mut() else { return Ok(()) };
            let (effects, inputs) = (running.take_effects(), running.take_inputs());
            if effects.is_empty() && inputs.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.carry_out(end, effect)?;
            }
            for input in inputs {
                self.pass_on(end, input);
            }
        }
    }

    fn pass_on(&mut self, end: usize, input: Input) {
        let latency = self.scenario.latency.notices;
        let host = &mut self.hosts[end];
        let generation = host.generation;
        if latency.is_zero() {
            if let Some(running) = host.end.as_mut() {
                running.input(self.now, input);
            }
            return;
        }
        host.inputs_due = host.inputs_due.max(self.now + latency);
        let at = host.inputs_due;
        self.schedule(at, Scheduled::Input { end, generation, input });
    }

    fn carry_out(&mut self, end: usize, effect: Effect) -> Result<(), Violation> {
        let now = self.now;
        match effect {
            Effect::Control(path, message) => {
                self.model.control(now, end, path.remote(), &message)?;
                self.transmit(end, path, &message);
            }
            Effect::Sealed(path, datagram) => {
                self.model.sealed(now, end, &datagram)?;
                self.transmit(end, path, &datagram);
            }
            Effect::Packet(bytes) => self.deliver(end, &bytes)?,
            Effect::Installed(install) => self.model.install(now, end, &install)?,
            Effect::Activated(peer, session) => self.model.activate(end, peer, session)?,
            Effect::Deactivated(peer) => self.model.deactivate(end, peer),
            Effect::Retired(peer, session) => self.model.retire(end, peer, session),
            Effect::Removed(peer) => self.model.remove(end, peer),
            Effect::Order(order) => self.apply(end, order),
            Effect::Request(Request::SaveTimestamp(timestamp)) => {
                let saved = &mut self.hosts[end].saved;
                if saved.is_some_and(|saved| saved >= timestamp) {
                    return Err(Violation::new(format!("end {end} saves a timestamp that is not later")));
                }
                *saved = Some(timestamp);
            }
            Effect::Request(_) => {}
            // Only the ends of `streams` have connections.
            Effect::Open(remote) => self.log(format_args!("end {end} asks for a connection to {remote}")),
            Effect::Close(path) => {
                self.log(format_args!("end {end} closes its connection to {}", path.remote()))
            }
            Effect::Up => self.stats.handshakes += 1,
            Effect::Report(text) => self.log(format_args!("end {end}: {text}")),
        }
        Ok(())
    }

    fn apply(&mut self, end: usize, order: Order) {
        let latency = self.scenario.latency.orders;
        let host = &mut self.hosts[end];
        let generation = host.generation;
        if latency.is_zero() {
            if let Some(running) = host.end.as_mut() {
                running.apply(order);
            }
            return;
        }
        host.orders_due = host.orders_due.max(self.now + latency);
        let at = host.orders_due;
        self.schedule(at, Scheduled::Order { end, generation, order });
    }

    fn deliver(&mut self, end: usize, bytes: &[u8]) -> Result<(), Violation> {
        let (from, at) = self.model.deliver(end, bytes)?;
        self.trace.note(self.now, bytes, format_args!("a packet of end {from} came out at end {end}"));
        self.note_reached(from, end, at);
        Ok(())
    }

    fn transmit(&mut self, end: usize, path: Path, datagram: &[u8]) {
        let from = self.net.address(end);
        let to = path.remote();
        for (at, datagram) in self.net.send(self.now, end, to, datagram) {
            self.schedule(at, Scheduled::Arrival { from, to, datagram });
        }
    }
}
