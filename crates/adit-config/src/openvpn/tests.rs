mod errors;
mod parse;
mod profiles;
mod proxies;
mod round_trip;
