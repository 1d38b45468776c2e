//! Names of domains.

/// Whether a text is a domain's name and nothing that could mean more further on (CVE-2025-10680): labels of
/// letters, digits, hyphens and underscores, with a dot at the end or without.
pub fn is_domain(text: &str) -> bool {
    let bare = text.strip_suffix('.').unwrap_or(text);
    let fits = |label: &str| {
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(sound)
    };
    bare.len() <= 253 && bare.split('.').all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_domains() {
        for good in ["example.org", "a", "x-1_2.example.", "xn--bcher-kva.example"] {
            assert!(is_domain(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", ".", "a..b", "a b", "a\nnameserver 6.6.6.6", "$(reboot)", "a;b", "`x`", "ä.de", &long]
        {
            assert!(!is_domain(bad), "{bad}");
        }
    }
}
