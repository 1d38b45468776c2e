//! A configuration as text that [`super::parse`] reads back to the same configuration, and OpenVPN reads too.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use adit_core::{
    Cipher, CompressionFraming, Dns, IdleLimit, IpNet, Ipv4Net, Ipv6Net, RedirectGateway, ReplayWindow,
    Route, RouteVia, SessionLimits, Transport,
};
use zeroize::Zeroizing;

use super::model::*;

impl Config {
    /// The configuration as one file, certificates and keys inline. Secret if the configuration holds a key.
    ///
    /// Macros such as `server` and `keepalive` come out as what they stand for.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Keys are copied into the text once: it never grows beyond what is reserved here.
        let identity = self.tls.identity.as_ref().map_or(0, |it| it.cert.text().len() + it.key.text().len());
        let identity = identity + self.tls.pkcs12.as_ref().map_or(0, |packed| packed.text().len());
        let secrets = self.tls.ca.as_ref().map_or(0, |ca| ca.text().len()) + identity;
        let mut out = Out(Zeroizing::new(String::with_capacity(secrets + (64 << 10))));
        match &self.role {
            Role::Client(client) => print_client(&mut out, client, self.secret.is_some()),
            Role::Server(server) => print_server(&mut out, server),
            Role::Point(point) => print_point(&mut out, point, self.secret.is_some()),
        }
        print_device(&mut out, &self.device);
        match &self.secret {
            None => print_tls(&mut out, &self.tls, !matches!(self.role, Role::Client(_))),
            Some(secret) => print_secret(&mut out, secret),
        }
        print_data(&mut out, &self.data);
        match self.keepalive() {
            Some((ping, timeout)) => out.line("keepalive", &[ping.to_string(), timeout.to_string()]),
            None => print_liveness(&mut out, &self.liveness),
        }
        print_limits(&mut out, &self.limits);
        if self.secret.is_none() {
            print_rekey(&mut out, &self.rekey);
        }
        print_socket(&mut out, &self.socket);
        self.routes.iter().for_each(|route| print_route(&mut out, route));
        self.named_routes.iter().for_each(|route| print_named_route(&mut out, route));
        print_process(&mut out, &self.process);
        match &self.wrap {
            Wrap::None => {}
            Wrap::TlsAuth { key, direction } => {
                print_direction(&mut out, *direction);
                out.block("tls-auth", &key.to_text());
            }
            Wrap::TlsCrypt { key } => out.block("tls-crypt", &key.to_text()),
            Wrap::TlsCryptV2 { key } => out.block("tls-crypt-v2", &key.to_text()),
        }
        if let Some(ca) = &self.tls.ca {
            out.block("ca", ca.text());
        }
        if let Some(identity) = &self.tls.identity {
            out.block("cert", identity.cert.text());
            out.block("key", identity.key.text());
        }
        if let Some(packed) = &self.tls.pkcs12 {
            out.block("pkcs12", packed.text());
        }
        out.0
    }

    /// The values of a `keepalive` that says for a server, and to its clients, what the liveness says.
    fn keepalive(&self) -> Option<(u64, u64)> {
        let Role::Server(server) = &self.role else { return None };
        let Liveness { ping: Some(ping), timeout: Some(wait), on_timeout: OnTimeout::Restart } =
            self.liveness
        else {
            return None;
        };
        let (ping, timeout) = (ping.as_secs(), wait.as_secs() / 2);
        let pushed = |option: String| server.push.contains(&option);
        (wait.as_secs() == timeout * 2
            && ping * 2 <= timeout
            && pushed(format!("ping {ping}"))
            && pushed(format!("ping-restart {timeout}")))
        .then_some((ping, timeout))
    }
}

pub(super) struct Out(Zeroizing<String>);

impl Out {
    fn flag(&mut self, name: &str) {
        self.line::<&str>(name, &[]);
    }

    pub(super) fn one(&mut self, name: &str, value: impl fmt::Display) {
        self.line(name, &[value.to_string()]);
    }

