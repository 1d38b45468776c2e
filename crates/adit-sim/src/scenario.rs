//! What a seed decides before anything runs: who takes part, with which settings, over what kind of net.

use std::sync::Arc;
use std::time::Duration;

use adit_core::{Cipher, CompressionFraming, Digest, IdleLimit, SessionLimits, Transport, UnixTime};
use adit_openvpn::Role;
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::crypto::WALL_AT_ORIGIN;
use crate::dice::Dice;
use crate::foreign::Kind;
use crate::identity::{MAX_CLIENTS, client_name};

/// How the control channel is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Plain,
    TlsAuth(HmacDigest),
    TlsCrypt,
    /// Each client with a key of its own.
    TlsCryptV2 {
        /// The server takes only keys that say when they were made.
        dated: bool,
        /// Clients that bring no key twice are turned away.
        force_cookie: bool,
    },
    /// Clients with odd numbers have a key of their own, the others share one.
    TlsCryptBoth,
}

/// How old a dated key may be. Clocks go wrong by less.
const MAX_AGE: Duration = Duration::from_secs(2 * 365 * 86_400);

/// Bytes that stand for a key.
fn key_bytes<const N: usize>(number: usize) -> [u8; N] {
    std::array::from_fn(|index| index as u8 ^ 0x5a ^ number as u8)
}

impl Wrapping {
    /// The wrapping as client number `number` has it.
    ///
    /// # Errors
    /// When a key cannot be made, as text.
    pub(crate) fn client(self, number: usize) -> Result<WrapConfig, String> {
        let key = StaticKey::from_bytes(&key_bytes(0));
        match self {
            Wrapping::Plain => Ok(WrapConfig::Plain),
            Wrapping::TlsAuth(digest) => Ok(WrapConfig::tls_auth(&key, digest, KeyDirection::Inverse)),
            Wrapping::TlsCryptV2 { dated: true, .. } => {
                own_key(number, &Metadata::Made(UnixTime(WALL_AT_ORIGIN - 86_400)))
            }
            Wrapping::TlsCryptV2 { .. } => own_key(number, &Metadata::User(client_name(number).into_bytes())),
            Wrapping::TlsCryptBoth if number % 2 == 1 => own_key(number, &Metadata::Other(Vec::new())),
            Wrapping::TlsCrypt | Wrapping::TlsCryptBoth => Ok(WrapConfig::tls_crypt(&key, Role::Client)),
        }
    }

    /// The wrapping as the server has it: for all, and for each client of its own.
    pub(crate) fn server(self) -> (WrapConfig, Option<TlsCryptV2>) {
        let key = StaticKey::from_bytes(&key_bytes(0));
        let v2 = |force_cookie, max_age| {
            let key = Arc::new(ServerKey::from_bytes(&key_bytes(0)));
            Some(TlsCryptV2 { key, force_cookie, max_age })
        };
        match self {
            Wrapping::Plain => (WrapConfig::Plain, None),
            Wrapping::TlsAuth(digest) => (WrapConfig::tls_auth(&key, digest, KeyDirection::Normal), None),
            Wrapping::TlsCrypt => (WrapConfig::tls_crypt(&key, Role::Server), None),
            Wrapping::TlsCryptV2 { dated, force_cookie } => {
                (WrapConfig::Plain, v2(force_cookie, dated.then_some(MAX_AGE)))
            }
            Wrapping::TlsCryptBoth => (WrapConfig::tls_crypt(&key, Role::Server), v2(false, None)),
        }
    }
}

/// The wrapping of a client that has a key of its own.
fn own_key(number: usize, metadata: &Metadata) -> Result<WrapConfig, String> {
    let key = StaticKey::from_bytes(&key_bytes(number));
    let key = ServerKey::from_bytes(&key_bytes(0)).wrap(&key, metadata);
    Ok(WrapConfig::tls_crypt_v2(&key.map_err(|error| error.to_string())?))
}

/// What one direction of a client's way to the server does to datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Datagrams lost, of 1,000. TCP: segments that come late.
    pub(crate) loss: u64,
    /// Datagrams that come twice, of 1,000.
    pub(crate) duplication: u64,
    /// Datagrams with some bits flipped, of 1,000.
    pub(crate) corruption: u64,
    /// Datagrams held back, so that later ones overtake them, of 1,000.
    pub(crate) reordering: u64,
    /// How long at most they are held back.
    pub(crate) hold: Duration,
}

