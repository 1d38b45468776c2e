//! A client's profile for strongSwan's app for Android (`.sswan`), by strongSwan's page "VPN Profiles" of the app.

use adit_setup::Login;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::facts::{Facts, suite};
use super::uuid;

/// The profile. The app asks for the password of the certificate, or of the user: the file has neither.
pub(super) fn profile(facts: &Facts<'_>) -> Zeroizing<Vec<u8>> {
    let name = facts.name.as_str();
    let (kind, local) = match facts.login {
        Login::Certificate { .. } => ("ikev2-cert", json!({ "id": name, "p12": facts.container.as_str() })),
        Login::Password(_) => ("ikev2-eap", json!({ "eap_id": name })),
    };
    let mut profile = json!({
        "uuid": uuid::of(&[facts.authority_name.as_str(), facts.host, name, "sswan"]).to_lowercase(),
        "name": facts.title(),
        "type": kind,
        "remote": { "addr": facts.host, "id": facts.host, "cert": facts.authority_base64, "certreq": true },
        "local": local,
        "ike-proposal": suite::IKE,
        "esp-proposal": suite::ESP,
    });
    if !facts.is_full()
        && let Value::Object(keys) = &mut profile
    {
        let networks: Vec<String> = facts.networks.iter().map(ToString::to_string).collect();
        keys.insert("split-tunneling".to_owned(), json!({ "subnets": networks.join(" ") }));
    }
    let mut text = Zeroizing::new(serde_json::to_vec_pretty(&profile).unwrap_or_default());
    text.push(b'\n');
    text
}
