//! `compress migrate`: clients that announce compression are moved to a framing that compresses nothing.
use adit_core::Transport;
use adit_openvpn::codec::{Compression, Framing};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose;

/// The framing of the keys that went to a data plane.
fn framings(events: &[Event]) -> Vec<Compression> {
    let framing = |event: &Event| match event {
        Event::Data(DataEvent::Install(install)) => match install.codec.framing {
            Framing::Data(framing) | Framing::Epoch(framing) => Some(framing.compression),
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(framing).collect()
}

/// The framing that both ends agree on, for a client with that framing in its file. The client learns it by push.
fn agreed(client: Compression, migrate: bool) -> [Vec<Compression>; 2] {
    let authority = Authority::new();
    let identity = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let mut server = server_params(&identity, WrapConfig::Plain);
    server.data.migrate = migrate;
    let identity = authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    let mut params = client_params(&identity, WrapConfig::Plain, Transport::Udp);
    params.data.compression = client;
    let pair = Pair::new(params, server);
    assert!(pair.is_up());
    [framings(&pair.client_events), framings(&pair.server_events)]
}

#[test]
fn clients_with_compression_are_pushed_a_framing_that_they_know() {
    use Compression::{LzoNo, None, Stub, StubV2};
    for client in [LzoNo, Stub, StubV2] {
        assert_eq!(agreed(client, true), [[StubV2], [StubV2]], "{client:?}");
    }
    // One that announces none is left alone, and so is any client without the directive.
    assert_eq!(agreed(None, true), [[None], [None]]);
    assert_eq!(agreed(LzoNo, false), [[LzoNo], [None]]);
}
