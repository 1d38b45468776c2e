//! Any device, sockets, routes and process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use adit_core::{IpNet, Route, RouteVia};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{net4, net6, seconds, text};
use crate::model::*;

pub(crate) fn socket() -> impl Strategy<Value = SocketOptions> {
    let flags = any::<[bool; 4]>();
    let mtu_disc = option::of(proptest::sample::select(MtuDiscovery::ALL.map(|(mode, _)| mode).to_vec()));
    let sizes = (option::of(154..=2048u16), mtu_disc);
    let routing = (option::of(1..=u32::MAX), option::of("[a-z][a-z0-9.-]{0,14}"));
    let buffers = (option::of(1..1_000_000u32), option::of(1..1_000_000u32));
    (buffers, flags, sizes, routing).prop_map(
        |((sndbuf, rcvbuf), flags, (control_size, mtu_disc), (mark, device))| {
            let [float, multihome, tcp_nodelay, passtos] = flags;
            SocketOptions {
                mtu_disc,
                mark,
                device: device.map(|name| name.parse().unwrap()),
                passtos,
                control_size,
                sndbuf,
                rcvbuf,
                float,
                multihome,
                tcp_nodelay,
            }
        },
    )
}

/// A program with its arguments.
fn argv() -> impl Strategy<Value = Vec<String>> {
    ("/[a-z /]{1,9}", vec("[ -~]{0,9}", 0..2)).prop_map(|(program, mut rest)| {
        rest.insert(0, program);
        rest
    })
}

pub(crate) fn scripts() -> impl Strategy<Value = TunnelScripts> {
    let commands = [argv(), argv(), argv(), argv(), argv(), argv()].map(option::of);
    let names = prop_oneof![
        Just(NameServerSetting::Default),
        Just(NameServerSetting::Force),
        Just(NameServerSetting::Disable),
        argv().prop_map(NameServerSetting::Script),
    ];
    let rest =
        (option::of(seconds(1..99)), option::of(any::<Ipv4Addr>()), vec(("[a-z]{1,9}", "[ -~]{0,9}"), 0..3));
    (commands, names, any::<[bool; 5]>(), rest).prop_map(|(commands, names, flags, (delay, gateway, env))| {
        let [up, down, route_up, route_pre_down, ip_change, tls_verify] = commands;
        let [at_restarts, down_before_close, keeps_device, leaves_device, leaves_routes] = flags;
        TunnelScripts {
            up,
            down,
            route_up,
            route_pre_down,
            ip_change,
            tls_verify,
            names,
            at_restarts,
            down_before_close,
            keeps_device,
            leaves_device,
            leaves_routes,
            route_delay: delay,
            gateway,
            env: env.into_iter().filter(|(name, _)| name != "opt").collect(),
        }
    })
}

pub(crate) fn route() -> impl Strategy<Value = Route> {
    let v4 = (net4(), option::of(any::<Ipv4Addr>()))
        .prop_map(|(net, via)| (IpNet::V4(net.trunc()), via.map(IpAddr::V4)));
    let v6 = (net6(), option::of(any::<Ipv6Addr>()))
        .prop_map(|(net, via)| (IpNet::V6(net.trunc()), via.map(IpAddr::V6)));
    (prop_oneof![v4, v6], any::<bool>(), option::of(0..1000u32)).prop_map(
        |((destination, via), around, metric)| {
            let via = match via {
                Some(address) => RouteVia::Gateway(address),
                None if around => RouteVia::SystemGateway,
                None => RouteVia::Tunnel,
            };
            Route { destination, via, metric }
        },
    )
}

pub(crate) fn named_route() -> impl Strategy<Value = NamedRoute> {
    let via = prop_oneof![
        Just(RouteVia::Tunnel),
        Just(RouteVia::SystemGateway),
        any::<Ipv4Addr>().prop_map(|address| RouteVia::Gateway(address.into()))
    ];
    ("[a-z]{1,9}\\.[a-z]{1,9}", any::<bool>(), 0..=32u8, via, option::of(0..1000u32)).prop_map(
        |(host, ipv6, prefix, via, metric)| {
            let other = ipv6 && matches!(via, RouteVia::Gateway(_));
            let via = if other { RouteVia::Tunnel } else { via };
            NamedRoute { host, ipv6, prefix: if ipv6 { 64 } else { prefix }, via, metric }
        },
    )
}

pub(crate) fn process() -> BoxedStrategy<Process> {
    let path = || text().prop_map(PathBuf::from);
    let log = prop_oneof![
        (path(), any::<bool>()).prop_map(|(path, append)| Log::File { path, append }),
        option::of(text()).prop_map(Log::Syslog),
    ];
    let status = (path(), seconds(0..100), 1..=3u8).prop_map(|(path, every, version)| StatusFile {
        path,
        every,
        version,
    });
    let user = || option::of("[a-z]{1,9}");
    let echo = vec(text(), 0..3);
    let rest = (
        option::of(path()),
        -20..20i32,
        any::<[bool; 2]>(),
        option::of(path()),
        option::of(management()),
        echo,
    );
    (user(), user(), 0..=15u8, option::of(1..100u32), option::of(log), option::of(status), rest)
        .prop_map(|(user, group, verb, mute, log, status, rest)| {
            let (pid_file, nice, [lock_memory, stamps], tmp_dir, management, echo) = rest;
            Process {
                user,
                group,
                verb,
                mute,
                log,
                status,
                pid_file,
                nice,
                lock_memory,
                stamps,
                tmp_dir,
                management,
                echo,
            }
        })
        .boxed()
}

fn management() -> BoxedStrategy<Management> {
    let address = prop_oneof![
        ("[a-s0-9.:]{1,15}", any::<u16>()).prop_map(|(host, port)| ManagementAddress::Tcp(host, port)),
        text().prop_map(|path| ManagementAddress::Unix(path.into())),
    ];
    let password = option::of("/[a-z]{1,9}".prop_map(PathBuf::from));
    let name = || option::of("[a-z]{1,9}");
    (address, password, 1..1000u32, any::<[bool; 6]>(), name(), name())
        .prop_map(|(address, password, log_cache, flags, user, group)| {
            let [hold, query_passwords, signal, forget_disconnect, as_client, up_down] = flags;
            // `management-client-user` holds for Unix sockets only.
            let unix = matches!(address, ManagementAddress::Unix(_));
            let [client_user, client_group] = [user, group].map(|name| name.filter(|_| unix));
            Management {
                address,
                password,
                log_cache,
                hold,
                query_passwords,
                signal,
                // For clients alone.
                query_remote: false,
                query_proxy: false,
                up_down,
                forget_disconnect,
                as_client,
                client_user,
                client_group,
            }
        })
        .boxed()
}

pub(crate) fn device() -> impl Strategy<Value = Device> {
    let name = "[a-su-z0-9][a-z0-9]{0,14}|tun[0-9]{1,12}";
    let queue = option::of(1..100_000u32);
    let table = option::of(1..=u32::MAX);
    let flags = any::<[bool; 2]>();
    (option::of(name), 68..=u16::MAX, option::of(68..=u16::MAX), flags, queue, table).prop_map(
        |(name, mtu, told, [ifconfig_nowarn, is_null], txqueuelen, route_table)| Device {
            route_table,
            name: name.filter(|_| !is_null),
            is_null,
            mtu,
            told_mtu: told.filter(|told| *told != mtu),
            ifconfig_nowarn,
            txqueuelen,
        },
    )
}
