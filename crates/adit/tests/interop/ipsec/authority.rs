//! Authorities that issue certificates for ends.

use adit_testbed::{Scratch, program};

use super::bed::Certified;

/// The kinds of keys: their names, and arguments of `openssl genpkey`.
pub(super) const RSA: &str = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
pub(super) const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
pub(super) const P384: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-384";
pub(super) const P521: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-521";
pub(super) const ED25519: &str = "-algorithm ED25519";

/// An authority with keys of that kind.
pub(super) struct Authority {
    scratch: Scratch,
    kind: &'static str,
}

impl Authority {
    pub(super) fn new(kind: &'static str) -> Self {
        let authority = Authority { scratch: Scratch::create("authority").unwrap(), kind };
        authority.new_key("ca");
        // Each has a name of its own: revocation lists are found by it.
        let name = authority.scratch.path().file_name().and_then(std::ffi::OsStr::to_str).unwrap();
        authority.openssl(&format!(
            "req -x509 -new -key ca.key -days 30 -subj /CN={name} -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign,cRLSign -out ca.crt",
        ));
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

    /// Its own certificate.
    pub(super) fn certificate(&self) -> String {
        self.read("ca.crt")
    }

    /// A certificate for a host name, for an end whose peers have certificates of `other`.
    pub(super) fn issue(&self, host: &str, other: &Authority) -> Certified {
        self.issue_for(host, other, "-days 30")
    }

    /// A certificate that has expired.
    pub(super) fn issue_expired(&self, host: &str, other: &Authority) -> Certified {
        self.issue_for(host, other, "-days -1")
    }

    fn issue_for(&self, host: &str, other: &Authority, time: &str) -> Certified {
        let name = host.replace('.', "-");
        self.new_key(&name);
        let extensions = format!("subjectAltName=DNS:{host}\nkeyUsage=digitalSignature\n");
        self.scratch.write(&format!("{name}.ext"), &extensions).unwrap();
        self.openssl(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial {time} -extfile {name}.ext -out {name}.crt"
        ));
        Certified {
            authority: other.certificate(),
            certificate: self.read(&format!("{name}.crt")),
            key: self.read(&format!("{name}.key")),
        }
    }

    /// A revocation list in PEM that names the certificate of a host.
    pub(super) fn revoke(&self, host: &str) -> String {
        let name = host.replace('.', "-");
        let settings = "[ca]\ndefault_ca=a\n[a]\ndatabase=index.txt\ndefault_md=sha256\ncrl_extensions=x\n[x]\nauthorityKeyIdentifier=keyid\n";
        self.scratch.write("ca.cnf", settings).unwrap();
        self.scratch.write("index.txt", "").unwrap();
        let ca = "ca -config ca.cnf -keyfile ca.key -cert ca.crt";
        self.openssl(&format!("{ca} -revoke {name}.crt"));
        self.openssl(&format!("{ca} -gencrl -crldays 30 -out ca.crl"));
        self.read("ca.crl")
    }
}
