//! The units that run OpenVPN: upstream's, Debian's and VyOS's. Each one's command, environment, capabilities, limits and read-only
//! directories are replayed for adit, called `openvpn`, with a socket in the place of the service manager's.
//! `scripts/test-packages` has systemd itself run them.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{Process, Scratch, can_run, program, wait_until, wait_until_reachable};

use crate::bed::{Bed, Host, PROGRAMS};
use crate::options::{Options, Part, Program, SERVER_INNER};

const WAIT: Duration = Duration::from_secs(60);

/// The capabilities in the bounding set of upstream's units, for both sides.
const CAPABILITIES: &str = "ipc_lock,net_admin,net_raw,setgid,setuid,setpcap,sys_chroot,dac_override";

/// Most processes and threads: upstream's limit (`TasksMax=20` in 2.7). Where a unit allows ten, the package's drop-in raises it
/// (packaging/systemd/10-adit.conf).
const TASKS: usize = 20;

/// A unit. In its command `%t` is the directory of runtime files, `%c` that of configurations, `%i` the instance.
struct Unit {
    name: &'static str,
    side: Part,
    command: &'static str,
    /// Its capabilities beside [`CAPABILITIES`].
    more: &'static str,
    /// Whether it starts in the directory of runtime files, and not in that of configurations.
    in_runtime_directory: bool,
    /// A file that must be there while it runs.
    writes: Option<&'static str>,
    /// The account of its file's `user`. Each unit has its own, as LimitNPROC counts an account's processes.
    user: &'static str,
}

const UNITS: &[Unit] = &[
    Unit {
        name: "upstream's openvpn-server@, 2.6",
        side: Part::Server,
        command: "--status %t/status-%i.log --status-version 2 --suppress-timestamps --config %i.conf",
        more: "net_bind_service,audit_write",
        in_runtime_directory: false,
        writes: Some("status-office.log"),
        user: "games",
    },
    Unit {
        name: "upstream's openvpn-server@, 2.4: no AUDIT_WRITE",
        side: Part::Server,
        command: "--status %t/status-%i.log --status-version 2 --suppress-timestamps --config %i.conf",
        more: "net_bind_service",
        in_runtime_directory: false,
        writes: Some("status-office.log"),
        user: "news",
    },
    Unit {
        name: "upstream's openvpn-client@",
        side: Part::Client,
        command: "--suppress-timestamps --nobind --config %i.conf",
        more: "sys_nice",
        in_runtime_directory: false,
        writes: None,
        user: "uucp",
    },
    Unit {
        name: "Debian's openvpn@, a server",
        side: Part::Server,
        command: "--daemon ovpn-%i --status %t/%i.status 10 --cd %c --config %c/%i.conf --writepid %t/%i.pid",
        more: "net_bind_service,audit_write",
        in_runtime_directory: false,
        writes: Some("office.pid"),
        user: "backup",
    },
    Unit {
        name: "Ubuntu's openvpn@, a client",
        side: Part::Client,
        command: "--daemon ovpn-%i --status %t/%i.status 10 --cd %c --script-security 2 --config %c/%i.conf --writepid %t/%i.pid",
        more: "net_bind_service,audit_write",
        in_runtime_directory: false,
        writes: Some("office.pid"),
        user: "list",
    },
    Unit {
        name: "VyOS's override of openvpn@",
        side: Part::Server,
        command: "--daemon openvpn-%i --config %i.conf --status %i.status 30 --writepid %i.pid",
        more: "net_bind_service,audit_write",
        in_runtime_directory: true,
        writes: Some("office.pid"),
        user: "irc",
    },
];

/// The setup that systemd makes before it runs the command: `PROGRAM CAPABILITIES TASKS DIRECTORY COMMAND...`. A copy
/// of the program, as `ProtectHome` hides where it may lie.
const SETUP: &str = "set -eu
program=$0 capabilities=$1 tasks=$2 directory=$3
shift 3
mount --bind /usr /usr
mount -o remount,bind,ro /usr
for hidden in /home /root; do mount -t tmpfs -o ro,mode=0 tmpfs $hidden; done
cd \"$directory\"
exec prlimit --nproc=\"$tasks\" setpriv --bounding-set=\"-all,$capabilities\" --inh-caps=-all -- \"$program\" \"$@\"";

/// A unit that runs.
struct Service {
    process: Process,
    manager: UnixDatagram,
    runtime: Scratch,
}

impl Service {
    fn start(unit: &Unit, host: &Host, binary: &Path) -> Self {
        let runtime = Scratch::create("unit").unwrap();
        let manager = UnixDatagram::bind(runtime.path().join("notify")).unwrap();
        manager.set_read_timeout(Some(WAIT)).unwrap();
        let directory = if unit.in_runtime_directory {
            fs::copy(host.config(), runtime.path().join("office.conf")).unwrap();
            runtime.path()
        } else {
            symlink(host.config(), host.config().with_file_name("office.conf")).unwrap();
            host.config().parent().unwrap()
        };
        let fill = |word: &str| {
            let word = word.replace("%t", runtime.path().to_str().unwrap()).replace("%i", "office");
            word.replace("%c", directory.to_str().unwrap())
        };
        let mut command = program("unshare").unwrap();
        command.args(["--mount", "sh", "-c", SETUP]).arg(binary);
        let capabilities: Vec<String> =
            [CAPABILITIES, unit.more].join(",").split(',').map(|name| format!("+{name}")).collect();
        command.arg(capabilities.join(",")).arg(TASKS.to_string()).arg(directory);
        command.args(unit.command.split(' ').map(fill));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
        command.env("NOTIFY_SOCKET", runtime.path().join("notify"));
        let process = host.namespace.spawn(unit.name, command).unwrap();
        Service { process, manager, runtime }
    }

