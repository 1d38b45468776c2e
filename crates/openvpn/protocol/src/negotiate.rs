//! The negotiation of two ends: cipher, key derivation, data header, sizes.

mod sizes;

use adit_core::Cipher;

pub(crate) use self::sizes::{PathSize, Shape, max_mss, payloads};
use crate::codec::Compression;
use crate::occ::parse_options;
use crate::params::DataParams;
use crate::peer_info::PeerVariables;
use crate::wire::TlsRole;

/// `IV_PROTO` bits (OpenVPN ssl.h). Only those that adit implements are named here.
pub(crate) mod iv_proto {
    /// DATA_V2 is understood.
    pub(crate) const DATA_V2: u32 = 1 << 1;
    /// The client need not ask for the push reply.
    pub(crate) const REQUEST_PUSH: u32 = 1 << 2;
    /// Data keys can come from the TLS exporter.
    pub(crate) const TLS_KEY_EXPORT: u32 = 1 << 3;
    /// `AUTH_PENDING` may carry `timeout SECONDS`.
    pub(crate) const AUTH_PENDING_KW: u32 = 1 << 4;
    /// Ciphers and the rest are agreed on without a push.
    pub(crate) const NCP_P2P: u32 = 1 << 5;
    /// `AUTH_FAILED,TEMP` is understood.
    pub(crate) const AUTH_FAIL_TEMP: u32 = 1 << 8;
    /// `EXIT` on the control channel, and `protocol-flags`.
    pub(crate) const CC_EXIT: u32 = 1 << 7;
    /// Renegotiations can be wrapped by a key of the control channel's own.
    pub(crate) const DYNAMIC_TLS_CRYPT: u32 = 1 << 9;
    /// The epoch data format is understood.
    pub(crate) const DATA_EPOCH: u32 = 1 << 10;
    /// The option `dns` is understood.
    pub(crate) const DNS_OPTION: u32 = 1 << 11;
    /// PUSH_UPDATE is understood.
    pub(crate) const PUSH_UPDATE: u32 = 1 << 12;
    /// The abilities that need keys exported by TLS.
    pub(crate) const EXPORTS: u32 = TLS_KEY_EXPORT | DYNAMIC_TLS_CRYPT | DATA_EPOCH;
    /// The abilities of OpenVPN 2.5.
    pub(crate) const BEFORE_2_6: u32 = DATA_V2 | REQUEST_PUSH;
}

/// The abilities that a client announced in `IV_` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerAbilities {
    pub(crate) proto: u32,
    /// The ciphers that it offers, by name or by implication.
    pub(crate) ciphers: Vec<String>,
    /// The ciphers are those that the client named (`IV_CIPHERS`).
    pub(crate) lists_ciphers: bool,
    pub(crate) accepts_tun_mtu: bool,
    /// The client takes `compress stub-v2`.
    pub(crate) stub_v2: bool,
}

impl PeerAbilities {
    /// Reads the peer-info lines `NAME=VALUE`.
    pub(crate) fn parse(peer_info: &str) -> Self {
        let variables = PeerVariables::parse(peer_info);
        let value = |name: &str| variables.get(name).map(str::trim);
        let ciphers = match (value("IV_CIPHERS"), value("IV_NCP")) {
            (Some(list), _) => list.split(':').map(str::to_owned).collect(),
            // OpenVPN 2.4 says this instead of a list (OpenVPN ssl_ncp.c).
            (None, Some("2")) => vec!["AES-256-GCM".to_owned(), "AES-128-GCM".to_owned()],
            _ => Vec::new(),
        };
        PeerAbilities {
            proto: value("IV_PROTO").and_then(|text| text.parse().ok()).unwrap_or(0),
            ciphers,
            lists_ciphers: value("IV_CIPHERS").is_some(),
            accepts_tun_mtu: value("IV_MTU").is_some(),
            stub_v2: value("IV_COMP_STUBv2") == Some("1"),
        }
    }

    /// Whether renegotiations are wrapped by dynamic tls-crypt: the peer can do it, and the server can order
    /// it by a push.
    pub(crate) fn wraps_dynamically(&self) -> bool {
        self.has(iv_proto::CC_EXIT) && self.has(iv_proto::DYNAMIC_TLS_CRYPT)
    }

    /// Whether the data channel has the epoch format with that cipher (OpenVPN multi.c,
    /// `multi_client_set_protocol_options`): the peer can do it, and the server can order it by a push.
    pub(crate) fn takes_epochs(&self, cipher: Cipher) -> bool {
        const NEEDED: u32 = iv_proto::DATA_V2 | iv_proto::CC_EXIT | iv_proto::DATA_EPOCH;
        cipher.is_aead() && self.proto & NEEDED == NEEDED
    }

