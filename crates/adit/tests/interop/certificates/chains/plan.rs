//! The certificates that a situation needs, and the certificates that each end has.

use std::fmt::Write as _;

pub(super) const CA: &str = "basicConstraints=critical,CA:TRUE\n";
pub(super) const SIGNS: &str = "keyUsage=critical,keyCertSign,cRLSign\n";
pub(super) const LONG_AGO: [&str; 2] = ["20200101000000Z", "20200201000000Z"];
pub(super) const NOW: [&str; 2] = ["20200101000000Z", "20490101000000Z"];
/// From a later date than [`NOW`].
pub(super) const LATER: [&str; 2] = ["20210101000000Z", "20490101000000Z"];
pub(super) const NOT_YET: [&str; 2] = ["20480101000000Z", "20490101000000Z"];

/// One certificate.
pub(super) struct Spec {
    /// Its files are called so.
    pub(super) name: &'static str,
    /// Its common name.
    pub(super) subject: &'static str,
    /// The certificate that signs it; it signs itself if this is empty.
    pub(super) issuer: &'static str,
    /// Lines of a section of openssl's configuration. Without any the certificate is of version 1.
    pub(super) extensions: String,
    pub(super) dates: [&'static str; 2],
    pub(super) digest: &'static str,
    pub(super) key: Key,
}

/// A certificate's key.
pub(super) enum Key {
    P256,
    /// RSA of so many bits.
    Rsa(u32),
    /// The key of another certificate.
    Of(&'static str),
}

/// A list of revoked certificates.
pub(super) struct List {
    pub(super) issuer: &'static str,
    pub(super) revoked: &'static [&'static str],
    pub(super) dates: [&'static str; 2],
}

/// The certificates that the presenting end sends, and those that the judging end has.
pub(super) struct Plan {
    pub(super) certificates: Vec<Spec>,
    pub(super) ca: Vec<&'static str>,
    pub(super) shown: Vec<&'static str>,
    /// By `extra-certs`.
    pub(super) extra: Vec<&'static str>,
    pub(super) lists: Vec<List>,
    /// `peer-fingerprint` takes the place of `ca`.
    pub(super) by_fingerprint: bool,
    /// Further lines of the judging end's file.
    pub(super) lines: String,
}

/// The purposes of the leaf: the end that presents it, in `extendedKeyUsage`, and the opposite end.
#[derive(Clone, Copy)]
pub(super) struct Usages {
    pub(super) own: &'static str,
    pub(super) other: &'static str,
}

/// A root, with no fault.
pub(super) fn root() -> Spec {
    Spec {
        name: "root",
        subject: "root",
        issuer: "",
        extensions: format!("{CA}{SIGNS}"),
        dates: NOW,
        digest: "sha256",
        key: Key::P256,
    }
}

/// A certificate below `issuer`, with no fault.
pub(super) fn leaf(name: &'static str, issuer: &'static str, usages: Usages) -> Spec {
    let extensions =
        format!("basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage={}\n", usages.own);
    Spec { name, subject: name, issuer, extensions, ..root() }
}

impl Plan {
    /// A leaf, an intermediate that the presenting end shows, and a root in `ca`.
    pub(super) fn new(usages: Usages) -> Self {
        let middle = Spec { name: "middle", subject: "middle", issuer: "root", ..root() };
        Plan {
            certificates: vec![root(), middle, leaf("leaf", "middle", usages)],
            ca: vec!["root"],
            shown: vec!["leaf", "middle"],
            extra: Vec::new(),
            lists: Vec::new(),
            by_fingerprint: false,
            lines: String::new(),
        }
    }

    pub(super) fn get(&mut self, name: &str) -> &mut Spec {
        self.certificates.iter_mut().find(|spec| spec.name == name).unwrap()
    }

    /// Leaves out the intermediate.
    pub(super) fn direct(&mut self) {
        self.get("leaf").issuer = "root";
        self.shown = vec!["leaf"];
    }

    /// `remote-cert-tls`.
    pub(super) fn demand(&mut self, usages: Usages) {
        let end = usages.own.trim_end_matches("Auth");
        let _ = writeln!(self.lines, "remote-cert-tls {end}");
    }

    pub(super) fn without_usage(&mut self, usages: Usages) {
        let leaf = self.get("leaf");
        leaf.extensions = leaf.extensions.replace(&format!("extendedKeyUsage={}\n", usages.own), "");
    }

    pub(super) fn swap_usage(&mut self, usages: Usages) {
        let leaf = self.get("leaf");
        leaf.extensions = leaf.extensions.replace(usages.own, usages.other);
    }

    pub(super) fn revoke(&mut self, revoked: &'static [&'static str], issuer: &'static str) {
        self.lists.push(List { issuer, revoked, dates: NOW });
    }

    pub(super) fn fingerprint(&mut self) {
        self.ca.clear();
        self.by_fingerprint = true;
    }
}
