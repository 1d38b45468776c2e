//! Revocation lists in the forms in which authorities and programs write them, and the effect of each.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, SigningKey as _,
};

use Effect::{DoesNotStart, Holds, RefusesAll, RevokesNothing};

/// The effect of a list on the clients of a server that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It accepts the client that is not revoked, and refuses the one that is.
    Holds,
    /// It accepts both.
    RevokesNothing,
    /// It refuses both.
    RefusesAll,
    /// It does not start.
    DoesNotStart,
}

impl Effect {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Holds => "holds",
            RevokesNothing => "revokes nothing",
            RefusesAll => "no client comes in",
            DoesNotStart => "does not start",
        }
    }
}

/// A form of revocation lists.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    write: fn(&Author, List) -> Vec<u8>,
    /// The effect with OpenVPN 2.6.
    pub(crate) openvpn: Effect,
    /// The effect with adit.
    pub(crate) adit: Effect,
    /// The message of adit if it does not start; otherwise the reason why the effects differ, for the documentation.
    pub(crate) note: &'static str,
}

/// An authority with a client that is revoked, one that is not, and a server, in PEM.
pub(crate) struct Author {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    pub(crate) ca: String,
    pub(crate) good: [String; 2],
    pub(crate) revoked: [String; 2],
    pub(crate) server: [String; 2],
}

const REVOKED: u8 = 0x11;

impl Author {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let issue = |name: &str, serial: u8, usage| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.serial_number = Some(SerialNumber::from_slice(&[serial]));
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![usage];
            certify(&issuer, params)
        };
        let good = issue("good", 0x10, ExtendedKeyUsagePurpose::ClientAuth);
        let revoked = issue("revoked", REVOKED, ExtendedKeyUsagePurpose::ClientAuth);
        let server = issue("server", 0x12, ExtendedKeyUsagePurpose::ServerAuth);
        Author { issuer, ca, good, revoked, server }
    }

    /// The file of a form.
    pub(crate) fn write(&self, form: &Form) -> Vec<u8> {
        (form.write)(self, List::default())
    }

    fn sign(&self, list: &List) -> Vec<u8> {
        let message = list.message();
        let signature = self.issuer.key().sign(&message).unwrap();
        sequence(&[&message, ALGORITHM, &value(0x03, &[&[0], &signature])])
    }

    fn pem(&self, list: &List) -> Vec<u8> {
        armor(&self.sign(list), 64)
    }
}

/// A certificate and a new key, in PEM.
pub(crate) fn certify(issuer: &Issuer<'_, KeyPair>, params: CertificateParams) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    [params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem()]
}

