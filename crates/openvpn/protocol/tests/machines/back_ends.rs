//! A server whose clients are judged by the programs that stand for plugins.

use std::time::Duration;

use adit_core::{Protocol as _, Transport};
use adit_openvpn::access::{PasswordScript, TokenParams};
use adit_openvpn::params::ServerParams;
use adit_openvpn::request::{Reply, ScriptOutcome};
use adit_openvpn::testing::judged::{
    accepted, asked, end_of, log_says, pair, renegotiate, tokens, user, variable,
};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

const VERIFY: &str = "user-pass-verify";

fn back_end(program: &str) -> PasswordScript {
    PasswordScript { argv: vec![program.to_owned(), "service".to_owned()], by_file: true }
}

/// `/pam` judges, and no script does.
fn by_pam(server: &mut ServerParams) {
    server.access.verify = None;
    server.access.back_ends = vec![back_end("/pam")];
}

/// The latest run of that program ends.
fn ends(pair: &mut Pair, program: &str, exit: i32, files: &[&str]) {
    let id = asked(pair, VERIFY).into_iter().rfind(|script| script.argv[0] == program).unwrap().id;
    let files = files.iter().map(|text| text.as_bytes().to_vec()).collect();
    let outcome = ScriptOutcome { exit: Ok(exit), files, settings: None };
    pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
    pair.exchange();
}

#[test]
fn a_back_end_judges_a_password() {
    let mut good = pair(|_, server| by_pam(server));
    let script = asked(&good, VERIFY).remove(0);
    assert_eq!(script.argv, ["/pam", "service"]);
    assert_eq!((variable(script, "common_name"), variable(script, "password")), (Some("alice"), None));
    let file = script.files.iter().find(|file| file.is_argument).unwrap();
    assert_eq!(file.content.as_slice(), b"ann\ns3 cret\n");
    assert!(!accepted(&good));
    ends(&mut good, "/pam", 0, &[]);
    assert!(good.is_up());

    let mut bad = pair(|_, server| by_pam(server));
    ends(&mut bad, "/pam", 1, &["", "", "Account expired"]);
    assert!(!accepted(&bad) && log_says(&bad.server_events, "plugin says no (exit code 1)"));
    assert!(end_of(&bad).unwrap().contains("Account expired"), "{:?}", end_of(&bad));
}

#[test]
fn all_back_ends_and_the_script_must_say_yes() {
    let all = |server: &mut ServerParams| {
        server.access.back_ends = vec![back_end("/pam"), back_end("/ldap")];
    };
    let mut together = pair(|_, server| all(server));
    for program in ["/ldap", "/judge", "/pam"] {
        assert!(!accepted(&together), "{program}");
        ends(&mut together, program, 0, &[]);
    }
    assert!(together.is_up());
    let mut one_says_no = pair(|_, server| all(server));
    ends(&mut one_says_no, "/pam", 0, &[]);
    ends(&mut one_says_no, "/judge", 0, &[]);
    ends(&mut one_says_no, "/ldap", 1, &[]);
    assert!(!accepted(&one_says_no) && end_of(&one_says_no).is_some());
}

/// A back end's exit code 2 is an error of its program, not an answer that comes later.
#[test]
fn a_back_end_does_not_put_its_answer_off() {
    let mut pair = pair(|_, server| by_pam(server));
    ends(&mut pair, "/pam", 2, &["", "120\nwebauth\nWEB_AUTH::https://login.example/\n", ""]);
    assert!(!accepted(&pair) && end_of(&pair).is_some());
}

#[test]
fn a_client_without_a_password_is_not_let_in() {
    let without = pair(|client, server| {
        by_pam(server);
        client.auth = None;
    });
    assert!(asked(&without, VERIFY).is_empty() && end_of(&without).is_some());
}

#[test]
fn a_back_end_is_not_asked_where_a_token_is_shown() {
    for external in [false, true] {
        let mut pair = pair(|client, server| {
            by_pam(server);
            let mut user = user("s3 cret");
            user.nocache = true;
            client.auth = Some(user);
            client.control.rekey.after = None;
            server.access.tokens = Some(TokenParams { external, ..tokens() });
        });
        ends(&mut pair, "/pam", 0, &[]);
        assert!(pair.is_up(), "{external}");
        pair.advance_busy(Duration::from_secs(1400));
        renegotiate(&mut pair);
        assert!(pair.is_up(), "{external}");
        assert_eq!(asked(&pair, VERIFY).len(), 1, "{external}: the token did");
        // Without asking, too, it is refused when it has run out.
        pair.advance_busy(Duration::from_secs(1700));
        renegotiate(&mut pair);
        assert!(pair.server.peers().is_empty(), "{external}");
        assert_eq!(asked(&pair, VERIFY).len(), 1, "{external}");
    }
}

/// Their programs are made ready at the start: other settings do not change them.
#[test]
fn back_ends_stay_when_the_settings_change() {
    let authority = Authority::new();
    let identity = authority.issue("server", ServerAuth);
    let params = |back_ends: Vec<PasswordScript>| {
        let mut server = server_params(&identity, WrapConfig::Plain);
        server.access.back_ends = back_ends;
        server
    };
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    client.auth = Some(user("s3 cret"));
    let mut pair = Pair::new(client, params(vec![back_end("/pam")]));
    ends(&mut pair, "/pam", 0, &[]);
    assert!(pair.is_up());
    pair.server.reconfigure(params(Vec::new()));
    pair.advance(Duration::from_secs(1));
    renegotiate(&mut pair);
    assert_eq!(asked(&pair, VERIFY).len(), 2);
}
