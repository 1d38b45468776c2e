//! OpenVPN's adapter: reads configuration files, sets up their tunnels, and answers the requests of the protocol: scripts, passwords,
//! the management socket, the files of clients.
//!
//! A [`tunnel`] has one configuration, and is set up and run on a thread of its own ([`run`]).

pub(crate) mod asking;
pub(crate) mod attempts;
pub(crate) mod back_ends;
pub(crate) mod changes;
pub(crate) mod clients;
pub(crate) mod codec;
pub(crate) mod configuration;
pub(crate) mod credentials;
pub(crate) mod expiry;
pub(crate) mod external_key;
pub(crate) mod facts;
pub(crate) mod fault;
pub(crate) mod file;
pub(crate) mod forwarding;
pub(crate) mod hashed;
pub(crate) mod hosts;
pub(crate) mod log_lines;
pub(crate) mod log_manner;
pub(crate) mod management;
pub(crate) mod observer;
pub(crate) mod orders;
pub(crate) mod password_file;
pub(crate) mod peer_names;
pub(crate) mod pkcs11;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod privileges;
pub(crate) mod proxies;
pub(crate) mod reload;
pub(crate) mod reload_order;
pub(crate) mod revocations;
pub(crate) mod run;
pub(crate) mod script_policy;
pub(crate) mod scripts;
pub(crate) mod static_tunnel;
pub(crate) mod status_file;
pub(crate) mod status_source;
pub(crate) mod tls;
pub(crate) mod translate;
pub(crate) mod tunnel;
pub(crate) mod tunnel_scripts;
pub(crate) mod unlock;
pub(crate) mod watched;

/// The name of the protocol in the command line of a helper.
pub(crate) const NAME: &str = "openvpn";
/// The first line of `--version` and of a log. The second word is the version of OpenVPN whose command line this is, which
/// programs compare.
pub(crate) const VERSION: &str =
    concat!("OpenVPN 2.6.14 adit ", env!("CARGO_PKG_VERSION"), " [SSL (AWS-LC)] [AEAD]");
