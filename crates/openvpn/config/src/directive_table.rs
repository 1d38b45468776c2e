//! The table of directives, the single definition that the parser, `adit check` and the documentation share: every directive,
//! with its arguments, its side and what becomes of it.

pub(crate) mod document;

use crate::directives::{Action, COMMAND, Directive, Handler, Side};
use crate::handlers::{
    access, auth, data, external, management, network, peer_check, plugin, process, proxy, routes, scripts,
    server, tls,
};

impl Directive {
    const fn in_connection(mut self) -> Self {
        self.in_connection = true;
        self
    }

    const fn inline(mut self) -> Self {
        self.inline = true;
        self
    }
}

const fn new(name: &'static str, usage: &'static str, side: Side, action: Action) -> Directive {
    Directive { name, usage, side, in_connection: false, inline: false, action }
}

const fn both(name: &'static str, usage: &'static str, handler: Handler) -> Directive {
    new(name, usage, Side::Any, Action::Use(handler))
}

const fn client(name: &'static str, usage: &'static str, handler: Handler) -> Directive {
    new(name, usage, Side::Client, Action::Use(handler))
}

const fn server(name: &'static str, usage: &'static str, handler: Handler) -> Directive {
    new(name, usage, Side::Server, Action::Use(handler))
}

const fn per_client(name: &'static str, usage: &'static str) -> Directive {
    new(name, usage, Side::ClientFile, Action::PerClient)
}

const fn kept(name: &'static str, usage: &'static str, handler: Handler, why: &'static str) -> Directive {
    new(name, usage, Side::Any, Action::Keep(handler, why))
}

const fn ignored(name: &'static str, usage: &'static str, why: &'static str) -> Directive {
    new(name, usage, Side::Any, Action::Ignore(why)).in_connection().inline()
}

const fn refused(name: &'static str, instead: &'static str) -> Directive {
    new(name, "[ARGUMENT] ...", Side::Any, Action::Refuse(instead)).in_connection().inline()
}

const fn command(name: &'static str, usage: &'static str) -> Directive {
    new(name, usage, Side::Any, Action::Refuse(COMMAND)).in_connection().inline()
}

const PROXY_RETRIES: &str =
    "a connection that fails is tried again, by a proxy too: `connect-retry`, `connect-retry-max`";
const NO_TAP: &str = "adit carries IP packets (tun) only, no Ethernet; use `dev tun`";
const NO_STORE: &str = "it concerns Windows only; a key on a smart card is reached by `pkcs11-id`";
const NO_LEGACY: &str = "it weakens or breaks the tunnel and OpenVPN drops it too; remove it";
const WINDOWS: &str = "it concerns Windows only";
const BATCHES: &str = "adit sizes its own buffers and always works in batches";
const PERSISTS: &str = "adit always keeps keys, device and addresses when it connects anew";

