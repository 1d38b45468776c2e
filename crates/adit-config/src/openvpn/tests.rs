mod errors;
mod parse;
mod plugins;
mod profiles;
mod proxies;
mod round_trip;
