//! The forwarding of a WireGuard interface (`#adit: forward`).

use adit_core::Transport;
use adit_system::Forwarding;
use adit_wireguard_config as wireguard;

use crate::network::allowed_ips;

/// The forwarding of a WireGuard interface; `None`: it forwards nothing.
pub(crate) fn of(config: &wireguard::Config, device: &str) -> Option<Forwarding> {
    let interface = &config.interface;
    if interface.forward.is_empty() {
        return None;
    }
    let peers = allowed_ips(config).into_iter().filter(|net| net.prefix_len() > 0);
    let udp = interface.listen_port.filter(|port| *port != 0).map(|port| (Transport::Udp, port));
    let tcp = interface.listen_tcp.map(|address| (Transport::Tcp, address.port()));
    Some(Forwarding {
        device: device.to_owned(),
        networks: interface.addresses.iter().copied().chain(peers).collect(),
        destinations: interface.forward.clone(),
        ports: udp.into_iter().chain(tcp).collect(),
    })
}
