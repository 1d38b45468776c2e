//! vtun.

use std::process::Command;

use adit_testbed::{Namespace, TestbedError, program};

use super::{Availability, Subject, Tools, Tunnel, lacks_tun};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed};

/// Room for the headers of IPv4 and UDP, vtun's length, and a cipher's padding.
const MTU: u16 = 1400;
const DEVICE: &str = "vtun0";
const ENDS: [&str; 2] = ["server", "client"];

/// vtun over UDP at both ends. It has no authentication of packets in any mode; its default cipher does not work under
/// OpenSSL 3; and its chained modes end with the first datagram that is lost, as the bytes that it opens then are no
/// packet any more.
#[derive(Debug)]
struct Vtun {
    suffix: &'static str,
    about: &'static str,
    /// The cipher in its file's words.
    encrypt: &'static str,
    compress: &'static str,
}

const ALL: [Vtun; 4] = [
    Vtun { suffix: "", about: "AES-256-ECB without authentication", encrypt: "aes256ecb", compress: "no" },
    Vtun {
        suffix: "-aes128",
        about: "AES-128-ECB without authentication",
        encrypt: "aes128ecb",
        compress: "no",
    },
    Vtun { suffix: "-none", about: "no encryption", encrypt: "no", compress: "no" },
    Vtun { suffix: "-lzo", about: "AES-256-ECB, LZO", encrypt: "aes256ecb", compress: "lzo:1" },
];

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    ALL.into_iter().map(|subject| Box::new(subject) as Box<dyn Subject>).collect()
}

impl Vtun {
    fn configuration(&self) -> String {
        let Vtun { encrypt, compress, .. } = self;
        format!(
            "options {{ port {PORT}; timeout 20; }}\n\
             lab {{ passwd measured-here; type tun; device {DEVICE}; proto udp; compress {compress};\n \
             encrypt {encrypt}; keepalive no; persist no; timeout 10; }}\n"
        )
    }

    /// Makes the device of vtun and sets it up: vtun reads its device at once, and gives up when that is not
    /// up yet.
    fn device(namespace: &Namespace, address: &str) -> Result<(), TestbedError> {
        namespace.ip(&["tuntap", "add", "dev", DEVICE, "mode", "tun"])?;
        namespace.ip(&["address", "add", &format!("{address}/24"), "dev", DEVICE])?;
        namespace.ip(&["link", "set", DEVICE, "mtu", &MTU.to_string(), "up"]).map(drop)
    }
}

impl Subject for Vtun {
    fn name(&self) -> String {
        format!("vtun{}", self.suffix)
    }

    fn about(&self) -> String {
        format!("vtun over UDP, {}", self.about)
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        let Ok(mut command) = program("vtund") else {
            return Availability::Installable("apt-get install --yes vtun".to_owned());
        };
        // vtun has no option for its version, but says it with its message on an unknown one.
        let output = command.arg("-h").output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let version = text.lines().find(|line| line.starts_with("VTun ver")).unwrap_or("VTun").to_owned();
        lacks_tun().unwrap_or(Availability::Installed(version))
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        Vtun::device(&testbed.server, INNER[0])?;
        Vtun::device(&testbed.client, INNER[1])?;
        let command = |end: usize| -> Result<Command, TestbedError> {
            let name = format!("{}.conf", ENDS.get(end).copied().unwrap_or_default());
            let file = testbed.directory.write(&name, &self.configuration())?;
            let mut command = program("vtund")?;
            command.arg("-n").arg("-f").arg(file);
            Ok(command)
        };
        let (mut server, mut client) = (command(0)?, command(1)?);
        server.arg("-s");
        client.args(["lab", OUTER[0]]);
        testbed.start_server(server)?;
        testbed.wait_until_bound(true)?;
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}
