//! The content of a revocation list (RFC 5280 §5), read as OpenSSL 3.0 reads it for OpenVPN (x_crl.c): version, order of
//! extensions and the dates of entries make no difference; dates of the list have one of two forms.

use std::collections::BTreeMap;

use adit_core::printable;
use time::{Date, Month, OffsetDateTime, Time};
use x509_parser::prelude::{FromDer as _, X509Name};

use crate::canonical_name::CanonicalName;
use crate::certificate::{name, subject_text};
use crate::der_values::{Value, Values, dotted, tag};
use crate::list_fault::RevocationError;

/// The extensions of lists and entries that may be critical, as adit knows their meaning: subject and issuer
/// alternative names, cRLNumber, reasonCode, invalidityDate, deltaCRLIndicator, issuingDistributionPoint,
/// certificateIssuer, authorityKeyIdentifier, freshestCRL.
const KNOWN_EXTENSIONS: [&str; 9] = [
    "2.5.29.18",
    CRL_NUMBER,
    REASON,
    "2.5.29.24",
    DELTA,
    DISTRIBUTION_POINT,
    CERTIFICATE_ISSUER,
    "2.5.29.35",
    "2.5.29.46",
];
const CRL_NUMBER: &str = "2.5.29.20";
const REASON: &str = "2.5.29.21";
const DELTA: &str = "2.5.29.27";
const DISTRIBUTION_POINT: &str = "2.5.29.28";
const CERTIFICATE_ISSUER: &str = "2.5.29.29";
/// removeFromCRL of CRLReason (RFC 5280 §5.3.1).
const REMOVE_FROM_CRL: u8 = 8;

/// The entry of one certificate in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// The certificate is on hold no more.
    Removed,
    /// The certificate is revoked.
    Revoked,
}

/// A list without its signature.
pub(crate) struct ListContent {
    pub(crate) issuer: CanonicalName,
    /// The issuer's name, for people.
    pub(crate) issuer_text: String,
    /// The issuer's common name.
    pub(crate) issuer_name: String,
    /// The time in seconds since 1970.
    pub(crate) this_update: i64,
    /// The time in seconds since 1970.
    pub(crate) next_update: Option<i64>,
    /// The issuing distribution point, which names the part of the authority's certificates that the list
    /// covers.
    pub(crate) scope: Option<Vec<u8>>,
    /// The list has only the changes since another list (RFC 5280 §5.2.4).
    pub(crate) is_delta: bool,
    /// By serial number, as it stands in certificates.
    entries: BTreeMap<Box<[u8]>, Entry>,
    /// How many entries are of certificates that other authorities issued.
    pub(crate) foreign: usize,
}

impl ListContent {
    /// Reads a TBSCertList.
    pub(crate) fn read(message: &[u8]) -> Result<Self, RevocationError> {
        let mut fields = Values::inside(tag::SEQUENCE, message).ok_or_else(|| damaged("structure"))?;
        // OpenSSL reads lists alike, whatever version they name.
        fields.take(tag::INTEGER);
        fields.take(tag::SEQUENCE).ok_or_else(|| damaged("signature algorithm"))?;
        let issuer = fields.take(tag::SEQUENCE).ok_or_else(|| damaged("issuer"))?;
        let (_, issuer) = X509Name::from_der(issuer.whole).map_err(|_| damaged("issuer"))?;
        let issuer_text = subject_text(&issuer);
        let this_update = fields.next().ok_or_else(|| damaged("thisUpdate"))?;
        let this_update = date(this_update, "thisUpdate", &issuer_text)?;
        let next_update = fields.take(tag::UTC_TIME).or_else(|| fields.take(tag::GENERALIZED_TIME));
        let next_update = next_update.map(|it| date(it, "nextUpdate", &issuer_text)).transpose()?;
        let mut list = ListContent {
            issuer: CanonicalName::new(&issuer),
            issuer_text,
            issuer_name: name(&issuer),
            this_update,
            next_update,
            scope: None,
            is_delta: false,
            entries: BTreeMap::new(),
            foreign: 0,
        };
        if let Some(entries) = fields.take(tag::SEQUENCE) {
            list.read_entries(Values::new(entries.content))?;
        }
        if let Some(extensions) = fields.take(tag::CONTEXT_0) {
            let extensions = Values::inside(tag::SEQUENCE, extensions.content);
            list.read_extensions(extensions.ok_or_else(|| damaged("extensions"))?)?;
        }
        if fields.is_empty() { Ok(list) } else { Err(damaged("end")) }
    }

    /// The entry of the certificate with this serial number that the list's issuer issued.
    pub(crate) fn entry(&self, serial: &[u8]) -> Option<Entry> {
        self.entries.get(serial).copied()
    }

    /// The serial numbers of the revoked certificates.
    pub(crate) fn revoked(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter(|(_, entry)| **entry == Entry::Revoked).map(|(serial, _)| &**serial)
    }