    pub(super) fn line<S: AsRef<str>>(&mut self, name: &str, words: &[S]) {
        self.0.push_str(name);
        for word in words {
            self.0.push(' ');
            self.word(word.as_ref());
        }
        self.0.push('\n');
    }

    /// A word with quotes and escapes if it needs them.
    fn word(&mut self, word: &str) {
        let odd = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#' | ';');
        if !word.is_empty() && !word.contains(odd) {
            self.0.push_str(word);
            return;
        }
        self.0.push('"');
        for c in word.chars() {
            if matches!(c, '"' | '\\') {
                self.0.push('\\');
            }
            self.0.push(c);
        }
        self.0.push('"');
    }

    pub(super) fn block(&mut self, name: &str, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "<{name}>\n{}\n</{name}>", text.trim_end_matches('\n'));
    }

    fn seconds(&mut self, name: &str, duration: Duration) {
        self.one(name, duration.as_secs());
    }
}

fn protocol(transport: Transport, family: Family) -> &'static str {
    match (transport, family) {
        (Transport::Udp, Family::Any) => "udp",
        (Transport::Udp, Family::V4) => "udp4",
        (Transport::Udp, Family::V6) => "udp6",
        (Transport::Tcp, Family::Any) => "tcp",
        (Transport::Tcp, Family::V4) => "tcp4",
        (Transport::Tcp, Family::V6) => "tcp6",
    }
}

fn print_direction(out: &mut Out, direction: Option<KeyDirection>) {
    match direction {
        None => {}
        Some(KeyDirection::Normal) => out.line("key-direction", &["0"]),
        Some(KeyDirection::Inverse) => out.line("key-direction", &["1"]),
    }
}

/// The cipher is among what is said of the data channel.
fn print_secret(out: &mut Out, secret: &SharedSecret) {
    out.flag("allow-deprecated-insecure-static-crypto");
    print_direction(out, secret.direction);
    out.block("secret", &secret.key.to_text());
}

fn print_client(out: &mut Out, client: &ClientConfig, has_secret: bool) {
    if !has_secret {
        out.flag(if client.pull { "client" } else { "tls-client" });
    }
    for remote in &client.remotes {
        print_remote(out, remote, client.pull);
    }
    if client.remote_random_hostname {
        out.flag("remote-random-hostname");
    }
    if client.remote_random {
        out.flag("remote-random");
    }
    if let Some(limit) = client.resolve_retry {
        out.seconds("resolv-retry", limit);
    }
    let (first, longest) = (client.connect_retry.as_secs(), client.connect_retry_longest.as_secs());
    out.line("connect-retry", &[first.to_string(), longest.to_string()]);
    if let Some(rounds) = client.connect_retry_max {
        out.one("connect-retry-max", rounds);
    }
    if client.route_nopull {
        out.flag("route-nopull");
    }
    for filter in &client.pull_filters {
        let action = match filter.action {
            PullAction::Accept => "accept",
            PullAction::Ignore => "ignore",
            PullAction::Reject => "reject",
        };
        out.line("pull-filter", &[action, &filter.prefix]);
    }
    if let Some(metric) = client.route_metric {
        out.one("route-metric", metric);
    }
    if let Some(flags) = &client.redirect_gateway {
        print_redirect(out, flags);
    }
    print_dns(out, &client.dns);
    if client.peer_info.iter().any(|(name, _)| name.starts_with("UV_")) {
        out.flag("push-peer-info");
    }
    for (name, value) in &client.peer_info {
        out.line("setenv", &[name, value]);
    }
    if client.tls_exit {
        out.flag("tls-exit");
    }
    out.one("tun-mtu-max", client.max_pushed_mtu);
    print_addresses(out, client.ipv4, client.ipv6);
    if let Some(auth) = &client.auth {
        match &auth.source {
            UserPass::Prompt => out.flag("auth-user-pass"),
            UserPass::File(path) => out.one("auth-user-pass", path.display()),
            UserPass::Inline(text) => out.block("auth-user-pass", text.text()),
        }
        match auth.retry {
            AuthRetry::None => {}
            AuthRetry::NoInteract => out.one("auth-retry", "nointeract"),
            AuthRetry::Interact => out.one("auth-retry", "interact"),
        }
        if auth.nocache {
            out.flag("auth-nocache");
        }
        if let Some(StaticChallenge { text, echo, concat }) = &auth.challenge {
            let echo = if *echo { "1" } else { "0" };
            out.line("static-challenge", &[text.as_str(), echo, if *concat { "concat" } else { "scrv1" }]);
        }
    }
}

