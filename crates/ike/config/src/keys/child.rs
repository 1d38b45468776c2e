//! The keys of a child.

use adit_ike::suite;

use super::{Row, anything, is_no, is_zero, only, refused, set, set_list, unused, used};
use crate::draft::{ChildDraft, time};
use crate::model::{Action, DscpCopy, Padding};
use crate::values::{addresses, boolean, numbers, one_of, printable, selector, shown};

const NO_MARKS: &str = "adit gives packets no marks and selects none by them; leave it out, and tell children apart by `local_ts` and \
                        `remote_ts`";
const NO_LABELS: &str = "adit has no security labels; leave it out";
const OWN_DATA_PLANE: &str = "adit moves packets in its own process";

/// The keys of a section of `children`.
pub(crate) const CHILD: &[Row<ChildDraft>] = &[
    refused("ah_proposals", "adit has no AH; write `esp_proposals`"),
    used("esp_proposals", "PROPOSAL, …", |draft, value| {
        let proposals = suite::esp_proposals(value.text).map_err(|why| why.to_string());
        set(&mut draft.child.esp_proposals, proposals)
    }),
    only(
        "sha256_96",
        "no",
        is_no,
        "HMACs of SHA-256 have 128 bits, as RFC 4868 has it; write no, and change the peer",
    ),
    used("local_ts", "SELECTOR, …", |draft, value| {
        set_list(&mut draft.child.local_ts, value.text, selector::selector)
    }),
    used("remote_ts", "SELECTOR, …", |draft, value| {
        set_list(&mut draft.child.remote_ts, value.text, selector::selector)
    }),
    used("rekey_time", "TIME", |draft, value| {
        set(&mut draft.time.rekey, numbers::seconds(value.text).map(Some))
    }),
    used("life_time", "TIME", |draft, value| {
        set(&mut draft.time.life, numbers::seconds(value.text).map(Some))
    }),
    used("rand_time", "TIME", |draft, value| {
        set(&mut draft.time.random, numbers::seconds(value.text).map(Some))
    }),
    used("rekey_bytes", "BYTES", |draft, value| {
        set(&mut draft.bytes.rekey, numbers::bytes(value.text).map(Some))
    }),
    used("life_bytes", "BYTES", |draft, value| {
        set(&mut draft.bytes.life, numbers::bytes(value.text).map(Some))
    }),
    used("rand_bytes", "BYTES", |draft, value| {
        set(&mut draft.bytes.random, numbers::bytes(value.text).map(Some))
    }),
    used("rekey_packets", "NUMBER", |draft, value| {
        set(&mut draft.packets.rekey, numbers::packets(value.text).map(Some))
    }),
    used("life_packets", "NUMBER", |draft, value| {
        set(&mut draft.packets.life, numbers::packets(value.text).map(Some))
    }),
    used("rand_packets", "NUMBER", |draft, value| {
        set(&mut draft.packets.random, numbers::packets(value.text).map(Some))
    }),
    used("updown", "COMMAND", |draft, value| set(&mut draft.child.updown, printable(value.text).map(Some))),
    unused(
        "hostaccess",
        "yes|no",
        |text| boolean(text).map(drop),
        "it is a variable for the program of `updown`; adit's own address is reached by the rules of the firewall",
    ),
    only(
        "mode",
        "tunnel",
        |text| Ok(text.eq_ignore_ascii_case("tunnel")),
        "adit has the mode tunnel alone: write tunnel at both ends in place of transport, beet or iptfs; networks that pass or drop \
         would name belong outside of the selectors of the others",
    ),
    used("policies", "yes|no", |draft, value| set(&mut draft.child.policies, boolean(value.text))),
    unused(
        "policies_fwd_out",
        "yes|no",
        |text| boolean(text).map(drop),
        "adit has no policies in the kernel",
    ),
    used("dpd_action", "clear|trap|start", |draft, value| {
        set(&mut draft.child.dpd_action, action(value.text))
    }),
    only("ipcomp", "no", is_no, "adit compresses no packets; write no, or leave it out"),
    used("inactivity", "TIME", |draft, value| {
        set(&mut draft.child.inactivity, numbers::seconds(value.text).map(time))
    }),
    unused(
        "reqid",
        "NUMBER",
        |text| numbers::number_u32(text).map(drop),
        "it names policies in the kernel, which adit does not have",
    ),
    unused(
        "priority",
        "NUMBER",
        |text| numbers::number_u32(text).map(drop),
        "it orders policies in the kernel, which adit does not have",
    ),
    refused("interface", "adit binds no child to a device of the system; write the addresses in `local_ts`"),
    only("mark_in", "0", is_mark_zero, NO_MARKS),
    unused("mark_in_sa", "yes|no", |text| boolean(text).map(drop), "it is for `mark_in` alone"),
    only("mark_out", "0", is_mark_zero, NO_MARKS),
    only("set_mark_in", "0", is_mark_zero, NO_MARKS),
    only("set_mark_out", "0", is_mark_zero, NO_MARKS),
    used("if_id_in", "NUMBER|%unique|%unique-dir", |draft, value| {
        set(&mut draft.child.if_id_in, addresses::interface_id(value.text))
    }),
    used("if_id_out", "NUMBER|%unique|%unique-dir", |draft, value| {
        set(&mut draft.child.if_id_out, addresses::interface_id(value.text))
    }),
    refused("label", NO_LABELS),
    unused("label_mode", "system|simple|selinux", anything, "it is for `label` alone"),
    used("tfc_padding", "BYTES|mtu", |draft, value| set(&mut draft.child.tfc_padding, padding(value.text))),
    used("replay_window", "PACKETS", |draft, value| {
        set(&mut draft.child.replay_window, numbers::number_u32(value.text).map(Some))
    }),
    unused(
        "per_cpu_sas",
        "yes|no|encap",
        |text| {
            one_of(text, &[("yes", ()), ("no", ()), ("encap", ())])
                .or_else(|why| boolean(text).map(drop).map_err(|_| why))
        },
        "one child SA serves all processors",
    ),
    unused(
        "hw_offload",
        "no|yes|crypto|packet|auto",
        |text| one_of(text, &[("no", ()), ("yes", ()), ("crypto", ()), ("packet", ()), ("auto", ())]),
        OWN_DATA_PLANE,
    ),
    used("copy_df", "yes|no", |draft, value| set(&mut draft.child.copy_df, boolean(value.text))),
    used("copy_ecn", "yes|no", |draft, value| set(&mut draft.child.copy_ecn, boolean(value.text))),
    used("copy_dscp", "out|in|yes|no", |draft, value| {
        let words =
            [("out", DscpCopy::Out), ("in", DscpCopy::In), ("yes", DscpCopy::Both), ("no", DscpCopy::No)];
        set(&mut draft.child.copy_dscp, one_of(value.text, &words))
    }),
    used("icmp", "yes|no", |draft, value| set(&mut draft.child.icmp, boolean(value.text))),
    used("start_action", "none|trap|start", |draft, value| {
        set(&mut draft.child.start_action, action(value.text))
    }),
    used("close_action", "none|trap|start", |draft, value| {
        set(&mut draft.child.close_action, action(value.text))
    }),
];

