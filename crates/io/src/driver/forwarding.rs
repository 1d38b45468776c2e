//! The forwarding between workers, as a data thread does it.

use adit_core::DeviceId;
use adit_dataplane::{Arrival, Offload, Passed};

use super::data::Running;
use super::forward::{Forward, Origin};
use super::status::count;
use super::transports::QUEUE_LIMIT;

/// Items taken before a worker's own sockets and queue have their turn.
const BATCH: usize = 64;

impl Running {
    /// Seals and opens the packets and datagrams that other workers forwarded.
    pub(super) fn take_forwards(&mut self) -> Result<(), String> {
        // Keys that were ordered before it came must be known.
        self.take_mail()?;
        for _ in 0..BATCH {
            match self.forwards.take() {
                None => {
                    self.send();
                    return Ok(());
                }
                // Nothing is forwarded twice: a packet that is for no peer of ours either is counted.
                Some(Forward::Packet { device, offload, mut bytes }) => {
                    self.egress.seal_packet_from(device, offload, &mut bytes, &mut self.transmit_batch);
                    if self.transmit_batch.has_complete() {
                        self.send_complete();
                    }
                }
                Some(Forward::Datagrams { path, traffic_class, segment, mut bytes }) => {
                    let arrival = Arrival { socket: self.transports.socket_path(&path), path, traffic_class };
                    let all = 0..bytes.len();
                    let out = &mut self.receive_batch;
                    self.ingress.gather_datagrams_at(&arrival, &mut bytes, all, segment, out);
                    out.finish(&mut bytes);
                    self.deliver(&mut bytes, Origin::OtherWorker);
                }
                Some(Forward::Records { connection, bytes }) => {
                    self.transports.write(connection, &bytes, QUEUE_LIMIT, &self.losses);
                }
            }
        }
        self.send();
        self.forwards.stay_awake();
        Ok(())
    }

    /// Forwards the packets and datagrams that the receive batch holds for other workers.
    pub(super) fn pass_on(&mut self, bytes: &[u8], origin: Origin) {
        for passed in self.receive_batch.passed() {
            let (worker, range) = match passed {
                Passed::Packet { worker, range } | Passed::Datagrams { worker, range, .. } => (worker, range),
            };
            let Some(bytes) = self.receive_batch.slice(bytes, range) else { continue };
            let bytes = bytes.to_vec();
            let what = match passed {
                Passed::Packet { .. } => {
                    Forward::Packet { device: DeviceId::MAIN, offload: Offload::NONE, bytes }
                }
                Passed::Datagrams { .. } if origin == Origin::OtherWorker => {
                    count(&self.losses.forward_full);
                    continue;
                }
                Passed::Datagrams { path, traffic_class, segment, .. } => {
                    let (path, traffic_class, segment) = (*path, *traffic_class, *segment);
                    Forward::Datagrams { path, traffic_class, segment, bytes }
                }
            };
            self.others.forward(*worker, what, &self.losses);
        }
        self.others.wake();
    }
}
