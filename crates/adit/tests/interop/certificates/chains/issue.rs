//! Makes a situation's certificates and revocation lists with the openssl program.

use std::fmt::Write as _;

use adit_testbed::{Scratch, program};

use super::plan::{Key, List, Plan, Spec};
use crate::certificates::requirements::output;

const CONFIG: &str = "
[ca]
default_ca = authority
[authority]
database = NAME.index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = policy
unique_subject = no
default_crl_days = 3650
crl_extensions = list
[list]
authorityKeyIdentifier = keyid
[policy]
commonName = supplied
[req]
distinguished_name = name
[name]
";

/// Lines of a plan for the file of the end that shows the certificates, and for that of the other.
pub(in crate::certificates) struct Made {
    pub(in crate::certificates) shows: String,
    pub(in crate::certificates) verifying: String,
}

/// The openssl program in a directory of its own.
pub(in crate::certificates) struct Issuer<'a>(pub(in crate::certificates) &'a Scratch);

impl Issuer<'_> {
    pub(in crate::certificates) fn openssl(&self, arguments: &str) -> String {
        let mut command = program("openssl").unwrap();
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        output(command)
    }

    pub(in crate::certificates) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    fn config(&self, name: &str) {
        self.0.write(&format!("{name}.cnf"), &CONFIG.replace("NAME", name)).unwrap();
        self.0.write(&format!("{name}.index"), "").unwrap();
    }

    fn key(&self, name: &str, key: &Key) {
        let algorithm = match key {
            Key::P256 => "EC -pkeyopt ec_paramgen_curve:P-256".to_owned(),
            Key::Rsa(bits) => format!("RSA -pkeyopt rsa_keygen_bits:{bits}"),
            Key::Of(other) => {
                self.0.write(&format!("{name}.key"), &self.read(&format!("{other}.key"))).unwrap();
                return;
            }
        };
        self.openssl(&format!("genpkey -out {name}.key -algorithm {algorithm}"));
    }

    fn certify(&self, spec: &Spec) {
        let Spec { name, subject, issuer, extensions, dates: [from, until], digest, key } = spec;
        self.key(name, key);
        self.config(name);
        self.openssl(&format!(
            "req -config {name}.cnf -new -key {name}.key -subj /CN={subject} -out {name}.csr"
        ));
        let (signer, identifiers) = match *issuer {
            "" => (format!("-selfsign -keyfile {name}.key"), ""),
            issuer => (format!("-cert {issuer}.crt -keyfile {issuer}.key"), "authorityKeyIdentifier=keyid\n"),
        };
        let section = format!("[e]\nsubjectKeyIdentifier=hash\n{identifiers}{extensions}");
        self.0.write(&format!("{name}.ext"), &section).unwrap();
        let extend = match extensions.is_empty() {
            true => String::new(),
            false => format!("-extfile {name}.ext -extensions e"),
        };
        self.openssl(&format!(
            "ca -config {name}.cnf -batch -notext {signer} -md {digest} -startdate {from} -enddate {until} \
             {extend} -in {name}.csr -out {name}.crt"
        ));
    }

    fn list(&self, list: &List) -> String {
        let List { issuer, revoked, dates: [from, until] } = list;
        self.config("list");
        let signer = format!("-config list.cnf -cert {issuer}.crt -keyfile {issuer}.key");
        for name in *revoked {
            self.openssl(&format!("ca {signer} -revoke {name}.crt"));
        }
        self.openssl(&format!(
            "ca {signer} -gencrl -crl_lastupdate {from} -crl_nextupdate {until} -out list.crl"
        ));
        self.read("list.crl")
    }

    /// Makes the certificates of a plan, and the lines of configurations that hold them.
    pub(super) fn make(&self, plan: &Plan) -> Made {
        plan.certificates.iter().for_each(|spec| self.certify(spec));
        let all =
            |names: &[&str]| names.iter().map(|name| self.read(&format!("{name}.crt"))).collect::<String>();
        let own = plan.shown[0];
        let mut shows = format!(
            "<cert>\n{}</cert>\n<key>\n{}</key>\n",
            all(&plan.shown),
            self.read(&format!("{own}.key"))
        );
        if !plan.extra.is_empty() {
            let _ = write!(shows, "<extra-certs>\n{}</extra-certs>\n", all(&plan.extra));
        }
        let mut verifying = plan.lines.clone();
        if plan.by_fingerprint {
            let print = self.openssl(&format!("x509 -noout -fingerprint -sha256 -in {own}.crt"));
            let (_, print) = print.trim().split_once('=').unwrap();
            let _ = write!(verifying, "<peer-fingerprint>\n{print}\n</peer-fingerprint>\n");
        } else {
            let _ = write!(verifying, "<ca>\n{}</ca>\n", all(&plan.ca));
        }
        let lists: String = plan.lists.iter().map(|list| self.list(list)).collect();
        if !lists.is_empty() {
            let _ = write!(verifying, "<crl-verify>\n{lists}</crl-verify>\n");
        }
        Made { shows, verifying }
    }
}
