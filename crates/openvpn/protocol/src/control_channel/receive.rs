//! Received datagrams: the wrapping comes off, and the packet goes to the key exchange that it belongs to.

use adit_core::{Instant, Rejected};

use super::{ControlChannel, ControlOutput, MAX_KEY_ID};
use crate::key_state::KeyStateOutput;
use crate::wire::{ControlBody, Header, Opcode, Sid, TlsRole};
use crate::wrap::Opened;

impl ControlChannel {
    /// Takes a datagram's wrapping off; says whether it was the one of renegotiations. From the first of them on, OpenVPN
    /// 3 wraps packets of the first exchange so, too (proto.hpp `set_dynamic_tls_crypt`): its `EXIT`, until the new keys
    /// are its primary ones.
    fn open(&self, key_id: u8, datagram: &[u8]) -> Result<(Opened, bool), Rejected> {
        let dynamic = self.dynamic.as_ref().map(|(wrap, _)| wrap.open(datagram));
        match dynamic {
            Some(opened) if key_id > 0 || opened.is_ok() => Ok((opened?, true)),
            _ => Ok((self.wrap.open(datagram)?, false)),
        }
    }

    /// Takes one control datagram. An error changes nothing.
    pub(crate) fn handle(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Rejected> {
        if self.failed {
            return Err(Rejected::Unexpected("the control channel has failed"));
        }
        let key_id = datagram.first().map_or(0, |byte| byte & MAX_KEY_ID);
        let (opened, alike) = self.open(key_id, datagram)?;
        let body = ControlBody::decode(opened.header.opcode, &opened.body)?;
        self.check_sids(opened.sid, opened.header.opcode, &body)?;
        let index = self.find_exchange(opened.header, &body)?;
        if let Some(id) = opened.wrap_id {
            match &mut self.dynamic {
                Some((_, replay)) if alike => replay.check(now, id)?,
                _ => self.replay.check(now, id)?,
            }
        }
        self.peer_wraps_alike |= alike && key_id == 0;
        self.peer_sid = Some(opened.sid);
        let outcome = match index {
            Some(index) => Ok(index),
            None => self
                .begin_for_peer(now, opened.header.key_id)
                .map(|()| self.exchanges.len().saturating_sub(1)),
        };
        let outcome = outcome.and_then(|index| {
            self.exchanges[index].state.handle(now, opened.header.opcode, body).map(|()| index)
        });
        match outcome {
            Ok(index) => self.collect(now, index),
            Err(error) => self.fail(now, error),
        }
        Ok(())
    }

    fn check_sids(&self, sid: Sid, opcode: Opcode, body: &ControlBody) -> Result<(), Rejected> {
        if self.peer_sid.is_some_and(|known| known != sid) {
            return Err(Rejected::Unexpected("another session id of the peer"));
        }
        match body.peer_sid {
            Some(own) if own != self.own_sid => {
                Err(Rejected::Unexpected("acknowledges another control channel of ours"))
            }
            None if self.server_may_begin && opcode == Opcode::HardResetServerV2 => Ok(()),
            // A server's first packet must prove that it saw our reset.
            None if self.peer_sid.is_none() => Err(Rejected::Unexpected("does not acknowledge our reset")),
            _ => Ok(()),
        }
    }

    /// Which exchange a packet belongs to; `None`: it starts a new one.
    fn find_exchange(&self, header: Header, body: &ControlBody) -> Result<Option<usize>, Rejected> {
        let reset_allowed = match header.opcode {
            Opcode::Control | Opcode::Ack => true,
            Opcode::SoftReset => header.key_id != 0,
            // The wrapping lets these pass only where tls-crypt-v2 has a place.
            Opcode::ControlWkc => self.role == TlsRole::Server && header.key_id == 0,
            Opcode::HardResetClientV2 | Opcode::HardResetClientV3 => {
                self.role == TlsRole::Server && header.key_id == 0
            }
            Opcode::HardResetServerV2 => self.role == TlsRole::Client && header.key_id == 0,
            _ => false,
        };
        if !reset_allowed {
            return Err(Rejected::Unexpected("this opcode has no place here"));
        }
        let is_hard_reset =
            !matches!(header.opcode, Opcode::Control | Opcode::ControlWkc | Opcode::Ack | Opcode::SoftReset);
        if is_hard_reset && body.packet_id != Some(0) {
            return Err(Rejected::Unexpected("a hard reset whose packet id is not 0"));
        }
        if let Some(index) = self.exchanges.iter().position(|exchange| exchange.state.key_id == header.key_id)
        {
            return Ok(Some(index));
        }
        if self.is_beginning(header, body) {
            return Ok(None);
        }
        Err(Rejected::Unexpected("no key exchange with this key id"))
    }

    pub(super) fn collect(&mut self, now: Instant, index: usize) {
        let key_id = self.exchanges[index].state.key_id;
        while let Some(output) = self.exchanges[index].state.poll_output() {
            match output {
                KeyStateOutput::ClientHello(message) => {
                    if self.identify(index) {
                        self.outputs.push_back(ControlOutput::Hello { key_id, message });
                    }
                }
                KeyStateOutput::Secured => {
                    if self.identify(index) {
                        self.outputs.push_back(ControlOutput::Secured { key_id });
                    }
                }
                KeyStateOutput::Established => {
                    if self.identify(index) {
                        self.established(now, index);
                    }
                }
                KeyStateOutput::Judge => {
                    if self.identify(index) {
                        self.outputs.push_back(ControlOutput::Judge { key_id });
                    }
                }
                KeyStateOutput::Step(step) => self.outputs.push_back(ControlOutput::Step(step)),
                KeyStateOutput::Message(message) => self.outputs.push_back(ControlOutput::Message(message)),
            }
        }
    }
}
