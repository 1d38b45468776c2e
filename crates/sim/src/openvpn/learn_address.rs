//! The arguments of `learn-address` must be true: an address is added before it is deleted, and belongs to a client that
//! is up.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::violation::Violation;

/// The addresses that the script was given, each with the name of its client.
#[derive(Debug, Default)]
pub(crate) struct LearnedAddresses(pub(crate) BTreeMap<String, String>);

impl LearnedAddresses {
    /// Checks and notes the arguments of a run of the script.
    pub(crate) fn record(&mut self, argv: &[String]) -> Result<(), Violation> {
        let holds = match argv {
            [_, how, network, name] if how == "add" => self.0.insert(network.clone(), name.clone()).is_none(),
            [_, how, network, name] if how == "update" => {
                self.0.insert(network.clone(), name.clone()).is_some()
            }
            [_, how, network] if how == "delete" => self.0.remove(network).is_some(),
            _ => false,
        };
        if holds {
            return Ok(());
        }
        Err(Violation::new(format!("learn-address gets {argv:?}, and knows {:?}", self.0)))
    }

    /// The server is another process.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// The script knows the addresses of a client that is up.
    pub(crate) fn check_client(&self, name: &str, addresses: &[IpAddr]) -> Result<(), Violation> {
        let known = |address: &IpAddr| self.0.get(&address.to_string()).is_some_and(|known| known == name);
        match addresses.iter().find(|address| !known(address)) {
            Some(address) => Err(Violation::new(format!(
                "{name} is up with {address}, of which learn-address knows nothing: {:?}",
                self.0
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn addresses_come_before_they_go() {
        let mut learned = LearnedAddresses::default();
        assert!(learned.record(&words("/learn update 10.8.0.2 ann")).is_err());
        let mut consistent = LearnedAddresses::default();
        for line in ["add 10.8.0.2 ann", "update 10.8.0.2 bob", "delete 10.8.0.2", "add 10.8.0.2 ann"] {
            assert_eq!(consistent.record(&words(&format!("/learn {line}"))), Ok(()));
        }
        assert!(consistent.record(&words("/learn add 10.8.0.2 bob")).is_err());
        let mut learned = LearnedAddresses::default();
        assert!(learned.record(&words("/learn delete 10.8.0.2")).is_err());
        assert!(learned.record(&words("/learn forget 10.8.0.2")).is_err());
    }

    #[test]
    fn a_client_that_is_up_is_known_by_name() {
        let mut learned = LearnedAddresses::default();
        let address: IpAddr = "10.8.0.2".parse().unwrap();
        assert!(learned.check_client("ann", &[address]).is_err());
        learned.record(&words("/learn add 10.8.0.2 ann")).unwrap();
        assert_eq!(learned.check_client("ann", &[address]), Ok(()));
        assert!(learned.check_client("bob", &[address]).is_err());
        learned.forget();
        assert!(learned.check_client("ann", &[address]).is_err());
    }
}
