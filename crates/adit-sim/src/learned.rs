//! What `learn-address` is told must be true: each address comes before it goes, and belongs to whoever is up.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::end::Machine;
use crate::identity::client_name;
use crate::model::{SERVER, Violation};
use crate::world::World;

/// The addresses that a script was told of, each with the name of who has it.
#[derive(Debug, Default)]
pub(crate) struct Learned(BTreeMap<String, String>);

impl Learned {
    /// The script is run with these words.
    pub(crate) fn told(&mut self, argv: &[String]) -> Result<(), Violation> {
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
        Err(Violation::new(format!("learn-address is told {argv:?}, and knows {:?}", self.0)))
    }

    /// The server is another.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Who is up was told with its addresses.
    fn check_knows(&self, name: &str, addresses: &[IpAddr]) -> Result<(), Violation> {
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

impl World {
    /// The script knows who is up, and nobody else.
    pub(crate) fn check_learned(&self) -> Result<(), Violation> {
        let Some(Machine::Server(server)) = self.ends[SERVER].as_ref().map(|end| &end.machine) else {
            return Ok(());
        };
        if !self.scenario.learns {
            return Ok(());
        }
        let mut up = Vec::new();
        for (index, tunnel) in self.model.tunnels.iter().enumerate() {
            if let Some((_, addresses)) = &tunnel.server {
                let name = client_name(index + 1);
                self.learned.check_knows(&name, addresses)?;
                up.push(name);
            }
        }
        // Who is about to come up was told already.
        match self.learned.0.iter().find(|(_, name)| !up.contains(name)) {
            Some((network, name)) if server.half_open() == 0 => {
                Err(Violation::new(format!("learn-address still knows {network} of {name}, who is gone")))
            }
            _ => Ok(()),
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
        let mut learned = Learned::default();
        assert!(learned.told(&words("/learn update 10.8.0.2 ann")).is_err());
        let mut learned_well = Learned::default();
        for line in ["add 10.8.0.2 ann", "update 10.8.0.2 bob", "delete 10.8.0.2", "add 10.8.0.2 ann"] {
            assert_eq!(learned_well.told(&words(&format!("/learn {line}"))), Ok(()));
        }
        assert!(learned_well.told(&words("/learn add 10.8.0.2 bob")).is_err());
        let mut learned = Learned::default();
        assert!(learned.told(&words("/learn delete 10.8.0.2")).is_err());
        assert!(learned.told(&words("/learn forget 10.8.0.2")).is_err());
    }

    #[test]
    fn who_is_up_is_known_by_name() {
        let mut learned = Learned::default();
        let address: IpAddr = "10.8.0.2".parse().unwrap();
        assert!(learned.check_knows("ann", &[address]).is_err());
        learned.told(&words("/learn add 10.8.0.2 ann")).unwrap();
        assert_eq!(learned.check_knows("ann", &[address]), Ok(()));
        assert!(learned.check_knows("bob", &[address]).is_err());
        learned.forget();
        assert!(learned.check_knows("ann", &[address]).is_err());
    }
}
