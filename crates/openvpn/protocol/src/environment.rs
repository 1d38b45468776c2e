//! The environment of scripts, in OpenVPN's names (its manual, "Environmental Variables").

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{Instant, Ipv4Net, Ipv6Net, Path, printable};
use adit_pki::certificate::{named_attributes, subject_text};
use rustls::pki_types::CertificateDer;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::lease::ClientLease;
use crate::params::ServerParams;
use crate::peer_info::PeerVariables;

/// Environment variables; a later value takes the place of an earlier one.
#[derive(Clone, Default)]
pub(crate) struct Environment(Vec<(String, String)>);

impl Environment {
    /// The variables that hold for all scripts.
    pub(crate) fn new(general: &[(String, String)]) -> Self {
        let mut env = Environment::default();
        for (name, value) in general {
            env.set(name, value);
        }
        env
    }

    /// Sets a variable. Characters that no environment can hold become `_`: in names all but letters, digits and `_`,
    /// in values those that are not [`printable`].
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let value = printable(value);
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds a variable under a plain name that no variable has so far. The name is not looked for, which takes long
    /// where there are thousands.
    pub(crate) fn append(&mut self, name: String, value: String) {
        self.0.push((name, value));
    }

    /// Like [`Self::set`], under a name of its own if `name` is taken: `NAME_1`, `NAME_2`, ...
    fn add(&mut self, name: &str, value: &str) {
        let taken = |name: &str| self.0.iter().any(|(known, _)| known == name);
        let free = (1..=16).map(|number| format!("{name}_{number}"));
        if let Some(name) = std::iter::once(name.to_owned()).chain(free).find(|name| !taken(name)) {
            self.set(&name, value);
        }
    }

    /// Where the client is: `untrusted_ip` and the like before it is authenticated, `trusted_ip` after.
    pub(crate) fn place(&mut self, path: Path, trusted: bool) {
        let prefix = if trusted { "trusted" } else { "untrusted" };
        let remote = path.remote();
        let ip = remote.ip().to_canonical();
        let suffix = if ip.is_ipv4() { "ip" } else { "ip6" };
        self.set(&format!("{prefix}_{suffix}"), &ip.to_string());
        self.set(&format!("{prefix}_port"), &remote.port().to_string());
    }

    /// Sets the variables of the client's peer info.
    pub(crate) fn peer_info(&mut self, info: &str) {
        for (name, value) in PeerVariables::parse(info).iter() {
            self.set(name, value);
        }
    }

    /// Sets the variables of the certificates, the client's own first.
    pub(crate) fn certificates(&mut self, chain: &[CertificateDer<'_>]) {
        self.certificates_from(0, chain);
    }

    /// Sets the variables of the certificates that have at least that depth.
    pub(crate) fn certificates_from(&mut self, least: usize, chain: &[CertificateDer<'_>]) {
        for (depth, der) in chain.iter().enumerate().skip(least) {
            let Ok((_, certificate)) = X509Certificate::from_der(der) else { continue };
            let serial = &certificate.tbs_certificate.serial;
            self.set(&format!("tls_id_{depth}"), &subject_text(certificate.subject()));
            self.set(&format!("tls_serial_{depth}"), &serial.to_string());
            self.set(&format!("tls_serial_hex_{depth}"), &hex(without_sign(certificate.raw_serial())));
            self.set(&format!("tls_digest_{depth}"), &hex(&Sha1::digest(der.as_ref())));
            self.set(&format!("tls_digest_sha256_{depth}"), &hex(&Sha256::digest(der.as_ref())));
            for (field, value) in named_attributes(certificate.subject()) {
                // OpenVPN leaves out characters that a variable's name cannot hold (env_set.c, `setenv_str`), and looks
                // for a name that is taken before that.
                let name: String = field.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let variable = format!("X509_{depth}_{name}");
                match name == field {
                    true => self.add(&variable, &value),
                    false => self.set(&variable, &value),
                }
            }
        }
    }

    /// The client's inner addresses.
    pub(crate) fn addresses(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            match address {
                IpAddr::V4(address) => self.set("ifconfig_pool_remote_ip", &address.to_string()),
                IpAddr::V6(address) => self.set("ifconfig_pool_remote_ip6", &address.to_string()),
            }
        }
    }

    /// Sets the variables of the addresses that the client has been given, and the time of that.
    pub(crate) fn lease(&mut self, params: &ServerParams, lease: &ClientLease, since: Instant) {
        self.addresses(&lease.addresses());
        self.server(params);
        if let Some(network) = params.address4 {
            self.set("ifconfig_pool_netmask", &network.netmask().to_string());
        }
        if let Some(network) = params.address6 {
            self.set("ifconfig_pool_ip6_netbits", &network.prefix_len().to_string());
            if lease.addresses().iter().any(IpAddr::is_ipv6) {
                self.set("ifconfig_pool_local_ip6", &network.addr().to_string());
            }
        }
        let unix = params.control.wall_at_origin.0.saturating_add(since.as_nanos() / 1_000_000_000);
        self.set("time_unix", &unix.to_string());
        self.set("time_ascii", &time_text(unix));
    }

    /// The server's own inner addresses.
    pub(crate) fn server(&mut self, params: &ServerParams) {
        if let Some(network) = params.address4 {
            self.set("ifconfig_local", &network.addr().to_string());
            self.set("ifconfig_netmask", &network.netmask().to_string());
        }
        if let Some(network) = params.address6 {
            self.set("ifconfig_ipv6_local", &network.addr().to_string());
            self.set("ifconfig_ipv6_netbits", &network.prefix_len().to_string());
            self.set("ifconfig_ipv6_remote", &first_client6(network).to_string());
        }
    }

    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.0
    }

