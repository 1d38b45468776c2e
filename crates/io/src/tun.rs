//! The TUN device: where packets enter and leave the kernel.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use adit_system::Netlink;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use thiserror::Error;

use crate::offload::{OffloadState, OffloadSwitches};

/// Bytes of `struct virtio_net_hdr` in front of every packet read from or written to the device.
pub(crate) const VNET_HEADER: usize = 10;

/// Room for the largest read: a header and a packet of 65,535 bytes.
pub(crate) const READ_BUFFER: usize = VNET_HEADER + 65_535;

const DEVICE: &str = "/dev/net/tun";

/// The name of a device where there is none ([`TunConfig::is_null`]).
pub const NULL_DEVICE: &str = "null";

/// The TUN device to create, or one that is there.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Its name; `None` takes the first free `tunN`.
    pub name: Option<String>,
    /// A queue of a device that is there, such as one that was [inherited](adit_sys::inherited) or made by
    /// [`Tun::create_first`]. It is used as it is: name, MTU and queue length are not looked at. The device may be in
    /// another network namespace, where its settings cannot be changed.
    pub descriptor: Option<Arc<OwnedFd>>,
    /// There is no device: no packet comes from it, and each packet for it is dropped and counted
    /// ([`crate::Losses::tun_write`]). The tunnel's settings are not applied to the system. The other settings of the
    /// device are ignored.
    pub is_null: bool,
    /// Its MTU in bytes, until the tunnel's settings say another; `None`: the kernel's choice, 1500.
    pub mtu: Option<u32>,
    /// Packets that wait in it before it drops.
    pub txqueuelen: u32,
    /// Which offloads may be used.
    pub offloads: OffloadSwitches,
}

impl Default for TunConfig {
    fn default() -> Self {
        TunConfig {
            name: None,
            descriptor: None,
            is_null: false,
            mtu: None,
            txqueuelen: 1000,
            offloads: OffloadSwitches::default(),
        }
    }
}

/// The owner of a TUN device, who may open it without further rights: the user of that number, the group, or
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunOwner {
    /// The user's number.
    pub user: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
}

/// Which offloads of the TUN device are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunOffloads {
    /// Checksums of packets from the kernel may be left to us.
    pub checksum: bool,
    /// TCP super-packets over IPv4 and IPv6.
    pub tcp: bool,
    /// UDP super-packets over IPv4 and IPv6.
    pub udp: bool,
}

/// Why there is no TUN device.
#[derive(Debug, Error)]
pub enum TunError {
    /// The name cannot be that of a network device.
    #[error("`{0}` cannot be a device name: use 1 to 15 letters or digits, such as tun0")]
    BadName(String),
    /// The caller lacks the right.
    #[error("no right to create a TUN device ({0}): run as root, or grant CAP_NET_ADMIN")]
    NoRight(io::Error),
    /// The kernel, or this container, has no TUN driver.
    #[error(
        "there is no TUN driver at {DEVICE} ({0}): load it with `modprobe tun`, or hand the device into \
         the container (docker: `--device {DEVICE} --cap-add NET_ADMIN`)"
    )]
    NoDriver(io::Error),
    /// Another process holds the device.
    #[error("the device {0} is in use by another program: stop that program or choose another `dev` name")]
    Busy(String),
    /// There is a device of that name which is no TUN device, or one of another kind.
    #[error("`{0}` is taken by a device of another kind: choose another `dev` name")]
    NotTun(String),
    /// The descriptor that was given in place of a name cannot be used.
    #[error("the descriptor is no queue of a TUN device that can be used: {0}")]
    BadDescriptor(String),
    /// The device is there, but its MTU or queue length cannot be set.
    #[error("cannot set up the TUN device {0}: {1}")]
    SetUp(String, io::Error),
    /// Anything else.
    #[error("cannot create the TUN device {0}: {1}")]
    Other(String, io::Error),
}

/// A queue of a TUN device, which lives as long as one of its queues does. Reads and writes do not wait.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    /// The kernel puts no header in front of packets: another program made the device.
    bare: bool,
    /// There is no device. The file is never readable.
    is_null: bool,
    offloads: TunOffloads,
    /// The states of TCP and UDP super-packets.
    states: [OffloadState; 2],
}

impl Tun {
    /// Creates the device, down and without addresses, with one queue.
    pub fn create(config: &TunConfig) -> Result<Tun, TunError> {
        Tun::create_with(config, 0)
    }

    /// Creates the device, down and without addresses, for a driver with that many workers, to which the descriptor that
    /// this becomes is given later ([`TunConfig::descriptor`]), perhaps in another process.
    pub fn create_first(config: &TunConfig, workers: usize) -> Result<Tun, TunError> {
        Tun::create_with(config, first_queue(workers))
    }

