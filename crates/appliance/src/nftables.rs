//! Rules of nftables that forward packets between devices, as one batch of netlink messages (linux/netfilter/nf_tables.h): an image
//! has no program `nft`.

/// The subsystem of nftables, and its messages (linux/netfilter/nfnetlink.h, nf_tables.h).
const NFTABLES: u16 = 10 << 8;
const NEW_TABLE: u16 = NFTABLES;
const NEW_CHAIN: u16 = NFTABLES | 3;
const NEW_RULE: u16 = NFTABLES | 6;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_CREATE`, `NLM_F_APPEND` (linux/netlink.h).
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// `NFPROTO_UNSPEC`, `NFPROTO_INET` (linux/netfilter.h): both versions of IP.
const UNSPECIFIED: u8 = 0;
const INET: u8 = 1;
/// `NF_INET_FORWARD`, `NF_INET_POST_ROUTING`, and the priorities of filters and of the translation of sources.
const FORWARD: u32 = 2;
const POST_ROUTING: u32 = 4;
const FILTER: u32 = 0;
const SOURCE: u32 = 100;
/// `NF_DROP`, `NF_ACCEPT`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
/// `NFT_META_IIFNAME`, `NFT_META_OIFNAME`, `NFT_CT_STATE`.
const BY: u32 = 6;
const TO: u32 = 7;
const STATE: u32 = 0;
/// The register that holds what is compared (`NFT_REG_1`), and that of the verdict.
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;
/// `NFT_CMP_EQ`, `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// The bits of "established" and "related" (linux/netfilter/nf_conntrack_common.h `NF_CT_STATE_BIT`).
const ANSWERS: u32 = 2 | 4;
/// The length of a device's name in a register.
const NAME: usize = 16;

/// The name of the table and of its chains.
pub(crate) const TABLE: &str = "appliance";
const FILTERED: &str = "forward";
const TRANSLATED: &str = "translate";

/// Packets that come in by a device may leave by another, translated to that device's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The device by which the packets come in.
    pub(crate) from: String,
    /// The device by which they leave.
    pub(crate) to: String,
}

/// The messages that make the table, and how many answers there will be. Whatever no passage takes is not forwarded.
pub(crate) fn ruleset(passages: &[Passage]) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    batch.message(BATCH_BEGIN, 0, UNSPECIFIED, &[]);
    batch.message(NEW_TABLE, CREATE, INET, &text(1, TABLE));
    batch.message(NEW_CHAIN, CREATE, INET, &chain(FILTERED, "filter", FORWARD, FILTER, DROP));
    batch.message(NEW_CHAIN, CREATE, INET, &chain(TRANSLATED, "nat", POST_ROUTING, SOURCE, ACCEPT));
    for Passage { from, to } in passages {
        let [there, back] = [[device(BY, from), device(TO, to)], [device(BY, to), device(TO, from)]];
        batch.rule(FILTERED, &[&there.concat(), &accept()]);
        batch.rule(FILTERED, &[&back.concat(), &is_answer(), &accept()]);
        batch.rule(TRANSLATED, &[&there.concat(), &expression("masq", &[])]);
    }
    batch.message(BATCH_END, 0, UNSPECIFIED, &[]);
    (batch.bytes, batch.answers)
}

/// Messages behind one another.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    number: u32,
    answers: usize,
}

impl Batch {
    /// Adds a message: `struct nlmsghdr`, `struct nfgenmsg`, attributes. The batch's own are not answered.
    fn message(&mut self, kind: u16, flags: u16, family: u8, attributes: &[u8]) {
        let is_own = kind == BATCH_BEGIN || kind == BATCH_END;
        let flags = REQUEST | flags | if is_own { 0 } else { ACK };
        // The batch's own messages name the subsystem.
        let resource = if is_own { NFTABLES >> 8 } else { 0 };
        self.number += 1;
        self.answers += usize::from(!is_own);
        self.bytes.extend_from_slice(&(20 + attributes.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.number.to_ne_bytes());
        self.bytes.extend_from_slice(&0_u32.to_ne_bytes());
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
        self.bytes.extend_from_slice(attributes);
    }

    fn rule(&mut self, chain: &str, expressions: &[&[u8]]) {
        let attributes = [text(1, TABLE), text(2, chain), nested(4, &expressions.concat())].concat();
        self.message(NEW_RULE, CREATE | APPEND, INET, &attributes);
    }
}

fn chain(name: &str, kind: &str, hook: u32, priority: u32, policy: u32) -> Vec<u8> {
    let hook = [number(1, hook), number(2, priority)].concat();
    [text(1, TABLE), text(3, name), nested(4, &hook), number(5, policy), text(7, kind)].concat()
}

/// The packet comes in by a device, or leaves by it.
fn device(direction: u32, name: &str) -> Vec<u8> {
    let mut padded = name.as_bytes().to_vec();
    padded.resize(NAME, 0);
    let load = expression("meta", &[number(1, REGISTER), number(2, direction)]);
    [load, compare(EQUAL, &padded)].concat()
}

/// The packet belongs to a connection that was let through before.
fn is_answer() -> Vec<u8> {
    let value = |bits: u32| attribute(1, &bits.to_ne_bytes());
    let load = expression("ct", &[number(1, REGISTER), number(2, STATE)]);
    let bits = [
        number(1, REGISTER),
        number(2, REGISTER),
        number(3, 4),
        nested(4, &value(ANSWERS)),
        nested(5, &value(0)),
    ];
    [load, expression("bitwise", &bits), compare(UNEQUAL, &[0; 4])].concat()
}

fn accept() -> Vec<u8> {
    let verdict = nested(2, &number(1, ACCEPT));
    expression("immediate", &[number(1, VERDICT), nested(2, &verdict)])
}

fn compare(operation: u32, value: &[u8]) -> Vec<u8> {
    expression("cmp", &[number(1, REGISTER), number(2, operation), nested(3, &attribute(1, value))])
}

/// An element of a rule's list: a name and attributes.
fn expression(name: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, &attributes.concat())].concat())
}

/// `struct nlattr`, then the value, padded to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(NESTED | kind, attributes)
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}
