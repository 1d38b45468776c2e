mod directories;
mod grammar;
mod keys;
mod whole;
mod wild;
mod world;
