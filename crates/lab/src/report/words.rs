//! The words for figures.

use crate::number::number;

/// Figures in the order in which they are shown, with their words and units.
const FIGURES: &[(&str, &str)] = &[
    ("up_mbit", "to the server, Mbit/s"),
    ("down_mbit", "to the client, Mbit/s"),
    ("up_cpu_s_per_gb", "to the server, CPU seconds a GB"),
    ("down_cpu_s_per_gb", "to the client, CPU seconds a GB"),
    ("up_server_cpu_s_per_gb", "of it the server's program, CPU seconds a GB"),
    ("up_client_cpu_s_per_gb", "of it the client's program, CPU seconds a GB"),
    ("down_server_cpu_s_per_gb", "to the client: the server's program, CPU seconds a GB"),
    ("down_client_cpu_s_per_gb", "to the client: the client's program, CPU seconds a GB"),
    ("up_server_cpu_percent", "to the server: the server's program, % of a processor"),
    ("up_client_cpu_percent", "to the server: the client's program, % of a processor"),
    ("down_server_cpu_percent", "to the client: the server's program, % of a processor"),
    ("down_client_cpu_percent", "to the client: the client's program, % of a processor"),
    ("up_busy_percent", "to the server: the machine, % busy"),
    ("down_busy_percent", "to the client: the machine, % busy"),
    ("up_kbyte_s", "to the server, kB/s"),
    ("server_rss_kib", "the server's memory, RSS, KiB"),
    ("client_rss_kib", "the client's memory, RSS, KiB"),
    ("server_pss_kib", "the server's memory, PSS, KiB"),
    ("client_pss_kib", "the client's memory, PSS, KiB"),
    ("payload_bytes", "bytes of payload"),
    ("ndr_pps", "most without loss (NDR), packets a second"),
    ("ndr_mbit", "the same, Mbit/s"),
    ("pdr_pps", "most with up to 1 % lost (PDR), packets a second"),
    ("pdr_mbit", "the same, Mbit/s"),
    ("most_pps", "the most that arrived at any load, packets a second"),
    ("most_mbit", "the same, Mbit/s"),
    ("overload_pps", "arrived at the highest load, packets a second"),
    ("overload_mbit", "the same, Mbit/s"),
    ("offered_pps", "offered, packets a second"),
    ("received_pps", "received, packets a second"),
    ("received_mbit", "received, Mbit/s"),
    ("server_cpu_s_per_gb", "of the server's program, CPU seconds a GB"),
    ("client_cpu_s_per_gb", "of the client's program, CPU seconds a GB"),
    ("server_cpu_percent", "the server's program, % of a processor"),
    ("client_cpu_percent", "the client's program, % of a processor"),
    ("busy_percent", "the machine, % busy"),
    ("double_offered_pps", "offered at twice that"),
    ("double_received_pps", "received then"),
    ("kept", "kept at twice the load, %"),
    ("idle_p50_us", "idle, median, µs"),
    ("idle_p99_us", "idle, 99 %, µs"),
    ("idle_p999_us", "idle, 99.9 %, µs"),
    ("idle_lost", "idle, lost"),
    ("loaded_p50_us", "under load, median, µs"),
    ("loaded_p99_us", "under load, 99 %, µs"),
    ("loaded_p999_us", "under load, 99.9 %, µs"),
    ("loaded_lost", "under load, lost"),
    ("queue_dropped", "dropped in the TUN queue"),
    ("idle_server_cpu_percent", "idle: the server's program, % of a processor"),
    ("idle_client_cpu_percent", "idle: the client's program, % of a processor"),
    ("start_ms", "start to first reply, ms"),
    ("handshake_ms", "first datagram to first reply, ms"),
    ("clients", "clients that came up"),
    ("storm_ms", "all clients up, ms"),
    ("storm_per_s", "clients a second"),
    ("server_cpu_per_client_ms", "the server's CPU for each client, ms"),
    ("client_cpu_per_client_ms", "a client's CPU until it is up, ms"),
    ("server_rss_per_client_kib", "the server's memory for each client, RSS, KiB"),
    ("seal_ns", "seal a packet in memory, ns"),
    ("open_ns", "open a packet in memory, ns"),
    ("seal_mbit", "seal in memory, Mbit/s"),
    ("open_mbit", "open in memory, Mbit/s"),
    ("move_outage_ms", "nothing came through, ms"),
    ("move_lost", "lost by moving"),
    ("link_lost", "lost by the link, % of the frames"),
    ("link_reordered", "held back by the link, % of the frames"),
    ("link_duplicated", "sent twice by the link, % of the frames"),
    ("link_crowded_out", "found the link's queue full, % of the frames"),
];

