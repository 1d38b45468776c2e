//! The data keys of one peer: made from its control channel, handed to the data plane.

use adit_core::{Cipher, Digest, OnFirstOpened, Path, PeerId, ReplayWindow};

use crate::codec::{Codec, Compression, DataFraming, DataHeader, Framing, Payloads, session_id};
use crate::control_channel::ControlChannel;
use crate::key_state::KeyStateError;
use crate::negotiate::{PointToPointTerms, Shape, iv_proto, payloads};
use crate::outbox::Outbox;
use crate::params::{DataParams, Fragment};
use crate::request::{DataEvent, Event, Install};
use crate::usage::{Traffic, Usage, UseLimits};
use crate::wire::TlsRole;

/// The peer-id of a point-to-point tunnel whose ends cannot export one (OpenVPN ssl_ncp.c: "vpn").
const FIXED_PEER_ID: u32 = 0x0076_706e;

/// The terms of the data channel on which both ends agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) cipher: Cipher,
    /// The digest, for a cipher that is no AEAD.
    pub(crate) digest: Digest,
    pub(crate) header: DataHeader,
    pub(crate) compression: Compression,
    /// Keys come from the TLS exporter, not from OpenVPN's PRF.
    pub(crate) exporter: bool,
    /// The epoch data format; then the header is `DATA_V2` and the cipher an AEAD.
    pub(crate) epoch: bool,
    pub(crate) replay_window: ReplayWindow,
    pub(crate) fragment: Option<Fragment>,
    /// The form of payloads that follows from these: [`Agreement::with_payloads`].
    pub(crate) payloads: Payloads,
}

impl Agreement {
    /// The agreement with the form of payloads that follows for that path.
    pub(crate) fn with_payloads(self, path: Path, tun_mtu: u16, decompress: bool) -> Self {
        Agreement { payloads: payloads(Some(path), tun_mtu, &self.shape(), decompress), ..self }
    }

    /// The agreement on another path.
    fn on(self, path: Path) -> Self {
        // The longest payload follows from the MTU alone, and is never shorter than that.
        let Payloads { decompress, longest, .. } = self.payloads;
        self.with_payloads(path, longest, decompress)
    }

    /// Whether a key may seal only so many blocks and packets. In the epoch format the data plane sees to that.
    fn blocks_count(&self) -> bool {
        self.cipher.is_aead() && self.cipher != Cipher::ChaCha20Poly1305 && !self.epoch
    }

    /// The parts of a datagram besides the packet.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            header: match self.header {
                DataHeader::V1 => 1,
                DataHeader::V2 { .. } => 4,
            },
            packet_id: if self.epoch { 8 } else { 4 },
            cipher: self.cipher,
            digest: self.digest,
            compression: self.compression,
            fragment: self.fragment,
        }
    }

    /// The agreement on the data channel that follows from the terms of a point-to-point tunnel.
    ///
    /// # Errors
    /// When TLS cannot export.
    pub(crate) fn of_point_to_point(
        terms: &PointToPointTerms,
        data: &DataParams,
        channel: &ControlChannel,
        path: Path,
    ) -> Result<Self, KeyStateError> {
        let exporter = terms.has(iv_proto::TLS_KEY_EXPORT);
        let header = match (terms.has(iv_proto::DATA_V2), exporter) {
            (false, _) => DataHeader::V1,
            (true, true) => DataHeader::V2 { peer_id: channel.point_to_point_peer_id()? },
            (true, false) => DataHeader::V2 { peer_id: FIXED_PEER_ID },
        };
        let agreement = Agreement {
            cipher: terms.cipher,
            digest: data.digest,
            header,
            compression: data.compression,
            exporter,
            epoch: terms.takes_epochs(),
            replay_window: data.replay_window,
            fragment: data.fragment_over(path.transport()),
            payloads: Payloads::default(),
        };
        Ok(agreement.with_payloads(path, data.tun_mtu, data.decompress))
    }
}

/// Follows the key exchanges of one peer and tells the data plane.
///
/// Exchanges may be complete before the agreement is known (a client learns it by push): their keys wait.
pub(crate) struct DataKeys {
    peer: PeerId,
    role: TlsRole,
    agreement: Option<Agreement>,
    /// Exchanges that are not complete, but whose keys the data plane has.
    prepared: Vec<u8>,
    established: Vec<u8>,
    active: Option<u8>,
    completed: u64,
    usage: Usage,
}

