//! Programs that are run when the tunnel comes up and goes down.

use super::Out;
use super::server::command;
use crate::model::{NameServerSetting, TunnelScripts};

/// `announced`: scripts are allowed already.
pub(crate) fn print_scripts(out: &mut Out, scripts: &TunnelScripts, announced: bool) {
    if !announced && scripts.commands().next().is_some() {
        out.one("script-security", 2);
    }
    let commands = [
        ("up", &scripts.up),
        ("down", &scripts.down),
        ("route-up", &scripts.route_up),
        ("route-pre-down", &scripts.route_pre_down),
        ("ipchange", &scripts.ip_change),
        ("tls-verify", &scripts.tls_verify),
    ];
    for (name, argv) in commands {
        if let Some(argv) = argv {
            out.one(name, command(argv));
        }
    }
    match &scripts.names {
        NameServerSetting::Default => {}
        NameServerSetting::Force => out.one("dns-updown", "force"),
        NameServerSetting::Disable => out.one("dns-updown", "disable"),
        NameServerSetting::Script(argv) => out.one("dns-updown", command(argv)),
    }
    let flags = [
        ("up-restart", scripts.at_restarts),
        ("down-pre", scripts.down_before_close),
        ("persist-tun", scripts.keeps_device),
        ("ifconfig-noexec", scripts.leaves_device),
        ("route-noexec", scripts.leaves_routes),
    ];
    flags.into_iter().filter(|(_, set)| *set).for_each(|(name, _)| out.flag(name));
    if let Some(delay) = scripts.route_delay {
        out.seconds("route-delay", delay);
    }
    if let Some(gateway) = scripts.gateway {
        out.one("route-gateway", gateway);
    }
    for (name, value) in &scripts.env {
        out.line("setenv", &[name, value]);
    }
}
