mod directories;
mod grammar;
mod keys;
mod own_settings;
mod whole;
mod wild;
pub(crate) mod world;