/// How long each part of a simulation lasts, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Clean from the start.
    pub(crate) start: Duration,
    /// With faults.
    pub(crate) faults: Duration,
    /// Clean again; all must be up within it ([`Scenario::recovery_bound`]).
    pub(crate) recovery: Duration,
    /// Clean, and nothing may be lost.
    pub(crate) calm: Duration,
}

/// One end's timing of key exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// `hand-window`.
    pub(crate) hand_window: Duration,
    /// `reneg-sec`.
    pub(crate) reneg: Option<Duration>,
    /// `tls-timeout`.
    pub(crate) retransmit: Duration,
}

/// A point-to-point tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// `single-session`: nobody takes the place of a peer that is up.
    pub(crate) single: bool,
    /// `ping-exit` in place of `ping-restart`.
    pub(crate) exits: bool,
}

/// All that a seed decides before the start.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) clients: usize,
    /// Each client's remotes, all at the same server.
    pub(crate) remotes: Vec<Transport>,
    pub(crate) wrapping: Wrapping,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) server_ciphers: Vec<Cipher>,
    pub(crate) compression: CompressionFraming,
    pub(crate) client_to_client: bool,
    /// The server's timing, and the clients'.
    pub(crate) timing: [Timing; 2],
    /// `tran-window`, longer than any end stays on old keys.
    pub(crate) tran_window: Duration,
    /// `max-packet-size`.
    pub(crate) max_packet_size: usize,
    /// Additional options that are pushed: enough of them, and the push needs several messages.
    pub(crate) pushed_routes: u64,
    /// The server has no more addresses than clients.
    pub(crate) tight_pool: bool,
    pub(crate) ping: Duration,
    /// The client's patience; the server's is twice as long.
    pub(crate) patience: Duration,
    pub(crate) server_poll_timeout: Duration,
    pub(crate) retry: (Duration, Duration),
    /// One way, without anything else.
    pub(crate) delay: Duration,
    /// Most additional delay of a datagram on a clean net.
    pub(crate) jitter: Duration,
    /// How late at most the protocol hears what the data plane has for it.
    pub(crate) lag: Duration,
    /// How late at most each half of the data plane follows the protocol's orders.
    pub(crate) order_lag: Duration,
    /// How late an end is woken.
    pub(crate) oversleep: Duration,
    /// Mean time between two datagrams of an attacker, who repeats and bends what was seen before.
    pub(crate) attack_every: Option<Duration>,
    /// All of a client's sockets are seen under one address, as with `lport`, until it changes.
    pub(crate) fixed_port: bool,
    /// For each client, to and from the server.
    pub(crate) faults: Vec<[Faults; 2]>,
    /// Mean time between two troubles (restarts, crashes, new addresses, silence) while there are faults.
    pub(crate) trouble_every: Duration,
    /// Mean time between two orders to renegotiate.
    pub(crate) rekey_every: Duration,
    /// Mean time between two inner packets of one sender.
    pub(crate) packet_every: Duration,
    /// The largest IP packet that the way to the server carries.
    pub(crate) mtu: usize,
    /// Clocks jump, and machines sleep, where there is trouble.
    pub(crate) bad_clocks: bool,
    /// Clients have a username and a password too, which somebody types in.
    pub(crate) passwords: bool,
    /// Scripts of the server judge clients: slowly, by files later, and now and then with a no.
    pub(crate) scripts: bool,
    /// Every third client has settings of its own ([`Scenario::is_special`]), which the server asks for.
    pub(crate) special: bool,
    /// The server remembers beyond its restart who had which address.
    pub(crate) persist: bool,
    /// `auth`.
    pub(crate) digest: Digest,
    /// Which ends do without the epoch data format: the server, the clients.
    pub(crate) before_2_7: [bool; 2],
    /// Two ends that push nothing, in place of a server and its clients.
    pub(crate) point: Option<Point>,
    /// `inactive` and `session-timeout`.
    pub(crate) limits: SessionLimits,
    /// The server does not mind these limits, but pushes them.
    pub(crate) pushes_limits: bool,
    /// `learn-address` runs too.
    pub(crate) learns: bool,
    /// Who judges a password puts questions to the client while keys are renegotiated.
    pub(crate) asks: bool,
    /// A program judges passwords, with the scripts that do or without.
    pub(crate) program: bool,
    /// Which clients are of another make; the others are ours. Index 0 is client 1.
    pub(crate) kinds: Vec<Option<Kind>>,
    /// The server changes keys as MirageVPN's does.
    pub(crate) mirage_server: bool,
    pub(crate) phases: Phases,
}

