//! Where the management socket listens, and who may come in.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use adit_guard::Account;
use adit_openvpn_config::{Management, ManagementAddress};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown, socket_with,
};
use rustix::process::getuid;

use super::outgoing::{self, Connection, Outgoing};

/// A directive at fault, and why.
type Fault = (&'static str, String);

/// How many connections may wait to be accepted; one client is served at a time.
const BACKLOG: i32 = 16;

/// A connection that does not block.
pub(super) trait Stream: Read + Write + AsFd + Send {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// The listening socket. It goes, with its file, when this does.
pub(super) struct ManagementListener {
    listener: Listener,
    /// The only user that may come in by a Unix socket.
    user: Option<u32>,
    group: Option<u32>,
}

pub(super) enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
    /// We have connected to a program (`management-client`).
    Outgoing(Outgoing),
}

impl ManagementListener {
    /// Begins to listen.
    pub(super) fn open(settings: &Management) -> Result<Self, Fault> {
        let fault = |why: String| ("management", format!("management: {why}"));
        let [user, group] = accounts(settings)?;
        let listener = match &settings.address {
            address if settings.as_client => outgoing::connect_to(address),
            ManagementAddress::Tcp(host, port) => listen_at_port(host, *port),
            ManagementAddress::Unix(path) => listen_at_path(path, mode(settings, path)),
        };
        Ok(ManagementListener {
            listener: listener.map_err(fault)?,
            user: user.and_then(|account| account.user_id()),
            group: group.and_then(|account| account.group_id()),
        })
    }

    /// The warning about the users that can come in, for the administrator.
    pub(super) fn warning(&self, settings: &Management) -> Option<String> {
        if settings.password.is_some() {
            return None;
        }
        match &self.listener {
            Listener::Tcp(_, address) if !address.ip().is_loopback() => Some(format!(
                "any program that can reach {address} can command this tunnel, without a password: name a file with one \
                 behind the port, or write 127.0.0.1"
            )),
            Listener::Tcp(_, address) => Some(format!(
                "every user of this machine can command this tunnel at {address}, without a password: name a file with one \
                 behind the port, or listen at a Unix socket (`management PATH unix`)"
            )),
            _ => None,
        }
    }

    /// The next client; an error says why it was turned away.
    pub(super) fn accept(&self) -> io::Result<Result<Box<dyn Stream>, String>> {
        match &self.listener {
            Listener::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Ok(Box::new(stream) as Box<dyn Stream>))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(self.may_enter(&stream).map(|()| Box::new(stream) as Box<dyn Stream>))
            }
            Listener::Outgoing(outgoing) => match outgoing.take()? {
                Connection::Tcp(stream) => Ok(Ok(Box::new(stream))),
                Connection::Unix(stream) => {
                    Ok(self.may_enter(&stream).map(|()| Box::new(stream) as Box<dyn Stream>))
                }
            },
        }
    }

    /// Whether there is one connection alone, which we made (`management-client`).
    pub(super) fn is_outgoing(&self) -> bool {
        matches!(self.listener, Listener::Outgoing(_))
    }

    /// As OpenVPN, the user and the group with which the client made the connection count.
    fn may_enter(&self, stream: &UnixStream) -> Result<(), String> {
        if self.user.is_none() && self.group.is_none() {
            return Ok(());
        }
        let is = socket_peercred(stream).map_err(|error| format!("who it is cannot be told: {error}"))?;
        let (user, group) = (is.uid.as_raw(), is.gid.as_raw());
        if self.user.is_some_and(|wanted| wanted != user) {
            return Err(format!("user {user} is not that of management-client-user"));
        }
        if self.group.is_some_and(|wanted| wanted != group) {
            return Err(format!("group {group} is not that of management-client-group"));
        }
        Ok(())
    }
}

impl AsFd for ManagementListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Outgoing(outgoing) => outgoing.as_fd(),
        }
    }
}

impl fmt::Display for ManagementListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener {
            Listener::Tcp(_, address) => write!(f, "TCP {address}"),
            Listener::Unix(_, path) if self.user.is_none() && self.group.is_none() && is_open(path) => {
                write!(f, "{} (for user {} alone)", path.display(), getuid().as_raw())
            }
            Listener::Unix(_, path) => write!(f, "{}", path.display()),
            Listener::Outgoing(outgoing) => write!(f, "{outgoing}"),
        }
    }
}

