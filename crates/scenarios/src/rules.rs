//! The scenarios that do not fit, and the checks that are not applicable, each with its reason.

use crate::scenario::{Check, Scenario};

/// A pattern of names, in which `*` stands for any characters, and the reason why scenarios of these names do not fit.
type Rule = (&'static str, &'static str);

const UNFIT: [Rule; 47] = [
    ("*-ikev1", "IKEv1"),
    ("*/acert-*", "attribute certificates"),
    ("*compress*", "IPComp"),
    ("*-ah", "AH"),
    ("*transport*", "transport mode"),
    ("ikev2/dhcp-*", "addresses by DHCP"),
    ("ikev2/farp", "answers to ARP for peers"),
    ("ikev2/forecast", "multicast and broadcast"),
    ("ikev2/net2net-multicast", "multicast"),
    ("*eap-sim*", "EAP-SIM"),
    ("*eap-aka*", "EAP-AKA"),
    ("*eap-peap*", "EAP-PEAP"),
    ("*eap-ttls*", "EAP-TTLS"),
    ("*dnssec*", "keys in DNS"),
    ("*dnscert*", "certificates in DNS"),
    ("*-ldap", "lists by LDAP"),
    ("*/ldap", "lists by LDAP"),
    ("*hash-and-url", "certificates by URL"),
    ("ikev2/lookip", "a plugin of strongSwan"),
    ("ikev2/rw-whitelist", "a plugin of strongSwan"),
    ("ikev2/per-cpu-*", "child SAs of processors, in the kernel"),
    ("ikev2/net2net-iptfs", "AGGFRAG in the kernel"),
    ("*-mark*", "marks of the kernel's policies"),
    ("ikev2/net2net-dscp", "marks of the kernel's policies"),
    ("ikev2/net2net-psk-dscp", "marks of the kernel's policies"),
    ("ikev2/net2net-same-nets", "marks of the kernel's policies"),
    ("ikev2/shunt-*", "policies of the kernel that pass or drop"),
    ("ikev2/redirect-active", "RFC 5685"),
    ("ikev2/critical-extension", "a build of strongSwan that breaks the protocol on purpose"),
    ("*rfc3779*", "addresses in certificates (RFC 3779)"),
    ("route-based/net2net-gre", "GRE"),
    ("route-based/*vti*", "a device of the kernel's IPsec"),
    ("route-based/*xfrmi*", "a device of the kernel's IPsec"),
    ("ikev2-algs/alg-3des-md5", "3DES and MD5"),
    ("ikev2-algs/alg-blowfish", "Blowfish"),
    ("ikev2-algs/alg-camellia", "Camellia"),
    ("ikev2-algs/alg-aes-ccm", "AES-CCM"),
    ("ikev2-algs/alg-aes-ctr", "AES-CTR"),
    ("ikev2-algs/alg-aes-xcbc", "AES-XCBC"),
    ("ikev2-algs/alg-ecp-brainpool-*", "Brainpool's curves"),
    ("ikev2-algs/alg-modp-subgroup", "groups with small subgroups (RFC 5114)"),
    ("ikev2-algs/esp-alg-aes-gmac", "ESP without encryption"),
    ("ikev2-algs/esp-alg-null", "ESP without encryption"),
    ("libipsec/net2net-null", "ESP without encryption"),
    ("ikev2-algs/esp-alg-md5-128", "MD5"),
    ("ikev2-algs/esp-alg-sha*", "truncations of HMAC beside the standards"),
    ("libipsec/net2net-3des", "3DES"),
];

/// Words in lines of `charon`'s log about the kernel's IPsec.
const KERNEL: [&str; 2] = ["SAD entry", "acquire job for policy"];

/// Why a scenario does not fit, if it does not.
pub(crate) fn unfit(scenario: &Scenario) -> Option<&'static str> {
    let settings = &scenario.settings;
    let rule = UNFIT.iter().find(|(pattern, _)| matches(pattern, &scenario.name));
    match rule {
        Some((_, reason)) => Some(reason),
        None if settings.has_radius => Some("a RADIUS server"),
        None if settings.has_database => Some("a database of strongSwan's"),
        None if !settings.has_swanctl => Some("`ipsec.conf`"),
        None => None,
    }
}

/// Why a check says nothing of adit or of strongSwan here, if it does not. `is_of_adit` is whether it looks at adit's host.
pub(crate) fn inapplicable(check: &Check, is_of_adit: bool) -> Option<&'static str> {
    let command = check.step.command.as_str();
    if command.starts_with("ip xfrm") || command.starts_with("ip -s xfrm") {
        return Some("the kernel has no IPsec here");
    }
    if KERNEL.iter().any(|word| check.pattern.contains(word)) {
        return Some("the kernel has no IPsec here");
    }
    if command.contains("/var/log/daemon.log") || command.contains("/var/log/auth.log") {
        return is_of_adit.then_some("the log of charon");
    }
    let is_cache = command.contains("--list-certs --type ocsp_response");
    (is_of_adit && is_cache).then_some("the cache of OCSP of charon")
}

/// Whether a name is of a pattern in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Settings, checks};

    fn scenario(name: &str, settings: Settings) -> Scenario {
        Scenario { name: name.into(), settings, before: Vec::new(), checks: Vec::new(), after: Vec::new() }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("a/*-b*", "a/x-b") && matches("*", "") && matches("a*c*", "abcd"));
        assert!(!matches("a/*-b", "a/x-bc") && !matches("a", "ab") && !matches("*b", "a"));
    }

    #[test]
    fn a_scenario_fits_that_no_rule_names() {
        let settings = Settings { has_swanctl: true, ..Settings::default() };
        assert_eq!(unfit(&scenario("ikev2/net2net-psk", settings.clone())), None);
        assert_eq!(unfit(&scenario("ikev2/net2net-ah", settings.clone())), Some("AH"));
        let radius = Settings { has_radius: true, ..settings };
        assert_eq!(unfit(&scenario("ikev2/rw", radius)), Some("a RADIUS server"));
        assert_eq!(unfit(&scenario("ikev2/rw", Settings::default())), Some("`ipsec.conf`"));
    }

    #[test]
    fn the_log_of_charon_is_read_where_charon_runs() {
        let checks = checks(
            "moon::cat /var/log/daemon.log::x::YES\nmoon::ip xfrm state::x::YES\nmoon::ping -c 1 bob::x::YES\n\
             moon::cat /var/log/daemon.log::deleted SAD entry::YES\n",
        );
        let found = |is_of_adit: bool| {
            checks.iter().map(|check| inapplicable(check, is_of_adit).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(found(true), [true, true, false, true]);
        assert_eq!(found(false), [false, true, false, true]);
    }
}
