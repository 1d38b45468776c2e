//! The protocols of this program: one line each. It is the only file of the program that names them.

#[cfg(test)]
mod tests;

use adit_host::adapter::Adapters;
use adit_setup::Protocols;

/// The adapters, in the order in which they are asked whether a file is theirs. OpenVPN's files have no mark, so that it is the last.
pub(crate) const ALL: &Adapters = &[
    &adit_wireguard_adapter::WireGuard,
    &adit_ike_adapter::Ipsec,
    #[cfg(feature = "toy")]
    &adit_toy_adapter::Toy,
    &adit_openvpn_adapter::OpenVpn,
];

/// The protocols of a server that `adit init` makes.
pub(crate) const SERVER: Protocols = Protocols {
    certificate: &adit_openvpn_adapter::OpenVpn,
    key: &adit_wireguard_adapter::WireGuard,
    native: &adit_ike_adapter::Ipsec,
};

/// The texts of the program's help that name protocols.
pub(crate) mod help {
    /// The option that means the protocol with certificates.
    pub(crate) const CERTIFICATE: &str = "openvpn";
    /// The option that means the protocol with keys.
    pub(crate) const KEYS: &str = "wireguard";
    /// The option of the UDP port of the protocol with keys, and the usual port.
    pub(crate) const KEYS_PORT: &str = "wireguard-port";
    pub(crate) const DEFAULT_KEYS_PORT: u16 = 51820;
    /// `adit init`.
    pub(crate) const INIT: &str =
        "Make a server: certificate authority, keys and server.conf in a new directory";
    /// `adit init`, in full.
    pub(crate) const INIT_LONG: &str = "Make a server: certificate authority, keys and server.conf in a new directory\n\n\
         With --wireguard it makes a WireGuard server as well, which shares OpenVPN's tunnel: the same device, the same networks, the \
         same clients by name. With --ikev2 it makes a server for the VPN clients of iOS, macOS, Windows and Android likewise, and \
         with --without-openvpn for these alone. A directory that is there gets either added.";
    /// The arguments of `adit init`.
    pub(crate) const INIT_DIR: &str = "Directory to make; must not exist, or be empty (with --wireguard or --ikev2, one that `adit init` made will do)";
    pub(crate) const INIT_KEYS: &str = "Serve WireGuard as well";
    pub(crate) const INIT_KEYS_PORT: &str = "The UDP port of WireGuard";
    /// The option that means the protocol that operating systems speak by themselves.
    pub(crate) const NATIVE: &str = "ikev2";
    pub(crate) const INIT_NATIVE: &str =
        "Serve IKEv2 as well, for the VPN clients of iOS, macOS, Windows and Android";
    /// The option that leaves out the protocol with certificates.
    pub(crate) const ALONE: &str = "without-openvpn";
    pub(crate) const INIT_ALONE: &str = "Serve IKEv2 alone: no OpenVPN, and no server.conf";
    pub(crate) const INIT_DEV: &str = "The tunnel's device, after which WireGuard's file is named [default: the `dev` of server.conf, or adit0]";
    /// `adit add-client`.
    pub(crate) const ADD_CLIENT: &str =
        "Make a client: a certificate and a NAME.ovpn that holds all it needs";
    /// `adit add-client`, in full.
    pub(crate) const ADD_CLIENT_LONG: &str = "Make a client: a certificate and a NAME.ovpn that holds all it needs\n\n\
         With --wireguard it makes a NAME.conf instead, for WireGuard, prints it, and lets the client into a running server. A name may \
         have both, by two commands or with --openvpn --wireguard; `adit revoke` shuts it out of both.\n\n\
         With --ikev2 it makes a file for each kind of device: NAME.mobileconfig (iOS, macOS), NAME.ps1 (Windows), NAME.sswan (Android), \
         NAME.swanctl (adit, strongSwan).";
    /// The arguments of `adit add-client`.
    pub(crate) const ADD_CLIENT_CERTIFICATE: &str = "Make a profile for OpenVPN, as without --wireguard";
    pub(crate) const ADD_CLIENT_KEYS: &str = "Make a file for WireGuard";
    pub(crate) const ADD_CLIENT_QR: &str =
        "Show WireGuard's file as a QR code, and write that to NAME.png and NAME.svg";
    pub(crate) const ADD_CLIENT_NATIVE: &str = "Make files for the VPN clients of operating systems";
    pub(crate) const ADD_CLIENT_PASSWORD: &str =
        "Let the client in by its name and a new password (EAP-MSCHAPv2) in place of a certificate";
    /// `adit renew --ikev2`.
    pub(crate) const RENEW_NATIVE: &str =
        "Make new IKEv2 files for these clients instead, with new certificates or passwords";
    /// `adit renew --wireguard`.
    pub(crate) const RENEW_KEYS: &str =
        "Make new WireGuard keys for these clients instead; the old ones are shut out";
    /// `adit revoke`.
    pub(crate) const REVOKE: &str = "Shut a client out: its certificates go on the list that the server looks at, its WireGuard keys \
                                     and its IKEv2 password out of the server";
    /// `adit block`.
    pub(crate) const BLOCK: &str = "Disconnect a WireGuard or IPsec peer and keep it out until `adit allow`, over restarts of the interface, too";
    /// `adit allow`.
    pub(crate) const ALLOW: &str =
        "Let a WireGuard or IPsec peer connect again that `adit block`, or its session limit, has kept out";
    /// The tunnel of `adit block`.
    pub(crate) const BLOCK_TUNNEL: &str = "The interface's file, the name of an interface whose file is in /etc/wireguard, or a file of swanctl";
    /// The peer of `adit block`.
    pub(crate) const BLOCK_PEER: &str = "The peer: what `#adit: name =` calls it, or its public key; at a file of swanctl the name of a connection, \
                                         or the peer's identity";
    /// `adit adopt`.
    pub(crate) const ADOPT: &str =
        "Have adit run a tunnel that OpenVPN or strongSwan runs, and go back if no client is connected again";
    /// `adit adopt`, in full.
    pub(crate) const ADOPT_LONG: &str = "Have adit run a tunnel that OpenVPN or strongSwan runs, and go back if no client is connected again\n\n\
         Says first what adit does otherwise, as `adit check`. A configuration that adit refuses is an error, and the other program goes on. \
         Then a drop-in has the unit run adit, and the unit is restarted. When a client is connected (of a client: its tunnel is up; of \
         strongSwan: as many peers as before), that is kept for good. If none is in time, or adit ends, the other program runs as before. A \
         start of the machine in between goes back as well, and a command that was interrupted can be repeated.";
    /// The name of `adit adopt`.
    pub(crate) const ADOPT_NAME: &str = "The unit (openvpn-server@office, strongswan), the name of a configuration in /etc/openvpn/server, /etc/openvpn/client \
         or /etc/openvpn (office), its file, that of another OpenVPN that runs, or /etc/swanctl/swanctl.conf";
    /// `adit adopt --within`.
    pub(crate) const ADOPT_WITHIN: &str = "Go back if no client is connected again by then, such as 90s or 2m [default: 15 seconds longer than this end takes \
         to miss a client by the file's `keepalive` or `dpd_delay`, and at least 60s]. With 0, none is waited for";
    /// `adit adopt --back`.
    pub(crate) const ADOPT_BACK: &str = "Have the other program run it again, now and from now on";
    /// The program.
    pub(crate) const ABOUT: &str = "A VPN for Linux that speaks OpenVPN and WireGuard";
    /// `adit up`.
    pub(crate) const UP: &str = "Run the tunnels of OpenVPN configurations, of WireGuard files and of swanctl's files (IPsec), in the foreground";
    /// The files of `adit up`.
    pub(crate) const UP_FILES: &str = "The configurations: .ovpn or .conf files. Each is a tunnel of its own: one that fails or ends \
                                       leaves the others as they are. OpenVPN servers with the same `dev` are endpoints of one tunnel";
    /// The kill switch of `adit up`.
    pub(crate) const KILL_SWITCH: &str = "Let nothing leave but the tunnels' packets and their own datagrams, from before the first connection until `adit \
         kill-switch off`, whatever becomes of adit. With `lan`, local networks may be reached (clients and WireGuard files)";
    /// `adit check`.
    pub(crate) const CHECK: &str =
        "Say what adit makes of OpenVPN configurations, and of WireGuard's files, without running them";
    /// `adit check`, in full.
    pub(crate) const CHECK_LONG: &str = "Say what adit makes of OpenVPN configurations, and of WireGuard's files, without running them\n\n\
         Refuses each configuration that `adit up` would refuse before its first datagram, with the same message. Names the points that \
         show at the start alone.";
}
