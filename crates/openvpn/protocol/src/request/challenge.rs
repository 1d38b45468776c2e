use std::fmt;

use zeroize::Zeroizing;

/// A question of the server's to the person at a client, beside username and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Names the question, so that a late answer to an earlier question does not count for it.
    pub id: u32,
    /// The question's text.
    pub text: String,
    /// Whether the answer may be seen while it is typed.
    pub echo: bool,
}

/// The answer to a [`Challenge`]. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct ChallengeResponse {
    /// Which question it answers.
    pub id: u32,
    /// The answer that a person typed, or why no answer could be had.
    pub answer: Result<Zeroizing<String>, String>,
}

impl fmt::Debug for ChallengeResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = self.answer.as_ref().map(|_| "..");
        f.debug_struct("ChallengeResponse").field("id", &self.id).field("answer", &answer).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_not_shown() {
        let response = ChallengeResponse { id: 7, answer: Ok(Zeroizing::new("123456".to_owned())) };
        assert_eq!(format!("{response:?}"), "ChallengeResponse { id: 7, answer: Ok(\"..\") }");
    }
}
