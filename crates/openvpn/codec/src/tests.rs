//! Ends of tunnels with OpenVPN's data channel.

mod batches;
mod framings;
mod keys;
mod security;
mod static_key;
