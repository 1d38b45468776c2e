//! Proxies by which servers are reached.

use std::path::Path;

use crate::*;

const FILE: &str =
    "client\nauth-user-pass\nremote-cert-tls server\n<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n";

fn read(lines: &str) -> Result<Vec<Option<Proxy>>, String> {
    let none = |_: &Path| Err("no such file".to_owned());
    let parsed =
        parse("f", format!("{lines}\n{FILE}").as_bytes(), &none).map_err(|failure| failure.to_string())?;
    let Role::Client(client) = parsed.config.role else { panic!("a client") };
    Ok(client.remotes.into_iter().map(|remote| remote.proxy).collect())
}

/// The only proxy, and how it is asked.
fn http(lines: &str) -> (HttpAuthentication, Option<UserPass>, Vec<String>) {
    let proxies = read(&format!("proto tcp\nremote a\n{lines}")).unwrap();
    let [Some(Proxy { kind: ProxyKind::Http(http), credentials, .. })] = &proxies[..] else {
        panic!("{proxies:?}")
    };
    (http.authentication, credentials.clone(), http.headers.clone())
}

#[test]
fn the_forms_of_http_proxy() {
    let file = |name: &str| Some(UserPass::File(name.into()));
    let prompt = Some(UserPass::Prompt);
    for (words, authentication, credentials) in [
        ("", HttpAuthentication::None, None),
        ("none", HttpAuthentication::None, None),
        ("user", HttpAuthentication::Basic, file("user")),
        ("user basic", HttpAuthentication::Basic, file("user")),
        ("user digest", HttpAuthentication::Digest, file("user")),
        ("user none", HttpAuthentication::None, None),
        ("stdin basic", HttpAuthentication::Basic, prompt.clone()),
        ("auto", HttpAuthentication::Any, prompt.clone()),
        ("auto basic", HttpAuthentication::Any, prompt.clone()),
        ("auto-nct", HttpAuthentication::Digest, prompt.clone()),
    ] {
        let (found, source, _) = http(&format!("http-proxy p 8080 {words}"));
        assert_eq!((found, source), (authentication, credentials), "{words}");
    }
    let block = "<http-proxy-user-pass>\nann\nsecret\n</http-proxy-user-pass>";
    for (words, authentication) in [("", HttpAuthentication::Any), ("auto-nct", HttpAuthentication::Digest)] {
        let (found, source, _) = http(&format!("http-proxy p 8080 {words}\n{block}"));
        assert_eq!(found, authentication);
        assert!(matches!(source, Some(UserPass::Inline(text)) if text.text() == "ann\nsecret\n"));
    }
    assert_eq!(http("http-proxy p 80 auto\nhttp-proxy-user-pass user").1, file("user"));
    let headers = "http-proxy-option AGENT \"x y\"\nhttp-proxy-option CUSTOM-HEADER A b\nhttp-proxy-option EXT1 \"C: d\"\n\
                   http-proxy-option VERSION 1.1";
    assert_eq!(http(&format!("http-proxy p 80\n{headers}")).2, ["User-Agent: x y", "A: b", "C: d"]);
}

#[test]
fn a_block_has_its_own_proxy_or_that_of_the_file() {
    let lines = "socks-proxy s\n<connection>\nremote a\n</connection>\n\
                 <connection>\nremote b 443 tcp\nsocks-proxy t 9050 user\n</connection>";
    let found = read(lines).unwrap();
    let proxy = |host: &str, port, credentials| {
        Some(Proxy { host: host.to_owned(), port, kind: ProxyKind::Socks, credentials })
    };
    assert_eq!(found, [proxy("s", 1080, None), proxy("t", 9050, Some(UserPass::File("user".into())))]);
    assert_eq!(read("remote a\nhttp-proxy-retry\nsocks-proxy-retry\nhttp-proxy-timeout 5").unwrap(), [None]);
}

#[test]
fn mistakes_are_named() {
    for (lines, expected) in [
        ("remote a\nhttp-proxy p 8080", "f:2: an HTTP proxy carries TCP alone, and the server `a`"),
        ("proto tcp\nremote a\nhttp-proxy p", "f:3: `http-proxy` takes HOST PORT"),
        ("proto tcp\nremote a\nhttp-proxy p 0", "from 1 to 65535"),
        ("proto tcp\nremote a\nhttp-proxy p/ 80", "a host name or an IP address"),
        ("proto tcp\nremote a\nhttp-proxy p 80 user ntlm", "adit has no NTLM"),
        ("proto tcp\nremote a\nhttp-proxy p 80 user kerberos", "`none`, `basic` or `digest`"),
        (
            "proto tcp\nremote a\nhttp-proxy p 80\nsocks-proxy s",
            "f:4: `socks-proxy`: line 3 names another proxy",
        ),
        ("remote a\nsocks-proxy s x", "found `x`"),
        ("remote a\nhttp-proxy-option VERSION 1", "`1.0`"),
        ("remote a\nhttp-proxy-option HEADER a", "`CUSTOM-HEADER`"),
        ("remote a\nhttp-proxy-option CUSTOM-HEADER \"a b\" c", "a header such as"),
        ("remote a\nhttp-proxy-option CUSTOM-HEADER a", "a header such as"),
        ("remote a\nhttp-proxy-option VERSION 1.0 x", "`http-proxy-option` takes OPTION VALUE"),
        ("remote a\n<http-proxy-user-pass>\n\nx\n</http-proxy-user-pass>", "the username on its first line"),
    ] {
        let error = read(lines).unwrap_err();
        assert!(error.contains(expected), "{lines}\n{error}");
    }
}
