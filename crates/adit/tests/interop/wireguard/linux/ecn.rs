//! The ECN field around datagrams and in packets (RFC 6040, normal mode), and the DSCP of handshakes.

use std::time::Duration;

use adit_testbed::{Namespace, Ping, can_run, program};

use crate::wireguard::bed::{End, PORT, PROGRAMS, Program, pair};

fn nft(namespace: &Namespace, words: &str) -> String {
    let mut nft = program("nft").unwrap();
    nft.arg(words);
    namespace.run(nft).unwrap()
}

/// Counts the packets that match a rule of a chain, from the table's making on.
fn count(namespace: &Namespace, name: &str, (hook, priority): (&str, i32), rule: &str) {
    let words = format!(
        "add counter inet rfc6040 {name}; \
         add chain inet rfc6040 {name} {{ type filter hook {hook} priority {priority}; }}; \
         add rule inet rfc6040 {name} {rule} counter name {name}"
    );
    nft(namespace, &words);
}

/// Packets counted so far.
fn counted(namespace: &Namespace, name: &str) -> u64 {
    let text = nft(namespace, &format!("list counter inet rfc6040 {name}"));
    let mut words = text.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).unwrap().parse().unwrap()
}

/// The congestion mark of a router on the way is on the packet that comes out, and a packet whose sender does not know marks
/// is dropped in place of being marked.
fn marks_pass([first, second]: &[End; 2], ip: &str, outer: String, inner: std::net::IpAddr) {
    second.add_peer(first, Some(outer));
    second.reaches(first);
    let (from, to) = (&second.namespace, &first.namespace);
    let requests = match ip {
        "ip" => "icmp type echo-request",
        _ => "icmpv6 type echo-request",
    };
    for namespace in [from, to] {
        nft(namespace, "add table inet rfc6040");
    }
    // The header that the sender's application gives its packets: ECT(0), with a DSCP that is not to be seen
    // outside.
    let (out, wire) = (&second.device, "iifname wire udp dport 51820");
    nft(from, "add chain inet rfc6040 application { type route hook output priority -150; }");
    nft(
        from,
        &format!(
            "add rule inet rfc6040 application oifname {out} {requests} {ip} dscp set ef {ip} ecn set ect0"
        ),
    );
    count(to, "outside", ("prerouting", -200), &format!("{wire} {ip} dscp cs0 {ip} ecn ect0"));
    count(
        to,
        "unmarked",
        ("input", 0),
        &format!("iifname {} {requests} {ip} dscp ef {ip} ecn ect0", first.device),
    );
    count(
        to,
        "marked",
        ("input", 0),
        &format!("iifname {} {requests} {ip} dscp ef {ip} ecn ce", first.device),
    );
    // Datagrams that come together would be counted as one: the kernel merges them (UDP_GRO) before they are counted. So
    // each has its answer before the next one is sent.
    let once = Ping::new(1, Duration::ZERO);
    let ten_pass = || (0..10).all(|_| once.run(from, inner).unwrap().is_clean());
    assert!(ten_pass());
    let counts = || ["outside", "unmarked", "marked"].map(|name| counted(to, name));
    assert_eq!(counts(), [10, 10, 0], "{ip}");

    // A router marks all that passes.
    nft(to, "add chain inet rfc6040 router { type filter hook prerouting priority -190; }");
    nft(to, &format!("add rule inet rfc6040 router {wire} {ip} ecn set ce"));
    assert!(ten_pass());
    assert_eq!(counts(), [20, 10, 10], "{ip}");
    nft(from, "delete chain inet rfc6040 application");
    let ping = Ping { timeout: Duration::from_millis(300), ..Ping::new(10, Duration::from_millis(50)) };
    assert_eq!(ping.run(from, inner).unwrap().received, 0, "{ip}: they do not know marks");
    for namespace in [from, to] {
        nft(namespace, "delete table inet rfc6040");
    }
    second.reaches(first);
}

#[test]
fn congestion_marks_pass_in_both_families() {
    if !can_run("congestion_marks_pass_in_both_families", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let ends = pair([Program::Adit; 2]);
    let first = &ends[0];
    marks_pass(&ends, "ip", first.outer(), first.inner());
    marks_pass(&ends, "ip6", first.outer_v6(), first.inner_v6());
}

/// DSCP AF41, by which routers know datagrams that must not wait; data has none.
#[test]
fn handshakes_have_a_dscp() {
    if !can_run("handshakes_have_a_dscp", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    for (end, message) in [(first, "156"), (second, "100")] {
        nft(&end.namespace, "add table inet rfc6040");
        // An initiation of 148 bytes, or a response of 92; and anything else, such as data.
        let rules = [
            ("handshakes", format!("iifname wire udp length {message} ip dscp af41")),
            ("others", "iifname wire udp dport 51820 udp length != { 100, 156 } ip dscp != cs0".to_owned()),
        ];
        for (name, rule) in rules {
            count(&end.namespace, name, ("input", 0), &rule);
        }
    }
    // A handshake that nothing was counted of may be there already.
    second.replace_peer(first, &format!("endpoint {}:{PORT}", first.outer()));
    second.reaches(first);
    for end in [first, second] {
        let counts = ["handshakes", "others"].map(|name| counted(&end.namespace, name));
        assert!(counts[0] >= 1 && counts[1] == 0, "{counts:?}");
    }
}