/// `ifconfig` and `ifconfig-ipv6`.
fn print_addresses(out: &mut Out, ipv4: Option<StaticIpv4>, ipv6: Option<(Ipv6Net, Ipv6Addr)>) {
    match ipv4 {
        None => {}
        Some(StaticIpv4::Subnet(net)) => {
            out.one("topology", "subnet");
            print_ifconfig(out, net);
        }
        Some(StaticIpv4::PointToPoint { local, peer }) => {
            out.line("ifconfig", &[local.to_string(), peer.to_string()]);
        }
    }
    if let Some((net, peer)) = ipv6 {
        out.line("ifconfig-ipv6", &[net.to_string(), peer.to_string()]);
    }
}

fn print_point(out: &mut Out, point: &PointConfig, has_secret: bool) {
    match has_secret {
        false => out.flag("tls-server"),
        // Who names the other end connects, unless it says this first.
        true if !point.remotes.is_empty() => out.one("proto", "tcp-server"),
        true => {}
    }
    print_listen(out, &point.listen);
    if let [Listen { transport: Transport::Tcp, family, .. }] = point.listen[..] {
        out.one("proto", format!("{}-server", protocol(Transport::Tcp, family)));
    }
    for host in &point.remotes {
        out.one("remote", host);
    }
    print_addresses(out, point.ipv4, point.ipv6);
    print_admission(out, &Admission { tls_crypt_v2: point.tls_crypt_v2.clone(), ..Admission::default() });
    if point.exit_notify > 0 {
        out.one("explicit-exit-notify", point.exit_notify);
    }
    if point.single {
        out.flag("single-session");
    }
}

/// Every remote in a block of its own, so that nothing of one holds for another.
fn print_remote(out: &mut Out, remote: &Remote, pull: bool) {
    out.flag("<connection>");
    let proto = protocol(remote.transport, remote.family);
    // Between two points OpenVPN wants to hear who connects.
    let side = if !pull && remote.transport == Transport::Tcp { "-client" } else { "" };
    out.line("remote", &[&remote.host, &remote.port.to_string(), &format!("{proto}{side}")]);
    match remote.bind {
        None => out.flag("nobind"),
        Some(bind) => {
            if let Some(address) = bind.address {
                out.one("local", address);
            }
            out.one("lport", bind.port);
        }
    }
    out.seconds("connect-timeout", remote.connect_timeout);
    if remote.exit_notify > 0 {
        out.one("explicit-exit-notify", remote.exit_notify);
    }
    out.flag("</connection>");
}

fn print_dns(out: &mut Out, dns: &Dns) {
    dns.servers.iter().for_each(|server| out.line("dhcp-option", &["DNS", &server.to_string()]));
    dns.search.iter().for_each(|domain| out.line("dhcp-option", &["DOMAIN", domain]));
    dns.only_for.iter().for_each(|domain| out.line("dhcp-option", &["DOMAIN-ROUTE", domain]));
}

fn print_redirect(out: &mut Out, flags: &RedirectGateway) {
    let words = [
        (!flags.ipv4, "!ipv4"),
        (flags.ipv6, "ipv6"),
        (flags.def1, "def1"),
        (flags.local, "local"),
        (flags.autolocal, "autolocal"),
        (flags.block_local, "block-local"),
        (flags.bypass_dhcp, "bypass-dhcp"),
        (flags.bypass_dns, "bypass-dns"),
    ];
    let words: Vec<_> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    out.line("redirect-gateway", &words);
}

