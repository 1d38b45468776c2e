//! `status`: the state in a file, in the form that OpenVPN 2.6 gives it and scripts read.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use adit_core::{Instant, IpNet, PeerId, Protocol, Severity, UnixTime};
use adit_dataplane::{PeerSnapshot, Snapshot};
use adit_io::{Handle, IoStatus, local_time, unix_at_origin, unix_now};
use adit_openvpn::request::PeerInfo;
use adit_openvpn_config::StatusFile;

use crate::VERSION;
use crate::status_source::StatusSource;
use adit_host::log::Logger;

#[cfg(test)]
mod consumers;

/// How long the driver may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The state that is shown.
pub(crate) struct State {
    wall: UnixTime,
    /// The time of day at the origin of the tunnel's clock, since 1970.
    at_origin: Duration,
    /// The connected peers.
    pub(crate) peers: Vec<(PeerId, PeerInfo)>,
    traffic: Vec<PeerSnapshot>,
    /// Bytes sent to the network.
    pub(crate) sent: u64,
    /// Bytes received from it.
    pub(crate) received: u64,
    /// Bytes read from the TUN device, and written to it.
    tun: (u64, u64),
}

/// Prints the state of one kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Totals: clients, and both ends of a point-to-point tunnel.
    Statistics,
    /// Each client of a server, in that `status-version`.
    Clients(u8),
}

/// The open file, before the process gives up the right to open it.
pub(crate) struct Output {
    file: File,
    every: Duration,
    form: Form,
}

impl Output {
    /// Opens the file. As with OpenVPN, what was in it goes.
    pub(crate) fn open(file: &StatusFile, form: Form) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        Ok(Output { file: options.open(&file.path)?, every: file.every, form })
    }

    /// Writes it now and then until the tunnel ends.
    pub(crate) fn start<P: Protocol + StatusSource>(
        mut self,
        handle: Handle<P>,
        mut log: Logger,
    ) -> io::Result<()> {
        if self.every.is_zero() {
            return Ok(());
        }
        thread::Builder::new().name("adit-statusfile".to_owned()).spawn(move || {
            let mut complained = false;
            while let Some(state) = look(&handle) {
                let written = self.write(&print(self.form, &state));
                if let Some(error) = written.err().filter(|_| !complained) {
                    log.log(Severity::Warning, format_args!("the status file cannot be written: {error}"));
                    complained = true;
                }
                thread::sleep(self.every);
            }
        })?;
        Ok(())
    }

    /// In place, as OpenVPN does: the file may lie where only root can make another.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }
}

/// Writes the state to the log, a line each (SIGUSR2).
pub(crate) fn tell<P: Protocol + StatusSource>(form: Form, handle: &Handle<P>, log: &mut Logger) {
    if let Some(state) = look(handle) {
        print(form, &state).lines().for_each(|line| log.log(Severity::Info, line));
    }
}

/// The state in this form, or `None` when the driver has ended.
pub(crate) fn text<P: Protocol + StatusSource>(form: Form, handle: &Handle<P>) -> Option<String> {
    look(handle).map(|state| print(form, &state))
}

/// `None` when the driver has ended.
pub(crate) fn look<P: Protocol + StatusSource>(handle: &Handle<P>) -> Option<State> {
    let (sender, receiver) = mpsc::channel();
    handle.inspect(Box::new(move |protocol, snapshot: &Snapshot, io_status: &IoStatus| {
        // The thread that asked may have given up.
        let _ = sender.send(State {
            wall: unix_now(),
            at_origin: unix_at_origin(),
            peers: protocol.peers(),
            traffic: snapshot.peers.clone(),
            sent: snapshot.egress.bytes,
            received: snapshot.ingress.bytes,
            tun: (io_status.tun_read_bytes, io_status.tun_written_bytes),
        });
    }));
    receiver.recv_timeout(TIMEOUT).ok()
}

fn print(form: Form, state: &State) -> String {
    match form {
        Form::Statistics => statistics(state),
        Form::Clients(1) => clients_in_words(state),
        Form::Clients(2) => clients_in_columns(state, ','),
        Form::Clients(_) => clients_in_columns(state, '\t'),
    }
}

