//! Files as they are found: of manuals, of generators, of questions in forums, written anew. Those that are refused have all their
//! problems here, by their lines.

use super::world::World;

const CERTIFICATE: &str = include_str!("ca.pem");

/// The part of `mesh-by-include.conf` that stands in a file of its own.
const DEFAULTS: &str =
    "site {\n  version = 2\n  local { auth = psk\n id = hub.example.org }\n  remote { auth = psk }\n}\n";

macro_rules! files {
    ($($name:literal: [$($problem:literal),* $(,)?]),* $(,)?) => {
        [$(($name, include_str!(concat!("wild/", $name, ".conf")), &[$($problem),*] as &[&str])),*]
    };
}

#[test]
fn files_of_others_are_read_or_refused_with_their_lines() {
    let files = files!(
        "psk-net-to-net": [],
        "certificates-net-to-net": [],
        "road-warrior-client": [],
        "road-warrior-server-pools": [],
        "aws-two-tunnels": [],
        "azure-route-based": [],
        "azure-modp1024": ["4: `proposals`: `modp1024` is not supported", "7: `esp_proposals`: `3des` is not supported"],
        "vyos": [],
        "pfsense": ["9: `mode`: `pass` is refused"],
        "pfsense-without-bypass": [],
        "opnsense": [],
        "eap-mschapv2-server": [],
        "ikev1-fritzbox": [
            "3: `version`: `1` is refused: adit has no IKEv1",
            "4: `aggressive`: `yes` is refused: aggressive mode is a part of IKEv1",
            "9: `auth`: `xauth`: XAuth is a part of IKEv1",
        ],
        "transport-l2tp": ["7: `mode`: `transport` is refused: adit has the mode tunnel alone"],
        "ah-and-ipcomp": ["5: `ah_proposals`: it is refused: adit has no AH", "7: `ipcomp`: `yes` is refused"],
        "protocols-and-ports": [],
        "ipv6-and-ranges": [],
        "post-quantum": [],
        "multiple-authentication": [],
        "authorities-with-uris": [],
        "windows-line-ends": [],
        "semicolons": [
            "3: `remote_addrs`: `192.0.2.1;` is not an address",
            "4: `mobike`: `no;` is not yes or no; a `;` ends no line",
            "5: `auth`: `psk;` is no method",
        ],
        "one-line-rounds": ["3: `auth`: `psk id = a.example.org` is no method"],
        "ipsec-conf": ["1: `config` is neither a key with `=` nor a section with `{`"],
        "old-names": [
            "3: `remote`: there is no such key here",
            "4: `reauth`: there is no such key here",
            "5: `leftcert`: there is no such key here",
            "7: `remote_subnet`: there is no such key here",
            "8: `dpd_action`: `hold` is not none, trap, start",
            "9: `lifetime`: there is no such key here; `life_time` is one",
        ],
        "marks": ["6: `mark_in`: `42` is refused", "7: `mark_out`: `42` is refused"],
        "unclosed": ["1: the section that begins here is not closed"],
        "regular-expression": ["4: `id`: `fqdn:^vpn[0-9]+\\.example\\.org$` is a regular expression"],
        "mobike-roaming-server": [],
        "mesh-by-include": [],
        "dhcp-pool": ["3: `pools`: there is no section `dhcp` in `pools`"],
    );
    assert!(files.len() >= 30, "{}", files.len());
    let world = World::default()
        .with("x509/moon.pem", CERTIFICATE)
        .with("x509ca/ca.pem", CERTIFICATE)
        .with("defaults.conf", DEFAULTS);
    for (name, text, expected) in files {
        let problems: Vec<String> = match world.parse(text) {
            Ok(_) => Vec::new(),
            Err(failure) => failure.problems.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(problems.len(), expected.len(), "{name}: {problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(
                problem.starts_with(&format!("/etc/swanctl/swanctl.conf:{expected}")),
                "{name}: {problem}"
            );
        }
    }
}