    /// The framing that `compress migrate` pushes to a client that announces compression (OpenVPN multi.c,
    /// `multi_client_connect_compress_migrate`): one before `stub-v2` is taken to know `comp-lzo`.
    pub(crate) fn migrated(&self) -> Compression {
        if self.stub_v2 { Compression::StubV2 } else { Compression::LzoNo }
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        self.proto & bit != 0
    }
}

/// The bits among these of `IV_PROTO` that `compat-mode` leaves.
pub(crate) fn known_proto(data: &DataParams, proto: u32) -> u32 {
    match data {
        DataParams { before_2_6: true, .. } => proto & iv_proto::BEFORE_2_6,
        DataParams { before_2_7: true, .. } => proto & !iv_proto::DATA_EPOCH,
        _ => proto,
    }
}

/// The server's choice (OpenVPN ssl_ncp.c `ncp_get_best_cipher`, multi.c): its own most wanted cipher that
/// the client offers or, if it offers none by name, has in its options string; the fallback for a client
/// that tells nothing at all.
pub(crate) fn choose_cipher(
    ours: &[Cipher],
    fallback: Option<Cipher>,
    theirs: &PeerAbilities,
    their_occ_cipher: Option<&str>,
) -> Option<Cipher> {
    // One that lists its ciphers takes no other.
    let named = their_occ_cipher.filter(|_| !theirs.lists_ciphers);
    let known = theirs.ciphers.iter().map(String::as_str).chain(named);
    let known: Vec<Cipher> = known.filter_map(Cipher::from_name).collect();
    if let Some(cipher) = ours.iter().copied().find(|cipher| known.contains(cipher)) {
        return Some(cipher);
    }
    if theirs.ciphers.is_empty() && their_occ_cipher.is_none() { fallback } else { None }
}

/// The client's choice (OpenVPN ssl_ncp.c `check_pull_client_ncp`, `check_session_cipher`): the cipher that
/// the server pushed; else the one of its options string, if we allow it; else our fallback.
///
/// # Errors
/// Says why there is none, and the way out.
pub(crate) fn client_cipher(
    data: &DataParams,
    pushed: Option<Cipher>,
    their_options: Option<&str>,
) -> Result<Cipher, String> {
    if let Some(cipher) = pushed {
        return match data.ciphers.contains(&cipher) || data.fallback == Some(cipher) {
            true => Ok(cipher),
            false => Err(format!(
                "the server chose the cipher {cipher}, which data-ciphers does not allow; add it to data-ciphers or change the server's"
            )),
        };
    }
    let theirs = their_options.and_then(|options| parse_options(options).get("cipher").copied());
    match (theirs, data.fallback) {
        (Some(name), _) => Cipher::from_name(name).filter(|cipher| data.ciphers.contains(cipher)).ok_or_else(|| {
            format!(
                "the server cannot negotiate, and its cipher {name} is not in data-ciphers; add it there if adit has it, or let the server have a current cipher"
            )
        }),
        (None, Some(fallback)) => Ok(fallback),
        (None, None) => Err(
            "the server chose no cipher; if it is old, name its cipher with data-ciphers-fallback".to_owned()
        ),
    }
}

/// The terms on which two ends agree that push nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointToPointTerms {
    pub(crate) cipher: Cipher,
    /// The `IV_PROTO` bits that both ends have, if the peer negotiates at all.
    pub(crate) proto: u32,
}

impl PointToPointTerms {
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.proto & bit != 0
    }

    /// The data channel has the epoch format.
    pub(crate) fn takes_epochs(&self) -> bool {
        self.cipher.is_aead() && self.has(iv_proto::DATA_V2) && self.has(iv_proto::DATA_EPOCH)
    }

    /// Renegotiations are wrapped by dynamic tls-crypt.
    pub(crate) fn wraps_dynamically(&self) -> bool {
        self.has(iv_proto::DYNAMIC_TLS_CRYPT)
    }
}

/// The `IV_PROTO` of a point-to-point end.
pub(crate) fn point_to_point_proto(data: &DataParams) -> u32 {
    known_proto(data, POINT_PROTO)
}

const POINT_PROTO: u32 = iv_proto::DATA_V2
    | iv_proto::TLS_KEY_EXPORT
    | iv_proto::NCP_P2P
    | iv_proto::CC_EXIT
    | iv_proto::DYNAMIC_TLS_CRYPT
    | iv_proto::DATA_EPOCH;

