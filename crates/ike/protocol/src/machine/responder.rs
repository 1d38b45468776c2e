//! First requests at a responder (RFC 7296 sections 1.2 and 2.6). It keeps no state of a request that it refuses or answers with
//! a cookie.

use adit_core::{Path, Rejected};

use super::endpoint::Endpoint;
use super::init::{FirstAnswer, FirstRequest};
use super::payloads::{Payloads, notify};
use super::peer::{EndKind, Ending};
use super::weak_offer;
use crate::wire::{Message, NotifyType, Spi};

impl Endpoint {
    /// A first request at a responder (RFC 7296 section 1.2).
    pub(super) fn handle_first_request(
        &mut self,
        path: Path,
        datagram: &[u8],
        message: &Message<'_>,
    ) -> Result<(), Rejected> {
        let header = &message.header;
        if header.message_id != 0 || header.initiator_spi == Spi::ZERO || !header.flags.is_initiator {
            return Err(Rejected::Malformed("the header of a first request"));
        }
        let key = (header.initiator_spi, path);
        if let Some(spi) = self.first_requests.get(&key).copied() {
            return self.repeat_first(spi, path, datagram);
        }
        let request = FirstRequest { path, datagram, message };
        let has_cookie = self.ask_for_cookie(&request)?;
        match self.run(None, |cx, _| request.answer(cx, has_cookie))? {
            FirstAnswer::AskForCookie => {
                self.send_cookie(&request)?;
                Err(Rejected::Limited("the answer is longer than the request, a cookie was asked for"))
            }
            FirstAnswer::Refuse(error) => {
                weak_offer::tell(
                    &mut self.shared,
                    path,
                    Payloads(&message.payloads).proposals().unwrap_or_default(),
                );
                self.run(None, |cx, _| request.refuse(cx, error));
                Err(Rejected::Unexpected("a first request that was refused"))
            }
            FirstAnswer::Accept(mut sa) => {
                sa.ends_at = Some(self.shared.now + self.limits.half_open_for);
                let spi = sa.own_spi;
                self.first_requests.insert(key, spi);
                let evicted = self.half_open.insert(path.remote().ip(), spi, (), key);
                if let Some((evicted, first)) = evicted {
                    self.first_requests.remove(&first);
                    let reason = "another took its place".to_owned();
                    self.remove(evicted, &Ending { kind: EndKind::Own, reason });
                }
                self.add(sa);
                Ok(())
            }
        }
    }

    /// Answers a first request that came before with the answer of then. A different request with its SPI and path is dropped.
    fn repeat_first(&mut self, spi: Spi, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.run(Some(spi), |cx, sa| match sa {
            Some(sa) if sa.is_first_request(datagram) => {
                sa.respond_again(cx, path);
                Ok(())
            }
            _ => Err(Rejected::Unexpected("another first request with the same SPI")),
        })
    }

    /// Asks the initiator for a cookie if there are many half-open IKE SAs and the request has no valid cookie. Gives whether it has
    /// one.
    fn ask_for_cookie(&mut self, request: &FirstRequest<'_>) -> Result<bool, Rejected> {
        let source = request.path.remote().ip();
        let is_loaded = self.half_open.len() >= self.limits.cookies_from
            || self.half_open.entries_from(source) >= self.limits.cookies_from_source;
        let payloads = Payloads(&request.message.payloads);
        let (now, spi) = (self.shared.now, request.message.header.initiator_spi);
        let cookie = payloads.notify(NotifyType::COOKIE).map(|notify| notify.data.as_slice());
        let is_valid = cookie
            .zip(payloads.nonce())
            .is_some_and(|(cookie, nonce)| self.cookies.verify(now, request.path, spi, nonce, cookie));
        if is_loaded && !is_valid {
            self.send_cookie(request)?;
            return Err(Rejected::Limited("half-open IKE SAs, a cookie was asked for"));
        }
        Ok(is_valid)
    }

    fn send_cookie(&mut self, request: &FirstRequest<'_>) -> Result<(), Rejected> {
        let nonce = Payloads(&request.message.payloads).nonce();
        let nonce = nonce.ok_or(Rejected::Malformed("a first request without nonce"))?;
        let spi = request.message.header.initiator_spi;
        let cookie = self.cookies.make(self.shared.now, request.path, spi, nonce);
        self.run(None, |cx, _| request.refuse(cx, notify(NotifyType::COOKIE, cookie.to_vec())));
        Ok(())
    }
}
