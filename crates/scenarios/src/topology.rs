//! The hosts of the scenarios, their devices and addresses, as `testing/hosts` and `testing/testing.conf` of strongSwan have them.

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) devices: &'static [Device],
    /// The next router of everything else.
    pub(crate) gateway: &'static str,
}

/// A device of a host.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: &'static str,
    pub(crate) segment: Segment,
    pub(crate) v4: &'static str,
    pub(crate) v6: &'static str,
    /// Whether it is up from the start. If not, `ifup` brings it up.
    pub(crate) is_up: bool,
}

/// A network segment: a bridge that joins devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Between the gateways.
    Outside,
    /// Behind moon.
    Moon,
    /// Behind sun.
    Sun,
}

impl Segment {
    pub(crate) const ALL: [Segment; 3] = [Segment::Outside, Segment::Moon, Segment::Sun];

    /// The name of its bridge.
    pub(crate) fn bridge(self) -> &'static str {
        match self {
            Segment::Outside => "outside",
            Segment::Moon => "moon",
            Segment::Sun => "sun",
        }
    }
}

const fn device(name: &'static str, segment: Segment, v4: &'static str, v6: &'static str) -> Device {
    Device { name, segment, v4, v6, is_up: true }
}

/// The address of the router of the outside segment, which routes nothing.
pub(crate) const ROUTER: &str = "192.168.0.254/24";

/// All hosts.
pub(crate) const HOSTS: [Host; 8] = [
    Host {
        name: "alice",
        devices: &[
            device("eth0", Segment::Moon, "10.1.0.10/16", "fec1::10/16"),
            Device { is_up: false, ..device("eth1", Segment::Outside, "192.168.0.50/24", "fec0::5/16") },
        ],
        gateway: "10.1.0.1",
    },
    Host {
        name: "venus",
        devices: &[device("eth0", Segment::Moon, "10.1.0.20/16", "fec1::20/16")],
        gateway: "10.1.0.1",
    },
    Host {
        name: "moon",
        devices: &[
            device("eth0", Segment::Outside, "192.168.0.1/24", "fec0::1/16"),
            device("eth1", Segment::Moon, "10.1.0.1/16", "fec1::1/16"),
        ],
        gateway: "192.168.0.254",
    },
    Host {
        name: "carol",
        devices: &[device("eth0", Segment::Outside, "192.168.0.100/24", "fec0::10/16")],
        gateway: "192.168.0.254",
    },
    Host {
        name: "winnetou",
        devices: &[device("eth0", Segment::Outside, "192.168.0.150/24", "fec0::15/16")],
        gateway: "192.168.0.254",
    },
    Host {
        name: "dave",
        devices: &[device("eth0", Segment::Outside, "192.168.0.200/24", "fec0::20/16")],
        gateway: "192.168.0.254",
    },
    Host {
        name: "sun",
        devices: &[
            device("eth0", Segment::Outside, "192.168.0.2/24", "fec0::2/16"),
            device("eth1", Segment::Sun, "10.2.0.1/16", "fec2::1/16"),
        ],
        gateway: "192.168.0.254",
    },
    Host {
        name: "bob",
        devices: &[device("eth0", Segment::Sun, "10.2.0.10/16", "fec2::10/16")],
        gateway: "10.2.0.1",
    },
];

/// Words in files of scenarios, and the addresses in their place. A word that is the beginning of another stands behind it.
const PLACES: [(&str, &str); 25] = [
    ("PH_IP_ALICE1", "192.168.0.50"),
    ("PH_IP_ALICE", "10.1.0.10"),
    ("PH_IP_VENUS", "10.1.0.20"),
    ("PH_IP_MOON1", "10.1.0.1"),
    ("PH_IP_MOON", "192.168.0.1"),
    ("PH_IP_CAROL1", "10.3.0.1"),
    ("PH_IP_CAROL", "192.168.0.100"),
    ("PH_IP_WINNETOU", "192.168.0.150"),
    ("PH_IP_DAVE1", "10.3.0.2"),
    ("PH_IP_DAVE", "192.168.0.200"),
    ("PH_IP_SUN1", "10.2.0.1"),
    ("PH_IP_SUN", "192.168.0.2"),
    ("PH_IP_BOB", "10.2.0.10"),
    ("PH_IP6_ALICE1", "fec0::5"),
    ("PH_IP6_ALICE", "fec1::10"),
    ("PH_IP6_VENUS", "fec1::20"),
    ("PH_IP6_MOON1", "fec1::1"),
    ("PH_IP6_MOON", "fec0::1"),
    ("PH_IP6_CAROL", "fec0::10"),
    ("PH_IP6_WINNETOU", "fec0::15"),
    ("PH_IP6_DAVE1", "fec3::2"),
    ("PH_IP6_DAVE", "fec0::20"),
    ("PH_IP6_SUN1", "fec2::1"),
    ("PH_IP6_SUN", "fec0::2"),
    ("PH_IPV6_BOB", "fec2::10"),
];

/// A text with the addresses in their places.
pub(crate) fn addressed(text: &str) -> String {
    PLACES.iter().fold(text.to_owned(), |text, (word, address)| text.replace(word, address))
}

/// The host of that name.
pub(crate) fn host(name: &str) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_word_is_replaced_first() {
        assert_eq!(addressed("from PH_IP_MOON1 to PH_IP_MOON"), "from 10.1.0.1 to 192.168.0.1");
        for (index, (word, _)) in PLACES.iter().enumerate() {
            let later = PLACES[index + 1..].iter().find(|(later, _)| later.starts_with(word));
            assert_eq!(later, None, "{word}");
        }
    }

    #[test]
    fn addresses_are_unique() {
        let mut all: Vec<&str> = HOSTS.iter().flat_map(|host| host.devices).map(|device| device.v4).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(host("moon").is_some() && host("mars").is_none());
    }
}