    /// Creates the device with that many queues. The kernel divides packets between them by flow: those of a
    /// flow go to the queue that the flow was last written to.
    pub(crate) fn create_queues(config: &TunConfig, count: usize) -> Result<Vec<Tun>, TunError> {
        if config.is_null {
            return (0..count).map(|_| Tun::null()).collect();
        }
        let first = match &config.descriptor {
            Some(descriptor) => Tun::adopt(descriptor, config)?,
            None => Tun::create_first(config, count)?,
        };
        let mut queues = Vec::with_capacity(count);
        for _ in 1..count {
            let (file, name) = attach(&first.name, libc::IFF_MULTI_QUEUE)?;
            let (offloads, states) = (first.offloads, first.states.clone());
            queues.push(Tun { file, name, bare: false, is_null: false, offloads, states });
        }
        queues.insert(0, first);
        Ok(queues)
    }

    /// Says whether the device outlasts its queues, so that another process may open it by its name.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn persist(&self, persists: bool) -> io::Result<()> {
        adit_sys::tun_set_persist(self.file.as_fd(), persists)
    }

    /// Lets that owner alone open the device, without further rights.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn give_to(&self, TunOwner { user, group }: TunOwner) -> io::Result<()> {
        let tun = self.file.as_fd();
        user.map_or(Ok(()), |user| adit_sys::tun_set_owner(tun, user))?;
        group.map_or(Ok(()), |group| adit_sys::tun_set_group(tun, group))
    }

    /// Says whether the device has a carrier. A new device has one.
    ///
    /// # Errors
    /// When the kernel refuses it: before Linux 5.0 it has no such request.
    pub(crate) fn set_carrier(&self, has_carrier: bool) -> io::Result<()> {
        adit_sys::tun_set_carrier(self.file.as_fd(), has_carrier)
    }

    fn create_with(config: &TunConfig, flags: libc::c_int) -> Result<Tun, TunError> {
        let wanted = config.name.as_deref().unwrap_or("tun%d");
        check_name(wanted)?;
        let (file, name) = attach(wanted, flags)?;
        set_up(&name, config).map_err(|error| TunError::SetUp(name.clone(), error))?;
        let (offloads, states) = set_offloads(file.as_fd(), config.offloads);
        Ok(Tun { file, name, bare: false, is_null: false, offloads, states })
    }

    /// A queue of no device.
    fn null() -> Result<Tun, TunError> {
        let other = |error: rustix::io::Errno| TunError::Other(NULL_DEVICE.to_owned(), error.into());
        let never_readable = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(other)?;
        Ok(Tun {
            file: never_readable.into(),
            name: NULL_DEVICE.to_owned(),
            bare: false,
            is_null: true,
            offloads: TunOffloads::default(),
            states: [OffloadState::SwitchedOff, OffloadState::SwitchedOff],
        })
    }

    /// A queue of a device that is there.
    fn adopt(descriptor: &OwnedFd, config: &TunConfig) -> Result<Tun, TunError> {
        let bad = |error: io::Error| TunError::BadDescriptor(error.to_string());
        let file = File::from(descriptor.try_clone().map_err(bad)?);
        let (name, flags) = adit_sys::tun_flags(file.as_fd()).map_err(bad)?;
        let has = |flag| flags & flag == flag;
        if !has(libc::IFF_TUN | libc::IFF_NO_PI) {
            let text = format!("{name} is not made with IFF_TUN and IFF_NO_PI");
            return Err(TunError::BadDescriptor(text));
        }
        let nonblocking = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::NONBLOCK));
        nonblocking.map_err(|error| bad(error.into()))?;
        let bare = !has(libc::IFF_VNET_HDR);
        let (offloads, states) = if bare {
            let lacks = Err("the device was made without IFF_VNET_HDR".to_owned());
            (TunOffloads::default(), [true, true].map(|wanted| OffloadState::new(wanted, &lacks)))
        } else {
            adit_sys::tun_set_header_size(file.as_fd(), VNET_HEADER).map_err(bad)?;
            set_offloads(file.as_fd(), config.offloads)
        };
        Ok(Tun { file, name, bare, is_null: false, offloads, states })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offloads that the kernel agreed to.
    pub fn offloads(&self) -> TunOffloads {
        self.offloads
    }

    /// Whether TCP and UDP super-packets are in use, and why not.
    pub(crate) fn offload_states(&self) -> [OffloadState; 2] {
        self.states.clone()
    }

    /// Reads one packet with its header into `buffer` (of `READ_BUFFER` bytes) and gives the length of
    /// both. `WouldBlock` when none waits.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.bare {
            return Ok(rustix::io::read(&self.file, buffer)?);
        }
        let too_short = || io::Error::from_raw_os_error(libc::EINVAL);
        let (header, packet) = buffer.split_at_mut_checked(VNET_HEADER).ok_or_else(too_short)?;
        header.fill(0);
        Ok(VNET_HEADER + rustix::io::read(&self.file, packet)?)
    }

    /// Writes one packet: the first piece is a header, or begins with one, and the rest is the packet.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_null {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        if !self.bare {
            return Ok(rustix::io::writev(&self.file, pieces)?);
        }
        let mut packet = pieces.to_vec();
        let mut rest = packet.as_mut_slice();
        IoSlice::advance_slices(&mut rest, VNET_HEADER);
        Ok(rustix::io::writev(&self.file, rest)?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<Tun> for OwnedFd {
    fn from(tun: Tun) -> OwnedFd {
        tun.file.into()
    }
}

/// How the first queue of a device with so many is opened.
fn first_queue(count: usize) -> libc::c_int {
    // Without IFF_TUN_EXCL, opening a device that is there already would give one more queue of it.
    if count < 2 { 0 } else { libc::IFF_MULTI_QUEUE | libc::IFF_TUN_EXCL }
}

/// Sets the attributes of a fresh device.
fn set_up(name: &str, config: &TunConfig) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let device = netlink.link(name)?.index;
    netlink.set_txqueuelen(device, config.txqueuelen)?;
    config.mtu.map_or(Ok(()), |mtu| netlink.set_mtu(device, mtu))
}

