//! The commands of `swanctl` 5.9 and 6.1 and of the Python library, at adit and at a `charon` that has the same file: what they print is
//! the same.

use std::path::Path;
use std::process::Command;

use adit_testbed::{Root, TestbedError, wait_until};

use super::authority::{Authority, P256};
use super::bed::{End, NEWER, Program, Settings, WAIT, is_newer_ready, is_ready, joined};

/// Further sections of adit's file and of the file of the `charon` beside which it is compared.
const FURTHER: &str = "connections {\n rw {\n version = 2\n local_addrs = 10.9.0.1, fd00:9::1\n pools = v4\n unique = replace\n \
                       dpd_delay = 30s\n rekey_time = 7m\n local {\n auth = pubkey\n certs = own.pem\n id = end1.example\n }\n remote {\n \
                       auth = pubkey\n id = *.clients.example\n cacerts = ca.pem\n }\n children {\n all {\n local_ts = \
                       10.77.1.0/24[tcp/80-443], 10.79.0.1-10.79.0.9\n dpd_action = clear\n close_action = none\n rekey_time = 9m\n }\n }\n \
                       }\n}\npools {\n v4 {\n addrs = 10.9.1.0/24\n dns = 10.77.1.53\n }\n r {\n addrs = \
                       10.9.2.10-10.9.2.20\n }\n}\nauthorities {\n own {\n cacert = ca.pem\n }\n}\nsecrets {\n eap-carol {\n id = carol\n \
                       secret = her password\n }\n}\n";

/// Arguments of `swanctl`, of which adit prints what `charon` prints.
const COMPARED: &[&[&str]] = &[
    &["--list-conns"],
    &["--list-conns", "--raw"],
    &["--list-conns", "--ike", "rw"],
    &["--list-certs"],
    &["--list-certs", "--type", "x509", "--flag", "ca"],
    &["--list-certs", "--subject", "CN=nothing"],
    &["--list-authorities"],
    &["--list-pools"],
    &["--list-pools", "--leases", "--raw"],
    &["--list-pools", "--name", "v4"],
    &["--list-sas"],
    &["--list-sas", "--ike", "other"],
    &["--list-pols"],
    &["--initiate", "--child", "other"],
    &["--initiate", "--ike", "other"],
    &["--initiate", "--child", "c", "--ike", "other"],
    &["--terminate", "--ike", "other"],
    &["--terminate", "--child-id", "99"],
    &["--rekey", "--ike", "other"],
    &["--rekey", "--child", "other"],
    &["--install", "--child", "other"],
    &["--uninstall", "--child", "c"],
    &["--flush-certs"],
    &["--load-all", "--file", "FILE"],
    &["--load-conns", "--file", "FILE"],
    &["--load-creds", "--file", "FILE"],
    &["--load-pools", "--file", "FILE"],
    &["--load-authorities", "--file", "FILE"],
    &["--load-conns", "--file", "EMPTY"],
    &["--list-conns"],
    &["--load-all", "--file", "FILE"],
    &["--list-conns"],
];

/// Calls the Python library, and prints what it gives.
const PYTHON: &str = r#"
import json, socket, sys, vici
address = socket.socket(socket.AF_UNIX)
address.connect(sys.argv[1])
session = vici.Session(address)
def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((plain(inner) for inner in value), key=str)
    return value
def show(name, call):
    try:
        value = call()
        value = plain(value if isinstance(value, dict) or value is None else list(value))
    except Exception as error:
        value = type(error).__name__ + " " + str(error)
    print(name, json.dumps(value, sort_keys=True))
connection = {"py": {"version": "2", "remote_addrs": ["10.9.0.9"], "rekey_time": "5m",
    "local": {"auth": "psk", "id": "end1.example"}, "remote": {"auth": "psk", "id": "py.example"},
    "children": {"net": {"local_ts": ["10.77.1.0/24"], "remote_ts": ["10.78.9.0/24"]}}}}
