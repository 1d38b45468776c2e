//! The options of a tunnel, and the two configuration files that they give.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Identity, KeyKind, Root, Scratch, TestbedError, openvpn_command};

/// Which program plays a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Adit,
    OpenVpn,
    /// Debian unstable's OpenVPN, 2.7 or later, in a root of its own ([`NEWER`]).
    NewerOpenVpn,
    /// OpenVPN whose data channel is in the kernel (DCO), where this system is a guest with such a kernel.
    OpenVpnDco,
    /// The command-line client of OpenVPN 3, where [`OPENVPN3`] names it.
    OpenVpn3,
    /// MirageVPN's client, or its server, which has no TUN device and answers echo requests itself; where [`MIRAGEVPN`]
    /// names their directory.
    MirageVpn,
}

/// The root that has the newer OpenVPN.
pub(crate) const NEWER: &str = "unstable";
/// The environment variable that names OpenVPN 3's command-line client, `ovpncli`.
pub(crate) const OPENVPN3: &str = "ADIT_OPENVPN3";
/// The environment variable that names the directory of `miragevpn_client_lwt` and `miragevpn_server_notun`.
pub(crate) const MIRAGEVPN: &str = "ADIT_MIRAGEVPN";

/// The path that an environment variable names.
fn named(variable: &str) -> Result<PathBuf, TestbedError> {
    std::env::var_os(variable).map(PathBuf::from).ok_or(TestbedError::NoProgram(variable.to_owned()))
}

impl Program {
    /// The command that plays that part with that configuration file.
    pub(crate) fn command(self, part: Part, file: &Path) -> Result<Command, TestbedError> {
        match self {
            Program::OpenVpn | Program::OpenVpnDco => openvpn_command(file),
            Program::NewerOpenVpn => {
                let mut command = Root::named(NEWER)?.command("openvpn")?;
                // Its data channel stays in the program, also where the kernel has one.
                command.arg("--config").arg(file).arg("--disable-dco");
                Ok(command)
            }
            Program::OpenVpn3 => {
                let mut command = Command::new(named(OPENVPN3)?);
                command.arg(file);
                Ok(command)
            }
            Program::MirageVpn => {
                let name = match part {
                    Part::Server => "miragevpn_server_notun",
                    Part::Client => "miragevpn_client_lwt",
                };
                let mut command = Command::new(named(MIRAGEVPN)?.join(name));
                command.arg(file);
                Ok(command)
            }
            Program::Adit => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
                command.arg("up").arg(file);
                Ok(command)
            }
        }
    }

    /// Whether it is OpenVPN 2, of whichever version.
    pub(crate) fn is_openvpn(self) -> bool {
        matches!(self, Program::OpenVpn | Program::NewerOpenVpn | Program::OpenVpnDco)
    }

    /// OpenVPN, or adit under that name: a link in `scratch`.
    pub(crate) fn called_as(self, name: &str, scratch: &Scratch) -> Command {
        if self != Program::Adit {
            return adit_testbed::program("openvpn").unwrap();
        }
        let link = scratch.path().join(name);
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_adit"), &link).unwrap();
        }
        Command::new(link)
    }

    /// How its configuration files are named.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Program::OpenVpn3 => "ovpn",
            _ => "conf",
        }
    }

    /// The line that it writes when the tunnel is up.
    pub(crate) fn up_line(self) -> &'static str {
        match self {
            Program::Adit => "tunnel up: ",
            Program::OpenVpn | Program::NewerOpenVpn | Program::OpenVpnDco => {
                "Initialization Sequence Completed"
            }
            Program::OpenVpn3 => "EVENT: CONNECTED",
            Program::MirageVpn => "established ",
        }
    }
}

/// The carrier of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp4,
    Udp6,
    Tcp4,
    Tcp6,
}

/// How control packets are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    Plain,
    /// With the digest of `auth`.
    TlsAuth(&'static str),
    TlsCrypt,
    /// Each side with a key of its own.
    TlsCryptV2,
}

/// A part in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Server,
    Client,
}

/// Everything in which two tunnels may differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub transport: Transport,
    pub wrap: Wrap,
    pub cipher: &'static str,
    pub keys: KeyKind,
    pub tls_version_max: &'static str,
    /// The end whose `reneg-sec` runs out.
    pub renegotiates: Part,
    pub client_to_client: bool,
}

