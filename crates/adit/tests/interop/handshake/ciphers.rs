//! Ciphers for old peers, and how they are agreed on.
//!
//! OpenVPN 2.6 always negotiates. The behaviour of an older one is forced as far as options go: `pull-filter`
//! hides the cipher that the server pushed, so that adit goes by the server's options string or, if that
//! names none, by its fallback. (OpenVPN 2.6 then takes its own `cipher`: it goes by the options string only
//! if nothing else that concerns ciphers is pushed.)

use crate::options::{Options, Program, Transport, Wrap};
use crate::profiles::variants::{BOTH_WAYS, check};

/// Each: options, and lines for the server's file and for the client's.
macro_rules! ciphers {
    ($($name:ident: $options:expr, $server:expr, $client:expr;)*) => {
        $(#[test]
        fn $name() {
            for pair in BOTH_WAYS {
                check(stringify!($name), &$options, pair, |_| {}, [$server, $client]);
            }
        })*
    };
}

const TCP: Options = Options { transport: Transport::Tcp4, ..Options::BASE };
const UDP6: Options = Options { transport: Transport::Udp6, ..Options::BASE };

ciphers! {
    aes192gcm_udp: with(Options::BASE, "AES-192-GCM"), "", "";
    aes192gcm_tcp: with(TCP, "AES-192-GCM"), "", "";
    aes128cbc_sha1_udp: with(Options::BASE, "AES-128-CBC"), "", "";
    aes128cbc_sha1_tcp: with(TCP, "AES-128-CBC"), "", "";
    aes256cbc_sha256_udp: with(UDP6, "AES-256-CBC"), "auth SHA256\n", "auth SHA256\n";
    aes256cbc_sha256_tcp: with(TCP, "AES-256-CBC"), "auth SHA256\n", "auth SHA256\n";
    aes192cbc_sha512_udp: with(Options::BASE, "AES-192-CBC"), "auth SHA512\n", "auth SHA512\n";
    aes192cbc_sha224_tls_auth_tcp: Options { wrap: Wrap::TlsAuth("SHA224"), ..with(TCP, "AES-192-CBC") }, "", "";
    cbc_in_a_compression_framing: with(Options::BASE, "AES-256-CBC"), "comp-lzo no\n", "comp-lzo no\n";
    cbc_in_a_swapping_framing:
        with(TCP, "AES-256-CBC"), "compress stub\nauth SHA384\n", "compress stub\nauth SHA384\n";
    the_server_prefers: Options::BASE,
        "data-ciphers AES-256-CBC:AES-256-GCM\n", "data-ciphers AES-256-GCM:AES-256-CBC\n";
    a_server_that_pushes_no_cipher: with(Options::BASE, "AES-256-CBC"),
        "cipher AES-256-CBC\n", "data-ciphers AES-256-GCM:AES-256-CBC\ncipher AES-256-CBC\npull-filter ignore cipher\n";
    a_server_that_says_nothing_of_ciphers: with(TCP, "AES-128-CBC"),
        "", "data-ciphers AES-256-GCM:AES-128-CBC\ndata-ciphers-fallback AES-128-CBC\npull-filter ignore cipher\n";
    a_fallback_that_is_pushed: with(Options::BASE, "AES-128-CBC"),
        "", "data-ciphers AES-256-GCM:AES-128-CBC\ndata-ciphers-fallback AES-128-CBC\n";
}

/// adit at both ends.
#[test]
fn cbc_among_ourselves() {
    let ours = [Program::Adit, Program::Adit];
    let options = with(Options::BASE, "AES-256-CBC");
    check("cbc_among_ourselves", &options, ours, |_| {}, ["auth SHA512\n", "auth SHA512\n"]);
}

const fn with(options: Options, cipher: &'static str) -> Options {
    Options { cipher, ..options }
}