/// Opens a queue of the device of that name, which is created if there is none.
fn attach(wanted: &str, queues: libc::c_int) -> Result<(File, String), TunError> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE).map_err(
            |error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => TunError::NoRight(error),
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TunError::NoDriver(error),
                _ => TunError::Other(wanted.to_owned(), error),
            },
        )?;
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queues;
    let name = adit_sys::tun_attach(file.as_fd(), wanted, flags).map_err(|error| {
        let wanted = wanted.to_owned();
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => TunError::NoRight(error),
            Some(libc::EBUSY) => TunError::Busy(wanted),
            Some(libc::EINVAL) => TunError::NotTun(wanted),
            // The file is there, but it is another driver's.
            Some(libc::ENOTTY) => TunError::NoDriver(error),
            _ => TunError::Other(wanted, error),
        }
    })?;
    Ok((file, name))
}

fn check_name(name: &str) -> Result<(), TunError> {
    let plain = name.strip_suffix("%d").unwrap_or(name);
    let good = !name.is_empty()
        && name.len() < libc::IFNAMSIZ
        && !matches!(name, "." | "..")
        && plain.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%' | b':'));
    if good { Ok(()) } else { Err(TunError::BadName(name.to_owned())) }
}

/// Asks for the most, then for less, until the kernel agrees.
fn set_offloads(tun: BorrowedFd<'_>, switches: OffloadSwitches) -> (TunOffloads, [OffloadState; 2]) {
    let OffloadSwitches { tun_tcp, tun_udp, .. } = switches;
    let mut on = TunOffloads::default();
    let mut works = [Ok(()), Ok(())];
    for (tcp, udp) in [(tun_tcp, tun_udp), (tun_tcp, false)] {
        if !tcp && !udp {
            break;
        }
        let wanted = TunOffloads { checksum: true, tcp, udp };
        match adit_sys::tun_set_offload(tun, features(wanted)) {
            Ok(()) => {
                on = wanted;
                break;
            }
            Err(error) => works[usize::from(udp)] = Err(format!("the kernel refuses it: {error}")),
        }
    }
    let [tcp, udp] = works;
    (on, [OffloadState::new(tun_tcp, &tcp), OffloadState::new(tun_udp, &udp)])
}

