//! The requirements on certificates, and TLS with only some of its versions and ciphers, with adit at either
//! end.

use std::process::Command;

use adit_testbed::{MAX_WAIT, Scratch, can_run, program};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};
use crate::profiles::variants::{BOTH_WAYS, check};

/// Each: lines for the server's file and for the client's.
macro_rules! asks {
    ($($name:ident: $server:expr, $client:expr;)*) => {
        $(#[test]
        fn $name() {
            for pair in BOTH_WAYS {
                check(stringify!($name), &Options::BASE, pair, |_| {}, [$server, $client]);
            }
        })*
    };
}

asks! {
    usages: "remote-cert-ku 80\nremote-cert-eku 1.3.6.1.5.5.7.3.2\n",
        "remote-cert-ku 88 a0\nremote-cert-eku \"TLS Web Server Authentication\"\n";
    a_whole_subject: "verify-x509-name CN=client1 subject\nx509-username-field CN\n", "verify-x509-name CN=server\n";
    one_suite_of_each_version:
        "tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256\n",
        "tls-ciphersuites TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256\n";
    one_suite_of_tls_1_2:
        "tls-version-max 1.2\ntls-cipher TLS-ECDHE-ECDSA-WITH-CHACHA20-POLY1305-SHA256\n",
        "tls-cipher TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305\n";
    a_curve_that_is_asked_for: "tls-groups secp384r1\n", "";
}

/// Where both ends have the same suites, they take the one that the server names first.
#[test]
fn the_servers_order_of_suites() {
    if !can_run("the_servers_order_of_suites", &PROGRAMS) {
        return;
    }
    let (one, other) = ("TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256");
    let lines = [[one, other], [other, one]].map(|suites| format!("tls-ciphersuites {}\n", suites.join(":")));
    for [server, client] in BOTH_WAYS {
        let mut bed = Bed::build_with(&Options::BASE, server, &[client], |_, texts| {
            texts.iter_mut().zip(&lines).for_each(|(text, lines)| text.push_str(lines));
        })
        .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        // OpenVPN and adit write the suite's name each in its own way.
        let pattern = "_CHACHA20_POLY1305_SHA256";
        let taken = bed.clients[0].process().wait_for_line(0, pattern, MAX_WAIT);
        assert!(taken.is_ok(), "{}", bed.logs());
    }
}

/// Asked for by adit alone: OpenSSL then finds no certificate of its own that would do.
#[test]
fn suite_b() {
    for pair in BOTH_WAYS {
        let lines =
            pair.map(|program| if program == Program::Adit { "tls-cert-profile suiteb\n" } else { "" });
        check("suite_b", &Options::BASE, pair, |_| {}, lines);
    }
}

/// Two ends that know each other's certificates, and no authority.
#[test]
fn fingerprints_in_place_of_an_authority() {
    let change = |texts: &mut [String; 2]| {
        let prints = [0, 1].map(|end| fingerprint(&block(&texts[end], "cert")));
        for (text, print) in texts.iter_mut().zip(prints.iter().rev()) {
            let authority = block(text, "ca");
            *text = text.replace(&format!("<ca>\n{authority}</ca>\n"), "");
            text.push_str(&format!("<peer-fingerprint>\n{print}\n</peer-fingerprint>\n"));
        }
    };
    for pair in BOTH_WAYS.into_iter().chain([[Program::Adit, Program::Adit]]) {
        check("fingerprints_in_place_of_an_authority", &Options::BASE, pair, change, ["", ""]);
    }
}

#[test]
fn the_issuers_hash() {
    let change = |texts: &mut [String; 2]| {
        for text in texts {
            let print = fingerprint(&block(text, "ca"));
            text.push_str(&format!("verify-hash {print} SHA256\n"));
        }
    };
    for pair in BOTH_WAYS {
        check("the_issuers_hash", &Options::BASE, pair, change, ["", ""]);
    }
}

/// The content of an inline block.
pub(crate) fn block(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("<{name}>\n")).unwrap();
    rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
}

/// The SHA-256 of a certificate, as the `openssl` program prints it.
fn fingerprint(pem: &str) -> String {
    let directory = Scratch::create("fingerprint").unwrap();
    let file = directory.write("certificate.pem", pem).unwrap();
    let mut command = program("openssl").unwrap();
    command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(file);
    output(command).trim().rsplit('=').next().unwrap().to_owned()
}

/// The output of a program that must succeed.
pub(crate) fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Our keys behind a password, in a file with `askpass`, and packed with certificate and authority (PKCS#12).
#[test]
fn encrypted_keys() {
    let scratch = Scratch::create("encrypted").unwrap();
    let password = scratch.write("password", "open sesame\n").unwrap();
    let askpass = format!("askpass {}\n", password.display());
    let openssl = |arguments: &[&str], input: &str, name: &str| {
        let input = scratch.write(&format!("{name}.in"), input).unwrap();
        let out = scratch.path().join(name);
        let mut command = program("openssl").unwrap();
        command
            .args(arguments)
            .args(["-passout", "pass:open sesame", "-in"])
            .arg(input)
            .arg("-out")
            .arg(&out);
        output(command);
        out
    };
    let encrypted = |texts: &mut [String; 2]| {
        for (text, form) in
            texts.iter_mut().zip([&["pkcs8", "-topk8", "-v2", "aes-256-cbc"][..], &["ec", "-aes256"]])
        {
            let key = block(text, "key");
            let path = openssl(form, &key, form[0]);
            let encrypted = std::fs::read_to_string(path).unwrap();
            *text = text.replace(&key, &encrypted) + &askpass;
        }
    };
    let packed = |texts: &mut [String; 2]| {
        for (text, inline) in texts.iter_mut().zip([false, true]) {
            let [authority, certificate, key] = ["ca", "cert", "key"].map(|name| block(text, name));
            for (name, content) in [("ca", &authority), ("cert", &certificate), ("key", &key)] {
                *text = text.replace(&format!("<{name}>\n{content}</{name}>\n"), "");
            }
            let path =
                openssl(&["pkcs12", "-export"], &format!("{certificate}{key}{authority}"), "packed.p12");
            if inline {
                let mut command = program("openssl").unwrap();
                command.args(["base64", "-in"]).arg(&path);
                text.push_str(&format!("<pkcs12>\n{}</pkcs12>\n", output(command)));
            } else {
                let kept = scratch.path().join("server.p12");
                std::fs::copy(&path, &kept).unwrap();
                text.push_str(&format!("pkcs12 {}\n", kept.display()));
            }
            text.push_str(&askpass);
        }
    };
    for pair in BOTH_WAYS {
        check("encrypted keys", &Options::BASE, pair, encrypted, ["", ""]);
        check("PKCS#12", &Options::BASE, pair, packed, ["", ""]);
    }
}
