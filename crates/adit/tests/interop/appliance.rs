//! Appliances: images that `adit appliance build` makes, in virtual machines.

mod advertisement;
mod bed;
mod client;
mod dhcp;
mod dhcp6;
mod router;
mod server;
mod sizes;
mod sntp;
