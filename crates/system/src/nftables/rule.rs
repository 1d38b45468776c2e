//! Rules: matches, then an action, each as expressions that load a value into a register and compare it.

use ipnet::IpNet;

use super::Family;
use super::attributes::{attribute, nested, number, text};

/// The register of values (`NFT_REG_1`), and that of the verdict.
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;
/// `NFT_CMP_EQ`, `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// The length of a device's name in a register.
const NAME: usize = 16;
/// The bits of "established" and "related" (linux/netfilter/nf_conntrack_common.h `NF_CT_STATE_BIT`).
const ANSWERS: u32 = 2 | 4;
/// The kind of addresses of this machine (linux/rtnetlink.h `RTN_LOCAL`).
const LOCAL: u32 = 2;
/// `NFT_REJECT_ICMPX_UNREACH`, `NFT_REJECT_ICMPX_ADMIN_PROHIBITED`.
const ICMPX: u32 = 2;
const PROHIBITED: u8 = 3;

/// Keys of an expression `meta` (`enum nft_meta_keys`).
mod meta {
    pub(super) const MARK: u32 = 3;
    pub(super) const IN: u32 = 4;
    pub(super) const OUT: u32 = 5;
    pub(super) const IN_NAME: u32 = 6;
    pub(super) const OUT_NAME: u32 = 7;
    pub(super) const FAMILY: u32 = 15;
    pub(super) const PROTOCOL: u32 = 16;
    pub(super) const IN_GROUP: u32 = 21;
    pub(super) const OUT_GROUP: u32 = 22;
}

/// Keys of an expression `ct` (`enum nft_ct_keys`).
mod connection {
    pub(super) const STATE: u32 = 0;
    pub(super) const MARK: u32 = 3;
}

/// The header in which the bytes of an expression `payload` are (`enum nft_payload_bases`).
#[derive(Clone, Copy)]
enum Header {
    Network = 1,
    Transport = 2,
}

/// A property of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match<'a> {
    /// The packet came in by the device of that name.
    InName(&'a str),
    /// The packet leaves by the device of that name.
    OutName(&'a str),
    /// The packet came in by another device than that of this index.
    InNot(u32),
    /// The packet leaves by the device of that index.
    Out(u32),
    /// The packet came in by a device of that group.
    InGroup(u32),
    /// The packet leaves by a device of that group.
    OutGroup(u32),
    /// The packet has that mark.
    Mark(u32),
    /// The packet is of that family.
    Family(Family),
    /// The packet is of that protocol, by its number.
    Protocol(u8),
    /// The packet goes to an address of that network. In a table of both families, [`Match::Family`] goes before.
    Destination(IpNet),
    /// The packet's source is not an address of this machine.
    SourceNotLocal,
    /// The packet belongs to a connection that was let through before.
    Answer,
    /// Source and destination port. [`Match::Protocol`] goes before.
    Ports(u16, u16),
    /// The type of a message of ICMP or ICMPv6. [`Match::Protocol`] goes before.
    IcmpType(u8),
    /// IPv6's hop limit. [`Match::Family`] goes before.
    HopLimit(u8),
}

/// The fate of packets that have all properties of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Accept,
    /// It is dropped.
    Drop,
    /// It is dropped, and its sender hears that it is prohibited.
    Reject,
    /// Its source becomes the address of the device by which it leaves.
    Masquerade,
    /// It gets the mark of its connection.
    MarkPacket,
    /// Its connection gets its mark.
    MarkConnection,
}