/// The terms that follow for both ends alike from the abilities of each (OpenVPN ssl_ncp.c `p2p_mode_ncp`,
/// `get_p2p_ncp_cipher`): the first cipher of the TLS server that the TLS client has too; with a peer that
/// names none, `data-ciphers-fallback`, or `cipher`. `role` is ours.
///
/// # Errors
/// Says why there is no cipher, and the way out.
pub(crate) fn point_to_point_terms(
    role: TlsRole,
    data: &DataParams,
    theirs: &PeerAbilities,
) -> Result<PointToPointTerms, String> {
    let listed: Vec<Cipher> = match theirs.lists_ciphers {
        true => theirs.ciphers.iter().filter_map(|name| Cipher::from_name(name)).collect(),
        false => Vec::new(),
    };
    let (first, second) = match role {
        TlsRole::Server => (&data.ciphers, &listed),
        TlsRole::Client => (&listed, &data.ciphers),
    };
    let common = first.iter().copied().find(|cipher| second.contains(cipher));
    let Some(cipher) = common.or(data.fallback).or(data.cipher) else {
        let ours: Vec<&str> = data.ciphers.iter().map(|cipher| cipher.name()).collect();
        return Err(match theirs.lists_ciphers {
            true => format!(
                "no data cipher in common: the peer has {}, data-ciphers here has {}",
                theirs.ciphers.join(":"),
                ours.join(":")
            ),
            false => {
                "the peer cannot negotiate ciphers; name the one it has with data-ciphers-fallback".to_owned()
            }
        });
    };
    let both = theirs.proto & point_to_point_proto(data);
    Ok(PointToPointTerms { cipher, proto: if both & iv_proto::NCP_P2P != 0 { both } else { 0 } })
}

