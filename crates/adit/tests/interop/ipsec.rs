//! adit as an end of IKEv2 and ESP, with Debian's strongSwan at the other end, in both roles.

mod auth;
mod bed;
mod certificates;
mod children;
mod endings;
mod many_initiators;
mod nat;
mod rekeys;
mod rekeys_under_load;
mod reload;
mod suites;
mod vici;
