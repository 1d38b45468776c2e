//! PKCS#11: keys on smart cards and the like, which a module of the card's maker speaks to.
//!
//! A module is a shared library, and can do whatever its process can. So it is loaded in a process of its own, which holds
//! nothing of the tunnel's ([`serve`]); the tunnel asks that for certificates and signatures over a socket ([`Cards`]).

mod identity;
mod message;
mod module;
mod process;
mod serve;
mod show;

pub(crate) use identity::Identity;
pub(crate) use message::{Ability, Found, Hash, Listing, Operation, Outcome, Pin, Provider, Unreadable};
pub(crate) use process::Cards;
pub(crate) use serve::{NAME, run};
pub(crate) use show::show;
