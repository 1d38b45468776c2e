//! Tunnels with a static key (`secret`), without TLS.

use adit_testbed::{can_run, static_key};

use crate::bed::PROGRAMS;
use crate::options::{Options, Program, Transport};
use crate::profiles::variants::{BOTH_WAYS, check, comes_back, name_each_other};

/// The settings of a tunnel with a static key.
#[derive(Clone, Copy)]
struct Kind {
    transport: Transport,
    cipher: &'static str,
    digest: &'static str,
    /// Each direction has keys of its own.
    directed: bool,
    /// Lines for both files.
    more: &'static str,
}

const BASE: Kind = Kind {
    transport: Transport::Udp4,
    cipher: "AES-256-CBC",
    digest: "SHA256",
    directed: true,
    more: "explicit-exit-notify 1\n",
};
/// The settings in old guides, but for the cipher.
const OLD: Kind = Kind { cipher: "AES-128-CBC", digest: "SHA1", directed: false, ..BASE };

impl Kind {
    fn options(self) -> Options {
        Options { transport: self.transport, ..Options::BASE }
    }

    /// Both files: of the end that waits, and of the one that connects.
    fn texts(self, key: &str) -> [String; 2] {
        let text = |number: usize, proto: &str, own: &str| {
            let other = if number == 0 { "10.8.0.1 10.8.0.2" } else { "10.8.0.2 10.8.0.1" };
            let other6 = ["fd00:8::1/64 fd00:8::2", "fd00:8::2/64 fd00:8::1"][number];
            let direction = if self.directed { format!("key-direction {number}\n") } else { String::new() };
            let Kind { cipher, digest, more, .. } = self;
            // OpenVPN 2.6 does not ask, and does not know the words.
            format!(
                "dev tun\nverb 3\nproto {proto}\n{own}ifconfig {other}\nifconfig-ipv6 {other6}\nkeepalive 1 5\n\
                 cipher {cipher}\nauth {digest}\n{more}\
                 setenv opt allow-deprecated-insecure-static-crypto\n{direction}<secret>\n{key}</secret>\n"
            )
        };
        let protos = match self.transport {
            Transport::Udp4 => ["udp4", "udp4"],
            Transport::Udp6 => ["udp6", "udp6"],
            Transport::Tcp4 => ["tcp4-server", "tcp4-client"],
            Transport::Tcp6 => ["tcp6-server", "tcp6-client"],
        };
        let server = if self.transport.is_v6() { "fd00:9:1::1" } else { "10.9.1.1" };
        [text(0, protos[0], "port 1194\n"), text(1, protos[1], &format!("nobind\nremote {server} 1194\n"))]
    }
}

macro_rules! tunnels {
    ($($name:ident: $kind:expr;)*) => {
        $(#[test]
        fn $name() {
            if !can_run(stringify!($name), &PROGRAMS) {
                return;
            }
            let (kind, key) = ($kind, static_key().unwrap());
            for pair in BOTH_WAYS {
                let change = |texts: &mut [String; 2]| *texts = kind.texts(&key);
                check(stringify!($name), &kind.options(), pair, change, ["", ""]);
            }
        })*
    };
}

tunnels! {
    static_udp: BASE;
    static_udp6: Kind { transport: Transport::Udp6, cipher: "AES-192-CBC", digest: "SHA512", ..BASE };
    static_tcp: Kind { transport: Transport::Tcp4, more: "", ..BASE };
    static_udp_one_key: OLD;
    static_tcp_one_key: Kind { transport: Transport::Tcp4, more: "", ..OLD };
    static_parts_of_lzo: Kind { more: "comp-lzo yes\nallow-compression yes\nfragment 1200\n", ..BASE };
}

/// Each end says where the other is.
#[test]
fn static_remote_at_both_ends() {
    if !can_run("static_remote_at_both_ends", &PROGRAMS) {
        return;
    }
    let key = static_key().unwrap();
    let change = |texts: &mut [String; 2]| {
        *texts = BASE.texts(&key);
        name_each_other(texts);
    };
    for pair in BOTH_WAYS {
        check("static_remote_at_both_ends", &Options::BASE, pair, change, ["", ""]);
    }
}

#[test]
fn static_among_ourselves() {
    if !can_run("static_among_ourselves", &PROGRAMS) {
        return;
    }
    let key = static_key().unwrap();
    for kind in [BASE, Kind { transport: Transport::Tcp6, more: "", ..OLD }] {
        let change = |texts: &mut [String; 2]| *texts = kind.texts(&key);
        check("static_among_ourselves", &kind.options(), [Program::Adit, Program::Adit], change, ["", ""]);
    }
}

#[test]
fn static_comes_back() {
    if !can_run("static_comes_back", &PROGRAMS) {
        return;
    }
    let key = static_key().unwrap();
    for kind in [OLD, Kind { transport: Transport::Tcp4, more: "", ..BASE }] {
        for pair in BOTH_WAYS {
            let change = |texts: &mut [String; 2]| *texts = kind.texts(&key);
            comes_back("static_comes_back", &kind.options(), pair, change);
        }
    }
}

/// Such a tunnel needs an option with its full name, and causes a warning.
#[test]
fn static_keys_must_be_asked_for() {
    if !can_run("static_keys_must_be_asked_for", &PROGRAMS) {
        return;
    }
    let [text, _] = BASE.texts(&static_key().unwrap());
    let scratch = adit_testbed::Scratch::create("static").unwrap();
    let check = |name: &str, text: &str| {
        let file = scratch.write(name, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_adit"));
        let output = command.arg("check").arg(file).output().unwrap();
        let words = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(words).unwrap())
    };
    let (code, words) = check("asked.conf", &text);
    assert!(code == Some(0) && words.contains("no forward secrecy"), "{code:?} {words}");
    let (code, words) =
        check("unasked.conf", &text.replace("setenv opt allow-deprecated-insecure-static-crypto\n", ""));
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("unasked.conf:12: `secret` cannot be used unless the file says"), "{words}");
}