fn print_ifconfig(out: &mut Out, net: Ipv4Net) {
    out.line("ifconfig", &[net.addr().to_string(), net.netmask().to_string()]);
}

/// OpenVPN 2.6 knows one place to listen; 2.7 knows several, with a port and a protocol each.
fn print_listen(out: &mut Out, listen: &[Listen]) {
    if let [Listen { address, port, transport, family }] = listen {
        out.one("port", port);
        out.one("proto", protocol(*transport, *family));
        if let Some(address) = address {
            out.one("local", address);
        }
        return;
    }
    for Listen { address, port, transport, family } in listen {
        let address = address.map_or("*".to_string(), |address| address.to_string());
        out.line("local", &[&address, &port.to_string(), protocol(*transport, *family)]);
    }
}

fn print_server(out: &mut Out, server: &ServerConfig) {
    out.one("mode", "server");
    out.flag("tls-server");
    // OpenVPN 2.6 wants to be told.
    out.one("dh", "none");
    out.one("topology", "subnet");
    print_listen(out, &server.listen);
    if let Some(ipv4) = &server.ipv4 {
        print_ifconfig(out, ipv4.address);
        if let Some((first, last)) = ipv4.pool {
            let mask = ipv4.address.netmask();
            out.line("ifconfig-pool", &[first.to_string(), last.to_string(), mask.to_string()]);
        }
    }
    if let Some(ipv6) = &server.ipv6 {
        // The peer's address is asked for and not used: any other of the network will do.
        let peer = Ipv6Addr::from(u128::from(ipv6.address.network()).wrapping_add(2));
        out.line("ifconfig-ipv6", &[ipv6.address.to_string(), peer.to_string()]);
        if let Some(pool) = ipv6.pool {
            out.one("ifconfig-ipv6-pool", pool);
        }
    }
    for option in &server.push {
        out.line("push", &[option]);
    }
    if server.client_to_client {
        out.flag("client-to-client");
    }
    if server.duplicate_cn {
        out.flag("duplicate-cn");
    }
    out.one("max-clients", server.max_clients);
    print_admission(out, &server.admission);
    if server.exit_notify > 0 {
        out.one("explicit-exit-notify", server.exit_notify);
    }
    print_per_client(out, &server.per_client);
    print_access(out, &server.access);
}

fn print_access(out: &mut Out, access: &Access) {
    if access.export_certificates {
        // Where the files are, `tmp-dir` says.
        out.one("tls-export-cert", "/tmp");
    }
    let scripts = [
        ("tls-verify", &access.tls_verify),
        ("tls-crypt-v2-verify", &access.key_verify),
        ("client-crresponse", &access.client_crresponse),
        ("client-connect", &access.client_connect),
        ("client-disconnect", &access.client_disconnect),
        ("learn-address", &access.learn_address),
    ];
    if access.verify.is_some() || scripts.iter().any(|(_, script)| script.is_some()) {
        let by_env = access.verify.as_ref().is_some_and(|verify| !verify.by_file);
        out.one("script-security", if by_env { 3 } else { 2 });
    }
    if let Some(verify) = &access.verify {
        let via = if verify.by_file { "via-file" } else { "via-env" };
        out.line("auth-user-pass-verify", &[&command(&verify.argv), via]);
    }
    for (name, script) in scripts {
        if let Some(argv) = script {
            out.one(name, command(argv));
        }
    }
    match access.certificates {
        ClientCertificates::Require => {}
        ClientCertificates::Optional => out.one("verify-client-cert", "optional"),
        ClientCertificates::None => out.one("verify-client-cert", "none"),
    }
    if access.optional {
        out.flag("auth-user-pass-optional");
    }
    if access.username_as_name {
        out.flag("username-as-common-name");
    }
    if let Some(times) = &access.tokens {
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs().to_string();
        let mut words = vec![seconds(times.lifetime), seconds(times.renewal)];
        words.extend(times.external.then(|| "external-auth".to_owned()));
        out.line("auth-gen-token", &words);
    }
    if let Some(secret) = &access.token_secret {
        out.block("auth-gen-token-secret", &secret.to_text());
    }
    for (name, value) in &access.env {
        out.line("setenv", &[name, value]);
    }
}

