//! `management-external-key` and `management-external-cert`: the program at a client's socket has the key, and signs by
//! OpenSSL. adit asks for signatures as OpenVPN does.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use adit_testbed::{KeyKind, MAX_WAIT, Scratch, can_run, program, wait_until};
use base64ct::{Base64, Encoding as _};

use super::commands::Talk;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;
const HINT: &str = "macosx-keychain:subject:o=OpenVPN-TEST";

/// Takes an inline block out of a configuration.
fn take_out(text: &mut String, name: &str) -> String {
    let (start, end) = (format!("<{name}>\n"), format!("</{name}>\n"));
    let (from, to) = (text.find(&start).unwrap(), text.find(&end).unwrap());
    let content = text[from + start.len()..to].to_owned();
    text.replace_range(from..to + end.len(), "");
    content
}

/// The signature of `openssl pkeyutl` for `data`, as the question demands.
fn sign(scratch: &Scratch, key: &str, data: &[u8], algorithm: &str) -> Vec<u8> {
    let key = scratch.write("key.pem", key).unwrap();
    let input = scratch.path().join("data");
    std::fs::write(&input, data).unwrap();
    let hash = algorithm.split(',').find_map(|word| word.strip_prefix("hashalg=")).unwrap_or("SHA256");
    let digest = format!("digest:{}", hash.to_lowercase());
    let options = match algorithm.split(',').next().unwrap() {
        "ECDSA" => vec![],
        "RSA_NO_PADDING" => vec!["rsa_padding_mode:none"],
        "RSA_PKCS1_PADDING" => vec!["rsa_padding_mode:pkcs1"],
        "RSA_PKCS1_PSS_PADDING" => vec!["rsa_padding_mode:pss", "rsa_pss_saltlen:digest", digest.as_str()],
        other => panic!("{other}"),
    };
    // Without padding it takes no more than a hash to sign; the operation is the same.
    let operation = if options == ["rsa_padding_mode:none"] { "-decrypt" } else { "-sign" };
    let mut command = program("openssl").unwrap();
    command.args(["pkeyutl", operation, "-inkey"]).arg(key).arg("-in").arg(input);
    command.args(options.iter().flat_map(|option| ["-pkeyopt", *option]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Gives the text that was asked for, in lines; returns the answer.
fn give(talk: &mut Talk<UnixStream>, command: &str, text: &str) -> Vec<String> {
    talk.say(command);
    text.lines().for_each(|line| talk.say(line));
    talk.answer("END")
}

/// Connects a client whose key and certificate the program at its socket has; returns the lines that the
/// program received.
fn dialogue(client: Program, keys: KeyKind, forms: &str) -> Vec<String> {
    let scratch = Scratch::create("external-key").unwrap();
    let socket = scratch.path().join("socket");
    let lines = format!(
        "management {} unix\nmanagement-hold\nmanagement-external-key {forms}\n\
         management-external-cert \"{HINT}\"\nhand-window 30\n",
        socket.display()
    );
    let identity = RefCell::new(None);
    let options = Options { keys, ..Options::BASE };
    let mut bed = Bed::build_with(&options, Program::Adit, &[client], |_, [server, client]| {
        server.push_str("hand-window 30\n");
        *identity.borrow_mut() = Some((take_out(client, "cert"), take_out(client, "key")));
        client.push_str(&lines);
    })
    .unwrap();
    let (certificate, key) = identity.into_inner().unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let mut talk = Talk::within(&socket, WAIT);
    talk.until(">HOLD:");
    talk.say("version 3");
    talk.answer("hold release");
    let mut heard = vec![talk.until(">NEED-CERTIFICATE:")];
    heard.extend(give(&mut talk, "certificate", &certificate));
    let question = talk.until(">PK_SIGN:");
    let (data, algorithm) = question.trim_start_matches(">PK_SIGN:").split_once(',').unwrap();
    // Which hash is chosen is not OpenVPN's to say, but its TLS library's.
    heard.push(algorithm.split(',').next().unwrap().to_owned());
    let signature = sign(&scratch, &key, &Base64::decode_vec(data).unwrap(), algorithm);
    heard.extend(give(&mut talk, "pk-sig", &Base64::encode_string(&signature)));
    heard.extend(give(&mut talk, "rsa-sig", "").into_iter().take(1));
    // The notice may have come before the last answer, which was read past it: so the state is asked for.
    let is_connected = || talk.answer("state").iter().any(|line| line.contains(",CONNECTED,"));
    wait_until("the client to be connected", WAIT, is_connected).unwrap();
    heard
}

#[test]
fn a_program_signs_for_a_client() {
    if !can_run("management-external-key", &PROGRAMS) {
        return;
    }
    for (keys, forms, algorithm) in
        [(KeyKind::Ecdsa, "", "ECDSA"), (KeyKind::Rsa, "pkcs1 pss", "RSA_PKCS1_PSS_PADDING")]
    {
        let [theirs, ours] = [Program::OpenVpn, Program::Adit].map(|client| dialogue(client, keys, forms));
        assert_eq!(ours, theirs, "{forms}");
        let asked = format!(">NEED-CERTIFICATE:{HINT}");
        let expected = [
            asked.as_str(),
            "SUCCESS: certificate command succeeded",
            algorithm,
            "SUCCESS: pk-sign command succeeded",
            "ERROR: The rsa-sig command is not currently available",
        ];
        assert_eq!(ours, expected);
    }
    // OpenVPN's own TLS library does not pad so for TLS 1.3.
    let padded = dialogue(Program::Adit, KeyKind::Rsa, "nopadding");
    assert_eq!(padded[2], "RSA_NO_PADDING");
}
