//! Tokens that a server gives its clients in place of their passwords.
//!
//! `SESS_ID_AT_` and base64 of `login id (12) | first time (8) | this time (8) | HMAC-SHA256 (32)`, the HMAC over the
//! username and all before it. Source: OpenVPN auth_token.c, which calls the login's id a session id.

use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::access::TokenParams;

const PREFIX: &str = "SESS_ID_AT_";
pub(crate) const LOGIN_ID_LEN: usize = 12;
const SIGNED_LEN: usize = LOGIN_ID_LEN + 8 + 8;
const DATA_LEN: usize = SIGNED_LEN + 32;
/// Three bytes make four letters; the length is a multiple of three.
const TEXT_LEN: usize = PREFIX.len() + DATA_LEN / 3 * 4;

/// Whether a password is of a token's form. A shorter one with the same beginning is a password (CVE-2026-13122).
pub(crate) fn is_token(password: &str) -> bool {
    password.len() == TEXT_LEN && password.starts_with(PREFIX)
}

/// The login that a client's tokens stand for: the part that all of them share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) id: [u8; LOGIN_ID_LEN],
    /// When the client authenticated itself first, in seconds since 1970.
    pub(crate) since: u64,
}

/// The result of verifying a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) login: Login,
    pub(crate) expired: bool,
    /// The token was made for no name: the username that came with it is not to be trusted.
    pub(crate) nameless: bool,
}

impl Login {
    /// A token for that user at that time (in seconds since 1970).
    pub(crate) fn token(&self, params: &TokenParams, username: &str, now: u64) -> Zeroizing<String> {
        let mut data = Zeroizing::new(Vec::with_capacity(DATA_LEN));
        data.extend_from_slice(&self.id);
        data.extend_from_slice(&self.since.to_be_bytes());
        data.extend_from_slice(&now.to_be_bytes());
        let tag = tag(params, username, &data);
        data.extend_from_slice(&tag);
        let mut text = Zeroizing::new(String::with_capacity(TEXT_LEN));
        text.push_str(PREFIX);
        text.push_str(&Zeroizing::new(Base64::encode_string(&data)));
        text
    }
}

fn tag(params: &TokenParams, username: &str, data: &[u8]) -> [u8; 32] {
    let mut mac = match Hmac::<Sha256>::new_from_slice(params.secret.as_slice()) {
        Ok(mac) => mac,
        // HMAC takes keys of any length.
        Err(_) => return [0; 32],
    };
    mac.update(username.as_bytes());
    mac.update(data);
    mac.finalize().into_bytes().into()
}

/// Judges a token that came with that username. `None`: it is not one of ours.
pub(crate) fn verify(params: &TokenParams, username: &str, token: &str, now: u64) -> Option<Verified> {
    let text = token.strip_prefix(PREFIX).filter(|_| is_token(token))?;
    let data = Zeroizing::new(Base64::decode_vec(text).ok()?);
    let (signed, given) = data.split_at_checked(SIGNED_LEN)?;
    let fits = |username| bool::from(tag(params, username, signed).as_slice().ct_eq(given));
    let nameless = !fits(username);
    if nameless && !fits("") {
        return None;
    }
    let (id, times) = signed.split_first_chunk::<LOGIN_ID_LEN>()?;
    let (since, times) = times.split_first_chunk::<8>()?;
    let (made, _) = times.split_first_chunk::<8>()?;
    let (since, made) = (u64::from_be_bytes(*since), u64::from_be_bytes(*made));
    let until = made.saturating_add(twice(params.renewal));
    let over = params.lifetime.is_some_and(|lifetime| now > since.saturating_add(lifetime.as_secs()));
    let expired = now < made || now >= until || made < since || over;
    Some(Verified { login: Login { id: *id, since }, expired, nameless })
}

fn twice(time: Duration) -> u64 {
    time.as_secs().saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> TokenParams {
        TokenParams {
            lifetime: Some(Duration::from_secs(3000)),
            renewal: Duration::from_secs(120),
            secret: Zeroizing::new([0; 32]),
            external: false,
        }
    }

    const USER: &str = "test user name";

    fn login(since: u64) -> Login {
        let mut id = [0; LOGIN_ID_LEN];
        Base64::decode("0123456789abcdef", &mut id).unwrap();
        Login { id, since }
    }

    // `now0key0` of OpenVPN's tests/unit_tests/openvpn/test_auth_token.c.
    #[test]
    fn the_token_of_openvpn() {
        let token = login(0).token(&params(), USER, 0);
        assert_eq!(
            *token,
            "SESS_ID_AT_0123456789abcdefAAAAAAAAAAAAAAAAAAAAAE5JsQJOVfo8jnI3RL3tBaR5NkE4yPfcylFUHmHSc5Bu"
        );
        let verified = verify(&params(), USER, &token, 0).unwrap();
        assert_eq!(verified, Verified { login: login(0), expired: false, nameless: false });
    }

    // The times of the same file's `auth_token_test_timeout`.
    #[test]
    fn tokens_run_out() {
        let start = 100_000;
        let token = login(start).token(&params(), USER, start);
        let expired = |now| verify(&params(), USER, &token, now).unwrap().expired;
        assert!(!expired(start) && !expired(start + 220));
        assert!(expired(start - 100) && expired(start + 260) && expired(start + 3001));
        let renewed = login(start).token(&params(), USER, start + 2990);
        assert!(!verify(&params(), USER, &renewed, start + 3000).unwrap().expired);
        assert!(verify(&params(), USER, &renewed, start + 3001).unwrap().expired);
        let endless = TokenParams { lifetime: None, ..params() };
        assert!(!verify(&endless, USER, &renewed, start + 3001).unwrap().expired);
        let early = login(start).token(&params(), USER, start - 1);
        assert!(verify(&params(), USER, &early, start).unwrap().expired, "made before its login");
    }

    #[test]
    fn only_our_own_tokens_for_that_user_count() {
        let token = login(0).token(&params(), USER, 0);
        let other = TokenParams { secret: Zeroizing::new([1; 32]), ..params() };
        assert_eq!(verify(&other, USER, &token, 0), None);
        assert_eq!(verify(&params(), "mallory", &token, 0), None);
        let mut forged = token.to_string();
        forged.replace_range(20..21, "X");
        assert_eq!(verify(&params(), USER, &forged, 0), None);
        let nameless = login(0).token(&params(), "", 0);
        assert!(verify(&params(), USER, &nameless, 0).unwrap().nameless);
    }

    #[test]
    fn cve_2026_13122_a_short_token_is_a_password() {
        let token = login(0).token(&params(), USER, 0);
        for length in 0..token.len() {
            assert!(!is_token(&token[..length]));
            assert_eq!(verify(&params(), USER, &token[..length], 0), None);
        }
        assert!(is_token(&token) && !is_token(&format!("{}x", *token)));
    }
}
