//! `adit adopt`: a tunnel of another program is run by adit.

use std::process::ExitCode;
use std::time::Duration;

use adit_host::adoption::{Adoption, Order, adopt};
use adit_host::exit;

use crate::adapters::{ALL, help};

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::ADOPT, long_about = help::ADOPT_LONG)]
pub(crate) struct Args {
    /// The unit, or a name that a protocol knows.
    #[arg(value_name = "NAME", help = help::ADOPT_NAME)]
    name: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The time for peers.
    #[arg(long, help = help::ADOPT_WITHIN, value_name = "TIME", value_parser = duration)]
    within: Option<Duration>,
    /// Have the other program run it again.
    #[arg(long, help = help::ADOPT_BACK, conflicts_with_all = ["dry_run", "within"])]
    back: bool,
}

/// Runs the command.
pub(crate) fn run(Args { name, dry_run, within, back }: Args) -> ExitCode {
    let programs: Vec<&dyn Adoption> =
        ALL.iter().filter_map(|adapter| adapter.adoption()).map(|it| it as _).collect();
    let order = Order { name: &name, is_dry_run: dry_run, within, is_back: back };
    match adopt(&order, &programs) {
        Ok(said) => {
            exit::say(said);
            ExitCode::SUCCESS
        }
        Err(failure) => failure.exit(),
    }
}

/// Reads a time such as `90`, `90s` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let (digits, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = digits.parse::<u32>().map_err(|_| "give a time such as 90s or 2m".to_owned())?;
    Ok(Duration::from_secs(u64::from(seconds) * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("2m", 120)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "1h", "1.5m", "99999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
