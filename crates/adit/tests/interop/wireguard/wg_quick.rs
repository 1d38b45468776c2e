//! Debian's `wg-quick` starts the program, and all its commands succeed on that interface.

use std::path::Path;

use adit_testbed::{can_run, program, wait_until_reachable};

use super::bed::{End, PORT, Program, WAIT, joined};

/// As `ip route` shows it.
const LINK_LOCAL: &str = "fe80::/64 dev wire proto kernel metric 256 pref medium\n";

#[test]
fn wg_quick_takes_a_full_tunnel_up_and_down() {
    if !can_run("wg_quick_takes_a_full_tunnel_up_and_down", &["wg", "wg-quick", "nft", "sysctl"]) {
        return;
    }
    let [server, client] = &joined([Program::Adit; 2]);
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    server.bring_up();
    // An address that can be reached through the tunnel alone.
    server.namespace.ip(&["address", "add", "192.0.2.9/32", "dev", "lo"]).unwrap();
    let key = std::fs::read_to_string(&client.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24, {}/64\n\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = {}:{PORT}\n",
        key.trim(),
        client.inner(),
        client.inner_v6(),
        server.public_key,
        server.outer()
    );
    let file = client.scratch.write(&format!("{}.conf", client.device), &text).unwrap();
    let before = state(client);
    let quick = |order: &str| {
        let mut command = program("wg-quick").unwrap();
        let own = Path::new(env!("CARGO_BIN_EXE_adit-wireguard")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        command.arg(order).arg(&file).env("PATH", format!("{}:{path}", own.display()));
        command
            .env("WG_QUICK_USERSPACE_IMPLEMENTATION", "adit-wireguard")
            .env("STATE_DIRECTORY", &client.state);
        client.namespace.run(command).unwrap()
    };
    quick("up");
    // Where the kernel has WireGuard, wg-quick starts no other program.
    if !Path::new("/sys/module/wireguard").exists() {
        assert_eq!(client.daemons().len(), 1);
    }
    for target in ["192.0.2.9".parse().unwrap(), server.inner(), server.inner_v6()] {
        wait_until_reachable(&client.namespace, target, WAIT).unwrap();
    }
    // The tunnel's own datagrams go beside it, by their mark.
    assert_ne!(client.wg("show DEV fwmark").unwrap().trim(), "off");
    quick("down");
    client.wait_until_gone();
    assert_eq!(state(client), before);
}

/// Routes and rules of the client, without the route that comes with the wire's link-local address, by itself and late.
fn state(end: &End) -> Vec<String> {
    let lists: [&[&str]; 4] = [
        &["-4", "rule", "show"],
        &["-6", "rule", "show"],
        &["-4", "route", "show", "table", "all"],
        &["-6", "route", "show"],
    ];
    lists.map(|list| end.namespace.ip(list).unwrap().replace(LINK_LOCAL, "")).into()
}
