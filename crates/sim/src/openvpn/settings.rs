//! A scenario's settings as the protocol machines take them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{Cipher, IpNet, Ipv4Net, Ipv6Net, PeerLimits, PoolEntry, RouteTable, UnixTime};
use adit_openvpn::access::{AccessParams, PasswordScript};
use adit_openvpn::credentials::{client_tls, server_tls};
use adit_openvpn::params::{
    AdmissionParams, AuthRetry, ClientParams, ControlParams, DataParams, ExitNotify, Keepalive,
    LocalSettings, PerClientParams, PointToPointParams, RemoteParams, ServerParams, StaticChallenge,
    UserAuth,
};
use adit_openvpn::request::{PeerSettings, PushChange};
use adit_openvpn::{PeerRequirements, TlsConfig};

use crate::openvpn::crypto::{WALL_AT_ORIGIN, environment};
use crate::openvpn::identity::{client_name, credentials};
use crate::openvpn::scenario::{Scenario, Wrapping};
use crate::openvpn::third_party::{self, Implementation, Network};

/// The server's addresses in the tunnel, and the first and last of its clients'.
const SERVER4: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const POOL4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 8, 0, 2), Ipv4Addr::new(10, 8, 0, 254));
const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 8, 0, 0, 0, 0, 0, 1);
const POOL6: Ipv6Addr = Ipv6Addr::new(0xfd00, 8, 0, 0, 0, 0, 0, 0x1000);

/// Scripts: `auth-user-pass-verify`, `learn-address`, `client-crresponse`.
pub(crate) const VERIFY_PASSWORD: &str = "/verify";
pub(crate) const LEARN_ADDRESS: &str = "/learn";
pub(crate) const CLIENT_CRRESPONSE: &str = "/code";

fn requirements() -> PeerRequirements {
    PeerRequirements { require_usage: true, ..PeerRequirements::default() }
}

/// Client number `number`'s parameters, when its clock is `skew` seconds wrong.
///
/// # Errors
/// When its TLS cannot be set up, as text.
pub(crate) fn client(scenario: &Scenario, number: usize, skew: i64) -> Result<ClientParams, String> {
    let tls = client_tls(credentials(number)?, requirements(), &environment(&scenario.control.versions))
        .map_err(|error| error.to_string())?;
    let mut control =
        ControlParams::new(scenario.control.wrapping.client(number)?, TlsConfig::Client(tls), wall(skew));
    set_timing(&mut control, scenario, 1);
    let remote = |transport| RemoteParams {
        poll_timeout: scenario.liveness.server_poll_timeout,
        exit_notify: true,
        ..RemoteParams::new(format!("server ({transport:?})"), transport)
    };
    let remotes = scenario.remotes.iter().copied().map(remote).collect();
    let nocache = number.is_multiple_of(2);
    let challenge = StaticChallenge { text: "which word?".to_owned(), echo: false, concat: false };
    let is_point_to_point = scenario.point_to_point.is_some();
    let peer_info = scenario.auth.challenges.then(|| ("IV_SSO".to_owned(), "crtext".to_owned()));
    Ok(ClientParams {
        data: data(scenario, 1),
        pull: !is_point_to_point,
        local: if is_point_to_point { point_to_point_settings(number) } else { LocalSettings::default() },
        keepalive: if is_point_to_point { keepalive(scenario, 1) } else { Keepalive::default() },
        limits: if is_point_to_point { scenario.limits } else { PeerLimits::default() },
        peer_info: peer_info.into_iter().collect(),
        retry: scenario.liveness.retry,
        auth: scenario.auth.passwords.then_some(UserAuth {
            credentials: None,
            retry: AuthRetry::Interact,
            nocache,
            by_program: false,
            challenge: number.is_multiple_of(3).then_some(challenge),
        }),
        ..ClientParams::new(control, remotes)
    })
}

