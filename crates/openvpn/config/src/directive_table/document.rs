//! The table of directives as a page of the documentation.

use std::fmt::Write as _;

use adit_core::configuration::Kind;

use super::DIRECTIVES;
use crate::directives::Side;

const HEAD: &str = "# OpenVPN's directives, and what becomes of them

This page is made by `adit check --directives` from the table that the parser uses.
A directive that is not here is an error; `adit check FILE` says what becomes of those in a file.
";

const DIFFERENCES: &str = "
## Stricter than OpenVPN

**`redirect-gateway`**, with whichever flags, is policy routing by firewall mark: only the tunnel's own datagrams (mark
`0x61646974`) see the main table. All else goes into the tunnel, whatever routes the system has or gets:

- Routes of a DHCP server (option 121, \"TunnelVision\") and a host route to the server (\"TunnelCrack\") lead nothing past
  the tunnel. OpenVPN's two half routes lose to each that is more specific.
- A connected network stays reachable (unless `block-local`) if its addresses are for local networks: RFC 1918,
  169.254.0.0/16, 100.64.0.0/10, fc00::/7, fe80::/10. A \"local\" network of public addresses goes into the tunnel, as who
  runs the network could draw traffic by it. For such a network, or one behind another router, write
  `route NETWORK NETMASK GATEWAY` or `net_gateway`.
- Routes and rules that another program deletes are put back; meanwhile packets are refused, not sent beside the tunnel.
- A tunnel that cannot have these routes is not up: the connection fails, with the route in the message. This is so, too,
  where a kernel has no policy routing, as routes of the main table would leak in silence.
- If all of adit is killed (SIGKILL), the rules stay, and nothing leaves, until adit starts again (any `adit up`) or
  `adit kill-switch off`. If its helper process is left, it takes them back; `--kill-switch` is for that.
- `rp_filter` of the network's device is set from strict (1) to loose (2) while the tunnel is up.
- `local` and `autolocal` change nothing, as no host route to the server is needed. `block-local` leaves the router alone
  reachable, as in OpenVPN.

**`block-ipv6`**, pushed or in the file, with or without `redirect-gateway`: no IPv6 leaves, neither by the tunnel nor
beside it, and programs hear at once that it is unreachable. Excepted are the tunnel's own datagrams to a server that is
reached over IPv6, and what a link needs (neighbour and router discovery, multicast on the link). OpenVPN blocks what its
routes lead into the tunnel, which without `redirect-gateway ipv6` is next to nothing.
";

/// The page, as Markdown.
pub fn documentation() -> String {
    let mut page = String::from(HEAD);
    let parts = [
        (Kind::Used, "Used", "| directive | side |\n|---|---|\n"),
        (Kind::Ignored, "Ignored", "adit does without these, safely.\n\n| directive | why |\n|---|---|\n"),
        (
            Kind::Refused,
            "Refused",
            "adit does not run with these.\n\n| directive | what to do |\n|---|---|\n",
        ),
    ];
    for (kind, title, head) in parts {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n{head}");
        for directive in DIRECTIVES.iter().filter(|directive| directive.kind() == kind) {
            let what = match (kind, directive.side) {
                (Kind::Used, Side::Any) => "both",
                (Kind::Used, Side::Client) => "client",
                (Kind::Used, Side::Server) => "server",
                (Kind::Used, Side::ClientFile) => "a client's file in `client-config-dir`",
                _ => directive.reason(),
            };
            let usage = if kind == Kind::Refused { "" } else { directive.usage };
            let call = format!("{} {usage}", directive.name);
            let _ =
                writeln!(page, "| `{}` | {} |", call.trim().replace('|', "\\|"), what.replace('|', "\\|"));
        }
    }
    page.push_str(DIFFERENCES);
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../../../docs/use/OPENVPN-DIRECTIVES.md");
        assert!(
            page == super::documentation(),
            "run `cargo run -p adit -- check --directives > docs/use/OPENVPN-DIRECTIVES.md`"
        );
    }
}
