//! The settings that a running tunnel cannot change at once, and why not.

use adit_openvpn_config::{ClientConfig, Config, PointToPointConfig, Role, ServerConfig};

use super::super::scripts;

/// From when on a change holds that a running tunnel does not make at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// From the tunnel's next restart (SIGUSR1, `signal SIGUSR1` at its management socket).
    Restart,
    /// From the next start of adit, for this reason.
    Start(&'static str),
}

const DEVICE: Since = Since::Start("adit has given up the right to change the device");
const SOCKETS: Since = Since::Start("sockets are made before adit gives up its rights");
const PROCESS: Since = Since::Start("the process has given up the right to change it");
const FILES: Since = Since::Start("the file is opened before adit gives up its rights");
const NAMES: Since = Since::Start("names are looked up before adit gives up its rights");
const ROUTES: Since = Since::Start("a server's routes are set before adit gives up its rights");
const SCRIPTS: Since =
    Since::Start("it is the first script, and the helper process has given up running programs");
const BACK_ENDS: Since = Since::Start("a process that was started with more rights runs its program");
const TUNNEL_SCRIPTS: Since = Since::Start("the scripts of the start run when the tunnel ends");
const LOW_PORTS: Since = Since::Start("adit has given up the right to ports below 1024");
const PASSWORDS: Since =
    Since::Start("where the password comes from is settled before adit gives up its rights");
const KEY_HOLDER: Since =
    Since::Start("who holds our private key is settled before adit gives up its rights");
const FORWARDING: Since = Since::Start("forwarding is set up before adit gives up its rights");
const DATA_PLANE: Since = Since::Start("packets are forwarded by the setting of the start");

/// Something that a running tunnel does not change at once.
pub(super) struct Fixed {
    /// The directives that say it.
    pub(super) directives: &'static [&'static str],
    /// From when on another value holds.
    pub(super) since: Since,
    /// Makes the first configuration say what the second says. True if it did not.
    pub(super) keep: fn(&mut Config, &Config) -> bool,
}

const fn fixed(
    directives: &'static [&'static str],
    since: Since,
    keep: fn(&mut Config, &Config) -> bool,
) -> Fixed {
    Fixed { directives, since, keep }
}

/// Replaces a value; true if it was another.
fn keep<T: Clone + PartialEq>(new: &mut T, old: &T) -> bool {
    let changed = new != old;
    if changed {
        new.clone_from(old);
    }
    changed
}

/// Keeps a value that only servers have.
fn of_server<T: Clone + PartialEq>(
    new: &mut Config,
    old: &Config,
    value: impl Fn(&mut ServerConfig) -> &mut T,
) -> bool {
    let (Role::Server(new), Role::Server(old)) = (&mut new.role, &old.role) else { return false };
    keep(value(new), value(&mut old.clone()))
}

/// For a value that only the listening end of a point-to-point tunnel has.
fn of_point<T: Clone + PartialEq>(
    new: &mut Config,
    old: &Config,
    value: impl Fn(&mut PointToPointConfig) -> &mut T,
) -> bool {
    let (Role::PointToPoint(new), Role::PointToPoint(old)) = (&mut new.role, &old.role) else { return false };
    keep(value(new), value(&mut old.clone()))
}

/// For a value that only clients have.
fn of_client<T: Clone + PartialEq>(
    new: &mut Config,
    old: &Config,
    value: impl Fn(&mut ClientConfig) -> &mut T,
) -> bool {
    let (Role::Client(new), Role::Client(old)) = (&mut new.role, &old.role) else { return false };
    keep(value(new), value(&mut old.clone()))
}