impl Drop for ManagementListener {
    fn drop(&mut self) {
        // A script that another thread starts has a copy of the socket until its `exec`: closing alone leaves it listening.
        match &self.listener {
            Listener::Tcp(listener, _) => {
                let _ = shutdown(listener, Shutdown::Both);
            }
            Listener::Unix(listener, path) => {
                let _ = shutdown(listener, Shutdown::Both);
                let _ = fs::remove_file(path);
            }
            Listener::Outgoing(_) => {}
        }
    }
}

/// Whether the accounts that may connect exist, and a socket can be made at its path.
///
/// # Errors
/// The directive at fault, and why: an account that does not exist, or a path at which no socket can be made.
pub(super) fn judge(settings: &Management) -> Result<(), Fault> {
    accounts(settings)?;
    match &settings.address {
        ManagementAddress::Unix(path) if !settings.as_client => {
            has_place(path).map_err(|why| ("management", format!("management: {why}")))
        }
        ManagementAddress::Unix(_) | ManagementAddress::Tcp(..) => Ok(()),
    }
}

/// The user and the group that alone may connect to a Unix socket.
fn accounts(settings: &Management) -> Result<[Option<Account>; 2], Fault> {
    let find = |directive, user: Option<&str>, group: Option<&str>| {
        Account::find(user, group).map_err(|error| (directive, format!("{directive}: {error}")))
    };
    let user = find("management-client-user", settings.client_user.as_deref(), None)?;
    Ok([user, find("management-client-group", None, settings.client_group.as_deref())?])
}

/// Whether a socket can be made at a path: the path is free or a socket's, and its directory is there.
fn has_place(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            let shown = path.display();
            Err(format!("{shown} is there and no socket; remove it, or write another path"))
        }
        Ok(_) => Ok(()),
        Err(_) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let found = fs::metadata(parent.unwrap_or(Path::new(".")));
            found.map(drop).map_err(|error| cannot_listen(path, &error))
        }
    }
}

fn cannot_listen(path: &Path, error: &io::Error) -> String {
    format!("cannot listen at {}: {error}; check that its directory is there", path.display())
}

fn listen_at_port(host: &str, port: u16) -> Result<Listener, String> {
    let unknown = |error: io::Error| format!("`{host}` is no address of this machine: {error}");
    let mut addresses = (host, port).to_socket_addrs().map_err(unknown)?;
    let address = addresses.next().ok_or_else(|| format!("`{host}` has no address"))?;
    let failed = |error: io::Error| {
        let way_out = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "another program listens there (`ss -lntp 'sport = {port}'` names it); stop it, or write another port"
            ),
            io::ErrorKind::AddrNotAvailable => "it is no address of this machine; write 127.0.0.1".to_owned(),
            io::ErrorKind::PermissionDenied => "ports below 1024 need root; write a port above".to_owned(),
            _ => "check address and port".to_owned(),
        };
        format!("cannot listen on TCP {address}: {error}: {way_out}")
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listener::Tcp(listener, address))
}

/// The mode of a Unix socket, by the users that may connect. OpenVPN lets every user (0777), checks user and group of
/// the other end where `management-client-user` or `management-client-group` names them, and else leaves it to the
/// socket's directory. So does this; but where the directory keeps no user out either, only the user that runs adit may
/// connect.
fn mode(settings: &Management, path: &Path) -> u32 {
    let checks_client = settings.client_user.is_some() || settings.client_group.is_some();
    if checks_client || !is_open(path) { 0o777 } else { 0o600 }
}

/// Whether users of no group in particular can get to a file.
fn is_open(path: &Path) -> bool {
    path.ancestors().skip(1).all(|directory| {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        fs::metadata(directory).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    })
}

/// The socket of a program that was killed makes room; that of one that runs does not.
fn listen_at_path(path: &Path, mode: u32) -> Result<Listener, String> {
    let shown = path.display();
    has_place(path)?;
    match fs::symlink_metadata(path) {
        Ok(_) if is_served(path) => {
            return Err(format!("another program listens at {shown}; stop it, or write another path"));
        }
        Ok(_) => fs::remove_file(path).map_err(|error| format!("{shown} cannot be removed: {error}"))?,
        Err(_) => {}
    }
    let failed = |error: io::Error| cannot_listen(path, &error);
    let socket = adit_guard::listen_at(path, mode, BACKLOG).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(Listener::Unix(socket, path.to_owned()))
}

