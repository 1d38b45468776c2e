use super::*;
use adit_guard::{Helper, Policy};
use std::fs;
use std::sync::mpsc::Receiver;
use zeroize::Zeroizing;

const SOON: Duration = Duration::from_secs(60);

/// Runs the programs of the tests.
fn helper() -> Helper {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let scripts = adit_guard::Scripts {
        commands: vec![words(&["/bin/sh", "-c"]), words(&["/nowhere/script"])],
        variables: words(&["WORD"]),
        directory: std::env::temp_dir(),
        most_following: adit_guard::MOST_FOLLOWING,
        ..adit_guard::Scripts::default()
    };
    Helper::within_process(Policy { scripts: Some(scripts), ..Policy::default() }).unwrap()
}

/// A thread that has scripts run, and their results.
fn runner() -> (mpsc::Sender<Job>, Receiver<(ScriptId, ScriptOutcome)>) {
    let (jobs, receiver) = mpsc::channel();
    let (answers, came) = mpsc::channel();
    let helper = helper();
    thread::spawn(move || {
        Runner::new(
            "scripts that wait",
            Box::new(move |script, outcome| {
                let _ = answers.send((script.id, outcome));
            }),
            helper.access().scripts().unwrap(),
            Vec::new(),
        )
        .run(&receiver)
    });
    (jobs, came)
}

fn shell(number: u32, text: &str, timeout: Duration) -> Job {
    let file = |name, content: &[u8], is_argument, variable| ScriptFile {
        name,
        content: Zeroizing::new(content.to_vec()),
        is_argument,
        variable,
    };
    let script = Script {
        // Each is of another peer.
        id: ScriptId { owner: number.into(), number },
        source: None,
        priority: ScriptPriority::Unauthenticated,
        argv: ["/bin/sh", "-c", text, "name"].map(str::to_owned).to_vec(),
        env: vec![("WORD".to_owned(), "a b".to_owned())],
        secrets: vec![("password", Zeroizing::new("s3 cret".to_owned()))],
        files: vec![file("answer", b"", false, Some("control")), file("settings", b"in", true, None)],
        defers: true,
        in_order: None,
        beside: None,
        timeout,
    };
    Job::Run { script: Box::new(script), device: "tun7".to_owned() }
}

