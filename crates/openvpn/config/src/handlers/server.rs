//! Directives of a server.

use std::time::Duration;

use adit_core::Rate;

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but, done_with_doubt};
use crate::draft::Draft;
use crate::handlers::process::path;
use crate::handlers::pushed::doubt;
use crate::model::PortShare;

type Done = Result<Effect, String>;

pub(crate) fn server(draft: &mut Draft, args: &Args<'_>) -> Done {
    let net = args.ipv4_net(0, 1)?;
    // OpenVPN's limits: a pool holds at most 65,536 addresses, a tun at least 8.
    if !(16..=29).contains(&net.prefix_len()) {
        return Err(args.bad(args.get(1)?, "a netmask from 255.255.0.0 to 255.255.255.248"));
    }
    if net.network() != net.addr() {
        return Err(args.bad(net.addr(), format!("the network's first address, {}", net.network())));
    }
    let pool = match args.opt(2) {
        None => true,
        Some("nopool") => false,
        Some(other) => return Err(args.bad(other, "`nopool` or nothing")),
    };
    draft.sides.server = Some(args.entry.at.clone());
    draft.server.network = Some((net, pool));
    done()
}

pub(crate) fn server_ipv6(draft: &mut Draft, args: &Args<'_>) -> Done {
    let net = args.ipv6_net(0)?;
    if !(64..=124).contains(&net.prefix_len()) || net.network() != net.addr() {
        return Err(args.bad(net, "a network from /64 to /124 without host bits, such as fd00::/64"));
    }
    draft.sides.server = Some(args.entry.at.clone());
    draft.server.network6 = Some(net);
    done()
}

pub(crate) fn ifconfig_pool(draft: &mut Draft, args: &Args<'_>) -> Done {
    let (first, last) = (args.ipv4(0)?, args.ipv4(1)?);
    if args.opt(2).is_some() {
        args.netmask(2)?;
    }
    if first > last || u32::from(last) - u32::from(first) >= 65_536 {
        return Err(args.bad(format!("{first} {last}"), "the lower address first, at most 65536 addresses"));
    }
    draft.server.pool = Some((first, last, args.entry.at.clone()));
    done()
}

pub(crate) fn ifconfig_ipv6_pool(draft: &mut Draft, args: &Args<'_>) -> Done {
    let net = args.ipv6_net(0)?;
    if !(64..=124).contains(&net.prefix_len()) {
        return Err(args.bad(net, "the first address with a prefix length from 64 to 124"));
    }
    draft.server.pool6 = Some((net, args.entry.at.clone()));
    done()
}

/// The option to push, if it can be pushed at all.
pub(crate) fn pushable<'a>(args: &Args<'a>) -> Result<&'a str, String> {
    let option = args.get(0)?;
    // Options travel as one list divided by commas; a comma would start another option at the client.
    if option.is_empty() || option.contains(',') || option.chars().any(char::is_control) {
        return Err(args.bad(option, "one option, without commas, such as \"route 10.1.0.0 255.255.0.0\""));
    }
    if option.len() > 255 {
        return Err(format!("`push`: the option is {} bytes long; a client takes at most 255", option.len()));
    }
    Ok(option)
}

pub(crate) fn push(draft: &mut Draft, args: &Args<'_>) -> Done {
    let option = pushable(args)?;
    draft.server.push.push(option.into());
    match doubt(args, option) {
        None => done(),
        Some(why) => done_with_doubt(why),
    }
}

pub(crate) fn push_reset(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.server.push.clear();
    done()
}

pub(crate) fn push_remove(draft: &mut Draft, args: &Args<'_>) -> Done {
    let prefix = args.get(0)?;
    let before = draft.server.push.len();
    draft.server.push.retain(|option| !option.starts_with(prefix));
    if draft.server.push.len() == before { done_but("no pushed option starts so") } else { done() }
}

pub(crate) fn client_to_client(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.server.client_to_client = true;
    done()
}

pub(crate) fn port_share(draft: &mut Draft, args: &Args<'_>) -> Done {
    let host = args.get(0)?;
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'));
    if host.is_empty() || host.len() > 253 || host.contains(odd) {
        return Err(args.bad(host, "a host name or an IP address"));
    }
    let share =
        PortShare { host: host.to_owned(), port: args.port(1)?, journal: args.opt(2).map(Into::into) };
    draft.server.port_share = Some((share, args.entry.at.clone()));
    done()
}

pub(crate) fn duplicate_cn(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.server.duplicate_cn = true;
    done()
}

pub(crate) fn max_clients(draft: &mut Draft, args: &Args<'_>) -> Done {
    // A peer-id has 24 bits, and its highest value means "none".
    draft.server.max_clients = Some(args.number(0, 1..=0x00FF_FFFE)?);
    done()
}

fn frequency(args: &Args<'_>) -> Result<Rate, String> {
    let count = args.number(0, 1..=i32::MAX as u32)?;
    let seconds: u32 = args.number(1, 1..=i32::MAX as u32)?;
    Ok(Rate { count, period: Duration::from_secs(u64::from(seconds)) })
}

pub(crate) fn connect_freq(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.server.connect_freq = Some(frequency(args)?);
    done()
}

pub(crate) fn connect_freq_initial(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.server.connect_freq_initial = Some(frequency(args)?);
    done_but("for each address by itself, so that packets with forged sources lock no other client out")
}

pub(crate) fn client_config_dir(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.server.client_files = Some(path(args)?);
    done()
}

pub(crate) fn ccd_exclusive(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.server.ccd_exclusive = Some(args.entry.at.clone());
    done()
}

pub(crate) fn ifconfig_pool_persist(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN's default; 0 means that the file is only read.
    let every = args.opt(1).map_or(Ok(Duration::from_secs(600)), |_| args.seconds(1))?;
    draft.server.pool_file = Some((path(args)?, every));
    done()
}