show("stats", lambda: sorted(set(session.stats()) - {"mallinfo"}))
show("conns", session.get_conns)
show("load-shared", lambda: session.load_shared({"id": "py", "type": "IKE", "data": "a secret", "owners": ["py.example"]}))
show("shared", session.get_shared)
show("load-conn", lambda: session.load_conn(connection))
show("conns", session.get_conns)
show("list", lambda: list(session.list_conns({"ike": "py"})))
show("wrong", lambda: session.load_conn({"py": {"remote_addrs": ["10.9.0.9"], "rekey_tim": "5m"}}) or "no error")
show("load-pool", lambda: session.load_pool({"py": {"addrs": "10.9.3.0/24"}}))
show("pools", lambda: session.get_pools({"name": "py"}))
show("unload-pool", lambda: session.unload_pool({"name": "py"}))
show("unload-pool", lambda: session.unload_pool({"name": "py"}))
show("unload-conn", lambda: session.unload_conn({"name": "py"}))
show("unload-conn", lambda: session.unload_conn({"name": "py"}))
show("unload-shared", lambda: session.unload_shared({"id": "py"}))
show("keys", session.get_keys)
show("authorities", session.get_authorities)
show("initiate", lambda: list(session.initiate({"child": "nothing"})))
show("terminate", lambda: list(session.terminate({"ike": "nothing"})))
show("sas", lambda: list(session.list_sas({"noblock": "yes"})))
show("unknown", lambda: session.request("no-command"))
"#;

/// The interpreter of the environment that `scripts/install-deps` makes for the library.
const INTERPRETER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/vici-6.0.3/bin/python");

/// The output of `swanctl`: that of its errors where it fails.
fn said(result: Result<String, TestbedError>) -> String {
    result.unwrap_or_else(|error| error.to_string())
}

fn arguments(arguments: &[&str], end: &End) -> Vec<String> {
    let path = |name: &str| end.path(name).display().to_string();
    let argument = |word: &&str| match *word {
        "FILE" => path(&end.file_name()),
        "EMPTY" => path("empty.conf"),
        word => word.to_owned(),
    };
    arguments.iter().map(argument).collect()
}

