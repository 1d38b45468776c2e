//! adit's own settings in the files of other programs' dialects: `#adit: key = value`, on a line of its own. To other programs
//! such a line is a comment. The settings of all dialects are read here.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The beginning of a comment that is a setting of adit's own, after `#` and spaces, in upper or lower case.
const PREFIX: &str = "adit:";

/// The kind of a line by its comment.
pub enum Comment<'a> {
    /// The line has no setting of ours.
    Plain,
    /// A setting: the text behind `adit:`.
    Ours(&'a str),
    /// A setting behind other text of its line, where it has no effect.
    Behind,
}

/// The kind of a line.
pub fn comment(line: &str) -> Comment<'_> {
    let Some((before, comment)) = line.split_once('#') else { return Comment::Plain };
    let comment = comment.trim_start();
    match comment.get(..PREFIX.len()) {
        Some(start) if start.eq_ignore_ascii_case(PREFIX) => {}
        _ => return Comment::Plain,
    }
    match before.trim().is_empty() {
        true => Comment::Ours(comment.get(PREFIX.len()..).unwrap_or_default().trim()),
        false => Comment::Behind,
    }
}

/// The value of `forward`: the networks to which a server forwards the packets of its clients. `internet` is a prefix of length
/// 0 of each family.
///
/// # Errors
/// The message that says how to write the value.
fn forward(value: &str) -> Result<Vec<IpNet>, String> {
    const RIGHT: &str = "it is `internet`, or networks such as 192.168.1.0/24, with commas between them";
    let mut destinations = Vec::new();
    for word in value.split(',').map(str::trim) {
        if word == "internet" {
            let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
            destinations.extend(all);
            continue;
        }
        let host = || word.parse().ok().map(|address: std::net::IpAddr| IpNet::from(address));
        let net = word.parse::<IpNet>().ok().or_else(host).ok_or(RIGHT)?;
        if net != net.trunc() {
            return Err(format!("{net} has bits beyond its prefix: write {}", net.trunc()));
        }
        destinations.push(net);
    }
    Ok(destinations)
}

/// Adds the destinations of a further line `forward`.
///
/// # Errors
/// The message that says how to write the value.
pub fn add_forward(destinations: &mut Vec<IpNet>, value: &str) -> Result<(), String> {
    for net in forward(value)? {
        if !destinations.contains(&net) {
            destinations.push(net);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_networks_or_the_internet() {
        let texts =
            |value| forward(value).map(|nets| nets.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(texts("internet"), Ok(vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()]));
        let both = vec!["192.168.1.0/24".to_owned(), "fd00:1::/64".to_owned(), "10.0.0.7/32".to_owned()];
        assert_eq!(texts("192.168.1.0/24, fd00:1::/64,10.0.0.7"), Ok(both));
        assert!(texts("192.168.1.7/24").is_err_and(|why| why.ends_with("write 192.168.1.0/24")));
        for wrong in ["", "Internet", "192.168.1.0/33", "lan", "192.168.1.0/24 10.0.0.0/8"] {
            assert!(
                texts(wrong).is_err_and(|why| why.starts_with("it is `internet`, or networks")),
                "{wrong}"
            );
        }
    }
}
