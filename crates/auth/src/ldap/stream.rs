//! The bytes to and from a directory.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::Trust;

/// A connection, with or without TLS.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to the first address that answers. Each connect, read and write may take `timeout`.
    pub(super) fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
        let mut failure = io::Error::other("its name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    pub(super) fn unix(path: &Path, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Stream::Unix(stream))
    }

    /// Starts TLS. The certificate must be valid, and have that name or address.
    pub(super) fn with_tls(mut stream: TcpStream, host: &str, trust: &Trust) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(trust.config(), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}
