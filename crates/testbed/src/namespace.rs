use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Socket, Type};

use crate::TestbedError;
use crate::process::{Process, wait_until};
use crate::programs::{program, run, run_with_input};
use crate::scratch::Scratch;
use crate::wireguard::sweep_wireguard_sockets;

/// Where `ip netns` keeps its namespaces.
const DIRECTORY: &str = "/run/netns";
/// Every namespace of ours is called `adit-PID-NUMBER-LABEL`.
const PREFIX: &str = "adit-";

static COUNTER: AtomicU32 = AtomicU32::new(0);
static SWEEP: Once = Once::new();
/// Held while a namespace, a process or a directory comes into being. Two `ip netns add` at once may both try
/// to set up [`DIRECTORY`]; and nothing may come into being while [`remove_everything`] is at work.
static CREATING: Mutex<()> = Mutex::new(());

/// The right to bring something into being that has to be removed again.
pub(crate) fn creating() -> MutexGuard<'static, ()> {
    CREATING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A network namespace with its loopback device up. On drop, processes inside are ended and it is deleted.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace. `label` is the last part of its name, as `ip netns` shows it.
    pub fn create(label: &str) -> Result<Self, TestbedError> {
        SWEEP.call_once(sweep);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        {
            let _one_at_a_time = creating();
            run(program("ip")?.args(["netns", "add", &name]))?;
        }
        let namespace = Self { name };
        let failed =
            |source| TestbedError::Network { what: format!("no loopback in {}", namespace.name), source };
        namespace.enter(loopback_up)?.map_err(failed)?;
        Ok(namespace)
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// Runs `ip -n NAME` with these arguments and returns its output.
    pub fn ip(&self, arguments: &[&str]) -> Result<String, TestbedError> {
        run(program("ip")?.args(["-n", &self.name]).args(arguments))
    }

    /// Runs each of these lines as the arguments of `ip -n NAME`, in one process. The first that fails is the last.
    pub fn ip_lines(&self, lines: &[String]) -> Result<(), TestbedError> {
        let mut ip = program("ip")?;
        ip.args(["-n", &self.name, "-batch", "-"]);
        run_with_input(&mut ip, &lines.join("\n")).map(drop)
    }

    /// The processes in it, without this one: its threads may be inside, it is not.
    pub fn processes(&self) -> Result<Vec<u32>, TestbedError> {
        let path = self.path();
        let inside = Inside::of(&path).map_err(|source| TestbedError::File { path, source })?;
        Ok(inside.processes())
    }

    /// The network devices in it, without the loopback.
    pub fn devices(&self) -> Result<Vec<String>, TestbedError> {
        let listing = self.ip(&["-brief", "link", "show"])?;
        let names = listing.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names
            .map(|name| name.split('@').next().unwrap_or(name).to_owned())
            .filter(|name| name != "lo")
            .collect())
    }

    /// Whether a program in the namespace has bound this UDP port, or listens on this TCP port.
    pub fn is_bound(&self, tcp: bool, port: u16) -> Result<bool, TestbedError> {
        // proc(5): the second column is ADDRESS:PORT in hexadecimal, the fourth the state; 0A is LISTEN.
        let (files, state) = if tcp { (["tcp", "tcp6"], Some("0A")) } else { (["udp", "udp6"], None) };
        let port = format!(":{port:04X}");
        let bound = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|word| word.ends_with(&port));
            local && (state.is_none() || words.nth(1) == state)
        };
        self.enter(|| {
            let tables = files.map(|file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")));
            tables.into_iter().flatten().any(|table| table.lines().any(bound))
        })
    }

    /// Runs `work` on a thread that is inside the namespace. Sockets opened and processes started there
    /// belong to the namespace for good.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        let path = self.path();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let link = std::fs::File::open(&path)
                    .map_err(|source| TestbedError::File { path: path.clone(), source })?;
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&link), Some(LinkNameSpaceType::Network))
                    .map_err(|error| TestbedError::Network {
                        what: format!("cannot enter the namespace {}", self.name),
                        source: error.into(),
                    })?;
                Ok(work())
            });
            worker.join().map_err(|_| TestbedError::Worker("inside a namespace"))?
        })
    }

    /// Starts `command` inside the namespace. `label` names it in errors.
    pub fn spawn(&self, label: &str, command: Command) -> Result<Process, TestbedError> {
        self.enter(|| Process::spawn(label, command))?
    }

    /// Runs `command` inside the namespace to its end and returns its standard output.
    pub fn run(&self, mut command: Command) -> Result<String, TestbedError> {
        self.enter(|| run(&mut command))?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Takes the loopback device of this thread's namespace up, by one message of rtnetlink(7).
fn loopback_up() -> std::io::Result<()> {
    const AF_NETLINK: i32 = 16;
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_ACK: u16 = 5;
    const IFF_UP: u32 = 1;
    // `struct nlmsghdr`, then `struct ifinfomsg`: the loopback is device 1 of every namespace.
    let mut message = [0; 32];
    message[..4].copy_from_slice(&32_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_ACK.to_ne_bytes());
    message[20..24].copy_from_slice(&1_u32.to_ne_bytes());
    message[24..28].copy_from_slice(&IFF_UP.to_ne_bytes());
    message[28..32].copy_from_slice(&IFF_UP.to_ne_bytes());
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, None)?;
    socket.send(&message)?;
    let mut answer = [0; 64];
    let _ = socket.read(&mut answer)?;
    // `struct nlmsgerr`.
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error)),
    }
}

