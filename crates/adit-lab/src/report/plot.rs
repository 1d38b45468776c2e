//! Drawings, as SVG whose colours come from the page's style.

use maud::{Markup, html};

use super::words;
use crate::stats::Interval;

const WIDTH: f64 = 720.0;
/// Room for names at the left and for figures at the right.
const NAMES: f64 = 150.0;
const FIGURES: f64 = 150.0;
const ROW: f64 = 22.0;

/// A bar: a name, a median and where it lies.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    pub(super) median: f64,
    pub(super) interval: Option<Interval>,
}

/// Bars from zero, longest as wide as there is room, with intervals as whiskers.
pub(super) fn bars(title: &str, bars: &[Bar<'_>]) -> Markup {
    let most =
        bars.iter().map(|bar| bar.interval.map_or(bar.median, |interval| interval.high)).fold(0.0, f64::max);
    let room = WIDTH - NAMES - FIGURES;
    let place = |value: f64| NAMES + if most > 0.0 { value / most * room } else { 0.0 };
    let height = ROW * bars.len() as f64;
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
                @for (index, bar) in bars.iter().enumerate() {
                    @let top = ROW * index as f64;
                    @let middle = top + ROW / 2.0;
                    text.name x=(NAMES - 8.0) y=(middle + 4.0) text-anchor="end" { (bar.name) }
                    rect.bar x=(NAMES) y=(top + 3.0) width=(place(bar.median) - NAMES) height=(ROW - 6.0) {}
                    @if let Some(Interval { low, high }) = bar.interval {
                        line.whisker x1=(place(low)) x2=(place(high)) y1=(middle) y2=(middle) {}
                    }
                    text x=(place(bar.interval.map_or(bar.median, |interval| interval.high)) + 6.0) y=(middle + 4.0) {
                        (label(bar))
                    }
                }
            }
        }
    }
}

fn label(bar: &Bar<'_>) -> String {
    let median = words::number(bar.median);
    match bar.interval {
        Some(Interval { low, high }) => format!("{median} ({}–{})", words::number(low), words::number(high)),
        None => median,
    }
}

/// A series: a name and its values in ascending order.
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<f64>,
}

const HEIGHT: f64 = 260.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 30.0;
/// Colours of the page's style.
const COLOURS: usize = 8;

/// What share of the values does not exceed a value: empirical distribution functions over a logarithmic axis.
pub(super) fn distributions(title: &str, curves: &[Curve<'_>]) -> Markup {
    let all = || curves.iter().flat_map(|curve| curve.values.iter().copied()).filter(|value| *value > 0.0);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if least.partial_cmp(&most) != Some(std::cmp::Ordering::Less) {
        return html! {};
    }
    let (first, last) = (least.log10().floor(), most.log10().ceil());
    let x = |value: f64| LEFT + (value.log10() - first) / (last - first) * (WIDTH - LEFT - FIGURES);
    let y = |share: f64| 8.0 + (1.0 - share) * (HEIGHT - BOTTOM - 8.0);
    let decades = (first as i32)..=(last as i32);
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
                @for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
                    line.grid x1=(LEFT) x2=(WIDTH - FIGURES) y1=(y(share)) y2=(y(share)) {}
                    text x=(LEFT - 6.0) y=(y(share) + 4.0) text-anchor="end" { (format!("{:.0} %", share * 100.0)) }
                }
                @for decade in decades {
                    @let value = 10f64.powi(decade);
                    line.grid x1=(x(value)) x2=(x(value)) y1=(y(0.0)) y2=(y(1.0)) {}
                    text x=(x(value)) y=(HEIGHT - 10.0) text-anchor="middle" { (duration(value)) }
                }
                @for (index, curve) in curves.iter().enumerate() {
                    polyline class={ "curve c" (index % COLOURS) } points=(points(&curve.values, x, y)) {}
                    @let top = 20.0 + 18.0 * index as f64;
                    line class={ "curve c" (index % COLOURS) } x1=(WIDTH - FIGURES + 10.0) x2=(WIDTH - FIGURES + 26.0) y1=(top) y2=(top) {}
                    text x=(WIDTH - FIGURES + 32.0) y=(top + 4.0) { (curve.name) }
                }
            }
        }
    }
}

fn points(values: &[f64], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let count = values.len() as f64;
    let point =
        |(index, value): (usize, &f64)| format!("{:.1},{:.1} ", x(*value), y((index + 1) as f64 / count));
    values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(point).collect()
}

/// Microseconds, said shortly.
fn duration(microseconds: f64) -> String {
    if microseconds >= 1e6 {
        format!("{} s", microseconds / 1e6)
    } else if microseconds >= 1e3 {
        format!("{} ms", microseconds / 1e3)
    } else {
        format!("{microseconds} µs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room() {
        let bar = |name, median| Bar { name, median, interval: None };
        let text = bars("x", &[bar("a", 10.0), bar("b", 5.0)]).into_string();
        assert!(text.contains(r#"width="420""#) && text.contains(r#"width="210""#), "{text}");
    }

    #[test]
    fn names_cannot_break_the_page() {
        let text = bars("<x>", &[Bar { name: "<b>", median: 0.0, interval: None }]).into_string();
        assert!(!text.contains("<b>") && text.contains("&lt;b&gt;"), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_curve() {
        assert_eq!(distributions("x", &[Curve { name: "a", values: vec![] }]).into_string(), "");
    }
}
