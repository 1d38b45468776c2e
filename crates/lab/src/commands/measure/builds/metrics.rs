//! The figures by which two builds are compared, and how much the later one may differ.

/// How the later build's figure may relate to the earlier one's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// More is better: the ratio is at least this.
    AtLeast(f64),
    /// Less is better: the ratio is at most this.
    AtMost(f64),
}

impl Limit {
    /// Whether a ratio is within it.
    pub(super) fn allows(self, ratio: f64) -> bool {
        match self {
            Limit::AtLeast(least) => ratio >= least,
            Limit::AtMost(most) => ratio <= most,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::AtLeast(least) => write!(f, "≥ {least:.2}"),
            Limit::AtMost(most) => write!(f, "≤ {most:.2}"),
        }
    }
}

/// A figure that is judged.
pub(super) struct Metric {
    pub(super) name: &'static str,
    /// Its name, with its unit.
    pub(super) words: &'static str,
    pub(super) limit: Limit,
    pub(super) decimals: usize,
}

const GOODPUT: Limit = Limit::AtLeast(0.98);
const PACKETS: Limit = Limit::AtLeast(0.98);
const ROUND_TRIP: Limit = Limit::AtMost(1.03);
const BENCH: Limit = Limit::AtMost(1.02);
const HANDSHAKES: Limit = Limit::AtLeast(0.97);
const MEMORY: Limit = Limit::AtMost(1.05);

const fn metric(name: &'static str, words: &'static str, limit: Limit, decimals: usize) -> Metric {
    Metric { name, words, limit, decimals }
}

/// All of them, in the order of the table.
pub(super) const METRICS: [Metric; 11] = [
    metric("udp_up_mbit", "UDP, one TCP flow to the server, Mbit/s", GOODPUT, 0),
    metric("udp_down_mbit", "UDP, one TCP flow to the client, Mbit/s", GOODPUT, 0),
    metric("tcp_up_mbit", "TCP, one TCP flow to the server, Mbit/s", GOODPUT, 0),
    metric("tcp_down_mbit", "TCP, one TCP flow to the client, Mbit/s", GOODPUT, 0),
    metric("udp64_pps", "UDP, packets of 64 bytes received a second", PACKETS, 0),
    metric("udp_idle_p50_us", "UDP, round trip p50, µs", ROUND_TRIP, 1),
    metric("tcp_idle_p50_us", "TCP, round trip p50, µs", ROUND_TRIP, 1),
    metric(BENCH_SEAL, "`adit bench`, sealing, geometric mean of all rows, ns", BENCH, 1),
    metric(BENCH_OPEN, "`adit bench`, opening, geometric mean of all rows, ns", BENCH, 1),
    metric("handshakes", "handshakes a second and core", HANDSHAKES, 0),
    metric("client_rss_kib", "server's memory a client, KiB", MEMORY, 1),
];

/// Means over the rows of `adit bench`.
pub(super) const BENCH_SEAL: &str = "bench_seal_ns";
pub(super) const BENCH_OPEN: &str = "bench_open_ns";

/// The limit for a single row of `adit bench`.
pub(super) const BENCH_ROW: Limit = BENCH;

/// The rows of `adit bench --json`: each row's name, and nanoseconds a packet for sealing and for opening.
pub(super) fn bench_rows(json: &serde_json::Value) -> Vec<(String, [f64; 2])> {
    let rows = json["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |row: &serde_json::Value| {
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        let name = format!("{}/{}/{}/{}", text("load")?, text("transport")?, text("cipher")?, row["bytes"]);
        let median = |key: &str| row[key]["median"].as_f64();
        Some((name, [median("seal_ns")?, median("open_ns")?]))
    };
    rows.iter().filter_map(row).collect()
}

/// The geometric mean; nothing of nothing.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        assert!(Limit::AtLeast(0.98).allows(0.98) && !Limit::AtLeast(0.98).allows(0.979));
        assert!(Limit::AtMost(1.02).allows(1.02) && !Limit::AtMost(1.02).allows(1.021));
        assert!(!Limit::AtLeast(0.98).allows(f64::NAN) && !Limit::AtMost(1.02).allows(f64::NAN));
        assert_eq!(
            [Limit::AtLeast(0.98), Limit::AtMost(1.05)].map(|limit| limit.to_string()),
            ["≥ 0.98", "≤ 1.05"]
        );
    }

    #[test]
    fn each_metric_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn rows_of_bench_are_read() {
        let row = serde_json::json!({ "load": "packets", "transport": "udp", "cipher": "AES-256-GCM", "bytes": 64,
            "seal_ns": { "median": 100.0 }, "open_ns": { "median": 121.0 } });
        let rows = bench_rows(&serde_json::json!({ "rows": [row, {}] }));
        assert_eq!(rows, [("packets/udp/AES-256-GCM/64".to_owned(), [100.0, 121.0])]);
        assert!(bench_rows(&serde_json::Value::Null).is_empty());
    }

    #[test]
    fn a_geometric_mean_weighs_ratios() {
        let mean = geometric_mean([10.0, 1000.0].into_iter()).unwrap();
        assert!((mean - 100.0).abs() < 1e-9);
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }
}
