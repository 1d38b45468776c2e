//! Connections of the configuration as the event `list-conn` has them.

use adit_ike_config::{
    Action, Child, Connection, Document, EapMethod, Host, Identity, IdentityPattern, LocalRound, Method,
    RemoteRound, Unique,
};
use adit_ike_vici::Message;
use adit_pki::inspect::subject_and_serial;

use super::names::{configured_selector, identity as identity_text, pattern};

/// The section of a connection.
pub(super) fn section(of: &Connection) -> Message {
    let mut section = Message::new()
        .with_list("local_addrs", hosts(&of.local_addrs))
        .with_list("remote_addrs", hosts(&of.remote_addrs))
        .with("version", "IKEv2")
        .with("reauth_time", of.reauth_time.map_or(0, |time| time.as_secs()))
        .with("rekey_time", of.rekey_time.map_or(0, |time| time.as_secs()))
        .with("unique", unique(of.unique));
    if let Some(delay) = of.dpd_delay {
        section = section.with("dpd_delay", delay.as_secs());
    }
    if let Some(ppk) = &of.ppk_id {
        section = section.with("ppk_id", pattern(ppk));
    }
    if of.ppk_required {
        section = section.with("ppk_required", "yes");
    }
    for (number, round) in (1..).zip(&of.local) {
        section = section.with_section(&format!("local-{number}"), local(round));
    }
    for (number, round) in (1..).zip(&of.remote) {
        section = section.with_section(&format!("remote-{number}"), remote(round));
    }
    let children = of.children.iter();
    section.with_section(
        "children",
        children.fold(Message::new(), |all, own| all.with_section(&own.name, child(own))),
    )
}

fn hosts(hosts: &[Host]) -> Vec<String> {
    let text = |host: &Host| match host {
        Host::Any { ipv4: true, ipv6: true } => "%any".to_owned(),
        Host::Any { ipv4: true, .. } => "%any4".to_owned(),
        Host::Any { .. } => "%any6".to_owned(),
        Host::Address(address) => address.to_string(),
        Host::Network(network) => network.to_string(),
        Host::Range(first, last) => format!("{first}-{last}"),
        Host::Name(name) => name.clone(),
    };
    match hosts {
        [] => vec!["%any".to_owned()],
        hosts => hosts.iter().map(text).collect(),
    }
}

const fn unique(unique: Unique) -> &'static str {
    match unique {
        Unique::Never => "UNIQUE_NEVER",
        Unique::No => "UNIQUE_NO",
        Unique::Keep => "UNIQUE_KEEP",
        Unique::Replace => "UNIQUE_REPLACE",
    }
}

fn local(round: &LocalRound) -> Message {
    let exact = |identity: &Option<Identity>| match identity {
        Some(Identity::Exact(exact)) => Some(identity_text(exact)),
        Some(Identity::Any) | None => None,
    };
    let section = with_identities(exact(&round.id), exact(&round.eap_id));
    with_method(section, &round.auth, &[], &round.certs)
}

fn remote(round: &RemoteRound) -> Message {
    let id = (round.id != IdentityPattern::Any).then(|| pattern(&round.id));
    let section = with_identities(id, round.eap_id.as_ref().map(pattern));
    with_method(section, &round.auth, &round.cacerts, &round.certs)
}

fn with_identities(id: Option<String>, eap_id: Option<String>) -> Message {
    let named = [("id", id), ("eap_id", eap_id)].into_iter();
    let named = named.filter_map(|(name, value)| value.map(|value| (name, value)));
    named.fold(Message::new(), |section, (name, value)| section.with(name, value))
}

/// A round's method in strongSwan's words, with its certificates.
fn with_method(section: Message, method: &Method, cacerts: &[Document], certs: &[Document]) -> Message {
    let section = match method {
        Method::SharedKey => section.with("class", "pre-shared key"),
        Method::Signature(_) => section.with("class", "public key"),
        Method::Eap(method) => section.with("class", "EAP").with("eap-type", eap_type(*method)),
    };
    let none: [&str; 0] = [];
    section
        .with_list("groups", none)
        .with_list("cert_policy", none)
        .with_list("certs", subjects(certs))
        .with_list("cacerts", subjects(cacerts))
}

const fn eap_type(method: EapMethod) -> &'static str {
    match method {
        EapMethod::MsChapV2 => "EAP_MSCHAPV2",
        EapMethod::Tls => "EAP_TLS",
        EapMethod::Any | EapMethod::Dynamic => "EAP_DYNAMIC",
    }
}

fn subjects(documents: &[Document]) -> Vec<String> {
    let all = documents.iter().flat_map(|document| document.certificates().unwrap_or_default());
    all.filter_map(|certificate| subject_and_serial(&certificate)).map(|(subject, _)| subject).collect()
}

fn child(of: &Child) -> Message {
    let limit = |limit: Option<u64>| limit.unwrap_or_default();
    Message::new()
        .with("mode", "TUNNEL")
        .with("rekey_time", limit(of.time.rekey))
        .with("rekey_bytes", limit(of.bytes.rekey))
        .with("rekey_packets", limit(of.packets.rekey))
        .with("dpd_action", action(of.dpd_action))
        .with("close_action", action(of.close_action))
        .with_list("local-ts", of.local_ts.iter().map(configured_selector))
        .with_list("remote-ts", of.remote_ts.iter().map(configured_selector))
}

const fn action(action: Action) -> &'static str {
    match (action.start, action.trap) {
        (false, false) => "none",
        (true, false) => "start",
        (false, true) => "trap",
        (true, true) => "trap|start",
    }
}
