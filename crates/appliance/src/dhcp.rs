//! Messages of DHCP (RFC 2131, RFC 2132): a client's questions and a server's answers.

use std::net::Ipv4Addr;
use std::time::Duration;

/// The fixed part of a message, before the cookie (RFC 2131, section 2).
const FIXED: usize = 236;
/// RFC 2131, section 3.
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The shortest message that every relay takes (RFC 951, section 3).
const SHORTEST: usize = 300;
/// Asks the server to broadcast its answer (RFC 2131, figure 2): the device has no address to send it to.
const BROADCAST: u16 = 0x8000;

/// Options (RFC 2132; 121: RFC 3442).
mod option {
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTERS: u8 = 3;
    pub(super) const NAME_SERVERS: u8 = 6;
    pub(super) const HOSTNAME: u8 = 12;
    pub(super) const TIME_SERVERS: u8 = 42;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const WANTED: u8 = 55;
    pub(super) const LARGEST: u8 = 57;
    pub(super) const RENEWAL: u8 = 58;
    pub(super) const REBINDING: u8 = 59;
    pub(super) const END: u8 = 255;
}

/// A question of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which servers are there?
    Discover,
    /// The address that a server offered.
    Select {
        /// The address.
        address: Ipv4Addr,
        /// The server's number.
        server: Ipv4Addr,
    },
    /// An address of an earlier lease, after the link was lost.
    Reboot(Ipv4Addr),
    /// More time for the address that the device has.
    Renew(Ipv4Addr),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker<'a> {
    /// The number of the exchange.
    pub(crate) transaction: u32,
    /// The device's hardware address.
    pub(crate) hardware: [u8; 6],
    /// The machine's name.
    pub(crate) hostname: &'a str,
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An address that can be had.
    Offer(Lease),
    /// The lease of an address.
    Acknowledged(Lease),
    /// The address cannot be had.
    Refused,
}

/// An address for a time, and the network around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The address.
    pub(crate) address: Ipv4Addr,
    /// The length of its network's prefix.
    pub(crate) prefix: u8,
    /// The server's number.
    pub(crate) server: Ipv4Addr,
    /// The next hop of the default route.
    pub(crate) router: Option<Ipv4Addr>,
    /// Name servers.
    pub(crate) name_servers: Vec<Ipv4Addr>,
    /// Time servers.
    pub(crate) time_servers: Vec<Ipv4Addr>,
    /// How long the lease lasts.
    pub(crate) time: Duration,
    /// When to ask the server for more time.
    pub(crate) renewal: Duration,
    /// When to ask every server for more time.
    pub(crate) rebinding: Duration,
}

