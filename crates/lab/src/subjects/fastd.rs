//! fastd.

use std::process::Command;

use adit_testbed::{TestbedError, program};

use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed, bring_up};

/// The MTU that its documentation gives for an outer MTU of 1500 over IPv4, in TUN mode.
const MTU: u16 = 1426;
const DEVICE: &str = "fastd0";
const NAMES: [&str; 2] = ["server", "client"];

/// fastd at both ends, with the method that its documentation recommends.
#[derive(Debug)]
pub(super) struct Fastd;

/// A key pair in hexadecimal digits.
struct Keys {
    secret: String,
    public: String,
}

fn keys(testbed: &Testbed) -> Result<Keys, TestbedError> {
    let mut command = program("fastd")?;
    command.arg("--generate-key");
    let text = testbed.server.run(command)?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim().to_owned())
    };
    match (value("Secret:"), value("Public:")) {
        (Some(secret), Some(public)) => Ok(Keys { secret, public }),
        _ => Err(TestbedError::Output { command: "fastd --generate-key".to_owned(), output: text }),
    }
}

fn configuration(end: usize, own: &Keys, other: &Keys) -> String {
    let bind = if end == 0 { format!("bind {}:{PORT};\n", OUTER[0]) } else { String::new() };
    let remote = if end == 1 { format!("remote {}:{PORT};", OUTER[0]) } else { String::new() };
    format!(
        "log level warn;\nmode tun;\ninterface \"{DEVICE}\";\nmtu {MTU};\nmethod \"salsa2012+umac\";\n{bind}\
         secret \"{}\";\npeer \"{}\" {{ key \"{}\"; {remote} }}\n",
        own.secret,
        NAMES[1 - end],
        other.public
    )
}

impl Subject for Fastd {
    fn name(&self) -> String {
        "fastd".to_owned()
    }

    fn about(&self) -> String {
        "fastd, Salsa20/12 with UMAC".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        match version("fastd", &["--version"]) {
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None => Availability::Installable("apt-get install --yes fastd".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let (server, client) = (keys(testbed)?, keys(testbed)?);
        let command = |end: usize, own: &Keys, other: &Keys| -> Result<Command, TestbedError> {
            let file =
                testbed.directory.write(&format!("{}.conf", NAMES[end]), &configuration(end, own, other))?;
            let mut command = program("fastd")?;
            command.arg("--config").arg(file);
            Ok(command)
        };
        let commands = [command(0, &server, &client)?, command(1, &client, &server)?];
        let [server, client] = commands;
        testbed.start_server(server)?;
        bring_up(&testbed.server, DEVICE, INNER[0], MTU)?;
        let started = testbed.start_client(client, |namespace| bring_up(namespace, DEVICE, INNER[1], MTU))?;
        Ok(Tunnel::up(started))
    }
}
