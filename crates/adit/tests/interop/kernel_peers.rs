//! The rows with Linux's own WireGuard and OpenVPN's data channel in Linux, which this system's kernel may not have: this test
//! program runs itself in a guest with one of Debian's kernels. The rows are its tests in modules called `kernel…` and `dco`,
//! which are ignored elsewhere.

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
/// The rows of a guest, with this program as `$0`, their number at once, and the words that their names contain.
const RUN_ROWS: &str = "threads=$1; shift
\"$0\" --ignored --test-threads \"$threads\" \"$@\" || failed=1
exit ${failed:-0}";

/// The rows of one guest.
struct Rows<'a> {
    test: &'a str,
    kernel: Kernel,
    /// The commands that run before the rows.
    before: &'a str,
    /// Words that their names contain.
    words: &'a [&'a str],
    /// How many there are at least.
    least: usize,
    /// Whether a test has several rows, and writes a line for each that passed ([`is_row`]).
    has_lines: bool,
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

/// The roots that have no peers for IPsec.
const PEERS: &[&str] = &["unstable"];
/// The roots that have peers for IPsec. Debian cannot have them installed at once; OpenIKED needs a user of its own.
const IPSEC_PEERS: &[&str] = &["openiked", "strongswan", "libreswan"];

/// The words that names of rows of WireGuard contain.
const WIREGUARD: [&str; 5] =
    ["others::kernel", "nat::kernel", "load::kernel_first", "wireguard::kernel::", "kernel_rekeys::around"];
/// The words that names of rows of OpenVPN contain that `make test` runs.
const OPENVPN: [&str; 3] = ["dco::client_", "dco::server_", "_that_moves"];

#[test]
fn wireguard_of_linux_6_1() {
    let test = "wireguard_of_linux_6_1";
    // Two of `wg-quick`.
    check(&Rows {
        test,
        kernel: Kernel::Bookworm,
        before: WG_QUICK,
        words: &WIREGUARD,
        least: 21,
        has_lines: false,
        roots: PEERS,
    });
}

#[test]
fn openvpn_of_linux_of_debian_unstable() {
    let test = "openvpn_of_linux_of_debian_unstable";
    check(&Rows {
        test,
        kernel: Kernel::Unstable,
        before: "",
        words: &OPENVPN,
        least: 8,
        has_lines: false,
        roots: PEERS,
    });
}

/// strongSwan with the kernel's ESP. Each test has several rows.
#[test]
fn ipsec_of_linux_6_1() {
    let test = "ipsec_of_linux_6_1";
    let words = &["ipsec::many::linux_", "linux::esp_goes_raw", "linux::rekeys", "linux::a_packet"];
    let (kernel, roots) = (Kernel::Bookworm, &["strongswan"]);
    check(&Rows { test, kernel, before: "", words, least: 31, has_lines: true, roots });
}

/// Rows that take a processor for many minutes. Each has a shorter one above.
mod long {
    use super::{IPSEC_PEERS, Kernel, PEERS, Rows, WIREGUARD, check};

    #[test]
    #[ignore = "minutes of a processor"]
    fn wireguard_of_linux_6_1_throughout_two_rekeys() {
        let test = "wireguard_of_linux_6_1_throughout_two_rekeys";
        let words = &["kernel_rekeys::throughout"];
        check(&Rows {
            test,
            kernel: Kernel::Bookworm,
            before: "",
            words,
            least: 2,
            has_lines: false,
            roots: PEERS,
        });
    }

    #[test]
    #[ignore = "minutes of a processor"]
    fn ipsec_of_linux_6_1_with_three_peers() {
        let test = "ipsec_of_linux_6_1_with_three_peers";
        let words = &["linux::throughout", "ipsec::others::"];
        let (kernel, roots) = (Kernel::Bookworm, IPSEC_PEERS);
        check(&Rows { test, kernel, before: "", words, least: 22, has_lines: true, roots });
    }

    #[test]
    #[ignore = "minutes of a processor"]
    fn all_of_linux_of_debian_unstable() {
        let test = "all_of_linux_of_debian_unstable";
        let words =
            &[&WIREGUARD[..], &["kernel_rekeys::throughout", "dco::hundred::", "many_clients"]].concat();
        check(&Rows {
            test,
            kernel: Kernel::Unstable,
            before: "",
            words,
            least: 31,
            has_lines: false,
            roots: PEERS,
        });
    }
}

/// Runs the rows in a guest, of which none may fail.
fn check(rows: &Rows<'_>) {
    let (first, further) = rows.roots.split_first().unwrap();
    let guest = Guest::new(rows.kernel).with_root(first, MEMORY).with_virtual_clock();
    let guest = further.iter().fold(guest, |guest, root| guest.with_further_root(root));
    if !guest.is_ready(rows.test) {
        return;
    }
    let chosen = std::env::var(ROWS).unwrap_or_default();
    let chosen: Vec<&str> = chosen.split_whitespace().collect();
    let (before, words, least) = match chosen.is_empty() {
        true => (rows.before, rows.words, rows.least),
        false => ("", chosen.as_slice(), 1),
    };
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before}{RUN_ROWS}")]).arg(&program).arg(AT_ONCE.to_string()).args(words);
    if rows.has_lines {
        command.arg("--nocapture");
    }
    command.env("CI", "true");
    let guest = [
        program.as_path(),
        Path::new(env!("CARGO_BIN_EXE_adit")),
        Path::new(env!("CARGO_BIN_EXE_adit-wireguard")),
    ]
    .into_iter()
    .fold(guest, Guest::with_program);
    let show = |line: &str| {
        if !chosen.is_empty() {
            eprintln!("guest| {line}");
        }
    };
    let report = guest.run_and_show(&command, LIMIT, show).unwrap();
    let is_passed: fn(&str) -> bool = if rows.has_lines { is_row } else { is_test };
    let passed = report.output.lines().filter(|line| is_passed(line)).count();
    report.output.lines().filter(|line| is_row(line)).for_each(|line| eprintln!("{line}"));
    // Each line is marked, so that nothing takes a test of the guest for one of ours.
    let output: String = report.output.lines().map(|line| format!("guest| {line}\n")).collect();
    assert!(report.status == 0 && passed >= least, "{:?}: {passed} rows passed\n{output}", rows.kernel);
    eprintln!("{}: {passed} rows passed", rows.test);
}