/// The settings that no kind of tunnel changes while the process runs.
#[rustfmt::skip]
pub(super) const OF_ALL: &[Fixed] = &[
    fixed(&["dev"], DEVICE, |new, old| {
        let is_other = keep(&mut new.device.is_null, &old.device.is_null);
        keep(&mut new.device.name, &old.device.name) || is_other
    }),
    fixed(&["txqueuelen"], DEVICE, |new, old| keep(&mut new.device.txqueuelen, &old.device.txqueuelen)),
    fixed(&["sndbuf"], SOCKETS, |new, old| keep(&mut new.socket.sndbuf, &old.socket.sndbuf)),
    fixed(&["rcvbuf"], SOCKETS, |new, old| keep(&mut new.socket.rcvbuf, &old.socket.rcvbuf)),
    fixed(&["mark"], SOCKETS, |new, old| keep(&mut new.socket.mark, &old.socket.mark)),
    fixed(&["bind-dev"], SOCKETS, |new, old| keep(&mut new.socket.device, &old.socket.device)),
    fixed(&["passtos"], SOCKETS, |new, old| keep(&mut new.socket.passtos, &old.socket.passtos)),
    fixed(&["mtu-disc"], SOCKETS, |new, old| keep(&mut new.socket.mtu_disc, &old.socket.mtu_disc)),
    fixed(&["multihome"], SOCKETS, |new, old| keep(&mut new.socket.multihome, &old.socket.multihome)),
    fixed(&["user"], PROCESS, |new, old| keep(&mut new.process.user, &old.process.user)),
    fixed(&["group"], PROCESS, |new, old| keep(&mut new.process.group, &old.process.group)),
    fixed(&["nice"], PROCESS, |new, old| keep(&mut new.process.nice, &old.process.nice)),
    fixed(&["mlock"], PROCESS, |new, old| keep(&mut new.process.lock_memory, &old.process.lock_memory)),
    fixed(&["log", "log-append", "syslog", "daemon"], FILES, |new, old| keep(&mut new.process.log, &old.process.log)),
    fixed(&["status", "status-version"], FILES, |new, old| keep(&mut new.process.status, &old.process.status)),
    fixed(&["writepid"], FILES, |new, old| keep(&mut new.process.pid_file, &old.process.pid_file)),
    fixed(&["tmp-dir"], FILES, |new, old| keep(&mut new.process.tmp_dir, &old.process.tmp_dir)),
    fixed(&["echo", "parameter"], FILES, |new, old| keep(&mut new.process.echo, &old.process.echo)),
    fixed(
        &[
            "management-external-key", "management-external-cert", "pkcs11-id", "pkcs11-providers", "pkcs11-pin-cache",
            "pkcs11-protected-authentication", "pkcs11-cert-private", "pkcs11-id-management", "cert", "extra-certs",
        ],
        KEY_HOLDER,
        keep_key_holder,
    ),
    fixed(
        &[
            "management", "management-client-user", "management-client-group", "management-log-cache",
            "management-hold", "management-query-passwords", "management-signal",
            "management-forget-disconnect", "management-client", "management-up-down", "management-query-proxy",
        ],
        SOCKETS,
        |new, old| keep(&mut new.process.management, &old.process.management),
    ),
    fixed(
        &[
            "up", "down", "route-up", "route-pre-down", "ipchange", "dns-updown", "up-restart", "down-pre", "persist-tun",
            "ifconfig-noexec", "route-noexec", "route-delay", "route-gateway", "tls-verify", "setenv", "setenv-safe",
        ],
        TUNNEL_SCRIPTS,
        |new, old| keep(&mut new.scripts, &old.scripts),
    ),
];

/// The holder of our key stays, and whether the key is held elsewhere; with it our certificate.
fn keep_key_holder(new: &mut Config, old: &Config) -> bool {
    let changed = keep(&mut new.tls.external, &old.tls.external);
    if changed {
        new.tls.identity.clone_from(&old.tls.identity);
        new.tls.pkcs12.clone_from(&old.tls.pkcs12);
    }
    changed
}

/// A helper without scripts has given up running programs.
fn keep_from_first_scripts(new: &mut Config, old: &Config) -> bool {
    let (Role::Server(server), Role::Server(before)) = (&new.role, &old.role) else { return false };
    let first = scripts::any(&server.access) && !scripts::any(&before.access);
    first && of_server(new, old, |server| &mut server.access)
}

/// The settings of the judges of passwords stay as a whole: those that rest on a back end must not hold
/// without it.
fn keep_with_back_ends(new: &mut Config, old: &Config) -> bool {
    let (Role::Server(server), Role::Server(before)) = (&new.role, &old.role) else { return false };
    let differs = server.access.back_ends != before.access.back_ends;
    differs && of_server(new, old, |server| &mut server.access)
}