/// Whether a process listens at a socket, without waiting for it.
fn is_served(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (Ok(socket), Ok(address)) = (socket, SocketAddrUnix::new(path)) else { return true };
    // A full queue means that a process listens.
    !matches!(connect(&socket, &address), Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use adit_testbed::stop_listening;

    use super::super::testing;
    use super::*;

    fn settings(address: ManagementAddress) -> Management {
        Management { address, ..testing::settings("unused") }
    }

    fn why(settings: &Management) -> String {
        match ManagementListener::open(settings) {
            Ok(listener) => format!("open: {listener}"),
            Err((_, why)) => why,
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("its number").port();
        let why = why(&settings(ManagementAddress::Tcp("127.0.0.1".to_owned(), port)));
        assert!(why.contains(&format!("cannot listen on TCP 127.0.0.1:{port}")), "{why}");
        assert!(why.contains("another program"), "{why}");
    }

    #[test]
    fn a_path_is_taken_over_from_the_dead_alone() {
        let path = std::env::temp_dir().join(format!("adit-management-{}", std::process::id()));
        let settings = settings(ManagementAddress::Unix(path.clone()));
        let listener = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
        assert!(why(&settings).contains("another program listens at"), "{}", why(&settings));
        drop(listener);
        assert!(!path.exists());
        // As one leaves it that was killed.
        stop_listening(UnixListener::bind(&path).expect("a socket"));
        let listener = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
        drop(listener);
        fs::write(&path, "precious").expect("a file");
        assert!(why(&settings).contains("no socket"));
        fs::remove_file(&path).expect("the file");
    }

    #[test]
    fn a_socket_is_its_owners_unless_a_client_is_named() {
        let path = std::env::temp_dir().join(format!("adit-management-mode-{}", std::process::id()));
        let plain = || settings(ManagementAddress::Unix(path.clone()));
        let user = Some("root".to_owned());
        for (settings, expected) in [
            (plain(), 0o600),
            (Management { client_user: user.clone(), ..plain() }, 0o777),
            (Management { client_group: user, ..plain() }, 0o777),
        ] {
            let _door = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
            let metadata = fs::metadata(&path).expect("the socket");
            assert_eq!(metadata.permissions().mode() & 0o777, expected);
            assert_eq!(metadata.uid(), getuid().as_raw());
        }
        // A directory that keeps others out says who may connect, as with OpenVPN.
        let closed = std::env::temp_dir().join(format!("adit-management-closed-{}", std::process::id()));
        fs::create_dir(&closed).expect("a directory");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o750)).expect("its mode");
        let inside = closed.join("socket");
        let listener = ManagementListener::open(&settings(ManagementAddress::Unix(inside.clone())));
        let mode = fs::metadata(&inside).expect("the socket").permissions().mode();
        drop(listener);
        fs::remove_dir(&closed).expect("the directory");
        assert_eq!(mode & 0o777, 0o777);
    }

    #[test]
    fn only_the_user_named_comes_in() {
        let path = std::env::temp_dir().join(format!("adit-management-user-{}", std::process::id()));
        let open = |user, group| {
            let listener = ManagementListener::open(&settings(ManagementAddress::Unix(path.clone())));
            let mut listener = listener.unwrap_or_else(|(_, why)| panic!("{why}"));
            (listener.user, listener.group) = (user, group);
            listener
        };
        let user = getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        for (wanted, enters) in [
            ((None, None), true),
            ((Some(user), Some(group)), true),
            ((Some(user + 1), None), false),
            ((Some(user), Some(group + 1)), false),
        ] {
            let listener = open(wanted.0, wanted.1);
            let _client = UnixStream::connect(&path).expect("a connection");
            let accepted = listener.accept().expect("a client");
            assert_eq!(accepted.is_ok(), enters, "{wanted:?}");
        }
        let unknown = Management {
            client_user: Some("no such user".to_owned()),
            ..settings(ManagementAddress::Unix(path.clone()))
        };
        assert!(why(&unknown).starts_with("management-client-user: there is no user"), "{}", why(&unknown));
    }

    #[test]
    fn a_door_to_the_world_is_warned_of() {
        let at = |host: &str| settings(ManagementAddress::Tcp(host.to_owned(), 0));
        let warning = |settings: &Management| {
            ManagementListener::open(settings).unwrap_or_else(|(_, why)| panic!("{why}")).warning(settings)
        };
        assert!(warning(&at("127.0.0.1")).is_some_and(|text| text.contains("every user of this machine")));
        assert!(warning(&at("0.0.0.0")).is_some_and(|text| text.contains("without a password")));
        let protected = Management { password: Some("password".into()), ..at("0.0.0.0") };
        assert_eq!(warning(&protected), None);
    }
}
