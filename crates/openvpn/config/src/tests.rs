mod errors;
mod forward;
mod parse;
mod payloads;
mod plugins;
mod profiles;
mod proxies;
mod round_trip;
