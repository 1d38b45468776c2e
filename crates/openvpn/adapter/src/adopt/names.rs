//! The unit that a name on the command line means.

use std::path::Path;

/// Directories below OpenVPN's, each with the template of the unit that runs its files (upstream's two, and Debian's).
const PLACES: [(&str, &str); 3] =
    [("server", "openvpn-server"), ("client", "openvpn-client"), ("", "openvpn")];

/// The unit that a name means: of a unit, of a configuration below `directory` without its ending, or of a file. `running` finds
/// the unit that runs a file which is elsewhere.
///
/// # Errors
/// When it means none or several.
pub(super) fn unit(
    name: &str,
    directory: &Path,
    running: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<String, String> {
    if name.contains('/') || name.ends_with(".conf") {
        return of_file(Path::new(name), directory, running);
    }
    if name.ends_with(".service") {
        return Ok(name.to_owned());
    }
    if name.contains('@') {
        return Ok(format!("{name}.service"));
    }
    let found: Vec<String> = PLACES
        .iter()
        .filter(|(place, _)| directory.join(place).join(format!("{name}.conf")).is_file())
        .map(|(_, template)| format!("{template}@{name}.service"))
        .collect();
    match &found[..] {
        [] => Ok(format!("{name}.service")),
        [unit] => Ok(unit.clone()),
        _ => Err(format!("{name} may be any of {}: name the unit", found.join(", "))),
    }
}

fn of_file(
    file: &Path,
    directory: &Path,
    running: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<String, String> {
    let absolute = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if !absolute.is_file() {
        return Err(format!("{}: there is no such file", file.display()));
    }
    let is_in = |place: &str| absolute.parent().is_some_and(|parent| parent == directory.join(place));
    let place = PLACES.iter().find(|(place, _)| is_in(place));
    let is_conf = absolute.extension().is_some_and(|ending| ending == "conf");
    let stem = absolute.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_conf);
    match (place, stem) {
        (Some((_, template)), Some(stem)) if is_instance(stem) => Ok(format!("{template}@{stem}.service")),
        _ => running(&absolute),
    }
}

/// Whether a unit's instance can have this name without escapes (systemd.unit(5)).
fn is_instance(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ":-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn a_name_means_a_unit() {
        let scratch = Scratch::create("adopt-names").expect("a directory");
        for directory in ["server", "client"] {
            std::fs::create_dir(scratch.path().join(directory)).expect("a directory");
        }
        for file in
            ["server/office.conf", "client/home.conf", "both.conf", "server/both.conf", "server/a b.conf"]
        {
            scratch.write(file, "").expect("a file");
        }
        let running = |file: &Path| Err(format!("{} does not run", file.display()));
        let unit = |name: &str| unit(name, scratch.path(), &running);
        assert_eq!(unit("openvpn-server@x"), Ok("openvpn-server@x.service".to_owned()));
        assert_eq!(unit("my-vpn.service"), Ok("my-vpn.service".to_owned()));
        assert_eq!(unit("my-vpn"), Ok("my-vpn.service".to_owned()));
        assert_eq!(unit("office"), Ok("openvpn-server@office.service".to_owned()));
        assert_eq!(unit("home"), Ok("openvpn-client@home.service".to_owned()));
        assert!(unit("both").is_err_and(|why| why.contains("openvpn@both.service")));
        let file = |name: &str| unit(scratch.path().join(name).to_str().expect("text"));
        assert_eq!(file("both.conf"), Ok("openvpn@both.service".to_owned()));
        assert_eq!(file("server/both.conf"), Ok("openvpn-server@both.service".to_owned()));
        assert!(file("server/a b.conf").is_err_and(|why| why.ends_with("a b.conf does not run")));
        assert!(file("server/none.conf").is_err_and(|why| why.contains("no such file")));
    }
}
