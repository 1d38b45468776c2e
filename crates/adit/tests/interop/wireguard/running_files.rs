//! The operations of a file's tunnel while it runs: SIGHUP, `adit status`, and `SaveConfig` at its end.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Process, can_run, wait_until, wait_until_reachable};

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined};
use super::files::up;

/// A server that runs, and the file of its client, which runs too. The text is the rest of its `[Interface]`, and the
/// networks that the client reaches besides the server.
pub(super) struct Running {
    pub(super) ends: [End; 2],
    pub(super) file: PathBuf,
    pub(super) adit: Process,
}

impl Running {
    pub(super) fn start(interface: &str, allowed: &str) -> Self {
        Running::start_with(|_| Vec::new(), interface, allowed)
    }

    /// Starts the tunnel in one process with other files, which are made for the client.
    pub(super) fn start_with(
        others: impl FnOnce(&End) -> Vec<PathBuf>,
        interface: &str,
        allowed: &str,
    ) -> Self {
        let ends = joined([Program::Adit; 2]);
        let [server, client] = &ends;
        server.start().unwrap();
        server.set_key();
        server.add_peer(client, None);
        server.bring_up();
        server.namespace.ip(&["address", "add", "192.0.2.9/32", "dev", "lo"]).unwrap();
        let file = client.scratch.path().join(format!("{}.conf", client.device));
        write(&ends.each_ref(), &file, interface, allowed);
        let others = others(client);
        let files: Vec<&Path> = others.iter().chain([&file]).map(PathBuf::as_path).collect();
        let adit = up(client, &files);
        if let Err(error) = wait_until_reachable(&client.namespace, server.inner(), WAIT) {
            panic!("{error}\n{}", adit.log());
        }
        Running { ends, file, adit }
    }

    fn handshakes(&self) -> String {
        self.ends[1].wg("show DEV latest-handshakes").unwrap()
    }

    fn routes(&self) -> String {
        self.ends[1].namespace.ip(&["route", "show", "dev", &self.ends[1].device]).unwrap()
    }
}

pub(super) fn write([server, client]: &[&End; 2], file: &Path, interface: &str, allowed: &str) {
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24\n{interface}\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = 10.77.0.0/24{allowed}\nEndpoint = {}:{PORT}\nPersistentKeepalive = 25\n",
        key.trim(),
        client.inner(),
        server.public_key,
        server.outer()
    );
    std::fs::write(file, text).unwrap();
}

#[test]
fn sighup_takes_what_changed_and_keeps_the_session() {
    if !can_run("sighup_takes_what_changed_and_keeps_the_session", &PROGRAMS) {
        return;
    }
    let mut running = Running::start("", "");
    let before = running.handshakes();
    let other = "192.0.2.9".parse().unwrap();
    assert!(!running.ends[1].is_answered(other));
    write(&running.ends.each_ref(), &running.file, "MTU = 1300", ", 192.0.2.9/32");
    running.adit.hang_up();
    running.adit.wait_for_line(0, "SIGHUP: ", WAIT).unwrap();
    wait_until("the route", WAIT, || running.routes().contains("192.0.2.9")).unwrap();
    wait_until_reachable(&running.ends[1].namespace, other, WAIT).unwrap();
    assert_eq!(running.handshakes(), before, "the session was lost");
    let log = running.adit.log();
    assert!(log.contains(".conf:4: MTU changes at the next start"), "{log}");

    let mark = running.adit.mark();
    let good = std::fs::read_to_string(&running.file).unwrap();
    std::fs::write(&running.file, good.replace("192.0.2.9/32", "192.0.2.9/33")).unwrap();
    running.adit.hang_up();
    running.adit.wait_for_line(mark, "changes nothing", WAIT).unwrap();
    assert!(running.adit.log().contains(".conf:7: AllowedIPs: "), "{}", running.adit.log());
    assert!(running.ends[1].is_answered(other));

    write(&running.ends.each_ref(), &running.file, "", "");
    running.adit.hang_up();
    wait_until("the route to go", WAIT, || !running.routes().contains("192.0.2.9")).unwrap();
    assert!(!running.ends[1].is_answered(other));
    assert_eq!(running.handshakes(), before, "the session was lost");
    let without_peer = good.split("[Peer]").next().unwrap().to_owned();
    std::fs::write(&running.file, without_peer).unwrap();
    running.adit.hang_up();
    wait_until("the peer to go", WAIT, || running.handshakes().is_empty()).unwrap();
    assert!(running.adit.terminate(WAIT).unwrap().success());
}