/// One action, or several with `|` between them.
fn action(text: &str) -> Result<Action, String> {
    const WORDS: [(&str, Action); 6] = [
        ("none", Action { start: false, trap: false }),
        ("trap", Action { start: false, trap: true }),
        ("start", Action { start: true, trap: false }),
        ("clear", Action { start: false, trap: false }),
        ("route", Action { start: false, trap: true }),
        ("restart", Action { start: true, trap: false }),
    ];
    let mut all = Action::default();
    for word in text.split('|') {
        let one = one_of(word.trim(), &WORDS)?;
        all = Action { start: all.start || one.start, trap: all.trap || one.trap };
    }
    Ok(all)
}

fn padding(text: &str) -> Result<Padding, String> {
    /// The longest packet of IP, in bytes.
    const LONGEST: u32 = 65_535;
    if text.eq_ignore_ascii_case("mtu") {
        return Ok(Padding::ToMtu);
    }
    match numbers::number_u32(text).ok().filter(|bytes| *bytes <= LONGEST) {
        Some(0) => Ok(Padding::None),
        Some(bytes) => Ok(Padding::To(bytes)),
        None => Err(format!("`{}` is not mtu, or a number of bytes from 0 to {LONGEST}", shown(text))),
    }
}

/// Whether a mark, with its mask behind `/` or without, is 0.
fn is_mark_zero(text: &str) -> Result<bool, String> {
    let is_nothing =
        |number: &str| is_zero(number).is_ok_and(|zero| zero) || numbers::number_u32(number) == Ok(0);
    Ok(text.split('/').all(is_nothing))
}