impl DataKeys {
    pub(crate) fn new(peer: PeerId, role: TlsRole) -> Self {
        DataKeys {
            peer,
            role,
            agreement: None,
            prepared: Vec::new(),
            established: Vec::new(),
            active: None,
            completed: 0,
            usage: Usage::default(),
        }
    }

    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        self.agreement.as_ref()
    }

    /// Exchanges completed after the first.
    pub(crate) fn rekeys(&self) -> u64 {
        self.completed.saturating_sub(1)
    }

    /// The agreement is there: installs the sessions that waited for it.
    pub(crate) fn agree(
        &mut self,
        agreement: Agreement,
        channel: &ControlChannel,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        self.agreement = Some(agreement);
        for key_id in self.established.clone() {
            self.install(key_id, on_first_opened(key_id), channel, events)?;
        }
        if let Some(key_id) = self.active {
            self.activate(key_id, events);
        }
        Ok(())
    }

    /// The peer is reached by another path from now on, which `fragment` may mean other parts for. Sessions that the data plane
    /// has keep theirs: installed again, they would use numbers of packets twice. True if these parts are too long for the path.
    pub(crate) fn move_to(&mut self, path: Path) -> bool {
        let Some(agreement) = &mut self.agreement else { return false };
        let before = agreement.payloads.fragment;
        *agreement = agreement.on(path);
        agreement.payloads.fragment < before
    }

    /// An exchange is complete.
    pub(crate) fn established(
        &mut self,
        key_id: u8,
        channel: &ControlChannel,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        self.completed += 1;
        self.established.push(key_id);
        if let Some(index) = self.prepared.iter().position(|prepared| *prepared == key_id) {
            self.prepared.remove(index);
            return Ok(());
        }
        self.install(key_id, on_first_opened(key_id), channel, events)
    }

    /// An exchange can export its keys before it is complete: the data plane opens with them from now on, if they are to
    /// be exported.
    ///
    /// # Errors
    /// When TLS cannot export.
    pub(crate) fn prepare(
        &mut self,
        key_id: u8,
        channel: &ControlChannel,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        if !self.agreement.is_some_and(|agreement| agreement.exporter) {
            return Ok(());
        }
        self.prepared.push(key_id);
        // It seals by order alone, once the exchange is complete and judged.
        self.install(key_id, OnFirstOpened::Nothing, channel, events)
    }

    fn install(
        &self,
        key_id: u8,
        on_first_opened: OnFirstOpened,
        channel: &ControlChannel,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        let Some(agreement) = self.agreement else { return Ok(()) };
        let material = channel.key_material(key_id, agreement.exporter)?;
        let Agreement { header, cipher, compression, replay_window, payloads, .. } = agreement;
        let framing = DataFraming { header, key_id, compression };
        let (framing, (seal, open)) = if agreement.epoch {
            (Framing::Epoch(framing), material.epoch_directions(self.role))
        } else {
            (Framing::Data(framing), material.directions(self.role, cipher, agreement.digest))
        };
        let codec = Codec { framing, cipher, seal, open, replay_window, payloads };
        let install = Install::new(self.peer, session_id(self.peer, key_id), codec);
        events.push_back(Event::Data(DataEvent::Install(Box::new(Install { on_first_opened, ..install }))));
        Ok(())
    }

    /// Takes the bytes and packets that were received and sent since the peer was added. Whether the present keys were
    /// used enough, and new ones are due.
    pub(crate) fn traffic(&mut self, received: Traffic, sent: Traffic, limits: UseLimits) -> bool {
        self.usage.note(received, sent);
        self.agreement.is_some_and(|agreement| self.usage.is_enough(limits, agreement.blocks_count()))
    }

    /// We seal with `key_id` from now on.
    pub(crate) fn activate(&mut self, key_id: u8, events: &mut Outbox) {
        self.active = Some(key_id);
        self.usage.restart();
        if self.agreement.is_some() {
            let session = session_id(self.peer, key_id);
            events.push_back(Event::Data(DataEvent::Activate { peer: self.peer, session }));
        }
    }

    /// The keys of `key_id` are over.
    pub(crate) fn retire(&mut self, key_id: u8, events: &mut Outbox) {
        let known = self.established.len() + self.prepared.len();
        self.established.retain(|known| *known != key_id);
        self.prepared.retain(|known| *known != key_id);
        if self.established.len() + self.prepared.len() == known {
            return;
        }
        if self.agreement.is_some() {
            let session = session_id(self.peer, key_id);
            events.push_back(Event::Data(DataEvent::Retire { peer: self.peer, session }));
        }
    }
}

/// The change by the first packet that the keys of a complete exchange open. The keys of a renegotiation begin to seal, as the
/// peer seals with them; the keys of the first exchange (key id 0) seal already.
const fn on_first_opened(key_id: u8) -> OnFirstOpened {
    if key_id == 0 { OnFirstOpened::Nothing } else { OnFirstOpened::Activate }
}
