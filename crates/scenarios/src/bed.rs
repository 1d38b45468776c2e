//! The hosts of a scenario: a network namespace each, with a file system of its own.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Namespace, Process, TestbedError, program};

use crate::Failure;
use crate::files::{self, FIREWALL, OPEN, Program, SCRIPTS};
use crate::scenario::Scenario;
use crate::topology::{self, Host, ROUTER, Segment};

/// Makes the file system of a host of that root (`$0`), in a mount namespace of its own: programs and `/etc` of the root,
/// the program adit (`$1`), and empty folders. Then waits for ever.
const HOLD: &str = "set -e; root=$0 adit=$1; mount -t tmpfs tmpfs /mnt; cd /mnt; \
     mkdir -p dev proc sys tmp run var/log var/lib var/tmp var/www usr root; chmod 1777 tmp; \
     for name in bin sbin lib lib64; do ln -s usr/$name $name; done; ln -s ../run var/run; \
     mount --bind \"$root/usr\" usr; mount -t tmpfs tmpfs usr/local; mkdir -p usr/local/bin usr/local/libexec/ipsec; \
     touch usr/local/bin/adit; mount --bind \"$adit\" usr/local/bin/adit; cp -a \"$root/etc\" etc; \
     mount --rbind /dev dev; mount -t proc proc proc; mount -t sysfs sysfs sys; \
     echo ready; exec chroot . sleep infinity";

/// Names are those of `/etc/hosts` alone.
const NAMES: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n";
/// The settings of each network namespace: those of `hosts/default/etc/sysctl.d`, and addresses that are usable at once.
const SETTINGS: [&str; 7] = [
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.ping_group_range=0 2147483647",
];
/// At winnetou: the server of revocation lists, and OCSP responders of three authorities.
const LISTS: &str = "busybox httpd -p 80 -h /var/www; number=8880; for folder in /etc/ca /etc/ca/research /etc/ca/sales; do \
     setsid socat TCP6-LISTEN:$number,ipv6only=0,reuseaddr,fork EXEC:\"/usr/local/bin/answer $folder/ocsp/ocsp.cgi\" \
     </dev/null >/dev/null 2>&1 & number=$((number + 1)); done";
/// The server for commands from other hosts.
const SHELLS: &str = "sed -i s/^root:[^:]*/root:/ /etc/shadow; mkdir -p /run/sshd; \
     printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' >>/etc/ssh/ssh_config; \
     /usr/sbin/sshd -o PermitRootLogin=yes -o PermitEmptyPasswords=yes -o UsePAM=no </dev/null >/dev/null 2>&1";

/// The folders that all scenarios share.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// The folder `testing` of strongSwan's sources.
    pub(crate) testing: PathBuf,
    /// The installed Debian whose programs the hosts run.
    pub(crate) root: PathBuf,
    /// The program adit.
    pub(crate) adit: PathBuf,
}

/// The hosts of a scenario and the network that joins them.
pub(crate) struct Bed {
    hosts: Vec<RunningHost>,
    _switch: Namespace,
}

/// A host that runs.
pub(crate) struct RunningHost {
    pub(crate) host: &'static Host,
    pub(crate) program: Program,
    holder: Process,
    namespace: Namespace,
}

impl Bed {
    /// Makes the hosts of the scenario. `adit_at` is the one that runs adit.
    pub(crate) fn create(
        sources: &Sources,
        scenario: &Scenario,
        adit_at: Option<&str>,
    ) -> Result<Bed, Failure> {
        let switch = Namespace::create("switch")?;
        for segment in Segment::ALL {
            switch.ip(&["link", "add", segment.bridge(), "type", "bridge"])?;
            switch.ip(&["link", "set", segment.bridge(), "up"])?;
        }
        switch.ip(&["address", "add", ROUTER, "dev", Segment::Outside.bridge()])?;
        let mut bed = Bed { hosts: Vec::new(), _switch: switch };
        for name in &scenario.settings.hosts {
            let host = topology::host(name).ok_or_else(|| format!("{}: no host {name}", scenario.name))?;
            let program = if adit_at == Some(host.name) { Program::Adit } else { Program::StrongSwan };
            let running = RunningHost::create(sources, host, program)?;
            running.connect(&bed._switch)?;
            running.install(sources, scenario)?;
            running.bring_up(scenario)?;
            bed.hosts.push(running);
        }
        for name in &scenario.settings.captures {
            bed.host(name)?.run("start-capture eth0", Duration::from_secs(10))?;
        }
        Ok(bed)
    }

    /// The host of that name.
    pub(crate) fn host(&self, name: &str) -> Result<&RunningHost, Failure> {
        let found = self.hosts.iter().find(|running| running.host.name == name);
        found.ok_or_else(|| format!("the scenario has no host '{name}'").into())
    }
}

