//! Directives on routes and names.

use std::net::IpAddr;

use adit_core::{IpNet, Route, RouteVia, is_domain};
use adit_openvpn::params::{PullAction, PullFilter};

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but, skip};
use crate::draft::Draft;
use crate::model::{NamedRoute, RedirectGateway};

type Done = Result<Effect, String>;

pub(crate) fn route(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.get(0)? == "remote_host" && args.opt(2) == Some("net_gateway") {
        return done_but("the server is kept outside the tunnel anyway, wherever it is");
    }
    if args.get(0)? == "vpn_gateway" {
        return done_but("the tunnel's gateway is reached through the tunnel anyway");
    }
    if matches!(args.get(0)?, "net_gateway" | "remote_host") {
        return Err(args.bad(args.get(0)?, "the destination's address"));
    }
    if is_host(args.get(0)?) {
        let prefix = args.opt(1).filter(|mask| *mask != "default").map_or(Ok(32), |_| args.netmask(1))?;
        return named_route(draft, args, (prefix, false), 2);
    }
    let given = args.ipv4_net(0, 1)?;
    let via = gateway(args, 2, false)?;
    let metric = metric(args, 3)?;
    draft.routes.push(Route { destination: IpNet::V4(given.trunc()), via, metric });
    taken_as(given.into())
}

pub(crate) fn route_ipv6(draft: &mut Draft, args: &Args<'_>) -> Done {
    let found = args.get(0)?;
    if is_host(found) {
        return named_route(draft, args, (64, true), 1);
    }
    let net = args.ipv6_net_or_64(0)?;
    let via = gateway(args, 1, true)?;
    let metric = metric(args, 2)?;
    draft.routes.push(Route { destination: IpNet::V6(net.trunc()), via, metric });
    if !found.contains('/') {
        return done_but(format!("taken as {}: without a length it is a /64, as in OpenVPN", net.trunc()));
    }
    taken_as(net.into())
}

/// Whether this names a host, and is no address with a mistake in it.
fn is_host(word: &str) -> bool {
    is_domain(word) && !word.rsplit('.').next().is_none_or(|last| last.bytes().all(|b| b.is_ascii_digit()))
}

/// The host's addresses are looked up when the tunnel starts.
fn named_route(draft: &mut Draft, args: &Args<'_>, (prefix, ipv6): (u8, bool), next: usize) -> Done {
    let (via, metric) = (gateway(args, next, ipv6)?, metric(args, next + 1)?);
    draft.named_routes.push(NamedRoute { host: args.get(0)?.into(), ipv6, prefix, via, metric });
    done_but("the name is looked up once, when the tunnel starts")
}

/// A destination may have host bits; the route is to its network.
fn taken_as(given: IpNet) -> Done {
    if given == given.trunc() { done() } else { done_but(format!("taken as {}", given.trunc())) }
}

fn gateway(args: &Args<'_>, index: usize, v6: bool) -> Result<RouteVia, String> {
    match args.opt(index) {
        None | Some("default" | "vpn_gateway") => Ok(RouteVia::Tunnel),
        Some("net_gateway" | "net_gateway_ipv6") => Ok(RouteVia::SystemGateway),
        Some(found) => match found.parse::<IpAddr>() {
            Ok(address) if address.is_ipv6() == v6 => Ok(RouteVia::Gateway(address)),
            _ => {
                let family = if v6 { "IPv6" } else { "IPv4" };
                Err(args.bad(found, format!("`vpn_gateway`, `net_gateway` or an {family} address")))
            }
        },
    }
}

fn metric(args: &Args<'_>, index: usize) -> Result<Option<u32>, String> {
    if args.opt(index) == Some("default") { Ok(None) } else { args.opt_number(index, 0..=i32::MAX as u32) }
}

pub(crate) fn route_nopull(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.route_nopull = true;
    done()
}

pub(crate) fn pull_filter(draft: &mut Draft, args: &Args<'_>) -> Done {
    let action = args.choice(
        0,
        &[("accept", PullAction::Accept), ("ignore", PullAction::Ignore), ("reject", PullAction::Reject)],
    )?;
    draft.client.pull_filters.push(PullFilter { action, prefix: args.get(1)?.into() });
    done()
}

pub(crate) fn redirect_gateway(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut flags =
        draft.client.redirect_gateway.unwrap_or(RedirectGateway { ipv4: true, ..Default::default() });
    for flag in args.all() {
        match flag.as_str() {
            "def1" => flags.def1 = true,
            "ipv6" => flags.ipv6 = true,
            "!ipv4" => flags.ipv4 = false,
            "local" => flags.local = true,
            "autolocal" => flags.autolocal = true,
            "block-local" => flags.block_local = true,
            "bypass-dhcp" => flags.bypass_dhcp = true,
            "bypass-dns" => flags.bypass_dns = true,
            other => {
                return Err(args.bad(
                    other,
                    "flags out of `def1`, `ipv6`, `!ipv4`, `local`, `autolocal`, `block-local`, \
                     `bypass-dhcp`, `bypass-dns`",
                ));
            }
        }
    }
    draft.client.redirect_gateway = Some(flags);
    if flags.bypass_dhcp {
        return done_but(
            "`bypass-dhcp` asks for nothing here: a DHCP server is reached on the link, as before",
        );
    }
    done()
}

pub(crate) fn block_ipv6(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.block_ipv6 = true;
    done()
}

pub(crate) fn dhcp_option(draft: &mut Draft, args: &Args<'_>) -> Done {
    match args.get(0)? {
        "DNS" | "DNS6" => {
            let server = args.ip(1)?;
            if !draft.client.dns.servers.contains(&server) {
                draft.client.dns.servers.push(server);
            }
        }
        "DOMAIN" | "DOMAIN-SEARCH" | "ADAPTER_DOMAIN_SUFFIX" => {
            let domain = args.get(1)?;
            if !is_domain(domain) {
                return Err(args.bad(domain, "a domain name of letters, digits, `-`, `_` and dots"));
            }
            if !draft.client.dns.search.iter().any(|known| known == domain) {
                draft.client.dns.search.push(domain.into());
            }
        }
        "DOMAIN-ROUTE" => {
            let domain = args.get(1)?;
            if domain != "." && !is_domain(domain) {
                return Err(args.bad(domain, "a domain, or `.` for all"));
            }
            if !draft.client.dns.only_for.iter().any(|known| known == domain) {
                draft.client.dns.only_for.push(domain.into());
            }
        }
        "WINS" | "NBDD" | "NBT" | "NBS" | "DISABLE-NBT" | "NTP" => {
            return skip("only name servers and domains are set");
        }
        "PROXY_HTTP" | "PROXY_HTTPS" | "PROXY_BYPASS" | "PROXY_AUTO_CONFIG_URL" => {
            return skip("proxies of browsers are theirs to set");
        }
        other => return Err(args.bad(other, "`DNS ADDRESS` or `DOMAIN NAME`")),
    }
    done()
}

/// `dns server PRIORITY …` and `dns search-domains …`.
pub(crate) fn dns(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.dns_options.apply(args.all()).map_err(|why| format!("`dns`: {why}"))?;
    done()
}

/// `redirect-private`: as `redirect-gateway`, but for the default route.
pub(crate) fn redirect_private(draft: &mut Draft, args: &Args<'_>) -> Done {
    redirect_gateway(draft, args)?;
    if let Some(flags) = &mut draft.client.redirect_gateway {
        (flags.ipv4, flags.ipv6) = (false, false);
    }
    done()
}