/// The warning where one end cuts packets into parts and its peer does not, by the options string of the peer. `None`:
/// they agree, or the peer sends no options.
pub(crate) fn doubtful_fragments(cuts: bool, their_options: Option<&str>) -> Option<&'static str> {
    let options = parse_options(their_options?);
    // Versions of the string that may not be compared begin otherwise (OpenVPN options.c, `options_cmp_equal_safe`).
    if !options.contains_key("V4") {
        return None;
    }
    match (cuts, options.contains_key("mtu-dynamic")) {
        (true, false) => Some(
            "`fragment` is in our file and not in the other end's: neither understands the other's packets; write it at both ends or at none",
        ),
        (false, true) => Some(
            "`fragment` is in the other end's file and not in ours: neither understands the other's packets; write it at both ends or at none",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_migrate_to_what_they_know() {
        let migrated = |info| PeerAbilities::parse(info).migrated();
        assert_eq!(migrated("IV_LZO_STUB=1\nIV_COMP_STUB=1\nIV_COMP_STUBv2=1\n"), Compression::StubV2);
        assert_eq!(migrated("IV_LZO=1\nIV_COMP_STUB=1\n"), Compression::LzoNo);
        assert_eq!(migrated("IV_COMP_STUBv2=0\n"), Compression::LzoNo);
    }

    #[test]
    fn server_order_decides_the_cipher() {
        let theirs =
            PeerAbilities::parse("IV_PROTO=990\nIV_CIPHERS=CHACHA20-POLY1305:AES-128-GCM\nIV_MTU=1600\n");
        assert!(theirs.has(iv_proto::DATA_V2) && theirs.has(iv_proto::CC_EXIT) && theirs.accepts_tun_mtu);
        let ours = [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];
        assert_eq!(choose_cipher(&ours, None, &theirs, Some("AES-256-GCM")), Some(Cipher::Aes128Gcm));
        assert_eq!(choose_cipher(&[Cipher::Aes256Gcm], None, &theirs, None), None);
    }

    #[test]
    fn old_peers_fall_back() {
        let ncp = PeerAbilities::parse("IV_NCP=2\n");
        assert_eq!(choose_cipher(&[Cipher::Aes128Gcm], None, &ncp, None), Some(Cipher::Aes128Gcm));
        let cbc = [Cipher::Aes256Gcm, Cipher::Aes256Cbc];
        let named = Some("AES-256-CBC");
        let fallback = Some(Cipher::Aes128Cbc);
        assert_eq!(
            choose_cipher(&cbc[1..], None, &ncp, named),
            Some(Cipher::Aes256Cbc),
            "ncp-ciphers lacks it"
        );
        let lists = PeerAbilities::parse("IV_CIPHERS=AES-128-GCM\n");
        assert_eq!(choose_cipher(&cbc, fallback, &lists, named), None, "it takes only what it lists");
        let silent = PeerAbilities::default();
        assert_eq!(choose_cipher(&cbc, fallback, &silent, named), Some(Cipher::Aes256Cbc));
        assert_eq!(choose_cipher(&cbc, fallback, &silent, Some("AES-128-CBC")), None, "known, not allowed");
        assert_eq!(choose_cipher(&cbc, fallback, &silent, Some("BF-CBC")), None);
        assert_eq!(choose_cipher(&cbc, fallback, &silent, None), fallback);
        assert_eq!(choose_cipher(&cbc, None, &silent, None), None);
    }

    #[test]
    fn both_ends_of_a_point_to_point_tunnel_agree() {
        let list = |ciphers: &[Cipher]| DataParams { ciphers: ciphers.to_vec(), ..DataParams::default() };
        let says = |data: &DataParams, proto: u32| {
            let names: Vec<&str> = data.ciphers.iter().map(|cipher| cipher.name()).collect();
            PeerAbilities::parse(&format!("IV_CIPHERS={}\nIV_PROTO={proto}\n", names.join(":")))
        };
        let server = list(&[Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm]);
        let client = list(&[Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305]);
        let at_server = point_to_point_terms(TlsRole::Server, &server, &says(&client, POINT_PROTO)).unwrap();
        let at_client = point_to_point_terms(TlsRole::Client, &client, &says(&server, POINT_PROTO)).unwrap();
        assert_eq!(at_server, at_client);
        assert_eq!(at_server.cipher, Cipher::ChaCha20Poly1305, "the TLS server's order decides");
        assert!(at_server.has(iv_proto::TLS_KEY_EXPORT) && at_server.wraps_dynamically());
        // A peer of 2.5 negotiates nothing, whatever else it says.
        let old = point_to_point_terms(TlsRole::Server, &server, &says(&client, iv_proto::DATA_V2)).unwrap();
        assert_eq!(old.proto, 0);
        let none =
            point_to_point_terms(TlsRole::Client, &list(&[Cipher::Aes256Gcm]), &says(&server, POINT_PROTO));
        assert!(none.unwrap_err().contains("CHACHA20-POLY1305:AES-128-GCM"));
        let silent = PeerAbilities::default();
        assert!(
            point_to_point_terms(TlsRole::Client, &client, &silent)
                .unwrap_err()
                .contains("data-ciphers-fallback")
        );
        let named = DataParams { cipher: Some(Cipher::Aes256Cbc), ..client };
        assert_eq!(point_to_point_terms(TlsRole::Client, &named, &silent).unwrap().cipher, Cipher::Aes256Cbc);
    }

    #[test]
    fn a_client_takes_what_it_allows() {
        let data = DataParams { fallback: Some(Cipher::Aes128Cbc), ..DataParams::default() };
        let choose = |pushed, options| client_cipher(&data, pushed, options);
        assert_eq!(choose(Some(Cipher::Aes128Gcm), None), Ok(Cipher::Aes128Gcm));
        assert_eq!(
            choose(Some(Cipher::Aes128Cbc), None),
            Ok(Cipher::Aes128Cbc),
            "the fallback may be pushed"
        );
        assert!(choose(Some(Cipher::Aes256Cbc), None).unwrap_err().contains("AES-256-CBC"));
        assert_eq!(choose(None, Some("V4,cipher AES-128-GCM,auth SHA1")), Ok(Cipher::Aes128Gcm));
        assert!(choose(None, Some("V4,cipher BF-CBC")).unwrap_err().contains("BF-CBC"));
        assert_eq!(choose(None, Some("V4,auth SHA1")), Ok(Cipher::Aes128Cbc));
        assert!(
            client_cipher(&DataParams::default(), None, None).unwrap_err().contains("data-ciphers-fallback")
        );
    }

    #[test]
    fn a_peer_that_cuts_otherwise_is_told_of() {
        let cut = "V4,dev-type tun,link-mtu 1553,mtu-dynamic,tls-client";
        let whole = "V4,dev-type tun,link-mtu 1549,tls-client";
        assert_eq!(doubtful_fragments(true, Some(cut)), None);
        assert_eq!(doubtful_fragments(false, Some(whole)), None);
        assert!(doubtful_fragments(true, Some(whole)).is_some_and(|text| text.contains("not in the other")));
        assert!(doubtful_fragments(false, Some(cut)).is_some_and(|text| text.contains("not in ours")));
        for silent in [None, Some(""), Some("V0 UNDEF")] {
            assert_eq!(doubtful_fragments(true, silent), None);
        }
    }
}
