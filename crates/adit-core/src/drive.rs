use crate::{EventOf, Path, Protocol};

/// What carries out a protocol's wishes: the driver, the simulator, a test.
pub trait Drive {
    /// The protocol that is driven.
    type Protocol: Protocol + ?Sized;
    /// Why the wishes cannot be carried out any further.
    type Error;

    /// The protocol.
    fn protocol(&mut self) -> &mut Self::Protocol;

    /// Carries out an event. It may give the protocol a command at once.
    ///
    /// # Errors
    /// Stops the draining.
    fn event(&mut self, event: EventOf<Self::Protocol>) -> Result<(), Self::Error>;

    /// Sends a control datagram.
    ///
    /// # Errors
    /// Stops the draining.
    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Self::Error>;
}

/// Drains a protocol's events, then its datagrams, as [`Protocol`] says: to be called after every `handle_*` call, until
/// it is false. `buf` holds a datagram at a time.
///
/// # Errors
/// That of [`Drive::event`] or [`Drive::transmit`].
pub fn drive_once<D: Drive>(driven: &mut D, buf: &mut Vec<u8>) -> Result<bool, D::Error> {
    let mut busy = false;
    while let Some(event) = driven.protocol().poll_event() {
        busy = true;
        driven.event(event)?;
    }
    loop {
        buf.clear();
        let Some(path) = driven.protocol().poll_transmit(buf) else { return Ok(busy) };
        busy = true;
        driven.transmit(path, buf)?;
    }
}

/// Drains a protocol until it has neither events nor datagrams. Then [`Protocol::poll_timeout`] is to be read.
///
/// # Errors
/// That of [`Drive::event`] or [`Drive::transmit`].
pub fn drive<D: Drive>(driven: &mut D, buf: &mut Vec<u8>) -> Result<(), D::Error> {
    while drive_once(driven, buf)? {}
    Ok(())
}
