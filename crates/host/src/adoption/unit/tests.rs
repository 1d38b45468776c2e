use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use adit_testbed::Scratch;

use super::*;
use crate::failure::Failure;

const UNIT: &str = "vpn-server@office.service";

/// The other program.
struct Other;

impl Adoption for Other {
    fn title(&self) -> &'static str {
        "Other"
    }

    fn unit(&self, name: &str, _: Option<&Systemd>) -> Option<Result<String, String>> {
        Some(Ok(name.to_owned()))
    }

    fn is_called(&self, program: &Path) -> bool {
        program == Path::new("/usr/sbin/other")
    }

    fn arguments<'w>(&self, words: &'w [String]) -> Option<&'w [String]> {
        words.split_first().filter(|(command, _)| *command == "other").map(|(_, rest)| rest)
    }

    fn way_out(&self, program: &Path) -> Option<&'static str> {
        (program == Path::new("/usr/sbin/starter")).then_some(": end it first")
    }

    fn prepare(&self, start: &Start<'_>) -> Result<Prepared, Failure> {
        Ok(Prepared {
            remarks: Vec::new(),
            role: "server",
            command: "other",
            arguments: start.words.to_vec(),
            timeout: None,
        })
    }
}

/// The program that a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Other,
    Adit,
}

/// In the place of systemd: one unit.
struct Fake {
    /// Where drop-ins stay, and where they do not.
    directories: [PathBuf; 2],
    /// The program of the unit's command, as far as systemd has read.
    loaded: Program,
    running: Option<Program>,
    restarts: usize,
    /// Another drop-in has the last word.
    is_overridden: bool,
    /// adit does not come up.
    adit_fails: bool,
    /// A process that has ended is started again after a time.
    starts_again: bool,
    /// The drop-in names another copy of adit.
    is_other_copy: bool,
    /// The unit's `User=`.
    user: &'static str,
    /// The program of its own command.
    program: &'static str,
    /// The flags of its command.
    flags: &'static [&'static str],
    /// The process is killed before it calls systemd as often again.
    calls_left: Option<usize>,
}

impl Fake {
    fn run(&mut self, program: &str, arguments: &[&str]) -> Result<String, String> {
        match &mut self.calls_left {
            Some(0) => panic!("killed"),
            Some(left) => *left -= 1,
            None => {}
        }
        match (program, arguments) {
            ("systemctl", ["daemon-reload"]) => self.reload(),
            ("systemctl", ["restart", "--", UNIT]) => return self.restart(),
            ("systemctl", ["reset-failed", "--", UNIT]) => {}
            ("systemctl", ["show", "--property", name, "--value", "--", UNIT]) => {
                return Ok(format!("{}\n", self.property(name)));
            }
            ("busctl", _) => return Ok(self.command()),
            ("journalctl", _) => return Ok("the key is no key\n".to_owned()),
            other => panic!("not known: {other:?}"),
        }
        Ok(String::new())
    }

    fn reload(&mut self) {
        let drop_in = |directory: &PathBuf| directory.join(format!("{UNIT}.d")).join(drop_in::NAME);
        let is_there = self.directories.iter().map(drop_in).any(|path| path.is_file());
        self.loaded = if is_there && !self.is_overridden { Program::Adit } else { Program::Other };
    }

    fn restart(&mut self) -> Result<String, String> {
        self.restarts += 1;
        let fails = self.adit_fails && self.loaded == Program::Adit;
        self.running = (!fails).then_some(self.loaded);
        if fails { Err("the job failed".to_owned()) } else { Ok(String::new()) }
    }

