mod errors;
mod parse;
mod profiles;
mod round_trip;
