/// Why a load cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system refused a socket, a file or a wait.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A key or a certificate cannot be used.
    #[error("{what}: {why}")]
    Key {
        /// Which one.
        what: &'static str,
        /// The fault of the key.
        why: String,
    },
    /// The thread that generates the load panicked.
    #[error("the thread that generates the load panicked")]
    Panicked,
}

impl LoadError {
    /// An error of the system, with the operation that failed.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> LoadError {
        let what = what.into();
        move |source| LoadError::System { what, source }
    }

    /// Something wrong with a key or certificate.
    pub fn key<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> LoadError {
        move |error| LoadError::Key { what, why: error.to_string() }
    }
}
