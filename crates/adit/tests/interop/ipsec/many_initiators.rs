//! Initiators and attackers of `adit-load-ike` at a responder of adit.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_load::Kind;
use adit_load_ike::{
    Certificates, Credentials, Initiators, InnerAddresses, Peers, requests, responder_files,
};
use adit_testbed::{
    MAX_WAIT, Namespace, Process, Scratch, SpoofedFlood, can_run, connect, wait_until, wait_until_reachable,
};

/// The responder's addresses: for initiators, for attackers, and in the tunnels.
const RESPONDER: [&str; 2] = ["10.9.0.1", "198.51.100.1"];
const INNER: &str = "10.8.0.1";
/// The connection of the initiator with number 0, as `adit-load-ike` has it.
const INITIATOR: &str = "connections {\n t {\n version = 2\n remote_addrs = 10.9.0.1\n proposals = aes256gcm16-prfsha384-x25519\n \
     local {\n auth = psk\n id = i0.initiator.load.example\n }\n remote {\n auth = psk\n id = responder.load.example\n }\n \
     children {\n net {\n local_ts = 10.64.0.0/32\n remote_ts = 10.8.0.1/32\n esp_proposals = aes256gcm16\n start_action = start\n }\n \
     }\n }\n}\nsecrets {\n ike-load {\n secret = \"a key of load generators alone\"\n }\n}\n";

/// A responder with the files of `adit-load-ike`, and a place for initiators.
struct Place {
    initiators: Namespace,
    responder: Namespace,
    process: Process,
    scratch: Scratch,
}

fn start(namespace: &Namespace, file: &std::path::Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    let mut process = namespace.spawn("adit", command).unwrap();
    process.wait_for_line(0, "tunnel up", MAX_WAIT).unwrap();
    process
}

impl Place {
    /// A responder that knows the first `count` initiators.
    fn build(credentials: &Credentials, count: u32) -> Place {
        let scratch = Scratch::create("many-initiators").unwrap();
        let [responder, initiators] =
            ["responder", "initiators"].map(|name| Namespace::create(name).unwrap());
        connect(&responder, &["10.9.0.1/24"], &initiators, &["10.9.0.2/24"], "wire").unwrap();
        responder.ip(&["address", "add", &format!("{INNER}/32"), "dev", "lo"]).unwrap();
        initiators.ip(&["address", "add", "10.64.0.0/32", "dev", "lo"]).unwrap();
        for file in responder_files(credentials, Peers::Each(count)).unwrap() {
            let path = scratch.path().join(file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file.text).unwrap();
        }
        // The tunnel has the name of its file in `adit status`.
        let file = scratch.path().join(format!("{}.conf", responder.name()));
        std::fs::rename(scratch.path().join("swanctl.conf"), &file).unwrap();
        let process = start(&responder, &file);
        Place { initiators, responder, process, scratch }
    }

    /// The time from the start of an initiator's process to its first reply through the tunnel.
    fn connect(&self) -> Duration {
        let file = format!("{}.conf", self.initiators.name());
        let file = self.scratch.write(&file, INITIATOR).unwrap();
        let begun = Instant::now();
        let mut process = start(&self.initiators, &file);
        if let Err(error) = wait_until_reachable(&self.initiators, INNER.parse().unwrap(), MAX_WAIT) {
            panic!("{error}\n{}\n====\n{}", process.log_tail(), self.process.log_tail());
        }
        let time = begun.elapsed();
        process.terminate(MAX_WAIT).unwrap();
        time
    }
}

#[test]
fn many_initiators_of_one_process_connect() {
    if !can_run("many_initiators_of_one_process_connect", &[]) {
        return;
    }
    let certificates = || Credentials::Certificates(Certificates::create().unwrap());
    for credentials in [Credentials::SharedKey, certificates()] {
        let place = Place::build(&credentials, 50);
        let responder = IpAddr::V4(RESPONDER[0].parse().unwrap());
        let inner = InnerAddresses::Own;
        let initiators = Initiators { responder, count: 50, at_once: 2, inner };
        let load = place.initiators.enter(|| initiators.start(credentials)).unwrap().unwrap();
        let connected = wait_until("all initiators", MAX_WAIT, || load.done() == 50);
        assert!(connected.is_ok(), "{} of {}\n{}", load.done(), load.begun(), place.process.log_tail());
        load.stop().unwrap();
    }
}

