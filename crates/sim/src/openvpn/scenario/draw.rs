//! Draws a scenario from a seed.

use std::time::Duration;

use adit_core::{Cipher, Digest, IdleLimit, PeerLimits, Transport};
use adit_openvpn::codec::Compression;
use adit_openvpn::wrap::HmacDigest;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use super::*;
use crate::openvpn::identity::MAX_CLIENTS;
use crate::rng::Rng;

/// Seeds below this one keep the meaning that tests rely on.
const FIRST_WITH_SCRIPTS: u64 = 40;

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, 0);
        // Settings that were added later draw from a stream of their own, so that earlier seeds keep their meaning.
        let extra = &mut Rng::new(seed, 4);
        let mut scenario = Scenario::basic(seed, rng, extra);
        scenario.use_extras(extra);
        if rng.chance(50) && !scenario.has_many_clients() {
            scenario.use_long_times(rng);
        }
        scenario.use_latest(seed);
        scenario.network.faults = (0..scenario.clients).map(|_| [faults(rng), faults(rng)]).collect();
        scenario.phases.recovery = scenario.recovery_bound();
        scenario
    }

    /// The settings that every seed has. Another order of draws from a stream would give seeds another meaning.
    fn basic(seed: u64, rng: &mut Rng, extra: &mut Rng) -> Self {
        let few = rng.pick(&[1, 1, 1, 2, 2, 3, 4, 5]);
        let clients = if extra.chance(15) { MANY_CLIENTS.min(MAX_CLIENTS) } else { few };
        let mtu = extra.pick(&[usize::MAX, 1500, 1500, 1400, 1280]);
        let clock_faults = extra.chance(400);
        let passwords = extra.chance(300);
        let (client_configs, persist_pool) = (extra.chance(300), extra.chance(500));
        let ping = rng.secs(2, 10);
        let timing = [timing(rng), timing(rng)];
        let remotes = remotes(rng);
        let (wrapping, versions) = (wrapping(rng), versions(rng));
        let data = data(rng, extra);
        let client_to_client = clients > 1 && rng.chance(500);
        let control = Control {
            wrapping,
            versions,
            timing,
            tran_window: longest_window(&timing) + rng.secs(30, 120),
            max_packet_size: rng.pick(&[1250, 1250, 1250, 500, 1500]),
        };
        let server = ServerOptions {
            client_to_client,
            pushed_routes: rng.pick(&[0, 0, 0, 100]),
            tight_pool: rng.chance(300),
            client_configs,
            persist_pool,
            pushes_limits: false,
        };
        let liveness = Liveness {
            ping,
            ping_restart: ping * rng.between(3, 5) as u32,
            server_poll_timeout: rng.secs(10, 60),
            retry: (Duration::from_secs(1), rng.secs(1, 20)),
        };
        let (delay, jitter) = (rng.millis(1, 200), rng.pick(&[0, 0, 20, 200].map(Duration::from_millis)));
        let latency = latency(rng);
        let attack = rng.pick(&[None, None, Some(2000), Some(100)]).map(Duration::from_millis);
        let delay = Delay { least: delay, jitter };
        let network = Network { delay, mtu, fixed_port: rng.chance(300), faults: Vec::new() };
        Scenario {
            clients,
            remotes,
            third_party: ThirdParty::default(),
            point_to_point: None,
            control,
            data,
            liveness,
            limits: PeerLimits::default(),
            server,
            auth: auth(seed, passwords),
            network,
            latency,
            intervals: intervals(rng, attack),
            clock_faults,
            phases: phases(rng),
        }
    }

    /// Old ciphers, newer wrappings, and short intervals with many clients.
    fn use_extras(&mut self, extra: &mut Rng) {
        let old = [Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc, Cipher::Aes192Gcm];
        if extra.chance(350) {
            self.data.ciphers.insert(0, extra.pick(&old));
        }
        if let Wrapping::TlsCryptV2 { dated, force_cookie } = &mut self.control.wrapping {
            (*dated, *force_cookie) = (extra.chance(400), extra.chance(400));
        }
        if extra.chance(100) {
            self.control.wrapping = Wrapping::TlsCryptBoth;
        }
        self.control.max_packet_size = self.control.max_packet_size.min(self.network.mtu);
        if self.has_many_clients() {
            self.intervals.packet = Duration::from_secs(3);
            self.intervals.rekey = Duration::from_secs(2);
            self.intervals.fault = Duration::from_secs(2);
            self.phases.start = extra.secs(15, 30);
            self.phases.faults = extra.secs(40, 80);
            self.phases.calm = Duration::from_secs(60);
        }
        self.data.before_2_7 = extra.pick(&[[false; 2], [false; 2], [true, false], [false, true]]);
    }

    /// The settings that were added last, for seeds from [`FIRST_WITH_SCRIPTS`] on.
    fn use_latest(&mut self, seed: u64) {
        if seed < FIRST_WITH_SCRIPTS || self.has_many_clients() {
            return;
        }
        let rng = &mut Rng::new(seed, 7);
        let point_to_point = PointToPoint { single_session: rng.chance(300), ping_exit: rng.chance(300) };
        if rng.chance(120) {
            self.use_point_to_point(point_to_point);
        }
        self.auth.learn_address = self.auth.scripts && rng.chance(600);
        self.auth.challenges = self.auth.scripts && self.auth.passwords && rng.chance(700);
        if rng.chance(120) {
            self.use_limits(rng);
        }
        self.auth.management = self.auth.passwords && Rng::new(seed, 8).chance(400);
        self.use_third_party_clients(&mut Rng::new(seed, 10));
    }

    /// Some clients change keys as other programs do.
    fn use_third_party_clients(&mut self, rng: &mut Rng) {
        // They answer no challenges, and know no limits that are pushed.
        let fit =
            self.point_to_point.is_none() && !self.auth.challenges && self.limits == PeerLimits::default();
        let server = rng.chance(80);
        if !fit || !rng.chance(400) {
            if fit && server {
                self.use_third_party_server();
            }
            return;
        }
        let implementations = [
            None,
            Some(Implementation::OpenVpn3),
            Some(Implementation::OpenVpn3),
            Some(Implementation::MirageVpn),
        ];
        self.third_party.clients = (0..self.clients).map(|_| rng.pick(&implementations)).collect();
        if self.third_party.clients.contains(&Some(Implementation::OpenVpn3)) {
            // No server can renegotiate with it more often than it makes keys its primary ones.
            for timing in &mut self.control.timing {
                timing.reneg = timing.reneg.map(|reneg| reneg.max(Duration::from_secs(80)));
            }
            self.control.timing[0].reneg.get_or_insert(Duration::from_secs(80));
        }
    }

    /// MirageVPN's server has one client here, which it knows by its certificate, and demands tls-auth or tls-crypt.
    fn use_third_party_server(&mut self) {
        self.third_party.server = true;
        self.clients = 1;
        self.remotes = vec![Transport::Tcp];
        if !matches!(self.control.wrapping, Wrapping::TlsAuth(_)) {
            self.control.wrapping = Wrapping::TlsCrypt;
        }
        (self.server.client_to_client, self.server.client_configs, self.server.persist_pool) =
            (false, false, false);
        (self.auth.passwords, self.auth.scripts, self.auth.management, self.auth.learn_address) =
            (false, false, false, false);
    }

    /// Two ends are alone, and know each other's addresses.
    fn use_point_to_point(&mut self, settings: PointToPoint) {
        self.point_to_point = Some(settings);
        self.clients = 1;
        (self.server.client_to_client, self.server.client_configs) = (false, false);
        (self.auth.passwords, self.auth.scripts) = (false, false);
    }

    fn use_limits(&mut self, rng: &mut Rng) {
        let idle = Some(IdleLimit { after: rng.secs(20, 60), bytes: 0 });
        // Shorter connections would fill hours of calm with handshakes.
        let length = Some(rng.secs(45, 200).max(Duration::from_secs(self.phases.calm.as_secs() / 20)));
        self.limits = match rng.below(3) {
            0 => PeerLimits { idle, length: None },
            1 => PeerLimits { idle: None, length },
            _ => PeerLimits { idle, length },
        };
        self.server.pushes_limits = self.point_to_point.is_none() && rng.chance(400);
        if self.limits.idle.is_some() {
            // A relayed packet passes through two tunnels, and only the server knows when.
            self.server.client_to_client = false;
        }
    }

    /// OpenVPN's default times, and hours of calm in which they pass.
    fn use_long_times(&mut self, rng: &mut Rng) {
        for timing in &mut self.control.timing {
            timing.hand_window = Duration::from_secs(60);
            timing.reneg = Some(Duration::from_secs(3600));
        }
        self.control.tran_window = Duration::from_secs(3600);
        self.intervals.packet = Duration::from_secs(5);
        self.intervals.rekey = Duration::from_secs(1200);
        self.intervals.attack = self.intervals.attack.map(|mean| mean * 20);
        self.phases.calm = rng.secs(8000, 15_000);
    }
}

