//! `adit up` of wg-quick's files, and real `wg-quick` with the same files: the state of the system is compared line by
//! line.

use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Process, can_run, program, wait_until, wait_until_reachable, wireguard_socket};

use super::bed::{End, PORT, Program, WAIT, device, joined};

/// The programs that real wg-quick needs.
const QUICK: [&str; 5] = ["wg", "wg-quick", "nft", "sysctl", "bash"];
/// adit's own way of a full tunnel lets less pass beside it than wg-quick's.
const BY_QUICK: &str = "#adit: full-tunnel = wg-quick";
/// A public key whose private key no peer has.
const OTHER: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// `adit up` of these files within the namespace of `end`.
pub(super) fn up(end: &End, files: &[&Path]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg("--resolv-conf").arg(end.scratch.path().join("resolv.conf")).args(files);
    command.env("STATE_DIRECTORY", &end.state);
    end.namespace.spawn("adit up", command).unwrap()
}

/// `wg-quick` of a file, with this implementation.
fn quick(end: &End, implementation: &str, order: &str, file: &Path) {
    let own = Path::new(env!("CARGO_BIN_EXE_adit-wireguard")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = program("wg-quick").unwrap();
    command.arg(order).arg(file);
    command.env("PATH", format!("{}:{}:{path}", end.scratch.path().display(), own.display()));
    command.env("WG_QUICK_USERSPACE_IMPLEMENTATION", implementation);
    command.env("STATE_DIRECTORY", &end.state);
    end.namespace.run(command).unwrap();
}

/// Stands for the program that Debian's wg-quick tells name servers to.
fn write_resolvconf(end: &End) {
    use std::os::unix::fs::PermissionsExt as _;
    let kept = end.scratch.path().join("name-servers");
    let text = format!("#!/bin/sh\nif [ \"$1\" = -a ]; then cat >{0}; else rm -f {0}; fi\n", kept.display());
    let file = end.scratch.write("resolvconf", &text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Addresses, MTU, routes, rules and the firewall of a namespace, and the output of `wg` about these devices.
fn state(end: &End, devices: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for list in [
        "-4 rule show",
        "-6 rule show",
        "-4 route show table all",
        "-6 route show table all",
        "-brief address show",
        "-brief link show",
    ] {
        let words: Vec<&str> = list.split(' ').collect();
        let text = end.namespace.ip(&words).unwrap();
        let is_link = |word: &&str| list == "-brief address show" && word.starts_with("fe80:");
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().filter(|word| !is_link(word)).collect();
            all.push(format!("{list}: {}", normalised(&words.join(" "))));
        }
    }
    for device in devices {
        let link = end.namespace.ip(&["link", "show", "dev", device]).unwrap_or_default();
        let words = link.split_whitespace().collect::<Vec<_>>();
        all.extend(
            words
                .windows(2)
                .filter(|pair| pair[0] == "mtu")
                .map(|pair| format!("{device} {}", pair.join(" "))),
        );
        for what in ["peers", "allowed-ips", "fwmark", "preshared-keys", "persistent-keepalive", "public-key"]
        {
            let text = end.wg(&format!("show {device} {what}")).unwrap_or_default();
            all.extend(text.lines().map(|line| format!("wg {what}: {}", in_order(line))));
        }
    }
    let mut nft = program("nft").unwrap();
    nft.args(["list", "ruleset"]);
    let rules = end.namespace.run(nft).unwrap();
    let (mut table, mut chain) = (String::new(), String::new());
    for line in rules.lines().map(normalised) {
        match line.trim() {
            line if line.starts_with("table") => line.clone_into(&mut table),
            line if line.starts_with("chain") => line.clone_into(&mut chain),
            line => all.push(format!("nft: {table} {chain} {line}")),
        }
    }
    // The kernel draws addresses at random for the link itself: wg-quick has a rule of the firewall for them, adit
    // none.
    all.retain(|line| !line.contains("fe80:"));
    // The firewall's tables and the devices may have been made in any order; rules have their priorities.
    all.sort();
    all
}

/// The words of a line, sorted: implementations list a peer's allowed IPs in orders of their own.
fn in_order(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

/// Names of the firewall's tables and numbers of devices and priorities that say nothing.
fn normalised(line: &str) -> String {
    // By its protocol adit knows its own routes and rules.
    let line = line.replace("iifname", "iif").replace(" proto 173", "");
    let is_ours = |word: &&str| word.starts_with("adit_mark_") || word.starts_with("wg-quick-");
    match line.split_whitespace().find(is_ours) {
        Some(table) => line.replace(table, "TABLE").replace('"', ""),
        None => line.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Checks that the system is the same by `wg-quick up` as by `adit up`, and that neither leaves anything. Each text is
/// the rest of a file.
fn same(test: &str, interfaces: &[&str]) {
    if !can_run(test, &QUICK) {
        return;
    }
    let [_server, client] = &joined([Program::Adit; 2]);
    client.namespace.ip(&["link", "set", "lo", "up"]).unwrap();
    write_resolvconf(client);
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    let marker = client.scratch.path().join("marker");
    let (mut files, mut devices): (Vec<PathBuf>, Vec<String>) = (Vec::new(), Vec::new());
    for text in interfaces {
        let device = device('f');
        let text = text.replace("MARKER", &marker.display().to_string());
        let text = format!("[Interface]\nPrivateKey = {}\n{BY_QUICK}\n{text}\n", key.trim());
        let text = text.replace("OTHER", OTHER);
        files.push(client.scratch.write(&format!("{device}.conf"), &text).unwrap());
        devices.push(device);
    }
    let before = state(client, &[]);
    let by_quick = |implementation: &str| {
        files.iter().for_each(|file| quick(client, implementation, "up", file));
        state(client, &devices)
    };
    if adit_testbed::missing_prerequisites(&["wireguard-go"]).is_empty() {
        let by_go = by_quick("wireguard-go");
        files.iter().for_each(|file| quick(client, "wireguard-go", "down", file));
        wait_until("wireguard-go to end", WAIT, || client.processes().is_empty()).unwrap();
        let _ = std::fs::remove_file(&marker);
        assert_eq!(by_quick("adit-wireguard"), by_go);
    } else {
        by_quick("adit-wireguard");
    }
    let expected = state(client, &devices);
    let servers = std::fs::read_to_string(client.scratch.path().join("name-servers")).unwrap_or_default();
    let hooks = std::fs::read_to_string(&marker).unwrap_or_default();
    files.iter().for_each(|file| quick(client, "adit-wireguard", "down", file));
    wait_until("wg-quick's daemon to end", WAIT, || client.processes().is_empty()).unwrap();
    assert_eq!(state(client, &[]), before, "wg-quick leaves something");
    let hooks_down = std::fs::read_to_string(&marker).unwrap_or_default();
    let _ = std::fs::remove_file(&marker);

    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let mut adit = up(client, &paths);
    let settled = wait_until("the interfaces", WAIT, || state(client, &devices) == expected);
    if settled.is_err() {
        pretty(&state(client, &devices), &expected, &adit.log());
    }
    let resolv = std::fs::read_to_string(client.scratch.path().join("resolv.conf")).unwrap_or_default();
    for server in servers.lines() {
        assert!(resolv.contains(server), "{server} is missing in {resolv}");
    }
    let hooks_are_done = || std::fs::read_to_string(&marker).unwrap_or_default() == hooks;
    wait_until("the hooks", WAIT, hooks_are_done).unwrap();
    let status = adit.terminate(WAIT).unwrap();
    assert!(status.success(), "{status}: {}", adit.log());
    assert_eq!(state(client, &[]), before, "adit leaves something: {}", adit.log());
    assert_eq!(std::fs::read_to_string(&marker).unwrap_or_default(), hooks_down);
    assert!(devices.iter().all(|device| !wireguard_socket(device).exists()), "a socket was left");
    wait_until("all processes to end", WAIT, || client.processes().is_empty()).unwrap();
}

/// Fails with the lines that differ.
fn pretty(found: &[String], expected: &[String], log: &str) {
    let only = |some: &[String], other: &[String]| {
        some.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>().join("\n")
    };
    let (more, less) = (only(found, expected), only(expected, found));
    panic!("adit alone:\n{more}\nwg-quick alone:\n{less}\n{log}");
}

#[test]
fn full_tunnel() {
    same(
        "full_tunnel",
        &[
            "Address = 10.77.0.2/24, fd00:77::2/64\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = 10.9.0.1:51820\nPersistentKeepalive = 25",
        ],
    );
}

#[test]
fn full_tunnel_for_one_family() {
    same(
        "full_tunnel_for_one_family",
        &[
            "Address = 10.77.0.2/32\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0, 10.78.0.0/16\nEndpoint = [fd00:9::1]:51820",
        ],
    );
}

#[test]
fn split_tunnel() {
    same(
        "split_tunnel",
        &[
            "Address = 10.77.0.2/24\nAddress = fd00:77::2/64\nListenPort = 51820\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 10.77.0.0/24, 192.168.5.0/24, 10.77.0.1/32, fd00:78::/48\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

#[test]
fn two_interfaces() {
    same(
        "two_interfaces",
        &[
            "Address = 10.77.0.2/24\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0\nEndpoint = 10.9.0.1:51820",
            "Address = 10.78.0.2/24\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 10.78.0.0/16\nEndpoint = 10.9.0.1:51821",
        ],
    );
}

#[test]
fn table_off() {
    same(
        "table_off",
        &[
            "Address = 10.77.0.2/24\nTable = off\nFwMark = 0x1234\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0, 192.168.5.0/24",
        ],
    );
}

#[test]
fn table_with_a_number() {
    same(
        "table_with_a_number",
        &[
            "Address = 10.77.0.2/24\nTable = 1234\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0, 10.77.0.0/24, 192.168.5.0/24, ::/0\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

#[test]
fn firewall_mark_of_the_file() {
    same(
        "firewall_mark_of_the_file",
        &[
            "Address = 10.77.0.2/24\nFwMark = 777\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 0.0.0.0/0\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

#[test]
fn hooks() {
    same(
        "hooks",
        &[
            "Address = 10.77.0.2/24\nPreUp = echo pre-up %i >>MARKER\nPostUp = ip rule add to 198.51.100.7 table main; echo %i up >>MARKER\nPostUp = wg show %i public-key >>MARKER\nPreDown = wg show %i public-key >>MARKER\nPreDown = false || true\nPostDown = ip rule del to 198.51.100.7 table main; ip link show %i >/dev/null 2>&1 || echo gone %i >>MARKER\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 192.168.5.0/24\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

#[test]
fn name_servers() {
    same(
        "name_servers",
        &[
            "Address = 10.77.0.2/32\nDNS = 10.77.0.53, fd00:77::53, corp.example\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 10.77.0.0/24\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

#[test]
fn ipv6_only() {
    same(
        "ipv6_only",
        &[
            "Address = fd00:77::2/128\n[Peer]\nPublicKey = OTHER\nAllowedIPs = ::/0\nEndpoint = [fd00:9::1]:51820",
        ],
    );
}

#[test]
fn preshared_key_and_no_endpoint() {
    same(
        "preshared_key_and_no_endpoint",
        &[
            "Address = 10.77.0.1/24\nListenPort = 51820\n[Peer]\nPublicKey = OTHER\nPresharedKey = AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\nAllowedIPs = 10.77.0.2/32, 192.168.5.0/24",
        ],
    );
}

#[test]
fn endpoint_by_name() {
    same(
        "endpoint_by_name",
        &[
            "Address = 10.77.0.2/24\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 10.78.0.0/16\nEndpoint = localhost:51820",
        ],
    );
}

#[test]
fn mtu_of_the_file() {
    same(
        "mtu_of_the_file",
        &[
            "Address = 10.77.0.2/24, fd00:77::2/64\nMTU = 1300\n[Peer]\nPublicKey = OTHER\nAllowedIPs = 10.78.0.0/16, fd00:78::/64\nEndpoint = 10.9.0.1:51820",
        ],
    );
}

/// A full tunnel of a file, where these programs are hidden. Gives the log, and the rules of the firewall meanwhile.
fn full_tunnel_without(programs: &[&str]) -> (String, String) {
    let end = End::create(1, Program::Adit);
    let key = std::fs::read_to_string(&end.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.77.0.2/24\n[Peer]\nPublicKey = {OTHER}\nAllowedIPs = 0.0.0.0/0\n\
         Endpoint = 10.9.0.1:{PORT}\n",
        key.trim()
    );
    let file = end.scratch.write(&format!("{}.conf", end.device), &text).unwrap();
    let layers = end.scratch.path().join("layers");
    std::fs::create_dir(&layers).unwrap();
    // A device of the numbers 0, 0 hides a file in an overlay (Documentation/filesystems/overlayfs.rst).
    let script = "mount -t tmpfs none $0 && mkdir $0/upper $0/work && for name in $3; do mknod $0/upper/$name c 0 0; done && \
                  mount -t overlay none -o lowerdir=/usr/sbin,upperdir=$0/upper,workdir=$0/work /usr/sbin && \
                  exec \"$1\" up \"$2\"";
    let mut command = program("unshare").unwrap();
    command.args(["--mount", "sh", "-c", script]).arg(&layers);
    command.args([Path::new(env!("CARGO_BIN_EXE_adit")), &file]).arg(programs.join(" "));
    command.env("STATE_DIRECTORY", &end.state);
    let mut adit = end.namespace.spawn("adit up", command).unwrap();
    adit.wait_for_line(0, "interface up", WAIT).unwrap();
    let shown = || {
        let mut of_iptables = program("iptables-save").unwrap();
        of_iptables.args(["-t", "raw"]);
        let mut of_nftables = program("nft").unwrap();
        of_nftables.args(["list", "ruleset"]);
        [of_iptables, of_nftables].map(|command| end.namespace.run(command).unwrap_or_default()).concat()
    };
    let rules = shown();
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
    assert!(!shown().to_lowercase().contains("drop"), "{}", shown());
    (adit.log(), rules)
}

#[test]
fn a_full_tunnel_comes_up_where_there_is_iptables_but_no_nft() {
    const NEEDS: [&str; 6] = ["unshare", "mount", "nft", "iptables-save", "iptables-restore", "mknod"];
    if !can_run("a_full_tunnel_comes_up_where_there_is_iptables_but_no_nft", &NEEDS) {
        return;
    }
    let (log, rules) = full_tunnel_without(&["nft"]);
    assert!(rules.contains("-d 10.77.0.2/32") && rules.contains("DROP"), "{rules}\n{log}");
    assert!(!log.contains("warning") && !log.contains("error"), "{log}");
}

/// The kernel's nftables are set without any program.
#[test]
fn a_full_tunnel_sets_the_firewalls_rules_where_no_program_of_a_firewall_is_installed() {
    let name = "a_full_tunnel_sets_the_firewalls_rules_where_no_program_of_a_firewall_is_installed";
    if !can_run(name, &["unshare", "mount", "mknod", "nft", "iptables-restore"]) {
        return;
    }
    let (log, rules) = full_tunnel_without(&["nft", "iptables-restore", "iptables-save"]);
    assert!(rules.contains("ip daddr 10.77.0.2 fib saddr type != local drop"), "{rules}\n{log}");
    assert!(!log.contains("warning") && !log.contains("error"), "{log}");
}

/// Containers often have no IPv6, and files of providers have both families.
#[test]
fn a_file_of_both_families_comes_up_where_ipv6_is_switched_off() {
    if !can_run("a_file_of_both_families_comes_up_where_ipv6_is_switched_off", &["wg"]) {
        return;
    }
    let [server, client] = &joined([Program::Adit; 2]);
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    server.bring_up();
    server.namespace.ip(&["address", "add", "192.0.2.9/32", "dev", "lo"]).unwrap();
    let switch_off = || {
        for device in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
        }
    };
    client.namespace.enter(switch_off).unwrap();
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    for (lines, allowed, passed_over) in [
        ("", "0.0.0.0/0, ::/0", "::/0"),
        (BY_QUICK, "0.0.0.0/0, ::/0", "::/0"),
        ("", "192.0.2.0/24, fd00:99::/64", "fd00:99::/64"),
    ] {
        let text = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {}/24, {}/64\n{lines}\n[Peer]\nPublicKey = {}\n\
             AllowedIPs = {allowed}\nEndpoint = {}:{PORT}\n",
            key.trim(),
            client.inner(),
            client.inner_v6(),
            server.public_key,
            server.outer()
        );
        let file = client.scratch.write(&format!("{}.conf", client.device), &text).unwrap();
        let mut adit = up(client, &[&file]);
        adit.wait_for_line(0, "interface up", WAIT).unwrap();
        wait_until_reachable(&client.namespace, "192.0.2.9".parse().unwrap(), WAIT).unwrap();
        assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
        let log = adit.log();
        let complaints: Vec<&str> =
            log.lines().filter(|line| line.contains("warning: ") || line.contains("error: ")).collect();
        let wanted = format!("passed over are {}/64, {passed_over}", client.inner_v6());
        assert!(complaints.len() == 1 && complaints[0].ends_with(&wanted), "{log}");
        let is_named = log
            .lines()
            .any(|line| line.contains("interface up") && line.contains(&client.inner_v6().to_string()));
        assert!(!is_named, "{log}");
        wait_until("all processes to end", WAIT, || client.processes().is_empty()).unwrap();
    }
}

#[test]
fn adit_up_carries_packets_and_wg_sees_it() {
    if !can_run("adit_up_carries_packets_and_wg_sees_it", &QUICK) {
        return;
    }
    let [server, client] = &joined([Program::Adit; 2]);
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    server.bring_up();
    server.namespace.ip(&["address", "add", "192.0.2.9/32", "dev", "lo"]).unwrap();
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24, {}/64\nPostUp = false\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = {}:{PORT}\n",
        key.trim(),
        client.inner(),
        client.inner_v6(),
        server.public_key,
        server.outer()
    );
    let file = client.scratch.write(&format!("{}.conf", client.device), &text).unwrap();
    let before = state(client, &[]);
    let mut failing = up(client, &[&file]);
    let status = failing.wait(WAIT).unwrap();
    let log = failing.log();
    assert!(
        status.code() == Some(1) && log.contains(".conf:4: PostUp: the command failed"),
        "{status} {log}"
    );
    assert_eq!(state(client, &[]), before);
    std::fs::write(&file, text.replace("PostUp = false\n", "")).unwrap();
    let mut adit = up(client, &[&file]);
    adit.wait_for_line(0, "interface up", WAIT).unwrap();
    for target in ["192.0.2.9".parse().unwrap(), server.inner(), server.inner_v6()] {
        wait_until_reachable(&client.namespace, target, WAIT).unwrap();
    }
    assert!(client.wg("show DEV latest-handshakes").unwrap().contains(&server.public_key));
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
    assert_eq!(state(client, &[]), before);
}