/// A command line as one word.
fn command(argv: &[String]) -> String {
    let mut line = Out(Zeroizing::new(String::new()));
    for (index, word) in argv.iter().enumerate() {
        if index > 0 {
            line.0.push(' ');
        }
        line.word(word);
    }
    line.0.to_string()
}

fn print_admission(out: &mut Out, admission: &Admission) {
    let limits =
        [("connect-freq", admission.connect_freq), ("connect-freq-initial", admission.connect_freq_initial)];
    for (name, limit) in limits {
        if let Some(Frequency { count, period }) = limit {
            out.line(name, &[count.to_string(), period.as_secs().to_string()]);
        }
    }
    let Some(TlsCryptV2 { key, force_cookie, max_age }) = &admission.tls_crypt_v2 else { return };
    if let Some(age) = max_age {
        out.one("tls-crypt-v2-max-age", age.as_secs() / 86_400);
    }
    if *force_cookie {
        // A block takes no argument.
        out.line("tls-crypt-v2", &["[inline]", "force-cookie"]);
    }
    out.block("tls-crypt-v2", &key.to_text());
}

fn print_per_client(out: &mut Out, per_client: &PerClient) {
    if let Some(directory) = &per_client.directory {
        out.one("client-config-dir", directory.display());
    }
    if per_client.exclusive {
        out.flag("ccd-exclusive");
    }
    if let Some(PoolFile { path, every }) = &per_client.pool_file {
        let seconds = every.unwrap_or_default().as_secs().to_string();
        out.line("ifconfig-pool-persist", &[&path.display().to_string(), &seconds]);
    }
}

fn print_device(out: &mut Out, device: &Device) {
    out.one("dev", device.name.as_deref().unwrap_or("tun"));
    out.one("dev-type", "tun");
    out.one("tun-mtu", device.mtu);
    if let Some(packets) = device.txqueuelen {
        out.one("txqueuelen", packets);
    }
}

fn version(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V1_2 => "1.2",
        TlsVersion::V1_3 => "1.3",
    }
}

fn print_tls(out: &mut Out, tls: &Tls, is_server: bool) {
    out.one("tls-version-min", version(tls.version_min));
    if let Some(max) = tls.version_max {
        out.one("tls-version-max", version(max));
    }
    let lists =
        [("tls-cipher", &tls.ciphers), ("tls-ciphersuites", &tls.suites), ("tls-groups", &tls.groups)];
    for (name, list) in lists {
        if !list.is_empty() {
            let names: Vec<_> = list.iter().map(|name| name.name).collect();
            out.one(name, names.join(":"));
        }
    }
    if tls.cert_profile == CertProfile::SuiteB {
        out.one("tls-cert-profile", "suiteb");
    }
    if let KeyPassword::File(path) = &tls.key_password {
        out.one("askpass", path.display());
    }
    super::peer::print(out, &tls.peer, is_server);
    match &tls.crl {
        None => {}
        Some(Crl::Inline(lists)) => out.block("crl-verify", lists.text()),
        Some(Crl::File(path)) => out.one("crl-verify", path.display()),
        Some(Crl::Directory(path)) => out.line("crl-verify", &[&path.display().to_string(), "dir"]),
    }
}

