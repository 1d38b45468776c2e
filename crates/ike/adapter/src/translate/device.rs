//! The devices of connections that have one of their own: by `if_id_in` and `if_id_out`, or by `policies = no`. Such a connection is
//! based on routes: the routes through its device are the user's.

use std::collections::BTreeMap;

use adit_core::IpNet;
use adit_core::configuration::Disposition;
use adit_ike_config::{self as model, Config, Connection, InterfaceId, Place};

use super::Planned;
use super::problems::Problems;

/// A device of a connection, or of connections with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnDevice {
    /// Its name.
    pub(crate) name: String,
    /// `if_id_in` and `if_id_out`. `None`: it has no number.
    pub(crate) number: Option<u32>,
    /// Its addresses, with the lengths of their networks.
    pub(crate) addresses: Vec<IpNet>,
}

/// The connections that share a device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group<'a> {
    /// Those with this number.
    Number(u32),
    /// The connection of this name.
    Alone(&'a str),
}

/// The devices of a file's connections, by the names of the connections.
pub(super) fn of_connections(config: &Config, problems: &mut Problems) -> BTreeMap<String, OwnDevice> {
    let mut groups: BTreeMap<Group<'_>, Vec<&Connection>> = BTreeMap::new();
    for connection in &config.connections {
        match group(connection, problems) {
            Some(group) => groups.entry(group).or_default().push(connection),
            None => refuse_settings(config, connection, problems),
        }
    }
    let mut devices: BTreeMap<String, OwnDevice> = BTreeMap::new();
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for (group, connections) in &groups {
        let Some(device) = device(config, group, connections, problems) else { continue };
        let Some(first) = connections.first() else { continue };
        let before = names.insert(device.name.clone(), &first.name);
        let is_tunnels = config.device.as_ref() == Some(&device.name);
        if let Some(other) = before.or_else(|| is_tunnels.then_some("the tunnel")) {
            let text = format!(
                "the device {} is that of {other}, too: give this connection another one, by a line `#adit: {}.device = NAME`",
                device.name, first.name
            );
            problems.add(place(config, first), text);
        }
        devices.extend(connections.iter().map(|connection| (connection.name.clone(), device.clone())));
    }
    devices
}

/// The device of a connection, which need not be one of the file.
pub(super) fn of_connection(config: &Config, of: &Connection, problems: &mut Problems) -> Option<OwnDevice> {
    let own = group(of, problems)?;
    let others = config.connections.iter().filter(|other| other.name != of.name);
    let shares = |other: &&Connection| group(other, &mut Problems::default()).as_ref() == Some(&own);
    let connections: Vec<&Connection> = others.filter(shares).chain([of]).collect();
    device(config, &own, &connections, problems)
}

/// The line that names the device of a connection, or that of the section.
fn place<'a>(config: &'a Config, of: &'a Connection) -> &'a Place {
    config.own_devices.get(&of.name).map_or_else(|| of.places.section(), |own| &own.place)
}

/// A connection without a device of its own has no settings of one.
fn refuse_settings(config: &Config, of: &Connection, problems: &mut Problems) {
    if let Some(own) = config.own_devices.get(&of.name) {
        let text = format!(
            "the connection {} has no device of its own: it gets one by `if_id_in` and `if_id_out`, or by `policies = no` in its child",
            of.name
        );
        problems.add(&own.place, text);
    }
}

/// The connections with which a connection shares its device. `None`: it has the device of the tunnel.
fn group<'a>(of: &'a Connection, problems: &mut Problems) -> Option<Group<'a>> {
    let wanted: Vec<Option<Group<'_>>> =
        of.children.iter().map(|child| of_child(of, child, problems)).collect();
    let first = wanted.first()?.clone();
    if let Some((child, _)) = of.children.iter().zip(&wanted).find(|(_, other)| **other != first) {
        let text = format!(
            "the children of a connection have one device: give {} the `if_id_in`, `if_id_out` and `policies` of the others, or put it \
             into a connection of its own",
            child.name
        );
        problems.add(child.places.section(), text);
    }
    let group = first?;
    if !of.vips.is_empty() {
        let text = format!(
            "`vips`: a device of the connection's own has the addresses of the file: write `#adit: {}.addresses = ADDRESS/LENGTH` in place \
             of it",
            of.name
        );
        problems.add(of.places.of("vips"), text);
    }
    if matches!(group, Group::Alone(_)) && !of.pools.is_empty() {
        let text = "`pools`: the peers of such a connection share one device: write the same number in `if_id_in` and `if_id_out`";
        problems.add(of.places.of("pools"), text);
    }
    Some(group)
}

