//! A server: addresses, admission, access, and settings of one client.

use std::net::Ipv6Addr;
use std::time::Duration;

use adit_core::Rate;
use adit_openvpn::params::TlsCryptV2;
use adit_pki::CertificateDemand;
use zeroize::Zeroizing;

use super::Out;
use super::net::{print_ifconfig, print_listen};
use crate::model::*;

pub(crate) fn print_server(out: &mut Out, server: &ServerConfig) {
    out.one("mode", "server");
    out.flag("tls-server");
    // OpenVPN 2.6 requires the line.
    out.one("dh", "none");
    out.one("topology", "subnet");
    print_listen(out, &server.listen);
    if let Some(ipv4) = &server.ipv4 {
        print_ifconfig(out, ipv4.address);
        if let Some((first, last)) = ipv4.pool {
            let mask = ipv4.address.netmask();
            out.line("ifconfig-pool", &[first.to_string(), last.to_string(), mask.to_string()]);
        }
    }
    if let Some(ipv6) = &server.ipv6 {
        // The peer's address is asked for and not used: any other of the network will do.
        let peer = Ipv6Addr::from(u128::from(ipv6.address.network()).wrapping_add(2));
        out.line("ifconfig-ipv6", &[ipv6.address.to_string(), peer.to_string()]);
        if let Some(pool) = ipv6.pool {
            out.one("ifconfig-ipv6-pool", pool);
        }
    }
    for option in &server.push {
        out.line("push", &[option]);
    }
    if server.client_to_client {
        out.flag("client-to-client");
    }
    for net in &server.forward {
        out.one("#adit: forward =", net);
    }
    if server.duplicate_cn {
        out.flag("duplicate-cn");
    }
    if let Some(PortShare { host, port, journal }) = &server.port_share {
        let words =
            [Some(host.clone()), Some(port.to_string()), journal.as_ref().map(|it| it.display().to_string())];
        out.line("port-share", &words.into_iter().flatten().collect::<Vec<_>>());
    }
    out.one("max-clients", server.max_clients);
    print_admission(out, &server.admission);
    if server.exit_notify > 0 {
        out.one("explicit-exit-notify", server.exit_notify);
    }
    print_per_client(out, &server.per_client);
    print_access(out, &server.access);
}

fn print_access(out: &mut Out, access: &Access) {
    if access.export_certificates {
        // The files are in `tmp-dir`.
        out.one("tls-export-cert", "/tmp");
    }
    let scripts = [
        ("tls-verify", &access.tls_verify),
        ("tls-crypt-v2-verify", &access.key_verify),
        ("client-crresponse", &access.client_crresponse),
        ("client-connect", &access.client_connect),
        ("client-disconnect", &access.client_disconnect),
        ("learn-address", &access.learn_address),
    ];
    if access.has_scripts() {
        let by_env = access.verify.as_ref().is_some_and(|verify| !verify.by_file);
        out.one("script-security", if by_env { 3 } else { 2 });
    }
    if let Some(verify) = &access.verify {
        let via = if verify.by_file { "via-file" } else { "via-env" };
        out.line("auth-user-pass-verify", &[&command(&verify.argv), via]);
    }
    for back_end in &access.back_ends {
        let (module, words): (&str, Vec<String>) = match back_end {
            PasswordBackEnd::Pam { service, answers } => {
                let pairs = answers.iter().flat_map(|(question, answer)| [question.clone(), answer.clone()]);
                ("openvpn-plugin-auth-pam.so", std::iter::once(service.clone()).chain(pairs).collect())
            }
            PasswordBackEnd::Ldap { file } => ("openvpn-auth-ldap.so", vec![file.display().to_string()]),
        };
        out.line("plugin", &[module, &command(&words)]);
    }
    if access.management {
        out.flag("management-client-auth");
    }
    for (name, script) in scripts {
        if let Some(argv) = script {
            out.one(name, command(argv));
        }
    }
    match access.certificates {
        CertificateDemand::Require => {}
        CertificateDemand::Optional => out.one("verify-client-cert", "optional"),
        CertificateDemand::None => out.one("verify-client-cert", "none"),
    }
    if access.optional {
        out.flag("auth-user-pass-optional");
    }
    if access.username_as_name {
        out.flag("username-as-common-name");
    }
    if let Some(times) = &access.tokens {
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs().to_string();
        let mut words = vec![seconds(times.lifetime), seconds(times.renewal)];
        words.extend(times.external.then(|| "external-auth".to_owned()));
        out.line("auth-gen-token", &words);
    }
    if let Some(secret) = &access.token_secret {
        out.block("auth-gen-token-secret", &secret.to_text());
    }
    for (name, value) in &access.env {
        out.line("setenv", &[name, value]);
    }
}

/// A command line as one word.
pub(super) fn command(argv: &[String]) -> String {
    let mut line = Out(Zeroizing::new(String::new()));
    for (index, word) in argv.iter().enumerate() {
        if index > 0 {
            line.0.push(' ');
        }
        line.word(word);
    }
    line.0.to_string()
}

pub(crate) fn print_admission(out: &mut Out, admission: &Admission) {
    let limits =
        [("connect-freq", admission.connect_freq), ("connect-freq-initial", admission.connect_freq_initial)];
    for (name, limit) in limits {
        if let Some(Rate { count, period }) = limit {
            out.line(name, &[count.to_string(), period.as_secs().to_string()]);
        }
    }
    let Some(TlsCryptV2 { key, force_cookie, max_age }) = &admission.tls_crypt_v2 else { return };
    if let Some(age) = max_age {
        out.one("tls-crypt-v2-max-age", age.as_secs() / 86_400);
    }
    if *force_cookie {
        // A block takes no argument.
        out.line("tls-crypt-v2", &["[inline]", "force-cookie"]);
    }
    out.block("tls-crypt-v2", &key.to_text());
}

fn print_per_client(out: &mut Out, per_client: &PerClient) {
    if let Some(directory) = &per_client.directory {
        out.one("client-config-dir", directory.display());
    }
    if per_client.exclusive {
        out.flag("ccd-exclusive");
    }
    if let Some(PoolFile { path, every }) = &per_client.pool_file {
        let seconds = every.unwrap_or_default().as_secs().to_string();
        out.line("ifconfig-pool-persist", &[&path.display().to_string(), &seconds]);
    }
}
