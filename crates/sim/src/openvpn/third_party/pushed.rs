use std::time::Duration;

use adit_core::{Cipher, IpNet, Ipv4Net, Ipv6Net};

/// The options that the server pushed.
#[derive(Clone, Debug, Default)]
pub(super) struct Pushed {
    pub(super) addresses: Vec<IpNet>,
    pub(super) peer_id: u32,
    pub(super) cipher: Option<Cipher>,
    pub(super) exporter: bool,
    pub(super) dynamic: bool,
    pub(super) epochs: bool,
    pub(super) exit: bool,
    pub(super) ping: Duration,
    pub(super) ping_restart: Duration,
}

impl Pushed {
    pub(super) fn read(options: &[String]) -> Self {
        let mut pushed = Pushed {
            ping: Duration::from_secs(8),
            ping_restart: Duration::from_secs(40),
            ..Pushed::default()
        };
        for option in options {
            pushed.apply(option);
        }
        pushed.addresses.sort_by_key(|address| matches!(address, IpNet::V6(_)));
        pushed
    }

    fn apply(&mut self, option: &str) {
        let words: Vec<&str> = option.split(' ').collect();
        let seconds = |word: &str| Duration::from_secs(word.parse().unwrap_or(10));
        match words.as_slice() {
            ["ifconfig", address, mask] => {
                let network = address.parse().ok().zip(mask.parse().ok());
                let network = network.and_then(|(address, mask)| Ipv4Net::with_netmask(address, mask).ok());
                self.addresses.extend(network.map(IpNet::V4));
            }
            ["ifconfig-ipv6", network, ..] => {
                self.addresses.extend(network.parse::<Ipv6Net>().ok().map(IpNet::V6));
            }
            ["peer-id", id] => self.peer_id = id.parse().unwrap_or_default(),
            ["cipher", name] => self.cipher = Cipher::from_name(name),
            ["key-derivation", "tls-ekm"] => self.exporter = true,
            ["protocol-flags", flags @ ..] => {
                self.exporter = flags.contains(&"tls-ekm");
                self.dynamic = flags.contains(&"dyn-tls-crypt");
                self.epochs = flags.contains(&"aead-epoch");
                self.exit = flags.contains(&"cc-exit");
            }
            ["ping", time] => self.ping = seconds(time),
            ["ping-restart", time] => self.ping_restart = seconds(time),
            _ => {}
        }
    }
}
