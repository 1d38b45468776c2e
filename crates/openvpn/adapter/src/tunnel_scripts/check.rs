//! Whether the programs of a configuration are there, before anything is set up.

use adit_host::programs::is_program;
use adit_openvpn_config::{NameServerSetting, TunnelScripts};

/// Removes the scripts that only set name servers where their program is not installed: adit sets them then. Gives what is
/// to be said of them.
///
/// # Errors
/// The directive and the program of another script that cannot be run, and why.
pub(crate) fn check(scripts: &mut TunnelScripts) -> Result<Vec<String>, (&'static str, String)> {
    let mut warnings = Vec::new();
    let TunnelScripts { up, down, route_up, route_pre_down, ip_change, tls_verify, names, .. } = scripts;
    for (directive, argv) in [("up", up), ("down", down)] {
        let Some(program) = argv.as_ref().and_then(|argv| argv.first()) else { continue };
        let Err(why) = is_program(program) else { continue };
        if !adit_openvpn_config::sets_name_servers(program) {
            return Err((directive, why));
        }
        warnings.push(format!("{directive}: {why}; adit sets the name servers itself"));
        *argv = None;
        if directive == "up" {
            names.take_over();
        }
    }
    let names = match names {
        NameServerSetting::Script(argv) => Some(&*argv),
        _ => None,
    };
    let others = [
        ("route-up", route_up.as_ref()),
        ("route-pre-down", route_pre_down.as_ref()),
        ("ipchange", ip_change.as_ref()),
        ("tls-verify", tls_verify.as_ref()),
        ("dns-updown", names),
    ];
    for (directive, argv) in others {
        if let Some(program) = argv.and_then(|argv| argv.first()) {
            is_program(program).map_err(|why| (directive, why))?;
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(up: &str, route_up: &str) -> TunnelScripts {
        let argv = |program: &str| Some(vec![program.to_owned()]);
        TunnelScripts { up: argv(up), route_up: argv(route_up), ..TunnelScripts::default() }
    }

    #[test]
    fn a_program_that_is_not_there_is_a_mistake_unless_adit_can_do_without() {
        let mut good = scripts("/bin/sh", "/bin/true");
        assert_eq!(check(&mut good), Ok(Vec::new()));
        assert!(good.up.is_some());
        let (directive, why) = check(&mut scripts("/bin/sh", "/nowhere/up")).unwrap_err();
        assert!(directive == "route-up" && why.contains("/nowhere/up"), "{why}");
        let (_, why) = check(&mut scripts("/etc/passwd", "/bin/true")).unwrap_err();
        assert!(why.contains("chmod +x"), "{why}");
        let mut known = scripts("/nowhere/update-resolv-conf", "/bin/true");
        assert_eq!(check(&mut known).map(|warnings| warnings.len()), Ok(1));
        assert!(known.up.is_none() && known.names == NameServerSetting::Force, "adit sets the name servers");
    }
}
