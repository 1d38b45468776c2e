//! Authentication of clients, beside certificates: passwords, challenges, scripts, a management client.

pub(crate) mod back_ends;
pub(crate) mod challenges;
pub(crate) mod management_client;
pub(crate) mod passwords;
pub(crate) mod scripts;
mod smart_cards;