/// ecdsa-with-SHA256.
const ALGORITHM: &[u8] = &[0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const CRL_NUMBER: &[u8] = &[0x30, 10, 6, 3, 0x55, 0x1d, 0x14, 4, 3, 2, 1, 5];
const UTC: u8 = 0x17;
const GENERALIZED: u8 = 0x18;

/// The content of a list.
struct List {
    version: Option<u8>,
    issuer: &'static str,
    this_update: (u8, &'static str),
    next_update: Option<(u8, &'static str)>,
    entries: Vec<Entry>,
    extensions: Vec<Vec<u8>>,
}

struct Entry {
    serial: Vec<u8>,
    date: &'static str,
    extensions: Vec<Vec<u8>>,
}

impl Default for List {
    fn default() -> Self {
        let entry = Entry { serial: vec![REVOKED], date: "200101000000Z", extensions: Vec::new() };
        List {
            version: Some(1),
            issuer: "CA",
            this_update: (UTC, "200101000000Z"),
            next_update: Some((UTC, "490101000000Z")),
            entries: vec![entry],
            extensions: vec![CRL_NUMBER.to_vec()],
        }
    }
}

impl List {
    fn message(&self) -> Vec<u8> {
        let date = |(tag, text): (u8, &str)| value(tag, &[text.as_bytes()]);
        let version = self.version.map(|version| value(0x02, &[&[version]])).unwrap_or_default();
        let entries: Vec<u8> = self.entries.iter().flat_map(Entry::encode).collect();
        let entries = if entries.is_empty() { entries } else { sequence(&[&entries]) };
        let extensions = self.extensions.concat();
        let extensions =
            if extensions.is_empty() { extensions } else { value(0xa0, &[&sequence(&[&extensions])]) };
        let next_update = self.next_update.map(date).unwrap_or_default();
        sequence(&[
            &version,
            ALGORITHM,
            &name(self.issuer),
            &date(self.this_update),
            &next_update,
            &entries,
            &extensions,
        ])
    }

    fn with(mut self, extension: Vec<u8>) -> Self {
        self.extensions.push(extension);
        self
    }

    fn with_entry(mut self, extension: Vec<u8>) -> Self {
        self.entries[0].extensions.push(extension);
        self
    }
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let extensions = self.extensions.concat();
        let extensions = if extensions.is_empty() { extensions } else { sequence(&[&extensions]) };
        sequence(&[&value(0x02, &[&self.serial]), &value(UTC, &[self.date.as_bytes()]), &extensions])
    }
}

fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend(content);
    out
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(0x30, parts)
}

fn name(common: &str) -> Vec<u8> {
    sequence(&[&value(0x31, &[&sequence(&[&[6, 3, 0x55, 4, 3], &value(0x0c, &[common.as_bytes()])])])])
}

/// An extension of the arc 2.5.29.
fn extension(number: u8, is_critical: bool, content: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if is_critical { &[1, 1, 0xff] } else { &[] };
    sequence(&[&[6, 3, 0x55, 0x1d, number], critical, &value(0x04, &[content])])
}

fn reason(reason: u8) -> Vec<u8> {
    extension(0x15, false, &[0x0a, 1, reason])
}

fn delta() -> Vec<u8> {
    extension(0x1b, true, &[2, 1, 4])
}

fn scope(parts: &[&[u8]]) -> Vec<u8> {
    extension(0x1c, true, &sequence(parts))
}

fn armor(der: &[u8], width: usize) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut body = Vec::new();
    for chunk in der.chunks(3) {
        let word = chunk.iter().chain(&[0; 3]).take(3).fold(0, |word, byte| word << 8 | usize::from(*byte));
        body.extend((0..4).map(|place| match place <= chunk.len() {
            true => DIGITS[word >> (18 - 6 * place) & 63],
            false => b'=',
        }));
    }
    let mut text = b"-----BEGIN X509 CRL-----\n".to_vec();
    for line in body.chunks(width) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.extend_from_slice(b"-----END X509 CRL-----\n");
    text
}

const fn same(name: &'static str, write: fn(&Author, List) -> Vec<u8>) -> Form {
    Form { name, write, openvpn: Holds, adit: Holds, note: "" }
}

