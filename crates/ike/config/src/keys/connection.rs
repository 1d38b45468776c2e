//! The keys of a connection.

use adit_ike::suite;

use super::{Row, is_no, only, set, set_list, unused, used};
use crate::draft::{ConnectionDraft, time};
use crate::model::{Childless, Fragmentation, SendCertificate, Unique};
use crate::values::{addresses, boolean, identity, numbers, one_of};

const NO_IKEV1: &str = "adit has no IKEv1; write 2, at both ends, or leave it out";
const NO_MEDIATION: &str =
    "adit mediates no connections; leave it out, and write an address of the peer in `remote_addrs`";
const LISTS_DECIDE: &str = "adit asks no OCSP responder; revocation lists in `x509crl` decide";

/// The keys of a section of `connections`.
pub(crate) const CONNECTION: &[Row<ConnectionDraft>] = &[
    only("version", "0|2", |text| Ok(matches!(text, "0" | "2")), NO_IKEV1),
    used("local_addrs", "ADDRESS|NETWORK|RANGE|NAME|%any, …", |draft, value| {
        set_list(&mut draft.connection.local_addrs, value.text, addresses::host)
    }),
    used("remote_addrs", "ADDRESS|NETWORK|RANGE|NAME|%any, …", |draft, value| {
        set_list(&mut draft.connection.remote_addrs, value.text, addresses::host)
    }),
    used("local_port", "PORT", |draft, value| {
        let port = numbers::port(value.text)?;
        draft.connection.local_port = (port != 0).then_some(port);
        Ok(())
    }),
    used("remote_port", "PORT", |draft, value| {
        set(&mut draft.connection.remote_port, numbers::port(value.text).and_then(not_zero))
    }),
    used("proposals", "PROPOSAL, …", |draft, value| {
        let proposals = suite::ike_proposals(value.text).map_err(|why| why.to_string());
        set(&mut draft.connection.proposals, proposals)
    }),
    used("vips", "ADDRESS|0.0.0.0|::, …", |draft, value| {
        set_list(&mut draft.connection.vips, value.text, addresses::virtual_address)
    }),
    only(
        "aggressive",
        "no",
        is_no,
        "aggressive mode is a part of IKEv1, which adit does not have; write no, or leave it out",
    ),
    unused("pull", "yes|no", |text| boolean(text).map(drop), "it is for IKEv1 alone"),
    used("dscp", "BITS", |draft, value| set(&mut draft.connection.dscp, numbers::dscp(value.text))),
    used("encap", "yes|no", |draft, value| set(&mut draft.connection.encap, boolean(value.text))),
    used("mobike", "yes|no", |draft, value| set(&mut draft.connection.mobike, boolean(value.text))),
    used("dpd_delay", "TIME", |draft, value| {
        set(&mut draft.connection.dpd_delay, numbers::seconds(value.text).map(time))
    }),
    unused(
        "dpd_timeout",
        "TIME",
        |text| numbers::seconds(text).map(drop),
        "it is for IKEv1 alone; a peer is gone when the retransmissions of a request are over",
    ),
    used("fragmentation", "yes|accept|force|no", |draft, value| {
        let words = [
            ("yes", Fragmentation::Yes),
            ("accept", Fragmentation::Accept),
            ("force", Fragmentation::Yes),
            ("no", Fragmentation::No),
        ];
        set(&mut draft.connection.fragmentation, one_of(value.text, &words))
    }),
    used("childless", "allow|prefer|force|never", |draft, value| {
        let words = [
            ("allow", Childless::Allow),
            ("prefer", Childless::Prefer),
            ("force", Childless::Force),
            ("never", Childless::Never),
        ];
        set(&mut draft.connection.childless, one_of(value.text, &words))
    }),
    used("send_certreq", "yes|no", |draft, value| {
        set(&mut draft.connection.send_certreq, boolean(value.text))
    }),
    used("send_cert", "ifasked|always|never", |draft, value| {
        let words = [
            ("ifasked", SendCertificate::IfAsked),
            ("always", SendCertificate::Always),
            ("never", SendCertificate::Never),
        ];
        set(&mut draft.connection.send_cert, one_of(value.text, &words))
    }),
    unused(
        "ocsp",
        "reply|request|both|never",
        |text| one_of(text, &[("reply", ()), ("request", ()), ("both", ()), ("never", ())]),
        LISTS_DECIDE,
    ),
    used("ppk_id", "IDENTITY|PATTERN", |draft, value| {
        set(&mut draft.connection.ppk_id, identity::pattern(value.text).map(Some))
    }),
    used("ppk_required", "yes|no", |draft, value| {
        set(&mut draft.connection.ppk_required, boolean(value.text))
    }),
    used("keyingtries", "NUMBER", |draft, value| {
        let tries = numbers::number_u32(value.text)?;
        draft.connection.keyingtries = (tries > 0).then_some(tries);
        Ok(())
    }),
    used("unique", "never|no|keep|replace", |draft, value| {
        let words = [
            ("never", Unique::Never),
            ("no", Unique::No),
            ("keep", Unique::Keep),
            ("replace", Unique::Replace),
        ];
        set(&mut draft.connection.unique, one_of(value.text, &words))
    }),
    used("reauth_time", "TIME", |draft, value| {
        set(&mut draft.reauth, numbers::seconds(value.text).map(Some))
    }),
    used("rekey_time", "TIME", |draft, value| set(&mut draft.rekey, numbers::seconds(value.text).map(Some))),
    used("over_time", "TIME", |draft, value| set(&mut draft.over, numbers::seconds(value.text).map(Some))),
    used("rand_time", "TIME", |draft, value| set(&mut draft.random, numbers::seconds(value.text).map(Some))),
    used("pools", "NAME, …", |draft, value| {
        set_list(&mut draft.connection.pools, value.text, |name| Ok(name.to_owned()))
    }),
    used("if_id_in", "NUMBER|%unique|%unique-dir", |draft, value| {
        set(&mut draft.connection.if_id_in, addresses::interface_id(value.text))
    }),
    used("if_id_out", "NUMBER|%unique|%unique-dir", |draft, value| {
        set(&mut draft.connection.if_id_out, addresses::interface_id(value.text))
    }),
    only("mediation", "no", is_no, NO_MEDIATION),
    super::refused("mediated_by", NO_MEDIATION),
    super::refused("mediation_peer", NO_MEDIATION),
];

fn not_zero(port: u16) -> Result<u16, String> {
    if port == 0 { Err("a port from 1 to 65535 is needed".to_owned()) } else { Ok(port) }
}
