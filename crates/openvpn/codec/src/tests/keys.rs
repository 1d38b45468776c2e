//! Keys that fit their cipher, and those that do not.

use adit_core::{Cipher, DataEvent, PeerId, ReplayWindow};
use adit_dataplane::DropReason;
use adit_dataplane::aead::aws_lc;
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::udp;
use adit_openvpn::codec::session_id;

use crate::testing::{client, codec, key, static_key, v2, with_epochs};
use crate::{opener, sealer, session_with};

const CIPHER: Cipher = Cipher::Aes256Gcm;

#[test]
fn keys_of_any_other_length_are_refused() {
    let takes = |framing, cipher, key: &_| {
        let takes = sealer(aws_lc, framing, cipher, key).is_ok();
        assert_eq!(opener(aws_lc, framing, cipher, key, ReplayWindow::default()).is_ok(), takes);
        takes
    };
    for cipher in Cipher::ALL {
        let more = match cipher.is_aead() {
            // The secret of the first epoch.
            true => (with_epochs(v2(1, 0)), 32),
            false => (static_key(1), cipher.key_len()),
        };
        for (framing, fits) in [(v2(1, 0), cipher.key_len()), more] {
            for length in 0..=72 {
                let mut key = key(cipher, 1);
                key.key = vec![1; length].into();
                assert_eq!(takes(framing, cipher, &key), length == fits, "{cipher}, {length} bytes");
            }
        }
        for length in 0..=72 {
            let mut key = key(cipher, 1);
            // HMAC-SHA256.
            key.mac.iter_mut().for_each(|mac| mac.key = vec![1; length].into());
            let fits = cipher.is_aead() || length == 32;
            assert_eq!(takes(v2(1, 0), cipher, &key), fits, "{cipher}, {length} bytes for the HMAC");
        }
    }
}

#[test]
fn keys_that_do_not_fit_install_nothing() {
    let mut end = client(1, udp(9), CIPHER);
    let codec = codec(v2(1, 1), CIPHER, key(Cipher::Aes128Gcm, 1), key(CIPHER, 1));
    assert!(session_with(aws_lc, &codec).is_err());
    end.apply(DataEvent::Activate { peer: PeerId::SERVER, session: session_id(PeerId::SERVER, 1) });
    assert_eq!(end.dropped_out(DropReason::NoSession), 1);
    let sealed = end.send_one(&Flow::default().udp(b"x"));
    assert_eq!(sealed[0] & 7, 0, "the session before goes on");
}
