//! The file of `ifconfig-pool-persist`: `NAME,IPV4,IPV6` on each line (OpenVPN pool.c).

use std::fmt::Write as _;

use adit_core::PoolEntry;

/// Most entries read: as many as a pool has addresses.
const MAX_ENTRIES: usize = 65_536;

/// Reads the file. Lines that cannot be read are passed over, as OpenVPN does; comments start with `#` or `;`.
pub fn parse_pool_file(text: &str) -> Vec<PoolEntry> {
    text.lines().filter_map(entry).take(MAX_ENTRIES).collect()
}

fn entry(line: &str) -> Option<PoolEntry> {
    if line.starts_with(['#', ';']) {
        return None;
    }
    let mut parts = line.trim_end().split(',');
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let ipv4 = parts.next().and_then(|address| address.parse().ok());
    let ipv6 = parts.next().and_then(|address| address.parse().ok());
    (ipv4.is_some() || ipv6.is_some()).then_some(PoolEntry { name, ipv4, ipv6 })
}

/// The file as OpenVPN writes it. A name with a comma or a line's end cannot stand in it and is left out.
pub fn print_pool_file<'a>(entries: impl IntoIterator<Item = &'a PoolEntry>) -> String {
    let mut text = String::new();
    for PoolEntry { name, ipv4, ipv6 } in entries {
        if name.contains(|c: char| c == ',' || c.is_control()) || name.starts_with(['#', ';']) {
            continue;
        }
        let v4 = ipv4.map_or(String::new(), |address| address.to_string());
        let v6 = ipv6.map_or(String::new(), |address| address.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name},{v4},{v6}");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_openvpn_wrote() {
        let text =
            "# comment\nanna,10.8.0.2,fd00::1000\nberta,10.8.0.3\nclara,,fd00::1002\n\ndora\nemil,x,y\n";
        let entries = parse_pool_file(text);
        assert_eq!(
            print_pool_file(&entries),
            "anna,10.8.0.2,fd00::1000\nberta,10.8.0.3,\nclara,,fd00::1002\n"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_what_is_printed_reads_the_same(text in "([ -~]{0,9},[0-9.]{0,9},[a-f0-9:]{0,9}\n|.{0,9}\n){0,9}") {
            let entries = parse_pool_file(&text);
            let printable: Vec<PoolEntry> =
                entries.into_iter().filter(|entry| !entry.name.contains(char::is_control)).collect();
            prop_assert_eq!(parse_pool_file(&print_pool_file(&printable)), printable);
        }
    }
}
