//! An authority and servers with its certificates, for tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use adit_system::testing::Scratch;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection};

use super::{ALPN, TlsClient};

/// An authority whose certificate is in a file.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
    scratch: Scratch,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new("tls");
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        fs::write(scratch.path().join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { params, key, scratch }
    }

    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.scratch.path().join("ca.crt")
    }

    /// A client that trusts it.
    pub(crate) fn client(&self, host: &str) -> TlsClient {
        TlsClient::new(host, Some(&self.file())).unwrap()
    }

    /// A connection of a server with that name, whose certificate is valid in these years.
    pub(crate) fn server(&self, name: &str, (first, last): (i32, i32)) -> ServerConnection {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(last, 1, 1);
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        config.alpn_protocols = vec![ALPN.to_vec()];
        ServerConnection::new(Arc::new(config)).unwrap()
    }
}
