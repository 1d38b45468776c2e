//! Carries out the effects of ends: on the network, in the model, and between the halves of an end.

use adit_core::Path;

use super::end::{Effect, Input};
use super::net::Sent;
use super::settings::MARKED;
use super::world::{Scheduled, World};
use crate::violation::Violation;

/// The bytes in front of IKE messages at port 4500 (RFC 3948 section 2.2).
const MARKER: &[u8] = &[0; 4];

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
        let latency = self.scenario.notice_latency;
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
        match effect {
            Effect::Control(path, datagram) => {
                let message = match path.socket() {
                    Some(MARKED) => datagram.strip_prefix(MARKER),
                    _ => Some(datagram.as_slice()),
                };
                let message = message.ok_or_else(|| Violation::new(format!("end {end} sent no marker")))?;
                self.model.control(end, message)?;
                self.transmit(end, path, &datagram, true);
            }
            Effect::Sealed(path, datagram) => {
                self.model.sealed(end, &datagram)?;
                self.transmit(end, path, &datagram, false);
            }
            Effect::Packet { esp, bytes } => {
                let at = self.model.deliver(end, esp, &bytes)?;
                self.trace.note(self.now, &bytes, format_args!("a packet of {at:?} came out at end {end}"));
            }
            Effect::Installed(install) => {
                self.log(format_args!(
                    "end {end}: child SA {:08x} of child {}, {:?}",
                    install.session.0, install.series, install.on_first_opened
                ));
                self.model.install(end, &install)?;
            }
            Effect::Activated(session) => {
                self.log(format_args!("end {end} seals with {:08x}", session.0));
                self.model.activate(end, session)?;
            }
            Effect::Retired(session) => {
                self.log(format_args!("end {end} retires {:08x}", session.0));
                self.model.retire(end, session);
            }
            Effect::Removed => self.model.remove_all(end),
            Effect::Up => self.stats.ups += 1,
            Effect::Down(text) => self.log(format_args!("end {end} is down: {text}")),
            Effect::Report(text) => self.log(format_args!("end {end}: {text}")),
        }
        Ok(())
    }

    fn transmit(&mut self, end: usize, path: Path, bytes: &[u8], is_control: bool) {
        let sent = Sent { end, path, bytes, is_control };
        let arrivals = self.net.send(self.now, &self.scenario, sent);
        for (at, datagram) in arrivals {
            self.schedule(at, Scheduled::Arrival(datagram));
        }
    }
}
