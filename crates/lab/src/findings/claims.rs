//! The studies' conclusions, and how each is asked.

use super::{ALIKE, Answer, Figure, Most, Samples, Series, Side, Verdict, said};
use crate::number::number;
use crate::results::Place;
use crate::stats::{self, Interval};

type Ask = fn(&Samples<'_>) -> Answer;

/// strongSwan with the kernel's ESP, as the study had it.
const STRONGSWAN: &str = "strongswan-kernel";
/// The stand-in for [`STRONGSWAN`].
const IN_USER_SPACE: &str = "strongswan";
/// The subjects that Dekker and Spaans compared.
const COMPARED: [&str; 4] = [STRONGSWAN, "openvpn-udp", "wireguard-go", "wireguard-kernel"];

/// A study's conclusions.
pub(super) fn of(study: &str) -> Vec<(&'static str, Ask)> {
    match study {
        "dekker-2020" => dekker(),
        "pena-2000" => pena(),
        "vari" => vari(),
        "robur-2024" => robur(),
        "pudelko-2018" => pudelko(),
        _ => Vec::new(),
    }
}

/// Whether a subject is first among these, on the plan's first link.
fn among(
    samples: &Samples<'_>,
    subject: &str,
    all: &[&str],
    [workload, figure, unit]: [&str; 3],
    most: Most,
) -> Answer {
    let link = samples.link();
    let real = |name| match samples.values(link, workload, name, figure).is_empty() {
        true if name == STRONGSWAN => IN_USER_SPACE,
        _ => name,
    };
    let others: Vec<&str> = all.iter().filter(|other| **other != subject).map(|other| real(other)).collect();
    samples.is_first(real(subject), &others, &Figure { link, workload, figure, unit }, most)
}

/// The answer about a subject among all of the study.
fn first(samples: &Samples<'_>, subject: &str, of: [&str; 3], most: Most) -> Answer {
    among(samples, subject, &COMPARED, of, most)
}

const GOODPUT: [&str; 3] = ["tcp", "up_mbit", "Mbit/s"];
const PACKETS: [&str; 3] = ["udp-max", "received_mbit", "Mbit/s"];
const SMALL: [&str; 3] = ["udp-64", "received_pps", "packets/s"];
const LATENCY: [&str; 3] = ["latency", "idle_p50_us", "µs"];
const INITIATION: [&str; 3] = ["start", "handshake_ms", "ms"];
const EFFORT: [&str; 3] = ["tcp", "up_cpu_s_per_gb", "CPU s/GB"];

fn dekker() -> Vec<(&'static str, Ask)> {
    vec![
        ("strongSwan carries the most over TCP", |all| first(all, STRONGSWAN, GOODPUT, Most::Greatest)),
        ("wireguard-go carries the least over TCP", |all| first(all, "wireguard-go", GOODPUT, Most::Least)),
        ("strongSwan carries the most over UDP", |all| first(all, STRONGSWAN, PACKETS, Most::Greatest)),
        ("OpenVPN carries the fewest packets of 64 bytes", |all| {
            first(all, "openvpn-udp", SMALL, Most::Least)
        }),
        ("strongSwan has the lowest latency", |all| first(all, STRONGSWAN, LATENCY, Most::Least)),
        ("wireguard-go has the worst latency", |all| first(all, "wireguard-go", LATENCY, Most::Greatest)),
        ("WireGuard in the kernel and OpenVPN have the same latency", |all| {
            let of = |subject: &str| {
                let [workload, figure, unit] = LATENCY;
                let (link, workload) = (all.link().to_owned(), workload.to_owned());
                Series { subject: subject.to_owned(), link, workload, figure, unit }
            };
            all.compare(&of("wireguard-kernel"), &of("openvpn-udp"), Side::About)
        }),
        ("WireGuard is the fastest to initiate a connection", |all| {
            let subject = if has_kernel_wireguard(all) { "wireguard-kernel" } else { "wireguard-go" };
            among(all, subject, &[STRONGSWAN, "openvpn-udp"], INITIATION, Most::Least)
        }),
        ("strongSwan is faster than OpenVPN to initiate a connection", |all| {
            among(all, STRONGSWAN, &["openvpn-udp"], INITIATION, Most::Least)
        }),
        ("OpenVPN is the slowest to initiate a connection", |all| {
            first(all, "openvpn-udp", INITIATION, Most::Greatest)
        }),
        ("strongSwan takes the least processor time for what it carries", |all| {
            first(all, STRONGSWAN, EFFORT, Most::Least)
        }),
        ("wireguard-go takes the most processor time for what it carries", |all| {
            first(all, "wireguard-go", EFFORT, Most::Greatest)
        }),
    ]
}

fn has_kernel_wireguard(all: &Samples<'_>) -> bool {
    let [workload, figure, _] = INITIATION;
    !all.values(all.link(), workload, "wireguard-kernel", figure).is_empty()
}

/// A subject on a link: a flow's goodput, or a file's where the link is too slow for a flow.
fn throughput(all: &Samples<'_>, link: &str, subject: &str, compressible: bool) -> Series {
    let suffix = if compressible { COMPRESSIBLE } else { "" };
    let series = |workload: String, figure, unit| Series {
        subject: subject.to_owned(),
        link: link.to_owned(),
        workload,
        figure,
        unit,
    };
    let flow = series(format!("tcp{suffix}"), "up_mbit", "Mbit/s");
    let names = all.results.plan.workloads.iter().map(|load| load.name());
    let files = names.filter(|name| {
        let length = name.strip_prefix("transfer-").and_then(|rest| rest.strip_suffix(suffix));
        length.is_some_and(|length| length.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let files = files.map(|name| series(name, "up_kbyte_s", "kB/s"));
    let mut known = std::iter::once(flow.clone()).chain(files);
    known.find(|series| !series.values(all).is_empty()).unwrap_or(flow)
}

/// Moves packets, but is no VPN.
const NULL: &str = "null";
const PLAIN: &str = "openvpn-udp";
const COMPRESSED: &str = "openvpn-udp-lz4";
/// How the names of workloads end whose bytes compress.
const COMPRESSIBLE: &str = "-compressible";
/// The share of a processor that each end's program takes.
const PROCESSOR: [&str; 2] = ["up_client_cpu_percent", "up_server_cpu_percent"];

fn pena() -> Vec<(&'static str, Ask)> {
    vec![
        ("A VPN in user space takes more than 65 % of what a fast link carries", takes_most),
        ("On a fast link a VPN takes up to 97 % of a processor", |all| {
            let [_, fast] = all.slowest_and_fastest();
            let most = at_most(all, |place| place.link == fast, &PROCESSOR, 97.0, "%");
            match most.verdict {
                Verdict::Holds => Answer { verdict: Verdict::NoLonger, ..most },
                Verdict::NoLonger => Answer { verdict: Verdict::Holds, ..most },
                Verdict::CannotBeTold => most,
            }
        }),
        ("The length of the key costs nothing", |all| {
            let [_, fast] = all.slowest_and_fastest();
            let of = |subject| throughput(all, fast, subject, false);
            all.compare(&of(PLAIN), &of("openvpn-udp-aes128"), Side::About)
        }),
        ("Ciphering costs throughput on a fast link (24 %)", |all| {
            let [_, fast] = all.slowest_and_fastest();
            let of = |subject| throughput(all, fast, subject, false);
            all.compare(&of(PLAIN), &of("openvpn-udp-none"), Side::Below)
        }),
        ("Compression makes a fast link slower", |all| {
            let [_, fast] = all.slowest_and_fastest();
            let of = |subject| throughput(all, fast, subject, false);
            all.compare(&of(COMPRESSED), &of(PLAIN), Side::Below)
        }),
        ("Compression makes a slow link faster where the data compresses", |all| {
            let [slow, _] = all.slowest_and_fastest();
            let of = |subject| throughput(all, slow, subject, true);
            all.compare(&of(COMPRESSED), &of(PLAIN), Side::Above)
        }),
        ("Compression gains nothing on a slow link where the data does not compress", |all| {
            let [slow, _] = all.slowest_and_fastest();
            let of = |subject| throughput(all, slow, subject, false);
            all.compare(&of(COMPRESSED), &of(PLAIN), Side::About)
        }),
        ("The modes of IPsec differ by 0.3 % only", |_| {
            Answer::unknown(
                "FreeS/WAN is extinct, and the lab runs one mode of IPsec, tunnel mode with AES-GCM",
            )
        }),
        ("On a slow link a VPN takes less than 5 % of a processor", |all| {
            let [slow, _] = all.slowest_and_fastest();
            // A load that compresses to next to nothing is not held up by the link.
            let is_held_up = |place: &Place| place.link == slow && !place.workload.ends_with(COMPRESSIBLE);
            at_most(all, is_held_up, &PROCESSOR, 5.0, "%")
        }),
        ("A VPN takes less than 1 % of the memory", |all| {
            let memory = all.results.environment.memory_kib as f64;
            if memory == 0.0 {
                return Answer::unknown("the machine's memory is not known");
            }
            at_most(all, |_| true, &["client_pss_kib", "server_pss_kib"], memory / 100.0, "KiB")
        }),
    ]
}

/// Whether every tunnel leaves less than 35 % of what the bare link carries.
fn takes_most(all: &Samples<'_>) -> Answer {
    let [_, fast] = all.slowest_and_fastest();
    let bare = throughput(all, fast, "veth", false);
    let tunnels = all.results.plan.subjects.iter().filter(|name| *name != "veth" && *name != NULL);
    let tunnels: Vec<Series> = tunnels.map(|name| throughput(all, fast, name, false)).collect();
    let mut figure = Vec::new();
    let mut verdict = Verdict::Holds;
    for tunnel in &tunnels {
        let Some((ratio, interval)) = stats::ratio(tunnel.values(all), bare.values(all)) else { continue };
        figure.push(format!("{} keeps {:.0} %", tunnel.subject, ratio * 100.0));
        verdict = match interval {
            Some(interval) if interval.low > 0.35 => Verdict::NoLonger,
            Some(interval) if interval.high < 0.35 => verdict,
            _ if verdict == Verdict::NoLonger => verdict,
            _ => Verdict::CannotBeTold,
        };
    }
    match figure.is_empty() {
        true => Answer::unknown("no tunnel was measured beside the bare link"),
        false => Answer { verdict, figure: figure.join("; ") },
    }
}

/// Whether the medians of all tunnels stay within a limit.
fn at_most(
    all: &Samples<'_>,
    counts: impl Fn(&Place) -> bool,
    figures: &[&str],
    limit: f64,
    unit: &str,
) -> Answer {
    let ours = all.figures.iter().filter(|(place, _)| {
        figures.contains(&place.figure.as_str()) && place.subject != NULL && counts(place)
    });
    let medians = ours.filter_map(|(place, values)| Some((stats::median(values)?, place, values)));
    let Some((most, place, values)) = medians.max_by(|(a, ..), (b, ..)| a.total_cmp(b)) else {
        return Answer::unknown("it was not measured");
    };
    let figure = format!(
        "the most is {} of {} on {:?}; the limit is {} {unit}",
        said(values, unit),
        place.subject,
        place.link,
        number(limit)
    );
    Answer { verdict: if most < limit { Verdict::Holds } else { Verdict::NoLonger }, figure }
}

fn vari() -> Vec<(&'static str, Ask)> {
    vec![
        ("A TUN queue of 100 packets drops, one of 1000 does not", |all| {
            let dropped = |queue| {
                let link = all.with_queue(queue);
                all.values(link, "tcp", PLAIN, "queue_dropped")
            };
            let (short, long) = (dropped(100), dropped(1000));
            if short.is_empty() || long.is_empty() {
                return Answer::unknown(format!("{PLAIN} was not measured with queues of 100 and 1000"));
            }
            let figure = format!(
                "{} against {}; less than a twentieth counts as none",
                said(short, "dropped"),
                said(long, "dropped")
            );
            match stats::median_interval(short).zip(stats::median_interval(long)) {
                None => Answer::unknown(format!("{figure}; fewer than 3 rounds have no interval")),
                Some((short, long)) => Answer { verdict: judge_drops(short, long), figure },
            }
        }),
        ("The longer queue makes the tunnel faster (73.9 instead of 47.5 Mbit/s)", |all| {
            let of = |queue| throughput(all, all.with_queue(queue), PLAIN, false);
            all.compare(&of(1000), &of(100), Side::Above)
        }),
    ]
}

/// Whether a short queue drops, and a long one next to nothing of that.
fn judge_drops(short: Interval, long: Interval) -> Verdict {
    if short.low > 0.0 && long.high <= ALIKE * short.low {
        Verdict::Holds
    } else if short.high == 0.0 || long.low > ALIKE * short.high {
        Verdict::NoLonger
    } else {
        Verdict::CannotBeTold
    }
}

fn robur() -> Vec<(&'static str, Ask)> {
    vec![("OpenVPN over TCP is faster than MirageVPN (360 and 250 Mbit/s)", |all| {
        let of = |name| {
            let values = throughput(all, all.link(), name, false);
            let values = values.values(all);
            (!values.is_empty()).then(|| all.said(name, values, "Mbit/s"))
        };
        let figures: Vec<String> = ["openvpn-tcp", "adit-tcp"].into_iter().filter_map(of).collect();
        let here = if figures.is_empty() { String::new() } else { format!("; here {}", figures.join("; ")) };
        Answer::unknown(format!("MirageVPN is not measured here{here}"))
    })]
}

fn pudelko() -> Vec<(&'static str, Ask)> {
    vec![("WireGuard in the kernel carries nothing when it is offered four times its most", |all| {
        let of = |subject: &str, figure| {
            let values = all.values(all.link(), "sweep-64", subject, figure);
            stats::median(values).map(|median| (median, values))
        };
        let kept = |subject: &str| {
            let ((most, _), (last, values)) = (of(subject, "most_pps")?, of(subject, "overload_pps")?);
            let figure = format!(
                "{subject} carries at most {} packets/s, and overloaded {}",
                number(most),
                said(values, "packets/s")
            );
            Some((last / most, figure))
        };
        match (kept("wireguard-kernel"), kept("wireguard-go")) {
            (Some((kept, figure)), _) if kept < 0.1 => Answer { verdict: Verdict::Holds, figure },
            (Some((_, figure)), _) => Answer { verdict: Verdict::NoLonger, figure },
            (None, Some((_, figure))) => {
                let elsewhere = all.elsewhere("wireguard-kernel");
                Answer::unknown(format!("no WireGuard in this kernel; {figure}{elsewhere}"))
            }
            (None, None) => Answer::unknown("no WireGuard was measured"),
        }
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_to_nothing_is_no_drop() {
        let of = |short: [f64; 2], long: [f64; 2]| {
            let [short, long] = [short, long].map(|[low, high]| Interval { low, high });
            judge_drops(short, long)
        };
        assert_eq!(of([14_298.0, 19_339.0], [0.0, 199.0]), Verdict::Holds);
        assert_eq!(
            of([14_298.0, 19_339.0], [2_000.0, 3_000.0]),
            Verdict::NoLonger,
            "the long one drops, too"
        );
        assert_eq!(of([0.0, 0.0], [0.0, 0.0]), Verdict::NoLonger, "the short one does not drop");
        assert_eq!(of([0.0, 100.0], [0.0, 0.0]), Verdict::CannotBeTold);
        assert_eq!(of([1_000.0, 2_000.0], [10.0, 500.0]), Verdict::CannotBeTold);
    }
}
