//! Datagrams of one session that are opened by one call of its AEAD.

use std::ops::Range;

use super::{Ingress, Owner, Rules, Source};
use crate::aead::BATCH;
use crate::codec::Class;
use crate::counters::Half;
use crate::receive::ReceiveBatch;

impl Ingress {
    /// Opens datagrams from the start of a range while at least two follow that are of one session, which gains from
    /// batches. Says where the rest starts.
    pub(super) fn open_batches(
        &mut self,
        source: &mut Source,
        buffer: &mut [u8],
        within: Range<usize>,
        segment: usize,
        out: &mut ReceiveBatch,
    ) -> usize {
        let mut start = within.start;
        while let Some((index, count)) = self.batch_at(source, buffer.get(start..within.end), segment) {
            let end = (start + count * segment).min(within.end);
            let Some(bytes) = buffer.get_mut(start..end) else { break };
            let Some(session) = self.peers.sessions.get_mut(index) else { break };
            let mut datagrams: [&mut [u8]; BATCH] = Default::default();
            for (place, datagram) in datagrams.iter_mut().zip(bytes.chunks_mut(segment)) {
                *place = datagram;
            }
            let plains = session.open.decrypt(datagrams.get_mut(..count).unwrap_or_default());
            for plain in plains.into_iter().take(count) {
                let datagram = start..(start + segment).min(end);
                start = datagram.end;
                if let Err(reason) = self.open_data(source, buffer, datagram, index, Some(plain), out) {
                    self.counters.drop_one(Half::Ingress, reason);
                }
            }
        }
        start
    }

    /// The session of the first datagrams, if it gains from batches, and how many of them are of it: 2 to [`BATCH`].
    fn batch_at(&mut self, source: &Source, bytes: Option<&[u8]>, segment: usize) -> Option<(u32, usize)> {
        let mut datagrams = bytes?.chunks(segment).take(BATCH);
        let classify = |rules: &[Rules], datagram: &[u8]| {
            rules.get(source.rules).map(|rules| rules.demultiplexer.classify(datagram))
        };
        let Class::Session(id) = classify(&self.rules, datagrams.next()?)? else { return None };
        let Ok(Owner::Here(index)) = self.find(id) else { return None };
        let session = self.peers.sessions.get_mut(index)?;
        let is_alive = session.expires.is_none_or(|expires| self.now < expires);
        if !is_alive || !session.open.gains_from_batches() {
            return None;
        }
        let same = |datagram: &&[u8]| classify(&self.rules, datagram) == Some(Class::Session(id));
        let more = datagrams.take_while(same).count();
        (more > 0).then_some((index, 1 + more))
    }
}
