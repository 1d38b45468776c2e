use std::path::PathBuf;
use std::time::Duration;

use super::*;

/// A file with these lines in `<LDAP>` and in `<Authorization>`.
fn file(ldap: &str, authorization: &str) -> String {
    format!("<LDAP>\n{ldap}\n</LDAP>\n<Authorization>\n{authorization}\n</Authorization>\n")
}

const SERVER: &str = "URL ldaps://a.example";
const USERS: &str = "BaseDN \"ou=People,dc=example\"\nSearchFilter \"(uid=%u)\"";

fn good(text: &str) -> Parsed {
    parse(text.as_bytes(), "f").unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The problems of a file, a line each.
fn problems(text: &str) -> String {
    let problems = parse(text.as_bytes(), "f").expect_err(text);
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// Upstream's example (auth-ldap.conf), with all keys that its plugin has on Linux.
#[test]
fn a_whole_file() {
    let text = "<LDAP>\n\t# LDAP server URL\n\tURL\t\tldap://ldap1.example.org\n\
                \tBindDN\t\tuid=Manager,ou=People,dc=example,dc=com\n\tPassword\tSecret#Password # ours\n\
                \tTimeout\t\t5\n\tTLSEnable\tyes\n\tFollowReferrals yes\n\
                \tTLSCACertFile\t/etc/ssl/ca.pem\n\tTLSCACertDir\t/etc/ssl/certs\n\
                \tTLSCertFile\t/etc/ssl/c.pem\n\tTLSKeyFile\t/etc/ssl/k.pem\n</LDAP>\n\n\
                <Authorization>\n\tBaseDN\t\t\"ou=People,dc=example,dc=com\"\n\
                \tSearchFilter\t\"(&(uid=%u)(accountStatus=active))\"\n\tRequireGroup\ttrue\n\tUseCn false\r\n\
                \tPasswordIsCR\tFalse\n\t<Group>\n\t\tRFC2307bis   false\n\t\tUseCompareOperation   no\n\
                \t\tBaseDN\t\t\"ou=Groups,dc=example,dc=com\"\n\
                \t\tSearchFilter\t\"(|(cn=developers)(cn=artists))\"\n\t\tMemberAttribute\tuniqueMember\n\
                \t</Group>\n</Authorization>\n";
    let Parsed { config, warnings } = good(text);
    assert!(warnings.is_empty(), "{warnings:?}");
    let directory = &config.directory;
    let place = LdapPlace::Tcp { host: "ldap1.example.org".to_owned(), port: 389 };
    assert_eq!(directory.urls, [LdapUrl { place, entry: None }]);
    let account = directory.search_as.as_ref().unwrap();
    assert_eq!(
        (account.dn.as_str(), account.password.text()),
        ("uid=Manager,ou=People,dc=example,dc=com", "Secret#Password")
    );
    assert!(!format!("{config:?}").contains("Secret#Password"), "it is shown nowhere");
    assert_eq!(directory.timeout, Duration::from_secs(5));
    assert!(directory.follow_referrals && directory.tls.start);
    let tls = LdapTls {
        start: true,
        ca_file: Some(PathBuf::from("/etc/ssl/ca.pem")),
        ca_directory: Some(PathBuf::from("/etc/ssl/certs")),
        certificate: Some((PathBuf::from("/etc/ssl/c.pem"), PathBuf::from("/etc/ssl/k.pem"))),
    };
    assert_eq!(directory.tls, tls);
    assert_eq!(config.filter, "(&(uid=%u)(accountStatus=active))");
    let group = Group {
        base: "ou=Groups,dc=example,dc=com".to_owned(),
        filter: "(|(cn=developers)(cn=artists))".to_owned(),
        attribute: "uniqueMember".to_owned(),
        membership: Membership::Username,
        by_search: true,
    };
    assert_eq!(
        (config.groups, config.by_common_name, config.password_is_response),
        (vec![group], false, false)
    );
}

#[test]
fn what_is_not_written_has_its_usual_value() {
    let Parsed { config, warnings } = good(&file(SERVER, USERS));
    assert!(warnings.is_empty());
    assert_eq!((config.directory.timeout, config.directory.search_as), (Duration::from_secs(15), None));
    assert!(config.groups.is_empty() && !config.directory.follow_referrals);
    let group = "<Group>\nBaseDN dc=x\nSearchFilter (cn=a)\nMemberAttribute member\n</Group>";
    let not_required = good(&file(SERVER, &format!("{USERS}\n{group}"))).config;
    assert!(not_required.groups.is_empty(), "they are not asked about");
    let required = good(&file(SERVER, &format!("{USERS}\nRequireGroup yes\n{group}"))).config;
    assert_eq!((required.groups[0].membership, required.groups[0].by_search), (Membership::Name, false));
}

#[test]
fn several_servers() {
    let urls =
        good(&file("URL \"ldaps://a.example, ldapi://%2frun%2fslapd ldaps://[::1]:1636/dc=x?uid\"", USERS));
    let urls = urls.config.directory.urls;
    assert_eq!(urls[0].place, LdapPlace::Tls { host: "a.example".to_owned(), port: 636 });
    assert_eq!(urls[1].place, LdapPlace::Unix("/run/slapd".into()));
    assert_eq!(urls[2].place, LdapPlace::Tls { host: "::1".to_owned(), port: 1636 });
    assert_eq!(urls[2].entry.as_deref(), Some("dc=x"));
}

#[test]
fn each_mistake_has_its_line() {
    for (ldap, authorization, expected) in [
        ("URL x.example", USERS, "f:2: `URL`: found `x.example`; write `ldap://HOST`"),
        ("URL http://x.example", USERS, "write `ldap://HOST`"),
        ("URL ldap://", USERS, "write `ldap://HOST`"),
        ("URL ldap://x:0", USERS, "write `ldap://HOST`"),
        ("URL ldap://x\u{1b}[2J", USERS, "f:2: the line holds the character U+001B; remove it"),
        ("", USERS, "f:1: `URL` is missing in `<LDAP>`"),
        ("URL ldaps://a\nURL ldaps://b", USERS, "f:3: `URL` stands twice"),
        ("URL ldaps://a\nTimeout soon", USERS, "f:3: `Timeout`: found `soon`"),
        ("URL ldaps://a\nTimeout 0", USERS, "from 1 to 3600"),
        ("URL ldaps://a\nBindDN cn=a", USERS, "f:3: `BindDN` without `Password`"),
        ("URL ldaps://a\nPassword a", USERS, "f:3: `Password` without `BindDN`"),
        ("URL ldaps://a\nPassword a b", USERS, "put the value into quotes"),
        ("URL ldaps://a\nBindDN \"cn=a", USERS, "f:3: `BindDN`: a quote is opened"),
        ("URL ldaps://a\nBindDN # none", USERS, "f:3: `BindDN` has no value"),
        ("URL ldaps://a\nTLSEnable yes", USERS, "f:3: `TLSEnable` is for `ldap://` alone"),
        ("URL ldaps://a\nTLSEnable maybe", USERS, "f:3: `TLSEnable`: found `maybe`; write `true` or `false`"),
        ("URL ldaps://a\nTLSKeyFile k", USERS, "f:3: `TLSCertFile` and `TLSKeyFile` belong together"),
        ("URL ldaps://a\nTLSCert k", USERS, "f:3: there is no `TLSCert` in `<LDAP>`"),
        (SERVER, "SearchFilter (uid=%u)", "`BaseDN` is missing in `<Authorization>`"),
        (SERVER, "BaseDN dc=x\nSearchFilter (uid=a)", "does not name the user"),
        (SERVER, "BaseDN dc=x\nSearchFilter (uid=%u", "f:6: `SearchFilter`: `)` is missing at its end"),
        (SERVER, format!("{USERS}\nRequireGroup yes").as_str(), "`RequireGroup` needs a `<Group>`"),
        (SERVER, format!("{USERS}\nPFTable x").as_str(), "BSD's packet filter"),
        (
            SERVER,
            format!("{USERS}\n<Group>").as_str(),
            "ends a section that is not open; `</Group>` comes first",
        ),
        (
            SERVER,
            format!("{USERS}\n<Group>\nBaseDN dc=x\nSearchFilter (a=b)\n</Group>").as_str(),
            "`MemberAttribute` is missing",
        ),
        (
            SERVER,
            format!("{USERS}\n<Group>\nBaseDN dc=x\nSearchFilter (a=b)\nMemberAttribute member>\n</Group>")
                .as_str(),
            "`MemberAttribute`: `member>` is no name of an attribute",
        ),
        (SERVER, format!("{USERS}\n</Group>").as_str(), "`</Group>` ends a section that is not open"),
        ("<Group>\n</Group>", USERS, "`<Group>` stands in `<Authorization>` alone"),
        ("<Authorization>\n</Authorization>", USERS, "stands in no other section"),
        ("<Other>\n</Other>", USERS, "there is no section `<Other>`"),
    ] {
        let found = problems(&file(ldap, authorization));
        assert!(found.contains(expected), "{ldap}\n{authorization}\nshould give `{expected}`:\n{found}");
    }
    assert!(problems("URL ldap://a\n").contains("f:1: it stands in no section"));
    assert!(
        problems("<LDAP>\nURL ldaps://a\n</LDAP>\n").contains("f: the section `<Authorization>` is missing")
    );
    assert!(problems("<LDAP>\nURL ldaps://a\n").contains("f:1: `<LDAP>` has no end"));
    assert!(problems(&(file(SERVER, USERS) + &file(SERVER, USERS))).contains("`<LDAP>` stands twice"));
    assert_eq!(parse(b"\xff", "f").unwrap_err().len(), 1);
    good(&format!("\u{feff}{}", file(SERVER, USERS)));
}

/// A message may reach a log that others read.
#[test]
fn no_message_shows_the_password() {
    for line in ["Password my secret", "Password \"my secret", "Password secret\nPassword secret"] {
        let found = problems(&file(&format!("URL ldaps://a\nBindDN cn=a\n{line}"), USERS));
        assert!(!found.contains("secret"), "{found}");
    }
}

#[test]
fn a_directory_without_tls_is_warned_of() {
    let warnings = good(&file("URL ldap://a\nTLSCipherSuite ALL", USERS)).warnings;
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("f:1: passwords go to the directory in the clear"), "{texts:?}");
    assert!(texts[1].contains("f:3: `TLSCipherSuite` has no effect"), "{texts:?}");
}

fn equal(attribute: &str, value: &str) -> Filter {
    Filter::Equal(attribute.to_owned(), value.as_bytes().to_vec())
}

fn read(template: &str, user: &str) -> Filter {
    Filter::parse(template, user).unwrap_or_else(|why| panic!("{template}: {why}"))
}

/// The examples of RFC 4515, section 4.
#[test]
fn filters_of_the_rfc() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    assert_eq!(read("(cn=Babs Jensen)", ""), equal("cn", "Babs Jensen"));
    assert_eq!(read("(!(cn=Tim Howes))", ""), Filter::Not(Box::new(equal("cn", "Tim Howes"))));
    let person = equal("objectClass", "Person");
    let any = Filter::Or(vec![equal("sn", "Jensen"), read("(cn=Babs J*)", "")]);
    assert_eq!(read("(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))", ""), Filter::And(vec![person, any]));
    let parts = |first: &str, between: &[&str], last: &str| Filter::Substrings {
        attribute: "o".to_owned(),
        first: Some(bytes(first)).filter(|part| !part.is_empty()),
        between: between.iter().map(|part| bytes(part)).collect(),
        last: Some(bytes(last)).filter(|part| !part.is_empty()),
    };
    assert_eq!(read("(o=univ*of*mich*)", ""), parts("univ", &["of", "mich"], ""));
    assert_eq!(read("(o=*mich)", ""), parts("", &[], "mich"));
    assert_eq!(read("(o=*a*)", ""), parts("", &["a"], ""));
    assert_eq!(read("(o=Parens R Us \\28for all\\29)", ""), equal("o", "Parens R Us (for all)"));
    assert_eq!(read("(cn=*)", ""), Filter::Present("cn".to_owned()));
    assert_eq!(read("(a>=5)", ""), Filter::AtLeast("a".to_owned(), bytes("5")));
    assert_eq!(read("(a<=5)", ""), Filter::AtMost("a".to_owned(), bytes("5")));
    assert_eq!(read("(a~=5)", ""), Filter::Like("a".to_owned(), bytes("5")));
    let rule = |attribute: Option<&str>, rule: Option<&str>, of_name| Filter::Rule {
        attribute: attribute.map(str::to_owned),
        rule: rule.map(str::to_owned),
        value: bytes("x"),
        of_name,
    };
    assert_eq!(read("(cn:caseExactMatch:=x)", ""), rule(Some("cn"), Some("caseExactMatch"), false));
    assert_eq!(read("(cn:=x)", ""), rule(Some("cn"), None, false));
    assert_eq!(read("(sn:dn:2.4.6.8.10:=x)", ""), rule(Some("sn"), Some("2.4.6.8.10"), true));
    assert_eq!(read("(o:dn:=x)", ""), rule(Some("o"), None, true));
    assert_eq!(read("(:DN:2.4.6.8.10:=x)", ""), rule(None, Some("2.4.6.8.10"), true));
    // As OpenLDAP's library takes them.
    assert_eq!(read("uid=%u", "ann"), equal("uid", "ann"));
    assert_eq!(read("(& (a=1) (b=2) )", ""), Filter::And(vec![equal("a", "1"), equal("b", "2")]));
}

