//! A subject that is an executable, as docs/measure/LAB.md describes it.

use std::os::unix::fs::PermissionsExt as _;

use adit_testbed::{Scratch, can_run};

use crate::bench::{NEEDED, json, lab, said, small_plan};

/// A small external subject: a script around a program that moves packets.
const SCRIPT: &str = r#"#!/bin/sh
case $1 in
describe)
    echo "about=a script around a tunnel"
    echo "version=7.8"
    echo "stand-in=a tunnel that encrypts" ;;
prepare)
    echo "a key" >"$ADIT_LAB_DIRECTORY/key" ;;
server | client)
    test -s key || exit 1
    "$LAB" null own0 "$ADIT_LAB_OUTER:$ADIT_LAB_PORT" "$ADIT_LAB_OUTER_PEER:$ADIT_LAB_PORT" &
    tunnel=$!
    trap 'kill $tunnel' TERM
    until ip link set own0 mtu 1400 up 2>/dev/null; do sleep 0.05; done
    ip address add "$ADIT_LAB_INNER/24" dev own0
    echo ready
    wait $tunnel ;;
esac
"#;

fn folder(scratch: &Scratch, name: &str, script: &str) -> String {
    let folder = scratch.path().join("own");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_script_in_a_folder_is_measured_like_the_others() {
    if !can_run("a_script_in_a_folder_is_measured_like_the_others", &NEEDED) {
        return;
    }
    let scratch = Scratch::create("external").unwrap();
    let own = folder(&scratch, "my-vpn.sh", SCRIPT);
    let list = said(&lab(&["--own", &own, "list"]).output().unwrap());
    assert!(list.contains("my-vpn") && list.contains("installed: 7.8"), "{list}");

    let loads = "[[workload]]\nkind = 'start'\n[[workload]]\nkind = 'transfer'\nkib = 64\n";
    let plan = small_plan(&scratch, "'my-vpn'", loads);
    let out = scratch.path().join("out");
    let run = lab(&["--own", &own, "run", &plan, "--out", out.to_str().unwrap()])
        .env("LAB", env!("CARGO_BIN_EXE_adit-lab"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", said(&run));
    let environment = json(&out, "environment.json");
    assert_eq!(environment["stand_ins"]["my-vpn"], "a tunnel that encrypts");
    let results = json(&out, "results.json");
    let names: Vec<&str> =
        results["figures"].as_array().unwrap().iter().filter_map(|f| f["figure"].as_str()).collect();
    for name in ["start_ms", "up_kbyte_s", "server_rss_kib", "client_cpu_percent"] {
        assert!(names.iter().any(|known| known.ends_with(name)), "{name} of {names:?}");
    }
}

#[test]
fn one_that_cannot_run_says_why_and_one_with_a_known_name_is_refused() {
    let scratch = Scratch::create("external").unwrap();
    let own = folder(&scratch, "no-kernel", "#!/bin/sh\necho why=the kernel is too small\nexit 4\n");
    let list = said(&lab(&["--own", &own, "list"]).output().unwrap());
    assert!(list.contains("not possible here: the kernel is too small"), "{list}");
    folder(&scratch, "tinc", "#!/bin/sh\n");
    let output = lab(&["--own", &own, "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("tinc is the name of another subject"), "{}", said(&output));
}