/// The forms, in the order of the documentation.
pub(crate) const FORMS: &[Form] = &[
    same("version 2, with cRLNumber", |author, list| author.pem(&list)),
    same("version 1, without extensions (`openssl ca -gencrl` by default)", |author, list| {
        author.pem(&List { version: None, extensions: Vec::new(), ..list })
    }),
    same("version 1 with extensions", |author, list| author.pem(&List { version: None, ..list })),
    same("version 2 without extensions", |author, list| author.pem(&List { extensions: Vec::new(), ..list })),
    same("a version that there is not", |author, list| author.pem(&List { version: Some(2), ..list })),
    same("without nextUpdate", |author, list| author.pem(&List { next_update: None, ..list })),
    same("version 1 without nextUpdate and without extensions", |author, list| {
        author.pem(&List { version: None, next_update: None, extensions: Vec::new(), ..list })
    }),
    same("dates as GeneralizedTime, until the year 9999", |author, list| {
        let (this_update, next_update) =
            ((GENERALIZED, "20200101000000Z"), Some((GENERALIZED, "99991231235959Z")));
        author.pem(&List { this_update, next_update, ..list })
    }),
    same("revocation dates without seconds, without Z, no dates at all", |author, mut list| {
        list.entries[0].date = "2001010000Z";
        let entry = |serial, date| Entry { serial: vec![serial], date, extensions: Vec::new() };
        list.entries.extend([
            entry(0x21, "200101000000"),
            entry(0x22, "200101000000+0100"),
            entry(0x23, "hello"),
        ]);
        author.pem(&list)
    }),
    Form {
        name: "thisUpdate without seconds",
        write: |author, list| author.pem(&List { this_update: (UTC, "2001010000Z"), ..list }),
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "the thisUpdate of the list of CN=CA in it is \"2001010000Z\"",
    },
    Form {
        name: "nextUpdate without Z",
        write: |author, list| author.pem(&List { next_update: Some((UTC, "490101000000")), ..list }),
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "the nextUpdate of the list of CN=CA in it is \"490101000000\"",
    },
    same("a delta list by itself", |author, list| author.pem(&list.with(delta()))),
    Form {
        name: "a complete list, and a newer delta list without that entry",
        write: |author, list| {
            let newer = List { this_update: (UTC, "210101000000Z"), entries: Vec::new(), ..List::default() };
            [author.pem(&list), author.pem(&newer.with(delta()))].concat()
        },
        openvpn: RevokesNothing,
        adit: Holds,
        note: "adit is stricter: OpenVPN takes the newest list alone; RFC 5280 §5.2.4 adds a delta list to the complete one",
    },
    same("a complete list, and an older delta list", |author, list| {
        let older = List { this_update: (UTC, "190101000000Z"), entries: Vec::new(), ..List::default() };
        [author.pem(&list), author.pem(&older.with(delta()))].concat()
    }),
    Form {
        name: "a complete list, and a newer delta list that takes the entry off (removeFromCRL)",
        write: |author, list| {
            let newer = List { this_update: (UTC, "210101000000Z"), ..List::default() };
            [author.pem(&list), author.pem(&newer.with(delta()).with_entry(reason(8)))].concat()
        },
        openvpn: RevokesNothing,
        adit: RevokesNothing,
        note: "",
    },
    same("an entry with a reason and one on hold", |author, mut list| {
        list.entries.push(Entry { serial: vec![0x20], date: "200101000000Z", extensions: vec![reason(1)] });
        author.pem(&list.with_entry(reason(6)))
    }),
    Form {
        name: "an indirect list (issuing distribution point)",
        write: |author, list| author.pem(&list.with(scope(&[&[0x84, 1, 0xff]]))),
        openvpn: RevokesNothing,
        adit: Holds,
        note: "adit is stricter: OpenVPN passes such a list over",
    },
    Form {
        name: "a list for some reasons alone (onlySomeReasons)",
        write: |author, list| author.pem(&list.with(scope(&[&[0x83, 2, 1, 6]]))),
        openvpn: RevokesNothing,
        adit: Holds,
        note: "adit is stricter: OpenVPN passes such a list over",
    },
    Form {
        name: "a list of end entities' certificates alone (onlyContainsUserCerts)",
        write: |author, list| author.pem(&list.with(scope(&[&[0x81, 1, 0xff]]))),
        openvpn: RefusesAll,
        adit: Holds,
        note: "adit is laxer: OpenVPN wants a list that covers the CA's own certificate, too",
    },
    Form {
        name: "a list of one distribution point that certificates do not name",
        write: |author, list| {
            let point = value(0xa0, &[&value(0xa0, &[&value(0x86, &[b"http://crl.example.net/1"])])]);
            author.pem(&list.with(scope(&[&point])))
        },
        openvpn: RefusesAll,
        adit: Holds,
        note: "adit is laxer: what the file names is revoked, whatever distribution point it is of",
    },
    same("an extension that is not known", |author, list| {
        author.pem(&list.with(extension(0x7f, false, &[5, 0])))
    }),
    Form {
        name: "a critical extension that is not known",
        write: |author, list| author.pem(&list.with(extension(0x7f, true, &[5, 0]))),
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "the list of CN=CA in it has a critical extension (2.5.29.127) that adit does not know",
    },
    same("several lists in one file: an older one first, and one of another authority", |author, list| {
        let older = List { this_update: (UTC, "190101000000Z"), entries: Vec::new(), ..List::default() };
        let other = Author::new();
        let of_other = other.pem(&List { issuer: "Other CA", ..List::default() });
        [author.pem(&older), of_other, author.pem(&list)].concat()
    }),
    same("PEM with text around it, and lines that end in CR LF", |author, list| {
        let pem = String::from_utf8(author.pem(&list)).unwrap();
        format!("Certificate Revocation List (CRL):\n    Version 2 (0x1)\n\n{pem}end of list\n")
            .replace('\n', "\r\n")
            .into_bytes()
    }),
    same("PEM with all base64 in one line", |author, list| armor(&author.sign(&list), 1 << 20)),
    Form {
        name: "DER",
        write: |author, list| author.sign(&list),
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "convert it to PEM: openssl crl -inform DER -in LIST -out NEWLIST",
    },
    Form {
        name: "a second list in the file that is damaged",
        write: |author, list| [author.pem(&list), armor(b"0123", 64)].concat(),
        openvpn: Holds,
        adit: DoesNotStart,
        note: "a list in it cannot be read",
    },
    Form {
        name: "a serial number with a byte too many",
        write: |author, mut list| {
            list.entries[0].serial = vec![0, REVOKED];
            author.pem(&list)
        },
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "its serial numbers cannot be read",
    },
    Form {
        name: "an empty file",
        write: |_, _| Vec::new(),
        openvpn: RefusesAll,
        adit: DoesNotStart,
        note: "holds no revocation list",
    },
];
