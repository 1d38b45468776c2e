//! The material of keys: the bytes that TLS exports, and the random numbers of both sides for peers that cannot export.

use rand_core::RngCore;
use zeroize::Zeroizing;

use super::{KeyState, KeyStateError};
use crate::keys::{KeyMaterial, KeySource, derive_prf};
use crate::static_key::{STATIC_KEY_LEN, StaticKey};
use crate::wire::{Sid, TlsRole};

/// TLS exporter label of the data keys (OpenVPN `EXPORT_KEY_DATA_LABEL`).
const EXPORT_DATA_KEYS: &str = "EXPORTER-OpenVPN-datakeys";
/// TLS exporter label of the key that wraps renegotiations (`EXPORT_DYNAMIC_TLS_CRYPT_LABEL`).
const EXPORT_DYNAMIC_TLS_CRYPT: &str = "EXPORTER-OpenVPN-dynamic-tls-crypt";
/// TLS exporter label of the peer-id that both ends of a point-to-point tunnel use (`EXPORT_P2P_PEERID_LABEL`).
const EXPORT_POINT_PEER_ID: &str = "EXPORTER-OpenVPN-p2p-peerid";

impl KeyState {
    /// Whether keys can be [exported](crate::tls::TlsChannel::may_export) from this exchange.
    pub(crate) fn may_export(&self) -> bool {
        self.tls.may_export()
    }

    /// The exported bytes of which dynamic tls-crypt makes its key.
    pub(crate) fn export_wrapping(&self) -> Result<StaticKey, KeyStateError> {
        let mut bytes = Zeroizing::new([0; STATIC_KEY_LEN]);
        self.tls.export(EXPORT_DYNAMIC_TLS_CRYPT, bytes.as_mut_slice())?;
        Ok(StaticKey::from_bytes(&bytes))
    }

    /// The peer-id of a point-to-point tunnel whose ends can export.
    pub(crate) fn export_point_to_point_peer_id(&self) -> Result<u32, KeyStateError> {
        let mut id = [0; 3];
        self.tls.export(EXPORT_POINT_PEER_ID, &mut id)?;
        let [a, b, c] = id;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    /// The data keys: by TLS exporter, or by OpenVPN's own PRF for peers before 2.6.
    pub(crate) fn key_material(
        &self,
        exporter: bool,
        own_sid: Sid,
        peer_sid: Sid,
    ) -> Result<KeyMaterial, KeyStateError> {
        if exporter {
            let mut bytes = Zeroizing::new([0; 256]);
            self.tls.export(EXPORT_DATA_KEYS, bytes.as_mut_slice())?;
            return Ok(KeyMaterial::from_bytes(&bytes));
        }
        let (Some(local), Some(remote)) = (&self.local, &self.remote) else {
            return Err(KeyStateError::MissingKeySource);
        };
        match self.role {
            TlsRole::Client => derive_prf(local, remote, own_sid, peer_sid),
            TlsRole::Server => derive_prf(remote, local, peer_sid, own_sid),
        }
        .ok_or(KeyStateError::MissingKeySource)
    }
}

/// Fresh random numbers for one side's key method 2.
pub(crate) fn key_source(rng: &mut impl RngCore, role: TlsRole) -> KeySource {
    let mut source = KeySource { pre_master: None, random1: [0; 32], random2: [0; 32] };
    if role == TlsRole::Client {
        let mut pre_master = [0; 48];
        rng.fill_bytes(&mut pre_master);
        source.pre_master = Some(pre_master);
    }
    rng.fill_bytes(&mut source.random1);
    rng.fill_bytes(&mut source.random2);
    source
}
