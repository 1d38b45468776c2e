//! From a parsed configuration to what the protocol and the driver take.

mod client;
mod client_options;
mod control;
mod data;
mod driver;
mod own_end;
mod peer;
mod script_facts;
mod server;

pub(super) use client::{client_params, remote_params};
pub(super) use control::key_direction;
pub(super) use data::{data, keepalive};
pub(super) use driver::{driver_config, remotes, txqueuelen};
pub(super) use own_end::{local_settings, point_to_point_settings};
pub(super) use peer::warnings;
pub(super) use server::{point_to_point_params, server_params};