fn features(offloads: TunOffloads) -> libc::c_uint {
    [
        (offloads.checksum, libc::TUN_F_CSUM),
        (offloads.tcp, libc::TUN_F_TSO4 | libc::TUN_F_TSO6),
        (offloads.udp, libc::TUN_F_USO4 | libc::TUN_F_USO6),
    ]
    .into_iter()
    .filter_map(|(on, bits)| on.then_some(bits))
    .fold(0, |all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use adit_core::TunnelSettings;
    use adit_system::Routing;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::udp::readable;

    #[test]
    fn names() {
        for good in ["tun0", "tun%d", "adit-1", "x"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a/b", "0123456789abcdef", "a b", ".", "..", "a%s", "%d%d", "a:1", "tün"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    fn ping_self(address: &str) {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"through the tunnel", (address, 9)).unwrap();
    }

    #[test]
    fn packets_come_and_go() {
        in_fresh_network(|| {
            let name = Some("adit-t".to_owned());
            let config = TunConfig { name, txqueuelen: 77, ..TunConfig::default() };
            let tun = Tun::create(&config).unwrap();
            assert_eq!(tun.name(), "adit-t");
            assert_eq!(tun.offloads(), TunOffloads { checksum: true, tcp: true, udp: true });
            let mut routing = Routing::new("adit-t").unwrap();
            let settings = TunnelSettings {
                addresses: vec!["10.99.0.1/24".parse().unwrap()],
                mtu: 1400,
                ..TunnelSettings::default()
            };
            assert_eq!(routing.apply(&settings), []);

            let mut buffer = vec![0; READ_BUFFER];
            ping_self("10.99.0.2");
            let packet = loop {
                assert!(readable(tun.as_fd()).unwrap(), "the packet did not come");
                let length = tun.read(&mut buffer).unwrap();
                // The kernel itself may speak first (IPv6 router solicitations).
                if buffer[VNET_HEADER] >> 4 == 4 {
                    break &mut buffer[..length];
                }
            };
            assert!(packet.ends_with(b"through the tunnel"));

            // The packet goes back, with source and destination exchanged (which keeps the checksums).
            let receiver = std::net::UdpSocket::bind("10.99.0.1:9").unwrap();
            let (source, destination) = (packet[22..26].to_vec(), packet[26..30].to_vec());
            packet[22..26].copy_from_slice(&destination);
            packet[26..30].copy_from_slice(&source);
            let (head, tail) = packet.split_at(40);
            tun.write(&[IoSlice::new(head), IoSlice::new(tail)]).unwrap();
            let mut received = [0; 64];
            let (length, from) = receiver.recv_from(&mut received).unwrap();
            assert_eq!(&received[..length], b"through the tunnel");
            assert_eq!(from.ip().to_string(), "10.99.0.2");
        });
    }

    #[test]
    fn failures_name_the_guilty_party() {
        in_fresh_network(|| {
            let config = |name: &str| TunConfig { name: Some(name.to_owned()), ..TunConfig::default() };
            let tun = Tun::create(&TunConfig::default()).unwrap();
            assert_eq!(tun.name(), "tun0");
            assert!(matches!(Tun::create(&config("tun0")), Err(TunError::Busy(name)) if name == "tun0"));
            assert!(matches!(Tun::create(&config("lo")), Err(TunError::NotTun(_))));
            drop(tun);
            assert_eq!(create_again(&config("tun0")).name(), "tun0");
        });
    }

    /// A process that another test is just starting may still hold a copy of the descriptor of the device before.
    fn create_again(config: &TunConfig) -> Tun {
        let try_once = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            Tun::create(config).ok()
        };
        (0..2000).find_map(try_once).expect("the name is free")
    }

    #[test]
    fn a_device_has_the_queues_that_were_asked_for() {
        in_fresh_network(|| {
            let mut queues = Tun::create_queues(&TunConfig::default(), 3).unwrap();
            assert_eq!(queues.len(), 3);
            assert!(queues.iter().all(|queue| queue.name() == "tun0" && queue.offloads().tcp));
            let again = TunConfig { name: Some("tun0".to_owned()), ..TunConfig::default() };
            assert!(matches!(Tun::create_queues(&again, 2), Err(TunError::Busy(_))));
            assert!(matches!(Tun::create(&again), Err(TunError::NotTun(_))));
            queues.truncate(1);
            assert!(
                matches!(Tun::create_queues(&again, 2), Err(TunError::Busy(_))),
                "it lives as long as a queue"
            );
            drop(queues);
            assert_eq!(create_again(&again).name(), "tun0");
        });
    }

    #[test]
    fn offloads_can_be_switched_off() {
        in_fresh_network(|| {
            let mut config = TunConfig::default();
            config.offloads.tun_udp = false;
            let expected = TunOffloads { checksum: true, tcp: true, udp: false };
            let tun = Tun::create(&config).unwrap();
            assert_eq!(tun.offloads(), expected);
            assert_eq!(tun.offload_states(), [OffloadState::On, OffloadState::SwitchedOff]);
            drop(tun);
            config.offloads.tun_tcp = false;
            let tun = Tun::create(&config).unwrap();
            assert_eq!(tun.offloads(), TunOffloads::default());
            assert_eq!(tun.offload_states(), [OffloadState::SwitchedOff, OffloadState::SwitchedOff]);
        });
    }
}
