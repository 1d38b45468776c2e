use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use adit_core::{Ipv4Net, Ipv6Net, ipv6_network};

use crate::directives::Directive;
use crate::lexer::{Entry, Inline};

/// The arguments of one directive. All errors name the text that was found and one that would be right.
pub(crate) struct Args<'a> {
    pub(crate) directive: &'static Directive,
    /// The table of all directives.
    pub(crate) table: &'static [Directive],
    pub(crate) entry: &'a Entry,
}

impl<'a> Args<'a> {
    /// The directive's name.
    pub(crate) fn name(&self) -> &'a str {
        &self.entry.name
    }

    /// All arguments.
    pub(crate) fn all(&self) -> &'a [String] {
        &self.entry.words
    }

    /// The inline block, if that is how the directive was given.
    pub(crate) fn inline(&self) -> Option<&'a Inline> {
        self.entry.inline.as_ref()
    }

    /// Argument `index`, if given.
    pub(crate) fn opt(&self, index: usize) -> Option<&'a str> {
        self.entry.words.get(index).map(String::as_str)
    }

    /// Argument `index`, which must be there.
    pub(crate) fn get(&self, index: usize) -> Result<&'a str, String> {
        self.opt(index).ok_or_else(|| self.usage())
    }

    /// The arguments that the directive takes, as an error.
    pub(crate) fn usage(&self) -> String {
        self.directive.takes()
    }

    /// "`name`: found `x`; write …".
    pub(crate) fn bad(&self, found: impl Display, right: impl Display) -> String {
        format!("`{}`: found `{found}`; write {right}", self.name())
    }

    /// A whole number within `range`.
    pub(crate) fn number<T>(&self, index: usize, range: RangeInclusive<T>) -> Result<T, String>
    where
        T: FromStr + PartialOrd + Display,
    {
        let found = self.get(index)?;
        match found.parse() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.bad(found, format!("a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    /// The number at `index`, if given.
    pub(crate) fn opt_number<T>(&self, index: usize, range: RangeInclusive<T>) -> Result<Option<T>, String>
    where
        T: FromStr + PartialOrd + Display,
    {
        self.opt(index).map(|_| self.number(index, range)).transpose()
    }

    /// Whole seconds, 0 included.
    pub(crate) fn seconds(&self, index: usize) -> Result<Duration, String> {
        Ok(Duration::from_secs(u64::from(self.number(index, 0..=i32::MAX as u32)?)))
    }

    /// Whole seconds; 0 stands for never.
    pub(crate) fn seconds_or_never(&self, index: usize) -> Result<Option<Duration>, String> {
        Ok(Some(self.seconds(index)?).filter(|seconds| !seconds.is_zero()))
    }

    /// A port from 1. Names of services are not looked up.
    pub(crate) fn port(&self, index: usize) -> Result<u16, String> {
        self.number(index, 1..=u16::MAX)
    }

    /// An IPv4 or IPv6 address.
    pub(crate) fn ip(&self, index: usize) -> Result<IpAddr, String> {
        self.parsed(index, "an IP address (names are not looked up here)")
    }

    /// An IPv4 address.
    pub(crate) fn ipv4(&self, index: usize) -> Result<Ipv4Addr, String> {
        self.parsed(index, "an IPv4 address such as 10.8.0.1")
    }

    /// An IPv6 address, its prefix length optional and dropped.
    pub(crate) fn ipv6(&self, index: usize) -> Result<Ipv6Addr, String> {
        let found = self.get(index)?;
        let address = found.split_once('/').map_or(found, |(address, _)| address);
        address.parse().map_err(|_| self.bad(found, "an IPv6 address such as fd00::1"))
    }

    /// An IPv6 address with a prefix length; host bits stay.
    pub(crate) fn ipv6_net(&self, index: usize) -> Result<Ipv6Net, String> {
        self.parsed(index, "an IPv6 network such as fd00::/64")
    }

    /// An IPv6 network; without a prefix length it is a /64 (OpenVPN socket.c `get_addr_generic`).
    pub(crate) fn ipv6_net_or_64(&self, index: usize) -> Result<Ipv6Net, String> {
        let found = self.get(index)?;
        ipv6_network(found).ok_or_else(|| self.bad(found, "an IPv6 network such as fd00::/64"))
    }

    /// The prefix length that a netmask stands for.
    pub(crate) fn netmask(&self, index: usize) -> Result<u8, String> {
        let mask = self.ipv4(index)?;
        prefix_of(mask).ok_or_else(|| self.bad(mask, "a netmask such as 255.255.255.0"))
    }

    /// An IPv4 address with a netmask; the netmask may be missing (a single address). Host bits stay.
    pub(crate) fn ipv4_net(&self, address: usize, mask: usize) -> Result<Ipv4Net, String> {
        let ip = self.ipv4(address)?;
        let prefix = match self.opt(mask) {
            None | Some("default") => 32,
            Some(_) => self.netmask(mask)?,
        };
        Ipv4Net::new(ip, prefix).map_err(|_| self.usage())
    }

    fn parsed<T: FromStr>(&self, index: usize, right: &str) -> Result<T, String> {
        let found = self.get(index)?;
        found.parse().map_err(|_| self.bad(found, right))
    }

    /// A name from a fixed list.
    pub(crate) fn choice<T: Copy>(&self, index: usize, choices: &[(&str, T)]) -> Result<T, String> {
        let found = self.get(index)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == found) {
            return Ok(*value);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        Err(self.bad(found, names.join(" or ")))
    }

    /// A list divided by `:`, without empty items.
    pub(crate) fn list(&self, index: usize) -> Result<Vec<String>, String> {
        let items: Vec<_> = self.get(index)?.split(':').filter(|s| !s.is_empty()).map(Into::into).collect();
        if items.is_empty() { Err(self.usage()) } else { Ok(items) }
    }
}

/// The prefix length of a netmask whose ones come first.
pub(crate) fn prefix_of(mask: Ipv4Addr) -> Option<u8> {
    let bits = u32::from(mask);
    let ones = bits.leading_ones();
    (bits.count_ones() == ones).then_some(ones as u8)
}

/// Whether the directive may stand here, in this form, with so many arguments.
pub(crate) fn check_form(args: &Args<'_>, in_block: bool) -> Result<(), String> {
    let (directive, name) = (args.directive, args.name());
    if in_block && !directive.in_connection {
        return Err(format!("`{name}` cannot stand in a `<connection>` block; move it outside"));
    }
    if args.inline().is_some() {
        return if directive.inline {
            Ok(())
        } else {
            Err(format!("`{name}` is no block; write it on one line: {}", directive.takes()))
        };
    }
    if directive.inline && directive.usage.is_empty() {
        return Err(format!("`{name}` is a block: write `<{name}>`, its lines, and `</{name}>`"));
    }
    let (least, most) = directive.arity();
    let count = args.all().len();
    if count < least || most.is_some_and(|most| count > most) {
        let found = match count {
            0 => "none".into(),
            _ => format!("{count}"),
        };
        return Err(format!("{}; found {found}", directive.takes()));
    }
    Ok(())
}
