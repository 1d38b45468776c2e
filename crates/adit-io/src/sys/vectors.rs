//! The one way from ordinary code to code for instructions that not every processor has.

use adit_chacha::{Key, Message};

/// This processor has AVX2, and AVX-512 F and IFMA. A value is there only after it was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors(());

impl Vectors {
    /// `None` if it lacks any of them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma");
        found.then_some(Vectors(()))
    }

    /// `None`: only x86-64 has them.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// Encrypts the messages and writes their tags.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn seal(self, key: &Key, messages: &mut [Message<'_>]) {
        // SAFETY: the function is safe but for the instructions that it is compiled to: AVX2, AVX-512 F and IFMA. `self`
        // is made in `detect` alone, after the processor said that it has them, and the operating system that it keeps
        // their registers, which is part of the question.
        unsafe { adit_chacha::avx512::seal(key, messages) }
    }

    /// Opens at most [`adit_chacha::BATCH`] messages; the bits of those that are authentic.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn open(self, key: &Key, messages: &mut [Message<'_>]) -> u32 {
        // SAFETY: as in `seal`.
        unsafe { adit_chacha::avx512::open(key, messages) }
    }

    /// Is never called, as there is no value.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn seal(self, _: &Key, _: &mut [Message<'_>]) {}

    /// Is never called, as there is no value.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn open(self, _: &Key, _: &mut [Message<'_>]) -> u32 {
        0
    }
}
