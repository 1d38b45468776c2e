//! Families of subjects, which reports show together.

use super::bars::Label;

/// The family of a subject, in the order of reports: first the peers that adit is compared with directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// Programs that carry OpenVPN's data channel in user space.
    OpenVpn,
    /// Programs that carry WireGuard's in user space.
    WireGuard,
    /// Programs that carry ESP in user space.
    Ipsec,
    /// Other programs in user space, the reader's own among them.
    Other,
    /// Data channels in the kernel.
    Kernel,
    /// The bounds of every tunnel: the bare link, and a tunnel that only moves packets.
    Baseline,
    /// Measured by others.
    Published,
}

/// The family by the start of a subject's name, the first that fits. Without one it is [`Family::Other`].
const NAMES: [(&str, Family); 16] = [
    ("adit-wireguard", Family::WireGuard),
    // adit's WireGuard with another program's at the server's end.
    ("adit-to-", Family::WireGuard),
    ("adit-ipsec", Family::Ipsec),
    ("adit-", Family::OpenVpn),
    ("openvpn-", Family::OpenVpn),
    ("miragevpn-", Family::OpenVpn),
    ("wireguard-kernel", Family::Kernel),
    ("wireguard-go", Family::WireGuard),
    ("boringtun", Family::WireGuard),
    ("gotatun", Family::WireGuard),
    ("strongswan-kernel", Family::Kernel),
    ("strongswan", Family::Ipsec),
    ("libreswan", Family::Kernel),
    ("l2tp-kernel", Family::Kernel),
    ("veth", Family::Baseline),
    ("null", Family::Baseline),
];
/// The end of the names of subjects that leave their data channel to the kernel.
const OFFLOADED: &str = "-dco";

impl Family {
    /// The family of a subject, by its name in plans: `NAME` or `NAME@WORD`.
    pub(super) fn of(subject: &str) -> Family {
        let name = subject.split_once('@').map_or(subject, |(name, _)| name);
        if name.ends_with(OFFLOADED) {
            return Family::Kernel;
        }
        let known = NAMES.iter().find(|(start, _)| name.starts_with(start));
        known.map_or(Family::Other, |(_, family)| *family)
    }

    /// The family of a bar: figures that others published stand by themselves.
    pub(super) fn of_labelled(subject: &str, label: Label) -> Family {
        if label == Label::Published { Family::Published } else { Family::of(subject) }
    }

    /// Its name in reports.
    pub(super) fn words(self) -> &'static str {
        match self {
            Family::OpenVpn => "OpenVPN in user space",
            Family::WireGuard => "WireGuard in user space",
            Family::Ipsec => "IPsec in user space",
            Family::Other => "Other VPNs in user space",
            Family::Kernel => "In the kernel",
            Family::Baseline => "Bounds: the link alone, and a tunnel that does nothing",
            Family::Published => "Measured by others",
        }
    }
}

/// Subjects by family; those of one family keep their order.
pub(super) fn ordered<'a>(subjects: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let mut subjects: Vec<&String> = subjects.into_iter().collect();
    subjects.sort_by_key(|subject| Family::of(subject));
    subjects
}

/// The words above each of these families, in their order: those of a family, at its first. None where all are of one
/// family.
pub(super) fn headings(families: &[Family]) -> Vec<Option<&'static str>> {
    let is_mixed = families.windows(2).any(|pair| pair[0] != pair[1]);
    let before = std::iter::once(None).chain(families.iter().map(|family| Some(*family)));
    let heading = |(family, before): (&Family, Option<Family>)| {
        (is_mixed && before != Some(*family)).then(|| family.words())
    };
    families.iter().zip(before).map(heading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_peers_come_first_and_bounds_last() {
        let names = [
            "veth",
            "tinc",
            "wireguard-kernel",
            "openvpn-udp-dco",
            "wireguard-go@500",
            "adit-wireguard",
            "adit-to-gotatun",
            "adit-ipsec-raw",
            "strongswan-aes128",
            "openvpn-udp",
            "strongswan-kernel",
            "my-own",
            "adit-udp@10",
            "null",
        ]
        .map(str::to_owned);
        let ordered = ordered(&names);
        assert_eq!(
            ordered,
            [
                "openvpn-udp",
                "adit-udp@10",
                "wireguard-go@500",
                "adit-wireguard",
                "adit-to-gotatun",
                "adit-ipsec-raw",
                "strongswan-aes128",
                "tinc",
                "my-own",
                "wireguard-kernel",
                "openvpn-udp-dco",
                "strongswan-kernel",
                "veth",
                "null"
            ]
        );
        let families: Vec<Family> = ordered.iter().map(|name| Family::of(name)).collect();
        let headings = headings(&families);
        assert_eq!(headings.iter().flatten().count(), 6);
        assert_eq!(headings[..3], [Some("OpenVPN in user space"), None, Some("WireGuard in user space")]);
    }

    #[test]
    fn one_family_needs_no_heading() {
        assert_eq!(headings(&[Family::OpenVpn, Family::OpenVpn]), [None, None]);
        assert_eq!(headings(&[]), [None; 0]);
    }

    #[test]
    fn every_subject_of_the_lab_has_its_family() {
        let subjects = crate::subjects::all();
        let others: Vec<&str> =
            subjects.keys().map(String::as_str).filter(|name| Family::of(name) == Family::Other).collect();
        assert!(
            others.iter().all(|name| ["fastd", "l2tp", "pptp", "tinc", "vtun"]
                .iter()
                .any(|one| name.starts_with(one))),
            "{others:?}"
        );
    }
}
