//! The numbers of IANA's registry "Internet Key Exchange Version 2 (IKEv2) Parameters".

use std::fmt;

/// Defines a number with names for the values that are known. Other values are kept as they are.
macro_rules! registry {
    ($(#[$doc:meta])* $name:ident($number:ty) { $($item:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl $name {
            $(#[doc = concat!("`", $text, "`.")] pub const $item: $name = $name($value);)*

            /// The values that have a name, in order.
            pub const KNOWN: &'static [$name] = &[$($name($value)),*];

            /// The name in IANA's registry. `None`: the value is not known here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "number {}", self.0),
                }
            }
        }
    };
}

registry! {
    /// The kind of an exchange, in the header.
    ExchangeType(u8) {
        IKE_SA_INIT = 34 "IKE_SA_INIT",
        IKE_AUTH = 35 "IKE_AUTH",
        CREATE_CHILD_SA = 36 "CREATE_CHILD_SA",
        INFORMATIONAL = 37 "INFORMATIONAL",
        IKE_INTERMEDIATE = 43 "IKE_INTERMEDIATE",
        IKE_FOLLOWUP_KE = 44 "IKE_FOLLOWUP_KE",
    }
}

registry! {
    /// The kind of a payload, in the header before it.
    PayloadType(u8) {
        NONE = 0 "no payload",
        SECURITY_ASSOCIATION = 33 "SA",
        KEY_EXCHANGE = 34 "KE",
        ID_INITIATOR = 35 "IDi",
        ID_RESPONDER = 36 "IDr",
        CERTIFICATE = 37 "CERT",
        CERTIFICATE_REQUEST = 38 "CERTREQ",
        AUTHENTICATION = 39 "AUTH",
        NONCE = 40 "Nonce",
        NOTIFY = 41 "N",
        DELETE = 42 "D",
        VENDOR_ID = 43 "V",
        SELECTORS_INITIATOR = 44 "TSi",
        SELECTORS_RESPONDER = 45 "TSr",
        ENCRYPTED = 46 "SK",
        CONFIGURATION = 47 "CP",
        EAP = 48 "EAP",
        ENCRYPTED_FRAGMENT = 53 "SKF",
    }
}

registry! {
    /// The protocol that a proposal, a notify or a delete payload is about.
    ProtocolId(u8) {
        NONE = 0 "no protocol",
        IKE = 1 "IKE",
        AH = 2 "AH",
        ESP = 3 "ESP",
    }
}

registry! {
    /// The kind of a transform.
    TransformType(u8) {
        ENCRYPTION = 1 "ENCR",
        PRF = 2 "PRF",
        INTEGRITY = 3 "INTEG",
        KEY_EXCHANGE = 4 "KE",
        SEQUENCE_NUMBERS = 5 "SN",
        ADDITIONAL_KEY_EXCHANGE_1 = 6 "ADDKE1",
        ADDITIONAL_KEY_EXCHANGE_2 = 7 "ADDKE2",
        ADDITIONAL_KEY_EXCHANGE_3 = 8 "ADDKE3",
        ADDITIONAL_KEY_EXCHANGE_4 = 9 "ADDKE4",
        ADDITIONAL_KEY_EXCHANGE_5 = 10 "ADDKE5",
        ADDITIONAL_KEY_EXCHANGE_6 = 11 "ADDKE6",
        ADDITIONAL_KEY_EXCHANGE_7 = 12 "ADDKE7",
    }
}

registry! {
    /// The kind of an identity.
    IdType(u8) {
        IPV4_ADDR = 1 "ID_IPV4_ADDR",
        FQDN = 2 "ID_FQDN",
        RFC822_ADDR = 3 "ID_RFC822_ADDR",
        IPV6_ADDR = 5 "ID_IPV6_ADDR",
        DER_ASN1_DN = 9 "ID_DER_ASN1_DN",
        DER_ASN1_GN = 10 "ID_DER_ASN1_GN",
        KEY_ID = 11 "ID_KEY_ID",
        FC_NAME = 12 "ID_FC_NAME",
        NULL = 13 "ID_NULL",
    }
}

