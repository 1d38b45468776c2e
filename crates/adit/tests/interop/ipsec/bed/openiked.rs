//! An end of OpenIKED, which negotiates no AEAD for ESP on Linux: AES-256-CBC with SHA-512.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use adit_testbed::{program, wait_until};

use super::{End, Settings, WAIT, WIRE};

impl End {
    /// Its file (iked.conf(5)). Further lines of the connection are in OpenIKED's words.
    pub(super) fn write_openiked(&self, settings: &Settings, outer: [&str; 2]) {
        let (own, other) = (self.number - 1, 2 - self.number);
        let mode = if own == 1 && settings.start == "start" { "active" } else { "passive" };
        let text = format!(
            "ikev2 \"t\" {mode} esp from 10.77.{}.0/24 to 10.77.{}.0/24 local {} peer {} \
             ikesa enc aes-256-gcm prf hmac-sha2-384 group curve25519 childsa enc aes-256 auth hmac-sha2-512 \
             srcid end{}.example dstid end{}.example {} psk \"{}\"\n",
            own + 1,
            other + 1,
            outer[own],
            outer[other],
            own + 1,
            other + 1,
            settings.connection[own],
            settings.secrets[own],
        );
        self.put("iked.conf", &text);
        set_permissions(self.path("iked.conf"), Permissions::from_mode(0o600)).unwrap();
    }

    /// Starts `iked` with a /run of its own. It leaves routes to others.
    pub(super) fn start_openiked(&mut self) {
        let network = format!("10.77.{}.0/24", 3 - self.number);
        let source = self.inner().to_string();
        self.namespace.ip(&["route", "replace", &network, "dev", WIRE, "src", &source]).unwrap();
        let script =
            format!("mount -t tmpfs none /run && exec iked -d -v -f {}", self.path("iked.conf").display());
        let mut command = program("unshare").unwrap();
        command.args(["-m", "sh", "-c", &script]);
        self.process = Some(self.namespace.spawn("iked", command).unwrap());
        wait_until("iked", WAIT, || self.namespace.is_bound(false, 4500).unwrap()).unwrap();
    }

    /// Has `iked` delete all its IKE SAs (ikectl(8)).
    pub(crate) fn reset_openiked(&self) {
        let process = self.process.as_ref().unwrap().id().to_string();
        let mut command = program("nsenter").unwrap();
        command.args(["--mount", "--target", &process, "ikectl", "reset", "sa"]);
        self.namespace.run(command).unwrap();
    }
}
