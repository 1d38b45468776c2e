//! Network namespaces, links, processes and traffic, for adit's interoperability tests and its lab.
//!
//! Everything made here is a guard: dropping it ends the process, removes the device, or deletes the
//! directory. A run that was killed leaves namespaces behind; the next [`Namespace::create`] sweeps them.
//!
//! Needs root and the program `ip`; the tests also need `openvpn` and `openssl`.
#![forbid(unsafe_code)]

mod capture;
mod certificates;
mod clients;
mod echo;
mod ends;
mod error;
mod flood;
mod flow;
mod guest;
mod listener;
mod loss;
mod machine;
mod namespace;
mod openvpn;
mod ping;
mod priority;
mod process;
mod programs;
mod scratch;
mod spoofed;
mod streams;
mod sweep;
mod systems;
mod terminal;
mod transfer;
mod usage;
mod wireguard;

pub use capture::{Capture, PacketHeader, TrafficSource};
pub use certificates::{Authority, Identity, KeyKind, Purpose, Validity};
pub use clients::Clients;
pub use echo::{FirstDatagram, Probe, round_trips};
pub use ends::Ends;
pub use error::TestbedError;
pub use flood::{Flood, Rates, find_saturation, find_saturation_from, largest_payload, segment_and_gather};
pub use flow::{TcpFlow, TcpLoad, processor_seconds, tcp_flow, while_busy};
pub use guest::{Guest, GuestReport, Kernel};
pub use listener::stop_listening;
pub use loss::{LossCounter, Losses};
pub use machine::{Image, Machine, RunningMachine, SharedFolder};
pub use namespace::{Namespace, connect, remove_everything};
pub use openvpn::{openvpn_command, static_key, tls_crypt_v2_client_key, tls_crypt_v2_keys};
pub use ping::{Ping, PingReport, wait_until_reachable};
pub use priority::Priority;
pub use process::{MAX_WAIT, Process, wait_until};
pub use programs::{can_run, is_root, missing_prerequisites, program};
pub use scratch::Scratch;
pub use spoofed::SpoofedFlood;
pub use streams::{StreamLoad, Streams, first_answers};
pub use sweep::{Sweep, SweepReport};
pub use systems::Root;
pub use terminal::Terminal;
pub use transfer::{Content, Transfer, transfer, transfer_with_timeout};
pub use usage::Usage;
pub use wireguard::{
    WireGuardKeys, configure_wireguard, set_wireguard_port, wireguard_keys, wireguard_listens,
    wireguard_socket,
};
