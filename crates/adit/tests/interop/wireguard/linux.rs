//! Steps of Linux's `tools/testing/selftests/wireguard/netns.sh` that need no kernel module, in our own words.
//! `docs/measure/WIREGUARD-PEERS.md` lists all steps.

mod configuration;
mod ecn;
mod loops;
mod routing;
mod sources;
mod traffic;