impl RunningHost {
    fn create(sources: &Sources, host: &'static Host, program_of_it: Program) -> Result<Self, TestbedError> {
        let namespace = Namespace::create(host.name)?;
        let mut command = program("unshare")?;
        command.args(["--mount", "sh", "-c", HOLD]).arg(&sources.root).arg(&sources.adit);
        let mut holder = namespace.spawn(host.name, command)?;
        holder.wait_for_line(0, "ready", MAX_WAIT)?;
        Ok(RunningHost { host, program: program_of_it, holder, namespace })
    }

    /// Joins its devices to the bridges of their segments.
    fn connect(&self, switch: &Namespace) -> Result<(), TestbedError> {
        let mut settings = program("sysctl")?;
        settings.arg("-qw").args(SETTINGS);
        self.namespace.run(settings)?;
        for device in self.host.devices {
            let port = format!("{}-{}", self.host.name, device.name);
            let own = ["type", "veth", "peer", "name", device.name, "netns", self.namespace.name()];
            switch.ip(&[&["link", "add", &port][..], &own].concat())?;
            switch.ip(&["link", "set", &port, "master", device.segment.bridge(), "up"])?;
        }
        Ok(())
    }

    /// Its files: those of all scenarios, those of this one, and those that stand in for the virtual machine's.
    fn install(&self, sources: &Sources, scenario: &Scenario) -> Result<(), Failure> {
        let (name, hosts) = (self.host.name, sources.testing.join("hosts"));
        fs::copy(hosts.join("default/etc/hosts"), self.path("etc/hosts"))?;
        for folder in ["swanctl", "ca"] {
            copy_all(&hosts.join(name).join("etc").join(folder), &self.path("etc").join(folder))?;
        }
        copy_all(&hosts.join(name).join("www"), &self.path("var/www"))?;
        self.put("etc/resolv.conf", "", 0o644)?;
        let own = sources.testing.join("tests").join(&scenario.name).join("hosts").join(name).join("etc");
        copy_all(&own, &self.path("etc"))?;
        let conf = fs::read_to_string(self.path("etc/strongswan.conf"))?;
        self.put("etc/strongswan.conf", &files::with_libipsec(&conf), 0o644)?;
        let conf = files::strongswan_conf(conf.contains("kernel-libipsec"));
        self.put("etc/strongswan.conf.testing", &conf, 0o644)?;
        FIREWALL.iter().try_for_each(|file| self.put(&format!("etc/{file}"), OPEN, 0o644))?;
        self.put("etc/nsswitch.conf", NAMES, 0o644)?;
        fs::create_dir_all(self.path("etc/network"))?;
        self.put("etc/network/devices", &files::devices(self.host), 0o644)?;
        for (script, text) in SCRIPTS {
            self.put(&format!("usr/local/bin/{script}"), text, 0o755)?;
        }
        self.put("usr/local/bin/systemctl", &files::systemctl(self.program), 0o755)?;
        self.put("usr/local/bin/hostname", &format!("#!/bin/sh\necho {name}\n"), 0o755)?;
        self.put("usr/local/libexec/ipsec/_updown", "#!/bin/sh\n", 0o755)?;
        Ok(())
    }

    fn bring_up(&self, scenario: &Scenario) -> Result<(), Failure> {
        for device in self.host.devices.iter().filter(|device| device.is_up) {
            self.run(&format!("ifup {}", device.name), Duration::from_secs(10))?;
        }
        if self.host.name == "winnetou" {
            self.run(LISTS, Duration::from_secs(30))?;
        }
        if scenario.checks.iter().any(|check| check.step.command.starts_with("ssh ")) {
            self.run(SHELLS, Duration::from_secs(30))?;
        }
        Ok(())
    }

    /// The place of one of its files in the file system of this process.
    fn path(&self, inner: &str) -> PathBuf {
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(inner)
    }

    /// Writes one of its files.
    fn put(&self, inner: &str, text: &str, mode: u32) -> io::Result<()> {
        let path = self.path(inner);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    }

    /// One of its files, empty if it is not there.
    pub(crate) fn read(&self, inner: &str) -> String {
        let bytes = fs::read(self.path(inner.trim_start_matches('/'))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command of a shell on it, for as long as `limit`.
    pub(crate) fn run(&self, text: &str, limit: Duration) -> Result<Output, Failure> {
        let mut command = Command::new("timeout");
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("STRONGSWAN_CONF", "/etc/strongswan.conf.testing").env("HOME", "/root").env("LANG", "C");
        command.args(["--kill-after=5", &limit.as_secs().to_string()]);
        command.args([
            "nsenter",
            "--target",
            &self.holder.id().to_string(),
            "--mount",
            "--net",
            "--root",
            "--wd",
        ]);
        command.args(["bash", "-c", text]);
        Ok(command.output()?)
    }
}

/// Copies what is in a folder, with addresses in their places. A folder that is not there has nothing in it.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_all(&source, &target)?;
            continue;
        }
        let content = fs::read(&source)?;
        let content = match std::str::from_utf8(&content) {
            Ok(text) => topology::addressed(text).into_bytes(),
            Err(_) => content,
        };
        fs::write(&target, content)?;
        fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
    }
    Ok(())
}
