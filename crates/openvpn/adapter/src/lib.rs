//! OpenVPN's adapter ([`OpenVpn`]): reads configuration files, sets up their tunnels, and answers the requests of the protocol:
//! scripts, passwords, the management socket, the files of clients.
//!
//! A tunnel (`tunnel`) has one configuration, and is set up and run on a thread of its own (`run`). `command` is the command line of
//! OpenVPN 2.6, `adopt` is the part of `adit adopt` that concerns OpenVPN's units.
#![forbid(unsafe_code)]

mod adapter;
mod adopt;
mod asking;
mod attempts;
mod back_ends;
mod bench;
mod changes;
mod clients;
mod codec;
mod command;
mod configuration;
mod credentials;
mod expiry;
mod external_key;
mod facts;
mod fault;
mod file;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hashed;
mod hosts;
mod log_lines;
mod log_manner;
mod management;
mod manual;
mod observer;
mod orders;
mod password_file;
mod peer_names;
mod pkcs11;
mod place;
mod plan;
mod prepare;
mod privileges;
mod proxies;
mod reload;
mod reload_order;
mod revocations;
mod run;
mod script_policy;
mod scripts;
mod setup;
mod static_tunnel;
mod status_file;
mod status_source;
mod tls;
mod translate;
mod tunnel;
mod tunnel_scripts;
mod unlock;
mod watched;

pub use crate::adapter::OpenVpn;

/// The name of the protocol for people.
const TITLE: &str = "OpenVPN";
/// The name of the protocol in the command line of a helper.
const NAME: &str = "openvpn";
/// The first line of `--version` and of a log. The second word is the version of OpenVPN whose command line this is, which
/// programs compare.
const VERSION: &str = concat!("OpenVPN 2.6.14 adit ", env!("CARGO_PKG_VERSION"), " [SSL (AWS-LC)] [AEAD]");
