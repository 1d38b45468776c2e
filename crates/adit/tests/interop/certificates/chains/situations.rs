//! The situations of the table in `docs/use/CERTIFICATES.md`, in its order.

use std::fmt::Write as _;

use super::plan::{CA, Key, LATER, LONG_AGO, List, NOT_YET, NOW, Plan, SIGNS, Spec, Usages, leaf, root};
use super::trial::Verdict;

/// A row of the table.
pub(super) struct Situation {
    pub(super) name: &'static str,
    pub(super) plan: fn(&mut Plan, Usages),
    pub(super) difference: Difference,
}

/// How adit's verdict compares with OpenVPN's.
#[derive(Clone, Copy)]
pub(super) enum Difference {
    None,
    /// adit refuses certificates that OpenVPN accepts, at one end at least, for this reason.
    Stricter(&'static str),
    /// adit accepts certificates that OpenVPN does not, at one end at least, for this reason.
    Laxer(&'static str),
}

impl Difference {
    pub(super) fn reason(self) -> String {
        match self {
            Difference::None => String::new(),
            Difference::Stricter(reason) => format!("adit is stricter: {reason}"),
            Difference::Laxer(reason) => format!("adit is laxer: {reason}"),
        }
    }

    /// Whether the verdicts of OpenVPN's and adit's server and of OpenVPN's and adit's client are such.
    pub(super) fn fits(self, verdicts: &[Verdict; 4]) -> bool {
        let [server, own_server, client, own_client] = *verdicts;
        let pairs = [(server, own_server), (client, own_client)];
        let accepts = |verdict| verdict == Verdict::Accepts;
        let differs = |(theirs, ours): &(Verdict, Verdict)| theirs != ours;
        let stricter = |(theirs, ours): &(Verdict, Verdict)| accepts(*theirs) && !accepts(*ours);
        let laxer = |(theirs, ours): &(Verdict, Verdict)| !accepts(*theirs) && accepts(*ours);
        let mut different = pairs.iter().filter(|pair| differs(pair)).peekable();
        match self {
            Difference::None => different.peek().is_none(),
            Difference::Stricter(_) => different.peek().is_some() && different.all(stricter),
            Difference::Laxer(_) => different.peek().is_some() && different.all(laxer),
        }
    }
}

const fn same(name: &'static str, plan: fn(&mut Plan, Usages)) -> Situation {
    Situation { name, plan, difference: Difference::None }
}

const fn stricter(name: &'static str, plan: fn(&mut Plan, Usages), reason: &'static str) -> Situation {
    Situation { name, plan, difference: Difference::Stricter(reason) }
}

const fn laxer(name: &'static str, plan: fn(&mut Plan, Usages), reason: &'static str) -> Situation {
    Situation { name, plan, difference: Difference::Laxer(reason) }
}

pub(super) const SITUATIONS: &[Situation] = &[
    same("leaf signed by the root", |plan, _| plan.direct()),
    same("intermediate in `cert`", |_, _| {}),
    same("intermediate in `extra-certs`", |plan, _| {
        plan.shown = vec!["leaf"];
        plan.extra = vec!["middle"];
    }),
    same("intermediate in `ca`, beside the root", |plan, _| {
        plan.ca.push("middle");
        plan.shown = vec!["leaf"];
    }),
    same("intermediate missing", |plan, _| plan.shown = vec!["leaf"]),
    same("root missing: intermediate alone in `ca`", |plan, _| plan.ca = vec!["middle"]),
    same("root missing in `ca`, shown by the peer", |plan, _| {
        plan.ca = vec!["middle"];
        plan.shown.push("root");
    }),
    same("another root with the same name", |plan, usages| {
        plan.certificates.push(Spec { name: "other", ..root() });
        plan.certificates.push(leaf("stray", "other", usages));
        plan.shown = vec!["stray"];
    }),
    same("leaf expired", |plan, _| plan.get("leaf").dates = LONG_AGO),
    same("leaf not valid yet", |plan, _| plan.get("leaf").dates = NOT_YET),
    same("intermediate expired", |plan, _| plan.get("middle").dates = LONG_AGO),
    same("root expired", |plan, _| plan.get("root").dates = LONG_AGO),
    laxer(
        "root expired, renewed one with the same key beside it",
        |plan, _| {
            plan.get("root").dates = LONG_AGO;
            plan.certificates.push(Spec { name: "renewed", key: Key::Of("root"), ..root() });
            plan.ca.push("renewed");
        },
        "OpenVPN's server starts with no two CA certificates of one name, as it sends clients a list of the names",
    ),
    stricter(
        "root's name written in other case by the certificate that it signed",
        |plan, usages| {
            plan.certificates.push(Spec { name: "recased", subject: "ROOT", key: Key::Of("root"), ..root() });
            plan.certificates.push(leaf("cousin", "recased", usages));
            plan.shown = vec!["cousin"];
        },
        "rustls-webpki compares the names of a path byte for byte; RFC 5280 §4.1.2.4 asks issuers to write a name always alike",
    ),
    same("leaf that signed itself, in `ca`", |plan, _| {
        plan.get("leaf").issuer = "";
        plan.ca = vec!["leaf"];
        plan.shown = vec!["leaf"];
    }),
    stricter(
        "leaf of version 1",
        |plan, _| plan.get("leaf").extensions.clear(),
        "such a certificate says nothing of what it is for; rustls-webpki takes version 3 alone",
    ),
    same("root is no CA", |plan, _| plan.get("root").extensions = "basicConstraints=CA:FALSE\n".to_owned()),
    same("root without keyCertSign", |plan, _| {
        plan.get("root").extensions = format!("{CA}keyUsage=cRLSign\n");
    }),
    same("root without keyUsage", |plan, _| plan.get("root").extensions = CA.to_owned()),
    same("intermediate is no CA", |plan, _| {
        plan.get("middle").extensions = "basicConstraints=CA:FALSE\n".to_owned();
    }),
    same("intermediate without keyCertSign", |plan, _| {
        plan.get("middle").extensions = format!("{CA}keyUsage=digitalSignature\n");
    }),
    same("path length of the root: none below, one there", |plan, _| {
        plan.get("root").extensions = format!("basicConstraints=critical,CA:TRUE,pathlen:0\n{SIGNS}");
    }),
    same("path length of the root: one below, one there", |plan, _| {
        plan.get("root").extensions = format!("basicConstraints=critical,CA:TRUE,pathlen:1\n{SIGNS}");
    }),
    same("path length of an intermediate: none below, one there", |plan, usages| {
        plan.get("middle").extensions = format!("basicConstraints=critical,CA:TRUE,pathlen:0\n{SIGNS}");
        plan.certificates.retain(|spec| spec.name != "leaf");
        plan.certificates.push(Spec { name: "low", subject: "low", issuer: "middle", ..root() });
        plan.certificates.push(leaf("leaf", "low", usages));
        plan.shown.push("low");
    }),
    same("name constraints: DNS name permitted", |plan, _| {
        plan.get("middle").extensions += "nameConstraints=critical,permitted;DNS:example.org\n";
        plan.get("leaf").extensions += "subjectAltName=DNS:vpn.example.org\n";
    }),
    same("name constraints: DNS name not permitted", |plan, _| {
        plan.get("middle").extensions += "nameConstraints=critical,permitted;DNS:example.org\n";
        plan.get("leaf").extensions += "subjectAltName=DNS:vpn.example.com\n";
    }),
    same("name constraints of the root: DNS name excluded", |plan, _| {
        plan.get("root").extensions += "nameConstraints=critical,excluded;DNS:example.com\n";
        plan.get("leaf").extensions += "subjectAltName=DNS:vpn.example.com\n";
    }),
    stricter(
        "name constraints: directory name permitted",
        |plan, _| {
            plan.get("middle").extensions +=
                "nameConstraints=critical,permitted;dirName:names\n[names]\nCN=leaf\n";
        },
        "rustls-webpki does not judge constraints on directory names, and refuses certificates under one",
    ),
    same("EKU at the leaf alone, `remote-cert-tls`", |plan, usages| plan.demand(usages)),
    same("EKU at leaf and intermediate, `remote-cert-tls`", |plan, usages| {
        plan.demand(usages);
        let _ = writeln!(plan.get("middle").extensions, "extendedKeyUsage={}", usages.own);
    }),
    same("no EKU at all", |plan, usages| plan.without_usage(usages)),
    same("no EKU at all, `remote-cert-tls`", |plan, usages| {
        plan.without_usage(usages);
        plan.demand(usages);
    }),
    same("wrong EKU at the leaf", |plan, usages| plan.swap_usage(usages)),
    same("wrong EKU at the intermediate", |plan, usages| {
        let _ = writeln!(plan.get("middle").extensions, "extendedKeyUsage={}", usages.other);
    }),
    same("wrong EKU at the root", |plan, usages| {
        let _ = writeln!(plan.get("root").extensions, "extendedKeyUsage={}", usages.other);
    }),
    same("`anyExtendedKeyUsage` alone at the leaf", |plan, usages| {
        let leaf = plan.get("leaf");
        leaf.extensions = leaf.extensions.replace(usages.own, "anyExtendedKeyUsage");
    }),
    same("key usage of the leaf: data encipherment alone", |plan, _| {
        let leaf = plan.get("leaf");
        leaf.extensions = leaf.extensions.replace("digitalSignature", "dataEncipherment");
    }),
    same("no key usage at the leaf, `remote-cert-tls`", |plan, usages| {
        plan.demand(usages);
        let leaf = plan.get("leaf");
        leaf.extensions = leaf.extensions.replace("keyUsage=digitalSignature\n", "");
    }),
    same("key usage as `remote-cert-ku 80` asks", |plan, _| plan.lines.push_str("remote-cert-ku 80\n")),
    same("key usage other than `remote-cert-ku 20` asks", |plan, _| {
        plan.lines.push_str("remote-cert-ku 20\n")
    }),
    same("Netscape type of another end at the leaf", |plan, usages| {
        let kind = if usages.own == "serverAuth" { "client" } else { "server" };
        let _ = writeln!(plan.get("leaf").extensions, "nsCertType={kind}");
    }),
    stricter(
        "leaf is a CA",
        |plan, _| {
            let leaf = plan.get("leaf");
            leaf.extensions = leaf.extensions.replace("CA:FALSE", "CA:TRUE");
        },
        "the key of a CA belongs to no end: who takes it from a server or a client can issue certificates",
    ),
    same("revoked leaf", |plan, _| plan.revoke(&["leaf"], "middle")),
    same("revoked intermediate", |plan, _| plan.revoke(&["middle"], "root")),
    same("revoked intermediate in `ca`", |plan, _| {
        plan.revoke(&["middle"], "root");
        plan.ca.push("middle");
        plan.shown = vec!["leaf"];
    }),
    same("CRLs of all levels, another certificate revoked", |plan, usages| {
        plan.certificates.push(leaf("stray", "middle", usages));
        plan.revoke(&["stray"], "middle");
        plan.revoke(&[], "root");
    }),
    same("CRL missing for the intermediate's level", |plan, _| plan.revoke(&[], "middle")),
    same("CRL missing for the leaf's level", |plan, _| plan.revoke(&[], "root")),
    same("CRL of another issuer alone", |plan, _| {
        plan.certificates.push(Spec { name: "foreign", subject: "foreign", ..root() });
        plan.revoke(&[], "foreign");
    }),
    stricter(
        "CRL with the root's name, signed by another",
        |plan, _| {
            plan.certificates.push(Spec { name: "other", ..root() });
            plan.revoke(&[], "other");
        },
        "OpenVPN goes on without a list if the key identifiers differ; for adit a list that nothing verifies may have been tampered with",
    ),
    same("CRL with the root's name in other case: revoked leaf", |plan, _| {
        plan.direct();
        plan.certificates.push(Spec { name: "recased", subject: "ROOT", key: Key::Of("root"), ..root() });
        plan.revoke(&["leaf"], "recased");
    }),
    same("CRL with the root's name in other case: another certificate revoked", |plan, usages| {
        plan.direct();
        plan.certificates.push(Spec { name: "recased", subject: "ROOT", key: Key::Of("root"), ..root() });
        plan.certificates.push(leaf("stray", "root", usages));
        plan.revoke(&["stray"], "recased");
    }),
    same("two CRLs: the older one names the leaf, the newer one does not", |plan, _| {
        plan.lists.push(List { issuer: "middle", revoked: &["leaf"], dates: NOW });
        plan.lists.push(List { issuer: "middle", revoked: &[], dates: LATER });
    }),
    same("two CRLs: the newer one names the leaf, the older one does not", |plan, _| {
        plan.lists.push(List { issuer: "middle", revoked: &["leaf"], dates: LATER });
        plan.lists.push(List { issuer: "middle", revoked: &[], dates: NOW });
    }),
    same("CRL not valid yet", |plan, _| {
        plan.revoke(&[], "middle");
        plan.lists[0].dates = NOT_YET;
    }),
    same("CRL expired", |plan, _| {
        plan.revoke(&[], "middle");
        plan.lists[0].dates = LONG_AGO;
    }),
    same("CRL expired at the root's level", |plan, _| {
        plan.revoke(&[], "root");
        plan.lists[0].dates = LONG_AGO;
    }),
    same("CRL of a root without cRLSign", |plan, _| {
        plan.get("root").extensions = format!("{CA}keyUsage=keyCertSign\n");
        plan.revoke(&[], "root");
    }),
    same("leaf signed with SHA-1", |plan, _| plan.get("leaf").digest = "sha1"),
    same("intermediate signed with SHA-1", |plan, _| plan.get("middle").digest = "sha1"),
    same("root signed with SHA-1", |plan, _| plan.get("root").digest = "sha1"),
    same("RSA of 2048 bits", |plan, _| plan.get("leaf").key = Key::Rsa(2048)),
    stricter(
        "RSA of 1024 bits at the leaf",
        |plan, _| plan.get("leaf").key = Key::Rsa(1024),
        "such keys were factored at a cost within reach; AWS-LC takes 2048 bits and more",
    ),
    stricter(
        "RSA of 1024 bits at the intermediate",
        |plan, _| plan.get("middle").key = Key::Rsa(1024),
        "the same",
    ),
    same("fingerprint alone", |plan, _| plan.fingerprint()),
    same("fingerprint alone, leaf expired", |plan, _| {
        plan.fingerprint();
        plan.get("leaf").dates = LONG_AGO;
    }),
    stricter(
        "fingerprint alone, leaf on a CRL",
        |plan, _| {
            plan.fingerprint();
            plan.revoke(&["leaf"], "middle");
        },
        "OpenVPN does not consult a CRL without `ca` in a handshake; adit does, though nothing can verify its signature",
    ),
    same("fingerprint alone, another certificate on a CRL", |plan, usages| {
        plan.fingerprint();
        plan.certificates.push(leaf("stray", "middle", usages));
        plan.revoke(&["stray"], "middle");
    }),
    same("fingerprint alone, `remote-cert-tls`", |plan, usages| {
        plan.fingerprint();
        plan.demand(usages);
    }),
    same("fingerprint alone, wrong EKU, `remote-cert-tls`", |plan, usages| {
        plan.fingerprint();
        plan.demand(usages);
        plan.swap_usage(usages);
    }),
    same("fingerprint alone, wrong EKU, not asked for", |plan, usages| {
        plan.fingerprint();
        plan.swap_usage(usages);
    }),
];
