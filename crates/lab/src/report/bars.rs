//! Bars, as lists that can be read without seeing them and that fold on a narrow screen.

use maud::{Markup, html};

use super::families::{Family, headings};
use crate::number::number;
use crate::stats::Interval;

/// A bar: a name, a median and where it lies.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) label: Label,
    pub(super) median: f64,
    pub(super) interval: Option<Interval>,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Here, in this run.
    Measured,
    /// Here, but by something that stands in for what is meant.
    StandIn,
    /// By an emulated processor: multiples of another subject's figures.
    Emulated,
    /// By others, elsewhere.
    Published,
    /// Nowhere yet: the plan got the subject after the run.
    NotYet,
}

impl Label {
    /// Its name on the page, in the JSON file and in the CSV file.
    pub(super) fn word(self) -> &'static str {
        match self {
            Label::Measured => "measured",
            Label::StandIn => "stand-in",
            Label::Emulated => "emulated",
            Label::Published => "published",
            Label::NotYet => "not measured yet",
        }
    }

    /// A mark beside the name; what is measured needs none.
    pub(super) fn mark(self) -> Markup {
        html! {
            @if self != Label::Measured { " " span.label.(self.word()) { (self.word()) } }
        }
    }
}

impl Bar {
    fn end(&self) -> f64 {
        self.interval.map_or(self.median, |interval| interval.high)
    }

    fn figure(&self) -> String {
        let median = number(self.median);
        match self.interval {
            Some(Interval { low, high }) => {
                format!("{median} ({}–{})", number(low), number(high))
            }
            None => median,
        }
    }
}

/// Bars from zero, the longest as wide as there is room, with intervals as whiskers. Those of one family follow each other.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Markup {
    let most = bars.iter().map(Bar::end).fold(0.0, f64::max);
    let families: Vec<Family> = bars.iter().map(|bar| Family::of_labelled(&bar.name, bar.label)).collect();
    html! {
        figure {
            figcaption { (title) }
            ul.bars {
                @for (bar, heading) in bars.iter().zip(headings(&families)) {
                    @if let Some(heading) = heading { li.family { (heading) } }
                    li {
                        span.name { (bar.name) (bar.label.mark()) }
                        span.track aria-hidden="true" { (track(bar, most, "first")) }
                        span.figure { (bar.figure()) }
                    }
                }
            }
        }
    }
}

/// A name with a bar for each end.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) label: Label,
    /// The server's and the client's.
    pub(super) ends: [Option<Bar>; 2],
}

/// Two bars for each name, the server's above the client's.
pub(super) fn pairs(title: &str, pairs: &[Pair]) -> Markup {
    let most = pairs.iter().flat_map(|pair| pair.ends.iter().flatten()).map(Bar::end).fold(0.0, f64::max);
    let families: Vec<Family> =
        pairs.iter().map(|pair| Family::of_labelled(&pair.name, pair.label)).collect();
    html! {
        figure {
            figcaption { (title) }
            ul.bars {
                @for (pair, heading) in pairs.iter().zip(headings(&families)) {
                    @if let Some(heading) = heading { li.family { (heading) } }
                    li {
                        span.name { (pair.name) (pair.label.mark()) }
                        span.track aria-hidden="true" {
                            @for (bar, colour) in pair.ends.iter().zip(["first", "second"]) {
                                @if let Some(bar) = bar { (track(bar, most, colour)) }
                            }
                        }
                        span.figure {
                            @for (bar, end) in pair.ends.iter().zip(["server", "client"]) {
                                @if let Some(bar) = bar { span { (end) " " (bar.figure()) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn track(bar: &Bar, most: f64, colour: &str) -> Markup {
    let share = |value: f64| if most > 0.0 { (value / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    html! {
        span.lane {
            span.bar.(colour).(bar.label.word()) style=(format!("width:{:.2}%", share(bar.median))) {}
            @if let Some(Interval { low, high }) = bar.interval {
                @let (left, width) = (share(low), share(high) - share(low));
                span.whisker style=(format!("left:{left:.2}%;width:{width:.2}%")) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, median: f64) -> Bar {
        Bar { name: name.to_owned(), label: Label::Measured, median, interval: None }
    }

    #[test]
    fn the_longest_bar_fills_the_room() {
        let text = bars("x", &[bar("a", 10.0), bar("b", 5.0)]).into_string();
        assert!(text.contains("width:100.00%") && text.contains("width:50.00%"), "{text}");
    }

    #[test]
    fn families_have_headings() {
        let text =
            bars("x", &[bar("adit-udp", 10.0), bar("openvpn-udp", 5.0), bar("veth", 20.0)]).into_string();
        assert_eq!(text.matches("<li class=\"family\">").count(), 2, "{text}");
        let single = bars("x", &[bar("adit-udp", 10.0), bar("openvpn-udp", 5.0)]).into_string();
        assert!(!single.contains("family"), "{single}");
    }

    #[test]
    fn names_cannot_break_the_page() {
        let text = bars("<x>", &[bar("<b>", 0.0)]).into_string();
        assert!(!text.contains("<b>") && text.contains("&lt;b&gt;"), "{text}");
    }

    #[test]
    fn what_is_not_measured_says_so() {
        let published = Bar { label: Label::Published, ..bar("a", 1.0) };
        let text = bars("x", &[published, bar("b", 1.0)]).into_string();
        assert_eq!(text.matches("\"label published\">published").count(), 1, "{text}");
    }

    #[test]
    fn a_pair_tells_its_ends_apart() {
        let pair = Pair {
            name: "a".to_owned(),
            label: Label::StandIn,
            ends: [
                Some(bar("", 3.0)),
                Some(Bar { interval: Some(Interval { low: 1.0, high: 4.0 }), ..bar("", 2.0) }),
            ],
        };
        let text = pairs("x", &[pair]).into_string();
        assert!(text.contains("server 3") && text.contains("client 2 (1–4)"), "{text}");
        assert!(text.contains("left:25.00%;width:75.00%"), "{text}");
    }
}
