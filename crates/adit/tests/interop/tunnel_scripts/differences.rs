//! The differences, and their reasons: the rows of docs/use/SCRIPTS.md.

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Difference {
    /// The part that differs: `order`, `calls`, `words`, `user`, or variables; `*` at the end stands for any
    /// text.
    pub(super) what: &'static str,
    /// At which scripts; empty for all.
    pub(super) scripts: &'static [&'static str],
    /// The situations in which it differs; empty for all.
    pub(super) situations: &'static [&'static str],
    /// How the page names it.
    pub(super) shown: &'static str,
    pub(super) reason: &'static str,
}

#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference { what: "PATH", scripts: &[], situations: &[], shown: "`PATH`",
        reason: "adit sets it, as scripts find their programs by it; OpenVPN sets none, and shells take one of their own" },
    Difference { what: "foreign_option_*", scripts: &["tls-verify", "ipchange"], situations: &["name servers of the file"],
        shown: "`foreign_option_N` of the file at `tls-verify` and `ipchange`",
        reason: "adit tells of name servers from `up` on, when it is known which of them count" },
    Difference { what: "order", scripts: &[], situations: &["point-to-point, connecting", "static key, connecting"],
        shown: "the order at the connecting end of a point-to-point tunnel",
        reason: "its device is set up when the other end was reached, as OpenVPN does with `up-delay`; so `up` comes after `tls-verify` \
                 and `ipchange`" },
    Difference { what: "IV_* X509_* common_name tls_* trusted_* untrusted_*", scripts: &["up", "route-up"],
        situations: &["point-to-point, connecting", "static key, connecting"],
        shown: "the peer's variables at `up` and `route-up` of that end", reason: "the peer is known by then" },
    Difference { what: "dev dev_type ifconfig_* redirect_gateway route_* script_context tun_mtu",
        scripts: &["tls-verify", "ipchange"], situations: &["point-to-point*", "static key, connecting"],
        shown: "the device's variables at `tls-verify` and `ipchange` of point-to-point ends",
        reason: "the connecting end has no device yet; `tls-verify` is told of the peer alone at the other" },
    Difference { what: "IV_* X509_* common_name tls_*", scripts: &["tls-verify"], situations: &["point-to-point, waiting*"],
        shown: "further variables of the peer at `tls-verify` of the waiting end",
        reason: "it asks when all certificates were shown, and what the peer said of itself" },
];
