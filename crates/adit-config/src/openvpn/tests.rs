mod errors;
mod parse;
mod payloads;
mod plugins;
mod profiles;
mod proxies;
mod round_trip;
