//! Children that this end brings up, with equal traffic in one device: nothing tells their packets apart.

use std::collections::BTreeMap;

use adit_ike_config::{Addresses, Child, Config, TrafficSelector};

use super::device::OwnDevice;
use super::problems::Problems;

/// The device and the traffic of a child.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Traffic<'a> {
    device: Option<&'a str>,
    /// The selectors of both ends as text, sorted.
    local: Vec<String>,
    remote: Vec<String>,
}

/// Refuses children whose packets nothing tells apart. Children that wait for a peer are not among them: one of them may be in use at
/// a time.
pub(super) fn refuse(config: &Config, devices: &BTreeMap<String, OwnDevice>, problems: &mut Problems) {
    let mut known: BTreeMap<Traffic<'_>, (&str, &str)> = BTreeMap::new();
    for connection in &config.connections {
        let device = devices.get(&connection.name).map(|device| device.name.as_str());
        for child in connection.children.iter().filter(|child| begins(child) && is_fixed(child)) {
            let traffic =
                Traffic { device, local: sorted(&child.local_ts), remote: sorted(&child.remote_ts) };
            let Some((of, other)) = known.insert(traffic, (&connection.name, &child.name)) else { continue };
            let text = format!(
                "the child {} has the traffic of the child {other} of the connection {of}, and nothing tells their packets apart: give it \
                 other `local_ts` or `remote_ts`, or each connection a device of its own by `if_id_in` and `if_id_out`",
                child.name
            );
            problems.add(child.places.section(), text);
        }
    }
}

const fn begins(child: &Child) -> bool {
    child.start_action.start || child.start_action.trap
}

fn is_fixed(child: &Child) -> bool {
    let mut all = child.local_ts.iter().chain(&child.remote_ts);
    all.all(|selector| selector.addresses != Addresses::Dynamic)
}

fn sorted(selectors: &[TrafficSelector]) -> Vec<String> {
    let mut all: Vec<String> = selectors.iter().map(|selector| format!("{selector:?}")).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use crate::testing::{config, text};
    use crate::translate::connections;

    #[test]
    fn children_whose_packets_nothing_tells_apart_are_refused() {
        let first = |child: &str, other: &str, ids: [&str; 2]| {
            let second = text(ids[1], other).replace("office {", "cloud {").replace("b.example", "c.example");
            let second = second.split("secrets").next().unwrap_or_default().to_owned();
            let planned = connections(&config(&format!("{}{second}", text(ids[0], child))));
            planned.err().map(|problems| problems[0].to_string())
        };
        let none = ["", ""];
        let equal = first("start_action = start", "start_action = trap", none).unwrap();
        assert!(
            equal.contains("the child net has the traffic of the child net of the connection office"),
            "{equal}"
        );
        assert!(equal.starts_with("a.conf:"), "{equal}");
        for (child, other) in [
            ("start_action = start", ""),
            ("start_action = start", "start_action = start\n local_ts = 10.1.1.0/24"),
            ("start_action = start", "start_action = start\n remote_ts = 10.2.0.0/16[tcp/80]"),
        ] {
            assert_eq!(first(child, other, none), None, "{other}");
        }
        let ids = ["if_id_in = 1\n if_id_out = 1", "if_id_in = 2\n if_id_out = 2"];
        assert_eq!(first("start_action = start", "start_action = start", ids), None, "two devices");
        assert!(first("start_action = start", "start_action = start", [ids[0]; 2]).is_some(), "one device");
    }
}
