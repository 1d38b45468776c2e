//! Handlers of directives, by subject. Each reads the arguments of one directive into the draft.

pub(crate) mod access;
pub(crate) mod auth;
pub(crate) mod data;
pub(crate) mod external;
pub(crate) mod management;
pub(crate) mod network;
pub(crate) mod peer_check;
pub(crate) mod plugin;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod pushed;
pub(crate) mod routes;
pub(crate) mod scripts;
pub(crate) mod server;
pub(crate) mod tls;
