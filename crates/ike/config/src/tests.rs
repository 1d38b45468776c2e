mod directories;
mod grammar;
mod keys;
mod own_settings;
mod whole;
mod wild;
mod world;
