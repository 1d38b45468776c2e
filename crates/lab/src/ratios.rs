//! Figures of an emulated processor, as multiples of another subject's figures of the run: an emulator's own figures say nothing of
//! a machine.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::record::Record;
use crate::stats;

/// How the names of figures begin that are no measure of speed, and stay as they are: settings, counts of the link, and a share.
const KEPT: [&str; 3] = ["tunnel_", "link_", "kept"];

/// The name of a figure, apart from its subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) link: String,
    pub(crate) workload: String,
    pub(crate) figure: String,
}

impl Column {
    fn of(record: &Record, figure: &str) -> Column {
        let (link, workload) = (record.cell.link.clone(), record.cell.workload.clone());
        Column { link, workload, figure: figure.to_owned() }
    }
}

/// The subject whose figures all others of a column are multiples of.
pub(crate) type References = BTreeMap<Column, String>;

/// Replaces each figure of speed by its multiple of the median that the plan's first subject with such a figure has, and removes
/// all series. A figure of which that median is 0 is removed, too.
pub(crate) fn relate(plan: &Plan, records: &mut [Record]) -> References {
    let mut measured: BTreeMap<(Column, &str), Vec<f64>> = BTreeMap::new();
    for record in &*records {
        for (figure, value) in &record.outcome.figures {
            let key = (Column::of(record, figure), record.cell.subject.as_str());
            measured.entry(key).or_default().push(*value);
        }
    }
    let mut references: BTreeMap<Column, (String, f64)> = BTreeMap::new();
    for subject in &plan.subjects {
        for ((column, _), values) in measured.iter().filter(|((_, name), _)| name == subject) {
            if let Some(median) = stats::median(values).filter(|median| *median != 0.0) {
                references.entry(column.clone()).or_insert((subject.clone(), median));
            }
        }
    }
    for record in records {
        let figures = std::mem::take(&mut record.outcome.figures);
        let related = figures.into_iter().filter_map(|(figure, value)| {
            if is_kept(&figure) {
                return Some((figure, value));
            }
            let (_, median) = references.get(&Column::of(record, &figure))?;
            Some((figure, value / median))
        });
        let related = related.collect();
        record.outcome.figures = related;
        record.outcome.samples.clear();
        record.outcome.curves.clear();
    }
    references.retain(|column, _| !is_kept(&column.figure));
    references.into_iter().map(|(column, (subject, _))| (column, subject)).collect()
}

fn is_kept(figure: &str) -> bool {
    KEPT.iter().any(|start| figure.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::made_up;

    #[test]
    fn figures_of_speed_become_multiples_of_the_first_subjects() {
        let plan = "title = 'x'\nsubjects = ['veth', 'null', 'tinc']\n[[workload]]\nkind = 'tcp'\n";
        let all = [
            ("veth", "a", "tcp", "up_mbit", &[100.0, 200.0, 300.0][..]),
            ("tinc", "a", "tcp", "up_mbit", &[50.0, 20.0, 100.0]),
            ("veth", "a", "tcp", "queue_dropped", &[0.0]),
            ("null", "a", "tcp", "client_cpu_percent", &[4.0]),
            ("tinc", "a", "tcp", "client_cpu_percent", &[8.0]),
            ("tinc", "a", "tcp", "tunnel_mtu_bytes", &[1400.0]),
        ];
        let mut results = made_up(plan, &all);
        results.records[0].outcome.sample("idle_us", vec![1.0]);
        let references = relate(&results.plan, &mut results.records);
        let figures: Vec<(&str, f64)> = results
            .records
            .iter()
            .flat_map(|record| record.outcome.figures.iter().map(|(name, value)| (name.as_str(), *value)))
            .collect();
        let expected = [
            ("up_mbit", 0.5),
            ("up_mbit", 1.0),
            ("up_mbit", 1.5),
            ("up_mbit", 0.25),
            ("up_mbit", 0.1),
            ("up_mbit", 0.5),
            ("client_cpu_percent", 1.0),
            ("client_cpu_percent", 2.0),
            ("tunnel_mtu_bytes", 1400.0),
        ];
        assert_eq!(figures, expected);
        assert!(results.records[0].outcome.samples.is_empty());
        let of = |figure: &str| {
            let [link, workload, figure] = ["a", "tcp", figure].map(str::to_owned);
            references.get(&Column { link, workload, figure }).map(String::as_str)
        };
        assert_eq!((of("up_mbit"), of("client_cpu_percent")), (Some("veth"), Some("null")));
        assert_eq!((of("queue_dropped"), of("tunnel_mtu_bytes")), (None, None));
    }
}
