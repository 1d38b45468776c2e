//! TLS, and the keys that wrap it or stand in its place.

use adit_openvpn::wrap::KeyDirection;

use super::Out;
use super::peer_check::print_peer_check;
use crate::model::*;

pub(crate) fn print_direction(out: &mut Out, direction: KeyDirection) {
    match direction {
        KeyDirection::Bidirectional => {}
        KeyDirection::Normal => out.line("key-direction", &["0"]),
        KeyDirection::Inverse => out.line("key-direction", &["1"]),
    }
}

/// The cipher is printed with the data channel.
pub(crate) fn print_secret(out: &mut Out, secret: &SharedSecret) {
    out.flag("allow-deprecated-insecure-static-crypto");
    print_direction(out, secret.direction);
    out.block("secret", &secret.key.to_text());
}

/// Our certificate, where its key is held elsewhere.
pub(crate) fn print_external(out: &mut Out, external: &ExternalIdentity) {
    let ManagementIdentity { certificate, forms } = match external {
        ExternalIdentity::Management(identity) => identity,
        ExternalIdentity::Pkcs11(identity) => return print_pkcs11(out, identity),
    };
    let mut forms = *forms;
    let words: Vec<&str> = forms.words().into_iter().filter(|(_, set)| **set).map(|(word, _)| word).collect();
    out.line("management-external-key", &words);
    match certificate {
        ManagementCertificate::Given(cert) => out.block("cert", cert.text()),
        ManagementCertificate::Asked { hint, extra } => {
            out.one("management-external-cert", hint);
            if let Some(extra) = extra {
                out.block("extra-certs", extra.text());
            }
        }
    }
}

fn print_pkcs11(out: &mut Out, identity: &Pkcs11Identity) {
    let Pkcs11Identity { id, providers, pin_cache, extra } = identity;
    let paths: Vec<String> = providers.iter().map(|it| it.path.display().to_string()).collect();
    out.line("pkcs11-providers", &paths);
    match id {
        Some(id) => out.one("pkcs11-id", id),
        None => out.flag("pkcs11-id-management"),
    }
    print_switches(out, "pkcs11-protected-authentication", providers, |provider| provider.protected);
    print_switches(out, "pkcs11-cert-private", providers, |provider| provider.private_certificates);
    if let Some(pin_cache) = pin_cache {
        out.one("pkcs11-pin-cache", pin_cache.as_secs());
    }
    if let Some(extra) = extra {
        out.block("extra-certs", extra.text());
    }
}

/// One word for each provider, where the option is on for any of them.
fn print_switches(
    out: &mut Out,
    name: &str,
    providers: &[Pkcs11Provider],
    is_on: fn(&Pkcs11Provider) -> bool,
) {
    if providers.iter().any(is_on) {
        let words: Vec<&str> = providers.iter().map(|it| if is_on(it) { "1" } else { "0" }).collect();
        out.line(name, &words);
    }
}

fn version(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V1_2 => "1.2",
        TlsVersion::V1_3 => "1.3",
    }
}

pub(crate) fn print_tls(out: &mut Out, tls: &Tls, is_server: bool) {
    out.one("tls-version-min", version(tls.version_min));
    if let Some(max) = tls.version_max {
        out.one("tls-version-max", version(max));
    }
    let lists =
        [("tls-cipher", &tls.ciphers), ("tls-ciphersuites", &tls.suites), ("tls-groups", &tls.groups)];
    for (name, list) in lists {
        if !list.is_empty() {
            let names: Vec<_> = list.iter().map(|name| name.name).collect();
            out.one(name, names.join(":"));
        }
    }
    if tls.cert_profile == CertProfile::SuiteB {
        out.one("tls-cert-profile", "suiteb");
    }
    if let KeyPassword::File(path) = &tls.key_password {
        out.one("askpass", path.display());
    }
    print_peer_check(out, &tls.peer, is_server);
    match &tls.crl {
        None => {}
        Some(Crl::Inline(lists)) => out.block("crl-verify", lists.text()),
        Some(Crl::File(path)) => out.one("crl-verify", path.display()),
        Some(Crl::Directory(path)) => out.line("crl-verify", &[&path.display().to_string(), "dir"]),
    }
}