/// OpenVPN sig.c `print_status`.
fn statistics(state: &State) -> String {
    let (read, written) = state.tun;
    format!(
        "OpenVPN STATISTICS\nUpdated,{}\nTUN/TAP read bytes,{read}\nTUN/TAP write bytes,{written}\n\
         TCP/UDP read bytes,{received}\nTCP/UDP write bytes,{}\nAuth read bytes,{received}\nEND\n",
        local_time(state.wall),
        state.sent,
        received = state.received,
    )
}

/// OpenVPN multi.c `multi_print_status`, version 1.
fn clients_in_words(state: &State) -> String {
    let mut text = format!(
        "OpenVPN CLIENT LIST\nUpdated,{}\nCommon Name,Real Address,Bytes Received,Bytes Sent,Connected Since\n",
        local_time(state.wall)
    );
    for (id, info) in &state.peers {
        let (received, sent) = state.bytes(*id);
        let (name, real, since) = (safe(&info.name, ','), real(info), local_time(state.at(info.since)));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name},{real},{received},{sent},{since}");
    }
    text.push_str("ROUTING TABLE\nVirtual Address,Common Name,Real Address,Last Ref\n");
    for (address, info) in state.routes() {
        let (name, real, heard) = (safe(&info.name, ','), real(info), local_time(state.at(info.heard)));
        let _ = writeln!(text, "{address},{name},{real},{heard}");
    }
    text.push_str("GLOBAL STATS\nMax bcast/mcast queue length,0\nEND\n");
    text
}

/// The clients in versions 2 and 3, which differ in the character between the columns.
fn clients_in_columns(state: &State, by: char) -> String {
    let mut text = String::new();
    let mut line = |columns: &[&str]| {
        let safe: Vec<String> = columns.iter().map(|column| safe(column, by)).collect();
        let _ = writeln!(text, "{}", safe.join(&by.to_string()));
    };
    line(&["TITLE", VERSION]);
    line(&["TIME", &local_time(state.wall), &state.wall.0.to_string()]);
    line(&[
        "HEADER",
        "CLIENT_LIST",
        "Common Name",
        "Real Address",
        "Virtual Address",
        "Virtual IPv6 Address",
        "Bytes Received",
        "Bytes Sent",
        "Connected Since",
        "Connected Since (time_t)",
        "Username",
        "Client ID",
        "Peer ID",
        "Data Channel Cipher",
    ]);
    for (id, info) in &state.peers {
        let (received, sent) = state.bytes(*id);
        let since = state.at(info.since);
        let inner = |v4: bool| info.addresses.iter().find(|ip| ip.is_ipv4() == v4).map(IpAddr::to_string);
        line(&[
            "CLIENT_LIST",
            &info.name,
            &real(info),
            &inner(true).unwrap_or_default(),
            &inner(false).unwrap_or_default(),
            &received.to_string(),
            &sent.to_string(),
            &local_time(since),
            &since.0.to_string(),
            if info.detail.username.is_empty() { "UNDEF" } else { &info.detail.username },
            &info.detail.number.to_string(),
            &id.0.to_string(),
            info.cipher.name(),
        ]);
    }
    line(&[
        "HEADER",
        "ROUTING_TABLE",
        "Virtual Address",
        "Common Name",
        "Real Address",
        "Last Ref",
        "Last Ref (time_t)",
    ]);
    for (address, info) in state.routes() {
        let heard = state.at(info.heard);
        line(&["ROUTING_TABLE", &address, &info.name, &real(info), &local_time(heard), &heard.0.to_string()]);
    }
    line(&["GLOBAL_STATS", "Max bcast/mcast queue length", "0"]);
    line(&["GLOBAL_STATS", "dco_enabled", "0"]);
    line(&["END"]);
    text
}

impl State {
    /// The time of day at a moment, which is the same whenever it is asked for.
    fn at(&self, moment: Instant) -> UnixTime {
        UnixTime((self.at_origin + Duration::from_nanos(moment.as_nanos())).as_secs())
    }

