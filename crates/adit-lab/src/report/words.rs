//! What figures are called.

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
    ("server_pss_kib", "the server's memory, KiB"),
    ("client_pss_kib", "the client's memory, KiB"),
    ("ndr_pps", "most without loss (NDR), packets a second"),
    ("pdr_pps", "most with up to 1 % lost (PDR), packets a second"),
    ("offered_pps", "offered, packets a second"),
    ("received_pps", "received, packets a second"),
    ("double_offered_pps", "offered at twice that"),
    ("double_received_pps", "received then"),
    ("kept", "kept at twice the load"),
    ("idle_p50_us", "idle, median, µs"),
    ("idle_p99_us", "idle, 99 %, µs"),
    ("idle_p999_us", "idle, 99.9 %, µs"),
    ("idle_lost", "idle, lost"),
    ("loaded_p50_us", "under load, median, µs"),
    ("loaded_p99_us", "under load, 99 %, µs"),
    ("loaded_p999_us", "under load, 99.9 %, µs"),
    ("loaded_lost", "under load, lost"),
    ("queue_dropped", "dropped in the TUN queue"),
    ("start_ms", "start to first reply, ms"),
    ("move_outage_ms", "nothing came through, ms"),
    ("move_lost", "lost by moving"),
    ("link_lost", "share that the link lost"),
    ("link_reordered", "share that the link held back"),
    ("link_duplicated", "share that the link sent twice"),
    ("link_crowded_out", "share that found the link's queue full"),
];

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
        "latency" => "Round trips, a thousand a second".to_owned(),
        "move" => "The client's address changes".to_owned(),
        "start" => "From start to the first reply".to_owned(),
        _ => match (name.strip_prefix("udp-"), name.strip_prefix("tcp-")) {
            (Some(size), _) => format!("UDP, {size} bytes"),
            (_, Some(size)) => format!("One TCP flow, {size} bytes a write"),
            _ => name.to_owned(),
        },
    }
}

/// Three or four digits that count.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!(
            ["12346", "99.9", "1.57", "0.03"].map(str::to_owned),
            [12345.6, 99.94, 1.567, 0.031].map(number)
        );
    }

    #[test]
    fn what_has_no_words_keeps_its_name() {
        assert_eq!(figure("odd_thing"), "odd_thing");
        assert_eq!(workload("udp-64"), "UDP, 64 bytes");
    }
}
