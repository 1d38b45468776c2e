//! Which packets of a numbered series were answered.

/// The fate of the packets of a series, numbered from 0 in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct LossCounter {
    /// By number: whether it was answered.
    answered: Vec<bool>,
    repeated: u64,
    foreign: u64,
}

/// The sums of a [`LossCounter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets sent, or refused by the system.
    pub sent: u64,
    /// Packets that were answered.
    pub answered: u64,
    /// Answers beyond the first to a packet.
    pub repeated: u64,
    /// Answers to numbers that were not sent.
    pub foreign: u64,
    /// The longest row of packets without an answer between answered ones, or at either end.
    pub longest_gap: u64,
}

impl LossCounter {
    /// A packet is sent: its number.
    pub fn send(&mut self) -> u64 {
        self.answered.push(false);
        self.answered.len() as u64 - 1
    }

    /// An answer to the packet of that number came. True if it is the first one.
    pub fn answer(&mut self, number: u64) -> bool {
        let sent = usize::try_from(number).ok().and_then(|number| self.answered.get_mut(number));
        match sent {
            Some(answered) if !*answered => {
                *answered = true;
                return true;
            }
            Some(_) => self.repeated += 1,
            None => self.foreign += 1,
        }
        false
    }

    /// The sums up to now. A packet that is under way counts as not answered.
    pub fn losses(&self) -> Losses {
        let (mut gap, mut longest_gap, mut answered) = (0, 0, 0);
        for is_answered in &self.answered {
            gap = if *is_answered { 0 } else { gap + 1 };
            answered += u64::from(*is_answered);
            longest_gap = longest_gap.max(gap);
        }
        let (repeated, foreign) = (self.repeated, self.foreign);
        Losses { sent: self.answered.len() as u64, answered, repeated, foreign, longest_gap }
    }
}

impl Losses {
    /// Packets without an answer.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }

    /// Whether packets were sent, and each was answered once.
    pub fn is_clean(&self) -> bool {
        self.sent > 0 && self.lost() == 0 && self.repeated == 0 && self.foreign == 0
    }

    /// Both series together; the gap is the longer one.
    #[must_use]
    pub fn and(self, other: Losses) -> Losses {
        Losses {
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            repeated: self.repeated + other.repeated,
            foreign: self.foreign + other.foreign,
            longest_gap: self.longest_gap.max(other.longest_gap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(sent: u64, answers: &[u64]) -> LossCounter {
        let mut counter = LossCounter::default();
        (0..sent).for_each(|number| assert_eq!(counter.send(), number));
        for number in answers {
            counter.answer(*number);
        }
        counter
    }

    #[test]
    fn what_has_no_answer_is_lost() {
        let losses = counter(6, &[0, 3, 5]).losses();
        assert_eq!((losses.sent, losses.answered, losses.lost(), losses.longest_gap), (6, 3, 3, 2));
        assert!(!losses.is_clean());
        assert_eq!(counter(4, &[0, 1]).losses().longest_gap, 2, "at the end");
    }

    #[test]
    fn a_second_answer_does_not_replace_a_missing_one() {
        let losses = counter(2, &[0, 0]).losses();
        assert_eq!((losses.lost(), losses.repeated), (1, 1));
        let losses = counter(2, &[0, 1, 1]).losses();
        assert_eq!((losses.lost(), losses.is_clean()), (0, false));
    }

    #[test]
    fn an_answer_to_nothing_is_foreign() {
        let losses = counter(1, &[0, 1, u64::MAX]).losses();
        assert_eq!((losses.lost(), losses.foreign, losses.is_clean()), (0, 2, false));
    }

    #[test]
    fn order_does_not_matter_and_nothing_sent_is_not_clean() {
        assert!(counter(3, &[2, 0, 1]).losses().is_clean());
        assert!(!counter(0, &[]).losses().is_clean());
    }

    #[test]
    fn series_add_up() {
        let both = counter(3, &[0]).losses().and(counter(5, &[0, 1, 4, 4]).losses());
        assert_eq!((both.sent, both.lost(), both.repeated, both.longest_gap), (8, 4, 1, 2));
    }
}
