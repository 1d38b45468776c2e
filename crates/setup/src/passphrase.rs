//! Passwords that adit makes.

use zeroize::Zeroizing;

use crate::{SetupError, random};

/// Letters and digits that people do not take for each other: five bits each.
const LETTERS: [u8; 32] = *b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of a password: 100 bits, as each attempt at a server and at a file is one of few.
const LENGTH: usize = 20;
/// Characters between two hyphens.
const GROUP: usize = 5;

/// A new password: `xxxxx-xxxxx-xxxxx-xxxxx`.
///
/// # Errors
/// When the system gives no random numbers.
pub(crate) fn passphrase() -> Result<Zeroizing<String>, SetupError> {
    let bytes = random::<LENGTH>()?;
    let mut text = Zeroizing::new(String::with_capacity(LENGTH + LENGTH / GROUP));
    for (place, byte) in bytes.iter().enumerate() {
        if place > 0 && place % GROUP == 0 {
            text.push('-');
        }
        text.push(char::from(LETTERS[usize::from(byte % 32)]));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_have_four_groups_and_differ() {
        let (one, other) = (passphrase().unwrap(), passphrase().unwrap());
        assert_ne!(*one, *other);
        assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [GROUP; 4]);
        assert!(one.bytes().all(|byte| byte == b'-' || LETTERS.contains(&byte)), "{}", *one);
    }
}
