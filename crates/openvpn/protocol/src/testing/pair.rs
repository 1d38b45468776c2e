use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{
    Activity, Cipher, Command, ConnectionId, Drive, Instant, Notice, Path, PeerActivity, PeerId, Protocol,
    SharedPool, Transport, drive,
};

use crate::params::{ClientParams, ServerParams};
use crate::request::Event;
use crate::{Client, Server};

/// The client of a pair while it is drained.
struct ClientEnd<'a> {
    pair: &'a mut Pair,
    datagrams: VecDeque<Vec<u8>>,
}

impl Drive for ClientEnd<'_> {
    type Protocol = Client;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Client {
        &mut self.pair.client
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        let pair = &mut *self.pair;
        if let Event::Open { .. } = event {
            pair.connections += 1;
            let path = pair.server_path();
            pair.client.handle_command(pair.now, Command::Opened { path });
            if pair.transport == Transport::Tcp {
                let path = pair.client_path();
                pair.server.handle_command(pair.now, Command::Opened { path });
            }
        }
        if let (Event::Up(_), Some(reason)) = (&event, pair.refusal) {
            pair.client.handle_command(pair.now, Command::NotUp { reason: reason.to_owned() });
        }
        pair.client_events.push(event);
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.datagrams.push_back(datagram.to_vec());
        Ok(())
    }
}

/// The server of a pair while it is drained.
struct ServerEnd<'a> {
    pair: &'a mut Pair,
    datagrams: VecDeque<Vec<u8>>,
}

impl Drive for ServerEnd<'_> {
    type Protocol = Server;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Server {
        &mut self.pair.server
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        self.pair.server_events.push(event);
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.datagrams.push_back(datagram.to_vec());
        Ok(())
    }
}

/// Both ends and the wire between them, which loses nothing: the smallest network there is.
pub struct Pair {
    /// The client.
    pub client: Client,
    /// The server.
    pub server: Server,
    /// The time.
    pub now: Instant,
    /// The client's events, oldest first.
    pub client_events: Vec<Event>,
    /// The server's events, oldest first.
    pub server_events: Vec<Event>,
    transport: Transport,
    connections: u32,
    /// The server gets no datagram.
    pub cut: bool,
    /// Why the client's system refuses the settings of the tunnel.
    pub refusal: Option<&'static str>,
}

impl Pair {
    /// Two ends that have exchanged all that they had for each other.
    pub fn new(client: ClientParams, server: ServerParams) -> Self {
        Pair::starting(client, server, None, &SharedPool::default())
    }

    /// The client's system refuses the settings of the tunnel for that reason.
    pub fn refusing(client: ClientParams, server: ServerParams, reason: &'static str) -> Self {
        Pair::starting(client, server, Some(reason), &SharedPool::default())
    }

    /// The server shares that pool with others.
    pub fn with_pool(client: ClientParams, server: ServerParams, pool: &SharedPool) -> Self {
        Pair::starting(client, server, None, pool)
    }

    fn starting(
        client: ClientParams,
        server: ServerParams,
        refusal: Option<&'static str>,
        pool: &SharedPool,
    ) -> Self {
        let transport = client.remotes[0].transport;
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let mut pair = Pair {
            client: Client::new(client, now, [1; 32]),
            server: Server::with_pool(server, pool, now, [2; 32]),
            now,
            client_events: Vec::new(),
            server_events: Vec::new(),
            transport,
            connections: 0,
            cut: false,
            refusal,
        };
        pair.exchange();
        pair
    }

    /// The server's name for the client's path.
    pub fn client_path(&self) -> Path {
        let port = 40_000 + u16::try_from(self.connections).unwrap();
        self.path(([192, 0, 2, 2], port).into())
    }

    /// The client's name for the server's path.
    pub fn server_path(&self) -> Path {
        self.path(([192, 0, 2, 1], 1194).into())
    }

    fn path(&self, remote: SocketAddr) -> Path {
        match self.transport {
            Transport::Udp | Transport::Ip(_) => Path::Udp { socket: self.connections, remote },
            Transport::Tcp => Path::Tcp { connection: ConnectionId(self.connections), remote },
        }
    }

    /// Delivers everything until both are silent.
    pub fn exchange(&mut self) {
        loop {
            let to_server = self.drain_client();
            let to_client = self.drain_server();
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            if self.cut {
                continue;
            }
            for datagram in to_server {
                let _ = self.server.handle_datagram(self.now, self.client_path(), &datagram);
            }
            for datagram in to_client {
                let _ = self.client.handle_datagram(self.now, self.server_path(), &datagram);
            }
        }
    }

    fn drain_client(&mut self) -> VecDeque<Vec<u8>> {
        let mut end = ClientEnd { pair: self, datagrams: VecDeque::new() };
        let Ok(()) = drive(&mut end, &mut Vec::new());
        end.datagrams
    }

    fn drain_server(&mut self) -> VecDeque<Vec<u8>> {
        let mut end = ServerEnd { pair: self, datagrams: VecDeque::new() };
        let Ok(()) = drive(&mut end, &mut Vec::new());
        end.datagrams
    }

    /// Lets time pass, waking both ends when they ask for it.
    pub fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakeups = 0;
        loop {
            wakeups += 1;
            assert!(
                wakeups < 10_000,
                "woken again and again: {:?} {:?}",
                self.client.poll_timeout(),
                self.server.poll_timeout()
            );
            let next = [self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min();
            match next {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.exchange();
        }
        self.now = end;
    }

    /// Lets time pass while packets flow both ways.
    pub fn advance_busy(&mut self, time: Duration) {
        self.advance_with_traffic(time, false);
    }

    /// Lets time pass while only pings flow both ways.
    pub fn advance_pinging(&mut self, time: Duration) {
        self.advance_with_traffic(time, true);
    }

    fn advance_with_traffic(&mut self, time: Duration, messages: bool) {
        for second in 0..time.as_secs() {
            self.advance(Duration::from_secs(1));
            let count = second + 1;
            let last = Activity { last_data: Some(self.now), ..Activity::default() };
            let traffic = |peer| Notice::Traffic {
                peer,
                received: count,
                sent: count,
                received_bytes: count,
                sent_bytes: count,
                message_bytes: if messages { 2 * count } else { 0 },
                activity: PeerActivity { received: last, sent: last },
            };
            self.client.handle_notice(self.now, traffic(PeerId::SERVER));
            self.server.handle_notice(self.now, traffic(PeerId(0)));
            self.exchange();
        }
    }

    /// Each end has its peer.
    pub fn is_up(&self) -> bool {
        self.client.peers().len() == 1 && self.server.peers().len() == 1
    }

    /// The cipher of the client's data.
    pub fn cipher(&self) -> Option<Cipher> {
        self.client.peers().first().map(|(_, info)| info.cipher)
    }
}
