//! Sessions that have been used much, for tests.

use adit_core::{Cipher, ReplayWindow};

use super::{Framing, Key, aead, epoch, is_keepalive};
use crate::aead::aws_lc;
use crate::codec::testing::{key, v2};
use crate::codec::{CountingSealer, Sealer, UsageLimits, WindowedOpener};
use crate::{OpenSession, OuterPolicy, SealSession};

const CIPHER: Cipher = Cipher::Aes256Gcm;

/// Seals `v2(1, 0)` with key 1, as if as many packets and blocks had been sealed.
pub(crate) fn worn_sealer(counter: u64, used: u64) -> SealSession {
    let (Framing::Data(data), key) = (v2(1, 0), key(CIPHER, 1)) else { panic!("no epochs") };
    let cipher = aws_lc(CIPHER, &key.key).expect("the key fits");
    let limits = UsageLimits::of(CIPHER, 1, aead::COUNTER_WARN, aead::COUNTER_MAX);
    let mut sealer = CountingSealer::new(aead::Sealer::new(data, cipher, key.implicit_iv), limits);
    sealer.wear(counter, used);
    let codec: Box<dyn Sealer> = Box::new(sealer);
    SealSession { codec, is_keepalive, expires: None, outer: OuterPolicy::default() }
}

/// Opens what comes with `v2(1, 0)` and key 1, as if as many tags had failed.
pub(crate) fn worn_opener(failed_tags: u64) -> OpenSession {
    let (Framing::Data(data), key) = (v2(1, 0), key(CIPHER, 1)) else { panic!("no epochs") };
    let cipher = aws_lc(CIPHER, &key.key).expect("the key fits");
    let opener = aead::Opener::new(data, cipher, key.implicit_iv);
    let mut opener = WindowedOpener::new(opener, ReplayWindow::default());
    opener.wear(failed_tags);
    OpenSession { codec: Box::new(opener), is_keepalive, expires: None, outer: OuterPolicy::default() }
}

/// Seals in that epoch, with a secret of ones.
pub(crate) fn sealer_in_epoch(framing: Framing, epoch: u16) -> SealSession {
    let Framing::Epoch(data) = framing else { panic!("no epochs") };
    let mut sealer =
        epoch::Sealer::new(data, CIPHER, &Key::aead(vec![1; 32].into(), [0; 8])).expect("the key fits");
    sealer.wear(epoch, 1, 0);
    let codec: Box<dyn Sealer> = Box::new(sealer);
    SealSession { codec, is_keepalive, expires: None, outer: OuterPolicy::default() }
}
