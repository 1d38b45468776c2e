//! `adit-ldap` with OpenLDAP's server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use adit_testbed::{MAX_WAIT, Scratch, can_run, program};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

const PROGRAMS: [&str; 2] = ["slapd", "slapadd"];

const SUFFIX: &str = "dc=example,dc=org";

/// `@` is the test's directory.
const CONFIGURATION: &str = "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile @/pid
TLSCACertificateFile @/ca.crt
TLSCertificateFile @/server.crt
TLSCertificateKeyFile @/server.key
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=\"cn=search,dc=example,dc=org\" read by * auth
database mdb
directory @/data
suffix \"dc=example,dc=org\"
";

/// `ann` and `ben` have the password `s3 cret`; `ann` is in the group `vpn`.
const ENTRIES: &str = "dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: cn=search,dc=example,dc=org
objectClass: person
cn: search
sn: search
userPassword: search pw

dn: ou=People,dc=example,dc=org
objectClass: organizationalUnit
ou: People

dn: uid=ann,ou=People,dc=example,dc=org
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Ann
userPassword: s3 cret

dn: uid=ben,ou=People,dc=example,dc=org
objectClass: inetOrgPerson
uid: ben
cn: Ben
sn: Ben
userPassword: s3 cret

dn: cn=vpn,dc=example,dc=org
objectClass: groupOfNames
cn: vpn
member: uid=ann,ou=People,dc=example,dc=org
";

struct Slapd {
    scratch: Scratch,
    process: Child,
    plain: u16,
    tls: u16,
}

impl Slapd {
    fn start() -> Self {
        let scratch = Scratch::create("slapd").unwrap();
        let here = scratch.path().display().to_string();
        write_certificates(&scratch);
        fs::create_dir(scratch.path().join("data")).unwrap();
        let configuration = scratch.write("slapd.conf", &CONFIGURATION.replace('@', &here)).unwrap();
        let entries = scratch.write("entries", ENTRIES).unwrap();
        let mut add = program("slapadd").unwrap();
        let output = add.arg("-f").arg(&configuration).arg("-l").arg(entries).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [plain, tls] =
            [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
        let mut command = program("slapd").unwrap();
        command.arg("-d").arg("0").arg("-f").arg(configuration);
        command.arg("-h").arg(format!("ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{tls}"));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // From now on it ends with this.
        let slapd = Slapd { scratch, process, plain, tls };
        let until = Instant::now() + MAX_WAIT;
        while [plain, tls].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(Instant::now() < until, "slapd does not answer");
            thread::sleep(Duration::from_millis(20));
        }
        slapd
    }

    /// The verdict of `adit-ldap` on a login, by a file with these lines in `<LDAP>` and `<Authorization>`.
    fn verdict(
        &self,
        ldap: &str,
        authorization: &str,
        (user, password): (&str, &str),
    ) -> (Option<i32>, String) {
        let here = self.scratch.path().display();
        let text = format!(
            "<LDAP>\nBindDN cn=search,{SUFFIX}\nPassword \"search pw\"\nTLSCACertFile {here}/ca.crt\n{ldap}\n</LDAP>\n\
             <Authorization>\nBaseDN \"{SUFFIX}\"\nSearchFilter \"(&(objectClass=inetOrgPerson)(uid=%u))\"\n\
             {authorization}\n</Authorization>\n"
        );
        let configuration = self.scratch.write("ldap.conf", &text).unwrap();
        let login = self.scratch.write("login", &format!("{user}\n{password}\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit-ldap"));
        let output = command.arg(configuration).arg(login).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An authority (`ca.crt`), and a certificate of it for 127.0.0.1.
fn write_certificates(scratch: &Scratch) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    scratch.write("ca.crt", &params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    scratch.write("server.crt", &own.signed_by(&own_key, &issuer).unwrap().pem()).unwrap();
    scratch.write("server.key", &own_key.serialize_pem()).unwrap();
}

#[test]
fn openldap_judges_a_password() {
    if !can_run("LDAP", &PROGRAMS) {
        return;
    }
    let slapd = Slapd::start();
    let plain = format!("URL ldap://127.0.0.1:{}", slapd.plain);
    let start_tls = format!("{plain}\nTLSEnable yes");
    let tls = format!("URL ldaps://127.0.0.1:{}", slapd.tls);
    for way in [&plain, &start_tls, &tls] {
        assert_eq!(slapd.verdict(way, "", ("ann", "s3 cret")), (Some(0), String::new()), "{way}");
        let (code, said) = slapd.verdict(way, "", ("ann", "s3 cres"));
        assert!(code == Some(1) && said.contains("invalidCredentials (49)"), "{way}: {said}");
    }
    for user in ["joe", "*", "ann)(cn=*", "a*"] {
        let (code, said) = slapd.verdict(&plain, "", (user, "s3 cret"));
        assert!(code == Some(1) && said.contains("no such user"), "{user}: {said}");
    }
    // OpenLDAP accepts it as an anonymous bind.
    assert_eq!(slapd.verdict(&plain, "", ("ann", "")).0, Some(1));
    for more in ["", "UseCompareOperation false\n"] {
        let group = format!(
            "RequireGroup true\n<Group>\nBaseDN \"{SUFFIX}\"\nSearchFilter (cn=vpn)\nMemberAttribute member\n{more}</Group>"
        );
        assert_eq!(slapd.verdict(&start_tls, &group, ("ann", "s3 cret")), (Some(0), String::new()), "{more}");
        let (code, said) = slapd.verdict(&start_tls, &group, ("ben", "s3 cret"));
        assert!(code == Some(1) && said.contains("RequireGroup"), "{more}: {said}");
    }
    // Of another authority.
    write_certificates(&slapd.scratch);
    let (code, said) = slapd.verdict(&start_tls, "", ("ann", "s3 cret"));
    assert!(code == Some(3) && said.contains("invalid peer certificate"), "{said}");
}
