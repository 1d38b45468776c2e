//! Point-to-point: `tls-server` and `tls-client` that push and pull nothing.

use adit_testbed::{MAX_WAIT, can_run};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, Transport, Wrap};
use crate::profiles::variants::{BOTH_WAYS, check, comes_back, name_each_other, options_strings_agree};

/// Makes a server and its client the ends of a point-to-point tunnel.
pub(crate) fn points(texts: &mut [String; 2]) {
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
        name_each_other(texts);
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

#[test]
fn point_comes_back() {
    for pair in BOTH_WAYS {
        comes_back("point_comes_back", &Options::BASE, pair, points);
    }
}

/// `remote NAME` says where the other end is, as an address does; with `float` it may be anywhere.
#[test]
fn point_remote_by_name() {
    if !can_run("point_remote_by_name", &PROGRAMS) {
        return;
    }
    // The client is at 10.9.1.2, which is not localhost.
    for (lines, lets_in) in [("remote localhost\n", false), ("remote localhost\nfloat\n", true)] {
        let mut bed = Bed::build_with(&TCP, Program::Adit, &[Program::OpenVpn], |_, texts| {
            points(texts);
            texts[0].insert_str(0, lines);
        })
        .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let word = if lets_in { Program::OpenVpn.up_line() } else { "Connection reset" };
        let came = bed.clients[0].process().wait_for_line(0, word, MAX_WAIT);
        assert!(came.is_ok(), "{lines}{}", bed.logs());
        let ups = bed.clients[0].process().count_lines(0, Program::OpenVpn.up_line());
        assert_eq!(ups, usize::from(lets_in), "{lines}{}", bed.logs());
    }
}

/// The strings of points tell of their addresses and their cipher too.
#[test]
fn point_options_strings() {
    for (options, lines) in [
        (Options { wrap: Wrap::TlsAuth("SHA256"), ..Options::BASE }, "cipher AES-256-GCM\n"),
        (TCP, "data-ciphers AES-128-GCM\ncipher AES-256-CBC\nifconfig-nowarn\n"),
    ] {
        for pair in BOTH_WAYS {
            options_strings_agree(&options, pair, |texts| {
                points(texts);
                texts.iter_mut().for_each(|text| *text += lines);
            });
        }
    }
}
