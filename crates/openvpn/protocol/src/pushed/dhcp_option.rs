//! `dhcp-option`: read into its meaning, and printed anew, so that scripts are given nothing that was not understood.

use std::fmt;
use std::net::IpAddr;

use adit_core::is_domain;

/// A `dhcp-option` that was read. `Display` is the text behind `dhcp-option` in a script's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DhcpOption<'a> {
    /// `DNS` or `DNS6`: a name server.
    Server(&'static str, IpAddr),
    /// `DOMAIN`, `DOMAIN-SEARCH` or `ADAPTER_DOMAIN_SUFFIX`: names are looked for in it.
    Search(&'static str, &'a str),
    /// `DOMAIN-ROUTE`: the name servers are asked for names in it. `.` is all names.
    OnlyFor(&'a str),
    /// Only scripts get it; it has no other effect.
    Other(String),
}

impl<'a> DhcpOption<'a> {
    /// Reads the words after `dhcp-option`.
    ///
    /// # Errors
    /// The mistake, in a few words.
    pub(super) fn parse(words: &[&'a str]) -> Result<Self, &'static str> {
        let known = |names: &[&'static str], name: &str| names.iter().find(|known| **known == name).copied();
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| "it is not an address");
        match *words {
            [name, value] if let Some(name) = known(&["DNS", "DNS6"], name) => {
                Ok(DhcpOption::Server(name, address(value)?))
            }
            [name, value]
                if let Some(name) = known(&["DOMAIN", "DOMAIN-SEARCH", "ADAPTER_DOMAIN_SUFFIX"], name) =>
            {
                domain(value).map(|domain| DhcpOption::Search(name, domain))
            }
            ["DOMAIN-ROUTE", "."] => Ok(DhcpOption::OnlyFor(".")),
            ["DOMAIN-ROUTE", value] => domain(value).map(DhcpOption::OnlyFor),
            [name, value] if let Some(name) = known(&["WINS", "NTP", "NBDD"], name) => {
                Ok(DhcpOption::Other(format!("{name} {}", address(value)?)))
            }
            ["DNSSEC", value] => known(&["yes", "no", "allow-downgrade", "default"], value)
                .map(|value| DhcpOption::Other(format!("DNSSEC {value}")))
                .ok_or("it is not `yes`, `no`, `allow-downgrade` or `default`"),
            ["NBT", value] => known(&["1", "2", "4", "8"], value)
                .map(|value| DhcpOption::Other(format!("NBT {value}")))
                .ok_or("it is not 1, 2, 4 or 8"),
            ["DISABLE-NBT"] => Ok(DhcpOption::Other("DISABLE-NBT".to_owned())),
            [name, host, port] if let Some(name) = known(&["PROXY_HTTP", "PROXY_HTTPS"], name) => {
                let port: u16 = port.parse().map_err(|_| "it names no port")?;
                let host = host.parse().map(|host: IpAddr| host.to_string());
                let host =
                    host.or_else(|_| domain(words.get(1).copied().unwrap_or_default()).map(str::to_owned))?;
                Ok(DhcpOption::Other(format!("{name} {host} {port}")))
            }
            _ => Err("it is not known, or malformed"),
        }
    }
}

fn domain(text: &str) -> Result<&str, &'static str> {
    // A name that begins with `-` would be an option to the programs that scripts run.
    Some(text)
        .filter(|text| is_domain(text) && !text.starts_with('-'))
        .ok_or("it is not the name of a domain")
}

impl fmt::Display for DhcpOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DhcpOption::Server(name, address) => write!(f, "{name} {address}"),
            DhcpOption::Search(name, domain) => write!(f, "{name} {domain}"),
            DhcpOption::OnlyFor(domain) => write!(f, "DOMAIN-ROUTE {domain}"),
            DhcpOption::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_printed_anew() {
        for (text, printed) in [
            ("DNS 192.0.2.1", "DNS 192.0.2.1"),
            ("DNS6 2001:DB8::0:1", "DNS6 2001:db8::1"),
            ("DOMAIN a.example", "DOMAIN a.example"),
            ("DOMAIN-SEARCH b.example.", "DOMAIN-SEARCH b.example."),
            ("ADAPTER_DOMAIN_SUFFIX c", "ADAPTER_DOMAIN_SUFFIX c"),
            ("DOMAIN-ROUTE .", "DOMAIN-ROUTE ."),
            ("DNSSEC allow-downgrade", "DNSSEC allow-downgrade"),
            ("NTP 192.0.2.9", "NTP 192.0.2.9"),
            ("NBT 2", "NBT 2"),
            ("DISABLE-NBT", "DISABLE-NBT"),
            ("PROXY_HTTP proxy.example 0080", "PROXY_HTTP proxy.example 80"),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(DhcpOption::parse(&words).map(|option| option.to_string()), Ok(printed.to_owned()));
        }
    }

    #[test]
    fn what_a_shell_would_run_is_not_read() {
        for text in [
            "DOMAIN $(touch${IFS}pwned)",
            "DNS 10.0.0.1;reboot",
            "DOMAIN-SEARCH -x`id`",
            "DOMAIN -x",
            "DOMAIN-ROUTE a;b",
            "DNSSEC $(id)",
            "WINS x",
            "PROXY_HTTP $(id) 80",
            "PROXY_HTTP proxy.example 80;id",
            "DNS",
            "x",
            "",
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert!(DhcpOption::parse(&words).is_err(), "{text}");
        }
    }
}