impl Question {
    /// The message.
    pub(crate) fn encode(self, asker: &Asker<'_>) -> Vec<u8> {
        let (kind, own) = match self {
            Question::Discover => (1, None),
            Question::Select { .. } | Question::Reboot(_) => (3, None),
            Question::Renew(address) => (3, Some(address)),
        };
        let flags = if own.is_some() { 0 } else { BROADCAST };
        // A request over Ethernet with hardware addresses of six bytes.
        let mut message = vec![1, 1, 6, 0];
        message.extend_from_slice(&asker.transaction.to_be_bytes());
        message.extend_from_slice(&[0, 0]);
        message.extend_from_slice(&flags.to_be_bytes());
        message.extend_from_slice(&own.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        // The addresses of answers: your, next server's, relay's.
        message.resize(message.len() + 12, 0);
        message.extend_from_slice(&asker.hardware);
        message.resize(FIXED, 0);
        message.extend_from_slice(&COOKIE);
        message.extend_from_slice(&[option::KIND, 1, kind]);
        match self {
            Question::Select { address, server } => {
                put(&mut message, option::REQUESTED, &address.octets());
                put(&mut message, option::SERVER, &server.octets());
            }
            Question::Reboot(address) => put(&mut message, option::REQUESTED, &address.octets()),
            Question::Discover | Question::Renew(_) => {}
        }
        put(&mut message, option::HOSTNAME, asker.hostname.as_bytes());
        put(&mut message, option::LARGEST, &1500_u16.to_be_bytes());
        let wanted = [
            option::MASK,
            option::ROUTERS,
            option::NAME_SERVERS,
            option::TIME_SERVERS,
            option::RENEWAL,
            option::REBINDING,
        ];
        put(&mut message, option::WANTED, &wanted);
        message.push(option::END);
        message.resize(message.len().max(SHORTEST), 0);
        message
    }
}

/// Adds an option of 1 to 255 bytes; none if there are more or fewer.
fn put(message: &mut Vec<u8>, option: u8, value: &[u8]) {
    if let Ok(length @ 1..) = u8::try_from(value.len()) {
        message.extend_from_slice(&[option, length]);
        message.extend_from_slice(value);
    }
}

impl Answer {
    /// The answer to a question of `asker`; `None` for everything else.
    pub(crate) fn decode(message: &[u8], asker: &Asker<'_>) -> Option<Self> {
        let (fixed, rest) = message.split_at_checked(FIXED)?;
        let options = rest.strip_prefix(&COOKIE)?;
        let is_answer = fixed.starts_with(&[2, 1, 6]) && fixed.get(4..8)? == asker.transaction.to_be_bytes();
        if !is_answer || fixed.get(28..34)? != asker.hardware {
            return None;
        }
        let address = Ipv4Addr::from(<[u8; 4]>::try_from(fixed.get(16..20)?).ok()?);
        match value(options, option::KIND)? {
            [2] => lease(address, options).map(Answer::Offer),
            [5] => lease(address, options).map(Answer::Acknowledged),
            [6] => Some(Answer::Refused),
            _ => None,
        }
    }
}

/// The lease of an answer's options. `None` without a server's number, or of an address that no device can have.
fn lease(address: Ipv4Addr, options: &[u8]) -> Option<Lease> {
    let addresses = |option| {
        let (all, _) = value(options, option).unwrap_or_default().as_chunks::<4>();
        all.iter().map(|octets| Ipv4Addr::from(*octets)).collect::<Vec<_>>()
    };
    let seconds = |option| {
        let value = value(options, option)?.try_into().ok()?;
        Some(Duration::from_secs(u32::from_be_bytes(value).into()))
    };
    if address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback() {
        return None;
    }
    let mask = addresses(option::MASK).first().map_or(u32::MAX, |mask| mask.to_bits());
    // RFC 2131, section 3.3: the largest number is for ever, which no clock here reaches.
    let time = seconds(option::LEASE)?.max(Duration::from_secs(1));
    Some(Lease {
        address,
        prefix: mask.leading_ones() as u8,
        server: *addresses(option::SERVER).first()?,
        router: addresses(option::ROUTERS).first().copied(),
        name_servers: addresses(option::NAME_SERVERS),
        time_servers: addresses(option::TIME_SERVERS),
        // RFC 2131, section 4.4.5.
        renewal: seconds(option::RENEWAL).filter(|at| *at < time).unwrap_or(time / 2),
        rebinding: seconds(option::REBINDING).filter(|at| *at < time).unwrap_or(time / 8 * 7),
        time,
    })
}

/// The value of the first option of that number.
fn value(options: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = options;
    loop {
        let (&option, behind) = rest.split_first()?;
        if option == 0 {
            rest = behind;
            continue;
        }
        if option == option::END {
            return None;
        }
        let (&length, behind) = behind.split_first()?;
        let (value, behind) = behind.split_at_checked(length.into())?;
        if option == wanted {
            return Some(value);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Asker<'static> = Asker { transaction: 7, hardware: [2, 0, 0, 0, 0, 9], hostname: "gate" };

    /// A server's answer to `question` with these options.
    fn answer(question: &[u8], options: &[u8]) -> Vec<u8> {
        let mut message = question[..FIXED].to_vec();
        message[0] = 2;
        message[16..20].copy_from_slice(&[192, 0, 2, 77]);
        message.extend_from_slice(&COOKIE);
        message.extend_from_slice(options);
        message.push(option::END);
        message
    }

    const OFFER: [u8; 40] = [
        53, 1, 2, 0, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 0, 80, 1, 4, 255, 255, 255, 0, 3, 4, 192, 0, 2, 254,
        6, 8, 192, 0, 2, 53, 192, 0, 2, 54, 0, 0,
    ];

    #[test]
    fn a_lease_is_read_with_its_network_and_times() {
        let question = Question::Discover.encode(&ASKER);
        assert_eq!(question.len(), SHORTEST);
        let Some(Answer::Offer(lease)) = Answer::decode(&answer(&question, &OFFER), &ASKER) else { panic!() };
        assert_eq!((lease.address, lease.prefix), (Ipv4Addr::new(192, 0, 2, 77), 24));
        assert_eq!(lease.server, Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(lease.router, Some(Ipv4Addr::new(192, 0, 2, 254)));
        assert_eq!(lease.name_servers.len(), 2);
        assert_eq!([lease.time, lease.renewal, lease.rebinding].map(|time| time.as_secs()), [80, 40, 70]);
    }

    #[test]
    fn questions_name_the_address_where_the_state_of_the_client_has_it() {
        let address = Ipv4Addr::new(192, 0, 2, 77);
        let select = Question::Select { address, server: Ipv4Addr::new(192, 0, 2, 1) }.encode(&ASKER);
        let reboot = Question::Reboot(address).encode(&ASKER);
        let renew = Question::Renew(address).encode(&ASKER);
        let options = |message: &[u8]| message[FIXED + COOKIE.len()..].to_vec();
        for (message, requested, server, own) in
            [(&select, true, true, false), (&reboot, true, false, false), (&renew, false, false, true)]
        {
            assert_eq!(value(&options(message), option::REQUESTED).is_some(), requested);
            assert_eq!(value(&options(message), option::SERVER).is_some(), server);
            assert_eq!(message[12..16] == address.octets(), own);
            // Only a device without an address wants the answer by broadcast.
            assert_eq!(message[10] & 0x80 != 0, !own);
        }
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_passed_over() {
        let question = Question::Discover.encode(&ASKER);
        let whole = answer(&question, &OFFER);
        let other = Asker { transaction: 8, ..ASKER };
        assert_eq!(Answer::decode(&whole, &other), None);
        assert_eq!(Answer::decode(&whole, &Asker { hardware: [3; 6], ..ASKER }), None);
        assert_eq!(Answer::decode(&question, &ASKER), None);
        for length in 0..whole.len() - 3 {
            // Cut short, the answer has fewer options at most.
            let _ = Answer::decode(&whole[..length], &ASKER);
        }
        assert_eq!(Answer::decode(&answer(&question, &[53, 1, 6]), &ASKER), Some(Answer::Refused));
        assert_eq!(
            Answer::decode(&answer(&question, &[53, 1, 5]), &ASKER),
            None,
            "a lease has a server and a time"
        );
    }
}
