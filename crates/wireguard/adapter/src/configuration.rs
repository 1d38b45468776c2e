//! A file of wg-quick's from the disk.

use std::path::Path;

use adit_core::configuration::{Failure, Problem};
use adit_guard::{Allowed, Gathered, Scripts};
use adit_wireguard_config as wireguard;

use super::saved;
use adit_host::configuration::{is_exposed, warning};

/// The interface has the name of its file, as in wg-quick.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<wireguard::Parsed, Failure> {
    let name = path.display().to_string();
    let outcome = wireguard::parse(text, &name);
    if path.to_str().and_then(wireguard::interface_name).is_none() {
        let text = "the interface has the name of its file, which is 1 to 15 of `a-zA-Z0-9_=+.-`, and .conf"
            .to_owned();
        let misnamed = Problem { file: name, line: None, text };
        let (problems, report) = match outcome {
            Ok(parsed) => (Vec::new(), parsed.report),
            Err(failure) => (failure.problems, failure.report),
        };
        return Err(Failure { problems: std::iter::once(misnamed).chain(problems).collect(), report });
    }
    let mut parsed = outcome?;
    let wireguard::Config { interface, peers } = &parsed.config;
    let has_key = interface.private_key.is_some() || peers.iter().any(|peer| peer.preshared_key.is_some());
    if has_key && is_exposed(path) {
        parsed.warnings.push(warning(path));
    }
    Ok(parsed)
}

/// How the helper reads and writes files of wg-quick.
pub(crate) const HELPER: adit_guard::Dialect =
    adit_guard::Dialect { gather, rewrite: saved::rewrite, print_leases: |_| String::new() };

/// Reads the WireGuard file in `path` again, for a process that may not. Runs in the helper. A file of OpenVPN is one with a
/// mistake.
///
/// # Errors
/// When the file cannot be read.
fn gather(path: &Path) -> std::io::Result<Gathered> {
    let text = std::fs::read(path)?;
    let parsed = wireguard::parse(&text, &path.to_string_lossy());
    let allowed = parsed.ok().map(|parsed| allowed(&parsed.config));
    Ok(Gathered { text, files: Vec::new(), allowed })
}

/// The requests that a WireGuard file allows: to ask for the addresses of its peers, and to save it if it
/// says so.
pub(crate) fn allowed(config: &wireguard::Config) -> Allowed {
    let endpoints = config.peers.iter().filter_map(|peer| peer.endpoint.as_ref());
    Allowed {
        names: Some(endpoints.map(|endpoint| endpoint.host.clone()).collect()),
        writes_configuration: config.interface.save_config,
        scripts: programs(&config.interface),
        ..Allowed::default()
    }
}

/// A WireGuard file as it was gathered.
///
/// # Errors
/// When it is wrong, one problem a line, or is no such file any more.
pub(crate) fn parse_gathered(path: &Path, gathered: &Gathered) -> Result<wireguard::Parsed, String> {
    let name = path.display().to_string();
    if !wireguard::is_recognized(&gathered.text) {
        return Err(format!("{name}: it is no WireGuard file any more"));
    }
    wireguard::parse(&gathered.text, &name).map_err(|failure| failure.to_string())
}

/// The programs of a WireGuard file, if it has any.
pub(crate) fn programs(interface: &wireguard::Interface) -> Option<Scripts> {
    let commands: Vec<Vec<String>> =
        [&interface.client_connect, &interface.client_disconnect].into_iter().flatten().cloned().collect();
    (!commands.is_empty()).then(|| Scripts {
        commands,
        directory: std::env::temp_dir(),
        ..Scripts::default()
    })
}