fn data(rng: &mut Rng, extra: &mut Rng) -> Data {
    Data {
        ciphers: ciphers(rng),
        compression: rng.pick(&[
            Compression::None,
            Compression::None,
            Compression::LzoNo,
            Compression::Stub,
            Compression::StubV2,
        ]),
        digest: extra.pick(&[Digest::Sha1, Digest::Sha256, Digest::Sha512]),
        before_2_7: [false; 2],
    }
}

fn auth(seed: u64, passwords: bool) -> Auth {
    Auth {
        passwords,
        // A stream of its own again: of the seeds that tests name, none has scripts.
        scripts: seed >= FIRST_WITH_SCRIPTS && Rng::new(seed, 6).chance(250),
        learn_address: false,
        challenges: false,
        management: false,
    }
}

fn latency(rng: &mut Rng) -> Latency {
    Latency {
        notices: rng.pick(&[0, 0, 5, 100].map(Duration::from_millis)),
        orders: rng.pick(&[0, 0, 1, 50].map(Duration::from_millis)),
        wake: rng.pick(&[0, 0, 1, 50].map(Duration::from_millis)),
    }
}

fn intervals(rng: &mut Rng, attack: Option<Duration>) -> Intervals {
    Intervals {
        attack,
        fault: rng.pick(&[15, 30, 60, 100_000].map(Duration::from_secs)),
        rekey: rng.pick(&[8, 20, 60].map(Duration::from_secs)),
        packet: rng.pick(&[200, 500, 1000, 3000].map(Duration::from_millis)),
    }
}