registry! {
    /// The encoding of a certificate.
    CertificateEncoding(u8) {
        PKCS7_X509 = 1 "PKCS #7 wrapped X.509 certificate",
        X509_SIGNATURE = 4 "X.509 Certificate - Signature",
        REVOCATION_LIST = 7 "Certificate Revocation List (CRL)",
        AUTHORITY_REVOCATION_LIST = 8 "Authority Revocation List (ARL)",
        HASH_AND_URL_CERTIFICATE = 12 "Hash and URL of X.509 certificate",
        HASH_AND_URL_BUNDLE = 13 "Hash and URL of X.509 bundle",
        OCSP_CONTENT = 14 "OCSP Content",
        RAW_PUBLIC_KEY = 15 "Raw Public Key",
    }
}

registry! {
    /// The method of an AUTH payload.
    AuthMethod(u8) {
        RSA_SIGNATURE = 1 "RSA Digital Signature",
        SHARED_KEY = 2 "Shared Key Message Integrity Code",
        ECDSA_P256 = 9 "ECDSA with SHA-256 on the P-256 curve",
        ECDSA_P384 = 10 "ECDSA with SHA-384 on the P-384 curve",
        ECDSA_P521 = 11 "ECDSA with SHA-512 on the P-521 curve",
        NULL = 13 "NULL Authentication",
        DIGITAL_SIGNATURE = 14 "Digital Signature",
    }
}

registry! {
    /// The kind of a configuration payload.
    ConfigurationType(u8) {
        REQUEST = 1 "CFG_REQUEST",
        REPLY = 2 "CFG_REPLY",
        SET = 3 "CFG_SET",
        ACK = 4 "CFG_ACK",
    }
}

registry! {
    /// The kind of an attribute of a configuration payload.
    ConfigurationAttributeType(u16) {
        INTERNAL_IP4_ADDRESS = 1 "INTERNAL_IP4_ADDRESS",
        INTERNAL_IP4_NETMASK = 2 "INTERNAL_IP4_NETMASK",
        INTERNAL_IP4_DNS = 3 "INTERNAL_IP4_DNS",
        INTERNAL_IP4_NBNS = 4 "INTERNAL_IP4_NBNS",
        INTERNAL_IP4_DHCP = 6 "INTERNAL_IP4_DHCP",
        APPLICATION_VERSION = 7 "APPLICATION_VERSION",
        INTERNAL_IP6_ADDRESS = 8 "INTERNAL_IP6_ADDRESS",
        INTERNAL_IP6_DNS = 10 "INTERNAL_IP6_DNS",
        INTERNAL_IP6_DHCP = 12 "INTERNAL_IP6_DHCP",
        INTERNAL_IP4_SUBNET = 13 "INTERNAL_IP4_SUBNET",
        SUPPORTED_ATTRIBUTES = 14 "SUPPORTED_ATTRIBUTES",
        INTERNAL_IP6_SUBNET = 15 "INTERNAL_IP6_SUBNET",
        INTERNAL_DNS_DOMAIN = 25 "INTERNAL_DNS_DOMAIN",
        INTERNAL_DNSSEC_TA = 26 "INTERNAL_DNSSEC_TA",
    }
}

registry! {
    /// The kind of an EAP message (RFC 3748 section 4).
    EapCode(u8) {
        REQUEST = 1 "Request",
        RESPONSE = 2 "Response",
        SUCCESS = 3 "Success",
        FAILURE = 4 "Failure",
        INITIATE = 5 "Initiate",
        FINISH = 6 "Finish",
    }
}