/// Every directive that OpenVPN 2.7 knows, and those of older versions that still stand in files.
#[rustfmt::skip]
pub(crate) static DIRECTIVES: &[Directive] = &[
    // Side and addresses
    client("client", "", network::client),
    client("pull", "", network::pull),
    both("mode", "MODE", network::mode),
    both("tls-client", "", network::tls_client),
    both("tls-server", "", network::tls_server),
    both("dev", "NAME", network::dev),
    both("dev-type", "TYPE", network::dev_type),
    both("topology", "TOPOLOGY", network::topology),
    both("proto", "PROTOCOL", network::proto).in_connection(),
    both("port", "PORT", network::port).in_connection(),
    both("lport", "PORT", network::lport).in_connection(),
    both("rport", "PORT", network::rport).in_connection(),
    both("local", "ADDRESS [PORT] [PROTOCOL]", network::local).in_connection(),
    both("bind", "", network::bind).in_connection(),
    both("nobind", "", network::nobind).in_connection(),
    client("remote", "HOST [PORT] [PROTOCOL]", network::remote).in_connection(),
    client("http-proxy", "HOST PORT [FILE|stdin|auto|auto-nct] [none|basic|digest]", proxy::http_proxy).in_connection(),
    client("http-proxy-option", "OPTION VALUE [VALUE]", proxy::http_proxy_option).in_connection(),
    client("http-proxy-user-pass", "FILE", proxy::http_proxy_user_pass).inline(),
    client("socks-proxy", "HOST [PORT] [FILE]", proxy::socks_proxy).in_connection(),
    client("remote-random", "", network::remote_random),
    client("resolv-retry", "SECONDS", network::resolv_retry),
    client("connect-retry", "SECONDS [LONGEST]", network::connect_retry).in_connection(),
    client("connect-retry-max", "ROUNDS", network::connect_retry_max).in_connection(),
    client("connect-timeout", "SECONDS", network::connect_timeout).in_connection(),
    client("server-poll-timeout", "SECONDS", network::connect_timeout).in_connection(),
    both("explicit-exit-notify", "[TIMES]", network::exit_notify).in_connection(),
    both("float", "", network::float).in_connection(),
    client("remote-random-hostname", "", network::remote_random_hostname),
    server("multihome", "", network::multihome),
    both("mark", "MARK", network::mark),
    both("bind-dev", "DEVICE", network::bind_dev),
    both("passtos", "", network::passtos),
    both("mtu-disc", "no|maybe|yes", network::mtu_disc).in_connection(),
    both("tcp-nodelay", "", network::tcp_nodelay),
    both("socket-flags", "FLAG ...", network::socket_flags),
    both("sndbuf", "BYTES", network::sndbuf),
    both("rcvbuf", "BYTES", network::rcvbuf),
    both("tun-mtu", "BYTES [BYTES]", network::tun_mtu),
    both("txqueuelen", "PACKETS", network::txqueuelen),
    both("ifconfig", "ADDRESS PEER|NETMASK", network::ifconfig),
    both("ifconfig-ipv6", "ADDRESS/BITS PEER", network::ifconfig_ipv6),
    both("ifconfig-nowarn", "", network::ifconfig_nowarn),
    // Routes and names
    both("route", "NETWORK [NETMASK] [GATEWAY] [METRIC]", routes::route),
    both("route-ipv6", "NETWORK[/BITS] [GATEWAY] [METRIC]", routes::route_ipv6),
    kept("route-gateway", "ADDRESS|dhcp", network::route_gateway, "routes into the tunnel need no gateway"),
    both("route-metric", "METRIC", network::route_metric),
    both("route-table", "TABLE", network::route_table),
    client("route-nopull", "", routes::route_nopull),
    client("pull-filter", "accept|ignore|reject TEXT", routes::pull_filter),
    client("redirect-gateway", "[FLAG] ...", routes::redirect_gateway),
    client("block-ipv6", "", routes::block_ipv6),
    client("dhcp-option", "TYPE [VALUE]", routes::dhcp_option),
    client("dns", "WORD WORD ...", routes::dns),
    client("redirect-private", "[FLAG] ...", routes::redirect_private),
    // Server
    server("server", "NETWORK NETMASK [nopool]", server::server),
    server("server-ipv6", "NETWORK/BITS", server::server_ipv6),
    server("ifconfig-pool", "FIRST LAST [NETMASK]", server::ifconfig_pool),
    server("ifconfig-ipv6-pool", "FIRST/BITS", server::ifconfig_ipv6_pool),
    server("push", "OPTION", server::push),
    server("push-reset", "", server::push_reset),
    server("push-remove", "OPTION", server::push_remove),
    server("client-to-client", "", server::client_to_client),
    server("port-share", "HOST PORT [DIRECTORY]", server::port_share),
    server("duplicate-cn", "", server::duplicate_cn),
    server("max-clients", "CLIENTS", server::max_clients),
    server("client-config-dir", "DIRECTORY", server::client_config_dir),
    server("ccd-exclusive", "", server::ccd_exclusive),
    server("ifconfig-pool-persist", "FILE [SECONDS]", server::ifconfig_pool_persist),
    per_client("ifconfig-push", "ADDRESS NETMASK [ALIAS]"),
    per_client("ifconfig-ipv6-push", "ADDRESS/BITS [GATEWAY]"),
    per_client("iroute", "NETWORK [NETMASK]"),
    per_client("iroute-ipv6", "NETWORK[/BITS]"),
    per_client("disable", ""),
    per_client("override-username", "USERNAME"),
    server("connect-freq", "CLIENTS SECONDS", server::connect_freq),
    server("connect-freq-initial", "ANSWERS SECONDS", server::connect_freq_initial),
    server("verify-client-cert", "[none|optional|require]", access::client_certificates),
    server("auth-user-pass-verify", "COMMAND via-file|via-env", access::verify),
    server("plugin", "MODULE [ARGUMENT] ...", plugin::plugin),
    server("auth-user-pass-optional", "", access::optional),
    server("username-as-common-name", "", access::username_as_name),
    server("auth-gen-token", "[LIFETIME] [RENEWAL] [external-auth]", access::tokens),
    server("auth-gen-token-secret", "FILE", access::token_secret).inline(),
    both("tls-verify", "COMMAND", scripts::tls_verify),
    server("client-crresponse", "COMMAND", access::client_crresponse),
    server("client-connect", "COMMAND", access::client_connect),
    server("client-disconnect", "COMMAND", access::client_disconnect),
    server("learn-address", "COMMAND", access::learn_address),
    // Certificates and TLS
    both("ca", "FILE", tls::ca).inline(),
    both("capath", "DIRECTORY", tls::capath),
    both("cert", "FILE", tls::cert).inline(),
    both("extra-certs", "FILE", tls::extra_certs).inline(),
    both("key", "FILE", tls::key).inline(),
    both("pkcs12", "FILE", tls::pkcs12).inline(),
    both("askpass", "[FILE]", tls::askpass),
    client("pkcs11-providers", "PROVIDER ...", external::providers),
    client("pkcs11-id", "ID", external::id),
    client("pkcs11-id-management", "", external::id_by_management),
    client("pkcs11-pin-cache", "SECONDS", external::pin_cache),
    client("pkcs11-protected-authentication", "0|1 ...", external::protected),
    client("pkcs11-cert-private", "0|1 ...", external::private_certificates),
    ignored("pkcs11-private-mode", "MASK ...", "a key signs by `C_Sign` in any case"),
    both("tls-auth", "FILE [DIRECTION]", tls::tls_auth).inline(),
    both("tls-crypt", "FILE", tls::tls_crypt).inline(),
    both("tls-crypt-v2", "FILE [force-cookie|allow-noncookie]", tls::tls_crypt_v2).inline(),
    server("tls-crypt-v2-max-age", "DAYS", tls::tls_crypt_v2_max_age),
    server("tls-crypt-v2-verify", "COMMAND", access::key_verify),
    both("key-direction", "DIRECTION", tls::key_direction),
    both("secret", "FILE [DIRECTION]", tls::secret).inline(),
    both("allow-deprecated-insecure-static-crypto", "", tls::static_keys),
    both("tls-version-min", "VERSION [or-highest]", tls::version_min),
    both("tls-version-max", "VERSION", tls::version_max),
    both("tls-cipher", "LIST", tls::ciphers),
    both("tls-ciphersuites", "LIST", tls::suites),
    both("tls-groups", "LIST", tls::groups),
    both("ecdh-curve", "NAME", tls::ecdh_curve),
    both("remote-cert-tls", "client|server", peer_check::remote_cert_tls),
    both("remote-cert-eku", "USAGE", peer_check::remote_cert_eku),
    both("remote-cert-ku", "[BITS] ...", peer_check::remote_cert_ku),
    both("peer-fingerprint", "SHA256", peer_check::peer_fingerprint).inline(),
    both("verify-hash", "HASH [SHA256|SHA1]", peer_check::verify_hash).inline(),
    both("verify-x509-name", "NAME [subject|name|name-prefix]", peer_check::verify_x509_name),
    both("x509-username-field", "FIELD [FIELD] ...", peer_check::username_field),
    both("crl-verify", "FILE [dir]", tls::crl_verify).inline(),
    both("tls-cert-profile", "PROFILE", tls::cert_profile),
    ignored("dh", "FILE", "adit agrees on keys by elliptic curves alone, as modern peers do"),
    both("tls-exit", "", tls::tls_exit),
    both("single-session", "", tls::single_session),
    both("push-peer-info", "", tls::push_peer_info),
    ignored("engine", "[NAME]", "adit brings its own cryptography"),
    ignored("providers", "NAME ...", "adit brings its own cryptography"),
    ignored("prng", "ALGORITHM [BYTES]", "adit takes random numbers from the system"),
    both("tls-export-cert", "DIRECTORY", tls::export_certificates),
    ignored("x509-track", "ATTRIBUTE", "scripts get the certificate in `X509_…`, `tls_serial_…` and `tls_digest_…` anyway"),
    client("auth-user-pass", "[FILE]", auth::user_pass).inline(),
    client("auth-retry", "none|nointeract|interact", auth::retry),
    both("auth-nocache", "", auth::nocache),
    client("static-challenge", "TEXT ECHO [FORMAT]", auth::static_challenge),
    // Data channel
    kept("cipher", "NAME", data::cipher, "`data-ciphers` decides, as in OpenVPN since 2.6; `data-ciphers-fallback` is for peers that cannot negotiate"),
    both("data-ciphers", "LIST", data::data_ciphers),
    both("ncp-ciphers", "LIST", data::data_ciphers),
    both("data-ciphers-fallback", "NAME", data::fallback),
    both("auth", "DIGEST", data::auth),
    both("compat-mode", "VERSION", data::compat_mode),
    both("comp-lzo", "[MODE]", data::comp_lzo),
    both("compress", "[ALGORITHM]", data::compress),
    both("replay-window", "PACKETS [SECONDS]", data::replay_window),
    both("allow-compression", "MODE", data::allow_compression),
    both("mssfix", "[BYTES] [mtu|fixed]", data::mssfix),
    both("fragment", "BYTES [mtu]", data::fragment),
    both("keepalive", "PING TIMEOUT", data::keepalive),
    both("ping", "SECONDS", data::ping),
    both("ping-restart", "SECONDS", data::ping_restart),
    both("ping-exit", "SECONDS", data::ping_exit),
    both("inactive", "SECONDS [BYTES]", data::inactive),
    both("session-timeout", "SECONDS", data::session_timeout),
    both("reneg-sec", "SECONDS [LEAST]", data::reneg_sec),
    both("tran-window", "SECONDS", data::tran_window),
    both("hand-window", "SECONDS", data::hand_window),
    both("tls-timeout", "SECONDS", data::tls_timeout),
    both("reneg-bytes", "BYTES", data::reneg_bytes),
    both("reneg-pkts", "PACKETS", data::reneg_packets),
    ignored("comp-noadapt", "", "adit never compresses"),
    ignored("mute-replay-warnings", "", "adit counts replayed packets and does not log each"),
    ignored("ping-timer-rem", "", "the timer runs from the moment a peer is known"),
    ignored("disable-occ", "", "options that differ are no reason to part"),
    ignored("opt-verify", "", "what both ends must have in common is negotiated, and nothing passes without"),
    ignored("ncp-disable", "", "adit always negotiates, and falls back to `data-ciphers-fallback`"),
    // Process
    both("user", "NAME", process::user),
    both("group", "NAME", process::group),
    both("verb", "LEVEL", process::verb),
    both("mute", "MESSAGES", process::mute),
    both("log", "FILE", process::log),
    both("log-append", "FILE", process::log_append),
    both("syslog", "[NAME]", process::syslog),
    both("daemon", "[NAME]", process::daemon),
    both("suppress-timestamps", "", process::suppress_timestamps),
    both("status", "FILE [SECONDS]", process::status),
    both("status-version", "VERSION", process::status_version),
    both("writepid", "FILE", process::writepid),
    both("nice", "LEVEL", process::nice),
    both("mlock", "", process::mlock),
    both("cd", "DIRECTORY", process::cd),
    client("chroot", "DIRECTORY", process::chroot),
    both("setenv", "NAME [VALUE] ...", access::setenv),
    both("setenv-safe", "NAME [VALUE]", access::setenv),
    both("script-security", "LEVEL", access::script_security),
    both("up", "COMMAND", scripts::script),
    both("down", "COMMAND", scripts::script),
    both("route-up", "COMMAND", scripts::script),
    both("route-pre-down", "COMMAND", scripts::script),
    both("ipchange", "COMMAND", scripts::script),
    both("up-restart", "", scripts::flag),
    both("down-pre", "", scripts::flag),
    both("ifconfig-noexec", "", scripts::flag),
    both("route-noexec", "", scripts::flag),
    both("persist-tun", "", scripts::flag),
    both("route-delay", "[SECONDS] [WINDOW]", scripts::route_delay),
    both("dns-updown", "COMMAND|disable|force", scripts::dns_updown),
    both("ignore-unknown-option", "NAME ...", process::ignore_unknown),
    both("config", "FILE", process::nested),
    client("connection", "", network::connection).inline(),
    ignored("up-delay", "", "the end that connects waits for the other in any case; the end that listens does not"),
    ignored("persist-key", "", PERSISTS),
    ignored("persist-local-ip", "", "the system chooses our address for each connection, or `local` does"),
    ignored("persist-remote-ip", "", "a name is looked up anew for each connection; what it stood for last serves while it cannot be"),
    ignored("machine-readable-output", "", "adit's log is one line a message anyway"),
    ignored("errors-to-stderr", "", "errors go to the standard error anyway"),
    both("echo", "[TEXT] ...", process::echo),
    both("parameter", "[TEXT] ...", process::echo),
    both("tmp-dir", "DIRECTORY", process::tmp_dir),
    both("management", "ADDRESS|PATH PORT|unix [FILE]", management::management),
    both("management-client-user", "NAME", management::client_user),
    both("management-client-group", "NAME", management::client_group),
    both("management-log-cache", "LINES", management::log_cache),
    both("management-hold", "", management::hold),
    both("management-query-passwords", "", management::query_passwords),
    both("management-signal", "", management::signal),
    server("management-client-auth", "", management::client_auth),
    both("management-forget-disconnect", "", management::forget_disconnect),
    client("management-query-remote", "", management::query_remote),
    client("management-query-proxy", "", management::query_proxy),
    both("management-up-down", "", management::up_down),
    both("management-client", "", management::as_client),
    client("management-external-key", "[FORM] ...", external::key),
    client("management-external-cert", "HINT", external::certificate),
    both("remap-usr1", "SIGNAL", process::remap_usr1),
    ignored("iproute", "COMMAND", "adit speaks to the kernel itself"),
    // Harmless leftovers
    ignored("fast-io", "", BATCHES),
    ignored("bcast-buffers", "BUFFERS", BATCHES),
    ignored("tcp-queue-limit", "PACKETS", BATCHES),
    ignored("hash-size", "REAL VIRTUAL", "adit's tables grow with what they hold"),
    ignored("tun-mtu-extra", "BYTES", "it is room for the headers of Ethernet, which adit does not carry"),
    ignored("disable-dco", "", "adit moves packets in its own process"),
    ignored("tun-ipv6", "", "the tunnel always carries IPv6"),
    ignored("link-mtu", "BYTES", "the packet size follows from `tun-mtu` and `mssfix`"),
    ignored("udp-mtu", "BYTES", "the packet size follows from `tun-mtu` and `mssfix`"),
    ignored("http-proxy-retry", "", PROXY_RETRIES),
    ignored("http-proxy-timeout", "SECONDS", "`connect-timeout` holds for a proxy too"),
    ignored("socks-proxy-retry", "", PROXY_RETRIES),
    ignored("mtu-test", "", "adit does not measure the path"),
    both("max-packet-size", "BYTES", network::max_packet_size).in_connection(),
    both("tun-mtu-max", "BYTES", network::tun_mtu_max),
    ignored("route-method", "METHOD", WINDOWS),
    ignored("max-routes", "[ROUTES]", "OpenVPN has dropped it too"),
    ignored("max-routes-per-client", "ROUTES", "a client has its own addresses and the networks that its file or a script names, no others"),
    ignored("stale-routes-check", "SECONDS [AGE]", "a client has no learned routes"),
    ignored("allow-recursive-routing", "", "the server's address is kept outside the tunnel by a route"),
    ignored("preresolve", "[HINT]", "names are resolved when they are needed"),
    ignored("ip-remote-hint", "[HINT]", "names are resolved when they are needed"),
    ignored("shaper", "BYTES", "adit holds no packet back; shape the device with `tc`"),
    ignored("replay-persist", "FILE", "a first packet is answered by a cookie, which one repeated from an earlier run does not know"),
    ignored("compat-names", "[MODE] [MODE]", "OpenVPN has dropped it too"),
    ignored("no-name-remapping", "", "OpenVPN has dropped it too"),
    ignored("allow-pull-fqdn", "", "adit takes no names of hosts from a server; pushed routes are addresses"),
    ignored("key-method", "METHOD", "it is always 2"),
    ignored("keysize", "BITS", "each cipher that adit has comes with the length of its key"),
    ignored("block-outside-dns", "", WINDOWS),
    ignored("register-dns", "", WINDOWS),
    ignored("dhcp-renew", "", WINDOWS),
    ignored("dhcp-release", "", WINDOWS),
    ignored("dhcp-pre-release", "", WINDOWS),
    ignored("win-sys", "PATH", WINDOWS),
    ignored("ip-win32", "METHOD [ARGUMENT] [ARGUMENT]", WINDOWS),
    ignored("tap-sleep", "SECONDS", WINDOWS),
    ignored("windows-driver", "NAME", WINDOWS),
    ignored("dev-node", "NODE", WINDOWS),
    ignored("service", "EVENT [STATE]", WINDOWS),
    ignored("allow-nonadmin", "[NAME]", WINDOWS),
    ignored("pause-exit", "", WINDOWS),
    ignored("show-net-up", "", WINDOWS),
    // Not yet
    refused("client-cert-not-required", "write `verify-client-cert none`"),
    refused("auth-token", "only a server pushes it; remove it from the file"),
    refused("auth-token-user", "only a server pushes it; remove it from the file"),
    refused("ifconfig-push-constraint", "addresses of `ifconfig-push` are taken as they stand; remove it"),
    refused("client-nat", "adit does not translate addresses; use nftables"),
    refused("route-ipv6-gateway", "name the gateway in each `route-ipv6`"),
    refused("ns-cert-type", "it rests on a dead certificate extension; write `remote-cert-tls`"),
    refused("force-tls-key-material-export", "adit uses it whenever the peer can; remove it"),
    refused("protocol-flags", "only a server pushes it; remove it from the file"),
    refused("key-derivation", "only a server pushes it; remove it from the file"),
    refused("peer-id", "only a server pushes it; remove it from the file"),
    refused("push-continuation", "only a server pushes it; remove it from the file"),
    refused("keying-material-exporter", "it is only for plugins; remove it"),
    refused("setcon", "set the security context in the service manager (`SELinuxContext=`)"),
    refused("proto-force", "remove the `remote` lines of the other protocol"),
    refused("msg-channel", "it concerns Windows only; remove it"),
    refused("lladdr", NO_TAP),
    refused("server-bridge", NO_TAP),
    refused("vlan-tagging", NO_TAP),
    refused("vlan-accept", NO_TAP),
    refused("vlan-pvid", NO_TAP),
    refused("http-proxy-override", "write `http-proxy` in its place"),
    refused("cryptoapicert", NO_STORE),
    // Never
    refused("no-replay", NO_LEGACY),
    refused("no-iv", NO_LEGACY),
    refused("mtu-dynamic", "write `fragment`, which has taken its place"),
    refused("gremlin", NO_LEGACY),
    command("genkey", "[TYPE] [FILE] [METADATA]"),
    command("help", ""),
    command("version", ""),
    command("mktun", ""),
    command("rmtun", ""),
    command("test-crypto", ""),
    command("show-adapters", ""),
    command("show-ciphers", ""),
    command("show-curves", ""),
    command("show-digests", ""),
    command("show-engines", ""),
    command("show-gateway", "[ADDRESS]"),
    command("show-groups", ""),
    command("show-net", ""),
    command("show-pkcs11-ids", "[PROVIDER] [PRIVATE]"),
    command("show-tls", ""),
    command("show-valid-subnets", ""),
];

/// The directive called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Directive> {
    DIRECTIVES.iter().find(|directive| directive.name == name)
}
