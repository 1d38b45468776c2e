//! The management socket.

use super::*;

#[test]
fn a_management_socket() {
    let management = |text: &str| client(text).0.process.management;
    assert_eq!(management(""), None);
    let plain = Management {
        address: ManagementAddress::Tcp("127.0.0.1".into(), 7505),
        password: None,
        log_cache: 250,
        hold: false,
        query_passwords: false,
        signal: false,
        query_remote: false,
        up_down: false,
        query_proxy: false,
        forget_disconnect: false,
        as_client: false,
        client_user: None,
        client_group: None,
    };
    assert_eq!(management("management 127.0.0.1 7505"), Some(plain.clone()));
    let unix = Management {
        address: ManagementAddress::Unix("/etc/s.sock".into()),
        password: Some("/etc/pw".into()),
        log_cache: 9,
        hold: true,
        client_group: Some("vpn".into()),
        ..plain
    };
    let text = "cd /etc\nmanagement-client-group vpn\nmanagement s.sock unix pw\nmanagement-hold\n\
                management-log-cache 9";
    assert_eq!(management(text), Some(unix));
}

#[test]
fn a_program_that_judges_clients() {
    let text = "management 127.0.0.1 7505\nmanagement-client-auth\nverify-client-cert none";
    assert!(server(text).1.access.management);
    assert!(!server("").1.access.management);
    let problems = bad("server 10.8.0.0 255.255.255.0\nmanagement-client-auth");
    assert!(problems.iter().any(|it| it.contains("`management`, which is missing")), "{problems:?}");
    let problems = bad("client\nremote vpn.example\nmanagement 127.0.0.1 7505\nmanagement-client-auth");
    assert!(problems.iter().any(|it| it.contains("belongs into a server's file")), "{problems:?}");
}

#[test]
fn management_sockets_that_cannot_be() {
    for (line, words) in [
        ("management 127.0.0.1", "`management` takes"),
        ("management 127.0.0.1 seven", "0 to 65535"),
        ("management tunnel 7505", "`management tunnel`"),
        ("management 127.0.0.1 7505 stdin", "name it in place of `stdin`"),
        ("management-hold", "`management`, which is missing"),
        ("management 127.0.0.1 7505\nmanagement-client-user ann", "Unix socket"),
    ] {
        let problems = bad(&format!("client\nremote vpn.example\n{line}"));
        assert!(problems.len() == 1 && problems[0].contains(words), "{line}: {problems:?}");
        let number = if line.contains('\n') { 4 } else { 3 };
        assert!(problems[0].starts_with(&format!("test.conf:{number}: ")), "{line}: {problems:?}");
    }
}
