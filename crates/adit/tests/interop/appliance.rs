//! Appliances: images that `adit appliance build` makes, in virtual machines.

mod bed;
mod client;
mod dhcp;
mod router;
mod server;
