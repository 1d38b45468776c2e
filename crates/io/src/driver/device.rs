//! A TUN device with its data plane and data threads, which one or more endpoints use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use adit_core::DeviceId;
use adit_dataplane::MergePolicy;
use adit_dataplane::codec::Demultiplexer;

use super::data::DataLoop;
use super::error::DriverError;
use super::forward::OtherWorkers;
use super::ids::EndpointId;
use super::lending::Lending;
use super::mail::{DataMail, Mail, Member};
use super::sources::Sources;
use super::status::LossCounters;
use super::threads::Threads;
use super::workers::{MAX_WORKERS, Worker};
use crate::checksum;
use crate::clock;
use crate::config::DriverConfig;
use crate::mailbox::{Mailbox, mailbox};
use crate::offload::{OffloadState, OffloadStatus, OffloadSwitches};
use crate::tun::{Tun, TunError};
use crate::udp;

/// How long a device may take to go: its data threads send the queues of connections (`data.rs`, `STOP_TIMEOUT`).
const LEAVE_TIME: Duration = Duration::from_secs(3);

/// The TUN device of a tunnel with several endpoints, each with a driver of its own ([`super::Driver::join`]). The first
/// driver creates the device, its data plane and its data threads; they go with the last. Clones name the same device.
///
/// The endpoints' peers share routes, and the device's addresses; a peer of one reaches those of another as it reaches
/// those of its own.
#[derive(Clone, Default)]
pub struct SharedDevice(Arc<Mutex<Option<Weak<Device>>>>);

impl fmt::Debug for SharedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedDevice")
    }
}

impl SharedDevice {
    /// The device, which is created if there is none.
    pub(super) fn get(&self, config: &DriverConfig) -> Result<Arc<Device>, DriverError> {
        let mut device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = device.as_ref().and_then(Weak::upgrade) {
            return Ok(device);
        }
        let created = match device.take() {
            None => Device::create(config, true)?,
            Some(_) => Device::create_again(config)?,
        };
        *device = Some(Arc::downgrade(&created));
        Ok(created)
    }
}

/// A TUN device at work. When the last endpoint lets go of it, its threads are stopped and waited for.
pub(super) struct Device {
    pub(super) tun: Arc<Tun>,
    pub(super) offloads: OffloadStatus,
    /// Several endpoints may use it.
    pub(super) is_shared: bool,
    /// The demultiplexer of the data plane.
    demultiplexer: Arc<dyn Demultiplexer>,
    pub(super) workers: Vec<Worker>,
    /// The losses of the data threads.
    pub(super) losses: Arc<LossCounters>,
    /// The numbers of sockets.
    pub(super) sources: Arc<Sources>,
    /// Sockets that several endpoints may use.
    pub(super) lending: Arc<Lending>,
    next_connection: AtomicU32,
    /// How many devices the tunnel has, or had.
    devices: AtomicU16,
    endpoints: Arc<Endpoints>,
    _threads: Threads,
}

impl Device {
    /// Creates the device and starts its data threads, one for each worker. Nothing is left behind on an error.
    pub(super) fn create(config: &DriverConfig, is_shared: bool) -> Result<Arc<Self>, DriverError> {
        let queues = Tun::create_queues(&config.tun, worker_count(config)?)?.into_iter().map(Arc::new);
        let queues: Vec<Arc<Tun>> = queues.collect();
        // There is one queue at least.
        let Some(tun) = queues.first().map(Arc::clone) else { return Err(DriverError::Workers(0)) };
        let offloads = try_offloads(&tun, config.tun.offloads);
        let common = Common::default();
        let mut threads = Threads::default();
        let workers = start_workers(config, queues, &common, &mut threads)?;
        let Common { losses, endpoints, sources } = common;
        Ok(Arc::new(Device {
            tun,
            offloads,
            is_shared,
            demultiplexer: Arc::clone(&config.dataplane.demultiplexer),
            workers,
            losses,
            sources,
            lending: Arc::default(),
            next_connection: AtomicU32::new(0),
            devices: AtomicU16::new(1),
            endpoints,
            _threads: threads,
        }))
    }

    /// Creates a shared device in place of one that its last endpoint may be leaving just now.
    fn create_again(config: &DriverConfig) -> Result<Arc<Self>, DriverError> {
        let deadline = clock() + LEAVE_TIME;
        loop {
            match Device::create(config, true) {
                Err(DriverError::Tun(TunError::Busy(_))) if clock() < deadline => {
                    thread::sleep(Duration::from_millis(10));
                }
                outcome => return outcome,
            }
        }
    }

