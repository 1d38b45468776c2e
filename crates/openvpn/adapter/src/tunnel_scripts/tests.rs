use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use adit_core::TunnelSettings;
use adit_guard::{Helper, Policy};
use adit_host::log::{LogPlace, LogSettings};
use adit_openvpn::request::{PeerFacts, Request, TunnelFacts};

use super::*;
use adit_host::log::Logger;

const DEVICE: &str = "tun9";

/// A directory that goes with this.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("adit-hooks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// The lines that scripts wrote: each its words and some of its variables.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An order that the tunnel got.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    GoOn,
    ShutDown,
}

struct Bed {
    directory: Directory,
    scripts: TunnelScripts,
    told: mpsc::Receiver<Told>,
    _helper: Helper,
}

/// A script that writes down how it was called, and then does this.
fn script(directory: &Path, name: &str, then: &str) -> Option<Vec<String>> {
    let here = directory.display();
    let line = "$script_type $* ($script_context $signal $foreign_option_1 $redirect_gateway)";
    let body = format!("shift; echo \"{line}\" >>{here}/calls; {then}");
    Some(["/bin/sh", "-c", &body, name, "word"].map(str::to_owned).to_vec())
}

impl Bed {
    /// All scripts; `change` may alter the configuration, given a way to make scripts.
    fn new(name: &str, end: End, change: impl FnOnce(&mut file::TunnelScripts, &Path)) -> Self {
        let directory = Directory::new(name);
        let script = |name| script(&directory.0, name, "");
        let mut config = file::TunnelScripts {
            up: script("up"),
            down: script("down"),
            route_up: script("route-up"),
            route_pre_down: script("route-pre-down"),
            ip_change: script("ipchange"),
            ..file::TunnelScripts::default()
        };
        change(&mut config, &directory.0);
        let lasting = config.commands().cloned().collect();
        let policy = adit_guard::Scripts {
            lasting,
            directory: directory.0.clone(),
            most_following: adit_guard::MOST_FOLLOWING,
            ..adit_guard::Scripts::default()
        };
        let helper = Helper::within_process(Policy { scripts: Some(policy), ..Policy::default() }).unwrap();
        let nowhere = LogPlace::File { path: "/dev/null".into(), append: true };
        let (tell, told) = mpsc::channel();
        let other = tell.clone();
        let control = Control {
            go_on: Box::new(move || tell.send(Told::GoOn).unwrap()),
            shut_down: Box::new(move || other.send(Told::ShutDown).unwrap()),
            log: Logger::new(&LogSettings { place: Some(nowhere), ..LogSettings::default() }).unwrap(),
            in_background: false,
        };
        let launcher = Some(helper.access().scripts().unwrap());
        let base = vec![("config".to_owned(), "c.conf".to_owned())];
        let scripts = TunnelScripts::start(config, end, base, (launcher, control)).unwrap();
        Bed { directory, scripts, told, _helper: helper }
    }

    fn request(&mut self, request: Request) {
        self.scripts.request(&request, DEVICE);
    }

    /// A connection up to the peer's authentication.
    fn reach_peer(&mut self) {
        self.scripts.connecting(DEVICE);
        let address = "[AF_INET]192.0.2.1 1194".to_owned();
        self.request(Request::PeerFacts(Box::new(PeerFacts { env: Vec::new(), address })));
    }

    /// A connection up to its device; true if routes may be set.
    fn connect(&mut self, option: &str) -> bool {
        self.reach_peer();
        self.settings_come(Some(option))
    }

    /// The server said what the settings are, with that option for scripts; true if routes may be set.
    fn settings_come(&mut self, option: Option<&str>) -> bool {
        let name = "foreign_option_1".to_owned();
        let facts = TunnelFacts {
            env: option.into_iter().map(|option| (name.clone(), option.to_owned())).collect(),
            local: "10.8.0.2".to_owned(),
            remote: "255.255.255.0".to_owned(),
            ..TunnelFacts::default()
        };
        self.request(Request::TunnelFacts(Box::new(facts)));
        let settings = TunnelSettings { mtu: 1400, ..TunnelSettings::default() };
        self.scripts.device_ready(&settings, DEVICE)
    }

    fn lose(&mut self, signal: &'static str) {
        self.request(Request::Signal(signal));
        self.scripts.peer_down();
    }

    fn end(&mut self) -> Option<String> {
        self.scripts.going_down(DEVICE);
        self.scripts.down(DEVICE);
        self.scripts.finish(DEVICE)
    }