/// Seeds below keep their meaning.
const FIRST_WITH_SCRIPTS: u64 = 40;
/// So many clients make a crowd.
const CROWD: usize = 200;

/// A client that ended is started again after this time, as a service manager would.
pub(crate) const RESTART_AFTER: Duration = Duration::from_secs(1);
/// The headers around a datagram: IPv4 and UDP.
pub(crate) const UDP_HEADERS: usize = 28;
/// A handshake over a clean net takes no longer, name resolution and connecting included.
pub(crate) const CLEAN_CONNECT: Duration = Duration::from_secs(10);

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let dice = &mut Dice::new(seed, 0);
        // What came later has dice of its own, so that earlier seeds keep their meaning.
        let more = &mut Dice::new(seed, 4);
        let few = dice.pick(&[1, 1, 1, 2, 2, 3, 4, 5]);
        let clients = if more.chance(15) { CROWD.min(MAX_CLIENTS) } else { few };
        let ping = dice.secs(2, 10);
        let timing = [timing(dice), timing(dice)];
        let mut scenario = Scenario {
            clients,
            remotes: remotes(dice),
            wrapping: wrapping(dice),
            versions: versions(dice),
            server_ciphers: ciphers(dice),
            compression: dice.pick(&[
                CompressionFraming::None,
                CompressionFraming::None,
                CompressionFraming::LzoNo,
                CompressionFraming::Stub,
                CompressionFraming::StubV2,
            ]),
            client_to_client: clients > 1 && dice.chance(500),
            timing,
            tran_window: longest_window(&timing) + dice.secs(30, 120),
            max_packet_size: dice.pick(&[1250, 1250, 1250, 500, 1500]),
            pushed_routes: dice.pick(&[0, 0, 0, 100]),
            tight_pool: dice.chance(300),
            ping,
            patience: ping * dice.between(3, 5) as u32,
            server_poll_timeout: dice.secs(10, 60),
            retry: (Duration::from_secs(1), dice.secs(1, 20)),
            delay: dice.millis(1, 200),
            jitter: dice.pick(&[0, 0, 20, 200].map(Duration::from_millis)),
            lag: dice.pick(&[0, 0, 5, 100].map(Duration::from_millis)),
            order_lag: dice.pick(&[0, 0, 1, 50].map(Duration::from_millis)),
            oversleep: dice.pick(&[0, 0, 1, 50].map(Duration::from_millis)),
            attack_every: dice.pick(&[None, None, Some(2000), Some(100)]).map(Duration::from_millis),
            fixed_port: dice.chance(300),
            faults: Vec::new(),
            trouble_every: dice.pick(&[15, 30, 60, 100_000].map(Duration::from_secs)),
            rekey_every: dice.pick(&[8, 20, 60].map(Duration::from_secs)),
            packet_every: dice.pick(&[200, 500, 1000, 3000].map(Duration::from_millis)),
            mtu: more.pick(&[usize::MAX, 1500, 1500, 1400, 1280]),
            bad_clocks: more.chance(400),
            passwords: more.chance(300),
            // Still later: of the seeds that tests name, none has scripts.
            scripts: seed >= FIRST_WITH_SCRIPTS && Dice::new(seed, 6).chance(250),
            special: more.chance(300),
            persist: more.chance(500),
            digest: more.pick(&[Digest::Sha1, Digest::Sha256, Digest::Sha512]),
            before_2_7: [false; 2],
            point: None,
            limits: SessionLimits::default(),
            pushes_limits: false,
            learns: false,
            asks: false,
            program: false,
            kinds: Vec::new(),
            mirage_server: false,
            phases: Phases {
                start: dice.secs(0, 40),
                faults: dice.secs(60, 300),
                recovery: Duration::ZERO,
                calm: dice.secs(60, 150),
            },
        };
        scenario.take_more(more);
        if dice.chance(50) && !scenario.is_crowd() {
            scenario.take_hours(dice);
        }
        scenario.take_last(seed);
        scenario.faults = (0..scenario.clients).map(|_| [faults(dice), faults(dice)]).collect();
        scenario.phases.recovery = scenario.recovery_bound();
        scenario
    }

    /// Old ciphers, newer wrappings, and the haste of a crowd.
    fn take_more(&mut self, more: &mut Dice) {
        let old = [Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc, Cipher::Aes192Gcm];
        if more.chance(350) {
            self.server_ciphers.insert(0, more.pick(&old));
        }
        if let Wrapping::TlsCryptV2 { dated, force_cookie } = &mut self.wrapping {
            (*dated, *force_cookie) = (more.chance(400), more.chance(400));
        }
        if more.chance(100) {
            self.wrapping = Wrapping::TlsCryptBoth;
        }
        self.max_packet_size = self.max_packet_size.min(self.mtu);
        if self.is_crowd() {
            self.packet_every = Duration::from_secs(3);
            self.rekey_every = Duration::from_secs(2);
            self.trouble_every = Duration::from_secs(2);
            self.phases.start = more.secs(15, 30);
            self.phases.faults = more.secs(40, 80);
            self.phases.calm = Duration::from_secs(60);
        }
        self.before_2_7 = more.pick(&[[false; 2], [false; 2], [true, false], [false, true]]);
    }

    /// What came last, for seeds that no test names.
    fn take_last(&mut self, seed: u64) {
        if seed < FIRST_WITH_SCRIPTS || self.is_crowd() {
            return;
        }
        let dice = &mut Dice::new(seed, 7);
        let point = Point { single: dice.chance(300), exits: dice.chance(300) };
        if dice.chance(120) {
            self.take_point(point);
        }
        self.learns = self.scripts && dice.chance(600);
        self.asks = self.scripts && self.passwords && dice.chance(700);
        if dice.chance(120) {
            self.take_limits(dice);
        }
        self.program = self.passwords && Dice::new(seed, 8).chance(400);
        self.take_kinds(&mut Dice::new(seed, 10));
    }

    /// Some clients change keys as other programs do.
    fn take_kinds(&mut self, dice: &mut Dice) {
        // They answer no questions, and know no limits that are pushed.
        let fit = self.point.is_none() && !self.asks && self.limits == SessionLimits::default();
        let server = dice.chance(80);
        if !fit || !dice.chance(400) {
            if fit && server {
                self.take_mirage_server();
            }
            return;
        }
        let kinds = [None, Some(Kind::OpenVpn3), Some(Kind::OpenVpn3), Some(Kind::MirageVpn)];
        self.kinds = (0..self.clients).map(|_| dice.pick(&kinds)).collect();
        if self.kinds.contains(&Some(Kind::OpenVpn3)) {
            // No server can renegotiate with it more often than it makes keys its primary ones.
            for timing in &mut self.timing {
                timing.reneg = timing.reneg.map(|reneg| reneg.max(Duration::from_secs(80)));
            }
            self.timing[0].reneg.get_or_insert(Duration::from_secs(80));
        }
    }

    /// MirageVPN's server has one client here, which it knows by its certificate, and demands tls-auth or tls-crypt.
    fn take_mirage_server(&mut self) {
        self.mirage_server = true;
        self.clients = 1;
        self.remotes = vec![Transport::Tcp];
        if !matches!(self.wrapping, Wrapping::TlsAuth(_)) {
            self.wrapping = Wrapping::TlsCrypt;
        }
        (self.client_to_client, self.special, self.persist) = (false, false, false);
        (self.passwords, self.scripts, self.program, self.learns) = (false, false, false, false);
    }

    /// Of which make that client is, if it is none of ours.
    pub(crate) fn kind(&self, client: usize) -> Option<Kind> {
        self.kinds.get(client.wrapping_sub(1)).copied().flatten()
    }

    /// Two ends are alone, and know each other's addresses.
    fn take_point(&mut self, point: Point) {
        self.point = Some(point);
        self.clients = 1;
        (self.client_to_client, self.special) = (false, false);
        (self.passwords, self.scripts) = (false, false);
    }

    fn take_limits(&mut self, dice: &mut Dice) {
        let idle = Some(IdleLimit { after: dice.secs(20, 60), bytes: 0 });
        // Else hours of calm would be full of handshakes.
        let length = Some(dice.secs(45, 200).max(Duration::from_secs(self.phases.calm.as_secs() / 20)));
        self.limits = match dice.below(3) {
            0 => SessionLimits { idle, length: None },
            1 => SessionLimits { idle: None, length },
            _ => SessionLimits { idle, length },
        };
        self.pushes_limits = self.point.is_none() && dice.chance(400);
        if self.limits.idle.is_some() {
            // What is relayed passes through two tunnels, and only the server knows when.
            self.client_to_client = false;
        }
    }

    /// Which ends mind the limits: the server, the clients.
    pub(crate) fn minds_limits(&self) -> [bool; 2] {
        [!self.pushes_limits, self.pushes_limits || self.point.is_some()]
    }

    /// Whether anybody decides who comes in.
    pub(crate) fn judges(&self) -> bool {
        self.scripts || self.program
    }

    /// Whether a great many clients take part.
    pub(crate) fn is_crowd(&self) -> bool {
        self.clients >= CROWD
    }

    /// Whether that client has settings of its own: a fixed address, and a network behind it.
    pub(crate) fn is_special(&self, client: usize) -> bool {
        self.special && client % 3 == 1
    }

    /// The largest inner packet that is sure to fit through the way to the server.
    pub(crate) fn largest_inner(&self) -> usize {
        let around = if self.server_ciphers.iter().all(|cipher| cipher.is_aead()) { 29 } else { 105 };
        self.mtu - around - UDP_HEADERS
    }

    /// OpenVPN's default times, and hours of calm in which they pass.
    fn take_hours(&mut self, dice: &mut Dice) {
        for timing in &mut self.timing {
            timing.hand_window = Duration::from_secs(60);
            timing.reneg = Some(Duration::from_secs(3600));
        }
        self.tran_window = Duration::from_secs(3600);
        self.packet_every = Duration::from_secs(5);
        self.rekey_every = Duration::from_secs(1200);
        self.attack_every = self.attack_every.map(|mean| mean * 20);
        self.phases.calm = dice.secs(8000, 15_000);
    }

    /// Both ends of every tunnel are up again this long after the faults stopped.
    ///
    /// The longest chain of waits: a server that hears nothing drops its client after twice the patience,
    /// and the client, who still heard it, notices after its own patience; or an attempt under way is
    /// doomed and ends with its window (`server-poll-timeout`, or one `hand-window` for the key exchange
    /// and one for the push). Then comes the longest wait before the next attempt, and a handshake
    /// without loss.
    pub(crate) fn recovery_bound(&self) -> Duration {
        let attempt = self.server_poll_timeout.max(self.longest_window() * 2);
        self.patience * 3 + attempt + self.retry.1 + RESTART_AFTER + CLEAN_CONNECT
    }

    /// The longer `hand-window` of both ends.
    pub(crate) fn longest_window(&self) -> Duration {
        longest_window(&self.timing)
    }

    /// Whether a damaged control packet can pass for the peer's own word, as it can without wrapping.
    pub(crate) fn forgeable(&self) -> bool {
        let damaged = self.faults.iter().flatten().any(|direction| direction.corruption > 0);
        self.wrapping == Wrapping::Plain && (damaged || self.attack_every.is_some())
    }
}