registry! {
    /// The kind of a notify payload. Values below 16384 are errors.
    NotifyType(u16) {
        UNSUPPORTED_CRITICAL_PAYLOAD = 1 "UNSUPPORTED_CRITICAL_PAYLOAD",
        INVALID_IKE_SPI = 4 "INVALID_IKE_SPI",
        INVALID_MAJOR_VERSION = 5 "INVALID_MAJOR_VERSION",
        INVALID_SYNTAX = 7 "INVALID_SYNTAX",
        INVALID_MESSAGE_ID = 9 "INVALID_MESSAGE_ID",
        INVALID_SPI = 11 "INVALID_SPI",
        NO_PROPOSAL_CHOSEN = 14 "NO_PROPOSAL_CHOSEN",
        INVALID_KE_PAYLOAD = 17 "INVALID_KE_PAYLOAD",
        AUTHENTICATION_FAILED = 24 "AUTHENTICATION_FAILED",
        SINGLE_PAIR_REQUIRED = 34 "SINGLE_PAIR_REQUIRED",
        NO_ADDITIONAL_SAS = 35 "NO_ADDITIONAL_SAS",
        INTERNAL_ADDRESS_FAILURE = 36 "INTERNAL_ADDRESS_FAILURE",
        FAILED_CP_REQUIRED = 37 "FAILED_CP_REQUIRED",
        TS_UNACCEPTABLE = 38 "TS_UNACCEPTABLE",
        INVALID_SELECTORS = 39 "INVALID_SELECTORS",
        UNACCEPTABLE_ADDRESSES = 40 "UNACCEPTABLE_ADDRESSES",
        UNEXPECTED_NAT_DETECTED = 41 "UNEXPECTED_NAT_DETECTED",
        USE_ASSIGNED_HOA = 42 "USE_ASSIGNED_HoA",
        TEMPORARY_FAILURE = 43 "TEMPORARY_FAILURE",
        CHILD_SA_NOT_FOUND = 44 "CHILD_SA_NOT_FOUND",
        INVALID_GROUP_ID = 45 "INVALID_GROUP_ID",
        AUTHORIZATION_FAILED = 46 "AUTHORIZATION_FAILED",
        STATE_NOT_FOUND = 47 "STATE_NOT_FOUND",
        TS_MAX_QUEUE = 48 "TS_MAX_QUEUE",
        INITIAL_CONTACT = 16384 "INITIAL_CONTACT",
        SET_WINDOW_SIZE = 16385 "SET_WINDOW_SIZE",
        ADDITIONAL_TS_POSSIBLE = 16386 "ADDITIONAL_TS_POSSIBLE",
        IPCOMP_SUPPORTED = 16387 "IPCOMP_SUPPORTED",
        NAT_DETECTION_SOURCE_IP = 16388 "NAT_DETECTION_SOURCE_IP",
        NAT_DETECTION_DESTINATION_IP = 16389 "NAT_DETECTION_DESTINATION_IP",
        COOKIE = 16390 "COOKIE",
        USE_TRANSPORT_MODE = 16391 "USE_TRANSPORT_MODE",
        HTTP_CERT_LOOKUP_SUPPORTED = 16392 "HTTP_CERT_LOOKUP_SUPPORTED",
        REKEY_SA = 16393 "REKEY_SA",
        ESP_TFC_PADDING_NOT_SUPPORTED = 16394 "ESP_TFC_PADDING_NOT_SUPPORTED",
        NON_FIRST_FRAGMENTS_ALSO = 16395 "NON_FIRST_FRAGMENTS_ALSO",
        MOBIKE_SUPPORTED = 16396 "MOBIKE_SUPPORTED",
        ADDITIONAL_IP4_ADDRESS = 16397 "ADDITIONAL_IP4_ADDRESS",
        ADDITIONAL_IP6_ADDRESS = 16398 "ADDITIONAL_IP6_ADDRESS",
        NO_ADDITIONAL_ADDRESSES = 16399 "NO_ADDITIONAL_ADDRESSES",
        UPDATE_SA_ADDRESSES = 16400 "UPDATE_SA_ADDRESSES",
        COOKIE2 = 16401 "COOKIE2",
        NO_NATS_ALLOWED = 16402 "NO_NATS_ALLOWED",
        AUTH_LIFETIME = 16403 "AUTH_LIFETIME",
        MULTIPLE_AUTH_SUPPORTED = 16404 "MULTIPLE_AUTH_SUPPORTED",
        ANOTHER_AUTH_FOLLOWS = 16405 "ANOTHER_AUTH_FOLLOWS",
        REDIRECT_SUPPORTED = 16406 "REDIRECT_SUPPORTED",
        REDIRECT = 16407 "REDIRECT",
        REDIRECTED_FROM = 16408 "REDIRECTED_FROM",
        TICKET_LT_OPAQUE = 16409 "TICKET_LT_OPAQUE",
        TICKET_REQUEST = 16410 "TICKET_REQUEST",
        TICKET_ACK = 16411 "TICKET_ACK",
        TICKET_NACK = 16412 "TICKET_NACK",
        TICKET_OPAQUE = 16413 "TICKET_OPAQUE",
        LINK_ID = 16414 "LINK_ID",
        USE_WESP_MODE = 16415 "USE_WESP_MODE",
        ROHC_SUPPORTED = 16416 "ROHC_SUPPORTED",
        EAP_ONLY_AUTHENTICATION = 16417 "EAP_ONLY_AUTHENTICATION",
        CHILDLESS_IKEV2_SUPPORTED = 16418 "CHILDLESS_IKEV2_SUPPORTED",
        QUICK_CRASH_DETECTION = 16419 "QUICK_CRASH_DETECTION",
        IKEV2_MESSAGE_ID_SYNC_SUPPORTED = 16420 "IKEV2_MESSAGE_ID_SYNC_SUPPORTED",
        IPSEC_REPLAY_COUNTER_SYNC_SUPPORTED = 16421 "IPSEC_REPLAY_COUNTER_SYNC_SUPPORTED",
        IKEV2_MESSAGE_ID_SYNC = 16422 "IKEV2_MESSAGE_ID_SYNC",
        IPSEC_REPLAY_COUNTER_SYNC = 16423 "IPSEC_REPLAY_COUNTER_SYNC",
        SECURE_PASSWORD_METHODS = 16424 "SECURE_PASSWORD_METHODS",
        PSK_PERSIST = 16425 "PSK_PERSIST",
        PSK_CONFIRM = 16426 "PSK_CONFIRM",
        ERX_SUPPORTED = 16427 "ERX_SUPPORTED",
        IFOM_CAPABILITY = 16428 "IFOM_CAPABILITY",
        GROUP_SENDER = 16429 "GROUP_SENDER",
        IKEV2_FRAGMENTATION_SUPPORTED = 16430 "IKEV2_FRAGMENTATION_SUPPORTED",
        SIGNATURE_HASH_ALGORITHMS = 16431 "SIGNATURE_HASH_ALGORITHMS",
        CLONE_IKE_SA_SUPPORTED = 16432 "CLONE_IKE_SA_SUPPORTED",
        CLONE_IKE_SA = 16433 "CLONE_IKE_SA",
        PUZZLE = 16434 "PUZZLE",
        USE_PPK = 16435 "USE_PPK",
        PPK_IDENTITY = 16436 "PPK_IDENTITY",
        NO_PPK_AUTH = 16437 "NO_PPK_AUTH",
        INTERMEDIATE_EXCHANGE_SUPPORTED = 16438 "INTERMEDIATE_EXCHANGE_SUPPORTED",
        IP4_ALLOWED = 16439 "IP4_ALLOWED",
        IP6_ALLOWED = 16440 "IP6_ALLOWED",
        ADDITIONAL_KEY_EXCHANGE = 16441 "ADDITIONAL_KEY_EXCHANGE",
        USE_AGGFRAG = 16442 "USE_AGGFRAG",
        SUPPORTED_AUTH_METHODS = 16443 "SUPPORTED_AUTH_METHODS",
        SA_RESOURCE_INFO = 16444 "SA_RESOURCE_INFO",
        USE_PPK_INT = 16445 "USE_PPK_INT",
        PPK_IDENTITY_KEY = 16446 "PPK_IDENTITY_KEY",
        IKE_SA_INIT_FULL_TRANSCRIPT_AUTH = 16447 "IKE_SA_INIT_FULL_TRANSCRIPT_AUTH",
    }
}

impl NotifyType {
    /// Whether it reports an error (RFC 7296 section 3.10.1). An unknown error fails its request; an unknown status is ignored.
    pub const fn is_error(self) -> bool {
        self.0 < 16384
    }
}
