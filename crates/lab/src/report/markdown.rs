//! The figures and findings of several runs as Markdown: a page for each run, and an index of them.

use std::path::{Path, PathBuf};

use super::families::{self, Family};
use super::{label, words};
use crate::error::LabError;
use crate::findings;
use crate::number::number;
use crate::results::{FailedSubject, Place, Results};
use crate::stats::{self, Interval};

/// Figures that are shown; all of them are in the folders' own files.
const SHOWN: [&str; 37] = [
    "up_mbit",
    "down_mbit",
    "up_kbyte_s",
    "up_cpu_s_per_gb",
    "up_server_cpu_percent",
    "up_client_cpu_percent",
    "server_pss_kib",
    "client_pss_kib",
    "received_pps",
    "received_mbit",
    "kept",
    "ndr_pps",
    "pdr_pps",
    "most_pps",
    "overload_pps",
    "idle_p50_us",
    "idle_p99_us",
    "idle_p999_us",
    "loaded_p50_us",
    "loaded_p99_us",
    "queue_dropped",
    "start_ms",
    "handshake_ms",
    "clients",
    "storm_ms",
    "server_cpu_per_client_ms",
    "server_rss_per_client_kib",
    "seal_ns",
    "open_ns",
    "seal_mbit",
    "open_mbit",
    "move_outage_ms",
    "move_lost",
    "link_lost",
    "link_reordered",
    "link_duplicated",
    "link_crowded_out",
];

const HEAD: &str = "# What the lab measured

Written by `adit-lab results` from the runs' own files; not edited by hand. Figures are medians over all rounds,
with 95 % intervals (bootstrap) where there were three rounds or more; of 3 rounds such an interval is from the least
to the greatest and holds the true median 3 times in 4, of 5 rounds 15 times in 16. All peers and the load share one
machine's processors: compare subjects with each other, not with other machines. What has no mark was *measured*; a
*stand-in* was measured, but of something that stands in for what is meant; what is *published* was measured by
others, on other machines. Subjects stand by family, adit's direct peers first. The drawing above a table shows its first
figures: a bar is a median (adit's are green, a stand-in's light), the line on it the interval; one sample has none. It is drawn
from the table (`adit-lab results --redraw DIR` draws again), as the runs' folders are not in the repository; curves of all
samples are in a run's own `report.html`. A subject that a plan got after its run is *not measured on this machine yet*.
[LAB.md](../LAB.md) says how to repeat it.
";

/// The name of the index, which hosts of repositories show with the folder.
const INDEX: &str = "README.md";

/// A file of Markdown.
pub(crate) struct Page {
    /// Its name in the folder of the pages.
    pub(crate) name: String,
    /// All of its text.
    pub(crate) text: String,
}

/// An index, and after it one page for each of these runs, in their order.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn markdown(directories: &[PathBuf]) -> Result<Vec<Page>, LabError> {
    let mut index = HEAD.to_owned();
    let mut runs: Vec<Page> = Vec::new();
    index += if directories.is_empty() {
        "\nThere is no run here yet.\n"
    } else {
        "\n| page | run | when |\n|---|---|---|\n"
    };
    for directory in directories {
        let results = Results::read(directory)?;
        let name = file_name(&results.environment.command, &runs);
        let (title, environment) = (plain(&results.plan.title), &results.environment);
        index += &format!("| [{title}]({name}) | `{}` | {} UTC |\n", environment.command, environment.date);
        runs.push(Page { name, text: of(&results) });
    }
    runs.insert(0, Page { name: INDEX.to_owned(), text: index });
    Ok(runs)
}

/// The plan that the command names, with `-guest` of a run in a guest, and a number where there is a page of that name already.
fn file_name(command: &str, pages: &[Page]) -> String {
    let plan = command.split_whitespace().skip_while(|word| *word != "run").nth(1).unwrap_or("run");
    let stem = Path::new(plan).file_stem().and_then(|stem| stem.to_str()).unwrap_or("run");
    let is_of_guest = command.split_whitespace().any(|word| word.starts_with("--guest"));
    let stem = if is_of_guest { format!("{stem}-guest") } else { stem.to_owned() };
    let taken = |name: &String| pages.iter().any(|page| page.name == *name);
    let numbered = (2..).map(|number| format!("{stem}-{number}.md"));
    let mut names = std::iter::once(format!("{stem}.md")).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}

