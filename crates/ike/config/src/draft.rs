//! Sections while their keys are read. Times and limits get their defaults when all keys are known.

use std::time::Duration;

use adit_ike::suite::{self, Algorithms};

use crate::model::{
    Action, Attribute, Child, Childless, Connection, Document, DscpCopy, Fragmentation, IdentityPattern,
    InterfaceId, LocalRound, Method, Padding, Place, Places, PoolAddresses, RemoteRound, Revocation,
    SecretBytes, SendCertificate, TrafficSelector, Unique, Volume,
};

/// The time to the rekey of an IKE SA where the file has none, in seconds.
const IKE_REKEY: u64 = 4 * 3600;
/// The time to the rekey of a child SA where the file has none, in seconds.
const CHILD_REKEY: u64 = 3600;
/// The UDP port of IKE.
const PORT: u16 = 500;

/// A connection, with times as the file has them, in seconds.
pub(crate) struct ConnectionDraft {
    pub(crate) connection: Connection,
    pub(crate) rekey: Option<u64>,
    pub(crate) reauth: Option<u64>,
    pub(crate) over: Option<u64>,
    pub(crate) random: Option<u64>,
}

impl ConnectionDraft {
    pub(crate) fn new(name: &str, place: Place) -> Self {
        let connection = Connection {
            name: name.to_owned(),
            places: Places::new(place),
            local_addrs: Vec::new(),
            remote_addrs: Vec::new(),
            local_port: None,
            remote_port: PORT,
            proposals: Vec::new(),
            vips: Vec::new(),
            pools: Vec::new(),
            dscp: 0,
            encap: false,
            mobike: true,
            dpd_delay: None,
            fragmentation: Fragmentation::default(),
            childless: Childless::default(),
            send_certreq: true,
            send_cert: SendCertificate::default(),
            ppk_id: None,
            ppk_required: false,
            keyingtries: Some(1),
            unique: Unique::default(),
            reauth_time: None,
            rekey_time: None,
            over_time: Duration::ZERO,
            rand_time: Duration::ZERO,
            if_id_in: InterfaceId::default(),
            if_id_out: InterfaceId::default(),
            local: Vec::new(),
            remote: Vec::new(),
            children: Vec::new(),
        };
        ConnectionDraft { connection, rekey: None, reauth: None, over: None, random: None }
    }

    /// The connection. By default it is rekeyed after 4 hours, unless it has a `reauth_time`; `over_time` is a tenth of the longer of
    /// both times, and `rand_time` is as long, but at most half of the shorter one (vici_config.c of strongSwan).
    pub(crate) fn finish(self) -> Connection {
        let mut connection = self.connection;
        let default = if self.reauth.is_none() { IKE_REKEY } else { 0 };
        let (rekey, reauth) = (self.rekey.unwrap_or(default), self.reauth.unwrap_or(0));
        let over = self.over.unwrap_or(rekey.max(reauth) / 10);
        let shorter = if rekey == 0 || reauth == 0 { rekey.max(reauth) } else { rekey.min(reauth) };
        connection.rekey_time = time(rekey);
        connection.reauth_time = time(reauth);
        connection.over_time = Duration::from_secs(over);
        connection.rand_time = Duration::from_secs(self.random.unwrap_or(over.min(shorter / 2)));
        or_default(&mut connection.proposals, suite::ike_proposals);
        connection
    }
}

/// A time; `None` for 0.
pub(crate) fn time(seconds: u64) -> Option<Duration> {
    (seconds > 0).then_some(Duration::from_secs(seconds))
}

fn or_default<E>(proposals: &mut Vec<Algorithms>, read: fn(&str) -> Result<Vec<Algorithms>, E>) {
    if proposals.is_empty() {
        proposals.extend(read("default").into_iter().flatten());
    }
}

/// Limits as the file has them.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) rekey: Option<u64>,
    pub(crate) life: Option<u64>,
    pub(crate) random: Option<u64>,
}

