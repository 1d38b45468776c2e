//! The events in virtual time.

use adit_core::Transport;
use adit_dataplane::{EgressEvent, IngressEvent};
use adit_openvpn::request::Install;

use crate::openvpn::end::{Input, PendingRequest};
use crate::openvpn::net::Transit;

/// An event at a scheduled time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A datagram, a piece of a stream or the end of a connection arrives.
    Arrival(Transit),
    /// A client's attempt to open a path to a remote ends. An event with the `generation` of an earlier process has
    /// no effect.
    OpenCompleted { client: usize, generation: u32, transport: Transport, remote: usize },
    /// An end's process starts.
    Start(usize),
    /// A second passed.
    Second,
    /// An end sends inner packets.
    Traffic(usize),
    /// A protocol handles an input of its data plane.
    Input { end: usize, generation: u32, input: Input },
    /// Half of a data plane applies an order.
    Order { end: usize, generation: u32, order: Order },
    /// An end's request is answered.
    Reply { end: usize, generation: u32, request: PendingRequest },
    /// An attacker sends a captured datagram again.
    Attack,
    /// An attacker sends a datagram of its own making.
    Forgery,
    /// A client gets another address where nothing may be lost.
    Roam,
    /// An end is ordered to renegotiate.
    Rekey,
    /// A fault of a process or of the network.
    ProcessFault,
    /// A fault of a clock or a machine, a smaller path MTU, or a client in another network.
    MachineFault,
    /// The net becomes faulty, or clean again.
    Faulty(bool),
    /// All tunnels must be up now: the first time, or after the faults.
    AllUp,
}

/// An order to one half of a data plane.
#[derive(Debug)]
pub(crate) enum Order {
    /// An order to the half that seals, with the keys in it.
    Egress(EgressEvent, Option<Box<Install>>),
    /// An order to the half that opens.
    Ingress(IngressEvent),
}