    /// Bytes received from a peer, and sent to it.
    pub(crate) fn bytes(&self, id: PeerId) -> (u64, u64) {
        let traffic = self.traffic.iter().find(|traffic| traffic.peer == id);
        traffic.map_or((0, 0), |traffic| (traffic.bytes_received, traffic.bytes_sent))
    }

    /// The addresses and networks that are routed to clients, each with its client. As in OpenVPN, a client's own addresses
    /// stand without a length, and networks behind it with theirs, single addresses too (multi.c `multi_learn_in_addr_t`).
    fn routes(&self) -> impl Iterator<Item = (String, &PeerInfo)> {
        self.peers.iter().flat_map(|(_, info)| {
            let networks = info.routes.iter().map(IpNet::to_string);
            info.addresses.iter().map(IpAddr::to_string).chain(networks).map(move |address| (address, info))
        })
    }
}

/// As OpenVPN 2.6 writes it (mroute.c): an IPv6 address without its port.
fn real(info: &PeerInfo) -> String {
    let remote = info.path.remote();
    match remote.ip().to_canonical() {
        IpAddr::V4(address) => SocketAddr::from((address, remote.port())).to_string(),
        IpAddr::V6(address) => Ipv6Addr::to_string(&address),
    }
}

/// A name cannot make columns or lines of its own.
fn safe(name: &str, by: char) -> String {
    name.chars().map(|c| if c == by || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_core::{Cipher, Path};
    use adit_openvpn::request::PeerDetail;

    pub(crate) fn state() -> State {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let info = PeerInfo {
            name: "anna, the first\n".to_owned(),
            path: Path::Udp { socket: 0, remote: "[::ffff:192.0.2.7]:40000".parse().expect("an address") },
            addresses: vec!["10.8.0.2".parse().expect("an address")],
            cipher: Cipher::Aes256Gcm,
            rekeys: 0,
            last_handshake: at(10),
            since: at(10),
            heard: at(90),
            routes: vec![
                "10.66.0.0/16".parse().expect("a network"),
                "10.77.0.1/32".parse().expect("a network"),
                "fd00:77::1/128".parse().expect("a network"),
            ],
            detail: PeerDetail { number: 4, ..PeerDetail::default() },
        };
        let id = PeerId(3);
        State {
            wall: UnixTime(1_767_225_600),
            at_origin: Duration::from_secs(1_767_225_500),
            peers: vec![(id, info)],
            traffic: vec![PeerSnapshot {
                peer: id,
                packets_received: 1,
                bytes_received: 1000,
                packets_sent: 2,
                bytes_sent: 2000,
            }],
            sent: 7,
            received: 8,
            tun: (5, 6),
        }
    }

    #[test]
    fn names_make_no_columns_and_no_lines() {
        let text = print(Form::Clients(1), &state());
        assert!(text.contains("\nanna_ the first_,192.0.2.7:40000,1000,2000,20"), "{text}");
        for address in ["10.8.0.2", "10.66.0.0/16", "10.77.0.1/32", "fd00:77::1/128"] {
            assert!(text.contains(&format!("\n{address},anna_ the first_,192.0.2.7:40000,20")), "{text}");
        }
        assert!(text.ends_with("\nEND\n"));
    }

    #[test]
    fn the_third_version_has_tabs() {
        let text = print(Form::Clients(3), &state());
        let line = text.lines().find(|line| line.starts_with("CLIENT_LIST")).expect("a client");
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), 13);
        assert_eq!(columns[1..7], ["anna, the first_", "192.0.2.7:40000", "10.8.0.2", "", "1000", "2000"]);
        assert_eq!(columns[8..], ["1767225510", "UNDEF", "4", "3", "AES-256-GCM"]);
        let routed = text.lines().find(|line| line.starts_with("ROUTING_TABLE\t")).expect("a route");
        assert!(routed.ends_with("\t1767225590"), "{routed}");
    }
}