fn remotes(dice: &mut Dice) -> Vec<Transport> {
    match dice.below(5) {
        0 => vec![Transport::Tcp],
        1 => vec![Transport::Udp, Transport::Tcp],
        _ => vec![Transport::Udp],
    }
}

fn wrapping(dice: &mut Dice) -> Wrapping {
    match dice.below(4) {
        0 => Wrapping::Plain,
        1 => Wrapping::TlsAuth(dice.pick(&[HmacDigest::Sha1, HmacDigest::Sha256, HmacDigest::Sha512])),
        2 => Wrapping::TlsCrypt,
        _ => Wrapping::TlsCryptV2 { dated: false, force_cookie: false },
    }
}

fn timing(dice: &mut Dice) -> Timing {
    let reneg = [None, None, Some(30), Some(60), Some(120), Some(3600)];
    Timing {
        hand_window: dice.pick(&[10, 20, 30, 60].map(Duration::from_secs)),
        reneg: dice.pick(&reneg).map(Duration::from_secs),
        retransmit: dice.pick(&[1, 2, 2, 4].map(Duration::from_secs)),
    }
}

fn longest_window(timing: &[Timing; 2]) -> Duration {
    timing[0].hand_window.max(timing[1].hand_window)
}

fn versions(dice: &mut Dice) -> Vec<&'static SupportedProtocolVersion> {
    match dice.below(3) {
        0 => vec![&TLS12],
        1 => vec![&TLS13],
        _ => vec![&TLS12, &TLS13],
    }
}

fn ciphers(dice: &mut Dice) -> Vec<Cipher> {
    let first = dice.pick(&[Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305]);
    vec![first, Cipher::Aes256Gcm]
}

fn faults(dice: &mut Dice) -> Faults {
    // Some seeds know one kind of fault only, which tells more when one fails.
    let mut some = |most: u64| if dice.chance(600) { dice.below(most + 1) } else { 0 };
    let (loss, duplication, corruption, reordering) = (some(300), some(200), some(100), some(300));
    Faults { loss, duplication, corruption, reordering, hold: dice.millis(10, 3000) }
}