/// The list of a rule's expressions.
pub(super) fn expressions(matches: &[Match<'_>], action: Action) -> Vec<u8> {
    let mut bytes: Vec<u8> = matches.iter().flat_map(|wanted| wanted.expressions()).collect();
    bytes.extend(action.expressions());
    bytes
}

impl Match<'_> {
    fn expressions(&self) -> Vec<u8> {
        let equal = |key, value: &[u8]| [load_meta(key), compare(EQUAL, value)].concat();
        match *self {
            Match::InName(name) => equal(meta::IN_NAME, &padded(name)),
            Match::OutName(name) => equal(meta::OUT_NAME, &padded(name)),
            Match::InNot(index) => [load_meta(meta::IN), compare(UNEQUAL, &index.to_ne_bytes())].concat(),
            Match::Out(index) => equal(meta::OUT, &index.to_ne_bytes()),
            Match::InGroup(group) => equal(meta::IN_GROUP, &group.to_ne_bytes()),
            Match::OutGroup(group) => equal(meta::OUT_GROUP, &group.to_ne_bytes()),
            Match::Mark(mark) => equal(meta::MARK, &mark.to_ne_bytes()),
            Match::Family(family) => equal(meta::FAMILY, &[family.number()]),
            Match::Protocol(protocol) => equal(meta::PROTOCOL, &[protocol]),
            Match::Destination(network) => destination(network),
            Match::SourceNotLocal => {
                // NFTA_FIB_RESULT: the kind of the address; NFTA_FIB_FLAGS: the source.
                let load = expression("fib", &[number(1, REGISTER), number(2, 3), number(3, 1)]);
                [load, compare(UNEQUAL, &LOCAL.to_ne_bytes())].concat()
            }
            Match::Answer => {
                let load = expression("ct", &[number(1, REGISTER), number(2, connection::STATE)]);
                [load, mask(&ANSWERS.to_ne_bytes()), compare(UNEQUAL, &[0; 4])].concat()
            }
            Match::Ports(source, destination) => {
                let value = [source.to_be_bytes(), destination.to_be_bytes()].concat();
                bytes_at(Header::Transport, 0, &value)
            }
            Match::IcmpType(kind) => bytes_at(Header::Transport, 0, &[kind]),
            Match::HopLimit(limit) => bytes_at(Header::Network, 7, &[limit]),
        }
    }
}

impl Action {
    fn expressions(self) -> Vec<u8> {
        match self {
            Action::Accept => verdict(1),
            Action::Drop => verdict(0),
            Action::Reject => expression("reject", &[number(1, ICMPX), attribute(2, &[PROHIBITED])]),
            Action::Masquerade => expression("masq", &[]),
            Action::MarkPacket => {
                let load = expression("ct", &[number(1, REGISTER), number(2, connection::MARK)]);
                // NFTA_META_SREG.
                [load, expression("meta", &[number(2, meta::MARK), number(3, REGISTER)])].concat()
            }
            Action::MarkConnection => {
                // NFTA_CT_SREG.
                let set = expression("ct", &[number(2, connection::MARK), number(4, REGISTER)]);
                [load_meta(meta::MARK), set].concat()
            }
        }
    }
}

fn padded(name: &str) -> [u8; NAME] {
    let mut padded = [0; NAME];
    for (to, from) in padded.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    padded
}

/// The destination's place in the headers of IPv4 and IPv6.
fn destination(network: IpNet) -> Vec<u8> {
    let load = |offset, length| load_payload(Header::Network, offset, length);
    let parts = match network.trunc() {
        IpNet::V4(network) => {
            [load(16, 4), mask(&network.netmask().octets()), compare(EQUAL, &network.addr().octets())]
        }
        IpNet::V6(network) => {
            [load(24, 16), mask(&network.netmask().octets()), compare(EQUAL, &network.addr().octets())]
        }
    };
    let [load, mask, compare] = parts;
    match network.prefix_len() == network.max_prefix_len() {
        true => [load, compare].concat(),
        false => [load, mask, compare].concat(),
    }
}

fn bytes_at(header: Header, offset: u32, value: &[u8]) -> Vec<u8> {
    [load_payload(header, offset, value.len() as u32), compare(EQUAL, value)].concat()
}

fn load_payload(header: Header, offset: u32, length: u32) -> Vec<u8> {
    expression(
        "payload",
        &[number(1, REGISTER), number(2, header as u32), number(3, offset), number(4, length)],
    )
}

fn load_meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, key)])
}

/// Keeps these bits of the register.
fn mask(bits: &[u8]) -> Vec<u8> {
    let value = |bytes: &[u8]| attribute(1, bytes);
    let none = vec![0; bits.len()];
    expression(
        "bitwise",
        &[
            number(1, REGISTER),
            number(2, REGISTER),
            number(3, bits.len() as u32),
            nested(4, &value(bits)),
            nested(5, &value(&none)),
        ],
    )
}

fn compare(operation: u32, value: &[u8]) -> Vec<u8> {
    expression("cmp", &[number(1, REGISTER), number(2, operation), nested(3, &attribute(1, value))])
}

/// `NF_DROP` or `NF_ACCEPT`.
fn verdict(code: u32) -> Vec<u8> {
    let verdict = nested(2, &number(1, code));
    expression("immediate", &[number(1, VERDICT), nested(2, &verdict)])
}

/// An element of a rule's list: a name and attributes.
fn expression(name: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, &attributes.concat())].concat())
}
