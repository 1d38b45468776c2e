//! A client's configuration profile for iOS, iPadOS and macOS (`.mobileconfig`), by Apple's "Device Management: VPN.IKEv2".

use adit_setup::Login;
use zeroize::Zeroizing;

use super::facts::Facts;
use super::plist::PropertyList;
use super::uuid;

/// The prefix of the identifiers of payloads.
const PREFIX: &str = "adit.ikev2";
/// Minutes after which the device rekeys an IKE SA and a child SA.
const IKE_MINUTES: u32 = 1440;
const CHILD_MINUTES: u32 = 480;

/// The profile: the VPN, the authority's certificate, and the client's certificate in PKCS#12 if it has one.
pub(super) fn profile(facts: &Facts<'_>) -> Zeroizing<Vec<u8>> {
    let mut list = PropertyList::new();
    list.dictionary(|list| {
        list.array("PayloadContent", |list| {
            list.dictionary(|list| vpn(list, facts));
            list.dictionary(|list| {
                list.data("PayloadContent", &facts.authority_base64);
                payload(list, facts, Payload::Authority);
            });
            if let Login::Certificate { password, .. } = facts.login {
                list.dictionary(|list| {
                    list.data("PayloadContent", &facts.container).text("Password", password);
                    list.text("PayloadCertificateFileName", &format!("{}.p12", facts.name));
                    payload(list, facts, Payload::Certificate);
                });
            }
        });
        payload(list, facts, Payload::Profile);
    });
    list.finish()
}

/// The parts of a profile.
#[derive(Clone, Copy)]
enum Payload {
    Profile,
    Vpn,
    Authority,
    Certificate,
}

impl Payload {
    const fn kind(self) -> &'static str {
        match self {
            Payload::Profile => "Configuration",
            Payload::Vpn => "com.apple.vpn.managed",
            Payload::Authority => "com.apple.security.root",
            Payload::Certificate => "com.apple.security.pkcs12",
        }
    }

    /// The UUID by which the device knows the part: the part of a profile that is made anew has the same one.
    fn uuid(self, facts: &Facts<'_>) -> String {
        uuid::of(&[facts.authority_name.as_str(), facts.host, facts.name.as_str(), self.kind()])
    }
}

/// The keys that each part of a profile has.
fn payload(list: &mut PropertyList, facts: &Facts<'_>, payload: Payload) {
    let uuid = payload.uuid(facts);
    list.text("PayloadType", payload.kind())
        .number("PayloadVersion", 1)
        .text("PayloadIdentifier", &format!("{PREFIX}.{uuid}"))
        .text("PayloadUUID", &uuid)
        .text("PayloadDisplayName", &facts.title());
}

fn vpn(list: &mut PropertyList, facts: &Facts<'_>) {
    list.text("UserDefinedName", &facts.title()).text("VPNType", "IKEv2");
    list.section("IKEv2", |list| ike(list, facts));
    list.section("IPv4", |list| {
        list.number("OverridePrimary", u32::from(facts.is_full()));
    });
    payload(list, facts, Payload::Vpn);
}

fn ike(list: &mut PropertyList, facts: &Facts<'_>) {
    list.text("RemoteAddress", facts.host)
        .text("RemoteIdentifier", facts.host)
        .text("LocalIdentifier", facts.name.as_str())
        // The proof of the server, with EAP as without it.
        .text("AuthenticationMethod", "Certificate")
        .text("CertificateType", "ECDSA256")
        .text("ServerCertificateIssuerCommonName", &facts.authority_name);
    match facts.login {
        Login::Certificate { .. } => list
            .text("PayloadCertificateUUID", &Payload::Certificate.uuid(facts))
            .number("ExtendedAuthEnabled", 0),
        Login::Password(password) => list
            .number("ExtendedAuthEnabled", 1)
            .text("AuthName", facts.name.as_str())
            .text("AuthPassword", password),
    };
    list.text("DeadPeerDetectionRate", "Medium")
        .number("DisableRedirect", 1)
        .number("EnableCertificateRevocationCheck", 0)
        .number("EnablePFS", 0);
    for (key, minutes) in [
        ("IKESecurityAssociationParameters", IKE_MINUTES),
        ("ChildSecurityAssociationParameters", CHILD_MINUTES),
    ] {
        list.section(key, |list| {
            list.text("EncryptionAlgorithm", "AES-256-GCM")
                .text("IntegrityAlgorithm", "SHA2-256")
                .number("DiffieHellmanGroup", 19)
                .number("LifeTimeInMinutes", minutes);
        });
    }
}
