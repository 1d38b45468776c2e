//! What several configurations of one process cannot have both, found before anything starts.

mod networks;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use adit_core::Transport;
use adit_openvpn_config::{Family, Listen, Log, ManagementAddress, Parsed, Process, Role};
use adit_wireguard_config as wireguard;

use super::endpoints;
use crate::host::configuration::Dialect;
use crate::host::place::place_in;
use crate::openvpn::adapter::tunnel::place;

/// Something that one tunnel of the machine alone can have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    /// A device by its name.
    Device(String),
    /// A port at an address, or at all of a family: all IPv6 addresses include those of IPv4.
    Address(Transport, IpAddr, u16),
    /// A port for the management socket, at an address or name.
    ManagementPort(String, u16),
    /// A file that is written, or the file of a socket.
    File(PathBuf),
}

impl Resource {
    /// Whether two tunnels cannot have both.
    fn excludes(&self, other: &Resource) -> bool {
        match (self, other) {
            (Resource::Address(transport, one, port), Resource::Address(of_other, other, other_port)) => {
                transport == of_other && port == other_port && overlap(*one, *other)
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Device(name) => write!(f, "the device {name}"),
            Resource::Address(transport, address, port) => {
                let transport = match transport {
                    Transport::Udp => "UDP",
                    Transport::Tcp => "TCP",
                };
                match address.is_unspecified() {
                    true => write!(f, "{transport} port {port}"),
                    false => write!(f, "{transport} {}", std::net::SocketAddr::new(*address, *port)),
                }
            }
            Resource::ManagementPort(host, port) => write!(f, "the management address {host} {port}"),
            Resource::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Whether both of two addresses take the same datagrams.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let includes = |all: IpAddr, some: IpAddr| match all {
        IpAddr::V6(all) => all == Ipv6Addr::UNSPECIFIED,
        IpAddr::V4(all) => all == Ipv4Addr::UNSPECIFIED && some.is_ipv4(),
    };
    one == other || includes(one, other) || includes(other, one)
}

/// Finds what the configurations contradict each other in: one problem a line, each with the places in both files.
///
/// # Errors
/// When there is any.
pub(crate) fn check(all: &[(&Path, &Dialect)]) -> Result<(), String> {
    let mut problems = Vec::new();
    for (number, (file, parsed)) in all.iter().enumerate() {
        for (other_file, other) in all.iter().take(number) {
            compare((*file, *parsed), (*other_file, *other), &mut problems);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn compare(
    (file, dialect): (&Path, &Dialect),
    (other_file, of_other): (&Path, &Dialect),
    problems: &mut Vec<String>,
) {
    if same_file(file, other_file) {
        problems.push(format!("{}: the same file is named twice", file.display()));
        return;
    }
    let one_tunnel = endpoints::share_a_tunnel((file, dialect), (other_file, of_other));
    let is_beside = |resource: &Resource| {
        let mixed = matches!(dialect, Dialect::WireGuard(_)) != matches!(of_other, Dialect::WireGuard(_));
        one_tunnel && mixed && matches!(resource, Resource::Device(_) | Resource::Address(Transport::Udp, ..))
    };
    let (one, theirs) = (resources((file, dialect)), resources((other_file, of_other)));
    for (resource, directives) in one {
        let is_taken = |(theirs, of_other): &&Taken| {
            let shared = one_tunnel && directives == *of_other && SHARED.contains(&directives);
            resource.excludes(theirs) && !shared && !is_beside(&resource)
        };
        let Some((_, directives_there)) = theirs.iter().find(is_taken) else { continue };
        let here = place_in(dialect.report(), file, directives);
        let there = place_in(of_other.report(), other_file, directives_there);
        problems.push(format!("{here}: {resource} is that of {there} too: each tunnel needs its own"));
    }
    let (parsed, other) = match (dialect, of_other) {
        (Dialect::OpenVpn(parsed), Dialect::OpenVpn(other)) => (parsed, other),
        (Dialect::WireGuard(beside), Dialect::OpenVpn(server)) if one_tunnel => {
            let found = endpoints::contradictions_beside((file, beside), (other_file, server));
            return problems.extend(found);
        }
        (Dialect::OpenVpn(server), Dialect::WireGuard(beside)) if one_tunnel => {
            let found = endpoints::contradictions_beside((other_file, beside), (file, server));
            return problems.extend(found);
        }
        _ => return networks::compare((file, dialect), (other_file, of_other), problems),
    };
    if one_tunnel {
        problems.extend(endpoints::contradictions((file, parsed), (other_file, other)));
    }
    for (directives, value) in settings(&parsed.config.process) {
        let theirs = settings(&other.config.process).into_iter().find(|(same, _)| *same == directives);
        if let (Some(value), Some((_, Some(of_other)))) = (value, theirs)
            && value != of_other
        {
            let (here, there) = (place(parsed, file, directives), place(other, other_file, directives));
            let name = directives.first().copied().unwrap_or_default();
            problems.push(format!(
                "{here}: `{name} {value}` contradicts `{name} {of_other}` at {there}: the tunnels are one process"
            ));
        }
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// The directives of what the endpoints of one tunnel share.
const SHARED: [&[&str]; 2] = [&["dev"], &["ifconfig-pool-persist"]];

/// Something that a tunnel takes for itself, and the directives that say so.
type Taken = (Resource, &'static [&'static str]);

fn resources((file, dialect): (&Path, &Dialect)) -> Vec<Taken> {
    match dialect {
        Dialect::OpenVpn(parsed) => openvpn_resources(parsed),
        Dialect::WireGuard(parsed) => wireguard_resources(file, parsed),
    }
}

fn wireguard_resources(file: &Path, parsed: &wireguard::Parsed) -> Vec<Taken> {
    let mut resources: Vec<Taken> = Vec::new();
    if let Some(name) = file.to_str().and_then(wireguard::interface_name) {
        // The file's name says it.
        resources.push((Resource::Device(name.to_owned()), &[]));
    }
    if let Some(port) = parsed.config.interface.listen_port.filter(|port| *port != 0) {
        let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        resources.push((Resource::Address(Transport::Udp, all, port), &["ListenPort"]));
    }
    if let Some(address) = parsed.config.interface.listen_tcp {
        let resource = Resource::Address(Transport::Tcp, address.ip(), address.port());
        resources.push((resource, &["listen-tcp"]));
    }
    resources
}

fn openvpn_resources(parsed: &Parsed) -> Vec<Taken> {
    const ADDRESS: &[&str] = &["local", "port", "lport", "proto", "server", "remote"];
    let (config, mut resources) = (&parsed.config, Vec::new());
    if let Some(name) = &config.device.name {
        resources.push((Resource::Device(name.clone()), ["dev"].as_slice()));
    }
    match &config.role {
        Role::Server(server) => {
            resources.extend(server.listen.iter().filter_map(listened).map(|it| (it, ADDRESS)))
        }
        Role::PointToPoint(point) => {
            resources.extend(point.listen.iter().filter_map(listened).map(|it| (it, ADDRESS)))
        }
        Role::Client(client) => {
            let bound = client.remotes.iter().filter(|remote| remote.transport == Transport::Udp);
            let bound = bound.filter_map(|remote| {
                let bind = remote.bind.filter(|bind| bind.port != 0)?;
                let address = bind.address.unwrap_or_else(|| unspecified(remote.family));
                Some((Resource::Address(remote.transport, address, bind.port), ADDRESS))
            });
            // Several servers are reached from the same port, one after another.
            resources.extend(bound.take(1));
        }
    }
    resources.extend(files(&config.process));
    if let Role::Server(server) = &config.role
        && let Some(pool) = server.per_client.pool_file.as_ref().filter(|pool| pool.every.is_some())
    {
        resources.push((Resource::File(absolute(&pool.path)), &["ifconfig-pool-persist"]));
    }
    resources
}

fn files(process: &Process) -> Vec<(Resource, &'static [&'static str])> {
    let mut resources: Vec<(Resource, &'static [&'static str])> = Vec::new();
    match process.management.as_ref().map(|management| &management.address) {
        Some(ManagementAddress::Tcp(host, port)) if *port != 0 => {
            resources.push((Resource::ManagementPort(host.clone(), *port), &["management"]));
        }
        Some(ManagementAddress::Unix(path)) => {
            resources.push((Resource::File(absolute(path)), &["management"]))
        }
        Some(ManagementAddress::Tcp(..)) | None => {}
    }
    resources.extend(
        process.status.as_ref().map(|file| (Resource::File(absolute(&file.path)), ["status"].as_slice())),
    );
    resources.extend(
        process.pid_file.as_ref().map(|path| (Resource::File(absolute(path)), ["writepid"].as_slice())),
    );
    resources
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `None` if the system chooses the port.
fn listened(listen: &Listen) -> Option<Resource> {
    let address = listen.address.unwrap_or_else(|| unspecified(listen.family));
    (listen.port != 0).then_some(Resource::Address(listen.transport, address, listen.port))
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::Any | Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Settings of the process that are the same for all its tunnels, as far as a configuration has them.
fn settings(process: &Process) -> [(&'static [&'static str], Option<String>); 4] {
    let syslog = match &process.log {
        Some(Log::Syslog(name)) => Some(name.clone().unwrap_or_default()),
        Some(Log::File { .. }) | None => None,
    };
    let nice = (process.nice != 0).then(|| process.nice.to_string());
    [
        (&["user"], process.user.clone()),
        (&["group"], process.group.clone()),
        (&["nice"], nice),
        (&["syslog", "daemon"], syslog),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n";

    fn parse(name: &str, lines: &str) -> Parsed {
        let none = |_: &Path| Err("no such file".to_owned());
        adit_openvpn_config::parse(name, format!("{lines}{CA}").as_bytes(), &none).expect("a good file")
    }

    /// What stands between a client with these lines and another.
    fn between(one: &str, other: &str) -> Vec<String> {
        let client = |lines: &str| format!("client\nremote vpn.example\nauth-user-pass\n{lines}");
        let [one, other] = [parse("a.conf", &client(one)), parse("b.conf", &client(other))];
        let [one, other] = [one, other].map(|parsed| Dialect::OpenVpn(Box::new(parsed)));
        let outcome = check(&[(Path::new("a.conf"), &one), (Path::new("b.conf"), &other)]);
        outcome.err().map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default()
    }

    #[test]
    fn what_one_tunnel_alone_can_have_is_named_with_both_lines() {
        assert_eq!(
            between("verb 3\ndev tun7\n", "dev tun7\n"),
            ["b.conf:4: the device tun7 is that of a.conf:5 too: each tunnel needs its own"]
        );
        for lines in [
            "lport 4000\n",
            "management 127.0.0.1 7505\n",
            "management /run/m.sock unix\n",
            "status /run/s\n",
            "writepid /run/p\n",
        ] {
            let found = between(lines, lines);
            assert!(
                found.len() == 1 && found[0].starts_with("b.conf:4: ") && found[0].contains("a.conf:4"),
                "{found:?}"
            );
        }
        assert_eq!(between("status /run/x\n", "writepid /run/x\n").len(), 1, "whatever it is for");
        assert_eq!(between("dev tun\nlport 0\nstatus a\n", "dev tun\nlport 0\nstatus b\n"), [""; 0]);
    }

    #[test]
    fn addresses_overlap_as_the_kernel_sees_it() {
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (one, other, expected) in [
            ("::", "192.0.2.1", true),
            ("0.0.0.0", "192.0.2.1", true),
            ("0.0.0.0", "2001:db8::1", false),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "192.0.2.1", true),
        ] {
            assert_eq!(overlap(at(one), at(other)), expected, "{one} {other}");
            assert_eq!(overlap(at(other), at(one)), expected, "{other} {one}");
        }
        assert!(between("lport 4000\n", "local 192.0.2.1\nlport 4000\n").len() == 1);
        assert!(between("local 192.0.2.2\nlport 4000\n", "local 192.0.2.1\nlport 4000\n").is_empty());
    }

    #[test]
    fn settings_of_the_process_must_not_contradict() {
        assert_eq!(
            between("user alice\nnice 5\n", "nice 6\nuser bob\n"),
            [
                "b.conf:5: `user bob` contradicts `user alice` at a.conf:4: the tunnels are one process",
                "b.conf:4: `nice 6` contradicts `nice 5` at a.conf:5: the tunnels are one process",
            ]
        );
        for lines in ["group a\n", "syslog a\n", "daemon a\n"] {
            assert_eq!(between(lines, &lines.replace(" a", " b")).len(), 1, "{lines}");
            assert!(between(lines, lines).is_empty() && between(lines, "").is_empty(), "{lines}");
        }
    }

    #[test]
    fn endpoints_of_one_tunnel_share_its_device_and_what_is_remembered() {
        let server = |name: &str, lines: &str| {
            let key = "dh none\n<cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                       <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";
            let text = format!("dev tun0\nifconfig-pool-persist /var/pool\n{lines}{key}");
            Dialect::OpenVpn(Box::new(parse(name, &text)))
        };
        let udp = server("udp.conf", "server 10.8.0.0 255.255.255.0\nproto udp\n");
        let check = |lines: &str| {
            let other = server("other.conf", lines);
            check(&[(Path::new("udp.conf"), &udp), (Path::new("other.conf"), &other)])
        };
        assert_eq!(check("server 10.8.0.0 255.255.255.0\nproto tcp\n"), Ok(()));
        let why = check("server 10.8.0.0 255.255.255.0\nproto udp\n").expect_err("one port");
        assert!(why.starts_with("other.conf:4: UDP port 1194 is that of udp.conf:4 too"), "{why}");
        let why = check("server 10.9.0.0 255.255.255.0\nproto tcp\n").expect_err("another network");
        assert!(why.contains("endpoints of one tunnel"), "{why}");
        let why =
            check("server 10.8.0.0 255.255.255.0\nproto tcp\nstatus /var/pool\n").expect_err("one file");
        assert!(why.contains("the file /var/pool is that of udp.conf:2 too"), "{why}");
    }
}