impl Limits {
    /// The limits. Of a rekey and an end of which one is missing, the end is a tenth later; the difference is the default of what is
    /// subtracted at random (vici_config.c of strongSwan, `check_lifetimes`).
    fn finish(&self, default: u64) -> Volume {
        let from_life = |life: u64| u64::try_from(u128::from(life) * 10 / 11).unwrap_or(life);
        let rekey = self.rekey.unwrap_or_else(|| self.life.map_or(default, from_life));
        let life = self.life.unwrap_or_else(|| rekey.saturating_add(rekey / 10));
        let random = self.random.unwrap_or_else(|| life.saturating_sub(rekey));
        let some = |limit: u64| (limit > 0).then_some(limit);
        Volume { rekey: some(rekey), life: some(life), random }
    }
}

/// A child, with limits as the file has them.
pub(crate) struct ChildDraft {
    pub(crate) child: Child,
    pub(crate) time: Limits,
    pub(crate) bytes: Limits,
    pub(crate) packets: Limits,
}

impl ChildDraft {
    pub(crate) fn new(name: &str, place: Place) -> Self {
        let child = Child {
            name: name.to_owned(),
            places: Places::new(place),
            esp_proposals: Vec::new(),
            local_ts: Vec::new(),
            remote_ts: Vec::new(),
            time: Volume::default(),
            bytes: Volume::default(),
            packets: Volume::default(),
            inactivity: None,
            start_action: Action::default(),
            dpd_action: Action::default(),
            close_action: Action::default(),
            policies: true,
            updown: None,
            if_id_in: InterfaceId::default(),
            if_id_out: InterfaceId::default(),
            tfc_padding: Padding::default(),
            replay_window: None,
            copy_df: true,
            copy_ecn: true,
            copy_dscp: DscpCopy::default(),
            icmp: false,
        };
        ChildDraft { child, time: Limits::default(), bytes: Limits::default(), packets: Limits::default() }
    }

    /// The child.
    pub(crate) fn finish(self) -> Child {
        let mut child = self.child;
        child.time = self.time.finish(CHILD_REKEY);
        child.bytes = self.bytes.finish(0);
        child.packets = self.packets.finish(0);
        for selectors in [&mut child.local_ts, &mut child.remote_ts] {
            if selectors.is_empty() {
                selectors.push(TrafficSelector::DYNAMIC);
            }
        }
        or_default(&mut child.esp_proposals, suite::esp_proposals);
        child
    }
}

/// A section `local…` of which nothing is said.
pub(crate) fn local_round(name: &str, place: Place) -> LocalRound {
    LocalRound {
        name: name.to_owned(),
        places: Places::new(place),
        round: 0,
        auth: Method::default(),
        id: None,
        certs: Vec::new(),
        pubkeys: Vec::new(),
        eap_id: None,
        aaa_id: None,
    }
}

/// A section `remote…` of which nothing is said.
pub(crate) fn remote_round(name: &str, place: Place) -> RemoteRound {
    RemoteRound {
        name: name.to_owned(),
        places: Places::new(place),
        round: 0,
        auth: Method::default(),
        id: IdentityPattern::Any,
        certs: Vec::new(),
        cacerts: Vec::new(),
        ca_id: None,
        pubkeys: Vec::new(),
        eap_id: None,
        revocation: Revocation::default(),
    }
}

/// A section that names one certificate.
#[derive(Default)]
pub(crate) struct CertificateDraft {
    pub(crate) document: Option<Document>,
}

/// A section of `secrets` with a key that both ends have.
#[derive(Default)]
pub(crate) struct SharedDraft {
    pub(crate) owners: Vec<IdentityPattern>,
    pub(crate) secret: Option<SecretBytes>,
}

/// A section of `secrets` with the password of a file.
#[derive(Default)]
pub(crate) struct PasswordDraft {
    /// The file's name, as it is written.
    pub(crate) file: Option<(String, Place)>,
    pub(crate) password: Option<SecretBytes>,
}

/// A section whose keys are all accepted without effect.
#[derive(Default)]
pub(crate) struct UnusedDraft;

/// A pool.
#[derive(Default)]
pub(crate) struct PoolDraft {
    pub(crate) addrs: Option<PoolAddresses>,
    pub(crate) dns: Vec<std::net::IpAddr>,
    pub(crate) nbns: Vec<std::net::IpAddr>,
    pub(crate) dhcp: Vec<std::net::IpAddr>,
    pub(crate) subnet: Vec<adit_core::IpNet>,
    pub(crate) attributes: Vec<Attribute>,
}
