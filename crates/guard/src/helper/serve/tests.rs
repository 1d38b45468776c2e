use std::fs;
use std::path::Path;

use adit_io::{Family, ProxyKind};
use adit_system::testing::Scratch;

use super::*;
use crate::helper::{Allowed, Gather};

fn remote(host: &str) -> Remote {
    Remote {
        host: host.to_owned(),
        random_hostname: false,
        port: 1194,
        transport: Transport::Udp,
        family: Family::Any,
        bind: None,
        connect_timeout: std::time::Duration::from_secs(1),
        proxy: None,
        mark: None,
    }
}

/// A file of which each line is a remote; an empty one has a mistake.
fn gather(path: &Path) -> io::Result<Gathered> {
    let text = fs::read_to_string(path)?;
    let remotes: Vec<Remote> = text.lines().map(remote).collect();
    let allowed = (!remotes.is_empty()).then(|| Allowed { remotes, ..Allowed::default() });
    Ok(Gathered { text: text.into_bytes(), files: Vec::new(), allowed })
}

fn dialect(gather: Gather) -> Dialect {
    Dialect { gather, ..Dialect::none() }
}

#[test]
fn names_are_those_of_the_file_that_holds_or_was_read() {
    let gather = |_: &Path| {
        let allowed = Allowed { names: Some(vec!["localhost".to_owned()]), ..Allowed::default() };
        Ok(Gathered { text: Vec::new(), files: Vec::new(), allowed: Some(allowed) })
    };
    let policy = Policy {
        names: vec!["127.0.0.7".to_owned()],
        configuration: Some("any".into()),
        ..Policy::default()
    };
    let (helper, _) = start(policy, Rights::OfTheProcess, dialect(gather)).unwrap();
    assert!(helper.look_up("localhost").is_err(), "nothing was read");
    assert_eq!(helper.look_up("127.0.0.7").unwrap(), Ok(vec!["127.0.0.7:0".parse().unwrap()]));
    helper.read_configuration().unwrap();
    assert!(helper.look_up("localhost").unwrap().is_ok() && helper.look_up("127.0.0.7").is_ok());
    helper.adopt(None).unwrap();
    assert!(helper.look_up("localhost").unwrap().is_ok());
    assert!(helper.look_up("127.0.0.7").is_err(), "the file has it no more");
}

#[test]
fn what_a_file_allows_holds_when_the_tunnel_takes_it() {
    let scratch = Scratch::new("adopt");
    let path = scratch.path().join("client.conf");
    fs::write(&path, "b\nc\n").unwrap();
    let policy = Policy {
        remotes: vec![remote("a")],
        configuration: Some(path.clone()),
        without_sandbox: true,
        ..Policy::default()
    };
    let (helper, _) = start(policy, Rights::OfTheProcess, dialect(gather)).unwrap();
    let hosts = || lock(&helper.remotes).iter().map(|remote| remote.host.clone()).collect::<Vec<_>>();
    assert!(helper.adopt(None).is_err(), "nothing was read");
    helper.read_configuration().unwrap();
    assert_eq!(hosts(), ["a"], "it may still be refused");
    helper.adopt(None).unwrap();
    assert_eq!(hosts(), ["a"], "the same as before, in the order of before");
    helper.read_configuration().unwrap();
    assert!(helper.adopt(Some(vec![2])).is_err() && hosts() == ["a"], "there is no third");
    helper.read_configuration().unwrap();
    helper.adopt(Some(vec![1, 0])).unwrap();
    assert_eq!(hosts(), ["c", "b"]);
    fs::write(&path, "").unwrap();
    helper.read_configuration().unwrap();
    assert!(helper.adopt(Some(Vec::new())).is_err() && hosts() == ["c", "b"], "a mistake changes nothing");
}

#[test]
fn a_remote_goes_elsewhere_where_the_policy_allows_it() {
    let started = |replaces_remotes| {
        let remotes = vec![remote("a"), remote("b")];
        start(
            Policy { remotes, replaces_remotes, ..Policy::default() },
            Rights::OfTheProcess,
            dialect(gather),
        )
        .unwrap()
        .0
    };
    let instead = || Some(("other".to_owned(), 443));
    assert!(started(false).replace_remote(0, instead()).is_err());
    let helper = started(true);
    let target = |place| helper.target(place).map(|target| (target.host, target.port));
    helper.replace_remote(1, instead()).unwrap();
    assert_eq!([target(0), target(1), target(2)], [Some(("a".to_owned(), 1194)), instead(), None]);
    helper.replace_remote(1, None).unwrap();
    assert_eq!(target(1), Some(("b".to_owned(), 1194)));
}

#[test]
fn a_remote_goes_by_another_proxy_where_the_policy_allows_it() {
    let started = |replaces_proxies| {
        let policy =
            Policy { remotes: vec![remote("a"), remote("b")], replaces_proxies, ..Policy::default() };
        start(policy, Rights::OfTheProcess, dialect(gather)).unwrap().0
    };
    let proxy =
        || Some(Proxy { host: "proxy".to_owned(), port: 1080, kind: ProxyKind::Socks, credentials: None });
    assert!(started(false).replace_proxy(0, proxy()).is_err());
    let helper = started(true);
    let by = |place| helper.target(place).and_then(|target| target.proxy);
    helper.replace_proxy(1, proxy()).unwrap();
    assert_eq!((by(0), by(1)), (None, proxy()));
    let who = || ProxyCredentials { username: "ann".to_owned(), password: "secret".to_owned() };
    helper.introduce(1, who()).unwrap();
    assert_eq!(by(1).and_then(|proxy| proxy.credentials), Some(who()));
    helper.replace_proxy(1, None).unwrap();
    assert_eq!(by(1), None);
    assert!(helper.introduce(1, who()).is_err(), "there is no proxy");
}

#[test]
fn credentials_of_the_files_own_proxies_are_kept_when_many_others_are_named() {
    let at = |port| Proxy { host: "proxy".to_owned(), port, kind: ProxyKind::Socks, credentials: None };
    let own = Remote { proxy: Some(at(1)), ..remote("a") };
    let policy = Policy { remotes: vec![own, remote("b")], replaces_proxies: true, ..Policy::default() };
    let helper = start(policy, Rights::OfTheProcess, dialect(gather)).unwrap().0;
    let who = |name: &str| ProxyCredentials { username: name.to_owned(), password: "secret".to_owned() };
    helper.introduce(0, who("own")).unwrap();
    for port in 1000..1200 {
        helper.replace_proxy(1, Some(at(port))).unwrap();
        helper.introduce(1, who("other")).unwrap();
        assert!(lock(&helper.proxy_credentials).len() <= MAX_PROXIES);
    }
    let known = |place| helper.target(place).and_then(|target| target.proxy?.credentials);
    assert_eq!((known(0), known(1)), (Some(who("own")), Some(who("other"))));
}