    fn told(&self) -> Told {
        self.told.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

const WORDS: &str = "tun9 1400 0 10.8.0.2 255.255.255.0";

#[test]
fn the_tunnel_comes_up_restarts_and_ends() {
    let mut bed = Bed::new("order", End::Connects, |_, _| {});
    assert!(!bed.connect("a"), "routes wait for `up`");
    assert_eq!(bed.told(), Told::GoOn);
    bed.scripts.up(DEVICE);
    bed.lose("ping-restart");
    bed.scripts.settle_loss(DEVICE);
    assert!(!bed.connect("b"));
    assert_eq!(bed.told(), Told::GoOn);
    bed.scripts.up(DEVICE);
    bed.lose("sigterm");
    assert_eq!(bed.end(), None);
    let calls = [
        "ipchange [AF_INET]192.0.2.1 1194 (   )".to_owned(),
        format!("up {WORDS} init (init  a )"),
        "route-up  (init  a 0)".to_owned(),
        format!("route-pre-down {WORDS} init (init ping-restart a 0)"),
        format!("down {WORDS} init (init ping-restart a 0)"),
        "ipchange [AF_INET]192.0.2.1 1194 (   )".to_owned(),
        format!("up {WORDS} init (init  b )"),
        "route-up  (init  b 0)".to_owned(),
        format!("route-pre-down {WORDS} init (init sigterm b 0)"),
        format!("down {WORDS} init (init sigterm b 0)"),
    ];
    assert_eq!(bed.directory.calls(), calls);
}

/// OpenVPN's init.c, `run_up_down`: the variables are set whether there is an `up` script or not.
#[test]
fn route_up_has_the_variables_of_the_device_without_up() {
    let mut bed = Bed::new("route-up", End::Connects, |config, here| {
        let body = format!("echo \"$script_type $dev $tun_mtu $script_context\" >>{}/calls", here.display());
        let argv = ["/bin/sh", "-c", &body].map(str::to_owned).to_vec();
        *config = file::TunnelScripts { route_up: Some(argv), ..file::TunnelScripts::default() };
    });
    assert!(bed.connect("a"), "nothing runs before the routes are set");
    bed.scripts.up(DEVICE);
    bed.end();
    assert_eq!(bed.directory.calls(), ["route-up tun9 1400 init"]);
}

#[test]
fn a_device_that_is_kept_runs_none_but_for_other_settings() {
    let mut bed = Bed::new("kept", End::Connects, |config, _| config.keeps_device = true);
    bed.connect("a");
    bed.told();
    bed.scripts.up(DEVICE);
    bed.lose("sigusr1");
    assert!(bed.connect("a"), "nothing runs: routes stay");
    bed.scripts.up(DEVICE);
    bed.lose("sigusr1");
    // Else the next `ipchange` would take the place of one that waits.
    bed.scripts.worker.finish_all();
    assert!(!bed.connect("c"), "the server pushes something else");
    bed.told();
    bed.scripts.up(DEVICE);
    bed.end();
    let names: Vec<String> =
        bed.directory.calls().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let again = "ipchange route-pre-down down up route-up route-pre-down down";
    assert_eq!(names.join(" "), format!("ipchange up route-up ipchange {again}"));
}

/// OpenVPN 2.7 init.c, `do_update`: also where the device would be kept over a restart.
#[test]
fn an_update_runs_all_and_leaves_nothing_of_before() {
    let mut bed = Bed::new("update", End::Connects, |config, _| config.keeps_device = true);
    bed.connect("a");
    bed.told();
    bed.scripts.up(DEVICE);
    for option in [Some("b"), Some("b"), None] {
        assert!(!bed.settings_come(option), "routes wait for `up`");
        assert_eq!(bed.told(), Told::GoOn);
        bed.scripts.up(DEVICE);
    }
    bed.lose("sigterm");
    assert_eq!(bed.end(), None);
    let update = |option: &str| {
        [
            format!("route-pre-down {WORDS} init (init UNKNOWN {option} 0)"),
            format!("down {WORDS} init (init UNKNOWN {option} 0)"),
            format!("up {WORDS} init (init UNKNOWN {option} 0)"),
            format!("route-up  (init UNKNOWN {option} 0)"),
        ]
    };
    let calls = bed.directory.calls();
    assert_eq!(calls[3..15], [update("b"), update("b"), update("")].concat());
    assert_eq!(
        calls[15..],
        ["route-pre-down", "down"].map(|name| format!("{name} {WORDS} init (init sigterm  0)"))
    );
}

#[test]
fn up_restart_runs_two_in_place() {
    let mut bed = Bed::new("restart", End::Connects, |config, _| {
        (config.keeps_device, config.at_restarts) = (true, true);
    });
    bed.connect("a");
    bed.told();
    bed.scripts.up(DEVICE);
    bed.lose("sigusr1");
    assert!(!bed.connect("a"));
    bed.told();
    bed.scripts.up(DEVICE);
    bed.end();
    let calls = bed.directory.calls();
    assert_eq!(calls[3], format!("down {WORDS} restart (restart sigusr1 a 0)"));
    assert_eq!(calls[5], format!("up {WORDS} restart (restart  a )"));
    assert_eq!(calls.len(), 8, "{calls:?}");
}

#[test]
fn a_script_that_must_not_fail_ends_the_tunnel() {
    let mut bed = Bed::new("fails", End::Connects, |config, here| config.up = script(here, "up", "exit 3"));
    assert!(!bed.connect("a"));
    assert_eq!(bed.told(), Told::ShutDown, "and routes are not set");
    let why = bed.end().unwrap();
    assert!(why.contains("up failed") && why.contains("exit code 3"), "{why}");
    assert_eq!(bed.directory.calls().len(), 2, "no other runs: {:?}", bed.directory.calls());
}

#[test]
fn a_script_that_hangs_holds_nothing_up_but_the_routes() {
    let mut bed =
        Bed::new("hangs", End::Connects, |config, here| config.up = script(here, "up", "sleep 200"));
    let began = Instant::now();
    assert!(!bed.connect("a"));
    assert!(began.elapsed() < Duration::from_secs(60), "the driver does not wait");
    assert!(bed.told.recv_timeout(Duration::from_millis(50)).is_err());
    bed.scripts.worker.hurry_within(Duration::ZERO);
    assert!(bed.end().is_some_and(|why| why.contains("up failed")));
    assert!(began.elapsed() < Duration::from_secs(120), "it was told to end");
}

#[test]
fn a_script_that_hangs_in_a_tunnel_that_was_never_up_does_not_hold_up_its_end() {
    let mut bed = Bed::new("never-up", End::Connects, |config, here| {
        config.ip_change = script(here, "ipchange", "exec sleep 600");
    });
    bed.reach_peer();
    let began = Instant::now();
    assert_eq!(bed.scripts.finish(DEVICE), None, "its failure is a warning");
    assert!(began.elapsed() < Duration::from_secs(300), "it was told to end");
}

#[test]
fn of_a_peer_that_moves_one_script_waits() {
    let mut bed = Bed::new("moves", End::Connects, |config, here| {
        config.ip_change = script(here, "ipchange", "exec sleep 600");
    });
    for _ in 0..1000 {
        bed.reach_peer();
    }
    let waiting = bed.scripts.worker.waiting();
    bed.scripts.worker.hurry_within(Duration::ZERO);
    // One of them runs, or has still to be taken.
    assert_eq!(waiting, ["ipchange"]);
    assert_eq!(bed.scripts.worker.waiting(), [""; 0]);
}

/// A server that changes settings, or lets the client in and sends it away, faster than scripts run.
#[test]
fn of_what_supersedes_itself_one_run_of_each_script_waits() {
    for reconnects in [false, true] {
        for kept in [false, true] {
            let name = format!("floods-{reconnects}-{kept}");
            let mut bed = Bed::new(&name, End::Connects, |config, here| {
                (config.keeps_device, config.at_restarts) = (kept, kept);
                config.ip_change = None;
                let wait =
                    format!("while [ -d {0} ] && [ ! -e {0}/go ]; do sleep 0.05; done", here.display());
                config.up = script(here, "up", &wait);
            });
            assert!(!bed.connect("first"));
            let deadline = Instant::now() + Duration::from_secs(60);
            while bed.directory.calls().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            for number in 0..500 {
                if reconnects {
                    bed.lose("ping-restart");
                    bed.scripts.settle_loss(DEVICE);
                    bed.connect(&number.to_string());
                } else {
                    bed.settings_come(Some(&number.to_string()));
                }
                bed.scripts.up(DEVICE);
                let waiting = bed.scripts.worker.waiting();
                let mut kinds = waiting.clone();
                kinds.sort();
                kinds.dedup();
                assert!(waiting.len() == kinds.len(), "{name}: {waiting:?}");
            }
            std::fs::write(bed.directory.0.join("go"), "").unwrap();
            // Each time that routes were held up there is a word to let them be set.
            (0..501).for_each(|_| assert_eq!(bed.told(), Told::GoOn));
            assert_eq!(bed.end(), None);
            let names = |line: &String| line.split(' ').next().unwrap().to_owned();
            let calls: Vec<String> = bed.directory.calls().iter().map(names).collect();
            let restart = match (reconnects, kept) {
                (true, true) => "",
                _ => "route-pre-down down up route-up ",
            };
            if !restart.is_empty() {
                let all = format!("up {restart}route-pre-down down");
                assert_eq!(calls.join(" "), all, "{name}");
            }
            assert!(calls.len() <= 12, "{name}: {calls:?}");
            assert!(
                bed.directory.calls().iter().any(|call| call.contains(" 499 ")),
                "{name}: the last holds"
            );
        }
    }
}

#[test]
fn a_server_whose_up_fails_never_begins() {
    let mut bed = Bed::new("server-fails", End::Serves, |config, here| {
        config.up = script(here, "up", "exit 3");
    });
    bed.request(Request::TunnelFacts(Box::default()));
    assert!(!bed.scripts.device_ready(&TunnelSettings::default(), DEVICE), "routes are not set");
    assert!(bed.scripts.failure().is_some_and(|why| why.contains("exit code 3")));
    assert!(bed.scripts.finish(DEVICE).is_some());
    assert_eq!(bed.directory.calls().len(), 1, "no other runs: {:?}", bed.directory.calls());
}

#[test]
fn a_server_runs_its_first_scripts_before_it_goes_on() {
    let mut bed = Bed::new("server", End::Serves, |_, _| {});
    let facts = || Request::TunnelFacts(Box::default());
    bed.request(facts());
    assert!(bed.scripts.device_ready(&TunnelSettings::default(), DEVICE));
    assert_eq!(bed.directory.calls(), ["up tun9 0 0   init (init   )"]);
    bed.scripts.up(DEVICE);
    assert_eq!(bed.directory.calls()[1..], ["route-up  (init   0)"]);
    // It got the order to restart.
    bed.request(Request::Signal("sigusr1"));
    bed.request(facts());
    bed.end();
    let names: Vec<String> =
        bed.directory.calls().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names.join(" "), "up route-up route-pre-down down up route-up route-pre-down down");
}

#[test]
fn name_servers_are_told_to_their_program() {
    let mut bed = Bed::new("names", End::Connects, |config, here| {
        *config = file::TunnelScripts::default();
        let body = format!("echo \"$script_type $dns_server_1_address_1\" >>{}/calls", here.display());
        config.names = NameServerSetting::Script(["/bin/sh", "-c", &body].map(str::to_owned).to_vec());
    });
    bed.scripts.connecting(DEVICE);
    bed.request(Request::TunnelFacts(Box::default()));
    let dns = Dns { servers: vec!["10.8.0.1".parse().unwrap()], ..Dns::default() };
    let settings = TunnelSettings { dns, ..TunnelSettings::default() };
    assert!(!bed.scripts.device_ready(&settings, DEVICE));
    assert_eq!(bed.told(), Told::GoOn);
    bed.scripts.up(DEVICE);
    bed.end();
    assert_eq!(bed.directory.calls(), ["dns-up 10.8.0.1", "dns-down 10.8.0.1"]);
}

/// As OpenVPN's own program reads it: by `.`.
#[test]
fn name_servers_are_told_by_a_file() {
    let mut bed = Bed::new("vars", End::Connects, |config, here| {
        *config = file::TunnelScripts::default();
        let told = "$script_type $dev $dns_server_1_address_1 $dns_server_1_port_1";
        let body = format!(
            "unset dns_server_1_address_1 dns_server_1_port_1 dev; . \"$dns_vars_file\"; echo \"{told}\" >>{}/calls",
            here.display()
        );
        config.names = NameServerSetting::Script(["/bin/sh", "-c", &body].map(str::to_owned).to_vec());
    });
    bed.scripts.tell_names_by_file();
    bed.scripts.connecting(DEVICE);
    let env = [("dns_server_1_address_1", "10.8.0.1"), ("dns_server_1_port_1", "53")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    bed.request(Request::TunnelFacts(Box::new(TunnelFacts { env, ..TunnelFacts::default() })));
    assert!(!bed.scripts.device_ready(&TunnelSettings::default(), DEVICE));
    assert_eq!(bed.told(), Told::GoOn);
    bed.scripts.up(DEVICE);
    bed.end();
    assert_eq!(bed.directory.calls(), ["dns-up tun9 10.8.0.1 53", "dns-down tun9 10.8.0.1 53"]);
}
