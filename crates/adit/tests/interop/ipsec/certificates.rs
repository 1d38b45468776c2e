//! Authentication by certificates.

use adit_testbed::{Scratch, program};

use super::bed::{Certified, Program, ROLES, Settings, WAIT, is_ready, pair};

/// Arguments of `openssl genpkey` for each kind of key.
const KINDS: [&str; 4] = [
    "-algorithm RSA -pkeyopt rsa_keygen_bits:2048",
    "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
    "-algorithm ED25519",
];

/// An authority with keys of that kind.
struct Authority {
    scratch: Scratch,
    kind: &'static str,
}

impl Authority {
    fn new(kind: &'static str) -> Self {
        let authority = Authority { scratch: Scratch::create("authority").unwrap(), kind };
        authority.new_key("ca");
        authority.openssl(
            "req -x509 -new -key ca.key -days 30 -subj /CN=authority -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign,cRLSign -out ca.crt",
        );
        authority
    }

    fn openssl(&self, words: &str) {
        let mut command = program("openssl").unwrap();
        let output =
            command.args(words.split_whitespace()).current_dir(self.scratch.path()).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn new_key(&self, name: &str) {
        self.openssl(&format!("genpkey {} -out {name}.key", self.kind));
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.path().join(name)).unwrap()
    }

    /// A certificate for a host name, for an end whose peers have certificates of `other`.
    fn issue(&self, host: &str, other: &Authority) -> Certified {
        let name = host.replace('.', "-");
        self.new_key(&name);
        let extensions = format!("subjectAltName=DNS:{host}\nkeyUsage=digitalSignature\n");
        self.scratch.write(&format!("{name}.ext"), &extensions).unwrap();
        self.openssl(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile {name}.ext -out {name}.crt"
        ));
        Certified {
            authority: other.read("ca.crt"),
            certificate: self.read(&format!("{name}.crt")),
            key: self.read(&format!("{name}.key")),
        }
    }
}

fn settings(certificates: [Certified; 2]) -> Settings {
    Settings { certificates: Some(certificates), ..Settings::default() }
}

#[test]
fn each_kind_of_certificate_proves_an_identity() {
    if !is_ready("ipsec certificates") {
        return;
    }
    for kind in KINDS {
        let authority = Authority::new(kind);
        let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
        for programs in ROLES {
            let [first, second] = pair(programs, &settings(both.clone()));
            second.reaches(&first);
            first.reaches(&second);
        }
    }
}

#[test]
fn long_messages_go_in_fragments() {
    if !is_ready("ipsec fragments") {
        return;
    }
    let authority = Authority::new(KINDS[0]);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let small = Settings { daemon: "fragment_size = 600", ..settings(both) };
    for programs in ROLES {
        let [first, second] = pair(programs, &small);
        second.reaches(&first);
    }
}

#[test]
fn a_certificate_of_another_authority_or_for_another_name_is_refused() {
    if !is_ready("ipsec wrong certificates") {
        return;
    }
    let (authority, other) = (Authority::new(KINDS[1]), Authority::new(KINDS[1]));
    let good = |host: &str| authority.issue(host, &authority);
    for programs in ROLES {
        // The certificate of strongSwan is wrong.
        let strongswan = usize::from(programs[1] == Program::StrongSwan);
        let host = ["end1.example", "end2.example"][strongswan];
        for wrong in [other.issue(host, &authority), good("end3.example")] {
            let mut both = ["end1.example", "end2.example"].map(good);
            both[strongswan] = wrong;
            let mut ends = pair(programs, &settings(both));
            let adit = &mut ends[1 - strongswan];
            adit.process().wait_for_line(0, "its identity", WAIT).unwrap();
            assert!(!ends[0].is_answered(&ends[1]) && !ends[1].is_answered(&ends[0]), "{programs:?}");
        }
    }
}
