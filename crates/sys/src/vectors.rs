//! The one way from ordinary code to code for instructions that not every processor has.

use adit_chacha::{Key, Message};
use adit_checksum::WordSum;
use zeroize::zeroize_stack;

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Instructions for batches of messages that this processor has. A value is there only after it was asked.
#[derive(Clone, Copy, Debug)]
pub struct Vectors(Kind);

/// Bytes of the stack that are wiped after a batch: as many as its functions take, and more; without optimization they take more.
/// The compiler puts keystream and keys of Poly1305 there that have no place in registers. A test looks for them (`aead/tests.rs`).
const STACK: usize = if cfg!(debug_assertions) { 32 } else { 12 } * 1024;

/// The instructions that a value of [`Vectors`] stands for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// AVX2, and AVX-512 F and IFMA.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
}

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
impl Vectors {
    /// All that this processor has, the fastest first.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> impl Iterator<Item = Self> {
        let has_avx512 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma");
        let avx2 = avx2::Avx2::detect().map(Kind::Avx2);
        has_avx512.then_some(Kind::Avx512).into_iter().chain(avx2).map(Vectors)
    }

    /// None, as only x86-64 has them.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> impl Iterator<Item = Self> {
        std::iter::empty()
    }

    /// Encrypts the messages and writes their tags.
    pub fn seal(self, key: &Key, messages: &mut [Message<'_>]) {
        self.seal_batch(key, messages);
        zeroize_stack::<STACK>();
    }

    /// Opens at most [`adit_chacha::BATCH`] messages; the bits of those that are authentic.
    pub fn open(self, key: &Key, messages: &mut [Message<'_>]) -> u32 {
        let authentic = self.open_batch(key, messages);
        zeroize_stack::<STACK>();
        authentic
    }

    /// As [`Vectors::seal`], without wiping. Not inlined: its frame is to lie where `zeroize_stack` writes.
    #[inline(never)]
    fn seal_batch(self, key: &Key, messages: &mut [Message<'_>]) {
        match self.0 {
            // SAFETY: the function is safe but for the instructions that it is compiled to: AVX2, AVX-512 F and IFMA. `self`
            // is made in `detect` alone, after the processor said that it has them, and the operating system that it keeps
            // their registers, which is part of the question.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { adit_chacha::avx512::seal(key, messages) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(engine) => adit_chacha::interleaved::seal(&engine, key, messages),
        }
    }

    /// As [`Vectors::open`], without wiping. Not inlined: its frame is to lie where `zeroize_stack` writes.
    #[inline(never)]
    fn open_batch(self, key: &Key, messages: &mut [Message<'_>]) -> u32 {
        match self.0 {
            // SAFETY: as in `seal_batch`.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { adit_chacha::avx512::open(key, messages) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(engine) => adit_chacha::interleaved::open(&engine, key, messages),
        }
    }
}

/// The sums of the Internet checksum that this processor has, the fastest first; at least one.
#[cfg(target_arch = "x86_64")]
pub fn word_sums() -> impl Iterator<Item = WordSum> {
    // SAFETY: the function is safe but for the instructions that it is compiled to, those of AVX-512 F. It is given out
    // only where the processor has them and the operating system keeps their registers, which the macro below finds
    // out.
    let avx512: WordSum = |bytes| unsafe { adit_checksum::avx512(bytes) };
    // SAFETY: the function is safe but for the instructions that it is compiled to, those of AVX2, and it is
    // given out only where the macro below finds them.
    let avx2: WordSum = |bytes| unsafe { adit_checksum::avx2(bytes) };
    let known: [(bool, WordSum); 3] = [
        (is_x86_feature_detected!("avx512f"), avx512),
        (is_x86_feature_detected!("avx2"), avx2),
        (true, adit_checksum::portable),
    ];
    known.into_iter().filter(|(there, _)| *there).map(|(_, sum)| sum)
}

/// The sum of the Internet checksum that all processors have.
#[cfg(not(target_arch = "x86_64"))]
pub fn word_sums() -> impl Iterator<Item = WordSum> {
    std::iter::once(adit_checksum::portable as WordSum)
}
