//! The rows with Linux's own WireGuard, ESP and OpenVPN's data channel, which this system's kernel may not have: this test
//! program runs itself in a guest with one of Debian's kernels. The rows are its tests in modules called `kernel…`, `dco`,
//! `ipsec::linux` and `ipsec::others`, which are ignored elsewhere.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Guest, Kernel};

/// How long a guest may take, on a machine that is busy with other tests: with a virtual clock it needs a processor for minutes.
const LIMIT: Duration = Duration::from_secs(3600);
/// Tests at once in a guest: waits cost nothing there, and what a guest has to do at once must not take longer than the tests'
/// time limits.
const AT_ONCE: usize = 6;
/// MiB of a guest's memory, which holds its files, too.
const MEMORY: u32 = 1536;
/// The environment variable that names rows, with spaces between: then only rows whose names contain one of these words run, and
/// each line of the guest is shown as it comes.
const ROWS: &str = "ADIT_GUEST_ROWS";

/// `wg-quick` in a guest, with this program as `$0`: where the kernel has no WireGuard, so that it starts adit; then, with the
/// module, where it does not.
const WG_QUICK: &str = "failed=0
quick=wireguard::wg_quick::wg_quick_takes_a_full_tunnel_up_and_down
echo 'install wireguard /bin/false' >/etc/modprobe.d/without.conf
\"$0\" --exact $quick || failed=1
rm /etc/modprobe.d/without.conf
modprobe wireguard || exit
\"$0\" --exact $quick || failed=1
";
/// Ends the output of a group of rows.
const END_OF_GROUP: &str = "end of group";

/// Rows that run beside each other.
#[derive(Clone, Copy)]
struct Group<'a> {
    /// Words that their names contain.
    words: &'a [&'a str],
    /// How many there are at least.
    least: usize,
    /// Whether a test has several rows, and writes a line for each that passed ([`is_row`]).
    has_lines: bool,
}

/// The rows of one guest.
struct Rows<'a> {
    test: &'a str,
    kernel: Kernel,
    /// The commands that run before the first group, to which their rows count.
    before: &'a str,
    /// One after the other, in one guest: to boot it costs as much as several rows.
    groups: &'a [Group<'a>],
    /// The roots whose programs the guest has.
    roots: &'a [&'a str],
}

/// A test that passed.
fn is_test(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with(" ok")
}

/// A row of a test that has several.
fn is_row(line: &str) -> bool {
    line.starts_with("row: ")
}

/// The root that has OpenVPN.
const OPENVPN_PEER: &[&str] = &["unstable"];
/// The root that has strongSwan, and what rows of WireGuard need.
const STRONGSWAN: &[&str] = &["strongswan"];
/// The roots that have peers for IPsec. Debian cannot have them installed at once; OpenIKED needs a user of its own.
const IPSEC_PEERS: &[&str] = &["openiked", "strongswan", "libreswan"];

/// The words that names of rows of WireGuard contain.
const WIREGUARD: [&str; 5] =
    ["others::kernel", "nat::kernel", "load::kernel_first", "wireguard::kernel::", "kernel_rekeys::around"];
/// Those of [`WIREGUARD`] that `make test` runs on Linux 6.1.
const WIREGUARD_OLD: [&str; 5] = [
    "others::kernel_first",
    "nat::kernel_first",
    "load::kernel_first",
    "wireguard::kernel::",
    "kernel_rekeys::around",
];
/// Those that `make test` runs on unstable's kernel, with steps of Linux's own test of WireGuard (`wireguard/linux.rs`).
const WIREGUARD_NEW: [&str; 4] = [
    "others::kernel_second",
    "nat::kernel_second",
    "linux::routing::kernel_first",
    "kernel_second::every_byte",
];
/// The words that names of rows of OpenVPN contain that `make test` runs.
const OPENVPN: [&str; 3] = ["dco::client_", "dco::server_", "_that_moves"];
/// strongSwan with the kernel's ESP. Each test has several rows.
const IPSEC: [&str; 4] = ["ipsec::many::linux_", "linux::esp_goes_raw", "linux::rekeys", "linux::a_packet"];

#[test]
fn wireguard_and_ipsec_of_linux_6_1() {
    let test = "wireguard_and_ipsec_of_linux_6_1";
    // Two of `wg-quick`.
    let wireguard = Group { words: &WIREGUARD_OLD, least: 15, has_lines: false };
    let ipsec = Group { words: &IPSEC, least: 31, has_lines: true };
    let (kernel, groups) = (Kernel::Bookworm, &[wireguard, ipsec]);
    check(&Rows { test, kernel, before: WG_QUICK, groups, roots: STRONGSWAN });
}

#[test]
fn openvpn_and_wireguard_of_linux_of_debian_unstable() {
    let test = "openvpn_and_wireguard_of_linux_of_debian_unstable";
    // Not beside each other: pings at a renegotiation need their share of the one emulated processor.
    let openvpn = Group { words: &OPENVPN, least: 8, has_lines: false };
    let wireguard = Group { words: &WIREGUARD_NEW, least: 12, has_lines: false };
    let groups = &[openvpn, wireguard];
    check(&Rows { test, kernel: Kernel::Unstable, before: "", groups, roots: OPENVPN_PEER });
}

/// Rows that take a processor for many minutes. Each has a shorter one above.
mod long {
    use super::{Group, IPSEC_PEERS, Kernel, OPENVPN_PEER, Rows, WIREGUARD, check};

