//! PPTP: pptpd and pptp-linux, with PPP in the kernel and GRE by themselves.

use adit_testbed::{program, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, ppp, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

/// The control connection's (RFC 2637 §1.3).
const CONTROL: u16 = 1723;

/// PPTP without encryption: its encryption (MPPE with RC4) is broken, and needs secrets in the system's own files.
#[derive(Debug)]
pub(super) struct Pptp;

impl Subject for Pptp {
    fn name(&self) -> String {
        "pptp".to_owned()
    }

    fn about(&self) -> String {
        "pptpd and pptp-linux, no encryption".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        if let Some(lacks) = kernel::lacks(Ability::Ppp) {
            return lacks;
        }
        match (version("pptpd", &["--version"]), program("pptp")) {
            (Some(version), Ok(_)) => Availability::Installed(version),
            _ => Availability::Installable("apt-get install --yes pptpd pptp-linux".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let [server_options, client_options] = ppp::write_options(&testbed.directory)?;
        let (own, other) = (INNER[0], INNER[1]);
        let text = format!("option {}\nlocalip {own}\nremoteip {other}\n", server_options.display());
        let configuration = testbed.directory.write("pptpd.conf", &text)?;
        let mut server = program("pptpd")?;
        server.arg("--fg").arg("--conf").arg(configuration);
        testbed.start_server(server)?;
        let listens = || testbed.server.is_bound(true, CONTROL).unwrap_or(false);
        wait_until("pptpd to listen", testbed.timeout, listens)?;
        let mut client = program("pppd")?;
        let connection = format!("pptp {} --nolaunchpppd", OUTER[0]);
        client.args(["pty", &connection, "nodetach", "file"]).arg(client_options);
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}
