//! Access rules: who may reach what through a tunnel.
//!
//! [`AccessFile`] is the file `access.toml`, as it was written. [`Rules`] is what the file means, compiled once.
//! [`Rules::member`] chooses the rules that can apply to one peer, by its name and groups. A [`Guard`] judges the packets of
//! one direction of that peer: it reads the packet's headers ([`Packet`]), finds the flow of the packet among those that were
//! let through ([`Flows`]), or else asks the rules.
//!
//! - **A rule** allows or refuses packets from one set of places to another one. The first rule that matches decides; if
//!   none matches, `default` does.
//! - **A reply passes**: a packet in the opposite direction of a flow that the rules allow, after the flow's first packet.
//!   A TCP SYN without ACK and an echo request are never replies.
//! - **An ICMP error** is judged by the packet that it quotes, which must be one that its receiver sent and that may pass.
//! - **Fragments**: the first one decides, and has the whole transport header. The later ones pass if the first one has
//!   passed and if they do not overlap it.
//! - **Refused in any case**: headers that cannot be read, source routes (IPv4 options, IPv6 routing headers with segments
//!   left), since they name another destination than the one that the rules see.
//!
//! The crate is pure: no I/O, no clock, no randomness. No packet makes it allocate but the first of a flow where a table
//! grows, at most [`Flows::GROWTHS`] times a table.
#![forbid(unsafe_code)]

mod address;
mod file;
mod flows;
mod fragments;
mod guard;
mod packet;
mod rules;

pub use address::Address;
pub use file::{AccessFile, Action, FileRule, Invalid, Place, Problem, RuleProtocol};
pub use flows::Flows;
pub use guard::{Direction, Guard, Moment, Owner, PeerFlows};
pub use packet::{Facts, Fragment, FragmentKey, Nature, Packet};
pub use rules::{Member, Rules};