/// Ends whatever runs in the namespace, then deletes it. Nothing useful can be done about a failure here.
fn remove(name: &str) {
    let path = Path::new(DIRECTORY).join(name);
    if let Ok(inside) = Inside::of(&path) {
        for signal in [Signal::TERM, Signal::KILL] {
            end(&inside, signal);
        }
    }
    // As `ip netns delete` does it.
    let _ = unmount(&path, UnmountFlags::DETACH);
    let _ = std::fs::remove_file(&path);
}

/// Sends the processes inside this signal, and waits for their end for a second.
fn end(inside: &Inside, signal: Signal) {
    let running = inside.processes();
    for pid in running.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process(pid, signal);
    }
    let ended = || !running.iter().any(|pid| inside.has(*pid));
    let _ = wait_until("the processes to end", Duration::from_secs(1), ended);
}

/// What tells the processes in a namespace: the inode of its file, which `/proc/PID/ns/net` has too (namespaces(7)). `ip netns pids`
/// reads the same, but is a process of its own each time.
struct Inside(u64);

impl Inside {
    fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self(std::fs::metadata(path)?.ino()))
    }

    fn has(&self, pid: u32) -> bool {
        std::fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|link| link.ino() == self.0)
    }

    /// All but this process.
    fn processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|pid| *pid != std::process::id() && self.has(*pid)).collect()
    }
}

/// Removes the things that earlier runs left that were killed before they could: namespaces with whatever runs in them,
/// the lab's directories, and sockets. All have the number of their process in their names.
fn sweep() {
    let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten();
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(pid) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !is_alive(pid) {
            remove(&name);
        }
    }
    Scratch::sweep(is_alive);
    sweep_wireguard_sockets(is_alive);
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Removes all namespaces, directories and sockets of this process, ends the processes in them, and keeps anything new
/// from coming into being. For a program that is about to exit because of a signal; guards are not needed after it.
pub fn remove_everything() {
    std::mem::forget(creating());
    let own = format!("{PREFIX}{}-", std::process::id());
    let ours = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&own)).collect()
    };
    for name in ours(Path::new(DIRECTORY)) {
        remove(&name);
    }
    let temporary = std::env::temp_dir();
    for name in ours(&temporary) {
        let _ = std::fs::remove_dir_all(temporary.join(name));
    }
    sweep_wireguard_sockets(|owner| owner != std::process::id());
}

/// Joins two namespaces by a veth pair called `device` in `left` and in `right`, with these addresses
/// (`10.9.0.1/24`, `fd00:9::1/64`). IPv6 addresses are usable at once: there is no duplicate detection.
pub fn connect(
    left: &Namespace,
    left_addresses: &[&str],
    right: &Namespace,
    right_addresses: &[&str],
    device: &str,
) -> Result<(), TestbedError> {
    let pair = format!("link add {device} type veth peer name {device} netns {}", right.name());
    for (namespace, first, addresses) in [(left, Some(pair), left_addresses), (right, None, right_addresses)]
    {
        let address = |address: &&str| {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            format!("address add {address} dev {device}{nodad}")
        };
        let mut lines: Vec<String> = first.into_iter().chain(addresses.iter().map(address)).collect();
        lines.push(format!("link set {device} up"));
        namespace.ip_lines(&lines)?;
    }
    Ok(())
}