fn of_child<'a>(of: &'a Connection, child: &model::Child, problems: &mut Problems) -> Option<Group<'a>> {
    let number = |own: InterfaceId, of_connection| if own == InterfaceId::None { of_connection } else { own };
    match (number(child.if_id_in, of.if_id_in), number(child.if_id_out, of.if_id_out)) {
        (InterfaceId::None, InterfaceId::None) => (!child.policies).then_some(Group::Alone(&of.name)),
        (InterfaceId::Number(one), InterfaceId::Number(other)) if one == other => Some(Group::Number(one)),
        (InterfaceId::Unique, InterfaceId::Unique) => Some(Group::Alone(&of.name)),
        _ => {
            let text =
                "`if_id_in`, `if_id_out`: both directions have one device: write the same number in both";
            let places = if child.if_id_in == InterfaceId::None { &of.places } else { &child.places };
            problems.add(places.of("if_id_in"), text);
            None
        }
    }
}

/// The device of connections that share one.
fn device(
    config: &Config,
    group: &Group<'_>,
    connections: &[&Connection],
    problems: &mut Problems,
) -> Option<OwnDevice> {
    let mut named: Option<String> = None;
    let mut addresses = Vec::new();
    for own in connections.iter().filter_map(|connection| config.own_devices.get(&connection.name)) {
        addresses
            .extend(own.addresses.iter().copied().filter(|new| !addresses.contains(new)).collect::<Vec<_>>());
        let Some(name) = &own.name else { continue };
        if let Some(other) = named.replace(name.clone()).filter(|other| other != name) {
            let text =
                format!("connections with the same `if_id_in` share one device: {other} and {name} are two");
            problems.add(&own.place, text);
        }
    }
    let (name, number) = match group {
        Group::Number(number) => (format!("ipsec{number}"), Some(*number)),
        Group::Alone(connection) => ((*connection).to_owned(), None),
    };
    let name = named.unwrap_or(name);
    if !model::OwnDevice::is_name(&name) {
        let of = connections.first()?;
        let text = format!(
            "the connection has a device of its own, which needs a name: write `#adit: {}.device = NAME`, with 1 to 15 letters or digits",
            of.name
        );
        problems.add(of.places.section(), text);
        return None;
    }
    Some(OwnDevice { name, number, addresses })
}

