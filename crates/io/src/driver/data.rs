//! The data thread: packets from the TUN device to the network and datagrams from the network to the TUN
//! device, in turns.
//!
//! One thread for both directions, not one for each: a reply is often there when the thread comes back from
//! the write that caused it, and then no thread has to be woken (docs/measure/PERFORMANCE-DIARY.md has the figures). A server
//! may have several such threads, its workers (`workers.rs`).

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use adit_core::DeviceId;
use adit_dataplane::{Egress, Ingress, MergePolicy, ReceiveBatch, TransmitBatch};

use super::devices::Devices;
use super::forward::{Forward, OtherWorkers};
use super::mail::{DataMail, Mail};
use super::members::Members;
use super::moderation::Moderation;
use super::sources::Sources;
use super::status::LossCounters;
use super::transports::{Broken, CLOSE_TIMEOUT, Transports};
use crate::clock;
use crate::clock::coarse_clock;
use crate::mailbox::MailReceiver;
use crate::poller::{Interest, Poller, Ready, Token};
use crate::tun::{READ_BUFFER, Tun};
use crate::udp::{Gathered, RECEIVE_BUFFER};

/// Room for the rest of one record and another read of 64 KiB.
const STREAM_BUFFER: usize = 2 * 65_538;
/// How long the connections may take to send their queues when the driver stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it rests while control datagrams come by the ten thousands, and nothing else.
const REST: Duration = Duration::from_micros(50);

/// The state of the data thread.
pub(super) struct DataLoop {
    pub(super) tun: Arc<Tun>,
    pub(super) egress: Egress,
    pub(super) ingress: Ingress,
    pub(super) mail: MailReceiver<DataMail>,
    pub(super) forwards: MailReceiver<Forward>,
    pub(super) others: OtherWorkers,
    pub(super) losses: Arc<LossCounters>,
    pub(super) sources: Arc<Sources>,
    /// The merged packets that the TUN device takes.
    pub(super) merge: MergePolicy,
    /// A client leaves packets in the TUN device while its connection is full.
    pub(super) back_pressure: bool,
}

/// The data thread at work.
pub(super) struct Running {
    pub(super) tun: Arc<Tun>,
    pub(super) egress: Egress,
    pub(super) ingress: Ingress,
    pub(super) mail: MailReceiver<DataMail>,
    pub(super) forwards: MailReceiver<Forward>,
    pub(super) others: OtherWorkers,
    pub(super) members: Members,
    pub(super) losses: Arc<LossCounters>,
    pub(super) back_pressure: bool,
    pub(super) poller: Poller,
    pub(super) transports: Transports,
    pub(super) transmit_batch: TransmitBatch,
    pub(super) receive_batch: ReceiveBatch,
    /// The datagrams of the latest receive call.
    pub(super) gathered: Gathered,
    /// The buffer for reads from the TUN device.
    pub(super) packet: Vec<u8>,
    pub(super) tun_watched: bool,
    /// Devices beside the main one.
    pub(super) devices: Devices,
    /// The TUN device was deleted.
    pub(super) tun_deleted: bool,
    pub(super) moderation: Moderation,
    stopped: bool,
}

impl DataLoop {
    /// Runs until it is stopped. An error is a sentence.
    pub(super) fn run(self) -> Result<(), String> {
        let poller = Poller::new().map_err(|error| format!("cannot create an epoll set: {error}"))?;
        poller
            .add(&self.mail, Token::Mail, Interest::Read)
            .and_then(|()| poller.add(&self.forwards, Token::Forwards, Interest::Read))
            .and_then(|()| poller.add(&*self.tun, Token::Tun, Interest::Read))
            .map_err(|error| format!("cannot wait for the TUN device: {error}"))?;
        let running = Running {
            tun: self.tun,
            egress: self.egress,
            ingress: self.ingress,
            mail: self.mail,
            forwards: self.forwards,
            others: self.others,
            members: Members::default(),
            losses: self.losses,
            back_pressure: self.back_pressure,
            poller,
            transports: Transports::new(self.sources),
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(self.merge),
            gathered: Gathered::default(),
            packet: vec![0; READ_BUFFER],
            tun_watched: true,
            devices: Devices::default(),
            tun_deleted: false,
            moderation: Moderation::new(REST, clock()),
            stopped: false,
        };
        running.run()
    }
}