    #[test]
    #[ignore = "minutes of a processor"]
    fn wireguard_of_linux_6_1_throughout_two_rekeys() {
        let test = "wireguard_of_linux_6_1_throughout_two_rekeys";
        let words = &["kernel_rekeys::throughout", "others::kernel_second", "nat::kernel_second"];
        let groups = &[Group { words, least: 8, has_lines: false }];
        check(&Rows { test, kernel: Kernel::Bookworm, before: "", groups, roots: OPENVPN_PEER });
    }

    #[test]
    #[ignore = "minutes of a processor"]
    fn ipsec_of_linux_6_1_with_three_peers() {
        let test = "ipsec_of_linux_6_1_with_three_peers";
        let groups =
            &[Group { words: &["linux::throughout", "ipsec::others::"], least: 22, has_lines: true }];
        check(&Rows { test, kernel: Kernel::Bookworm, before: "", groups, roots: IPSEC_PEERS });
    }

    #[test]
    #[ignore = "minutes of a processor"]
    fn all_of_linux_of_debian_unstable() {
        let test = "all_of_linux_of_debian_unstable";
        let steps = ["linux::traffic::kernel", "linux::routing::kernel", "linux::sources::kernel"];
        let further = ["kernel_rekeys::throughout", "dco::hundred::", "many_clients"];
        let words = [&WIREGUARD[..], &steps, &further].concat();
        let groups = &[Group { words: &words, least: 55, has_lines: false }];
        check(&Rows { test, kernel: Kernel::Unstable, before: "", groups, roots: OPENVPN_PEER });
    }
}

/// The groups to run: the rows' own, or one of the rows that [`ROWS`] names.
fn chosen<'a>(rows: &Rows<'a>, names: &'a [&'a str]) -> Vec<Group<'a>> {
    match names {
        [] => rows.groups.to_vec(),
        _ => {
            vec![Group { words: names, least: 1, has_lines: rows.groups.iter().any(|group| group.has_lines) }]
        }
    }
}

/// The script that a guest runs, with this program as `$0` and how many tests at once as `$1`.
fn script(before: &str, groups: &[Group<'_>]) -> String {
    let group = |group: &Group<'_>| {
        let capture = if group.has_lines { "--nocapture" } else { "" };
        let words: String = group.words.iter().map(|word| format!(" '{word}'")).collect();
        format!(
            "\"$0\" --ignored --test-threads \"$1\" {capture}{words} || failed=1\necho '{END_OF_GROUP}'\n"
        )
    };
    format!("{before}{}exit ${{failed:-0}}\n", groups.iter().map(group).collect::<String>())
}

/// How many rows of each group passed, by what the guest wrote.
fn passed(output: &str, groups: &[Group<'_>]) -> Vec<usize> {
    let parts = output.split(END_OF_GROUP);
    let count = |(part, group): (&str, &Group<'_>)| {
        part.lines().filter(|line| if group.has_lines { is_row(line) } else { is_test(line) }).count()
    };
    parts.zip(groups).map(count).collect()
}

/// Runs the rows in a guest, of which none may fail.
fn check(rows: &Rows<'_>) {
    let (first, further) = rows.roots.split_first().unwrap();
    let guest = Guest::new(rows.kernel).with_root(first, MEMORY).with_virtual_clock();
    let guest = further.iter().fold(guest, |guest, root| guest.with_further_root(root));
    if !guest.is_ready(rows.test) {
        return;
    }
    let names = std::env::var(ROWS).unwrap_or_default();
    let names: Vec<&str> = names.split_whitespace().collect();
    let groups = chosen(rows, &names);
    let before = if names.is_empty() { rows.before } else { "" };
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &script(before, &groups)]).arg(&program).arg(AT_ONCE.to_string());
    command.env("CI", "true");
    let guest = [
        program.as_path(),
        Path::new(env!("CARGO_BIN_EXE_adit")),
        Path::new(env!("CARGO_BIN_EXE_adit-wireguard")),
    ]
    .into_iter()
    .fold(guest, Guest::with_program);
    let show = |line: &str| {
        if !names.is_empty() {
            eprintln!("guest| {line}");
        }
    };
    let report = guest.run_and_show(&command, LIMIT, show).unwrap();
    let passed = passed(&report.output, &groups);
    report.output.lines().filter(|line| is_row(line)).for_each(|line| eprintln!("{line}"));
    // Each line is marked, so that nothing takes a test of the guest for one of ours.
    let output: String = report.output.lines().map(|line| format!("guest| {line}\n")).collect();
    let are_enough = passed.len() == groups.len()
        && passed.iter().zip(&groups).all(|(passed, group)| *passed >= group.least);
    assert!(report.status == 0 && are_enough, "{:?}: {passed:?} rows passed\n{output}", rows.kernel);
    eprintln!("{}: {passed:?} rows passed", rows.test);
}

#[test]
fn rows_are_counted_by_group() {
    let tests = Group { words: &["a", "b"], least: 2, has_lines: false };
    let lines = Group { words: &["c"], least: 1, has_lines: true };
    let text = script("before\n", &[tests, lines]);
    let run = "\"$0\" --ignored --test-threads \"$1\"";
    let expected = format!(
        "before\n{run}  'a' 'b' || failed=1\necho 'end of group'\n{run} --nocapture 'c' || failed=1\necho 'end of group'\n\
         exit ${{failed:-0}}\n"
    );
    assert_eq!(text, expected);
    let output = "test a ... ok\nrow: no\ntest b ... FAILED\nend of group\nrow: one\nrow: two\ntest c ... ok\nend of group\n";
    assert_eq!(passed(output, &[tests, lines]), [1, 2]);
}
