//! The protocol machine of WireGuard, in simulated time.

#[path = "../support/mod.rs"]
mod support;

mod configuration;
mod configured_endpoint;
mod first_answers;
mod flood;
mod gate;
mod handshake;
mod keepalives;
mod load;
mod memory;
mod post_quantum;
mod simulation;
mod streams;
mod timers;
mod uapi;
mod upgrade;