/// Our address and network; the pool within it may change.
fn keep_ipv4(new: &mut Config, old: &Config) -> bool {
    let address = |config: &Config| match &config.role {
        Role::Server(server) => server.ipv4.map(|own| own.address),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    address(new) != address(old) && of_server(new, old, |server| &mut server.ipv4)
}

fn keep_ipv6(new: &mut Config, old: &Config) -> bool {
    let address = |config: &Config| match &config.role {
        Role::Server(server) => server.ipv6.map(|own| own.address),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    address(new) != address(old) && of_server(new, old, |server| &mut server.ipv6)
}

fn keep_mtu(new: &mut Config, old: &Config) -> bool {
    keep(&mut new.device.mtu, &old.device.mtu) | keep(&mut new.device.told_mtu, &old.device.told_mtu)
}

fn keep_routes(new: &mut Config, old: &Config) -> bool {
    keep(&mut new.routes, &old.routes)
}

fn keep_route_table(new: &mut Config, old: &Config) -> bool {
    keep(&mut new.device.route_table, &old.device.route_table)
}

fn keep_named_routes(new: &mut Config, old: &Config) -> bool {
    keep(&mut new.named_routes, &old.named_routes)
}

/// The further settings that a server does not change.
#[rustfmt::skip]
pub(super) const OF_SERVER: &[Fixed] = &[
    fixed(
        &[
            "auth-user-pass-verify", "client-connect", "client-disconnect", "learn-address", "tls-verify",
            "tls-crypt-v2-verify", "client-crresponse",
        ],
        SCRIPTS,
        keep_from_first_scripts,
    ),
    fixed(&["plugin"], BACK_ENDS, keep_with_back_ends),
    fixed(&["tun-mtu"], DEVICE, keep_mtu),
    fixed(&["port-share"], SOCKETS, |new, old| of_server(new, old, |server| &mut server.port_share)),
    fixed(&["local", "port", "lport", "proto"], SOCKETS, |new, old| of_server(new, old, |server| &mut server.listen)),
    fixed(&["server", "ifconfig"], DEVICE, keep_ipv4),
    fixed(&["server-ipv6", "ifconfig-ipv6"], DEVICE, keep_ipv6),
    fixed(&["forward"], FORWARDING, |new, old| of_server(new, old, |server| &mut server.forward)),
    fixed(&["client-to-client"], DATA_PLANE, |new, old| of_server(new, old, |server| &mut server.client_to_client)),
    fixed(&["ifconfig-pool-persist"], FILES, |new, old| of_server(new, old, |server| &mut server.per_client.pool_file)),
    fixed(&["route", "route-ipv6"], ROUTES, keep_routes),
    fixed(&["route-table"], ROUTES, keep_route_table),
    fixed(&["route", "route-ipv6"], ROUTES, keep_named_routes),
];

/// The settings that the listening end of a point-to-point tunnel does not change at once.
#[rustfmt::skip]
pub(super) const OF_POINT: &[Fixed] = &[
    fixed(&["local", "port", "lport", "proto"], SOCKETS, |new, old| of_point(new, old, |point| &mut point.listen)),
    fixed(&["remote"], NAMES, |new, old| of_point(new, old, |point| &mut point.remotes)),
    fixed(&["float"], NAMES, |new, old| keep(&mut new.socket.float, &old.socket.float)),
    fixed(&["route", "route-ipv6"], NAMES, keep_named_routes),
    fixed(&["tun-mtu"], Since::Restart, keep_mtu),
    fixed(&["ifconfig-nowarn"], Since::Restart, |new, old| {
        keep(&mut new.device.ifconfig_nowarn, &old.device.ifconfig_nowarn)
    }),
    fixed(&["ifconfig"], Since::Restart, |new, old| of_point(new, old, |point| &mut point.ipv4)),
    fixed(&["ifconfig-ipv6"], Since::Restart, |new, old| of_point(new, old, |point| &mut point.ipv6)),
    fixed(&["route", "route-ipv6"], Since::Restart, keep_routes),
    fixed(&["route-table"], Since::Restart, keep_route_table),
];

/// The settings that it does not change at once where it has a static key: both ends must change them at the
/// same time.
#[rustfmt::skip]
pub(super) const OF_STATIC_POINT: &[Fixed] = &[
    fixed(&["secret", "key-direction", "cipher"], Since::Restart, |new, old| {
        keep(&mut new.secret, &old.secret) | keep(&mut new.data.cipher, &old.data.cipher)
    }),
    fixed(&["auth"], Since::Restart, |new, old| keep(&mut new.data.auth, &old.data.auth)),
    fixed(&["compress", "comp-lzo", "allow-compression"], Since::Restart, |new, old| {
        keep(&mut new.data.compression, &old.data.compression) | keep(&mut new.data.decompression, &old.data.decompression)
    }),
    fixed(&["fragment"], Since::Restart, |new, old| keep(&mut new.data.fragment, &old.data.fragment)),
    fixed(&["replay-window"], Since::Restart, |new, old| keep(&mut new.data.replay_window, &old.data.replay_window)),
];

/// The helper makes a client's sockets, with the right to ports below 1024 only if the file named one at the start.
fn keep_from_first_low_port(new: &mut Config, old: &Config) -> bool {
    const FIRST_FREE: u16 = 1024;
    let low = |config: &Config| match &config.role {
        Role::Client(client) => client
            .remotes
            .iter()
            .any(|remote| remote.bind.is_some_and(|bind| bind.port != 0 && bind.port < FIRST_FREE)),
        Role::Server(_) | Role::PointToPoint(_) => false,
    };
    low(new) && !low(old) && of_client(new, old, |client| &mut client.remotes)
}

/// The further settings that a client does not change.
#[rustfmt::skip]
pub(super) const OF_CLIENT: &[Fixed] = &[
    fixed(&["route", "route-ipv6"], NAMES, keep_named_routes),
    fixed(
        &["auth-user-pass", "auth-retry", "auth-nocache", "static-challenge"],
        PASSWORDS,
        |new, old| of_client(new, old, |client| &mut client.auth),
    ),
    fixed(&["lport", "bind", "port", "local"], LOW_PORTS, keep_from_first_low_port),
];