/// The parameters of a third-party client.
///
/// # Errors
/// When its TLS cannot be set up, as text.
pub(crate) fn third_party(
    scenario: &Scenario,
    (number, implementation): (usize, Implementation),
    skew: i64,
) -> Result<third_party::Params, String> {
    let tls = client_tls(credentials(number)?, requirements(), &environment(&scenario.control.versions))
        .map_err(|error| error.to_string())?;
    let v2 = matches!(scenario.control.wrapping, Wrapping::TlsCryptV2 { .. });
    let both = scenario.control.wrapping == Wrapping::TlsCryptBoth && number % 2 == 1;
    let [_, timing] = scenario.control.timing;
    Ok(third_party::Params {
        implementation,
        name: client_name(number),
        wrap: scenario.control.wrapping.client(number)?,
        brings_key: v2 || both,
        tls: TlsConfig::Client(tls),
        wall: wall(skew),
        remotes: scenario.remotes.len(),
        ciphers: scenario.data.ciphers.clone(),
        digest: scenario.data.digest,
        compression: scenario.data.compression,
        epochs: !scenario.data.before_2_7[1],
        hand_window: timing.hand_window,
        reneg: timing.reneg,
        tran_window: scenario.control.tran_window,
        server_poll_timeout: scenario.liveness.server_poll_timeout,
        retry: scenario.liveness.retry.0,
    })
}

/// The parameters of a third-party server, whose client is client 1.
///
/// # Errors
/// When its TLS cannot be set up, as text.
pub(crate) fn third_party_server(
    scenario: &Scenario,
    skew: i64,
) -> Result<(third_party::Params, Network), String> {
    let tls = server_tls(credentials(0)?, requirements(), &environment(&scenario.control.versions))
        .map_err(|error| error.to_string())?;
    let params = third_party::Params {
        name: client_name(1),
        wrap: scenario.control.wrapping.server().0,
        brings_key: false,
        tls: TlsConfig::Server(tls),
        hand_window: scenario.control.timing[0].hand_window,
        reneg: scenario.control.timing[0].reneg,
        ..third_party(scenario, (1, Implementation::MirageVpn), skew)?
    };
    let client = Ipv4Net::new_assert(POOL4.0, 16);
    let own = [IpNet::V4(Ipv4Net::new_assert(SERVER4, 16)), IpNet::V6(Ipv6Net::new_assert(SERVER6, 64))];
    let push = vec![
        third_party::ifconfig(client),
        format!("ifconfig-ipv6 {POOL6}/64 {SERVER6}"),
        "topology subnet".to_owned(),
        format!("ping {}", scenario.liveness.ping.as_secs()),
        format!("ping-restart {}", scenario.liveness.ping_restart.as_secs()),
        "peer-id 0".to_owned(),
        format!("cipher {}", params.ciphers.first().copied().unwrap_or(Cipher::Aes256Gcm)),
        "key-derivation tls-ekm".to_owned(),
    ];
    let client = vec![POOL4.0.into(), POOL6.into()];
    Ok((params, Network { own: own.to_vec(), client, push, ping: scenario.liveness.ping }))
}

/// The addresses of the ends of a point-to-point tunnel: the server's (number 0), the client's.
pub(crate) fn point_to_point_addresses(number: usize) -> [IpAddr; 2] {
    match number {
        0 => [SERVER4.into(), SERVER6.into()],
        _ => [POOL4.0.into(), POOL6.into()],
    }
}

/// Its own end of a point-to-point tunnel, as each end's file has it.
fn point_to_point_settings(number: usize) -> LocalSettings {
    let [other, _] = point_to_point_addresses(1 - number.min(1));
    LocalSettings {
        addresses: point_to_point_addresses(number).map(IpNet::from).to_vec(),
        peer_address: Some(other),
        ..LocalSettings::default()
    }
}

/// How long the client waits for a sign of the server, and the server, which waits twice as long.
fn keepalive(scenario: &Scenario, end: usize) -> Keepalive {
    let times = if end == 0 { 2 } else { 1 };
    Keepalive {
        ping: Some(scenario.liveness.ping),
        timeout: Some(scenario.liveness.ping_restart * times),
        exit: scenario.point_to_point.is_some_and(|point| point.ping_exit),
    }
}

/// The limits of a connection as they are pushed.
fn pushed_limits(limits: PeerLimits) -> impl Iterator<Item = String> {
    let idle = limits.idle.map(|idle| format!("inactive {}", idle.after.as_secs()));
    let length = limits.length.map(|length| format!("session-timeout {}", length.as_secs()));
    idle.into_iter().chain(length)
}

fn data(scenario: &Scenario, end: usize) -> DataParams {
    DataParams {
        before_2_7: scenario.data.before_2_7[end],
        ciphers: scenario.data.ciphers.clone(),
        compression: scenario.data.compression,
        digest: scenario.data.digest,
        ..DataParams::default()
    }
}

