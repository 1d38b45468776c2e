//! The facts about a client that its files state.

use adit_core::IpNet;
use adit_pki::{inspect, pem, pkcs12};
use adit_setup::{ClientName, Login, NativeClient, SetupError};
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

/// The algorithms that the files name: the ones that all devices with AES-GCM have. The server's proposals have them
/// ([`server_file`](super::server_file)).
pub(super) mod suite {
    /// As strongSwan names those of an IKE SA and of a child SA.
    pub(in crate::setup) const IKE: &str = "aes256gcm16-prfsha256-ecp256";
    pub(in crate::setup) const ESP: &str = "aes256gcm16";
}

/// The facts about a client that its files state.
pub(super) struct Facts<'a> {
    pub(super) name: &'a ClientName,
    /// The server's name or address.
    pub(super) host: &'a str,
    /// The networks that the client reaches.
    pub(super) networks: &'a [IpNet],
    pub(super) login: &'a Login,
    /// The authority's certificate as PEM, in base64 of DER, and its common name.
    pub(super) authority: &'a str,
    pub(super) authority_base64: String,
    pub(super) authority_name: String,
    /// The certificate and its key as PKCS#12, in base64; empty for a client with a password.
    pub(super) container: Zeroizing<String>,
}

impl<'a> Facts<'a> {
    /// The facts about a client.
    ///
    /// # Errors
    /// When its certificate or that of the authority cannot be read.
    pub(super) fn of(client: &NativeClient<'a>) -> Result<Self, SetupError> {
        let failed = |why: String| SetupError::Certificate { what: "make the files of the client", why };
        let authority = client.authority.certificate();
        let der = pem::certificates(authority.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let container = match client.login {
            Login::Certificate { issued, password } => {
                let sealed = pkcs12::seal(&issued.certificate, &issued.key, password).map_err(failed)?;
                Zeroizing::new(Base64::encode_string(&sealed))
            }
            Login::Password(_) => Zeroizing::default(),
        };
        Ok(Facts {
            name: client.name,
            host: &client.endpoint.host,
            networks: client.networks,
            login: client.login,
            authority,
            authority_base64: Base64::encode_string(der.first().map_or(&[][..], |der| der)),
            authority_name: inspect::common_name(authority).unwrap_or_default(),
            container,
        })
    }

    /// Whether all traffic of the client goes through the server.
    pub(super) fn is_full(&self) -> bool {
        self.networks.iter().any(|network| network.prefix_len() == 0)
    }

    /// Whether the client has a certificate, and else a password.
    pub(super) fn has_certificate(&self) -> bool {
        matches!(self.login, Login::Certificate { .. })
    }

    /// The name of the connection for people.
    pub(super) fn title(&self) -> String {
        format!("{} (IKEv2)", self.host)
    }
}

/// Networks as a value of a file.
pub(super) fn listed(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A name as a part of the name of a section, which has no dot (strongSwan's settings_lexer.l).
pub(super) fn section(name: &ClientName) -> String {
    name.as_str().replace('.', "%2E")
}

/// A name as an identity: without a kind, an address would be one.
pub(super) fn identity(name: &ClientName) -> String {
    let name = name.as_str();
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    if is_address { format!("fqdn:{name}") } else { name.to_owned() }
}
