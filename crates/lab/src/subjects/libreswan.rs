//! libreswan: IKEv2 by its daemon, ESP by the kernel.

use std::process::Command;

use adit_testbed::{TestbedError, program};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

const ENDS: [&str; 2] = ["server", "client"];

/// libreswan at both ends.
#[derive(Debug)]
pub(super) struct Libreswan;

/// The daemon of one end, with its files written (ipsec.conf(5), ipsec_pluto(8)).
fn daemon(testbed: &Testbed, end: usize) -> Result<Command, TestbedError> {
    let name = ENDS.get(end).copied().unwrap_or_default();
    let directory = testbed.directory.path().join(name);
    std::fs::create_dir(&directory)
        .map_err(|source| TestbedError::File { path: directory.clone(), source })?;
    // The end that is "left" is the server in both files: libreswan finds out which one it is itself.
    let auto = if end == 0 { "add" } else { "start" };
    let configuration = format!(
        "config setup\n\tuniqueids=no\nconn lab\n\tauto={auto}\n\tikev2=insist\n\tauthby=secret\n\tesp=aes_gcm256\n\
         \tleft={}\n\tleftid=@server\n\tleftsubnet={}/32\n\tright={}\n\trightid=@client\n\trightsubnet={}/32\n",
        OUTER[0], INNER[0], OUTER[1], INNER[1]
    );
    let configuration = testbed.directory.write(&format!("{name}.conf"), &configuration)?;
    let secrets = testbed
        .directory
        .write(&format!("{name}.secrets"), "@server @client : PSK \"measured here, long enough\"\n")?;
    let mut database = program("ipsec")?;
    database.args(["initnss", "--nssdir"]).arg(&directory);
    testbed.server.run(database)?;
    let mut command = program("ipsec")?;
    command.args(["pluto", "--nofork", "--stderrlog", "--config"]).arg(configuration);
    command.arg("--secretsfile").arg(secrets).arg("--nssdir").arg(&directory).arg("--rundir").arg(&directory);
    Ok(command)
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
        // IKE's own port, which it binds when it is ready to answer.
        let ready = || testbed.server.is_bound(false, 500).unwrap_or(false);
        adit_testbed::wait_until("pluto to listen", testbed.timeout, ready)?;
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}