/// The settings of one client (`client-config-dir`).
pub(crate) fn of_client(scenario: &Scenario, number: usize) -> PeerSettings {
    if !scenario.has_client_config(number) {
        return PeerSettings::default();
    }
    PeerSettings {
        ipv4: Some((Ipv4Addr::new(10, 8, 1, number as u8), Ipv4Addr::new(255, 255, 0, 0))),
        routes: vec![network_behind(number)],
        push: vec![
            PushChange::Remove("route 10.100.1.".to_owned()),
            PushChange::Add("route 10.101.0.0 255.255.0.0".to_owned()),
        ],
        ..PeerSettings::default()
    }
}

/// The network behind a client that has settings of its own.
pub(crate) fn network_behind(number: usize) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 66, number as u8, 0), 24))
}

/// The server's parameters, when its clock is `skew` seconds wrong and its file keeps these addresses.
///
/// # Errors
/// When its TLS cannot be set up, as text.
pub(crate) fn server(scenario: &Scenario, skew: i64, leases: Vec<PoolEntry>) -> Result<ServerParams, String> {
    let tls = server_tls(credentials(0)?, requirements(), &environment(&scenario.control.versions))
        .map_err(|error| error.to_string())?;
    let (wrap, v2) = scenario.control.wrapping.server();
    let mut control = ControlParams::new(wrap, TlsConfig::Server(tls), wall(skew));
    set_timing(&mut control, scenario, 0);
    let mut push = vec![
        format!("route-gateway {SERVER4}"),
        "topology subnet".to_owned(),
        format!("ping {}", scenario.liveness.ping.as_secs()),
        format!("ping-restart {}", scenario.liveness.ping_restart.as_secs()),
    ];
    push.extend(
        (0..scenario.server.pushed_routes).map(|number| format!("route 10.100.{number}.0 255.255.255.0")),
    );
    if scenario.server.pushes_limits {
        push.extend(pushed_limits(scenario.limits));
    }
    let point_to_point = scenario.point_to_point.map(|point| PointToPointParams {
        local: point_to_point_settings(0),
        only_from: None,
        exit_notify: true,
        single: point.single_session,
    });
    let last = match scenario.server.tight_pool {
        true => Ipv4Addr::from(u32::from(POOL4.0) + scenario.clients as u32 - 1),
        false => POOL4.1,
    };
    Ok(ServerParams {
        scripts: None,
        control,
        data: data(scenario, 0),
        address4: Ipv4Net::new(SERVER4, 16).ok(),
        pool4: Some((POOL4.0, last)),
        address6: Ipv6Net::new(SERVER6, 64).ok(),
        pool6: Ipv6Net::new(POOL6, 64).ok(),
        push,
        routes: Vec::new(),
        table: RouteTable::Main,
        keepalive: keepalive(scenario, 0),
        limits: if scenario.server.pushes_limits { PeerLimits::default() } else { scenario.limits },
        client_to_client: scenario.server.client_to_client,
        duplicate_cn: false,
        max_clients: 250,
        exit_notify: if point_to_point.is_some() { ExitNotify::Off } else { ExitNotify::Restart },
        per_client: PerClientParams { ask: scenario.server.client_configs, remembered: leases },
        access: access(scenario),
        admission: AdmissionParams { v2, ..AdmissionParams::default() },
        point_to_point,
    })
}

fn access(scenario: &Scenario) -> AccessParams {
    let script = |name: &str| scenario.auth.scripts.then(|| vec![name.to_owned()]);
    let verify = |argv| PasswordScript { argv, by_file: true };
    AccessParams {
        verify: script(VERIFY_PASSWORD).filter(|_| scenario.auth.passwords).map(verify),
        tls_verify: script("/certificate"),
        client_connect: script("/connect"),
        client_disconnect: script("/leave"),
        learn_address: script(LEARN_ADDRESS).filter(|_| scenario.auth.learn_address),
        client_crresponse: script(CLIENT_CRRESPONSE).filter(|_| scenario.auth.challenges),
        management: scenario.auth.management,
        ..AccessParams::default()
    }
}

fn set_timing(control: &mut ControlParams, scenario: &Scenario, end: usize) {
    control.rekey.handshake = scenario.control.timing[end].hand_window;
    control.rekey.after = scenario.control.timing[end].reneg;
    control.rekey.retransmit = scenario.control.timing[end].retransmit;
    control.rekey.transition = scenario.control.tran_window;
    control.max_packet_size = scenario.control.max_packet_size;
}

fn wall(skew: i64) -> UnixTime {
    UnixTime(WALL_AT_ORIGIN.saturating_add_signed(skew))
}