fn of(results: &Results) -> String {
    let (plan, environment) = (&results.plan, &results.environment);
    let mut text = format!("# {}\n\n", plain(&plan.title));
    text += &format!(
        "`{}`, {} UTC, {} × {}, {} MiB, Linux {}; load average before {}; {} of each, loads of {} s.\n",
        environment.command,
        environment.date,
        environment.processors,
        environment.processor,
        environment.memory_kib / 1024,
        environment.kernel,
        environment.load_average,
        if plan.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", plan.rounds) },
        plan.seconds
    );
    text += &format!("[What the figures are, and the other runs]({INDEX}).\n");
    if environment.emulated {
        text += &format!("\n**Emulated**: {}\n", words::EMULATED);
    }
    let (done, all) = results.progress();
    if done < all {
        text += &format!("\n**This run is not complete**: {done} of {all} measurements are there.\n");
    }
    if let Some(wire) = &environment.wire {
        let of = |bare: crate::environment::Bare| {
            format!("{} Mbit/s, {} µs", number(bare.mbit), number(bare.round_trip_us))
        };
        text += &format!("\nThe lab's own link: {}; the kernel's: {}.\n", of(wire.own), of(wire.kernel));
    }
    text += &conclusions(results);
    let figures = results.figures();
    for link in &plan.links {
        for load in plan.workloads.iter().map(|load| load.name()) {
            text += &table(results, &figures, &link.name, &load);
        }
    }
    text + &failures(results) + &published(results)
}

/// The measurements that others published, apart from those of this run.
fn published(results: &Results) -> String {
    let Some(study) = super::study(results) else { return String::new() };
    let mut text =
        format!("\n*Published*, not measured here: {}; {}.\n", plain(&study.title), plain(&study.conditions));
    text += "\n| *published* |";
    study.columns.iter().for_each(|column| text += &format!(" {} |", plain(column)));
    text += &format!("\n|---|{}\n", "---:|".repeat(study.columns.len()));
    for row in &study.rows {
        text += &format!("| *{}* |", plain(&row.name));
        row.values.iter().for_each(|value| text += &format!(" *{}* |", number(*value)));
        text.push('\n');
    }
    if !study.systems.is_empty() {
        let lines = study
            .systems
            .iter()
            .map(|system| format!("- {}: {}\n", plain(&system.name), plain(&system.about)));
        text += &format!("\nKnown from the study alone:\n\n{}", lines.collect::<String>());
    }
    text
}

fn conclusions(results: &Results) -> String {
    let findings = findings::findings(results);
    if findings.is_empty() {
        return String::new();
    }
    let lines = findings.iter().map(|finding| {
        format!("| {} | {} | {} |\n", plain(&finding.claim), finding.verdict, plain(&finding.figure))
    });
    format!("\n| the study concluded | here | by |\n|---|---|---|\n{}", lines.collect::<String>())
}

type Figures = std::collections::BTreeMap<Place, Vec<f64>>;

fn table(results: &Results, figures: &Figures, link: &str, load: &str) -> String {
    let ours = |place: &&Place| place.link == link && place.workload == load;
    let names =
        SHOWN.into_iter().filter(|name| figures.keys().filter(ours).any(|place| place.figure == *name));
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("\n## {}, {}\n\n| subject |", plain(&words::workload(load)), plain(link));
    names.iter().for_each(|name| text += &format!(" {} |", super::title(results, link, load, name)));
    text += &format!("\n|---|{}\n", "---:|".repeat(names.len()));
    let mut rows: Vec<(Family, String)> = Vec::new();
    for subject in families::ordered(&results.plan.subjects) {
        let cells: Vec<Option<String>> = names
            .iter()
            .map(|name| {
                let [link, workload, figure, subject] = [link, load, name, subject].map(str::to_owned);
                figures.get(&Place { link, workload, figure, subject }).and_then(|values| cell(name, values))
            })
            .collect();
        if cells.iter().any(Option::is_some) {
            let mark = super::table::mark(label(results, subject));
            let mut row = format!("| {subject}{mark} |");
            cells.into_iter().for_each(|cell| row += &format!(" {} |", cell.unwrap_or("–".to_owned())));
            rows.push((Family::of(subject), row + "\n"));
        }
    }
    let families: Vec<Family> = rows.iter().map(|(family, _)| *family).collect();
    for ((_, row), heading) in rows.iter().zip(families::headings(&families)) {
        if let Some(heading) = heading {
            text += &format!("| **{heading}** |{}\n", " |".repeat(names.len()));
        }
        text += row;
    }
    text
}

