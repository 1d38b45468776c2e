//! Two endpoints in memory and virtual time.

mod announced;
mod attacks;
mod authenticated;
mod authority;
mod certificates;
mod child_orders;
mod children;
mod classes;
mod connect;
mod devices;
mod eap;
mod eap_only;
mod eap_tls;
mod field;
mod followup;
mod full_transcript;
mod guards;
mod inner;
mod kept;
mod lookup;
mod mobike;
mod orders;
mod outer;
mod quantum;
mod reauthentication;
mod rekeys;
mod sites;
mod table;
mod world;

use super::shared::Event;
