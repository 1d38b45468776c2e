use adit_io::{Buffers, Family, Remote, UdpOptions};
use adit_system::testing::{Scratch, in_fresh_network};
use adit_system::{Network, SocketRouting};

use super::generator::Generator;
use super::*;

/// How many messages are sent. Each variant of each message is among them several times.
const MESSAGES: usize = 400;

/// A policy that allows something of every kind.
fn policy(world: &World) -> Policy {
    let buffers = Buffers { sndbuf: None, rcvbuf: None };
    let remote = Remote {
        host: "127.0.0.1".to_owned(),
        random_hostname: false,
        port: 9,
        transport: adit_core::Transport::Udp,
        family: Family::Any,
        bind: None,
        connect_timeout: Duration::from_secs(1),
        proxy: None,
        mark: None,
    };
    let network = Network {
        device: "lo".to_owned(),
        resolv_conf: Some(world.root.join("allowed/resolv.conf")),
        changes_routing: false,
        shared: false,
        leaves_device: false,
        mark: None,
    };
    Policy {
        network: Some(network),
        remotes: vec![remote],
        udp: Some(UdpOptions { buffers, gso: true, gro: true, routing: SocketRouting::default() }),
        binds_udp: true,
        ..world.policy()
    }
}

/// Every message, in any order and each one twice.
#[test]
fn nothing_outside_the_policy_is_touched_whatever_is_asked() {
    in_fresh_network(|| {
        let scratch = Scratch::new("played");
        let world = World::create(scratch.path()).unwrap();
        let played = world.start(policy(&world)).unwrap();
        let mut generator = Generator::new(world.texts());
        for _ in 0..MESSAGES {
            let message: Request = generator.next();
            played.say(&[&message, &message]).unwrap();
        }
        for name in ["Request", "FileRequest", "NetworkRequest", "ScriptRequest", "SocketRequest"] {
            let taken = generator.taken(name);
            assert!(!taken.is_empty() && taken.values().all(|count| *count > 0), "{name}: {taken:?}");
        }
        played.end().unwrap();
        world.check();
        assert!(world.root.join(PROGRAM).exists() && fs::read(world.root.join("allowed/state")).is_ok());
    });
}

/// A helper does the work that its policy allows. So the test above tests refusals, and not a helper that does nothing.
#[test]
fn what_the_policy_allows_is_done() {
    in_fresh_network(|| {
        let scratch = Scratch::new("played-allowed");
        let world = World::create(scratch.path()).unwrap();
        let played = world.start(policy(&world)).unwrap();
        use crate::helper::request::{FileRequest, ScriptCall, ScriptRequest, Secret};
        let argv = vec![world.root.join(PROGRAM).display().to_string()];
        let call = ScriptCall {
            argv,
            env: Vec::new(),
            secrets: Vec::new(),
            device: String::new(),
            files: Vec::new(),
            beside: None,
            gateways: Vec::new(),
        };
        played.say(&[Request::Script(ScriptRequest::Run(call))]).unwrap();
        let deadline = std::time::Instant::now() + LONGEST;
        while !world.root.join("allowed/ran").exists() {
            assert!(std::time::Instant::now() < deadline, "the program of the policy did not run");
            thread::sleep(Duration::from_millis(5));
        }
        let save = || Request::File(FileRequest::SaveConfiguration(Secret(vec![0; 7])));
        let read = || Request::File(FileRequest::Configuration);
        played.say(&[save(), read(), Request::File(FileRequest::Adopt(None)), save()]).unwrap();
        assert_eq!(fs::read_to_string(world.root.join(CONFIGURATION)).unwrap(), "!start saved 7");
        let answer = played.say(&[Request::File(FileRequest::Client("alice".to_owned()))]).unwrap();
        assert!(answer.windows(6).any(|part| part == b"iroute"));
        played.end().unwrap();
        world.check();
    });
}

/// A helper that has no policy does nothing, whatever comes in the place of the policy.
#[test]
fn the_policy_comes_first() {
    let scratch = Scratch::new("played-first");
    let world = World::create(scratch.path()).unwrap();
    let mut generator = Generator::new(world.texts());
    for _ in 0..100 {
        let message: Request = generator.next();
        if matches!(message, Request::Start(_)) {
            continue;
        }
        let (main, helper) = begin().unwrap();
        main.send(&message).unwrap();
        assert!(helper.join().unwrap().is_err(), "{message:?}");
        assert!(main.receive::<()>().is_err());
    }
    world.check();
}

/// A further policy ends the helper, and so does any other message in the place of a channel; after the end nothing is done.
#[test]
fn a_policy_is_given_once() {
    let scratch = Scratch::new("played-once");
    let world = World::create(scratch.path()).unwrap();
    let mut generator = Generator::new(world.texts());
    let mut messages: Vec<Request> = (0..60).map(|_| generator.next()).collect();
    messages.push(Request::Start(Box::new(world.policy())));
    for message in messages {
        let played = world.start(world.policy()).unwrap();
        let other = played.channel().unwrap();
        if !matches!(message, Request::Channel) {
            played.main.send(&message).unwrap();
        }
        played.end().unwrap();
        let late = Request::File(crate::helper::request::FileRequest::WriteState(vec![7]));
        let answer: io::Result<Result<(), crate::helper::request::Refusal>> = other.call(&late);
        assert!(answer.is_err(), "after the end");
        assert!(!world.root.join("allowed/state").exists());
    }
    world.check();
}