    /// Waits until the service manager receives this state.
    fn wait_for(&self, state: &str) -> Result<(), String> {
        let mut buffer = [0; 4096];
        loop {
            let length = self
                .manager
                .recv(&mut buffer)
                .map_err(|error| format!("no {state}: {error}\n{}", self.process.log()))?;
            let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if told.lines().any(|line| line == state) {
                return Ok(());
            }
        }
    }

    /// The process and those that it started.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.process.id()];
        let all: Vec<(u32, u32)> =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| parent(&entry)).collect();
        let mut next = 0;
        while let Some(&pid) = found.get(next) {
            found.extend(all.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
            next += 1;
        }
        found
    }
}

/// A process and its parent.
fn parent(entry: &fs::DirEntry) -> Option<(u32, u32)> {
    let pid = entry.file_name().to_str()?.parse().ok()?;
    let status = fs::read_to_string(entry.path().join("status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    Some((pid, parent.trim().parse().ok()?))
}

/// Processes and threads, as TasksMax counts them.
fn tasks(processes: &[u32]) -> usize {
    processes.iter().map(|pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)).sum()
}

/// The server answers the client's pings in the tunnel.
fn reach(bed: &Bed, service: &Service) -> Result<(), String> {
    let target = SERVER_INNER[0].parse().unwrap();
    let reached = wait_until_reachable(&bed.clients[0].namespace, target, WAIT);
    reached.map(drop).map_err(|error| format!("{error}\n{}\n{}", service.process.log(), bed.logs()))
}

fn replay(unit: &Unit, binary: &Path) -> Result<(), String> {
    let is_server = unit.side == Part::Server;
    let sides = if is_server { [Program::Adit, Program::OpenVpn] } else { [Program::OpenVpn, Program::Adit] };
    let own = if is_server { 0 } else { 1 };
    let mut bed = Bed::build_with(&Options::BASE, sides[0], &[sides[1]], |_, texts| {
        texts[own].push_str(&format!("user {0}\ngroup {0}\n", unit.user));
    })
    .map_err(|error| error.to_string())?;
    if !is_server {
        bed.server.start().map_err(|error| error.to_string())?;
    }
    let mut service = Service::start(unit, if is_server { &bed.server } else { &bed.clients[0] }, binary);
    service.wait_for("READY=1")?;
    if is_server {
        bed.clients[0].start().map_err(|error| error.to_string())?;
    }
    reach(&bed, &service)?;
    let processes = service.processes();
    let count = tasks(&processes);
    if processes.len() < 2 || count > TASKS {
        return Err(format!("{count} tasks in {} processes", processes.len()));
    }
    if let Some(file) = unit.writes
        && !service.runtime.path().join(file).exists()
    {
        return Err(format!("{file} is not there"));
    }
    // ExecReload. With `--daemon` the log is the system's. The reader of a server that has a `user` needs
    // CAP_DAC_READ_SEARCH, which upstream's units withhold (docs/use/OPENVPN-COMMAND.md, "Units"): such a server goes
    // on with the rights that it has.
    let mark = service.process.mark();
    service.process.hang_up();
    if !unit.command.starts_with("--daemon") {
        let outcome = if is_server { "SIGHUP: office.conf changes nothing" } else { "was read again" };
        let told = service.process.wait_for_line(mark, outcome, WAIT);
        told.map_err(|error| format!("{error}\n{}", service.process.log()))?;
    }
    reach(&bed, &service)?;
    let status = service.process.terminate(WAIT).map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it ended with {status}\n{}", service.process.log()));
    }
    // KillMode=process.
    let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    wait_until("its helper to end", WAIT, || !processes.iter().any(is_left))
        .map_err(|error| error.to_string())?;
    if is_server { bed.server.no_device_left() } else { bed.clients[0].no_device_left() }
}

#[test]
fn units_of_openvpn_run_adit() {
    if !can_run("units of OpenVPN", &[PROGRAMS[0], PROGRAMS[1], "unshare", "setpriv", "prlimit", "mount"]) {
        return;
    }
    let scratch = Scratch::create("openvpn-units").unwrap();
    let binary = scratch.path().join("openvpn");
    fs::copy(env!("CARGO_BIN_EXE_adit"), &binary).unwrap();
    let replays = |units: &'static [Unit]| {
        std::thread::scope(|scope| {
            let running: Vec<_> = units
                .iter()
                .map(|unit| {
                    scope.spawn(|| replay(unit, &binary).map_err(|why| format!("{}: {why}", unit.name)))
                })
                .collect();
            running.into_iter().filter_map(|one| one.join().unwrap().err()).collect::<Vec<String>>()
        })
    };
    let failed: Vec<String> = UNITS.chunks(3).flat_map(replays).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