/// Says in the report of the file which device each child of a connection has that has one of its own, at the lines that give it one.
pub(crate) fn explain(report: &mut [Disposition], planned: &[Planned]) {
    for one in planned {
        let Some(device) = &one.device else { continue };
        let with: Vec<String> = device.addresses.iter().map(ToString::to_string).collect();
        let with = if with.is_empty() {
            "without an address".to_owned()
        } else {
            format!("with {}", with.join(", "))
        };
        for child in &one.source.children {
            let text = format!(
                "the child {} has the device {} {with}; routes through it are yours",
                child.name, device.name
            );
            let of_child = [child.places.of("if_id_in"), child.places.of("policies")];
            let places = of_child.into_iter().chain([one.source.places.of("if_id_in")]);
            let at = |place: &Place, entry: &Disposition| {
                let is_key = ["if_id_in", "policies"].contains(&entry.directive.as_str());
                is_key && entry.line == place.line && *entry.file == *place.file
            };
            let mut places = places.filter_map(|place| report.iter().position(|entry| at(place, entry)));
            if let Some(entry) = places.next().and_then(|index| report.get_mut(index)) {
                let before = std::mem::take(&mut entry.reason);
                entry.reason = if before.is_empty() { text } else { format!("{before}; {text}") };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{config, text};
    use crate::translate::connections;

    const IDS: &str = "if_id_in = 42\n if_id_out = 42";

    fn devices(text: &str) -> Result<Vec<Option<OwnDevice>>, String> {
        let planned = connections(&config(text));
        let planned = planned.map_err(|problems| problems[0].to_string())?;
        Ok(planned.into_iter().map(|planned| planned.device).collect())
    }

    /// A file with two connections.
    fn two(one: &str, other: &str) -> String {
        let second = text(other, "").replace("office {", "cloud {").replace("b.example", "c.example");
        let second = second.split("secrets").next().unwrap_or_default().to_owned();
        format!("{}{second}", text(one, ""))
    }

    #[test]
    fn a_connection_with_a_number_or_without_policies_has_a_device() {
        let device = |text: &str| devices(text).unwrap().remove(0);
        assert_eq!(device(&text("", "")), None);
        let expected = OwnDevice { name: "ipsec42".to_owned(), number: Some(42), addresses: Vec::new() };
        assert_eq!(device(&text(IDS, "")), Some(expected.clone()));
        assert_eq!(device(&text("", IDS)), Some(expected));
        let alone = OwnDevice { name: "office".to_owned(), number: None, addresses: Vec::new() };
        assert_eq!(device(&text("", "policies = no")), Some(alone.clone()));
        assert_eq!(device(&text("if_id_in = %unique\n if_id_out = %unique", "")), Some(alone));
        let named = format!(
            "#adit: office.device = vti7\n#adit: office.addresses = 169.254.7.2/30\n{}",
            text(IDS, "")
        );
        let named = device(&named).unwrap();
        assert_eq!(
            (named.name.as_str(), &named.addresses[..]),
            ("vti7", &["169.254.7.2/30".parse().unwrap()][..])
        );
    }

    #[test]
    fn connections_with_one_number_share_a_device() {
        let both = devices(&format!("#adit: cloud.device = shared\n{}", two(IDS, IDS))).unwrap();
        assert!(
            both.iter().all(|device| device.as_ref().is_some_and(|device| device.name == "shared")),
            "{both:?}"
        );
        let other = IDS.replace("42", "43");
        let both = devices(&two(IDS, &other)).unwrap();
        let names: Vec<&str> = both.iter().flatten().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["ipsec42", "ipsec43"]);
    }

    /// A program loads it by VICI.
    #[test]
    fn a_connection_beside_the_file_has_the_device_of_its_number() {
        let file = config(&format!(
            "#adit: office.device = vti7\n#adit: office.addresses = 10.9.9.1/30\n{}",
            text(IDS, "")
        ));
        let further = |connection: &str| {
            let text = text(connection, "").replace("office {", "cloud {");
            let of = config(&text).connections.remove(0);
            crate::translate::connection(&file, &Arc::new(file.credentials.clone()), &of)
                .map_err(drop)
                .unwrap()
                .device
        };
        let shared = further(IDS).unwrap();
        assert_eq!((shared.name.as_str(), shared.addresses.len()), ("vti7", 1));
        assert_eq!(further("").map(|device| device.name), None);
    }

    #[test]
    fn what_would_need_another_device_is_refused_with_its_line() {
        for (text, expected) in [
            (text("if_id_in = 42", ""), "a.conf:4: `if_id_in`, `if_id_out`: both directions have one device"),
            (text("if_id_in = %unique-dir\n if_id_out = %unique-dir", ""), "both directions have one device"),
            (
                text(&format!("vips = 0.0.0.0\n {IDS}"), ""),
                "a.conf:4: `vips`: a device of the connection's own",
            ),
            (
                format!("#adit: office.addresses = 10.9.9.1/32\n{}", text("", "")),
                "a.conf:1: the connection office has no device",
            ),
            (
                format!("#adit: device = ipsec42\n{}", text(IDS, "")),
                "the device ipsec42 is that of the tunnel, too",
            ),
            (
                format!("#adit: office.device = a\n#adit: cloud.device = b\n{}", two(IDS, IDS)),
                "share one device: a and b are two",
            ),
            (
                text("", "policies = no").replace("office", "an-office-with-a-long-name"),
                "write `#adit: an-office-with-a-long-name.device = NAME`",
            ),
            (
                text("", IDS).replace("children {", "children {\n other {\n remote_ts = 10.3.0.0/16\n }"),
                "the children of a connection have one device: give net",
            ),
        ] {
            let problem = devices(&text).expect_err(expected);
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_check_says_which_device_each_child_has() {
        let parsed = adit_ike_config::parse("a.conf", text(IDS, "").as_bytes(), &crate::testing::NoFiles);
        let mut parsed = parsed.map_err(|failure| failure.to_string()).unwrap();
        let planned = connections(&parsed.config).map_err(drop).unwrap();
        explain(&mut parsed.report, &planned);
        let lines: Vec<String> = parsed.report.iter().map(ToString::to_string).collect();
        let line = lines.iter().find(|line| line.contains("`if_id_in`")).unwrap();
        assert!(line.contains("the child net has the device ipsec42 without an address"), "{line}");
    }
}