    fn sub_state(&self) -> &'static str {
        match self.running {
            Some(_) => "running",
            None if self.starts_again => "auto-restart",
            None => "dead",
        }
    }

    fn property(&self, name: &str) -> String {
        match name {
            "LoadState" => "loaded".to_owned(),
            "MainPID" => match self.running {
                Some(Program::Adit) if !self.is_other_copy => std::process::id().to_string(),
                // This process runs another program.
                Some(_) => std::os::unix::process::parent_id().to_string(),
                None => "0".to_owned(),
            },
            "TasksMax" => "20".to_owned(),
            "LimitNPROC" => "infinity".to_owned(),
            "CapabilityBoundingSet" => "cap_net_admin".to_owned(),
            "SubState" => self.sub_state().to_owned(),
            "User" => self.user.to_owned(),
            "DynamicUser" => "no".to_owned(),
            "WorkingDirectory" => "/etc/vpn/server".to_owned(),
            other => panic!("not known: {other}"),
        }
    }

    fn command(&self) -> String {
        let (program, first) = match self.loaded {
            Program::Other => (PathBuf::from(self.program), None),
            Program::Adit if self.is_other_copy => (PathBuf::from("/usr/local/bin/adit"), Some("other")),
            Program::Adit => (std::env::current_exe().expect("it runs"), Some("other")),
        };
        let words: Vec<&str> =
            std::iter::once("name").chain(first).chain(["--config", "office.conf"]).collect();
        let data = serde_json::json!([[program, words, self.flags, 0, 0, 0, 0, 0, 0, 0]]);
        serde_json::json!({ "type": "a(sasasttttuii)", "data": data }).to_string()
    }

    /// The power fails: what is in `/run` goes, and the unit starts at boot.
    fn lose_power(&mut self) {
        let _ = fs::remove_dir_all(self.directories[1].join(format!("{UNIT}.d")));
        self.reload();
        self.running = Some(self.loaded);
    }
}

/// A unit that the other program runs.
struct Bed {
    fake: Rc<RefCell<Fake>>,
    systemd: Systemd,
    /// The number of peers that must be connected.
    needed: usize,
    _scratch: Scratch,
}

impl Bed {
    fn new() -> Self {
        let scratch = Scratch::create("adopt").expect("a directory");
        let directories = ["etc", "run"].map(|name| scratch.path().join(name));
        directories.iter().for_each(|path| fs::create_dir(path).expect("a directory"));
        let [lasting, runtime] = directories.clone();
        let fake = Rc::new(RefCell::new(Fake {
            directories,
            loaded: Program::Other,
            running: Some(Program::Other),
            restarts: 0,
            is_overridden: false,
            adit_fails: false,
            starts_again: false,
            is_other_copy: false,
            user: "",
            program: "/usr/sbin/other",
            flags: &[],
            calls_left: None,
        }));
        let run = Rc::clone(&fake);
        let run = move |program: &str, arguments: &[&str]| run.borrow_mut().run(program, arguments);
        let systemd = Systemd::new(Box::new(run), lasting, runtime);
        Bed { fake, systemd, needed: 1, _scratch: scratch }
    }

    fn unit(&self) -> Unit<'_> {
        Unit::new(&self.systemd, UNIT.to_owned(), &[&Other])
    }

    /// All of the command, with a peer that comes back or none.
    fn adopt(&self, peer_comes: bool) -> Result<String, String> {
        self.adopt_unless(usize::from(peer_comes), &AtomicBool::new(false))
    }

    fn adopt_unless(&self, come: usize, interrupted: &AtomicBool) -> Result<String, String> {
        let unit = self.unit();
        let _lock = unit.lock()?;
        let found = unit.look()?;
        if let Some(said) = unit.settle(&found, false)? {
            return Ok(said);
        }
        let prepared =
            found.other.prepare(&unit.start(&found)?).map_err(|failure| failure.why().to_owned())?;
        let drop_in = unit.drop_in(&found, &prepared)?;
        let peers_of = |_: u32| vec!["laptop".to_owned(); come];
        let within = Duration::from_millis(1);
        let peer_wait = PeerWait { within, needed: self.needed, interrupted, peers_of: &peers_of };
        unit.adopt(&found, &drop_in, &peer_wait)
    }

    /// Adopts the unit, killed before it calls systemd the nth time. False if it ended before.
    fn adopt_until_killed(&self, call: usize, peer_comes: bool) -> bool {
        self.fake.borrow_mut().calls_left = Some(call);
        let is_killed = catch_unwind(AssertUnwindSafe(|| self.adopt(peer_comes))).is_err();
        self.fake.borrow_mut().calls_left = None;
        is_killed
    }

    fn running(&self) -> Option<Program> {
        self.fake.borrow().running
    }

    /// Whether the drop-in of a trial is there, and the one that stays.
    fn files(&self) -> (bool, bool) {
        (self.unit().tried().exists(), self.unit().kept().exists())
    }

    fn is_as_before(&self) {
        assert_eq!((self.running(), self.files()), (Some(Program::Other), (false, false)));
        let left = fs::read_dir(&self.systemd.lasting).expect("a directory").count();
        assert_eq!(left, 0, "a directory is left");
    }
}

