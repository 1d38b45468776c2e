//! `--show-…`: what adit knows, in the form of OpenVPN's lists, which programs read.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{Cipher, Digest};
use adit_openvpn_config::tls_names;
use adit_system::{KernelRoute, Netlink};

/// How a cipher divides what it encrypts: AES has blocks of 128 bits.
fn division(cipher: Cipher) -> &'static str {
    if cipher == Cipher::ChaCha20Poly1305 { "stream cipher" } else { "128 bit block" }
}

/// `--show-ciphers`.
pub(super) fn ciphers() -> String {
    let mut text = "The following ciphers and cipher modes are available for use\nwith OpenVPN.  Each cipher shown below \
                    may be used as a\nparameter to the --data-ciphers (or --cipher) option.\n"
        .to_owned();
    for cipher in Cipher::ALL {
        let mode = if cipher.is_aead() { ", TLS client/server mode only" } else { "" };
        let (name, key, division) = (cipher.name(), 8 * cipher.key_len(), division(cipher));
        let _ = write!(text, "\n{name}  ({key} bit key, {division}{mode})");
    }
    text
}

/// `--show-digests`.
pub(super) fn digests() -> String {
    let mut text =
        "The following message digests are available for use with\nOpenVPN.  You can specify a message \
                    digest as parameter to\nthe --auth option.\n"
            .to_owned();
    for digest in Digest::ALL {
        let _ = write!(text, "\n{} {} bit digest size", digest.name(), 8 * digest.output_len());
    }
    text
}

/// `--show-tls`.
pub(super) fn tls() -> String {
    let [suites, ciphers, _] = tls_names();
    format!(
        "Available TLS Ciphers, listed in order of preference:\n\nFor TLS 1.3 and newer (--tls-ciphersuites):\n\n{}\n\n\
         For TLS 1.2 and older (--tls-cipher):\n\n{}\n",
        suites.join("\n"),
        ciphers.join("\n")
    )
}

/// `--show-groups` and `--show-curves`.
pub(super) fn groups() -> String {
    let [_, _, groups] = tls_names();
    format!("Available Elliptic curves/groups:\n{}", groups.join("\n"))
}

/// `--show-gateway`.
///
/// # Errors
/// When the kernel cannot be asked.
pub(super) fn gateways() -> Result<String, String> {
    let failed = |error: std::io::Error| format!("the routes cannot be read: {error}");
    let mut netlink = Netlink::open().map_err(failed)?;
    let families = [
        ("ROUTE_GATEWAY", IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        ("ROUTE6_GATEWAY", IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    ];
    let mut lines = Vec::new();
    for (mark, like) in families {
        lines.push(match netlink.default_route(like).map_err(failed)? {
            Some(route) => line(mark, &route),
            None => format!("{mark} UNDEF"),
        });
    }
    Ok(lines.join("\n"))
}

fn line(mark: &str, route: &KernelRoute) -> String {
    let gateway = route.gateway.map_or("ON_LINK".to_owned(), |gateway| gateway.to_string());
    match route.device.and_then(device_name) {
        Some(device) => format!("{mark} {gateway} IFACE={device}"),
        None => format!("{mark} {gateway}"),
    }
}

fn device_name(index: u32) -> Option<String> {
    let all = std::fs::read_dir("/sys/class/net").ok()?;
    let is_it = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("ifindex")).is_ok_and(|text| text.trim() == index.to_string())
    };
    let mut found = all.flatten().map(|entry| entry.path()).filter(|path| is_it(path));
    Some(found.next()?.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of OpenVPN 2.6.14's lists, which pfSense reads by their words.
    #[test]
    fn lines_are_openvpns() {
        let has =
            |text: String, line: &str| assert!(text.lines().any(|found| found == line), "{line}: {text}");
        has(ciphers(), "AES-256-GCM  (256 bit key, 128 bit block, TLS client/server mode only)");
        has(ciphers(), "AES-128-CBC  (128 bit key, 128 bit block)");
        has(ciphers(), "CHACHA20-POLY1305  (256 bit key, stream cipher, TLS client/server mode only)");
        has(digests(), "SHA256 256 bit digest size");
        has(tls(), "TLS_AES_256_GCM_SHA384");
        has(tls(), "TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384");
        has(groups(), "secp384r1");
    }

    #[test]
    fn a_gateway_is_named_with_its_device() {
        let route = |gateway: Option<&str>| KernelRoute {
            destination: "0.0.0.0/0".parse().expect("a network"),
            gateway: gateway.map(|text| text.parse().expect("an address")),
            device: Some(1),
            metric: None,
        };
        let text = line("ROUTE_GATEWAY", &route(Some("192.0.2.1")));
        assert!(text == "ROUTE_GATEWAY 192.0.2.1 IFACE=lo" || text == "ROUTE_GATEWAY 192.0.2.1", "{text}");
        assert!(line("ROUTE_GATEWAY", &route(None)).starts_with("ROUTE_GATEWAY ON_LINK"));
    }
}
