//! A time server for the tests (SNTP: RFC 4330, section 5).

use std::net::UdpSocket;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adit_testbed::Namespace;

/// Seconds from 1900, where NTP's time begins, to 1970.
const EPOCH: u64 = 2_208_988_800;

/// Answers one question to 10.9.0.1 by a time that is `ahead` of this system's. The thread ends with that, or after `limit`.
pub(super) fn answer_once(namespace: &Namespace, ahead: Duration, limit: Duration) -> JoinHandle<()> {
    let socket = namespace.enter(|| UdpSocket::bind("10.9.0.1:123")).unwrap().unwrap();
    socket.set_read_timeout(Some(limit)).unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 48];
        let Ok((48, from)) = socket.recv_from(&mut question) else { return };
        // Version 4, mode "client".
        assert_eq!(question[0], 0x23);
        let mut reply = [0; 48];
        // Mode "server", and a stratum at which a server knows the time.
        (reply[0], reply[1]) = (0x24, 2);
        // The question's time of sending comes back as the answer's "originate timestamp".
        reply[24..32].copy_from_slice(&question[40..]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + ahead;
        reply[40..44].copy_from_slice(&((now.as_secs() + EPOCH) as u32).to_be_bytes());
        let _ = socket.send_to(&reply, from);
    })
}