fn phases(rng: &mut Rng) -> Phases {
    Phases {
        start: rng.secs(0, 40),
        faults: rng.secs(60, 300),
        recovery: Duration::ZERO,
        calm: rng.secs(60, 150),
    }
}

fn remotes(rng: &mut Rng) -> Vec<Transport> {
    match rng.below(5) {
        0 => vec![Transport::Tcp],
        1 => vec![Transport::Udp, Transport::Tcp],
        _ => vec![Transport::Udp],
    }
}

fn wrapping(rng: &mut Rng) -> Wrapping {
    match rng.below(4) {
        0 => Wrapping::Plain,
        1 => Wrapping::TlsAuth(rng.pick(&[HmacDigest::Sha1, HmacDigest::Sha256, HmacDigest::Sha512])),
        2 => Wrapping::TlsCrypt,
        _ => Wrapping::TlsCryptV2 { dated: false, force_cookie: false },
    }
}

fn timing(rng: &mut Rng) -> Timing {
    let reneg = [None, None, Some(30), Some(60), Some(120), Some(3600)];
    Timing {
        hand_window: rng.pick(&[10, 20, 30, 60].map(Duration::from_secs)),
        reneg: rng.pick(&reneg).map(Duration::from_secs),
        retransmit: rng.pick(&[1, 2, 2, 4].map(Duration::from_secs)),
    }
}

fn versions(rng: &mut Rng) -> Vec<&'static SupportedProtocolVersion> {
    match rng.below(3) {
        0 => vec![&TLS12],
        1 => vec![&TLS13],
        _ => vec![&TLS12, &TLS13],
    }
}

fn ciphers(rng: &mut Rng) -> Vec<Cipher> {
    let first = rng.pick(&[Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305]);
    vec![first, Cipher::Aes256Gcm]
}

fn faults(rng: &mut Rng) -> Faults {
    // Some seeds know one kind of fault only, which tells more when one fails.
    let mut some = |most: u64| if rng.chance(600) { rng.below(most + 1) } else { 0 };
    let (loss, duplication, corruption, reordering) = (some(300), some(200), some(100), some(300));
    Faults { loss, duplication, corruption, reordering, hold: rng.millis(10, 3000) }
}
