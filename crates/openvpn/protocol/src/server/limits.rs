//! How much of a server's memory, log and scripts peers may take before they have authenticated. How a table makes
//! room is said in [`adit_core::prefix_table`]; `docs/use/LIMITS.md` lists the limits of the whole program.

use std::time::Duration;

use adit_core::PrefixShares;

/// Clients in the middle of their first handshake. Each holds a TLS connection (up to 100 KiB) for `hand-window` at
/// most. A hundred clients behind one address that come back at once after an outage have room.
pub(super) const HANDSHAKES: PrefixShares = PrefixShares::new(128, 1024);

/// Clients among these without a proof of their address: tls-crypt-v2 clients before OpenVPN 2.6. As their sources may
/// be forged, a further one is refused before its wrapping is opened, which costs less than to replace another.
pub(super) const UNPROVEN: PrefixShares = PrefixShares::new(16, 64);

/// TCP connections without a valid packet. Each holds a descriptor.
pub(super) const SILENT_CONNECTIONS: PrefixShares = PrefixShares::new(64, 1024);

/// How long a TCP connection may take until its first valid packet. A client sends it at once; this leaves time for two
/// retransmissions of TCP (RFC 6298: 1 s, then 2 s) on a slow link.
pub(super) const FIRST_PACKET_TIME: Duration = Duration::from_secs(10);

/// Clients whose tls-crypt-v2 keys are being judged by a script. Each holds its first packets.
pub(super) const JUDGED_KEYS: PrefixShares = PrefixShares::new(64, 512);

/// The packets that are kept of each of these. A ClientHello takes one or two.
pub(super) const PACKETS_OF_A_JUDGED_CLIENT: usize = 4;

/// Clients among these with one key: clients that share a key come back at once, too.
pub(super) const JUDGED_OF_ONE_KEY: usize = 64;

/// tls-crypt-v2 keys that a script refused not long ago. One that makes room is judged again.
pub(super) const REFUSED_KEYS: PrefixShares = PrefixShares::new(64, 1024);

/// How long a tls-crypt-v2 key is refused whose script could not be run or did not end.
pub(super) const KEY_RETRY_TIME: Duration = Duration::from_secs(5);

/// Lines of the log about peers that have not authenticated, in [`LOG_PERIOD`]: at most 90,000 a day.
pub(super) const LOG_LINES: PrefixShares = PrefixShares::new(8, 64);

/// See [`LOG_LINES`].
pub(super) const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Clients that wait for a person to do something (single sign-on, a second factor): as many as may be connected; of
/// one address half of them, or 256 if that is more, as all clients of a campus may share one and come at the same hour.
pub(super) const fn put_off(max_clients: usize) -> PrefixShares {
    const CAMPUS: usize = 256;
    let half = max_clients / 2;
    PrefixShares::new(if half > CAMPUS { half } else { CAMPUS }, max_clients)
}
