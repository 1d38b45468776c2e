//! adit as an end of IKEv2 and ESP, with Debian's strongSwan at the other end, in both roles.

mod auth;
mod authority;
mod bed;
mod certificates;
mod children;
mod eap;
mod endings;
mod linux;
mod losses;
mod lost_peers;
mod many;
mod many_initiators;
mod mobike;
mod nat;
mod newer;
mod others;
mod provisioned;
mod rekeys;
mod rekeys_under_load;
mod reload;
mod road_warriors;
mod setup;
mod suites;
mod unit;
mod vici;
mod vici_compared;
