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

pub(crate) use client::{client_params, remote_params};
pub(crate) use data::data;
pub(crate) use driver::{driver_config, remotes, txqueuelen};
pub(crate) use own_end::{local_settings, point_to_point_settings};
pub(crate) use peer::warnings;
pub(crate) use server::{point_to_point_params, server_params};
