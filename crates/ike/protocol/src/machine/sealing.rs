//! The protection of messages, in fragments of a length that the path carries (RFC 7383).

use zeroize::Zeroizing;

use super::context::Context;
use super::sa::IkeSa;
use crate::fragment::seal_message;
use crate::wire::{Header, Message, Payload, encode_chain};

/// The longest datagram in bytes to a peer that has not authenticated: as much as each link of IPv6 takes.
const USUAL_DATAGRAM: usize = 1280;
/// The longest datagram in bytes where longer ones seem to be lost: it is within the 576 bytes that each host takes over IPv4 (RFC 7383
/// section 2.5.1), with the headers of IPv4 (20) and UDP (8), and the marker (4).
const SHORT_DATAGRAM: usize = 544;
/// A message in fragments that goes without an answer so many times is cut into shorter ones.
const LOST_TIMES: u32 = 2;

impl IkeSa {
    /// The datagrams of a message. `None`: the keys are used up.
    pub(crate) fn seal(
        &mut self,
        cx: &mut Context<'_>,
        header: &Header,
        payloads: &[Payload],
    ) -> Option<Vec<Vec<u8>>> {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let longest = connection.map_or(Some(USUAL_DATAGRAM), |connection| connection.longest_datagram);
        let longest = longest.filter(|_| self.peer_takes_fragments);
        let longest =
            longest.map(|longest| if self.is_path_narrow { longest.min(SHORT_DATAGRAM) } else { longest });
        let channel = self.channel.as_mut()?;
        let mut plain = Zeroizing::new(Vec::new());
        let first = encode_chain(payloads, &mut plain);
        seal_message(&mut channel.seal, header, first, &plain, longest, &mut cx.fill())
    }

    /// The fragments of this end's message in shorter ones, which all messages have from then on, if the message was sent so many times
    /// again. `None`: it goes as it went before.
    pub(crate) fn cut_shorter(
        &mut self,
        cx: &mut Context<'_>,
        datagrams: &[Vec<u8>],
        times: u32,
    ) -> Option<Vec<Vec<u8>>> {
        let is_long = datagrams.len() > 1 && datagrams.iter().any(|datagram| datagram.len() > SHORT_DATAGRAM);
        let channel = self.channel.as_mut().filter(|_| is_long && times == LOST_TIMES)?;
        let (mut beginning, mut plain) = (None, Zeroizing::new(Vec::new()));
        for datagram in datagrams {
            let message = Message::decode(datagram).ok()?;
            let sealed = message.sealed?;
            plain.extend_from_slice(&channel.seal.open(datagram, &sealed).ok()?);
            beginning.get_or_insert((message.header, sealed.first));
        }
        let (header, first) = beginning?;
        self.is_path_narrow = true;
        let cut =
            seal_message(&mut channel.seal, &header, first, &plain, Some(SHORT_DATAGRAM), &mut cx.fill())?;
        // Of as many fragments, the receiver would put those of both cuts together (RFC 7383 section 2.5.1).
        (cut.len() > datagrams.len()).then_some(cut)
    }
}