#[test]
fn status_shows_peers_in_one_form() {
    if !can_run("status_shows_peers_in_one_form", &PROGRAMS) {
        return;
    }
    let mut running = Running::start("", ", 192.0.2.9/32");
    let [server, client] = &running.ends;
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("status").args(arguments);
        client.namespace.run(command).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&status(&["--json", &client.device])).unwrap();
    let report = &json[0];
    assert_eq!((&report["role"], &report["device"]), (&"wireguard".into(), &client.device.as_str().into()));
    let peer = &report["peers"][0];
    assert_eq!(peer["name"], server.public_key.as_str());
    assert_eq!(peer["remote"], format!("{}:{PORT}", server.outer()));
    assert_eq!(peer["addresses"], serde_json::json!(["192.0.2.9"]));
    assert_eq!(peer["networks"], serde_json::json!(["10.77.0.0/24"]));
    assert!(peer["bytes_received"].as_u64().unwrap() > 0 && peer["last_handshake_seconds_ago"].is_u64());
    let other = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    client.wg(&format!("set DEV peer {other} allowed-ips 10.79.0.0/16")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&status(&["--json", &client.device])).unwrap();
    let unconnected = serde_json::json!([{
        "name": other, "public_key": other, "remote": null, "networks": ["10.79.0.0/16"], "unanswered": 0, "blocked": false
    }]);
    assert_eq!(json[0]["unconnected"], unconnected);
    assert!(
        status(&[&client.device])
            .contains(&format!("  not connected: {other} no endpoint: no handshake yet"))
    );
    let text = status(&["--details", &client.device]);
    assert!(text.contains(&server.public_key) && text.contains("networks   10.77.0.0/24"), "{text}");
    assert!(running.adit.terminate(WAIT).unwrap().success());
}

#[test]
fn the_file_is_saved_at_the_end() {
    if !can_run("the_file_is_saved_at_the_end", &PROGRAMS) {
        return;
    }
    let mut running = Running::start("SaveConfig = true\nPostDown = true # kept", "");
    let other = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    running.ends[1]
        .wg(&format!("set DEV peer {other} allowed-ips 10.79.0.0/16 persistent-keepalive 7"))
        .unwrap();
    assert!(running.adit.terminate(WAIT).unwrap().success());
    let text = std::fs::read_to_string(&running.file).unwrap();
    let [server, client] = &running.ends;
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    for line in [
        "Address = 10.77.0.2/24",
        "SaveConfig = true",
        "PostDown = true # kept",
        &format!("PrivateKey = {}", key.trim()),
        &format!("PublicKey = {}", server.public_key),
        &format!("Endpoint = {}:{PORT}", server.outer()),
        &format!("PublicKey = {other}"),
        "AllowedIPs = 10.79.0.0/16",
        "PersistentKeepalive = 7",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    assert_eq!(std::fs::metadata(&running.file).unwrap().permissions().mode() & 0o777, 0o600);
    // The saved file can be run, and `wg` has the settings that it had.
    let mut again = up(client, &[&running.file]);
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    assert!(client.wg("show DEV allowed-ips").unwrap().contains("10.79.0.0/16"));
    assert!(again.terminate(WAIT).unwrap().success());
}

#[test]
fn a_killed_process_leaves_nothing_in_the_way() {
    if !can_run("a_killed_process_leaves_nothing_in_the_way", &["wg", "nft"]) {
        return;
    }
    let mut running = Running::start("PostDown = true", ", 0.0.0.0/0");
    let [server, client] = &running.ends;
    assert!(client.namespace.ip(&["rule", "show"]).unwrap().contains("suppress_prefixlength"));
    running.adit.kill().unwrap();
    wait_until("its helper and its shells to end", WAIT, || client.processes().is_empty()).unwrap();
    assert!(!client.namespace.ip(&["rule", "show"]).unwrap().contains("suppress_prefixlength"));
    let mut again = up(client, &[&running.file]);
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    assert!(again.terminate(WAIT).unwrap().success());
}

#[test]
fn files_of_both_kinds_run_in_one_process() {
    if !can_run("files_of_both_kinds_run_in_one_process", &PROGRAMS) {
        return;
    }
    let [server, client] = &joined([Program::Adit; 2]);
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    server.bring_up();
    let file = client.scratch.path().join(format!("{}.conf", client.device));
    write(&[server, client], &file, "", "");
    let directory = client.scratch.path().join("openvpn");
    let mut init = Command::new(env!("CARGO_BIN_EXE_adit"));
    init.arg("init").arg(&directory).args(["--endpoint", "192.0.2.1"]);
    client.namespace.run(init).unwrap();
    let mut adit = up(client, &[&directory.join("server.conf"), &file]);
    adit.wait_for_line(0, "server: tunnel up", WAIT).unwrap();
    adit.wait_for_line(0, &format!("{}: interface up", client.device), WAIT).unwrap();
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
    let log = adit.log();
    assert!(log.contains("server: ended on request"), "{log}");
    assert!(log.contains(&format!("{}: ended on request", client.device)), "{log}");
    // One port for both is refused with both lines.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[Interface]", "[Interface]\nListenPort = 1194")).unwrap();
    let mut refused = up(client, &[&directory.join("server.conf"), &file]);
    assert_eq!(refused.wait(WAIT).unwrap().code(), Some(2));
    let log = refused.log();
    assert!(log.contains(".conf:2: UDP port 1194 is that of ") && log.contains("server.conf:"), "{log}");
}