#[test]
fn a_peer_that_comes_back_keeps_adit() {
    let bed = Bed::new();
    let said = bed.adopt(true).expect("adopted");
    assert!(said.contains("laptop is connected") && said.contains("--back"), "{said}");
    assert_eq!((bed.running(), bed.files()), (Some(Program::Adit), (false, true)));
    assert_eq!(bed.fake.borrow().restarts, 1, "one reconnect");
    let text = fs::read_to_string(bed.unit().kept()).expect("it is there");
    assert!(text.contains("other \"--config\" \"office.conf\"\nTasksMax=64\n"), "{text}");
    let mode = fs::metadata(bed.unit().kept()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "all users may read a unit");
    assert!(bed.adopt(false).is_ok_and(|said| said.contains("already")));
    bed.fake.borrow_mut().lose_power();
    assert_eq!(bed.running(), Some(Program::Adit));
    assert_eq!(bed.unit().give_back(), Ok(format!("Other runs {UNIT}")));
    bed.is_as_before();
    assert_eq!(bed.unit().give_back(), Ok(format!("{UNIT} is not adopted")));
}

#[test]
fn without_a_peer_the_other_program_runs_again() {
    let bed = Bed::new();
    let why = bed.adopt(false).expect_err("no peer came");
    assert!(why.contains("no peer is connected within") && why.contains("the key is no key"), "{why}");
    bed.is_as_before();
    let why = bed.adopt_unless(1, &AtomicBool::new(true)).expect_err("it was interrupted");
    assert!(why.contains("interrupted"), "{why}");
    bed.is_as_before();
    bed.fake.borrow_mut().adit_fails = true;
    let why = bed.adopt(true).expect_err("adit does not come up");
    assert!(why.contains("the job failed"), "{why}");
    bed.is_as_before();
}

#[test]
fn as_many_peers_as_before_must_come_back() {
    let bed = Bed { needed: 3, ..Bed::new() };
    let adopt = |come| bed.adopt_unless(come, &AtomicBool::new(false));
    for (come, words) in [(0, "none of the 3 peers"), (2, "2 of the 3 peers")] {
        let why = adopt(come).expect_err("peers are missing");
        assert!(why.contains(words) && why.contains("Other runs"), "{why}");
        bed.is_as_before();
    }
    let said = adopt(3).expect("adopted");
    assert!(said.contains("3 peers are connected"), "{said}");
}

#[test]
fn a_unit_of_another_program_is_refused_with_the_way_out() {
    let bed = Bed::new();
    for (program, words) in [
        ("/bin/sleep", "does not run Other but /bin/sleep"),
        ("/usr/sbin/starter", "/usr/sbin/starter: end it first"),
    ] {
        bed.fake.borrow_mut().program = program;
        let why = bed.adopt(true).expect_err("it is not known");
        assert!(why.ends_with(words), "{why}");
        assert_eq!(bed.fake.borrow().restarts, 0);
    }
}

#[test]
fn another_drop_in_that_has_the_last_word_is_named_and_nothing_is_restarted() {
    let bed = Bed::new();
    bed.fake.borrow_mut().is_overridden = true;
    assert!(bed.adopt(true).is_err_and(|why| why.contains("systemctl cat")));
    bed.is_as_before();
    assert_eq!(bed.fake.borrow().restarts, 0);
}

#[test]
fn a_unit_that_does_not_run_is_left_so() {
    let bed = Bed::new();
    bed.fake.borrow_mut().running = None;
    for _ in 0..2 {
        assert!(bed.adopt(false).is_ok_and(|said| said.contains("from its next start on")));
        assert_eq!((bed.running(), bed.files()), (None, (false, true)));
    }
    assert!(bed.unit().give_back().is_ok_and(|said| said.contains("from its next start on")));
    assert_eq!((bed.running(), bed.files()), (None, (false, false)));
}

#[test]
fn a_unit_that_waits_for_its_restart_is_tried() {
    let bed = Bed::new();
    bed.fake.borrow_mut().running = None;
    bed.fake.borrow_mut().starts_again = true;
    let why = bed.adopt(false).expect_err("no peer came");
    assert!(why.contains("no peer is connected within"), "{why}");
    bed.is_as_before();
    bed.fake.borrow_mut().running = None;
    bed.adopt(true).expect("adopted");
    assert_eq!((bed.running(), bed.files()), (Some(Program::Adit), (false, true)));
    bed.fake.borrow_mut().running = None;
    assert!(bed.adopt(false).is_ok_and(|said| said.contains("already")));
    assert_eq!(bed.unit().give_back(), Ok(format!("Other runs {UNIT}")));
    bed.is_as_before();
}

