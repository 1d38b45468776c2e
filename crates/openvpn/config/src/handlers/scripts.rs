//! Directives on the programs that run when the tunnel comes up and goes down.

use std::time::Duration;

use adit_core::configuration::Problem;

use super::access::command;
use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but};
use crate::draft::{Draft, ScriptsDraft};
use crate::model::{NameServerSetting, TunnelScripts};

type Done = Result<Effect, String>;

/// Programs that do nothing but to set name servers.
const SET_NAME_SERVERS: [&str; 4] =
    ["update-resolv-conf", "update-systemd-resolved", "openvpn-update-resolv-conf", "dns-updown"];
/// OpenVPN's delay where `route-delay` names none (its options.c).
const ROUTE_DELAY: Duration = Duration::from_secs(5);

/// Whether a program does nothing but to set name servers, by its name.
pub fn sets_name_servers(program: &str) -> bool {
    let file = program.rsplit('/').next().unwrap_or_default().trim_end_matches(".sh");
    SET_NAME_SERVERS.contains(&file)
}

/// `up`, `down` and the others that are one command line.
pub(crate) fn script(draft: &mut Draft, args: &Args<'_>) -> Done {
    let argv = command(args, 0)?;
    let name = args.name();
    let dispensable = matches!(name, "up" | "down") && is_dispensable(&argv);
    draft.scripts.at.push((args.entry.at.clone(), dispensable));
    let scripts = &mut draft.scripts.scripts;
    let slot = match name {
        "up" => &mut scripts.up,
        "down" => &mut scripts.down,
        "route-up" => &mut scripts.route_up,
        "route-pre-down" => &mut scripts.route_pre_down,
        _ => &mut scripts.ip_change,
    };
    *slot = Some(argv);
    done()
}

fn is_dispensable(argv: &[String]) -> bool {
    argv.first().is_some_and(|program| sets_name_servers(program))
}

/// `tls-verify`; its place was noted.
pub(crate) fn tls_verify(draft: &mut Draft, args: &Args<'_>) -> Done {
    let argv = command(args, 0)?;
    draft.access_at.push((args.entry.at.clone(), 2));
    draft.access.tls_verify = Some(argv);
    done()
}

pub(crate) fn dns_updown(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scripts.scripts.names = match args.get(0)? {
        "disable" => NameServerSetting::Disable,
        "force" => NameServerSetting::Force,
        _ => {
            draft.scripts.at.push((args.entry.at.clone(), false));
            NameServerSetting::Script(command(args, 0)?)
        }
    };
    done()
}

/// Directives that are switches.
pub(crate) fn flag(draft: &mut Draft, args: &Args<'_>) -> Done {
    let scripts = &mut draft.scripts.scripts;
    match args.name() {
        "up-restart" => scripts.at_restarts = true,
        "down-pre" => scripts.down_before_close = true,
        "ifconfig-noexec" => scripts.leaves_device = true,
        "route-noexec" => scripts.leaves_routes = true,
        _ => {
            scripts.keeps_device = true;
            return done_but("adit keeps the device in any case; scripts run as this says");
        }
    }
    done()
}

pub(crate) fn route_delay(draft: &mut Draft, args: &Args<'_>) -> Done {
    let delay = if args.opt(0).is_some() { args.seconds(0)? } else { ROUTE_DELAY };
    draft.scripts.scripts.route_delay = Some(delay).filter(|delay| !delay.is_zero());
    done()
}

/// The scripts, if the file allows scripts. adit does without those that only set name servers.
pub(crate) fn plan(draft: &mut Draft, is_server: bool, problems: &mut Vec<Problem>) -> TunnelScripts {
    let ScriptsDraft { mut scripts, at } = std::mem::take(&mut draft.scripts);
    let allowed = draft.script_security.unwrap_or(1) >= 2;
    if !allowed {
        for (at, _) in at.iter().filter(|(_, dispensable)| !dispensable) {
            problems.push(at.problem("write `script-security 2` to allow this script"));
        }
        let runs = |argv: &Vec<String>| !is_dispensable(argv);
        let had_up = scripts.up.is_some();
        scripts.up = scripts.up.filter(runs);
        scripts.down = scripts.down.filter(runs);
        if had_up && scripts.up.is_none() {
            scripts.names.take_over();
        }
    }
    if !is_server {
        for (at, _) in draft.access_at.iter().filter(|_| !allowed) {
            problems.push(at.problem("write `script-security 2` to allow this script"));
        }
        scripts.tls_verify = draft.access.tls_verify.take();
    }
    scripts
}