/// A user's name is a value, whichever it is: no part of it changes the question.
#[test]
fn a_username_is_no_syntax() {
    for user in ["*", "ann)(|(uid=*", "*)(objectClass=*", "\\2a", "a\\", "%u", "(", "ä\u{7f}", "a=b", "!&|"]
    {
        assert_eq!(read("(uid=%u)", user), equal("uid", user));
        assert_eq!(
            read("(&(uid=%u)(mail=%u@%u))", user),
            Filter::And(vec![equal("uid", user), equal("mail", &format!("{user}@{user}"))])
        );
        let Filter::Substrings { first, between, last, .. } = read("(cn=a%u*b*%u)", user) else {
            panic!("{user}");
        };
        assert_eq!((first, between), (Some(format!("a{user}").into_bytes()), vec![b"b".to_vec()]));
        assert_eq!(last, Some(user.as_bytes().to_vec()));
    }
}

#[test]
fn filters_that_are_none() {
    for template in [
        "",
        "(",
        "()",
        "(uid)",
        "(=x)",
        "(&)",
        "(|(a=b)",
        "(a=b))",
        "(a=b)(c=d)",
        "(a=\\2)",
        "(a=\\zz)",
        "(a b=c)",
        "(%u=a)",
        "(!a=b)",
        "(:=x)",
        "((a=b))",
    ] {
        assert!(Filter::parse(template, "x").is_err(), "{template}");
    }
    let nested = format!("{}(a=b){}", "(!".repeat(40), ")".repeat(40));
    assert!(Filter::parse(&nested, "x").unwrap_err().contains("deeper"));
}