#[test]
fn the_prefixes_of_a_command_stay() {
    let bed = Bed::new();
    bed.fake.borrow_mut().flags = &["ignore-failure", "privileged"];
    bed.adopt(true).expect("adopted");
    let text = fs::read_to_string(bed.unit().kept()).expect("it is there");
    assert!(text.contains("\nExecStart=-+\"/"), "{text}");
}

#[test]
fn no_peer_is_waited_for_that_cannot_be_seen() {
    let bed = Bed::new();
    let check = || {
        let unit = bed.unit();
        unit.check_visible(&unit.look().expect("a unit"))
    };
    assert_eq!(check(), Ok(()));
    bed.fake.borrow_mut().user = "vpn";
    assert!(check().is_err_and(|why| why.contains("the user vpn") && why.contains("--within 0")));
    bed.fake.borrow_mut().flags = &["privileged"];
    assert_eq!(check(), Ok(()), "`+` comes before `User=`");
}

#[test]
fn the_file_of_another_is_left_alone() {
    let bed = Bed::new();
    let path = bed.unit().kept();
    write(&path, "[Service]\nNice=5\n").expect("a file");
    assert!(bed.adopt(true).is_err_and(|why| why.contains("did not make")));
    assert!(bed.unit().give_back().is_err() && path.exists());
}

#[test]
fn a_unit_that_another_copy_of_adit_runs_goes_back() {
    let bed = Bed::new();
    bed.adopt(true).expect("adopted");
    bed.fake.borrow_mut().is_other_copy = true;
    assert!(bed.adopt(true).is_err_and(|why| why.contains("is not this adit") && why.contains("--back")));
    assert_eq!((bed.running(), bed.files()), (Some(Program::Adit), (false, true)));
    assert_eq!(bed.unit().give_back(), Ok(format!("Other runs {UNIT}")));
    bed.is_as_before();
}

/// It is killed before each call of systemd; then the machine starts anew, or not; then the command is repeated.
#[test]
fn a_command_that_is_killed_can_be_repeated() {
    for (came, comes, power_fails) in [
        (true, true, false),
        (true, true, true),
        (true, false, false),
        (false, true, false),
        (false, false, false),
        (false, false, true),
    ] {
        let mut call = 0;
        loop {
            let bed = Bed::new();
            if !bed.adopt_until_killed(call, came) {
                break;
            }
            let at = format!("call {call}: {came} {comes} {power_fails}");
            // adit is kept for good only after a peer has come.
            assert!(came || !bed.files().1, "{at}");
            if power_fails {
                let is_kept = bed.files().1;
                bed.fake.borrow_mut().lose_power();
                assert_eq!(bed.running(), Some(if is_kept { Program::Adit } else { Program::Other }), "{at}");
            }
            assert!(bed.running().is_some(), "{at}: one of the two runs");
            let (is_kept, outcome) = (bed.files().1, bed.adopt(comes));
            match comes || is_kept {
                true => {
                    assert!(outcome.is_ok(), "{at}: {outcome:?}");
                    assert_eq!((bed.running(), bed.files()), (Some(Program::Adit), (false, true)), "{at}");
                }
                false => {
                    assert!(outcome.is_err(), "{at}: {outcome:?}");
                    bed.is_as_before();
                }
            }
            call += 1;
        }
        assert!(call > 8, "only {call} calls");
    }
}

#[test]
fn a_way_back_that_is_killed_can_be_repeated() {
    let mut call = 0;
    loop {
        let bed = Bed::new();
        bed.adopt(true).expect("adopted");
        bed.fake.borrow_mut().calls_left = Some(call);
        let is_killed = catch_unwind(AssertUnwindSafe(|| bed.unit().give_back())).is_err();
        bed.fake.borrow_mut().calls_left = None;
        bed.unit().give_back().expect("it runs");
        bed.is_as_before();
        if !is_killed {
            break;
        }
        call += 1;
    }
    assert!(call > 3, "only {call} calls");
}

#[test]
fn one_command_at_a_time() {
    let bed = Bed::new();
    let lock = bed.unit().lock().expect("free");
    assert!(bed.adopt(true).is_err_and(|why| why.contains("at work")));
    let file = fs::metadata(bed.systemd.runtime.join(LOCK)).expect("the lock's file");
    assert_eq!(file.permissions().mode() & 0o777, 0o600, "no other user can take it");
    drop(lock);
    let directory = File::open(&bed.systemd.runtime).expect("a directory");
    flock(&directory, FlockOperation::NonBlockingLockExclusive).expect("free");
    bed.adopt(true).expect("adopted, though another has locked the directory");
}