/// Seconds after which the renegotiating side starts a renegotiation.
pub(crate) const RENEGOTIATE_AFTER: u32 = 10;
/// Seconds after the start of a renegotiation at which both sides begin to send under the new key:
/// `hand-window`, and half of [`RENEGOTIATE_AFTER`].
pub(crate) const SWITCH_AFTER: u32 = 5;

/// The server's inner addresses.
pub(crate) const SERVER_INNER: [&str; 2] = ["10.8.0.1", "fd00:8::1"];

impl Transport {
    pub(crate) fn is_tcp(self) -> bool {
        matches!(self, Transport::Tcp4 | Transport::Tcp6)
    }

    pub(crate) fn is_v6(self) -> bool {
        matches!(self, Transport::Udp6 | Transport::Tcp6)
    }

    fn name(self, part: Part) -> &'static str {
        match (self, part) {
            (Transport::Udp4, _) => "udp4",
            (Transport::Udp6, _) => "udp6",
            (Transport::Tcp4, Part::Server) => "tcp4-server",
            (Transport::Tcp4, Part::Client) => "tcp4-client",
            (Transport::Tcp6, Part::Server) => "tcp6-server",
            (Transport::Tcp6, Part::Client) => "tcp6-client",
        }
    }
}

impl Options {
    /// The plainest tunnel.
    pub(crate) const BASE: Options = Options {
        transport: Transport::Udp4,
        wrap: Wrap::Plain,
        cipher: "AES-256-GCM",
        keys: KeyKind::Ecdsa,
        tls_version_max: "1.3",
        renegotiates: Part::Server,
        client_to_client: false,
    };

    /// The server's configuration file.
    pub(crate) fn server(&self, authority: &str, identity: &Identity, static_key: &str) -> String {
        let mut text = self.common(Part::Server, authority, identity, static_key);
        text.push_str(
            "server 10.8.0.0 255.255.255.0\nserver-ipv6 fd00:8::/64\ntopology subnet\ndh none\nport 1194\n\
             keepalive 1 5\nremote-cert-tls client\n",
        );
        if self.client_to_client {
            text.push_str("client-to-client\n");
        }
        text
    }

    /// A client's configuration file.
    pub(crate) fn client(
        &self,
        authority: &str,
        identity: &Identity,
        static_key: &str,
        server: &str,
    ) -> String {
        let mut text = self.common(Part::Client, authority, identity, static_key);
        let _ = write!(text, "client\nnobind\nremote {server} 1194\nremote-cert-tls server\n");
        text
    }

    fn common(&self, part: Part, authority: &str, identity: &Identity, static_key: &str) -> String {
        let mut text = String::from("dev tun\nverb 3\n");
        let _ = writeln!(text, "proto {}", self.transport.name(part));
        let _ = writeln!(text, "data-ciphers {}", self.cipher);
        let _ = writeln!(text, "tls-version-max {}", self.tls_version_max);
        let _ = writeln!(text, "hand-window {SWITCH_AFTER}");
        let after = if self.renegotiates == part { RENEGOTIATE_AFTER } else { 0 };
        let _ = writeln!(text, "reneg-sec {after}");
        if !self.transport.is_tcp() {
            text.push_str("explicit-exit-notify 1\n");
        }
        let blocks = [("ca", authority), ("cert", &identity.certificate), ("key", &identity.key)];
        for (name, content) in blocks {
            let _ = write!(text, "<{name}>\n{content}</{name}>\n");
        }
        match self.wrap {
            Wrap::Plain => {}
            Wrap::TlsAuth(digest) => {
                let direction = if part == Part::Server { 0 } else { 1 };
                let _ = write!(text, "auth {digest}\nkey-direction {direction}\n");
                let _ = write!(text, "<tls-auth>\n{static_key}</tls-auth>\n");
            }
            Wrap::TlsCrypt => {
                let _ = write!(text, "<tls-crypt>\n{static_key}</tls-crypt>\n");
            }
            Wrap::TlsCryptV2 => {
                let _ = write!(text, "<tls-crypt-v2>\n{static_key}</tls-crypt-v2>\n");
            }
        }
        text
    }
}
