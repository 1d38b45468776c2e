//! The data thread's way from the TUN device to the network.

use std::io::{self, IoSlice};

use adit_core::DeviceId;
use adit_dataplane::Offload;

use super::data::Running;
use super::forward::Forward;
use super::mail::Mail;
use super::status::count;
use super::transports::QUEUE_LIMIT;

/// Packets read before the other direction has its turn.
const TUN_BATCH: usize = 64;
/// Bytes read before the other direction has its turn: a few super-packets.
const TUN_BATCH_BYTES: usize = 256 * 1024;

/// The result of reading a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    Read,
    /// Another program deleted it.
    Deleted,
}

impl Running {
    /// Reads the packets that wait in the main TUN device, up to a batch, and sends them sealed.
    pub(super) fn drain_tun(&mut self) -> Result<(), String> {
        if !self.tun_watched {
            return Ok(());
        }
        if self.drain(DeviceId::MAIN)? == Drained::Deleted {
            self.leave_tun();
        }
        self.others.wake();
        self.send();
        Ok(())
    }

    /// Reads the packets that wait in another device, up to a batch, and sends them sealed.
    pub(super) fn drain_device(&mut self, id: DeviceId) -> Result<(), String> {
        if !self.has_room() {
            return Ok(());
        }
        if self.drain(id)? == Drained::Deleted {
            self.devices.deleted(id, &self.poller);
        }
        self.others.wake();
        self.send();
        Ok(())
    }

    /// Reads packets from a device, up to a batch, and has them sealed.
    fn drain(&mut self, device: DeviceId) -> Result<Drained, String> {
        let mut bytes = 0;
        for _ in 0..TUN_BATCH {
            let tun = match device {
                DeviceId::MAIN => Some(&self.tun),
                other => self.devices.get(other),
            };
            let Some(tun) = tun else { break };
            let length = match tun.read(&mut self.packet) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The error of tun_chr_read_iter (Linux's drivers/net/tun.c) for a device that was deleted.
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => return Ok(Drained::Deleted),
                Err(error) => return Err(format!("cannot read from {}: {error}", tun.name())),
            };
            // After the packet was read: the packet that it answers may have been opened by another data thread that
            // took its orders before this one. And keys that have ended seal no more.
            self.take_waiting_mail()?;
            let read = self.packet.get_mut(..length).and_then(<[u8]>::split_first_chunk_mut);
            let Some((header, packet)) = read else {
                continue;
            };
            if let Some(offload) = Offload::from_vnet_header(header) {
                let out = &mut self.transmit_batch;
                if let Some(worker) = self.egress.seal_from(device, offload, packet, out) {
                    let what = Forward::Packet { device, offload, bytes: packet.to_vec() };
                    self.others.forward(worker, what, &self.losses);
                }
            }
            // A super-packet is a few datagrams more than a GSO batch holds: the rest waits for the next packet if
            // there is one, and does not travel in a GSO batch of its own.
            if self.transmit_batch.has_complete() {
                self.send_complete();
                if !self.has_room() {
                    break;
                }
            }
            self.moderation.stop();
            bytes += length;
            if bytes >= TUN_BATCH_BYTES {
                break;
            }
        }
        Ok(Drained::Read)
    }

    /// The TUN device is gone. The endpoints end one after the other, as their protocols want.
    fn leave_tun(&mut self) {
        self.tun_deleted = true;
        self.tun_watched = false;
        self.poller.remove(&*self.tun);
        self.members.post_all(|| Mail::DeviceDeleted);
    }

    /// Sends the datagrams that the data plane put into the transmit batch.
    pub(super) fn send(&mut self) {
        let limit = self.queue_limit();
        self.transports.send(self.transmit_batch.iter(), limit, &mut self.others, &self.losses);
        self.others.wake();
        self.transmit_batch.clear();
        self.pass_on_notices();
    }

    /// Sends the GSO batches that nothing can join any more.
    pub(super) fn send_complete(&mut self) {
        let limit = self.queue_limit();
        self.transports.send(self.transmit_batch.complete(), limit, &mut self.others, &self.losses);
        self.others.wake();
        self.transmit_batch.clear_complete();
    }

    /// A client stops reading before its queue grows; packets that still come are not dropped.
    fn queue_limit(&self) -> usize {
        if self.back_pressure { usize::MAX } else { QUEUE_LIMIT }
    }

    /// Whether packets that are read from the TUN device can leave. Packets wait there better than here: the
    /// kernel's queue has a limit of its own, and its own drops. A server reads on while a connection is
    /// full, as its packets may be for others; one UDP socket is the way to all clients.
    pub(super) fn has_room(&self) -> bool {
        !(self.transports.stalled() || self.back_pressure && self.transports.full())
    }

    /// Hands out the data plane's notices and answers.
    fn pass_on_notices(&mut self) {
        for notice in self.egress.take_notices() {
            self.members.notice(notice);
            self.members.wake();
        }
        for answer in self.egress.take_answers() {
            let header = Offload::NONE.to_vnet_header();
            if self.tun.write(&[IoSlice::new(&header), IoSlice::new(&answer)]).is_err() {
                count(&self.losses.tun_write);
            }
        }
    }
}
