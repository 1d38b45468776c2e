//! libreswan: IKEv2 by its daemon, ESP by the kernel.

use std::path::PathBuf;
use std::process::Command;

use adit_testbed::{TestbedError, program, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

const ENDS: [&str; 2] = ["server", "client"];
/// Where Debian puts libreswan's own programs.
const PROGRAMS: &str = "/usr/libexec/ipsec";
/// The name of the connection in the files.
const CONNECTION: &str = "lab";

/// libreswan at both ends.
#[derive(Debug)]
pub(super) struct Libreswan;

/// The folder of one end: the daemon's keys, process id and socket.
fn folder(testbed: &Testbed, end: usize) -> PathBuf {
    testbed.directory.path().join(ENDS[end])
}

/// The daemon of one end, with its files written (ipsec.conf(5), ipsec-pluto(8)).
fn daemon(testbed: &Testbed, end: usize) -> Result<Command, TestbedError> {
    let (name, directory) = (ENDS[end], folder(testbed, end));
    std::fs::create_dir(&directory)
        .map_err(|source| TestbedError::File { path: directory.clone(), source })?;
    // The end that is "left" is the server in both files: libreswan finds out which one it is itself.
    let auto = if end == 0 { "add" } else { "start" };
    let configuration = format!(
        "config setup\n\tuniqueids=no\nconn {CONNECTION}\n\tauto={auto}\n\tikev2=insist\n\tauthby=secret\n\tesp=aes_gcm256\n\
         \tleft={}\n\tleftid=@server\n\tleftsubnet={}/32\n\tleftsourceip={}\n\tright={}\n\trightid=@client\n\trightsubnet={}/32\n\
         \trightsourceip={}\n",
        OUTER[0], INNER[0], INNER[0], OUTER[1], INNER[1], INNER[1]
    );
    let configuration = testbed.directory.write(&format!("{name}.conf"), &configuration)?;
    let secrets = testbed
        .directory
        .write(&format!("{name}.secrets"), "@server @client : PSK \"measured here, long enough\"\n")?;
    let mut database = program("ipsec")?;
    database.args(["initnss", "--nssdir"]).arg(&directory);
    testbed.server.run(database)?;
    let mut command = Command::new(format!("{PROGRAMS}/pluto"));
    command.args(["--nofork", "--stderrlog", "--no-dnssec", "--config"]).arg(configuration);
    command.arg("--secretsfile").arg(secrets).arg("--nssdir").arg(&directory).arg("--rundir").arg(&directory);
    Ok(command)
}

/// Whether the server's daemon has read its connection, which it does when it listens.
fn is_loaded(testbed: &Testbed) -> bool {
    let mut status = Command::new(format!("{PROGRAMS}/whack"));
    status.arg("--rundir").arg(folder(testbed, 0)).arg("--status");
    testbed.server.run(status).is_ok_and(|text| text.contains(&format!("\"{CONNECTION}\":")))
}

impl Subject for Libreswan {
    fn name(&self) -> String {
        "libreswan".to_owned()
    }

    fn about(&self) -> String {
        "libreswan with the kernel's ESP, AES-256-GCM".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        if let Some(lacks) = kernel::lacks(Ability::Esp) {
            return lacks;
        }
        match version("ipsec", &["--version"]) {
            Some(version) if version.contains("Libreswan") => Availability::Installed(version),
            Some(_) => Availability::Impossible(
                "strongSwan is installed, and Debian has one of both at a time".to_owned(),
            ),
            None => Availability::Installable("apt-get install --yes libreswan".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        for (namespace, address) in [(&testbed.server, INNER[0]), (&testbed.client, INNER[1])] {
            namespace.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
        }
        let (server, client) = (daemon(testbed, 0)?, daemon(testbed, 1)?);
        testbed.start_server(server)?;
        wait_until("pluto to have its connection", testbed.timeout, || is_loaded(testbed))?;
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}
