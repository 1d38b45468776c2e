//! The check of refusals for a process that can make no sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Instant;

use socket2::Socket;

use crate::helper::DriverHelper;
use crate::helper_channels::SocketChannel;
use crate::refusal::{DELAY, Question};

/// Asks by sockets of the helper, for a process that can make none.
#[derive(Debug)]
pub struct RefusalCheck(Box<dyn SocketChannel>);

impl RefusalCheck {
    /// One for the tunnel of that helper, which binds and marks UDP sockets for it ([`crate::HelperNeeds::binds_udp`]).
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn new(helper: &dyn DriverHelper) -> io::Result<Self> {
        Ok(RefusalCheck(helper.sockets()?))
    }

    /// The addresses among these that do not refuse datagrams at once. Waits for 250 ms at most. Datagrams have that
    /// mark; 0: none.
    pub fn not_refusing(&self, addresses: &[SocketAddr], mark: u32) -> Vec<SocketAddr> {
        let asked: Vec<_> = addresses.iter().map(|address| (*address, self.ask(*address, mark))).collect();
        let until = Instant::now() + DELAY;
        let accepts = |question: &io::Result<Option<Question>>| match question {
            Ok(question) => question.as_ref().is_none_or(|question| question.refusal_until(until).is_none()),
            Err(_) => false,
        };
        asked.iter().filter(|(_, question)| accepts(question)).map(|(address, _)| *address).collect()
    }

    /// `None` where there is no socket to ask by. The error is a refusal.
    fn ask(&self, address: SocketAddr, mark: u32) -> io::Result<Option<Question>> {
        let Ok(socket) = self.0.bind(0, address.is_ipv6(), false) else { return Ok(None) };
        if mark != 0 && self.0.mark(socket.as_fd(), mark).is_err() {
            return Ok(None);
        }
        let socket = Socket::from(socket);
        if socket.set_nonblocking(false).is_err() {
            return Ok(None);
        }
        Question::by(socket, address).map(Some)
    }
}
