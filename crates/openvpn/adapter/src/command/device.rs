//! `--mktun` and `--rmtun`: a TUN device that is there without a process.

use adit_guard::Account;
use adit_io::{Tun, TunConfig, TunOwner};
use adit_system::Netlink;

use super::stand_alone::argument;
use adit_host::exit;
use adit_host::failure::Failure;
use adit_openvpn_config::CommandLineOption;

/// `--mktun --dev NAME [--user USER] [--group GROUP]`.
pub(super) fn make(options: &[CommandLineOption]) -> Result<(), Failure> {
    let name = name(options)?;
    let world = |error: &dyn std::fmt::Display| Failure::World(error.to_string());
    let account = Account::find(argument(options, "user"), argument(options, "group"));
    let account = account.map_err(|error| Failure::Configuration(error.to_string()))?;
    // As in OpenVPN, `tun` and `tun%d` leave the number to the kernel.
    let config = TunConfig { name: Some(name).filter(|name| name != "tun"), ..TunConfig::default() };
    let tun = Tun::create(&config).map_err(|error| world(&error))?;
    if let Some(account) = account {
        let owner = TunOwner { user: account.user_id(), group: account.group_id() };
        tun.give_to(owner).map_err(|error| world(&error))?;
    }
    tun.persist(true).map_err(|error| world(&error))?;
    tell(&tun, "ON");
    Ok(())
}

/// `--rmtun --dev NAME`.
pub(super) fn remove(options: &[CommandLineOption]) -> Result<(), Failure> {
    let name = name(options)?;
    // Else it would be made first.
    let is_there = Netlink::open().and_then(|mut netlink| netlink.link(&name));
    is_there.map_err(|_| Failure::World(format!("there is no device {name}")))?;
    let config = TunConfig { name: Some(name), ..TunConfig::default() };
    let tun = Tun::create(&config).map_err(|error| Failure::World(error.to_string()))?;
    tun.persist(false).map_err(|error| Failure::World(error.to_string()))?;
    tell(&tun, "OFF");
    Ok(())
}

fn tell(tun: &Tun, state: &str) {
    exit::say(format_args!("TUN/TAP device {} opened\nPersist state set to: {state}", tun.name()));
}

fn name(options: &[CommandLineOption]) -> Result<String, Failure> {
    let name = argument(options, "dev");
    let name =
        name.ok_or_else(|| Failure::Configuration("You must define TUN/TAP device (--dev)".to_owned()))?;
    let is_tap = argument(options, "dev-type").map_or(name.starts_with("tap"), |kind| kind == "tap");
    if is_tap {
        let why = "adit carries IP packets (tun) only, no Ethernet; write `--dev tunN`, or `--dev-type tun`";
        return Err(Failure::Configuration(why.to_owned()));
    }
    Ok(name.to_owned())
}