fn print_data(out: &mut Out, data: &DataChannel) {
    let names: Vec<_> = data.ciphers.iter().copied().map(Cipher::name).collect();
    out.one("data-ciphers", names.join(":"));
    if let Some(cipher) = data.fallback {
        out.one("data-ciphers-fallback", cipher);
    }
    if let Some(cipher) = data.cipher {
        out.one("cipher", cipher);
    }
    if data.before_2_7 {
        out.one("compat-mode", if data.before_2_6 { "2.5.0" } else { "2.6.0" });
    }
    out.one("auth", data.auth);
    match data.compression {
        CompressionFraming::None => {}
        CompressionFraming::LzoNo => out.one("comp-lzo", "no"),
        CompressionFraming::Stub => out.one("compress", "stub"),
        CompressionFraming::StubV2 => out.one("compress", "stub-v2"),
    }
    let ReplayWindow { packets, time } = data.replay_window;
    out.line("replay-window", &[packets.to_string(), time.as_secs().to_string()]);
    match data.mssfix {
        Mssfix::Default => {}
        Mssfix::Off => out.one("mssfix", 0),
        Mssfix::Payload(bytes) => out.one("mssfix", bytes),
        Mssfix::Outer(bytes) => out.line("mssfix", &[&bytes.to_string(), "mtu"]),
        Mssfix::Fixed(bytes) => out.line("mssfix", &[&bytes.to_string(), "fixed"]),
    }
}

fn print_liveness(out: &mut Out, liveness: &Liveness) {
    if let Some(ping) = liveness.ping {
        out.seconds("ping", ping);
    }
    let name = match liveness.on_timeout {
        OnTimeout::Restart => "ping-restart",
        OnTimeout::Exit => "ping-exit",
    };
    if liveness.timeout.is_some() || liveness.on_timeout == OnTimeout::Exit {
        out.seconds(name, liveness.timeout.unwrap_or_default());
    }
}

fn print_limits(out: &mut Out, limits: &SessionLimits) {
    if let Some(IdleLimit { after, bytes }) = limits.idle {
        out.line("inactive", &[after.as_secs().to_string(), bytes.to_string()]);
    }
    if let Some(length) = limits.length {
        out.seconds("session-timeout", length);
    }
}

fn print_rekey(out: &mut Out, rekey: &Rekey) {
    out.seconds("reneg-sec", rekey.after.unwrap_or_default());
    for (name, limit) in [("reneg-bytes", rekey.bytes), ("reneg-pkts", rekey.packets)] {
        if limit > 0 {
            out.one(name, limit);
        }
    }
    out.seconds("tran-window", rekey.transition);
    out.seconds("hand-window", rekey.handshake);
    out.seconds("tls-timeout", rekey.retransmit);
}

fn print_socket(out: &mut Out, socket: &SocketOptions) {
    if let Some(bytes) = socket.sndbuf {
        out.one("sndbuf", bytes);
    }
    if let Some(bytes) = socket.rcvbuf {
        out.one("rcvbuf", bytes);
    }
    if let Some(bytes) = socket.control_size {
        out.one("max-packet-size", bytes);
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

fn print_route(out: &mut Out, route: &Route) {
    let (name, mut words) = match route.destination {
        IpNet::V4(net) => ("route", vec![net.addr().to_string(), net.netmask().to_string()]),
        IpNet::V6(net) => ("route-ipv6", vec![net.to_string()]),
    };
    let via = gateway(route.via);
    if route.metric.is_some() || route.via != RouteVia::Tunnel {
        words.push(via);
    }
    words.extend(route.metric.map(|metric| metric.to_string()));
    out.line(name, &words);
}

fn print_named_route(out: &mut Out, route: &NamedRoute) {
    let mut words = vec![route.host.clone()];
    let name = if route.ipv6 {
        "route-ipv6"
    } else {
        words.push(ipv4_mask(route.prefix).to_string());
        "route"
    };
    words.push(gateway(route.via));
    words.extend(route.metric.map(|metric| metric.to_string()));
    out.line(name, &words);
}

/// The netmask of that many ones.
fn ipv4_mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0))
}

fn gateway(via: RouteVia) -> String {
    match via {
        RouteVia::Tunnel => "vpn_gateway".to_string(),
        RouteVia::SystemGateway => "net_gateway".to_string(),
        RouteVia::Gateway(address) => address.to_string(),
    }
}

fn print_process(out: &mut Out, process: &Process) {
    if let Some(user) = &process.user {
        out.one("user", user);
    }
    if let Some(group) = &process.group {
        out.one("group", group);
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
}
