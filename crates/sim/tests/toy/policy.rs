//! The series of sessions between two ends, and the packets that each may carry.
//!
//! The selectors cross: one series has the packets to or from a port at the responder, the other one the packets to or
//! from a port at an initiator. The responder may send more packets than initiators may receive, and these refuse the
//! rest.

use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{Flow, Selector};

/// The responder. Initiators count from 1.
pub(crate) const RESPONDER: usize = 0;
/// Ports of packets that are selected, and of others.
pub(crate) const PORT: u16 = 7000;
pub(crate) const OTHER_PORT: u16 = 7001;
pub(crate) const FAR_PORT: u16 = 9;
/// How many series of sessions two ends have.
pub(crate) const SERIES: usize = 2;

pub(crate) fn inner(end: usize) -> IpAddr {
    IpAddr::from([10, 9, 0, end as u8 + 1])
}

/// The selectors of each series at one of two ends.
pub(crate) fn series(local: usize, remote: usize) -> [Arc<[Selector]>; SERIES] {
    let any = Selector::between(inner(local).into(), inner(remote).into());
    let any = Selector { protocol: Some(17), ..any };
    let (first, last) = (PORT - 5, PORT);
    match local {
        RESPONDER => [
            Arc::from([Selector { local_ports: first..=last, ..any.clone() }]),
            Arc::from([Selector { remote_ports: first..=OTHER_PORT, ..any }]),
        ],
        _ => [
            Arc::from([Selector { remote_ports: first..=last, ..any.clone() }]),
            Arc::from([Selector { local_ports: first..=last, ..any }]),
        ],
    }
}

/// The series at an end that may carry a packet.
pub(crate) fn select(local: usize, remote: usize, flow: &Flow) -> [bool; SERIES] {
    series(local, remote).map(|selectors| selectors.iter().any(|selector| selector.matches(flow)))
}
