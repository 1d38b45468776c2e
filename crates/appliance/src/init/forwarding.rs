//! Forwarding of packets between devices, as the settings say.

use std::fs;
use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::log::Log;
use crate::nftables::{Passage, ruleset};
use crate::settings::Settings;

/// The kernel answers at once; this is against waiting for ever should it not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Parameters of the kernel that have packets forwarded.
const FORWARDED: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Begins to forward. Without the rules nothing is forwarded.
pub(super) fn begin(settings: &Settings, log: &Log) {
    let passages = passages(settings);
    if passages.is_empty() {
        return;
    }
    let begun =
        set_rules(&passages).and_then(|()| FORWARDED.iter().try_for_each(|path| fs::write(path, "1")));
    if let Err(error) = begun {
        log.say(format_args!("nothing is forwarded: {error}"));
    }
}

fn passages(settings: &Settings) -> Vec<Passage> {
    let of = |(from, device): (&String, &crate::settings::Device)| {
        let passage = |to: &String| Passage { from: from.clone(), to: to.clone() };
        device.forward.iter().map(passage).collect::<Vec<_>>()
    };
    settings.devices.iter().flat_map(of).collect()
}

/// Puts the rules in force, all or none.
fn set_rules(passages: &[Passage]) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
    let (messages, mut answers) = ruleset(passages);
    socket.send(&messages, 0)?;
    while answers > 0 {
        let (received, _) = socket.recv_from_full()?;
        let mut rest = received.as_slice();
        // struct nlmsghdr; struct nlmsgerr begins with a negative number of an error, or 0.
        while let Some((header, _)) = rest.split_first_chunk::<20>() {
            let [l0, l1, l2, l3, .., e0, e1, e2, e3] = *header;
            match i32::from_ne_bytes([e0, e1, e2, e3]) {
                0 => answers = answers.saturating_sub(1),
                code => return Err(io::Error::from_raw_os_error(-code)),
            }
            let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
            rest = rest.get(length.max(20).next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use adit_testbed::{Namespace, can_run, program};

    use super::*;

    /// The kernel takes the messages, and `nft` shows what they mean.
    #[test]
    fn the_rules_let_one_device_out_by_another_and_only_answers_back() {
        if !can_run("the_rules_let_one_device_out_by_another_and_only_answers_back", &["nft"]) {
            return;
        }
        let namespace = Namespace::create("passage").unwrap();
        let passages = [Passage { from: "eth1".to_owned(), to: "wg0".to_owned() }];
        namespace.enter(|| set_rules(&passages)).unwrap().unwrap();
        let mut list = program("nft").unwrap();
        list.args(["list", "ruleset"]);
        let text = namespace.run(list).unwrap();
        for line in [
            "type filter hook forward priority filter; policy drop;",
            "iifname \"eth1\" oifname \"wg0\" accept",
            "iifname \"wg0\" oifname \"eth1\" ct state established,related accept",
            "type nat hook postrouting priority srcnat; policy accept;",
            "iifname \"eth1\" oifname \"wg0\" masquerade",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
