//! The peers that may be connected: adit's own settings in a file, their programs, and `adit block` and `adit
//! allow`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use adit_testbed::{Process, can_run, wait_until, wait_until_reachable};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined};
use super::files::up;

/// A peer that was refused may connect again after 10 s, and tries every 5 s.
const LONG: Duration = Duration::from_secs(60);

/// A server that runs a file with these settings, and its client, which begins handshakes by itself.
struct Server {
    ends: [End; 2],
    file: PathBuf,
    adit: Process,
}

impl Server {
    fn start(of_interface: &str, of_peer: &str) -> Self {
        let ends = joined([Program::Adit; 2]);
        let [server, client] = &ends;
        let file = server.scratch.path().join(format!("{}.conf", server.device));
        write([server, client], &file, of_interface, of_peer);
        let adit = up(server, &[&file]);
        wait_until("the server", WAIT, || server.is_served()).unwrap();
        client.start().unwrap();
        client.set_key();
        client.add_peer(server, Some(server.outer()));
        client.bring_up();
        client.wg(&format!("set DEV peer {} persistent-keepalive 1", server.public_key)).unwrap();
        Server { ends, file, adit }
    }

    fn connects(&self) {
        wait_until_reachable(&self.ends[1].namespace, self.ends[0].inner(), LONG).unwrap();
    }

    fn is_connected(&self) -> bool {
        self.ends[1].is_answered(self.ends[0].inner())
    }

    fn order(&self, order: &str, peer: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg(order).arg(&self.file).arg(peer).env("STATE_DIRECTORY", &self.ends[0].state);
        self.ends[0].namespace.run(command).unwrap()
    }
}

fn write([server, client]: [&End; 2], file: &Path, of_interface: &str, of_peer: &str) {
    let key = std::fs::read_to_string(&server.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24\nListenPort = {PORT}\n{of_interface}\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = {}/32\n#adit: name = phone\n{of_peer}\n",
        key.trim(),
        server.inner(),
        client.public_key,
        client.inner(),
    );
    std::fs::write(file, text).unwrap();
}

