/// What a client does when its username and password are refused (`auth-retry`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthRetry {
    /// It ends.
    #[default]
    None,
    /// It tries again with the same.
    NoInteract,
    /// It asks for others.
    Interact,
}

/// A question of the client's own configuration, whose answer goes with the password (`static-challenge`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticChallenge {
    /// What to ask.
    pub text: String,
    /// Whether the answer may be seen while it is typed.
    pub echo: bool,
    /// The answer is put behind the password as it is (`concat`). Otherwise both are packed as `SCRV1`.
    pub concat: bool,
}