    fn read_entries(&mut self, mut entries: Values<'_>) -> Result<(), RevocationError> {
        // certificateIssuer holds for the entries after it, too (RFC 5280 §5.3.3).
        let mut is_own = true;
        while !entries.is_empty() {
            let entry = entries.take(tag::SEQUENCE).ok_or_else(|| damaged("entries"))?;
            let mut fields = Values::new(entry.content);
            let serial = fields.take(tag::INTEGER).filter(|it| is_shortest(it.content));
            let serial = serial.ok_or_else(|| damaged("serial numbers"))?;
            // The date of a revocation decides nothing, and OpenSSL takes any text.
            fields.next().ok_or_else(|| damaged("entries"))?;
            let mut said = Entry::Revoked;
            if let Some(extensions) = fields.take(tag::SEQUENCE) {
                let mut extensions = Values::new(extensions.content);
                while !extensions.is_empty() {
                    let extension = self.extension(&mut extensions)?;
                    match extension.oid.as_str() {
                        REASON if reason(extension.value) == Some(REMOVE_FROM_CRL) => said = Entry::Removed,
                        CERTIFICATE_ISSUER => is_own = self.is_named_in(extension.value)?,
                        _ => {}
                    }
                }
            }
            if is_own {
                let known = self.entries.entry(serial.content.into()).or_insert(said);
                *known = said.max(*known);
            } else {
                self.foreign += 1;
            }
        }
        Ok(())
    }

    fn read_extensions(&mut self, mut extensions: Values<'_>) -> Result<(), RevocationError> {
        while !extensions.is_empty() {
            let extension = self.extension(&mut extensions)?;
            match extension.oid.as_str() {
                DELTA => self.is_delta = true,
                DISTRIBUTION_POINT => self.scope = Some(extension.value.to_vec()),
                _ => {}
            }
        }
        Ok(())
    }

    fn extension<'a>(&self, extensions: &mut Values<'a>) -> Result<Extension<'a>, RevocationError> {
        let extension = extensions.take(tag::SEQUENCE).and_then(Extension::read);
        let extension = extension.ok_or_else(|| damaged("extensions"))?;
        if extension.is_critical && !KNOWN_EXTENSIONS.contains(&extension.oid.as_str()) {
            return Err(RevocationError::Critical { issuer: self.issuer_text.clone(), oid: extension.oid });
        }
        Ok(extension)
    }

    /// Whether the list's issuer is among these names (GeneralNames).
    fn is_named_in(&self, names: &[u8]) -> Result<bool, RevocationError> {
        let mut names = Values::inside(tag::SEQUENCE, names).ok_or_else(|| damaged("certificateIssuer"))?;
        while let Some(name) = names.next() {
            let name = Some(name).filter(|name| name.tag == tag::CONTEXT_4);
            let name = name.and_then(|name| X509Name::from_der(name.content).ok());
            if name.is_some_and(|(_, name)| CanonicalName::new(&name) == self.issuer) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct Extension<'a> {
    oid: String,
    is_critical: bool,
    value: &'a [u8],
}

impl<'a> Extension<'a> {
    fn read(extension: Value<'a>) -> Option<Self> {
        let mut fields = Values::new(extension.content);
        let oid = dotted(fields.take(tag::OBJECT_IDENTIFIER)?.content);
        let is_critical = fields.take(tag::BOOLEAN).is_some_and(|it| it.content != [0]);
        let value = fields.take(tag::OCTET_STRING)?.content;
        fields.is_empty().then_some(Extension { oid, is_critical, value })
    }
}

fn reason(value: &[u8]) -> Option<u8> {
    match Values::new(value).take(tag::ENUMERATED)?.content {
        [reason] => Some(*reason),
        _ => None,
    }
}

fn damaged(part: &str) -> RevocationError {
    RevocationError::List(format!("its {part} cannot be read"))
}

/// Whether an integer has no byte more than it needs (X.690 section 8.3.2). OpenSSL reads no other.
fn is_shortest(integer: &[u8]) -> bool {
    match integer {
        [] => false,
        [0, next, ..] => *next >= 0x80,
        [0xff, next, ..] => *next < 0x80,
        _ => true,
    }
}

fn date(value: Value<'_>, field: &'static str, issuer: &str) -> Result<i64, RevocationError> {
    seconds(value).ok_or_else(|| RevocationError::Date {
        issuer: issuer.to_owned(),
        field,
        found: printable(&String::from_utf8_lossy(value.content)),
    })
}

/// A date in seconds since 1970: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 §5.1.2.4), which are the only forms that
/// OpenSSL compares with the clock (`X509_cmp_time`).
fn seconds(value: Value<'_>) -> Option<i64> {
    let digits = value.content.strip_suffix(b"Z").filter(|it| it.iter().all(u8::is_ascii_digit))?;
    let number = |digits: &[u8]| digits.iter().fold(0_u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    let (year, rest) = match (value.tag, digits.len()) {
        // Years from 50 on are of the last century (RFC 5280 §4.1.2.5.1).
        (tag::UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        (tag::GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return None,
    };
    let part = |place: usize| rest.get(2 * place..2 * place + 2).and_then(|it| u8::try_from(number(it)).ok());
    let date = Date::from_calendar_date(year.into(), Month::try_from(part(0)?).ok()?, part(1)?).ok()?;
    let time = Time::from_hms(part(2)?, part(3)?, part(4)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time).unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_one_of_two_forms() {
        let of = |tag, text: &'static str| seconds(Value { tag, content: text.as_bytes(), whole: &[] });
        assert_eq!(of(tag::UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(of(tag::UTC_TIME, "491231235959Z"), of(tag::GENERALIZED_TIME, "20491231235959Z"));
        assert_eq!(of(tag::GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for text in
            ["7001010000Z", "700101000000", "700101000000+0000", "700101000000.5Z", "701301000000Z", ""]
        {
            assert_eq!(of(tag::UTC_TIME, text), None, "{text}");
        }
        assert_eq!(of(tag::GENERALIZED_TIME, "700101000000Z"), None);
        assert_eq!(of(tag::INTEGER, "700101000000Z"), None);
    }
}