    pub(crate) fn finish(self, script_type: &str) -> Vec<(String, String)> {
        let mut env = self;
        env.set("script_type", script_type);
        env.0
    }
}

/// The first client's address, which stands for those of all (OpenVPN helper.c, `server`).
pub(crate) fn first_client4(network: Ipv4Net) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(network.network()).wrapping_add(2))
}

/// The IPv6 address of the first client (OpenVPN helper.c, `server-ipv6`).
pub(crate) fn first_client6(network: Ipv6Net) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(network.network()).wrapping_add(2))
}

/// Where a peer is, as OpenVPN writes it: `[AF_INET]192.0.2.1 1194`.
pub(crate) fn place_text(path: Path) -> String {
    let (ip, port) = (path.remote().ip().to_canonical(), path.remote().port());
    format!("[{}]{ip} {port}", if ip.is_ipv4() { "AF_INET" } else { "AF_INET6" })
}

/// A time (in seconds since 1970) as OpenVPN prints it, in UTC: `2026-01-31 08:05:00`.
fn time_text(unix: u64) -> String {
    let time = i64::try_from(unix).ok().and_then(|unix| ASN1Time::from_timestamp(unix).ok());
    time.map_or_else(String::new, |time| {
        let time = time.to_datetime();
        let (date, clock) = (time.date(), time.time());
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        let (hour, minute, second) = (clock.hour(), clock.minute(), clock.second());
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    })
}

/// The bytes of a number of DER without the zero that shows it to be positive (X.690 section 8.3.2).
fn without_sign(number: &[u8]) -> &[u8] {
    match number {
        [0, rest @ ..] if !rest.is_empty() => rest,
        _ => number,
    }
}

/// Bytes as OpenVPN prints them: `0a:1b`.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
        env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_serial_number_has_no_sign() {
        assert_eq!(without_sign(&[0, 0xf6, 1]), [0xf6, 1]);
        assert_eq!(without_sign(&[0x76, 0]), [0x76, 0]);
        assert_eq!(without_sign(&[0]), [0]);
    }

    #[test]
    fn names_and_values_are_tamed() {
        let mut env = Environment::new(&[("PROFILE_ID".to_owned(), "a\nb".to_owned())]);
        env.set("A=B;c", "x\0y\u{202e}");
        env.peer_info("IV_VER=2.6\nLD_PRELOAD=/evil\nUV_X=$(reboot)\n");
        let env = env.finish("client-connect");
        assert_eq!(get(&env, "PROFILE_ID"), Some("a_b"));
        assert_eq!(get(&env, "A_B_c"), Some("x_y_"));
        assert_eq!(get(&env, "IV_VER"), Some("2.6"));
        assert_eq!(get(&env, "UV_X"), Some("__reboot)"));
        assert_eq!(get(&env, "LD_PRELOAD"), None);
        assert_eq!(get(&env, "script_type"), Some("client-connect"));
    }

    #[test]
    fn attributes_of_a_subject_have_openssls_names() {
        use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let bmp = DnValue::BmpString("Bücher".try_into().unwrap());
        for (oid, value) in [
            (&[2, 5, 4, 10][..], bmp),
            (&[0, 9, 2342, 19_200_300, 100, 1, 1], "u1".into()),
            (&[2, 5, 4, 42], "Anna".into()),
            (&[1, 3, 6, 1, 4, 1, 311, 60, 2, 1, 3], "DE".into()),
            (&[1, 2, 3, 4, 5], "not named".into()),
            // id-pda-dateOfBirth: OpenVPN leaves the hyphens out.
            (&[1, 3, 6, 1, 5, 5, 7, 9, 1], "long ago".into()),
            (&[2, 5, 4, 3], "x".into()),
        ] {
            params.distinguished_name.push(DnType::CustomDnType(oid.to_vec()), value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let mut env = Environment::default();
        env.certificates(&[certificate.der().clone()]);
        let subject: Vec<(String, String)> = env.into_list();
        let of = |name| get(&subject, name);
        assert_eq!(
            of("tls_id_0")
                .map(|it| it.starts_with("O=Bücher, UID=u1, GN=Anna, jurisdictionC=DE, 1.2.3.4.5=")),
            Some(true)
        );
        let named: Vec<(&str, &str)> = subject
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("X509_0_")?, value.as_str())))
            .collect();
        let expected = [
            ("O", "Bücher"),
            ("UID", "u1"),
            ("GN", "Anna"),
            ("jurisdictionC", "DE"),
            ("idpdadateOfBirth", "long ago"),
            ("CN", "x"),
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let mut env = Environment::default();
        env.place(Path::Udp { socket: 0, remote: "[::ffff:192.0.2.1]:5000".parse().unwrap() }, false);
        env.place(Path::Udp { socket: 0, remote: "[2001:db8::1]:5001".parse().unwrap() }, true);
        let env = env.finish("x");
        assert_eq!(get(&env, "untrusted_ip"), Some("192.0.2.1"));
        assert_eq!(get(&env, "untrusted_port"), Some("5000"));
        assert_eq!(get(&env, "trusted_ip6"), Some("2001:db8::1"));
    }
}
