//! OpenVPN's files, and OpenVPN itself.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use adit_testbed::{Authority, KeyKind, Purpose, TestbedError, Validity, openvpn_command, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version};
use crate::error::LabError;
use crate::layout::client_address;
use crate::testbed::{INNER, OUTER, PORT, TIMEOUT, Testbed};

/// The kind of an OpenVPN tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) tcp: bool,
    pub(super) cipher: &'static str,
    /// OpenVPN's lz4-v2 in both directions.
    pub(super) lz4: bool,
    /// Left to the kernel (DCO).
    pub(super) kernel: bool,
}

impl Shape {
    /// The last parts of a subject's name.
    pub(super) fn suffix(self) -> String {
        let transport = if self.tcp { "tcp" } else { "udp" };
        let cipher = match self.cipher {
            "AES-256-GCM" => "",
            "AES-192-GCM" => "-aes192",
            "AES-128-GCM" => "-aes128",
            "none" => "-none",
            _ => "-chacha20",
        };
        let (lz4, kernel) = (if self.lz4 { "-lz4" } else { "" }, if self.kernel { "-dco" } else { "" });
        format!("{transport}{cipher}{lz4}{kernel}")
    }

    /// Its description, in words.
    pub(super) fn words(self) -> String {
        let transport = if self.tcp { "TCP" } else { "UDP" };
        let lz4 = if self.lz4 { ", lz4" } else { "" };
        let kernel = if self.kernel { ", data channel in the kernel (DCO)" } else { "" };
        match self.cipher {
            "none" => format!("over {transport}, no encryption{lz4}{kernel}"),
            cipher => format!("over {transport}, {cipher}{lz4}{kernel}"),
        }
    }

    /// The two configuration files of a server with many clients, which lack their own addresses.
    fn clients_configurations(self, count: u32) -> Result<[String; 2], TestbedError> {
        let [server, client] = self.configurations()?;
        let (server, client) = (server.replace("verb 3", "verb 1"), client.replace("verb 3", "verb 1"));
        let small = format!("server {}.0 255.255.255.0", network());
        let large = format!("server {}.0 255.255.224.0", network());
        // All show one certificate. By default OpenVPN answers a hundred in ten seconds.
        let more = format!("duplicate-cn\nmax-clients {}\nconnect-freq-initial 100000 10\n", count + 10);
        Ok([server.replace(&small, &large) + &more, client.replace("nobind\n", &format!("lport {PORT}\n"))])
    }

    /// The two configuration files, server first.
    fn configurations(self) -> Result<[String; 2], TestbedError> {
        let authority = Authority::create(KeyKind::Ecdsa)?;
        let end = |name, purpose| authority.issue(name, purpose, Validity::Now);
        let (server, client) = (end("server", Purpose::Server)?, end("client", Purpose::Client)?);
        let network = network();
        let cipher = self.cipher;
        let mut shared = format!("dev tun\ncipher {cipher}\ndata-ciphers {cipher}\nverb 3\n");
        if cipher == "none" {
            shared += "auth none\n";
        }
        if self.lz4 {
            shared += "compress lz4-v2\nallow-compression yes\n";
        }
        let protos = if self.tcp { ["tcp4-server", "tcp4-client"] } else { ["udp4", "udp4"] };
        let mut texts = [
            format!(
                "proto {}\nport {PORT}\nserver {network}.0 255.255.255.0\ntopology subnet\ndh none\n{shared}",
                protos[0]
            ),
            format!(
                "client\nproto {}\nremote {} {PORT}\nnobind\nremote-cert-tls server\n{shared}",
                protos[1], OUTER[0]
            ),
        ];
        for (text, identity) in texts.iter_mut().zip([&server, &client]) {
            for (tag, pem) in
                [("ca", &authority.certificate), ("cert", &identity.certificate), ("key", &identity.key)]
            {
                let _ = write!(text, "<{tag}>\n{}\n</{tag}>\n", pem.trim());
            }
        }
        Ok(texts)
    }
}

/// The first three numbers of the tunnel's addresses.
fn network() -> &'static str {
    INNER[0].rsplit_once('.').map_or(INNER[0], |(network, _)| network)
}

/// Starts a server and gives the commands of its clients, each with an address of its own.
pub(super) fn clients(
    shape: Shape,
    testbed: &mut Testbed,
    count: u32,
    command: &dyn Fn(&Path) -> Result<Command, TestbedError>,
) -> Result<Vec<Command>, LabError> {
    let [server, client] = shape.clients_configurations(count)?;
    let server = testbed.directory.write("server.conf", &server)?;
    testbed.start_server(command(&server)?)?;
    testbed.wait_until_bound(shape.tcp)?;
    let commands = (0..count).map(|number| {
        let text = format!("{client}local {}\n", client_address(number));
        command(&testbed.directory.write(&format!("{number}.ovpn"), &text)?)
    });
    Ok(commands.collect::<Result<Vec<Command>, TestbedError>>()?)
}

