//! The keys of the sections of `secrets`, `pools` and `authorities`.

use std::net::IpAddr;

use adit_core::IpNet;

use super::{Row, Value, anything, refused, set_list, unused, used};
use crate::draft::{CertificateDraft, PasswordDraft, PoolDraft, SharedDraft, UnusedDraft};
use crate::model::{Attribute, SecretBytes};
use crate::values::{addresses, identity, list, numbers, printable, secret};

const FOR_CISCO: &str =
    "it is for IKEv1 alone; write the networks in `subnet`, and in `local_ts` of the children";
const NOT_FETCHED: &str =
    "adit fetches nothing by itself; put the revocation list into `x509crl`, and it is read at each reload";
const NO_TOKENS: &str =
    "adit reads no authority from a token; write `cacert = ` and the file of the certificate in x509ca";
const NOT_READ: &str = "it is for XAuth and for hashes of passwords, which adit does not read; write the password into a section `eap`";

/// The keys of a section `ike…`, `ppk…` or `eap…` of `secrets`.
pub(crate) const SHARED: &[Row<SharedDraft>] = &[
    used("secret", "TEXT|0xHEX|0sBASE64", |draft, value| {
        draft.secret = Some(SecretBytes::new(secret::secret(value.text)?));
        Ok(())
    }),
    used("id…", "IDENTITY", |draft, value| {
        draft.owners.push(identity::pattern(value.text)?);
        Ok(())
    }),
];

/// The keys of a section `private…`, `rsa…`, `ecdsa…`, `pkcs8…` or `pkcs12…` of `secrets`.
pub(crate) const PASSWORD: &[Row<PasswordDraft>] = &[
    used("file", "FILE in the directory of that name", |draft, value| {
        draft.file = Some((printable(value.text)?, value.place.clone()));
        Ok(())
    }),
    used("secret", "TEXT|0xHEX|0sBASE64", |draft, value| {
        draft.password = Some(SecretBytes::new(secret::secret(value.text)?));
        Ok(())
    }),
];

/// The keys of a section `xauth…` or `ntlm…` of `secrets`.
pub(crate) const UNUSED_SECRET: &[Row<UnusedDraft>] = &[
    unused("secret", "TEXT|0xHEX|0sBASE64", |text| secret::secret(text).map(drop), NOT_READ),
    unused("id…", "IDENTITY", |text| identity::pattern(text).map(drop), NOT_READ),
];

/// The keys of a section of `pools`.
pub(crate) const POOL: &[Row<PoolDraft>] = &[
    used("addrs", "NETWORK|RANGE", |draft, value| {
        draft.addrs = Some(addresses::pool(value.text)?);
        Ok(())
    }),
    used("dns", "ADDRESS, …", |draft, value| set_list(&mut draft.dns, value.text, addresses::address)),
    used("nbns", "ADDRESS, …", |draft, value| set_list(&mut draft.nbns, value.text, addresses::address)),
    used("dhcp", "ADDRESS, …", |draft, value| set_list(&mut draft.dhcp, value.text, addresses::address)),
    unused(
        "netmask",
        "ADDRESS",
        |text| list(text).try_for_each(|part| addresses::address(part).map(drop)),
        "peers get addresses, each by itself; `subnet` and the selectors say what is behind this end",
    ),
    unused(
        "server",
        "ADDRESS",
        |text| list(text).try_for_each(|part| addresses::address(part).map(drop)),
        "it is a private attribute of Microsoft's, which no peer asks for",
    ),
    used("subnet", "NETWORK, …", |draft, value| {
        set_list(&mut draft.subnet, value.text, |part| {
            addresses::network(part).map(|network| network.trunc())
        })
    }),
    unused("p_cscf", "ADDRESS, …", anything, "it is for mobile telephone networks"),
    unused("split_include", "NETWORK, …", anything, FOR_CISCO),
    unused("split_exclude", "NETWORK, …", anything, FOR_CISCO),
];

/// The number of an attribute that a key is, if it is one.
pub(crate) fn attribute_number(key: &str) -> Option<u16> {
    /// The bit before the number is reserved (RFC 7296 section 3.15.1).
    const GREATEST: u64 = 0x7fff;
    numbers::number(key, GREATEST)
        .ok()
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number > 0)
}

/// Adds an attribute by its number, once for each part of the list: an address, a network (RFC 7296 sections 3.15.1 and 3.15.2), or
/// text.
pub(crate) fn attribute(draft: &mut PoolDraft, kind: u16, text: &str) {
    for part in list(text) {
        let value = match (part.parse(), part.parse()) {
            (Ok(address), _) => octets(address),
            (_, Ok(IpNet::V4(network))) => {
                [octets(network.addr().into()), octets(network.netmask().into())].concat()
            }
            (_, Ok(IpNet::V6(network))) => {
                [octets(network.addr().into()), vec![network.prefix_len()]].concat()
            }
            _ => part.as_bytes().to_vec(),
        };
        draft.attributes.push(Attribute { kind, value });
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The keys of a section of `authorities`.
pub(crate) const AUTHORITY: &[Row<CertificateDraft>] = &[
    used("cacert", "FILE in x509ca", |draft, value| certificate(draft, "x509ca", value)),
    used("file", "FILE", |draft, value| certificate(draft, "", value)),
    refused("handle", NO_TOKENS),
    unused("slot", "NUMBER", anything, "it is for `handle` alone"),
    unused("module", "NAME", anything, "it is for `handle` alone"),
    unused("crl_uris", "URI, …", anything, NOT_FETCHED),
    unused("ocsp_uris", "URI, …", anything, NOT_FETCHED),
    unused("cert_uri_base", "URI", anything, "adit sends certificates themselves, and no hashes of them"),
];

fn certificate(draft: &mut CertificateDraft, directory: &str, value: &Value<'_>) -> Result<(), String> {
    if draft.document.is_some() {
        return Err("`cacert` and `file` name one certificate: write one of them".to_owned());
    }
    let document = value.folder.named(directory, value.text, value.place)?;
    document.certificates()?;
    draft.document = Some(document);
    Ok(())
}