/// Floods of each kind of requests, from one address and from many.
struct Floods {
    /// Requests a second.
    rate: u32,
    /// The fewest requests a second that are sent while an initiator comes: fewer are no flood of that rate.
    least_rate: f64,
    /// The time that an initiator may take beyond twice the time without a flood: for a request or a response that a full buffer
    /// dropped.
    grace: Duration,
}

/// Source addresses of forged requests.
const SOURCES: [u32; 2] = [1, 1_000_000_000];
/// Requests before an initiator comes: far more than a responder answers without a cookie.
const LEAD: u64 = 2_000;

/// After this time without an answer there is none any more.
const SILENCE: Duration = Duration::from_millis(500);

impl Floods {
    fn let_initiators_in(&self) {
        let place = Place::build(&Credentials::SharedKey, 1);
        let attackers = Namespace::create("attackers").unwrap();
        connect(&place.responder, &["198.51.100.1/24"], &attackers, &["198.51.100.2/24"], "attack").unwrap();
        let kinds = requests().unwrap();
        kinds.iter().for_each(|kind| nothing_longer_is_answered(&attackers, kind));
        SpoofedFlood::route(&attackers, &place.responder).unwrap();
        let idle = place.connect().max(place.connect());
        let target = format!("{}:500", RESPONDER[1]).parse().unwrap();
        for kind in &kinds {
            for sources in SOURCES {
                let flood =
                    SpoofedFlood::start(&attackers, target, Some(self.rate), sources, &kind.datagrams)
                        .unwrap();
                wait_until("the flood", MAX_WAIT, || flood.sent() >= LEAD).unwrap();
                let (before, begun) = (flood.sent(), Instant::now());
                let time = place.connect();
                let rate = (flood.sent() - before) as f64 / begun.elapsed().as_secs_f64();
                let most = 2 * idle + self.grace;
                let name = kind.name;
                eprintln!(
                    "{name} from {sources}: {rate:.0} a second, in after {time:?}, without a flood {idle:?}"
                );
                assert!(
                    rate >= self.least_rate,
                    "{name} from {sources} addresses: {rate:.0} requests a second"
                );
                assert!(time <= most, "{name} from {sources} addresses: {time:?}, allowed {most:?}");
            }
        }
    }
}

/// Sends requests of a kind from one socket and looks at the answers. Cookies are asked for from the third half-open IKE SA on.
fn nothing_longer_is_answered(attackers: &Namespace, kind: &Kind) {
    let socket = attackers.enter(|| UdpSocket::bind("198.51.100.2:0")).unwrap().unwrap();
    socket.connect(SocketAddr::new(RESPONDER[1].parse().unwrap(), 500)).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    let requests = &kind.datagrams[..32];
    for request in requests {
        socket.send(request).unwrap();
    }
    let (mut answers, mut buffer) = (0, [0; 2048]);
    while let Ok(length) = socket.recv(&mut buffer) {
        assert!(length <= requests[0].len(), "{}: {length} bytes to {}", kind.name, requests[0].len());
        answers += 1;
    }
    let expected = if kind.name.contains("cookie") { requests.len() } else { 0 };
    assert_eq!(answers, expected, "{}", kind.name);
}

#[test]
fn floods_of_requests_keep_no_initiator_out_and_nothing_is_answered_larger() {
    if can_run("floods_of_requests_keep_no_initiator_out_and_nothing_is_answered_larger", &[]) {
        Floods { rate: 5_000, least_rate: 0.0, grace: Duration::from_secs(3) }.let_initiators_in();
    }
}

mod long {
    use super::{Duration, Floods, can_run};

    #[test]
    #[ignore = "long: half a minute, and it wants a machine for itself"]
    fn floods_of_100_000_requests_a_second_keep_no_initiator_out() {
        if can_run("floods_of_100_000_requests_a_second_keep_no_initiator_out", &[]) {
            Floods { rate: 100_000, least_rate: 90_000.0, grace: Duration::ZERO }.let_initiators_in();
        }
    }
}