/// A figure's value in the unit that its words name: what files hold as a share is shown in percent.
pub(super) fn value(figure: &str, value: f64) -> String {
    let is_share = figure == "kept" || figure.starts_with("link_");
    number(if is_share { value * 100.0 } else { value })
}

/// A figure in words, with its unit.
pub(super) fn figure(name: &str) -> String {
    FIGURES.iter().find(|(key, _)| *key == name).map_or(name, |(_, words)| words).to_owned()
}

/// Its place among the columns; what is not known comes last.
pub(super) fn order(name: &str) -> usize {
    FIGURES.iter().position(|(key, _)| *key == name).unwrap_or(FIGURES.len())
}

/// A workload in words.
pub(super) fn workload(name: &str) -> String {
    match name {
        "tcp" => "One TCP flow".to_owned(),
        "latency-idle" => "Round trips, a thousand a second, nothing else under way".to_owned(),
        "latency" => "Round trips, a thousand a second".to_owned(),
        "move" => "The client's address changes".to_owned(),
        "start" => "From start to the first reply".to_owned(),
        "in-memory" => "Sealing and opening in memory, 1024 bytes".to_owned(),
        _ => sized(name).unwrap_or_else(|| name.to_owned()),
    }
}

/// Several workloads in words; none means all that there are.
pub(super) fn workloads(names: &[String]) -> String {
    match names {
        [] => "everything".to_owned(),
        some => some.iter().map(|name| workload(name)).collect::<Vec<_>>().join("; "),
    }
}

/// The words of a workload whose name ends with a number, and perhaps with what the bytes look like.
fn sized(name: &str) -> Option<String> {
    let (plain, after) = match name.strip_suffix("-compressible") {
        Some(plain) => (plain, ", bytes that compress"),
        None => (name, ""),
    };
    if plain == "tcp" {
        return Some(format!("One TCP flow{after}"));
    }
    let (kind, number) = plain.rsplit_once('-')?;
    let words = match kind {
        "udp" => format!("UDP, {}", packet(number)),
        "sweep" => format!("UDP, {}, loads from low to beyond saturation", packet(number)),
        "tcp" => format!("One TCP flow, {number} bytes a write"),
        "transfer" => format!("A file of {number} KiB over TCP"),
        "clients" => format!("{number} clients of one server, all at once"),
        _ => return None,
    };
    Some(words + after)
}

fn packet(size: &str) -> String {
    match size {
        "max" => "as many bytes as the tunnel's MTU holds".to_owned(),
        size => format!("{size} bytes"),
    }
}

/// The remark on the interval of a few values: it is from the least of them to the greatest, and all lie on one side of
/// the true median with a probability of 2 / 2^n.
pub(super) const FEW_ROUNDS: &str = "; of so few rounds they are narrower than that: of 3 they hold the true median 3 times in 4, of 5 15 times in 16";

/// The conclusions that figures of an emulated processor allow, and those that they do not.
pub(super) const EMULATED: &str = "an emulator ran the processor. Each figure is a multiple of another subject's in this run, named above its \
    column. It may say that a subject works with this kernel, and which of two subjects makes the emulator work more. Where a load of a fixed \
    rate, such as a thousand echoes a second, is more than the emulator can do with a subject, a round trip is the time in a queue, and \
    not the subject's. The figures say nothing of any machine's speed, and stand beside no figure of another run or of a study; none of the \
    study's conclusions can be told from them.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shown_in_percent() {
        assert_eq!(value("link_lost", 0.001), "0.10");
        assert_eq!(value("link_lost", 0.000_03), "0.0030");
        assert_eq!(value("link_reordered", 0.02), "2");
        assert_eq!(value("kept", 0.875), "87.5");
        assert_eq!(value("up_mbit", 0.875), "0.88");
        for name in ["kept", "link_lost", "link_reordered", "link_duplicated", "link_crowded_out"] {
            assert!(figure(name).contains('%'), "{name}");
        }
    }

    #[test]
    fn what_has_no_words_keeps_its_name() {
        assert_eq!(figure("odd_thing"), "odd_thing");
        assert_eq!(workload("odd-thing"), "odd-thing");
        assert_eq!(workload("udp-64"), "UDP, 64 bytes");
        assert_eq!(workload("transfer-32-compressible"), "A file of 32 KiB over TCP, bytes that compress");
    }
}
