//! How connections end, survive outages, and roam.

pub(crate) mod first_answers;
pub(crate) mod lifetime;
pub(crate) mod no_device;
pub(crate) mod outages;
pub(crate) mod port_share;
pub(crate) mod proxies;
pub(crate) mod roaming;
pub(crate) mod sockets;
