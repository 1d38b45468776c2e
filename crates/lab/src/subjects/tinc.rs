//! tinc 1.0.

use std::process::Command;

use adit_testbed::{TestbedError, program};

use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed, bring_up};

/// The MTU that it sets itself, with room for its own headers.
const MTU: u16 = 1400;
const NAMES: [&str; 2] = ["server", "client"];
const DEVICE: &str = "tinc0";
/// The settings for a link of some kilobits a second. As it comes, tinc 1.0 sends packets of up to 1500 bytes for half
/// a minute to learn the path's MTU (net_packet.c: three a second and their echoes, four times what 10.3 kb/s carries),
/// and takes its own connection for dead when nothing could be sent over it for five seconds, which is less than what
/// may wait in front of such a link. So nothing else comes through: 16 KiB did not in two minutes. With both settings
/// they take 14 s.
const SLOW: &str = "PMTUDiscovery = no\nPingTimeout = 60\n";

/// tinc at both ends, with its default cipher.
#[derive(Debug)]
pub(super) struct Tinc;

impl Tinc {
    /// The folder of one end, with both hosts' files and a key.
    fn write(testbed: &Testbed) -> Result<(), TestbedError> {
        let failed = |source| TestbedError::File { path: testbed.directory.path().to_owned(), source };
        for (name, address) in NAMES.iter().zip(OUTER) {
            let own = testbed.directory.path().join(name);
            std::fs::create_dir_all(own.join("hosts")).map_err(failed)?;
            let other = if *name == NAMES[1] { "ConnectTo = server\n" } else { "" };
            let slow = if testbed.is_slow() { SLOW } else { "" };
            let text =
                format!("Name = {name}\nMode = router\nInterface = {DEVICE}\nPort = {PORT}\n{other}{slow}");
            std::fs::write(own.join("tinc.conf"), text).map_err(failed)?;
            let inner = INNER[usize::from(*name == NAMES[1])];
            let host = format!("Address = {address}\nPort = {PORT}\nSubnet = {inner}/32\n");
            std::fs::write(own.join("hosts").join(name), host).map_err(failed)?;
            let mut keys = program("tincd")?;
            keys.arg("-c").arg(&own).arg("-K2048");
            testbed.server.run(keys)?;
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let hosts =
                |end: usize| testbed.directory.path().join(NAMES[end]).join("hosts").join(NAMES[from]);
            std::fs::copy(hosts(from), hosts(to)).map_err(failed)?;
        }
        Ok(())
    }

    fn command(testbed: &Testbed, end: usize) -> Result<Command, TestbedError> {
        let own = testbed.directory.path().join(NAMES[end]);
        let mut command = program("tincd")?;
        command.arg("-c").arg(&own).arg("-D").arg("--pidfile").arg(own.join("pid"));
        Ok(command)
    }
}

impl Subject for Tinc {
    fn name(&self) -> String {
        "tinc".to_owned()
    }

    fn about(&self) -> String {
        "tinc 1.0 in router mode, its default cipher".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        match version("tincd", &["--version"]) {
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None => Availability::Installable("apt-get install --yes tinc".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        Tinc::write(testbed)?;
        testbed.start_server(Tinc::command(testbed, 0)?)?;
        bring_up(&testbed.server, DEVICE, INNER[0], MTU)?;
        let client = Tinc::command(testbed, 1)?;
        let started = testbed.start_client(client, |namespace| bring_up(namespace, DEVICE, INNER[1], MTU))?;
        Ok(Tunnel::up(started))
    }
}
