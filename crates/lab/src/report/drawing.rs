//! Bars of a table's figures as an SVG file that needs nothing else, for pages that hosts of repositories show.

use maud::{Markup, PreEscaped, html};

use super::bars::Label;
use super::families::{Family, headings};
use super::table::{Row, Shown, Table};
use super::words;
use crate::stats::Interval;

/// Figures that are drawn, the first two that a table has.
const DRAWN: [&str; 15] = [
    "up_mbit",
    "down_mbit",
    "up_kbyte_s",
    "most_pps",
    "overload_pps",
    "storm_ms",
    "server_rss_per_client_kib",
    "received_pps",
    "start_ms",
    "handshake_ms",
    "idle_p50_us",
    "loaded_p99_us",
    "seal_mbit",
    "open_mbit",
    "move_outage_ms",
];
const PANELS: usize = 2;

const WIDTH: f64 = 760.0;
const NAMES: f64 = 200.0;
const BARS: f64 = 360.0;
const LINE: f64 = 20.0;
const BAR: f64 = 12.0;
const TOP: f64 = 24.0;
const GAP: f64 = 14.0;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1c1e21}.t{font-weight:600}.f{fill:#5b626b;font-weight:600}\
.n{text-anchor:end}.b{fill:#3b6ea8}.o{fill:#2f8f5b}.s{fill:#8fb4dc}.w{stroke:#b43c09;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6e8eb}.f{fill:#a6adb6}.b{fill:#6ea3dd}.o{fill:#6fd19a}.s{fill:#3f6a99}\
.w{stroke:#fb923c}}";

/// A figure of all subjects that have it.
struct Panel<'a> {
    title: &'a str,
    bars: Vec<(&'a Row, &'a Shown)>,
}

impl Panel<'_> {
    fn most(&self) -> f64 {
        let end = |(_, shown): &(&Row, &Shown)| shown.interval.map_or(shown.median, |interval| interval.high);
        self.bars.iter().map(end).fold(0.0, f64::max)
    }

    fn headings(&self) -> Vec<Option<&'static str>> {
        let families: Vec<Family> =
            self.bars.iter().map(|(row, _)| Family::of_labelled(&row.subject, row.label)).collect();
        headings(&families)
    }

    fn height(&self) -> f64 {
        let lines = self.bars.len() + self.headings().iter().flatten().count();
        TOP + lines as f64 * LINE + GAP
    }
}

/// The file; nothing if the table has no figure that is drawn, or none of two subjects.
pub(super) fn svg(table: &Table) -> Option<String> {
    let panels = panels(table);
    let height: f64 = panels.iter().map(Panel::height).sum();
    if panels.is_empty() {
        return None;
    }
    let mut top = 0.0;
    let drawn: Vec<Markup> = panels
        .iter()
        .map(|panel| {
            let place = top;
            top += panel.height();
            draw(panel, place)
        })
        .collect();
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) role="img"
            aria-label=(table.title) {
            style { (PreEscaped(STYLE)) }
            @for panel in &drawn { (panel) }
        }
    };
    Some(svg.into_string() + "\n")
}

fn panels(table: &Table) -> Vec<Panel<'_>> {
    let panel = |figure: &&str| {
        let words = words::figure(figure);
        let (index, title) = table.columns.iter().enumerate().find(|(_, column)| **column == words)?;
        let bars = table.rows.iter().filter_map(|row| Some((row, row.cells.get(index)?.as_ref()?)));
        let bars: Vec<(&Row, &Shown)> = bars.collect();
        (bars.len() > 1).then_some(Panel { title, bars })
    };
    DRAWN.iter().filter_map(panel).take(PANELS).collect()
}

fn draw(panel: &Panel<'_>, top: f64) -> Markup {
    let most = panel.most();
    let mut y = top + TOP;
    let mut line = || {
        y += LINE;
        y - LINE
    };
    let rows: Vec<Markup> = panel
        .bars
        .iter()
        .zip(panel.headings())
        .map(|((row, shown), heading)| {
            let heading = heading.map(|words| html! { text.f x="0" y=(base(line())) { (words) } });
            let place = line();
            html! { @if let Some(heading) = heading { (heading) } (bar(row, shown, most, place)) }
        })
        .collect();
    html! {
        text.t x="0" y=(top + 16.0) { (panel.title) }
        @for row in &rows { (row) }
    }
}

/// The line of a text in a row that begins there.
fn base(top: f64) -> f64 {
    top + 14.0
}

fn bar(row: &Row, shown: &Shown, most: f64, top: f64) -> Markup {
    let length = |value: f64| if most > 0.0 { (value / most).clamp(0.0, 1.0) * BARS } else { 0.0 };
    let colour = match row.label {
        Label::StandIn | Label::Emulated => "s",
        _ if row.subject.starts_with("adit-") => "o",
        _ => "b",
    };
    let mark = super::table::mark(row.label);
    let middle = top + LINE / 2.0;
    html! {
        text.n x=(NAMES - 8.0) y=(base(top)) { (row.subject) (mark) }
        rect.(colour) x=(NAMES) y=(top + (LINE - BAR) / 2.0) height=(BAR) width=(round(length(shown.median).max(1.0))) {}
        @if let Some(Interval { low, high }) = shown.interval {
            line.w x1=(round(NAMES + length(low))) x2=(round(NAMES + length(high))) y1=(middle) y2=(middle) {}
        }
        text x=(NAMES + BARS + 8.0) y=(base(top)) { (shown.text) }
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table::parse("One <flow>", &text.lines().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn bars_are_in_proportion_and_intervals_are_lines() {
        let text = "| subject | to the server, Mbit/s |\n|---|---:|\n| adit-udp | 80 (50–100) |\n| openvpn-udp | 40 |\n";
        let drawn = svg(&table(text)).unwrap();
        assert!(drawn.contains("width=\"288\"") && drawn.contains("width=\"144\""), "{drawn}");
        assert!(drawn.contains("x1=\"380\" x2=\"560\""), "{drawn}");
        assert_eq!(drawn.matches("<line").count(), 1, "one sample has no interval: {drawn}");
        assert!(drawn.contains("One &lt;flow&gt;") && !drawn.contains("class=\"f\""), "one family: {drawn}");
    }

    #[test]
    fn families_have_headings_and_stand_ins_their_mark() {
        let text = "| subject | start to first reply, ms | lost |\n|---|---:|---:|\n| adit-udp | 5 | 0 |\n\
                    | strongswan (stand-in) | 50 | 0 |\n| veth | – | 0 |\n";
        let drawn = svg(&table(text)).unwrap();
        assert_eq!(drawn.matches("class=\"f\"").count(), 2, "{drawn}");
        assert!(drawn.contains("strongswan (stand-in)") && !drawn.contains("veth"), "{drawn}");
    }

    #[test]
    fn what_has_one_subject_or_no_such_figure_is_not_drawn() {
        assert_eq!(
            svg(&table("| subject | to the server, Mbit/s |\n|---|---:|\n| adit-udp | 80 |\n| veth | – |\n")),
            None
        );
        assert_eq!(svg(&table("| subject | odd |\n|---|---:|\n| adit-udp | 80 |\n| veth | 90 |\n")), None);
    }

    #[test]
    fn every_figure_that_is_drawn_has_words() {
        for figure in DRAWN {
            assert_ne!(words::figure(figure), figure);
        }
    }
}
