//! WireGuard's machines with the real data plane: the sessions that they install seal and open, and the notices of the
//! data plane are enough to stage, confirm, rekey and end.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Drive, Event, Instant, Notice, Path, PeerActivity, PeerId, Protocol, drive};
use adit_dataplane::{
    Config, Counters, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};
use adit_wireguard::{
    AllowedIp, Changes, Interface, Params, PeerChange, PresharedKey, PrivateKey, PublicKey, Sockets,
    WallClock,
};

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

fn outer(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 51820).into()
}

fn public(n: u8) -> PublicKey {
    let key = End::interface(n, Vec::new()).public_key();
    key.expect("a private key was given")
}

struct End {
    machine: Interface,
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    sent: Vec<Vec<u8>>,
    told: PeerActivity,
    sessions: usize,
}

impl Drive for End {
    type Protocol = Interface;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Interface {
        &mut self.machine
    }

    fn event(&mut self, event: adit_wireguard::Event) -> Result<(), Infallible> {
        if let Event::Data(order) = event {
            self.sessions += usize::from(matches!(order, adit_wireguard::DataEvent::Install(_)));
            let (egress, ingress) = split(order, adit_wireguard_codec::session);
            egress.into_iter().for_each(|order| self.egress.apply(order, &mut self.transmit_batch));
            ingress.into_iter().for_each(|order| self.ingress.apply(order));
        }
        Ok(())
    }

    fn transmit(&mut self, _path: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.sent.push(datagram.to_vec());
        Ok(())
    }
}

impl End {
    fn interface(n: u8, peers: Vec<PeerChange>) -> Interface {
        let mut params = Params::new(WallClock { at: at(1), since_1970: Duration::from_secs(1_800_000_000) });
        params.sockets = Sockets { port: 51820, ipv4: Some(0), ipv6: Some(0) };
        let private_key = Some(PrivateKey::new([n; 32]));
        params.configuration = Changes { private_key, peers, ..Changes::default() };
        Interface::new(params, at(1), [n; 32]).expect("a configuration")
    }

    fn new(n: u8, other: u8) -> Self {
        let peer = PeerChange {
            endpoint: Some(outer(other)),
            preshared_key: Some(PresharedKey::new([7; 32])),
            allowed_ips: vec![AllowedIp::Add(IpAddr::from([10, 0, 0, other]).into())],
            ..PeerChange::new(public(other))
        };
        let (egress, ingress, counters) = adit_dataplane::new(Config::new(adit_wireguard_codec::Sockets));
        let mut end = End {
            machine: End::interface(n, vec![peer]),
            egress,
            ingress,
            counters,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            sent: Vec::new(),
            told: PeerActivity::default(),
            sessions: 0,
        };
        end.drain();
        end
    }

    fn drain(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
        for batch in self.transmit_batch.iter() {
            self.sent.extend(batch.bytes.chunks(batch.segment.max(1)).map(<[u8]>::to_vec));
        }
        self.transmit_batch.clear();
    }

    fn notify(&mut self, now: Instant, notices: Vec<Notice>) {
        for notice in notices {
            self.machine.handle_notice(now, notice);
            self.drain();
        }
    }

    fn send(&mut self, now: Instant, packet: &[u8]) {
        self.egress.tick(now);
        self.egress.seal_packet(Offload::NONE, &mut packet.to_vec(), &mut self.transmit_batch);
        let notices = self.egress.take_notices();
        self.drain();
        self.notify(now, notices);
    }

    /// The packets in a datagram that came from end `from`.
    fn receive(&mut self, now: Instant, from: u8, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut bytes = datagram.to_vec();
        let path = Path::Udp { socket: 0, remote: outer(from) };
        self.egress.tick(now);
        self.ingress.tick(now);
        self.ingress.open_datagrams(path, &mut bytes, 0, &mut self.receive_batch);
        let copy = |range: std::ops::Range<usize>| bytes[range].to_vec();
        let packets = self.receive_batch.packets();
        let packets = packets.map(|packet| packet.pieces().flat_map(copy).collect()).collect();
        let control: Vec<_> =
            self.receive_batch.control().iter().map(|(_, range)| copy(range.clone())).collect();
        let notices: Vec<Notice> = self.receive_batch.notices().drain(..).collect();
        self.receive_batch.clear();
        for datagram in control {
            self.machine.handle_datagram(now, path, &datagram).expect("an honest message");
            self.drain();
        }
        self.notify(now, notices);
        packets
    }