/// Without what differs by its nature: places, and numbers of processes.
fn normal(text: &str, end: &End) -> String {
    let places = [end.socket(), end.path("").display().to_string(), end.file_name()];
    let text = places.iter().fold(text.to_owned(), |text, place| text.replace(place.as_str(), "PLACE"));
    let line = |line: &str| match line.split_once("exit status") {
        Some((before, _)) => before.to_owned(),
        None => line.trim_end().to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The program that is compared, and adit, each with the same file. The first is joined to a peer.
struct Bed {
    ends: [End; 2],
    reference: End,
}

impl Bed {
    fn new() -> Self {
        let authority = Authority::new(P256);
        let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
        let settings = Settings { start: "none", ..Settings::default() };
        let mut ends = joined([Program::Adit, Program::StrongSwan], &settings);
        let reference = End::create(3, Program::StrongSwan);
        let text = std::fs::read_to_string(ends[0].path(&ends[0].file_name())).unwrap() + FURTHER;
        for end in [&ends[0], &reference] {
            end.write_certificates(&both[0]);
            end.put("empty.conf", "");
            end.write_text(&text, "", "");
        }
        let mut reference = reference;
        reference.start();
        ends[1].start();
        ends[0].start_with_vici();
        Bed { ends, reference }
    }
}

#[test]
fn what_swanctl_and_the_python_library_print_is_what_they_print_of_charon() {
    if !is_ready("ipsec vici compared") {
        return;
    }
    let bed = Bed::new();
    let adit = &bed.ends[0];
    for words in COMPARED {
        let [own, other] = [adit, &bed.reference].map(|end| {
            let words = arguments(words, end);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            normal(&said(end.control(&words)), end)
        });
        assert_eq!(own, other, "{words:?}\n{}", adit.log());
    }
    python(&bed);
    newer(&bed);
    live(&bed);
}

/// The library, if it is there. `scripts/install-deps` says so if not.
fn python(bed: &Bed) {
    assert!(Path::new(INTERPRETER).exists(), "scripts/install-deps puts the library there");
    let [own, other] = [&bed.ends[0], &bed.reference].map(|end| {
        let mut command = Command::new(INTERPRETER);
        let socket = end.socket();
        command.args(["-c", PYTHON, socket.trim_start_matches("unix://")]);
        normal(&end.namespace.run(command).unwrap(), end)
    });
    for (own, other) in own.lines().zip(other.lines()) {
        // The texts of errors differ.
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        match name(own).as_str() {
            "wrong" => {
                assert!(own.contains("rekey_tim") && own.contains("CommandException"), "{own}");
                assert_eq!(name(other), "wrong");
            }
            _ => assert_eq!(own, other),
        }
    }
    assert_eq!(own.lines().count(), other.lines().count(), "{own}\n{other}");
}

/// `swanctl` of unstable's strongSwan: what it prints of adit is what it prints of Debian's `charon`.
fn newer(bed: &Bed) {
    if !is_newer_ready("swanctl of unstable's strongSwan") {
        return;
    }
    for words in [&["--list-conns"][..], &["--list-pools"], &["--list-authorities"], &["--list-sas"]] {
        let [own, other] = [&bed.ends[0], &bed.reference].map(|end| {
            let mut command = Root::named(NEWER).and_then(|root| root.command("swanctl")).unwrap();
            command.args(words).args(["--uri", &end.socket()]);
            normal(&said(end.namespace.run(command)), end)
        });
        assert_eq!(own, other, "{words:?}");
    }
}

/// IKE SAs come up, are rekeyed and deleted, one child SA of them alone.
fn live(bed: &Bed) {
    let [adit, strongswan] = &bed.ends;
    let initiated = adit.control(&["--initiate", "--child", "c"]).unwrap();
    assert!(
        initiated.contains("initiate completed successfully") && initiated.contains("connected"),
        "{initiated}"
    );
    // `charon` with ESP in its own process has no policies that packets of a child could meet.
    adit.control(&["--install", "--child", "c"]).unwrap();
    let policies = adit.control(&["--list-pols"]).unwrap();
    assert_eq!(
        policies.replace(' ', ""),
        "t/c,TUNNEL\nlocal:10.77.1.0/24fd00:77:1::/64\nremote:10.77.2.0/24fd00:77:2::/64\n"
    );
    adit.control(&["--uninstall", "--child", "c"]).unwrap();
    assert_eq!(adit.control(&["--list-pols"]).unwrap(), "");
    let before = strongswan.child_sas("c");
    let rekeyed = adit.control(&["--rekey", "--child", "c"]).unwrap();
    assert!(rekeyed.contains("rekey completed successfully"), "{rekeyed}");
    wait_until("the rekey", WAIT, || strongswan.child_sas("c").iter().any(|spi| !before.contains(spi)))
        .unwrap();
    wait_until("one child SA", WAIT, || strongswan.child_sas("c").len() == 1).unwrap();
    let listed = adit.control(&["--list-sas", "--raw"]).unwrap();
    let id = listed.split("child-sas {c-").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let terminated = adit.control(&["--terminate", "--child-id", id]).unwrap();
    assert!(terminated.contains("terminate completed successfully"), "{terminated}");
    assert!(strongswan.child_sas("c").is_empty() && strongswan.ike_sas().len() == 1, "the IKE SA stays");
    adit.control(&["--initiate", "--child", "c"]).unwrap();
    adit.control(&["--terminate", "--ike", "t"]).unwrap();
    wait_until("its end", WAIT, || strongswan.ike_sas().is_empty()).unwrap();
}