#[test]
fn a_script_has_its_environment_and_its_files() {
    let (jobs, came) = runner();
    let text = "[ \"$(cat \"$1\")$WORD$dev$password\" = ina\\ btun7s3\\ cret ] && echo route >\"$1\"";
    jobs.send(shell(1, text, SOON)).unwrap();
    let (id, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!((id.number, &outcome.exit), (1, &Ok(0)));
    assert_eq!(outcome.file("settings"), Some(&b"route\n"[..]));
    assert_eq!((outcome.file("answer"), outcome.file("other")), (Some(&b""[..]), None));
}

/// A script that puts its answer off may be kept for long.
#[test]
fn secrets_are_wiped_when_a_script_has_begun() {
    let helper = helper();
    let launcher = helper.access().scripts().unwrap();
    let mut runner = Runner::new("scripts that wait", Box::new(|_, _| {}), launcher, Vec::new());
    runner.take(shell(1, "exec sleep 60", SOON));
    runner.look();
    let Running { script, .. } = &runner.running[0];
    assert!(script.secrets.is_empty() && script.files.iter().all(|file| file.content.is_empty()));
}

#[test]
fn slow_scripts_delay_no_others_and_are_killed() {
    let (jobs, came) = runner();
    jobs.send(shell(1, "exec sleep 600", Duration::from_millis(1500))).unwrap();
    jobs.send(shell(2, "exit 3", SOON)).unwrap();
    let (id, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!((id.number, outcome.exit), (2, Ok(3)));
    let (id, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!(id.number, 1);
    assert!(outcome.exit.unwrap_err().contains("did not end"));
}

#[test]
fn an_answer_that_was_put_off_comes_later() {
    let (jobs, came) = runner();
    let text = "(sleep 1.5; printf 1 >\"$control\") >/dev/null 2>&1 & exit 2";
    jobs.send(shell(1, text, SOON)).unwrap();
    let (_, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!((outcome.exit, outcome.files[0].1.len()), (Ok(2), 0));
    let (_, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!((outcome.exit, outcome.files[0].1.as_slice()), (Ok(2), &b"1"[..]));
    // Said once.
    assert!(came.recv_timeout(Duration::from_millis(300)).is_err());
}

#[test]
fn some_wait_for_each_other() {
    let (jobs, came) = runner();
    for (number, text) in [(1, "sleep 1.5"), (2, ":"), (3, ":")] {
        let Job::Run { mut script, device } = shell(number, text, SOON) else { unreachable!() };
        script.in_order = (number != 3).then(|| IpAddr::from([10, 8, 0, number as u8]).into());
        jobs.send(Job::Run { script, device }).unwrap();
    }
    let order: Vec<u32> = (0..3).map(|_| came.recv_timeout(SOON).unwrap().0.number).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[test]
fn another_script_gives_the_answer_that_was_put_off() {
    let (jobs, came) = runner();
    jobs.send(shell(1, "exit 2", SOON)).unwrap();
    assert_eq!(came.recv_timeout(SOON).unwrap().1.exit, Ok(2));
    let Job::Run { mut script, device } = shell(2, "printf 1 >\"$control\"", SOON) else { unreachable!() };
    script.beside = Some(ScriptId { owner: 1, number: 1 });
    script.id.owner = 1;
    script.defers = false;
    script.files.remove(0);
    jobs.send(Job::Run { script, device }).unwrap();
    let mut outcomes: Vec<_> = (0..2).map(|_| came.recv_timeout(SOON).unwrap()).collect();
    outcomes.sort_by_key(|(id, _)| id.number);
    assert_eq!((outcomes[0].1.exit.clone(), outcomes[0].1.files[0].1.as_slice()), (Ok(2), &b"1"[..]));
    assert_eq!(outcomes[1].1.exit, Ok(0));
}

#[test]
fn what_cannot_be_run_is_said() {
    let (jobs, came) = runner();
    let Job::Run { mut script, device } = shell(1, "", SOON) else { unreachable!() };
    script.argv = vec!["/nowhere/script".to_owned()];
    jobs.send(Job::Run { script, device }).unwrap();
    let (_, outcome) = came.recv_timeout(SOON).unwrap();
    assert!(outcome.exit.unwrap_err().contains("/nowhere/script"));
}

fn id(number: u32) -> ScriptId {
    ScriptId { owner: number.into(), number }
}

/// How many processes have these words on their command line.
fn processes(words: &str) -> usize {
    let command = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let has = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(words);
    fs::read_dir("/proc").unwrap().flatten().map(command).filter(|bytes| has(bytes.clone())).count()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_forgotten_script_ends_with_what_it_started_and_one_that_waits_never_begins() {
    let (jobs, came) = runner();
    // The length tells these processes from those of other tests.
    let length = format!("61.{}", std::process::id());
    for number in 0..20 {
        let text = format!("sleep {length}; exit 0");
        jobs.send(shell(number, &text, Duration::from_secs(600))).unwrap();
    }
    let sleep = format!("sleep\0{length}");
    wait_until("six run: all are of one source", || processes(&sleep) == MOST_OF_ONE_SOURCE);
    for number in 0..20 {
        jobs.send(Job::Forget(id(number))).unwrap();
    }
    wait_until("none runs", || processes(&sleep) == 0);
    jobs.send(shell(99, "exit 7", SOON)).unwrap();
    let (ended, outcome) = came.recv_timeout(SOON).unwrap();
    assert_eq!((ended, outcome.exit), (id(99), Ok(7)), "no result of the others");
}

#[test]
fn a_forgotten_script_that_ignores_sigterm_is_killed() {
    let (jobs, _came) = runner();
    let length = format!("62.{}", std::process::id());
    let text = format!("trap '' TERM; sleep {length}; exit 0");
    jobs.send(shell(1, &text, Duration::from_secs(600))).unwrap();
    wait_until("it runs", || processes(&format!("sleep\0{length}")) == 1);
    jobs.send(Job::Forget(id(1))).unwrap();
    wait_until("it is killed", || processes(&length) == 0);
}

#[test]
fn one_script_of_a_peer_runs_at_once() {
    let (jobs, came) = runner();
    for (number, text) in [(1, "sleep 1.5"), (2, ":"), (3, ":")] {
        let Job::Run { mut script, device } = shell(number, text, SOON) else { unreachable!() };
        script.id.owner = if number == 3 { 3 } else { 1 };
        jobs.send(Job::Run { script, device }).unwrap();
    }
    let order: Vec<u32> = (0..3).map(|_| came.recv_timeout(SOON).unwrap().0.number).collect();
    assert_eq!(order, [3, 1, 2]);
}

/// Many peers of one address cause scripts that take long; that of another address begins at once.
#[test]
fn a_source_leaves_room_for_the_scripts_of_others() {
    let (jobs, came) = runner();
    let length = format!("63.{}", std::process::id());
    for number in 0..400 {
        jobs.send(shell(number, &format!("exec sleep {length}"), Duration::from_secs(600))).unwrap();
    }
    let running = || processes(&format!("sleep\0{length}"));
    wait_until("they run", || running() >= MOST_OF_ONE_SOURCE);
    // If there were more, they would be there by now.
    thread::sleep(Duration::from_millis(100));
    assert_eq!(running(), MOST_OF_ONE_SOURCE);
    let Job::Run { mut script, device } = shell(1000, ":", SOON) else { unreachable!() };
    script.source = Some([192, 0, 2, 2].into());
    jobs.send(Job::Run { script, device }).unwrap();
    assert_eq!(came.recv_timeout(SOON).unwrap().0.number, 1000);
    (0..400).for_each(|number| jobs.send(Job::Forget(id(number))).unwrap());
    wait_until("none runs", || running() == 0);
}

#[test]
fn scripts_are_told_of_routes() {
    let (jobs, came) = runner();
    let gateways = vec![("route_net_gateway".to_owned(), false)];
    let variables = vec![("route_network_1".to_owned(), "10.66.0.0".to_owned())];
    jobs.send(Job::Environment(Environment { variables, gateways })).unwrap();
    // Whether there is a gateway is the system's.
    let text = "[ \"$route_network_1\" = 10.66.0.0 ]";
    jobs.send(shell(1, text, SOON)).unwrap();
    assert_eq!(came.recv_timeout(SOON).unwrap().1.exit, Ok(0));
}

/// A thousand that put their answer off are looked at some at a time, each in its turn.
#[test]
fn those_that_answer_later_are_looked_at_in_turn() {
    let mut entries: Vec<u32> = (0..100).collect();
    let (mut next, mut looked_at) = (0, Vec::new());
    for round in 1..=7 {
        next = take_some(&mut entries, next, |entry| {
            looked_at.push(*entry);
            entry % 10 == 0
        });
        assert_eq!((looked_at.len(), next == 0), ((16 * round).min(100), round == 7));
    }
    assert_eq!((looked_at, entries.len()), ((0..100).collect(), 90));
    assert_eq!(take_some(&mut Vec::new(), 0, |_: &u32| true), 0);
    assert_eq!(take_some(&mut vec![1], 40, |_| true), 0, "others went meanwhile");
}