impl Running {
    fn run(mut self) -> Result<(), String> {
        let mut ready = Vec::new();
        let mut received = vec![0; STREAM_BUFFER.max(RECEIVE_BUFFER)];
        while !self.stopped {
            let timeout = self.transports.closing().then_some(CLOSE_TIMEOUT);
            self.wait(timeout, &mut ready)?;
            let now = coarse_clock();
            self.ingress.tick(now);
            self.egress.tick(now);
            for event in &ready {
                self.look_after(*event, &mut received)?;
            }
            if self.ingress.has_released() {
                self.open_released();
            }
            self.settle();
            if let Some(rest) = self.moderation.rest(clock) {
                thread::sleep(rest);
            }
        }
        self.finish();
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> Result<(), String> {
        self.poller.wait(timeout, ready).map_err(|error| format!("cannot wait for events: {error}"))
    }

    fn look_after(&mut self, event: Ready, received: &mut [u8]) -> Result<(), String> {
        match event.token {
            Token::Mail => {
                self.mail.acknowledge();
                self.take_mail()
            }
            Token::Forwards => {
                self.forwards.acknowledge();
                self.take_forwards()
            }
            Token::Tun => self.drain_tun(),
            Token::Device(number) => self.drain_device(DeviceId(number)),
            Token::Udp(number) => {
                if event.writable {
                    self.transports.flush_socket(number, &self.losses);
                }
                self.receive_datagrams(number, received)
            }
            Token::Tcp(number) => self.look_after_connection(number, event, received),
            Token::Listener(_)
            | Token::Routes
            | Token::DeviceChange
            | Token::SourceRoutes
            | Token::Undecided(_) => Ok(()),
        }
    }

    /// [`Running::take_mail`] where some waits, so that a look costs next to nothing.
    #[inline]
    pub(super) fn take_waiting_mail(&mut self) -> Result<(), String> {
        match self.mail.waiting() {
            0 => Ok(()),
            _ => self.take_mail(),
        }
    }

    pub(super) fn take_mail(&mut self) -> Result<(), String> {
        while let Some(mail) = self.mail.take() {
            match mail {
                DataMail::Egress(event) => {
                    self.egress.apply(event, &mut self.transmit_batch);
                    self.send();
                }
                DataMail::Ingress(event) => self.ingress.apply(event),
                DataMail::Control { connection, datagram } => {
                    self.transports.send_control(connection, &datagram, &self.losses);
                }
                DataMail::AddEndpoint(id, member) => {
                    self.members.add(id, member);
                    self.egress.answer_unreachable(self.members.answer_unreachable());
                    if self.tun_deleted {
                        self.members.post(id, Mail::DeviceDeleted);
                    }
                }
                DataMail::RemoveEndpoint(id) => self.remove_endpoint(id),
                DataMail::AddDevice { endpoint, id, tun } => {
                    let reads = self.others.has_connections();
                    self.devices.add(endpoint, id, tun, reads);
                    self.devices.watch(self.has_room(), &self.poller);
                }
                DataMail::AddSocket { endpoint, number, socket, demultiplexer } => {
                    self.add_host((endpoint, number), socket, demultiplexer)?;
                }
                DataMail::ShareSocket { number, socket, secondary } => {
                    self.add_secondary(number, socket, secondary)?;
                }
                DataMail::LeaveSocket { endpoint, number } => self.leave_socket(endpoint, number),
                DataMail::AddConnection { endpoint, connection, stream, path, tls, preamble } => {
                    if let Some(demultiplexer) = self.members.demultiplexer(endpoint) {
                        self.ingress.set_demultiplexer(&path, demultiplexer);
                    }
                    self.transports
                        .add_connection((endpoint, connection), stream, path, &self.poller)
                        .map_err(|error| format!("cannot wait for a TCP connection: {error}"))?;
                    if let Some(client) = tls {
                        self.transports.begin_tls(connection, &client);
                    }
                    if let Some(preamble) = preamble {
                        self.transports.begin_preamble(connection, preamble, &self.losses);
                    }
                }
                DataMail::CloseConnection(id) => self.close_connection(id),
                #[cfg(debug_assertions)]
                DataMail::Probe(endpoint) => {
                    self.members.post(endpoint, Mail::Probed(super::probe::attempt("data")));
                }
                DataMail::Stop => self.stopped = true,
            }
        }
        Ok(())
    }

    /// Looks after the busy connections, and reads from the TUN device only when there is room.
    fn settle(&mut self) {
        for Broken { endpoint, connection, reason } in self.transports.settle(&self.poller) {
            self.members.post(endpoint, Mail::Broken { connection, reason });
        }
        let has_room = self.has_room();
        self.devices.watch(has_room, &self.poller);
        let watch = !self.tun_deleted && has_room;
        if watch == self.tun_watched {
            return;
        }
        if watch {
            self.tun_watched = self.poller.add(&*self.tun, Token::Tun, Interest::Read).is_ok();
        } else {
            self.poller.remove(&*self.tun);
            self.tun_watched = false;
        }
    }

    /// Gives the connections a moment to send their queues, then closes them.
    fn finish(mut self) {
        let deadline = clock() + STOP_TIMEOUT;
        let mut ready = Vec::new();
        self.poller.remove(&*self.tun);
        while self.transports.full() && clock() < deadline {
            if self.wait(Some(Duration::from_millis(50)), &mut ready).is_err() {
                break;
            }
            self.transports.flush_all();
            self.transports.settle(&self.poller);
        }
        self.transports.close_all();
    }
}