/// The command that runs one of the two files.
pub(super) type Run<'a> = &'a dyn Fn(&Path) -> Result<Command, TestbedError>;

/// Brings up a tunnel of these files; `command` is what runs one of them.
pub(super) fn start(shape: Shape, testbed: &mut Testbed, command: Run<'_>) -> Result<Tunnel, LabError> {
    start_between(shape, testbed, [command, command], &|client| client)
}

/// Brings up a tunnel with another program at each end, the server's first. `change` makes the client's file one that
/// its program understands.
pub(super) fn start_between(
    shape: Shape,
    testbed: &mut Testbed,
    run: [Run<'_>; 2],
    change: &dyn Fn(String) -> String,
) -> Result<Tunnel, LabError> {
    let [server, client] = shape.configurations()?;
    let server = testbed.directory.write("server.conf", &server)?;
    let client = testbed.directory.write("client.ovpn", &change(client))?;
    testbed.start_server(run[0](&server)?)?;
    let up = || {
        testbed.server.is_bound(shape.tcp, PORT).unwrap_or(false)
            && testbed.server.devices().is_ok_and(|devices| devices.len() > 1)
    };
    wait_until("the server to listen", TIMEOUT, up)?;
    let started = testbed.start_client(run[1](&client)?, |_| Ok(()))?;
    Ok(Tunnel::up(started))
}

/// Debian's OpenVPN at both ends, without its kernel module.
#[derive(Debug)]
pub(super) struct OpenVpn(pub(super) Shape);

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = Vec::new();
    let mut add = |tcp, cipher, lz4, kernel| all.push(Box::new(OpenVpn(Shape { tcp, cipher, lz4, kernel })));
    for tcp in [false, true] {
        for cipher in ["AES-256-GCM", "AES-128-GCM", "CHACHA20-POLY1305"] {
            add(tcp, cipher, false, false);
        }
        add(tcp, "AES-256-GCM", true, false);
        add(tcp, "AES-256-GCM", false, true);
    }
    add(false, "AES-192-GCM", false, false);
    add(false, "none", false, false);
    add(false, "none", true, false);
    all
}

/// The kernel module to which OpenVPN of that version hands its data channel. The first line of its output names the version.
fn ability(version: &str) -> Ability {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split(['.', '_']).map(|part| part.parse::<u32>().unwrap_or_default());
    match (parts.next(), parts.next()) {
        (Some(2), Some(minor)) if (1..7).contains(&minor) => Ability::OvpnDco,
        _ => Ability::Ovpn,
    }
}

impl OpenVpn {
    pub(super) fn command(&self, file: &Path) -> Result<Command, TestbedError> {
        let mut command = openvpn_command(file)?;
        if !self.0.kernel {
            command.arg("--disable-dco");
        }
        Ok(command)
    }
}

impl Subject for OpenVpn {
    fn name(&self) -> String {
        format!("openvpn-{}", self.0.suffix())
    }

    fn about(&self) -> String {
        format!("OpenVPN {}", self.0.words())
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        match version("openvpn", &["--version"]) {
            Some(version) if self.0.kernel => {
                kernel::lacks(ability(&version)).unwrap_or(Availability::Installed(version))
            }
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None => Availability::Installable("apt-get install --yes openvpn".to_owned()),
        }
    }

    fn clients(&self, testbed: &mut Testbed, _tools: &Tools, count: u32) -> Result<Vec<Command>, LabError> {
        clients(self.0, testbed, count, &|file| self.command(file))
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let tunnel = start(self.0, testbed, &|file| self.command(file))?;
        // Either device type begins so.
        if self.0.kernel && !testbed.client.ip(&["-details", "link", "show"])?.contains(" ovpn") {
            let why = "OpenVPN keeps the data channel to itself; its log says why".to_owned();
            return Err(LabError::Usage(why));
        }
        Ok(tunnel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_openvpn_has_the_data_channel_of_its_time() {
        assert_eq!(ability("OpenVPN 2.6.14 x86_64-pc-linux-gnu [SSL (OpenSSL)]"), Ability::OvpnDco);
        assert_eq!(ability("OpenVPN 2.7.8 x86_64-pc-linux-gnu [SSL (OpenSSL)]"), Ability::Ovpn);
        assert_eq!(ability("OpenVPN 2.7_rc1 x86_64-pc-linux-gnu"), Ability::Ovpn);
        assert_eq!(ability("OpenVPN 3.0.0"), Ability::Ovpn);
    }
}
