//! Orders to a tunnel that runs in another process.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use adit_ike_vici::{Message, Packet, Reader};

use super::commands::BLOCK;
use super::own_path;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How much is read at once.
const BUFFER: usize = 4 << 10;

/// Has the tunnel of that file keep out the peers of these names, and no others. Gives whether it runs.
///
/// # Errors
/// It runs, and did not do it: why.
pub(crate) fn tell_blocked(file: &Path, names: &BTreeSet<String>) -> io::Result<bool> {
    let mut stream = match UnixStream::connect(own_path(file)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(false);
        }
        stream => stream?,
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let message = Message::new().with_list("names", names);
    let request = Packet::Request { name: BLOCK.to_owned(), message };
    stream.write_all(&request.encode().map_err(io::Error::other)?)?;
    let (mut reader, mut buffer) = (Reader::default(), [0; BUFFER]);
    loop {
        if let Some(packet) = reader.next_packet().map_err(io::Error::other)? {
            let is_done =
                matches!(packet, Packet::Response(message) if message.text("success") == Some("yes"));
            return if is_done { Ok(true) } else { Err(io::Error::other("it refused the order")) };
        }
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        reader.push(buffer.get(..len).unwrap_or_default());
    }
}
