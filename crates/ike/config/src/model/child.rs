use std::time::Duration;

use adit_ike::suite::Algorithms;

use super::{InterfaceId, Places, TrafficSelector};

/// A subsection of `children`: the configuration of child SAs. All are ESP in tunnel mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `esp_proposals`, in order of preference; at least one.
    pub esp_proposals: Vec<Algorithms>,
    /// `local_ts`: the traffic of this end; at least one selector.
    pub local_ts: Vec<TrafficSelector>,
    /// `remote_ts`: the traffic of the peer's end; at least one selector.
    pub remote_ts: Vec<TrafficSelector>,
    /// `rekey_time`, `life_time` and `rand_time`, in seconds.
    pub time: Volume,
    /// `rekey_bytes`, `life_bytes` and `rand_bytes`.
    pub bytes: Volume,
    /// `rekey_packets`, `life_packets` and `rand_packets`.
    pub packets: Volume,
    /// `inactivity`: the time without a packet after which the child SA ends. `None` (0): it does not end by that.
    pub inactivity: Option<Duration>,
    /// `start_action`: what happens when the file is loaded.
    pub start_action: Action,
    /// `dpd_action`: what happens when the peer gives no sign of life any more.
    pub dpd_action: Action,
    /// `close_action`: what happens when the peer ends the child SA.
    pub close_action: Action,
    /// `policies`: the child SA takes packets by its selectors. Without it packets reach it by its device alone.
    pub policies: bool,
    /// `updown`: the program that is run when the child SA comes up or goes down, as the file writes it.
    pub updown: Option<String>,
    /// `if_id_in`. [`InterfaceId::None`]: the connection's.
    pub if_id_in: InterfaceId,
    /// `if_id_out`. [`InterfaceId::None`]: the connection's.
    pub if_id_out: InterfaceId,
    /// `tfc_padding`: the padding that hides the length of packets.
    pub tfc_padding: Padding,
    /// `replay_window` in packets. `None`: the file says nothing. 0: replayed packets are not refused.
    pub replay_window: Option<u32>,
    /// `copy_df`: the bit DF of packets is copied to the outer header.
    pub copy_df: bool,
    /// `copy_ecn`: ECN is copied to and from the outer header (RFC 6040).
    pub copy_ecn: bool,
    /// `copy_dscp`: where DSCP is copied.
    pub copy_dscp: DscpCopy,
    /// `icmp`: an ICMP error from outside of the selectors passes if it quotes a packet within them (RFC 4301 section 6).
    pub icmp: bool,
}

/// Limits on the use of a child SA: a time in seconds, or a number of bytes or packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The use after which it is rekeyed. `None` (0): it is not rekeyed by that.
    pub rekey: Option<u64>,
    /// The use after which it ends. `None` (0): it does not end by that.
    pub life: Option<u64>,
    /// The most that is subtracted at random from `rekey`.
    pub random: u64,
}

/// An action. Neither of both: nothing is done (`none`, `clear`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// The child SA is initiated at once (`start`, `restart`).
    pub start: bool,
    /// A packet of its traffic initiates the child SA (`trap`, `route`).
    pub trap: bool,
}

/// `tfc_padding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// None (0).
    #[default]
    None,
    /// Packets are padded to this number of bytes.
    To(u32),
    /// Packets are padded to the MTU of the path (`mtu`).
    ToMtu,
}

/// `copy_dscp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DscpCopy {
    /// To the outer header of sent packets.
    #[default]
    Out,
    /// From the outer header of received packets.
    In,
    /// Both.
    Both,
    /// Neither.
    No,
}
