//! Orders to a running interface, by the socket that `wg` uses
//! (<https://www.wireguard.com/xplatform/#configuration-protocol>).

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use adit_core::IpNet;
use adit_pki::inspect::hex;
use adit_wireguard::{PresharedKey, PublicKey};
use zeroize::Zeroizing;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read at most: it is `errno=N` and an empty line.
const ANSWER: u64 = 256;
/// Room for an order, so that its text never moves and leaves a copy of a key behind.
const ROOM: usize = 4 << 10;

/// The result of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The interface did it.
    Done,
    /// No process listens at the socket.
    NotRunning,
}

/// The order that removes these peers. A key that the interface does not know changes nothing.
pub(crate) fn removal(keys: &[PublicKey]) -> Zeroizing<String> {
    let mut order = Zeroizing::new(String::with_capacity(ROOM));
    order.push_str("set=1\n");
    for key in keys {
        // Writing to a string cannot fail.
        let _ = writeln!(order, "public_key={}\nremove=true", hex(&key.0));
    }
    order.push('\n');
    order
}

/// The order that lets a peer in.
pub(crate) fn addition(
    key: PublicKey,
    preshared_key: &PresharedKey,
    addresses: &[IpAddr],
) -> Zeroizing<String> {
    let mut order = Zeroizing::new(String::with_capacity(ROOM));
    let secret = Zeroizing::new(hex(preshared_key.as_bytes()));
    let _ = writeln!(order, "set=1\npublic_key={}\npreshared_key={}", hex(&key.0), *secret);
    order.push_str("replace_allowed_ips=true\n");
    for address in addresses {
        let _ = writeln!(order, "allowed_ip={}", IpNet::from(*address));
    }
    order.push('\n');
    order
}

/// The order for what the server's file says of a peer by settings that adit alone knows: its name, and that post-quantum keys are
/// agreed on with it.
pub(crate) fn own_settings(key: PublicKey, name: &str) -> String {
    let key = hex(&key.0);
    format!("set=1\npublic_key={key}\nupdate_only=true\nadit_name={name}\nadit_post_quantum=on\n\n")
}

/// Blocks a peer of the interface whose socket is at `path`, or lets it connect again.
///
/// # Errors
/// It runs, and did not do it: why.
pub(crate) fn tell_blocked(path: &Path, key: PublicKey, blocked: bool) -> io::Result<Told> {
    tell(path, &format!("set=1\npublic_key={}\nupdate_only=true\nadit_blocked={blocked}\n\n", hex(&key.0)))
}

/// Has the interface whose socket is at `path` carry out an order.
///
/// # Errors
/// It runs, and did not do it: why.
pub(crate) fn tell(path: &Path, order: &str) -> io::Result<Told> {
    let mut stream = match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(Told::NotRunning);
        }
        stream => stream?,
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(order.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(ANSWER).read_to_string(&mut answer)?;
    match answer.lines().find_map(|line| line.strip_prefix("errno=")) {
        Some("0") => Ok(Told::Done),
        Some(number) => {
            let number = number.parse::<i32>().unwrap_or_default();
            Err(io::Error::from_raw_os_error(number.saturating_abs()))
        }
        None => Err(io::Error::other("it gave no answer")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use adit_testbed::{Scratch, stop_listening};
    use adit_wireguard::PostQuantum;
    use adit_wireguard::uapi::{Operation, parse};

    use super::*;

    /// The result of `tell` when an interface answers so, and the order that the interface read.
    fn told(order: &str, answer: &'static str) -> (io::Result<Told>, String) {
        let scratch = Scratch::create("running").unwrap();
        let path = scratch.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let interface = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            stream.read_to_string(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            asked
        });
        let told = tell(&path, order);
        (told, interface.join().unwrap())
    }

    #[test]
    fn an_interface_is_told() {
        let order = removal(&[PublicKey([1; 32]), PublicKey([2; 32])]);
        let (outcome, asked) = told(&order, "errno=0\n\n");
        assert_eq!((outcome.unwrap(), asked.as_str()), (Told::Done, order.as_str()));
        let (outcome, _) = told(&order, "errno=-13\n\n");
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(told(&order, "").0.is_err());
    }

    #[test]
    fn nobody_need_listen() {
        let scratch = Scratch::create("running").unwrap();
        let path = scratch.path().join("socket");
        assert_eq!(tell(&path, "").unwrap(), Told::NotRunning);
        stop_listening(UnixListener::bind(&path).unwrap());
        assert_eq!(tell(&path, "").unwrap(), Told::NotRunning);
    }

    #[test]
    fn orders_are_understood() {
        let addresses = ["10.8.0.128", "fd00::107e"].map(|address| address.parse().unwrap());
        let secret = PresharedKey::new([3; 32]);
        // No endpoint is set.
        let read = |order: &str| parse(order.as_bytes(), &|_| None);
        let Ok(Operation::Set(changes)) = read(&addition(PublicKey([1; 32]), &secret, &addresses)) else {
            panic!("no order")
        };
        let [peer] = changes.peers.as_slice() else { panic!("{} peers", changes.peers.len()) };
        assert_eq!((peer.public_key, peer.preshared_key.as_ref()), (PublicKey([1; 32]), Some(&secret)));
        assert_eq!((peer.allowed_ips.len(), peer.replace_allowed_ips), (2, true));
        let Ok(Operation::Set(changes)) = read(&own_settings(PublicKey([1; 32]), "phone")) else {
            panic!("no order")
        };
        let on = |peer: &adit_wireguard::PeerChange| {
            peer.update_only
                && peer.post_quantum == Some(PostQuantum::On)
                && peer.name.as_deref() == Some("phone")
        };
        assert!(changes.peers.iter().all(on) && changes.peers.len() == 1);
        let Ok(Operation::Set(changes)) = read(&removal(&[PublicKey([1; 32]), PublicKey([2; 32])])) else {
            panic!("no order")
        };
        assert_eq!(changes.peers.iter().map(|peer| peer.remove).collect::<Vec<_>>(), [true, true]);
    }
}
