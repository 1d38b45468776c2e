mod renewal;

use super::*;

#[test]
fn endpoints() {
    for (text, host, port) in [
        ("vpn.example", "vpn.example", 1194),
        ("vpn.example:443", "vpn.example", 443),
        ("192.0.2.1:1", "192.0.2.1", 1),
        ("2001:DB8::1", "2001:db8::1", 1194),
        ("[2001:db8::1]", "2001:db8::1", 1194),
        ("[2001:db8::1]:65535", "2001:db8::1", 65535),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{text}");
        assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint));
    }
    for text in
        ["", ":1", "a:0", "a:65536", "a:x", "a b", "a\nb", "[::1", "[::1]1", "[a]:1", "-a", "a..b", "\"x\""]
    {
        assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
    }
}

#[test]
fn names() {
    for name in ["a", "alice", "bob.laptop", "x@y.example", "9-a_b"] {
        assert_eq!(name.parse::<ClientName>().unwrap().as_str(), name);
    }
    let long = "a".repeat(65);
    for name in ["", ".", "..", "a..b", "a/b", "-a", "a b", "ä", "a\n", "Adit-Server", long.as_str()] {
        assert!(name.parse::<ClientName>().is_err(), "{name:?}");
    }
}

#[test]
fn indexes_are_checked() {
    let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
    let index = Index::new(endpoint, Proto::Udp, SERVER_NAME);
    assert_eq!(Index::parse(&index.to_json()), Ok(index.clone()));
    for (from, to) in
        [("\"format\": 1", "\"format\": 2"), ("vpn.example", "a b"), (SERVER_NAME, "a\\nb"), ("{", "")]
    {
        let json = index.to_json().replacen(from, to, 1);
        assert!(Index::parse(&json).is_err(), "{json}");
    }
}

#[test]
fn networks_are_private() {
    for _ in 0..64 {
        let text = format!("{:?}", profile::Networks::choose().unwrap());
        assert!(text.contains("v4: 10.") && text.contains(".0, v6: fd"), "{text}");
    }
}
