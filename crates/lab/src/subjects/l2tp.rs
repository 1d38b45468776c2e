//! L2TP (RFC 2661) without IPsec: xl2tpd, and PPP in the kernel.

use std::process::Command;

use adit_testbed::{TestbedError, program, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, ppp};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

/// The port of both ends (RFC 2661 §8.1).
const PORT: u16 = 1701;

/// The place of the data channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// xl2tpd, which gives each packet to PPP by a terminal.
    UserSpace,
    /// The kernel.
    Kernel,
}

/// xl2tpd at both ends. L2TP has no encryption of its own.
#[derive(Debug)]
struct L2tp(Place);

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    [Place::UserSpace, Place::Kernel].map(|place| Box::new(L2tp(place)) as Box<dyn Subject>).into()
}

impl L2tp {
    /// The text of one end's file (xl2tpd.conf(5)): the end's own address on the wire, and what is special of its role.
    fn configuration(&self, address: &str, role: &str) -> String {
        let force = if self.0 == Place::UserSpace { "yes" } else { "no" };
        format!(
            "[global]\nport = {PORT}\nlisten-addr = {address}\nforce userspace = {force}\n{role}\
             require authentication = no\nrequire chap = no\nrequire pap = no\n"
        )
    }

    /// The daemon of one end, with its file written.
    fn daemon(&self, testbed: &Testbed, end: &End<'_>) -> Result<Command, TestbedError> {
        let text = self.configuration(end.address, &end.role);
        let path = |what: &str| testbed.directory.path().join(format!("{}.{what}", end.name));
        let configuration = testbed.directory.write(&format!("{}.conf", end.name), &text)?;
        let mut command = program("xl2tpd")?;
        command
            .arg("-D")
            .arg("-c")
            .arg(configuration)
            .arg("-p")
            .arg(path("pid"))
            .arg("-C")
            .arg(path("control"));
        Ok(command)
    }
}

/// The version that xl2tpd says after an empty line, with an exit status of failure.
fn installed_version() -> Option<String> {
    let output = program("xl2tpd").ok()?.arg("-v").output().ok()?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    text.lines().find(|line| line.contains("version")).map(|line| line.trim().to_owned())
}

/// One end of the tunnel.
struct End<'a> {
    name: &'a str,
    /// On the wire.
    address: &'a str,
    /// The section of its file that makes it the server (LNS) or the client (LAC).
    role: String,
}

impl Subject for L2tp {
    fn name(&self) -> String {
        match self.0 {
            Place::UserSpace => "l2tp".to_owned(),
            Place::Kernel => "l2tp-kernel".to_owned(),
        }
    }

    fn about(&self) -> String {
        let place = match self.0 {
            Place::UserSpace => "in user space",
            Place::Kernel => "by the kernel",
        };
        format!("xl2tpd with its data channel {place}, no encryption")
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        let needed: &[Ability] = match self.0 {
            Place::UserSpace => &[Ability::Ppp],
            Place::Kernel => &[Ability::Ppp, Ability::L2tp],
        };
        if let Some(lacks) = needed.iter().find_map(|ability| kernel::lacks(*ability)) {
            return lacks;
        }
        match installed_version() {
            Some(version) => Availability::Installed(version),
            None => Availability::Installable("apt-get install --yes xl2tpd".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let [server_options, client_options] = ppp::write_options(&testbed.directory)?;
        let role = format!(
            "[lns default]\nip range = {}-{}\nlocal ip = {}\npppoptfile = {}\n",
            INNER[1],
            INNER[1],
            INNER[0],
            server_options.display()
        );
        let server = self.daemon(testbed, &End { name: "server", address: OUTER[0], role })?;
        testbed.start_server(server)?;
        let listens = || testbed.server.is_bound(false, PORT).unwrap_or(false);
        wait_until("xl2tpd to listen", testbed.timeout, listens)?;
        let role = format!(
            "[lac lab]\nlns = {}\nautodial = yes\npppoptfile = {}\n",
            OUTER[0],
            client_options.display()
        );
        let client = self.daemon(testbed, &End { name: "client", address: OUTER[1], role })?;
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_where_the_data_channel_is() {
        for (place, name, words) in [
            (Place::UserSpace, "l2tp", "force userspace = yes\n"),
            (Place::Kernel, "l2tp-kernel", "force userspace = no\n"),
        ] {
            let subject = L2tp(place);
            let text = subject.configuration("192.0.2.1", "[lac lab]\nautodial = yes\n");
            assert_eq!(subject.name(), name);
            assert!(text.contains(words) && text.contains("listen-addr = 192.0.2.1\n"), "{text}");
            // Settings of a role are below its heading (xl2tpd.conf(5)).
            assert!(text.find("[lac lab]") < text.find("require authentication"), "{text}");
        }
    }
}
