//! Rows that share two ends: each is a connection of one file, with its own identities, networks and children.

mod cases;
mod text;

use adit_testbed::{wait_until, wait_until_reachable};

use self::cases::{Case, Fault, bad, good, of_linux};
use self::text::Book;
use super::bed::{End, Program, ROLES, WAIT, is_linux_ready, is_ready, linked, roles, row_of};

/// Each of strongSwan's initiations is a command, and both ends take any number of initiators from one address.
const DAEMON: &str = "dos_protection = no\n retransmit_timeout = 1";

/// Two ends with the connections of these cases. strongSwan has not initiated.
fn ends(programs: [Program; 2], cases: &[Case]) -> [End; 2] {
    let mut ends = linked(programs);
    let book = Book::new(programs, cases);
    for (number, end) in ends.iter_mut().enumerate() {
        book.write(number, end, DAEMON);
        end.start();
    }
    ends
}

fn initiate(ends: &[End; 2], number: usize) -> bool {
    let child = format!("c{number}");
    ends[1].control(&["--initiate", "--child", &child, "--timeout", "20"]).is_ok()
}

#[test]
fn each_suite_and_each_kind_of_key_carries_packets() {
    if is_ready("ipsec suites and keys") {
        carry_packets(Program::StrongSwan, &good(), |_, _, _| ());
    }
}

/// The kernel has extended sequence numbers where the connection has them, and only there.
#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn linux_each_suite_and_each_kind_of_key_carries_packets() {
    if !is_linux_ready("ipsec suites and keys beside Linux") {
        return;
    }
    carry_packets(Program::LinuxStrongSwan, &of_linux(), |case, number, strongswan| {
        let sas = strongswan.sas();
        let child = sas.split(&format!("name=c{number} ")).nth(1).unwrap_or_default();
        let child = child.split('}').next().unwrap_or_default();
        assert_eq!(child.contains("esn=1"), case.esp.contains("-esn"), "{}: {child}", case.name);
    });
}

/// The connections of these cases carry packets beside that peer, in both roles of adit. `check` looks at strongSwan's end then.
fn carry_packets(peer: Program, cases: &[Case], check: impl Fn(&Case, usize, &End)) {
    for programs in roles(peer) {
        let ends = ends(programs, cases);
        // strongSwan's packets have an address of the child's network as their source, adit's that of the first child.
        let strongswan = usize::from(programs[1] != Program::Adit);
        let [from, to] = [&ends[strongswan], &ends[1 - strongswan]];
        for (number, case) in cases.iter().enumerate() {
            row_of(case.name, programs, |_| {
                let name = case.name;
                assert!(programs[1] == Program::Adit || initiate(&ends, number), "{name}: {}", to.log());
                let target = text::address(number, 1 - strongswan);
                if let Err(error) = wait_until_reachable(&from.namespace, target, WAIT) {
                    panic!("{name}: {error}\n{}\n====\n{}", from.log(), to.log());
                }
                check(case, number, from);
            });
        }
    }
}

#[test]
fn a_faulty_proof_or_offer_of_either_end_is_refused() {
    if !is_ready("ipsec faults") {
        return;
    }
    for faulty in [Program::Adit, Program::StrongSwan] {
        let cases = bad(faulty);
        for programs in ROLES {
            let mut ends = ends(programs, &cases);
            for (number, case) in cases.iter().enumerate() {
                let name = format!("{} of {faulty}", case.name);
                row_of(&name, programs, |_| is_refused(&mut ends, number, case, &name));
            }
        }
    }
}

fn is_refused(ends: &mut [End; 2], number: usize, case: &Case, name: &str) {
    if ends[1].program == Program::Adit && case.has(Fault::Ike) {
        // An answer to the first message that is not authenticated is not final to adit (RFC 7296 section 2.21.1).
        ends[0].process().wait_for_line(0, "N(NO_PROP)", WAIT).unwrap();
    } else if ends[1].program == Program::Adit {
        ends[1].process().wait_for_line(0, &format!("t{number}: "), WAIT).unwrap();
    } else {
        assert!(!initiate(ends, number), "{name}\n{}", ends[1].log());
    }
    let strongswan = ends.iter().find(|end| end.program != Program::Adit).unwrap();
    let child = format!("name=c{number} ");
    let is_gone = || !strongswan.sas().contains(&child);
    wait_until(&format!("{name}: no child SA"), WAIT, is_gone).unwrap();
}
