//! An end of libreswan: one child SA for IPv4, as a traffic selector of libreswan is one network.

use std::process::Command;

use adit_testbed::{TestbedError, program, wait_until};

use super::{End, Settings, WAIT};

/// Where Debian puts libreswan's own programs.
const PROGRAMS: &str = "/usr/libexec/ipsec";

impl End {
    /// Its files (ipsec.conf(5), ipsec.secrets(5)). Further lines of the connection are in libreswan's words.
    pub(super) fn write_libreswan(&self, settings: &Settings, outer: [&str; 2]) {
        let (own, other) = (self.number - 1, 2 - self.number);
        let auto = if own == 1 && settings.start == "start" { "start" } else { "add" };
        let text = format!(
            "config setup\n\tuniqueids=no\nconn t\n\tauto={auto}\n\tikev2=insist\n\tauthby=secret\n\tike=aes_gcm256-sha2_384-dh31\n\
             \tesp=aes_gcm256\n\tpfs=no\n\tleft={}\n\tleftid=@end{}.example\n\tleftsubnet=10.77.{}.0/24\n\tleftsourceip={}\n\
             \tright={}\n\trightid=@end{}.example\n\trightsubnet=10.77.{}.0/24\n{}",
            outer[own],
            own + 1,
            own + 1,
            self.inner(),
            outer[other],
            other + 1,
            other + 1,
            settings.connection[own],
        );
        self.put("ipsec.conf", &text);
        self.put(
            "ipsec.secrets",
            &format!("@end1.example @end2.example : PSK \"{}\"\n", settings.secrets[own]),
        );
    }

    /// Starts `pluto` (ipsec-pluto(8)) with folders of its own.
    pub(super) fn start_libreswan(&mut self) {
        let folder = self.path("pluto");
        std::fs::create_dir_all(&folder).unwrap();
        let mut database = program("ipsec").unwrap();
        database.args(["initnss", "--nssdir"]).arg(&folder);
        self.namespace.run(database).unwrap();
        let mut command = Command::new(format!("{PROGRAMS}/pluto"));
        command.args(["--nofork", "--stderrlog", "--no-dnssec", "--nhelpers", "0"]);
        command.arg("--config").arg(self.path("ipsec.conf"));
        command.arg("--secretsfile").arg(self.path("ipsec.secrets"));
        command.arg("--nssdir").arg(&folder).arg("--rundir").arg(&folder);
        self.process = Some(self.namespace.spawn("pluto", command).unwrap());
        wait_until("pluto", WAIT, || self.namespace.is_bound(false, 4500).unwrap()).unwrap();
    }

    /// Gives `pluto` an order, and waits until it has obeyed.
    pub(crate) fn whack(&self, order: &str) -> Result<String, TestbedError> {
        let mut command = Command::new(format!("{PROGRAMS}/whack"));
        command.arg("--rundir").arg(self.path("pluto")).arg(order).args(["--name", "t"]);
        self.namespace.run(command)
    }
}
