//! Which offloads may be used, and which are.

/// Which offloads may be used. An offload that the kernel does not know is left out by itself; a switch is
/// for a kernel that has it and gets it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadSwitches {
    /// TCP packets of up to 64 KiB to and from the TUN device (TSO4, TSO6).
    pub tun_tcp: bool,
    /// UDP packets of up to 64 KiB to and from the TUN device (USO4, USO6; Linux 6.2).
    pub tun_udp: bool,
    /// Many datagrams in one send (UDP_SEGMENT; Linux 4.18).
    pub udp_send: bool,
    /// Many datagrams in one receive (UDP_GRO; Linux 5.0).
    pub udp_receive: bool,
}

impl OffloadSwitches {
    /// No offload at all.
    pub const NONE: OffloadSwitches =
        OffloadSwitches { tun_tcp: false, tun_udp: false, udp_send: false, udp_receive: false };
}

impl Default for OffloadSwitches {
    fn default() -> Self {
        OffloadSwitches { tun_tcp: true, tun_udp: true, udp_send: true, udp_receive: true }
    }
}

/// Whether an offload is in use, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OffloadState {
    /// The offload is in use.
    On,
    /// A switch forbids it.
    #[default]
    SwitchedOff,
    /// The offload was tried and does not work here; the text has the error.
    Failed(String),
}

impl OffloadState {
    /// The state that follows from a switch and a trial.
    pub(crate) fn new(allowed: bool, trial: &Result<(), String>) -> OffloadState {
        match trial {
            _ if !allowed => OffloadState::SwitchedOff,
            Ok(()) => OffloadState::On,
            Err(why) => OffloadState::Failed(why.clone()),
        }
    }

    /// Whether it is in use.
    pub fn is_on(&self) -> bool {
        *self == OffloadState::On
    }
}

/// The state of each offload, named as in [`OffloadSwitches`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffloadStatus {
    /// TCP packets of up to 64 KiB to and from the TUN device.
    pub tun_tcp: OffloadState,
    /// UDP packets of up to 64 KiB to and from the TUN device.
    pub tun_udp: OffloadState,
    /// Many datagrams in one send.
    pub udp_send: OffloadState,
    /// Many datagrams in one receive.
    pub udp_receive: OffloadState,
}
