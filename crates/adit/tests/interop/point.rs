//! Point-to-point: `tls-server` and `tls-client` that push and pull nothing.

use std::time::Duration;

use adit_testbed::{can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Transport, Wrap};
use crate::variants::{BOTH_WAYS, check};

/// Makes a server and its client two points.
fn points(texts: &mut [String; 2]) {
    let [server, client] = texts;
    *server = server
        .replace("server 10.8.0.0 255.255.255.0\n", "tls-server\nifconfig 10.8.0.1 10.8.0.2\n")
        .replace("server-ipv6 fd00:8::/64\n", "ifconfig-ipv6 fd00:8::1/64 fd00:8::2\n")
        .replace("topology subnet\n", "");
    *client = client.replace(
        "client\nnobind\n",
        "tls-client\nnobind\nifconfig 10.8.0.2 10.8.0.1\nifconfig-ipv6 fd00:8::2/64 fd00:8::1\nkeepalive 1 5\n",
    );
}

/// Each: options, and lines for the TLS server's file and for the TLS client's.
macro_rules! tunnels {
    ($($name:ident: $options:expr, $server:expr, $client:expr;)*) => {
        $(#[test]
        fn $name() {
            for pair in BOTH_WAYS {
                check(stringify!($name), &$options, pair, points, [$server, $client]);
            }
        })*
    };
}

const TCP: Options = Options { transport: Transport::Tcp4, ..Options::BASE };

tunnels! {
    point_udp: Options::BASE, "", "";
    point_tcp_tls_crypt: Options { wrap: Wrap::TlsCrypt, ..TCP }, "", "";
    point_udp6_tls_auth:
        Options { transport: Transport::Udp6, wrap: Wrap::TlsAuth("SHA256"), ..Options::BASE }, "", "";
    point_ciphers: Options::BASE,
        "data-ciphers CHACHA20-POLY1305:AES-128-GCM\n", "data-ciphers AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\n";
    point_cbc: Options { cipher: "AES-256-CBC", ..Options::BASE }, "auth SHA256\n", "auth SHA256\n";
    point_before_2_6: Options { cipher: "AES-256-CBC", ..TCP },
        "compat-mode 2.5.0\ncipher AES-256-CBC\n", "compat-mode 2.5.0\ncipher AES-256-CBC\n";
    point_fallback: Options { cipher: "AES-256-GCM", ..Options::BASE },
        "data-ciphers AES-256-GCM\ncipher AES-128-CBC\n", "data-ciphers AES-128-GCM\ncipher AES-128-CBC\n";
}

/// Each end says where the other is, so that both ports are known, and OpenVPN's TLS server begins.
#[test]
fn point_remote_at_both_ends() {
    let change = |texts: &mut [String; 2]| {
        points(texts);
        texts[0].push_str("remote 10.9.1.2 1194\n");
        texts[1] = texts[1].replace("nobind\n", "");
    };
    for pair in BOTH_WAYS {
        check("point_remote_at_both_ends", &Options::BASE, pair, change, ["", ""]);
    }
}

#[test]
fn point_among_ourselves() {
    let ours = [Program::Adit, Program::Adit];
    check("point_among_ourselves", &Options::BASE, ours, points, ["", ""]);
}

/// Either end is killed and started again; each time the tunnel comes back.
#[test]
fn point_comes_back() {
    if !can_run("point_comes_back", &PROGRAMS) {
        return;
    }
    for [server, client] in BOTH_WAYS {
        let bed = Bed::build_with(&Options::BASE, server, &[client], |_, texts| points(texts));
        let mut bed = bed.unwrap();
        let outcome = come_back(&mut bed);
        assert!(outcome.is_ok(), "{server:?} to {client:?}: {}\n{}", outcome.unwrap_err(), bed.logs());
    }
}

fn come_back(bed: &mut Bed) -> Result<(), String> {
    let text = |error: adit_testbed::TestbedError| error.to_string();
    let reach = |bed: &Bed| {
        wait_until_reachable(
            &bed.clients[0].namespace,
            SERVER_INNER[0].parse().unwrap(),
            Duration::from_secs(20),
        )
        .map_err(text)
    };
    bed.server.start().map_err(text)?;
    bed.clients[0].start().map_err(text)?;
    reach(bed)?;
    bed.clients[0].process().kill().map_err(text)?;
    bed.clients[0].no_device_left()?;
    bed.clients[0].start().map_err(text)?;
    reach(bed).map_err(|error| format!("after the client was killed: {error}"))?;
    bed.server.process().kill().map_err(text)?;
    bed.server.no_device_left()?;
    bed.server.start().map_err(text)?;
    reach(bed).map_err(|error| format!("after the server was killed: {error}"))?;
    bed.clients[0].stop()?;
    bed.server.stop()
}