    fn second(&mut self, now: Instant) {
        let peer = PeerId(0);
        self.machine.handle_timeout(now);
        self.drain();
        let activity = self.counters.activity(peer).expect("the peer is there");
        if std::mem::replace(&mut self.told, activity) != activity {
            let (received, sent) = self.counters.traffic(peer).unwrap_or_default();
            let (received_bytes, sent_bytes) = self.counters.traffic_bytes(peer).unwrap_or_default();
            let message_bytes = self.counters.message_bytes(peer).unwrap_or_default();
            let notice =
                Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
            self.notify(now, vec![notice]);
        }
    }
}

/// A UDP packet from one inner address to another. Nothing verifies its checksum.
fn packet(from: u8, to: u8, payload: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
    packet.extend([0, 9, 0, 9, 0, 9, 0, 0, payload]);
    packet
}

/// Delivers all, and gives the packets that came out at each end.
fn settle(ends: &mut [End; 2], now: Instant) -> [Vec<Vec<u8>>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    while ends.iter().any(|end| !end.sent.is_empty()) {
        for from in 0..2 {
            for datagram in std::mem::take(&mut ends[from].sent) {
                found[1 - from].extend(ends[1 - from].receive(now, from as u8 + 1, &datagram));
            }
        }
    }
    found
}

#[test]
fn packets_pass_in_both_directions_through_rekeys_and_silence() {
    let mut ends = [End::new(1, 2), End::new(2, 1)];
    let mut now = at(2);
    // The first packet waits for the handshake.
    ends[0].send(now, &packet(1, 2, 1));
    assert_eq!(settle(&mut ends, now), [vec![], vec![packet(1, 2, 1)]]);
    assert!(ends.iter().all(|end| end.sessions == 1 && end.machine.peers().len() == 1));

    for second in 0..=400_u64 {
        now = at(3 + second);
        let payload = second as u8;
        for from in 0..2 {
            let (n, other) = (from as u8 + 1, 2 - from as u8);
            ends[from].send(now, &packet(n, other, payload));
            let arrived = settle(&mut ends, now);
            assert_eq!(arrived[1 - from], [packet(n, other, payload)], "after {second} s");
        }
        ends.iter_mut().for_each(|end| end.second(now));
        assert_eq!(settle(&mut ends, now), [Vec::<Vec<u8>>::new(), vec![]]);
    }
    // The initiator made a new session each 120 s.
    assert_eq!([ends[0].sessions, ends[1].sessions], [4, 4]);

    // A keepalive from each that heard last; then nothing, and no keys after 540 s.
    for second in 0..=560 {
        now = at(404 + second);
        ends.iter_mut().for_each(|end| end.second(now));
        let keepalives =
            ends.iter().flat_map(|end| &end.sent).filter(|datagram| datagram.len() == 32).count();
        assert!(keepalives <= 2 && (second <= 30 || keepalives == 0), "after {second} s of silence");
        settle(&mut ends, now);
    }
    assert!(ends.iter().all(|end| end.machine.peers().is_empty()));
    ends[1].send(now, &packet(2, 1, 5));
    assert_eq!(settle(&mut ends, now), [vec![packet(2, 1, 5)], vec![]]);
}

#[test]
fn packets_of_others_addresses_are_dropped() {
    let mut ends = [End::new(1, 2), End::new(2, 1)];
    let now = at(2);
    ends[0].send(now, &packet(1, 2, 1));
    settle(&mut ends, now);
    ends[0].send(now, &packet(9, 2, 1));
    assert_eq!(settle(&mut ends, now), [Vec::<Vec<u8>>::new(), vec![]]);
}
