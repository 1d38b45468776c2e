//! Zones of IPv6 addresses (RFC 4007 §11), such as `eth0` in `fe80::1%eth0`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The scope that a zone stands for: the index of the interface with that name or, if there is none, the number that the zone
/// is. The order is that of the C library's `getaddrinfo`, since an interface's name may be a number.
///
/// # Errors
/// [`io::ErrorKind::NotFound`]: the zone is no interface and no number. Or the system cannot be asked.
pub fn scope_of_zone(zone: &str) -> io::Result<u32> {
    let number = || {
        let digits = zone.bytes().all(|byte| byte.is_ascii_digit());
        zone.parse().ok().filter(|_| digits)
    };
    match interface_index(zone)?.or_else(number) {
        Some(scope) => Ok(scope),
        None => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such interface")),
    }
}

/// The zone of a scope: the name of the interface with that index, or the number where there is none. The index of an
/// interface may be another after the next start of the machine, so that a stored address should have the name.
pub fn zone_of_scope(scope: u32) -> String {
    let name = socket().and_then(|socket| Ok(index_to_name(&socket, scope)?));
    name.unwrap_or_else(|_| scope.to_string())
}

/// A socket for ioctls, of a kind that a confined process may make as well.
fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

fn interface_index(name: &str) -> io::Result<Option<u32>> {
    // The kernel reads a name up to a colon or a zero byte.
    if name.contains([':', '\0']) {
        return Ok(None);
    }
    match name_to_index(socket()?, name) {
        Ok(index) => Ok(Some(index)),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Netlink;
    use crate::testing::{Device, in_fresh_network};

    #[test]
    fn a_zone_is_an_interface_or_a_number() {
        in_fresh_network(|| {
            let named_by_a_number = Device::new("7");
            let index = Netlink::open().unwrap().link("7").unwrap().index;
            assert_ne!(index, 7);
            assert_eq!(scope_of_zone("lo").unwrap(), 1, "the first interface of every namespace");
            assert_eq!(scope_of_zone("7").unwrap(), index, "the interface counts first");
            assert_eq!([1, index, 4_000_000_000].map(zone_of_scope), ["lo", "7", "4000000000"]);
            drop(named_by_a_number);
            assert_eq!(scope_of_zone("7").unwrap(), 7);
            for zone in ["none", "", "lo:1", "lo\0", "+7", "-1", "4294967296", "a-name-of-16-byt"] {
                let error = scope_of_zone(zone).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{zone:?}");
            }
        });
    }
}
