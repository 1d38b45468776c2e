//! adit's own settings, `#adit: key = value`.

use adit_ike::machine::FullTranscript;

use super::world::{World, config, problems};

const SECTION: &str = "pools {\n p { addrs = 10.3.0.0/24\n }\n}\n";

#[test]
fn the_device_is_named_on_a_line_of_its_own_anywhere() {
    assert_eq!(config(SECTION).device, None);
    for text in [
        format!("#adit: device = tun0\n{SECTION}"),
        format!("{SECTION} # ADIT: Device=tun0"),
        SECTION.replace("}\n}", "}\n # adit:device = tun0\n}"),
    ] {
        assert_eq!(config(&text).device.as_deref(), Some("tun0"), "{text}");
    }
    // It stands in a value.
    let secret = "secrets {\n ike { secret = \"a\n#adit: device = tun0\n\"\n }\n}\n";
    assert_eq!(config(secret).device, None);
    let included = World::default().with("more.conf", "\n#adit: device = tun1\n");
    let parsed = included.parse("include more.conf\n").unwrap();
    assert_eq!(parsed.config.device.as_deref(), Some("tun1"));
    let [entry] = &parsed.report[..] else { panic!("{:?}", parsed.report) };
    assert_eq!(entry.to_string(), "/etc/swanctl/more.conf:2: used `device`");
}

#[test]
fn settings_that_are_wrong_have_their_line() {
    for (text, expected) in [
        ("#adit: device = tun 0\n", "device: `tun 0` is no name of a device"),
        ("#adit: device = abcdefghijklmnop\n", "device: `abcdefghijklmnop` is no name of a device"),
        ("#adit: device\n", "device: `` is no name of a device"),
        ("#adit: name = a\n", "`name` is no setting of adit here"),
        ("#adit: device = a\n#adit: device = b\n", "device: it is there already"),
        ("pools { #adit: device = a\n}\n", "a setting of adit stands on a line of its own"),
    ] {
        let found = problems(text);
        let line = text.lines().count().min(2).saturating_sub(usize::from(text.starts_with("pools")));
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("swanctl.conf:{line}: {expected}")),
            "{found:?}"
        );
    }
}

#[test]
fn packets_of_peers_are_forwarded_to_networks_or_to_the_internet() {
    let text = format!("#adit: forward = internet\n#adit: Forward = 192.168.1.0/24, fd00:1::/64\n{SECTION}");
    let expected = ["0.0.0.0/0", "::/0", "192.168.1.0/24", "fd00:1::/64"].map(|net| net.parse().unwrap());
    assert_eq!(config(&text).forward, expected);
    assert!(config(SECTION).forward.is_empty());
    let [why] = &problems("#adit: forward = lan\n")[..] else { panic!("one problem") };
    assert!(why.starts_with("swanctl.conf:1: forward: it is `internet`, or networks"), "{why}");
}

#[test]
fn the_socket_of_vici_has_a_path_and_a_group() {
    let text = format!("#adit: vici-socket = /run/a b.vici\n#adit: VICI-group=vpn-admins\n{SECTION}");
    let vici = config(&text).vici;
    assert_eq!((vici.socket.as_deref(), vici.group.as_deref()), (Some("/run/a b.vici"), Some("vpn-admins")));
    for (text, expected) in [
        ("#adit: vici-socket = run\n", "vici-socket: `run` is no path of a socket"),
        ("#adit: vici-group = a b\n", "vici-group: `a b` is no name of a group"),
        ("#adit: vici-group = a\n#adit: vici-group = b\n", "vici-group: it is there already"),
    ] {
        let found = problems(text);
        let line = text.lines().count();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&format!("swanctl.conf:{line}: {expected}")), "{found:?}");
    }
}

#[test]
fn a_connection_says_whether_both_messages_of_the_first_exchange_are_proved() {
    assert!(config(CONNECTIONS).full_transcripts.is_empty());
    for (value, expected) in
        [("yes", FullTranscript::Offer), ("require", FullTranscript::Require), ("no", FullTranscript::Never)]
    {
        let config = config(&format!("#adit: cloud.Full_Transcript_Auth = {value}\n{CONNECTIONS}"));
        assert_eq!(config.full_transcripts, [("cloud".to_owned(), expected)].into());
        assert!(config.own_devices.is_empty());
    }
    for (line, expected) in [
        (
            "cloud.full_transcript_auth = always",
            "full_transcript_auth: `always` is none of yes, require and no",
        ),
        (
            "cloud.full_transcript_auth = yes\n#adit: cloud.full_transcript_auth = no",
            "cloud.full_transcript_auth: it is there already",
        ),
        ("other.full_transcript_auth = no", "there is no connection `other`"),
    ] {
        let found = problems(format!("#adit: {line}\n{CONNECTIONS}"));
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}

const CONNECTIONS: &str = "connections {\n cloud {\n remote_addrs = 192.0.2.1\n local {\n auth = psk\n id = a\n }\n remote {\n auth = psk\n id = b\n }\n \
                           children {\n net {\n }\n }\n }\n}\nsecrets {\n ike-1 {\n secret = a secret\n }\n}\n";

#[test]
fn the_device_of_a_connection_has_a_name_and_addresses() {
    let text = format!(
        "#adit: cloud.addresses = 169.254.7.2/30, fd00::2/64\n{CONNECTIONS}#adit: cloud.Device = cloud0\n"
    );
    let config = config(&text);
    let own = &config.own_devices["cloud"];
    assert_eq!(own.name.as_deref(), Some("cloud0"));
    assert_eq!(own.addresses, ["169.254.7.2/30", "fd00::2/64"].map(|text| text.parse().unwrap()));
    assert_eq!((own.place.line, config.device), (1, None));
    for (line, expected) in [
        ("other.device = a", "there is no connection `other`"),
        ("cloud.mtu = 1400", "`cloud.mtu` is no setting of adit here"),
        ("cloud.device = a/b", "device: `a/b` is no name of a device"),
        (
            "cloud.addresses = 169.254.7.2",
            "addresses: `169.254.7.2` is no address with the length of its network",
        ),
        ("cloud.device = a\n#adit: cloud.device = b", "cloud.device: it is there already"),
    ] {
        let found = problems(format!("#adit: {line}\n{CONNECTIONS}"));
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}