fn cell(figure: &str, values: &[f64]) -> Option<String> {
    let median = words::value(figure, stats::median(values)?);
    Some(match stats::median_interval(values) {
        Some(Interval { low, high }) => {
            format!("{median} ({}–{})", words::value(figure, low), words::value(figure, high))
        }
        None => median,
    })
}

fn failures(results: &Results) -> String {
    let failed = results.failed_subjects();
    if failed.is_empty() {
        return String::new();
    }
    let lines = failed.iter().map(|FailedSubject { subject, workloads, times, why }| {
        let why = why.lines().next().unwrap_or_default();
        format!("- {subject}, {} ({times}×): {}\n", plain(&words::workloads(workloads)), plain(why))
    });
    format!("\nWhat could not be measured:\n\n{}", lines.collect::<String>())
}

/// Text that means nothing else in a table.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::made_up;

    #[test]
    fn a_page_has_tables_findings_and_labels() {
        let plan = "title = 'A | B'\nstudy = 'dekker-2020'\nsubjects = ['wireguard-go', 'openvpn-udp', 'strongswan']\n\
                    [[link]]\nname = 'a'\n[[workload]]\nkind = 'latency'\n";
        let all = [
            ("wireguard-go", "a", "latency", "idle_p50_us", &[90.0, 91.0, 92.0][..]),
            ("openvpn-udp", "a", "latency", "idle_p50_us", &[60.0, 61.0, 62.0]),
            ("strongswan", "a", "latency", "idle_p50_us", &[10.0, 11.0, 12.0]),
        ];
        let mut results = made_up(plan, &all);
        results.environment.stand_ins.insert("strongswan".to_owned(), "x".to_owned());
        let text = of(&results);
        for part in [
            "# A \\| B\n",
            "| wireguard-go has the worst latency | holds today | wireguard-go 91 (90 to 92) µs;",
            "| subject | idle, median, µs |\n|---|---:|\n",
            "|---:|\n| **OpenVPN in user space** | |\n| openvpn-udp | 61 (60–62) |\n| **WireGuard in user space** | |\n",
            "| strongswan (stand-in) | 11 (10–12) |\n",
            "\n*Published*, not measured here: Dekker and Spaans 2020",
            "| *TCP, 64 bytes, Mbit/s* | *186* | *179* |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn pages_of_the_same_plan_have_numbers() {
        let page = |name: &str| Page { name: name.to_owned(), text: String::new() };
        assert_eq!(file_name("adit-lab run smoke --rounds 3", &[]), "smoke.md");
        assert_eq!(file_name("adit-lab run plans/own.toml", &[page("smoke.md")]), "own.md");
        let pages = [page("smoke.md"), page("smoke-2.md")];
        assert_eq!(file_name("adit-lab run smoke", &pages), "smoke-3.md");
        assert_eq!(file_name("adit-lab run smoke --guest sid", &pages), "smoke-guest.md");
        assert_eq!(file_name("", &[]), "run.md");
    }

    #[test]
    fn a_subject_that_failed_everywhere_is_one_line() {
        let plan = "title = 'x'\nsubjects = ['tinc', 'vtun']\n[[workload]]\nkind = 'latency'\n\
                    [[workload]]\nkind = 'tcp'\n";
        let all = [
            ("tinc", "a", "latency", "idle_p50_us", &[1.0][..]),
            ("tinc", "a", "tcp", "up_mbit", &[1.0]),
            ("vtun", "a", "latency", "idle_p50_us", &[1.0]),
            ("vtun", "a", "tcp", "up_mbit", &[1.0]),
        ];
        let mut results = made_up(plan, &all);
        for index in [0, 1, 3] {
            results.records[index].outcome.failure = Some(format!("broken {}", index / 2));
        }
        let text = failures(&results);
        assert!(text.contains("- tinc, everything (2×): broken 0\n"), "{text}");
        assert!(text.contains("- vtun, One TCP flow (1×): broken 1\n"), "{text}");
    }
}