/// A program that writes its arguments and its environment down, one call a file, and gives the exit code that a file has.
fn recorder(directory: &Path) -> PathBuf {
    let program = directory.join("record");
    let text = format!(
        "#!/bin/sh\n{{ echo \"$*\"; env; }} >{0}/$1.part && mv {0}/$1.part {0}/$1\nexit \"$(cat {0}/code)\"\n",
        directory.display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(directory.join("code"), "0").unwrap();
    program
}

/// `#adit: name` stands in the log and in both forms of the status; the JSON form has the key beside it.
#[test]
fn a_peer_is_shown_by_its_name() {
    if !can_run("a_peer_is_shown_by_its_name", &PROGRAMS) {
        return;
    }
    let other = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let tablet = format!("[Peer]\nPublicKey = {other}\n#adit: name = tablet\nAllowedIPs = 10.79.0.0/16");
    let mut server = Server::start("", &tablet);
    server.connects();
    let [own, client] = &server.ends;
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("status").args(arguments).arg(&own.device);
        own.namespace.run(command).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
    for (list, name, key) in
        [("peers", "phone", client.public_key.as_str()), ("unconnected", "tablet", other)]
    {
        let peer = &json[0][list][0];
        assert_eq!((&peer["name"], &peer["public_key"]), (&name.into(), &key.into()), "{json:#}");
    }
    let table = status(&[]);
    assert!(table.contains("\n  phone  WireGuard udp "), "{table}");
    assert!(table.contains("\n  not connected: tablet no endpoint: no handshake yet"), "{table}");
    let log = server.adit.log();
    assert!(log.contains(": phone connected"), "{log}");
    for shown in [table, log] {
        assert!(!shown.contains(&client.public_key) && !shown.contains(other), "{shown}");
    }
    assert!(server.adit.terminate(WAIT).unwrap().success());
}

/// A peer is kept out until `adit allow`, also over ends and starts of the process.
#[test]
fn a_block_holds_over_a_restart() {
    if !can_run("a_block_holds_over_a_restart", &PROGRAMS) {
        return;
    }
    let mut server = Server::start("", "");
    server.connects();
    server.order("block", "phone");
    wait_until("the block", WAIT, || !server.is_connected()).unwrap();
    server.adit.terminate(WAIT).unwrap();
    server.adit = up(&server.ends[0], &[&server.file]);
    server.adit.wait_for_line(0, "1 peers are blocked until `adit allow`", WAIT).unwrap();
    wait_until("the server", WAIT, || server.ends[0].is_served()).unwrap();
    let [own, client] = &server.ends;
    let begin_anew = || client.replace_peer(own, &format!("endpoint {}:{PORT}", own.outer()));
    begin_anew();
    assert!(!server.is_connected(), "it is blocked still");
    server.order("allow", "phone");
    begin_anew();
    server.connects();
}

/// A program that says that it was asked, and gives the exit code of its answer when there is one.
fn slow(directory: &Path) -> PathBuf {
    let program = directory.join("slow");
    let text = format!(
        "#!/bin/sh\ntouch {0}/asked\nwhile ! [ -s {0}/answer ]; do sleep 0.05; done\nexit \"$(cat {0}/answer)\"\n",
        directory.display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// No packet of a peer passes before the program has said yes, nor after it has said no.
#[test]
fn client_connect_is_a_gate() {
    if !can_run("client_connect_is_a_gate", &PROGRAMS) {
        return;
    }
    for (code, may) in [("0", true), ("1", false)] {
        let directory = adit_testbed::Scratch::create("peer-gate").unwrap();
        let settings = format!("#adit: client-connect = {}", slow(directory.path()).display());
        let mut server = Server::start(&settings, "");
        wait_until("the program", WAIT, || directory.path().join("asked").exists()).unwrap();
        assert!(!server.is_connected(), "the program has not answered");
        let mark = server.adit.mark();
        std::fs::write(directory.path().join("answer"), code).unwrap();
        if may {
            server.connects();
        } else {
            server.adit.wait_for_line(mark, "client-connect refuses it", WAIT).unwrap();
            assert!(!server.is_connected(), "the program has said no");
        }
    }
}

#[test]
fn programs_are_asked_and_told() {
    if !can_run("programs_are_asked_and_told", &PROGRAMS) {
        return;
    }
    let directory = adit_testbed::Scratch::create("peer-access").unwrap();
    let program = recorder(directory.path());
    let program = program.display();
    let settings = format!(
        "#adit: client-connect = {program} up \"two words\"\n#adit: client-disconnect = {program} down"
    );
    let mut server = Server::start(&settings, "");
    server.connects();
    let recorded = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    wait_until("the program", WAIT, || !recorded("up").is_empty()).unwrap();
    let up = recorded("up");
    let [own, client] = &server.ends;
    for line in [
        "up two words",
        "script_type=client-connect",
        "common_name=phone",
        &format!("public_key={}", client.public_key),
        &format!("trusted_ip={}", client.outer()),
        &format!("ifconfig_pool_remote_ip={}", client.inner()),
        &format!("dev={}", own.device),
    ] {
        assert!(up.lines().any(|found| found == line), "{line} is missing in\n{up}");
    }
    let log = server.adit.log();
    assert!(log.lines().any(|line| line.ends_with(": phone connected")), "{log}");
    // Blocked: it is disconnected, and not asked about while it is. Then refused, until the program says otherwise.
    server.order("block", "phone");
    wait_until("the other program", WAIT, || !recorded("down").is_empty()).unwrap();
    let down = recorded("down");
    for start in
        ["down", "script_type=client-disconnect", "time_duration=", "disconnect_reason=it is blocked"]
    {
        assert!(down.lines().any(|found| found.starts_with(start)), "{start} is missing in\n{down}");
    }
    let received = down.lines().find_map(|line| line.strip_prefix("bytes_received="));
    assert!(received.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 100), "{down}");
    assert!(!server.is_connected());
    std::fs::remove_file(directory.path().join("up")).unwrap();
    std::fs::write(directory.path().join("code"), "7").unwrap();
    let mark = server.adit.mark();
    server.order("allow", &client.public_key);
    let refused = "peer phone: client-connect refuses it: exit code 7";
    server.adit.wait_for_line(mark, refused, LONG).unwrap();
    wait_until("the client to be out", WAIT, || !server.is_connected()).unwrap();
    std::fs::write(directory.path().join("code"), "0").unwrap();
    server.adit.wait_for_line(mark, "peer phone: it may connect again", LONG).unwrap();
    server.connects();
    // The file names another program.
    write(server.ends.each_ref(), &server.file, &settings.replace("down", "away"), "");
    let mark = server.adit.mark();
    server.adit.hang_up();
    server.adit.wait_for_line(mark, "SIGHUP: ", WAIT).unwrap();
    server.order("block", "phone");
    wait_until("the new program", WAIT, || recorded("away").contains("script_type=client-disconnect"))
        .unwrap();
    assert!(server.adit.terminate(WAIT).unwrap().success(), "{}", server.adit.log());
}

#[test]
fn peers_expire_and_sessions_have_limits() {
    if !can_run("peers_expire_and_sessions_have_limits", &PROGRAMS) {
        return;
    }
    let mut server = Server::start("", "#adit: expires = 2020-01-01\n#adit: session-limit = 1h");
    server.adit.wait_for_line(0, "peer phone: blocked: it expired at 2020-01-01T00:00:00Z", WAIT).unwrap();
    let allowed = server.order("allow", "phone");
    assert!(allowed.starts_with("phone may connect to "), "{allowed}");
    std::thread::sleep(Duration::from_secs(6));
    assert!(!server.is_connected(), "a peer that has expired was let in");
    // The day is put off for a moment.
    let soon = OffsetDateTime::from(SystemTime::now() + Duration::from_secs(25)).format(&Rfc3339).unwrap();
    write(server.ends.each_ref(), &server.file, "", &format!("#adit: expires = {soon}"));
    server.adit.hang_up();
    server.connects();
    let mark = server.adit.mark();
    server.adit.wait_for_line(mark, "peer phone: blocked: it expired at ", LONG).unwrap();
    wait_until("the client to be out", WAIT, || !server.is_connected()).unwrap();
    // A session limit holds until the peer is allowed again.
    write(server.ends.each_ref(), &server.file, "", "#adit: session-limit = 5s");
    let mark = server.adit.mark();
    server.adit.hang_up();
    server.connects();
    server
        .adit
        .wait_for_line(mark, "peer phone: blocked: its session limit of 5 s is reached", LONG)
        .unwrap();
    wait_until("the client to be out", WAIT, || !server.is_connected()).unwrap();
    server.order("allow", "phone");
    server.connects();
    assert!(server.adit.terminate(WAIT).unwrap().success(), "{}", server.adit.log());
}

#[test]
fn a_peer_that_is_not_there_cannot_be_blocked() {
    let directory = adit_testbed::Scratch::create("peer-access").unwrap();
    let file = directory.write("wgnone0.conf", "[Interface]\n").unwrap();
    for (peer, code, text) in [
        ("phone", 2, "wgnone0.conf: no peer has the name phone"),
        ("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", 1, "no interface wgnone0 runs here"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        let output = command.arg("block").arg(&file).arg(peer).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(text), "{errors}");
    }
}
