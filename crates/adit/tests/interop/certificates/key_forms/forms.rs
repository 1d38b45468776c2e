//! The forms of private keys.

use Made::{Key, LegacyKey, Pkcs12, Pkcs12WithAuthority, Plain, Text};

/// A private key in one form.
pub(super) struct Form {
    pub(super) name: &'static str,
    /// The name of its [`KEYS`] entry.
    pub(super) key: &'static str,
    pub(super) made: Made,
    /// Whether OpenVPN 2.6 connects with it.
    pub(super) openvpn: bool,
    /// Whether adit connects with it.
    pub(super) adit: bool,
    /// A part of adit's log if adit does not connect; otherwise the reason why adit connects and OpenVPN does not, if that is so.
    pub(super) note: &'static str,
}

/// How a form is made of a key.
pub(super) enum Made {
    /// The key as it was generated.
    Plain,
    /// By these arguments of openssl: `IN` is the key, `CERT` its certificate, `CA` the authority's, `OUT` the result. The password
    /// is `secret`.
    Key(&'static str),
    /// By these arguments of openssl, as for [`Made::Key`], with legacy ciphers.
    LegacyKey(&'static str),
    /// By the arguments of `openssl pkcs12 -export` besides the input.
    Pkcs12(&'static str),
    /// By a change of the text.
    Text(fn(key: &str, certificate: &str) -> String),
    /// PKCS#12 with the authority's certificate, and a configuration without `ca`.
    Pkcs12WithAuthority,
}

/// Keys: name, and arguments of openssl by which they are made.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("rsa", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048"),
    ("rsa4096", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:4096"),
    ("rsa1024", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024"),
    ("rsapss", "genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048"),
    (
        "rsapss256",
        "genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -pkeyopt rsa_pss_keygen_md:sha256 \
         -pkeyopt rsa_pss_keygen_mgf1_md:sha256 -pkeyopt rsa_pss_keygen_saltlen:32",
    ),
    ("p256", "ecparam -name prime256v1 -genkey"),
    ("p384", "ecparam -name secp384r1 -genkey -noout"),
    ("p521", "ecparam -name secp521r1 -genkey -noout"),
    ("explicit", "ecparam -name prime256v1 -genkey -noout -param_enc explicit"),
    ("p224", "ecparam -name secp224r1 -genkey -noout"),
    ("k256", "ecparam -name secp256k1 -genkey -noout"),
    ("brainpool", "ecparam -name brainpoolP256r1 -genkey -noout"),
    ("ed25519", "genpkey -algorithm ed25519"),
    ("ed448", "genpkey -algorithm ed448"),
    // DSA parameters take long to make.
    ("dsa", "pkey -in dsa"),
];

const fn same(name: &'static str, key: &'static str, made: Made) -> Form {
    Form { name, key, made, openvpn: true, adit: true, note: "" }
}

const fn refused(
    name: &'static str,
    key: &'static str,
    made: Made,
    openvpn: bool,
    note: &'static str,
) -> Form {
    Form { name, key, made, openvpn, adit: false, note }
}

const fn laxer(name: &'static str, key: &'static str, made: Made) -> Form {
    let note =
        "adit reads a cipher that OpenSSL 3 has in its legacy provider alone (`providers legacy default`)";
    Form { name, key, made, openvpn: false, adit: true, note }
}

/// The forms, in the order of the documentation.
pub(super) const FORMS: &[Form] = &[
    same("RSA of 2048 bits, PKCS#8", "rsa", Plain),
    same("RSA of 2048 bits, PKCS#1", "rsa", Key("rsa -in IN -traditional -out OUT")),
    same("RSA of 4096 bits", "rsa4096", Plain),
    refused(
        "RSA of 1024 bits",
        "rsa1024",
        Plain,
        true,
        "it is an RSA key of 1024 bits, with which adit cannot sign; RSA keys shorter than 2048 bits can be broken",
    ),
    same("RSA-PSS", "rsapss", Plain),
    same("RSA-PSS for SHA-256 alone", "rsapss256", Plain),
    same("P-256, SEC1 behind `EC PARAMETERS`", "p256", Plain),
    same("P-256, SEC1", "p256", Key("ec -in IN -out OUT")),
    same("P-256, PKCS#8", "p256", Key("pkcs8 -topk8 -nocrypt -in IN -out OUT")),
    same("P-384", "p384", Plain),
    same("P-521", "p521", Plain),
    refused(
        "P-256 with parameters written out",
        "explicit",
        Plain,
        false,
        "it is an EC key with the parameters of its curve written out",
    ),
    refused("P-224", "p224", Plain, false, "it is an EC key on the curve secp224r1"),
    refused("secp256k1", "k256", Plain, false, "it is an EC key on the curve secp256k1"),
    refused("brainpoolP256r1", "brainpool", Plain, false, "it is an EC key on the curve brainpoolP256r1"),
    same("Ed25519", "ed25519", Plain),
    refused("Ed448", "ed448", Plain, true, "it is an Ed448 key, with which adit cannot sign"),
    refused("DSA", "dsa", Plain, false, "it is a DSA key"),
    same("PEM with AES-128", "rsa", Key("rsa -in IN -traditional -aes128 -passout pass:secret -out OUT")),
    same("PEM with AES-192", "rsa", Key("rsa -in IN -traditional -aes192 -passout pass:secret -out OUT")),
    same("PEM with AES-256", "p256", Key("ec -in IN -aes256 -passout pass:secret -out OUT")),
    same("PEM with 3DES", "rsa", Key("rsa -in IN -traditional -des3 -passout pass:secret -out OUT")),
    laxer("PEM with DES", "rsa", LegacyKey("rsa -in IN -traditional -des -passout pass:secret -out OUT")),
    refused(
        "PEM with Camellia",
        "rsa",
        Key("rsa -in IN -traditional -camellia256 -passout pass:secret -out OUT"),
        true,
        "it is encrypted by CAMELLIA-256-CBC, which adit cannot read; encrypt it anew: openssl pkey -in KEY -aes256",
    ),
    same("PKCS#8 with AES-256", "p256", Key("pkcs8 -topk8 -in IN -v2 aes256 -passout pass:secret -out OUT")),
    same(
        "PKCS#8 with AES-128 and HMAC-SHA-1",
        "p256",
        Key("pkcs8 -topk8 -in IN -v2 aes128 -v2prf hmacWithSHA1 -passout pass:secret -out OUT"),
    ),
    same(
        "PKCS#8 with AES-256 and HMAC-SHA-512",
        "p256",
        Key("pkcs8 -topk8 -in IN -v2 aes256 -v2prf hmacWithSHA512 -passout pass:secret -out OUT"),
    ),
    same(
        "PKCS#8 with AES-256 and scrypt",
        "p256",
        Key("pkcs8 -topk8 -in IN -scrypt -passout pass:secret -out OUT"),
    ),
    same("PKCS#8 with 3DES", "p256", Key("pkcs8 -topk8 -in IN -v2 des3 -passout pass:secret -out OUT")),
    laxer("PKCS#8 with DES", "p256", LegacyKey("pkcs8 -topk8 -in IN -v2 des -passout pass:secret -out OUT")),
    refused(
        "PKCS#8 with Camellia",
        "p256",
        Key("pkcs8 -topk8 -in IN -v2 camellia256 -passout pass:secret -out OUT"),
        true,
        "it is encrypted by CAMELLIA-256-CBC",
    ),
    refused(
        "PKCS#8 with ARIA",
        "p256",
        Key("pkcs8 -topk8 -in IN -v2 aria256 -passout pass:secret -out OUT"),
        true,
        "it is encrypted by ARIA-256-CBC",
    ),
    laxer(
        "PKCS#8 with PBE-MD5-DES",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-MD5-DES -passout pass:secret -out OUT"),
    ),
    laxer(
        "PKCS#8 with PBE-SHA1-DES",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-DES -passout pass:secret -out OUT"),
    ),
    laxer(
        "PKCS#8 with PBE-MD5-RC2-64",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-MD5-RC2-64 -passout pass:secret -out OUT"),
    ),
    same(
        "PKCS#8 with PBE-SHA1-3DES",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-3DES -passout pass:secret -out OUT"),
    ),
    same(
        "PKCS#8 with PBE-SHA1-2DES",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-2DES -passout pass:secret -out OUT"),
    ),
    laxer(
        "PKCS#8 with PBE-SHA1-RC2-128",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-RC2-128 -passout pass:secret -out OUT"),
    ),
    laxer(
        "PKCS#8 with PBE-SHA1-RC2-40",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-RC2-40 -passout pass:secret -out OUT"),
    ),
    refused(
        "PKCS#8 with PBE-SHA1-RC4-128",
        "p256",
        LegacyKey("pkcs8 -topk8 -in IN -v1 PBE-SHA1-RC4-128 -passout pass:secret -out OUT"),
        false,
        "it is encrypted by PBE-SHA1-RC4-128",
    ),
    same(
        "text around it",
        "rsa",
        Text(|key, _| format!("Private-Key: (2048 bit)\nmodulus:\n    00:c0:ff:ee\n{key}end\n")),
    ),
    same(
        "bag attributes, one in ISO 8859-1",
        "rsa",
        Text(|key, _| {
            format!(
                "Bag Attributes\n    friendlyName: M\u{fffd}ller\n    localKeyID: 01 02\nKey Attributes: <No Attributes>\n{key}"
            )
        }),
    ),
    same("lines that end in CR LF", "rsa", Text(|key, _| key.replace('\n', "\r\n"))),
    same("certificate and key in one file", "p256", Text(|key, certificate| format!("{certificate}{key}"))),
    refused(
        "DER",
        "p256",
        Key("pkcs8 -topk8 -nocrypt -in IN -outform DER -out OUT"),
        false,
        "a key by `openssl pkey -inform DER -in FILE -out NEWFILE`",
    ),
    refused(
        "a public key",
        "p256",
        Key("pkey -in IN -pubout -out OUT"),
        false,
        "no private key in it: no line `-----BEGIN PRIVATE KEY-----`, but PUBLIC KEY",
    ),
    refused(
        "another certificate's key",
        "rsa",
        Text(|_, _| OTHER.to_owned()),
        false,
        "this private key does not belong to the certificate in cert",
    ),
    same("PKCS#12 of OpenSSL 3 (AES-256, SHA-256)", "p256", Pkcs12("-passout pass:secret")),
    laxer("PKCS#12 of OpenSSL 1 (3DES, RC2-40, SHA-1)", "p256", Pkcs12("-legacy -passout pass:secret")),
    same(
        "PKCS#12 with 3DES alone (`-descert`)",
        "p256",
        Pkcs12("-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg sha1 -passout pass:secret"),
    ),
    same(
        "PKCS#12 with AES-128 and SHA-512",
        "p256",
        Pkcs12("-keypbe AES-128-CBC -certpbe AES-128-CBC -macalg sha512 -passout pass:secret"),
    ),
    same("PKCS#12 with an empty password", "p256", Pkcs12("-passout pass:")),
    same("PKCS#12 without encryption", "p256", Pkcs12("-keypbe NONE -certpbe NONE -passout pass:secret")),
    Form {
        openvpn: false,
        note: "adit is laxer: a MAC says that the file is whole, not who made it",
        ..same("PKCS#12 without MAC", "p256", Pkcs12("-nomac -passout pass:secret"))
    },
    same("PKCS#12 with the authority, without `ca`", "p256", Pkcs12WithAuthority),
    refused(
        "PKCS#12 with RC4",
        "p256",
        Pkcs12("-legacy -keypbe PBE-SHA1-RC4-128 -certpbe PBE-SHA1-RC4-128 -passout pass:secret"),
        false,
        "it is encrypted by PBE-SHA1-RC4-128, which adit cannot read; make it anew: openssl pkcs12",
    ),
    refused(
        "PKCS#12 with Camellia",
        "p256",
        Pkcs12("-keypbe CAMELLIA-256-CBC -certpbe CAMELLIA-256-CBC -passout pass:secret"),
        true,
        "it is encrypted by CAMELLIA-256-CBC",
    ),
    same("PKCS#12 with an RSA-PSS key", "rsapss", Pkcs12("-passout pass:secret")),
    refused("PKCS#12 with an Ed448 key", "ed448", Pkcs12("-passout pass:secret"), true, "it is an Ed448 key"),
];

/// A DSA key.
pub(super) const DSA: &str = include_str!("../../../../../pki/tests/data/private_key/dsa.key");

/// A key on P-256 without a certificate.
const OTHER: &str = include_str!("../../../../../pki/tests/data/private_key/prime256v1.key");
