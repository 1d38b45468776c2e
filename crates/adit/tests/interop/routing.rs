//! Routes, name servers, and that nothing leaves beside the tunnel.

pub(crate) mod dns;
pub(crate) mod forwarding;
pub(crate) mod leaks;
pub(crate) mod marks;
pub(crate) mod passtos;
pub(crate) mod routes;
