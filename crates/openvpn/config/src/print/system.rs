//! The settings of the system: the device, the sockets, the process.

use super::Out;
use crate::model::*;

pub(crate) fn print_device(out: &mut Out, device: &Device) {
    let kind = if device.is_null { "null" } else { "tun" };
    out.one("dev", device.name.as_deref().unwrap_or(kind));
    out.one("dev-type", kind);
    match device.told_mtu {
        Some(told) => out.line("tun-mtu", &[&device.mtu.to_string(), &told.to_string()]),
        None => out.one("tun-mtu", device.mtu),
    }
    if device.ifconfig_nowarn {
        out.flag("ifconfig-nowarn");
    }
    if let Some(packets) = device.txqueuelen {
        out.one("txqueuelen", packets);
    }
    if let Some(table) = device.route_table {
        out.one("route-table", table);
    }
}

pub(crate) fn print_socket(out: &mut Out, socket: &SocketOptions) {
    if let Some(bytes) = socket.sndbuf {
        out.one("sndbuf", bytes);
    }
    if let Some(bytes) = socket.rcvbuf {
        out.one("rcvbuf", bytes);
    }
    if let Some(bytes) = socket.control_size {
        out.one("max-packet-size", bytes);
    }
    if let Some(mark) = socket.mark {
        out.one("mark", mark);
    }
    if let Some(device) = socket.device {
        out.one("bind-dev", device);
    }
    if let Some((_, mode)) = MtuDiscovery::ALL.iter().find(|(mode, _)| Some(*mode) == socket.mtu_disc) {
        out.one("mtu-disc", mode);
    }
    if socket.passtos {
        out.flag("passtos");
    }
    if socket.multihome {
        out.flag("multihome");
    }
    if socket.float {
        out.flag("float");
    }
    if socket.tcp_nodelay {
        out.one("socket-flags", "TCP_NODELAY");
    }
}

pub(crate) fn print_process(out: &mut Out, process: &Process) {
    if let Some(user) = &process.user {
        out.one("user", user);
    }
    if let Some(group) = &process.group {
        out.one("group", group);
    }
    if process.user.is_some() || process.group.is_some() {
        // adit keeps it in any case. OpenVPN could not get it back as another user.
        out.flag("persist-key");
    }
    out.one("verb", process.verb);
    if let Some(messages) = process.mute {
        out.one("mute", messages);
    }
    if !process.stamps {
        out.flag("suppress-timestamps");
    }
    match &process.log {
        None => {}
        Some(Log::File { path, append: false }) => out.one("log", path.display()),
        Some(Log::File { path, append: true }) => out.one("log-append", path.display()),
        Some(Log::Syslog(None)) => out.flag("syslog"),
        Some(Log::Syslog(Some(name))) => out.one("syslog", name),
    }
    if let Some(status) = &process.status {
        out.line("status", &[status.path.display().to_string(), status.every.as_secs().to_string()]);
        out.one("status-version", status.version);
    }
    if let Some(path) = &process.pid_file {
        out.one("writepid", path.display());
    }
    if process.nice != 0 {
        out.one("nice", process.nice);
    }
    if process.lock_memory {
        out.flag("mlock");
    }
    if let Some(path) = &process.tmp_dir {
        out.one("tmp-dir", path.display());
    }
    if let Some(management) = &process.management {
        print_management(out, management);
    }
    process.echo.iter().for_each(|text| out.one("echo", text));
}

fn print_management(out: &mut Out, management: &Management) {
    let mut words = match &management.address {
        ManagementAddress::Tcp(host, port) => vec![host.clone(), port.to_string()],
        ManagementAddress::Unix(path) => vec![path.display().to_string(), "unix".to_owned()],
    };
    words.extend(management.password.as_ref().map(|path| path.display().to_string()));
    out.line("management", &words);
    out.one("management-log-cache", management.log_cache);
    let flags = [
        (management.hold, "management-hold"),
        (management.query_passwords, "management-query-passwords"),
        (management.signal, "management-signal"),
        (management.query_remote, "management-query-remote"),
        (management.query_proxy, "management-query-proxy"),
        (management.up_down, "management-up-down"),
        (management.forget_disconnect, "management-forget-disconnect"),
        (management.as_client, "management-client"),
    ];
    flags.into_iter().filter(|(set, _)| *set).for_each(|(_, name)| out.flag(name));
    if let Some(user) = &management.client_user {
        out.one("management-client-user", user);
    }
    if let Some(group) = &management.client_group {
        out.one("management-client-group", group);
    }
}
