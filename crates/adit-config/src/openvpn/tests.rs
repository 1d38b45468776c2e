mod errors;
mod parse;
mod payloads;
mod profiles;
mod proxies;
mod round_trip;