    /// A number that no other connection of the device has.
    pub(super) fn next_connection(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// The id of one more device of the tunnel. `None`: none is left.
    pub(super) fn next_device(&self) -> Option<DeviceId> {
        let next = |id: u16| id.checked_add(1);
        self.devices.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(DeviceId)
    }

    fn tell_workers(&self, mail: impl Fn() -> DataMail) {
        for worker in &self.workers {
            worker.mail.post(mail());
            worker.mail.wake();
        }
    }
}

/// The endpoints of a device, for orders to all.
#[derive(Default)]
pub(super) struct Endpoints(Mutex<State>);

#[derive(Default)]
struct State {
    next: u16,
    mailboxes: BTreeMap<EndpointId, Mailbox<Mail>>,
    /// Why a data thread ended before its time.
    died: Option<String>,
}

impl Endpoints {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A data thread ended: no endpoint can go on.
    pub(super) fn died(&self, why: String) {
        let mut state = self.lock();
        for control in state.mailboxes.values() {
            control.post(Mail::Died { thread: "data", why: why.clone() });
            control.wake();
        }
        state.died = Some(why);
    }
}

/// An endpoint's part in a device. When it is dropped, the endpoint's sockets are closed, its connections after their
/// queues were sent.
pub(super) struct Membership {
    pub(super) device: Arc<Device>,
    pub(super) id: EndpointId,
}

impl Membership {
    /// One more endpoint, with the demultiplexer of its protocol. The data threads know it before any of its sockets.
    pub(super) fn new(
        device: Arc<Device>,
        own: &Arc<dyn Demultiplexer>,
        member: Member,
    ) -> Result<Self, DriverError> {
        let mut state = device.endpoints.lock();
        if let Some(why) = &state.died {
            return Err(DriverError::Thread { thread: "data", why: why.clone() });
        }
        let id = EndpointId(u8::try_from(state.next).map_err(|_| DriverError::Endpoints)?);
        state.next += 1;
        state.mailboxes.insert(id, member.control.clone());
        drop(state);
        let demultiplexer = id.demultiplexer(own);
        // The endpoint that created the device need not be the first that runs.
        let is_of_plane = Arc::ptr_eq(&demultiplexer, &device.demultiplexer);
        let member = Member { demultiplexer: (!is_of_plane).then_some(demultiplexer), ..member };
        device.tell_workers(|| DataMail::AddEndpoint(id, member.clone()));
        Ok(Membership { device, id })
    }

    /// Whether this is the first of the endpoints that are left: the one that speaks of the device in the log.
    pub(super) fn is_first(&self) -> bool {
        self.device.endpoints.lock().mailboxes.keys().next() == Some(&self.id)
    }

    /// Tells the control threads of all other endpoints.
    pub(super) fn tell_others(&self, mail: impl Fn() -> Mail) {
        let state = self.device.endpoints.lock();
        for (_, control) in state.mailboxes.iter().filter(|(id, _)| **id != self.id) {
            control.post(mail());
            control.wake();
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.device.endpoints.lock().mailboxes.remove(&self.id);
        let id = self.id;
        self.device.tell_workers(|| DataMail::RemoveEndpoint(id));
    }
}

/// How many workers there will be. One peer is served by one worker.
fn worker_count(config: &DriverConfig) -> Result<usize, DriverError> {
    match config.workers {
        _ if config.single_peer => Ok(1),
        many if many > MAX_WORKERS => Err(DriverError::Workers(many)),
        some => Ok(some.max(1)),
    }
}

/// The resources that the data threads share.
#[derive(Default)]
struct Common {
    losses: Arc<LossCounters>,
    endpoints: Arc<Endpoints>,
    sources: Arc<Sources>,
}

/// Starts a data thread for each queue of the device.
fn start_workers(
    config: &DriverConfig,
    queues: Vec<Arc<Tun>>,
    common: &Common,
    threads: &mut Threads,
) -> Result<Vec<Worker>, DriverError> {
    let (mut boxes, mut receivers) = (Vec::new(), Vec::new());
    for _ in &queues {
        let (sender, receiver) = mailbox().map_err(DriverError::Start)?;
        boxes.push(sender);
        receivers.push(receiver);
    }
    let mut workers = Vec::new();
    for (number, (tun, forwards)) in queues.into_iter().zip(receivers).enumerate() {
        let dataplane = adit_dataplane::Config { words: checksum::words(), ..config.dataplane.clone() };
        let (egress, ingress, counters) = adit_dataplane::new(dataplane);
        let (mail, orders) = mailbox().map_err(DriverError::Start)?;
        let forwarded = Arc::new(AtomicU64::new(0));
        let data_loop = DataLoop {
            merge: merge_policy(&tun),
            tun,
            egress,
            ingress,
            mail: orders,
            forwards,
            others: OtherWorkers::new(number, boxes.clone(), Arc::clone(&forwarded)),
            losses: Arc::clone(&common.losses),
            sources: Arc::clone(&common.sources),
            back_pressure: config.single_peer,
        };
        threads.start(number, mail.clone(), Arc::clone(&common.endpoints), || data_loop.run())?;
        workers.push(Worker { mail, counters, forwarded });
    }
    Ok(workers)
}

/// The offloads that the switches allow and that the self-tests found to work.
fn try_offloads(tun: &Tun, switches: OffloadSwitches) -> OffloadStatus {
    let works = udp::self_test();
    let [tun_tcp, tun_udp] = tun.offload_states();
    OffloadStatus {
        tun_tcp,
        tun_udp,
        udp_send: OffloadState::new(switches.udp_send, &works.gso),
        udp_receive: OffloadState::new(switches.udp_receive, &works.gro),
    }
}

fn merge_policy(tun: &Tun) -> MergePolicy {
    let offloads = tun.offloads();
    match (offloads.tcp, offloads.udp) {
        (true, true) => MergePolicy::TcpAndUdp,
        (true, false) => MergePolicy::Tcp,
        (false, true) => MergePolicy::Udp,
        (false, false) => MergePolicy::Off,
    }
}
