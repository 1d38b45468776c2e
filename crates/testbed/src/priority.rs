//! The priority of processes that stand for other computers.

/// How much more of the processors than others: a thread with this niceness runs as soon as it can.
const NICENESS: i32 = -15;

/// While it is there, the calling thread, and the processes that it starts, run before all others. Clients of a server
/// that is flooded have computers of their own, and here share the processors with the server and the attackers:
/// without this the time in which clients wait for a processor would be taken for the server's.
#[derive(Debug)]
pub struct Priority {
    is_raised: bool,
}

impl Priority {
    /// Raises it. Without the right to (CAP_SYS_NICE) it stays as it is.
    pub fn raised() -> Self {
        // On Linux the niceness is a thread's (nice(2), "C library/kernel differences").
        Priority { is_raised: rustix::process::nice(NICENESS).is_ok() }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if self.is_raised {
            let _ = rustix::process::nice(-NICENESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_raised_for_a_while() {
        let niceness = || rustix::process::nice(0).unwrap();
        let before = niceness();
        let raised = Priority::raised();
        let meanwhile = niceness();
        drop(raised);
        assert!(meanwhile < before || !crate::is_root());
        assert_eq!(niceness(), before);
    }
}
