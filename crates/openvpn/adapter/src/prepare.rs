//! The preparation of an OpenVPN tunnel in two steps, as the management socket is opened between them: [`settle()`] finds the things
//! that the system must have, and [`plan()`] makes the parameters of the protocol, for which a password may have to be asked for.

mod plan;
mod settle;
mod stand_in;

use std::fmt::Display;
use std::path::Path;

use adit_openvpn_config::Parsed;

pub(crate) use self::plan::{Plan, Secured, plan};
pub(crate) use self::settle::{Settled, settle};
use crate::fault::Fault;
use crate::place::place;
use adit_host::failure::Failure;

/// The failure for a fault of the management socket, with the line of the directive. A fault of `management` itself, such as a port
/// that is taken or a file that is not there, is the system's and not the configuration's.
pub(crate) fn management_fault(parsed: &Parsed, file: &Path, (directive, why): Fault) -> Failure {
    match directive {
        "management" => Failure::World(format!("{}: {why}", place(parsed, file, &["management"]))),
        _ => at_line(parsed, file, directive, &why),
    }
}

/// The failure for an error in what a directive names, with the line of the directive.
fn at_line(parsed: &Parsed, file: &Path, directive: &str, error: &dyn Display) -> Failure {
    Failure::Configuration(format!("{}: {error}", place(parsed, file, &[directive])))
}

#[cfg(test)]
mod tests;
