//! Curves, as SVG whose colours come from the page's style, each with a text for who does not see it.

use maud::{Markup, html};

use crate::stats;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 44.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
/// Colours of the page's style; further curves have the same ones, dashed.
const COLOURS: usize = 8;
/// Points of a curve: more are not seen, and make the page large.
const POINTS: usize = 200;

/// A series: a name and its values in ascending order.
pub(super) struct Curve {
    pub(super) name: String,
    /// The same for a subject wherever it is.
    pub(super) colour: usize,
    pub(super) values: Vec<f64>,
}

/// What share of the values does not exceed a value: empirical distribution functions over a logarithmic axis of
/// time, from microseconds.
pub(super) fn distributions(title: &str, curves: &[Curve]) -> Markup {
    let all = || curves.iter().flat_map(|curve| curve.values.iter().copied()).filter(|value| *value > 0.0);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if least.partial_cmp(&most) != Some(std::cmp::Ordering::Less) {
        return html! {};
    }
    let (first, last) = (least.log10().floor(), most.log10().ceil());
    let x = |value: f64| LEFT + (value.log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let decades = (first as i32..=last as i32).map(|decade| 10f64.powi(decade));
    let across = decades.map(|value| (x(value), duration(value))).collect();
    let up = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (y(share), format!("{:.0} %", share * 100.0)));
    let lines: Vec<Line> = curves
        .iter()
        .map(|curve| Line {
            name: curve.name.clone(),
            colour: curve.colour,
            points: steps(&curve.values, x),
            dots: false,
        })
        .collect();
    let said = curves.iter().map(|curve| {
        let of = |share| duration(stats::percentile(&curve.values, share).unwrap_or(f64::NAN));
        format!("{}: half within {}, 99 % within {}", curve.name, of(0.5), of(0.99))
    });
    drawing(
        title,
        &said.collect::<Vec<_>>().join("; "),
        &lines,
        &Axes { across, up: up.into(), diagonal: None },
    )
}

/// What came of what was offered.
pub(super) struct Load {
    pub(super) name: String,
    /// The same for a subject wherever it is.
    pub(super) colour: usize,
    /// Offered and delivered, packets a second.
    pub(super) points: Vec<[f64; 2]>,
}

/// Packets delivered over packets offered; the straight line is all of them.
pub(super) fn loads(title: &str, loads: &[Load]) -> Markup {
    let most = |index: usize| {
        loads.iter().flat_map(|load| load.points.iter().map(move |point| point[index])).fold(0.0, f64::max)
    };
    let (offered, delivered) = (round_up(most(0)), round_up(most(1)));
    if offered <= 0.0 || delivered <= 0.0 {
        return html! {};
    }
    let x = |value: f64| LEFT + value / offered * (WIDTH - LEFT - RIGHT);
    let shares = [0.0, 0.25, 0.5, 0.75, 1.0];
    let across = shares.map(|share| (x(share * offered), packets(share * offered))).into();
    let up = shares.map(|share| (y(share), packets(share * delivered))).into();
    let all = offered.min(delivered);
    let lines: Vec<Line> = loads
        .iter()
        .map(|load| {
            let point = |point: &[f64; 2]| (x(point[0]), y(point[1] / delivered));
            Line {
                name: load.name.clone(),
                colour: load.colour,
                points: load.points.iter().map(point).collect(),
                dots: true,
            }
        })
        .collect();
    let said = loads.iter().map(|load| {
        let best = load
            .points
            .iter()
            .copied()
            .fold([0.0; 2], |best, point| if point[1] > best[1] { point } else { best });
        let last = load.points.last().copied().unwrap_or_default();
        format!(
            "{}: at most {} a second, of {} offered {}",
            load.name,
            packets(best[1]),
            packets(last[0]),
            packets(last[1])
        )
    });
    let diagonal = Some([(x(0.0), y(0.0)), (x(all), y(all / delivered))]);
    drawing(title, &said.collect::<Vec<_>>().join("; "), &lines, &Axes { across, up, diagonal })
}

/// A share of the height, from the bottom.
fn y(share: f64) -> f64 {
    TOP + (1.0 - share) * (HEIGHT - BOTTOM - TOP)
}

/// The next of 1, 2, 4, 6, 8 and 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 4.0, 6.0, 8.0].into_iter().find(|factor| value <= factor * power);
    factor.unwrap_or(10.0) * power
}

struct Line {
    name: String,
    colour: usize,
    points: Vec<(f64, f64)>,
    dots: bool,
}

/// Where lines of the grid are, and what stands beside them.
struct Axes {
    across: Vec<(f64, String)>,
    up: Vec<(f64, String)>,
    /// What would be best.
    diagonal: Option<[(f64, f64); 2]>,
}

fn drawing(title: &str, said: &str, lines: &[Line], axes: &Axes) -> Markup {
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(format!("{title}. {said}.")) {
                @for (height, text) in &axes.up {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(height) y2=(height) {}
                    text x=(LEFT - 8.0) y=(height + 5.0) text-anchor="end" { (text) }
                }
                @for (place, text) in &axes.across {
                    line.grid x1=(place) x2=(place) y1=(y(0.0)) y2=(y(1.0)) {}
                    text x=(place) y=(HEIGHT - 12.0) text-anchor="middle" { (text) }
                }
                @if let Some([(x1, y1), (x2, y2)]) = axes.diagonal {
                    line.best x1=(x1) x2=(x2) y1=(y1) y2=(y2) {}
                }
                @for line in lines {
                    g class=(colour(line.colour)) {
                        polyline.curve points=(points(&line.points)) {}
                        @if line.dots {
                            @for (x, y) in &line.points { circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="3.5" {} }
                        }
                    }
                }
            }
            ul.key {
                @for line in lines {
                    li {
                        svg.swatch viewBox="0 0 24 8" aria-hidden="true" {
                            g class=(colour(line.colour)) { line.curve x1="0" x2="24" y1="4" y2="4" {} }
                        }
                        (line.name)
                    }
                }
            }
        }
    }
}

fn colour(index: usize) -> String {
    format!("c{} d{}", index % COLOURS, index / COLOURS % 3)
}

fn points(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect()
}

fn steps(values: &[f64], x: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let count = values.len() as f64;
    let step = |(index, value): (usize, &f64)| (x(*value), y((index + 1) as f64 / count));
    let all: Vec<_> = values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(step).collect();
    let last = all.len().saturating_sub(1);
    let every = all.len().div_ceil(POINTS).max(1);
    all.into_iter()
        .enumerate()
        .filter(|(index, _)| index % every == 0 || *index == last)
        .map(|(_, point)| point)
        .collect()
}

/// Microseconds, said shortly.
fn duration(microseconds: f64) -> String {
    match microseconds {
        time if time >= 1e6 => format!("{} s", short(time / 1e6)),
        time if time >= 1e3 => format!("{} ms", short(time / 1e3)),
        time => format!("{} µs", short(time)),
    }
}

/// Packets a second, said shortly.
fn packets(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", short(value / 1e6)),
        value if value >= 1e3 => format!("{} k", short(value / 1e3)),
        value => short(value),
    }
}

fn short(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_curve() {
        assert_eq!(
            distributions("x", &[Curve { name: "a".to_owned(), colour: 0, values: vec![] }]).into_string(),
            ""
        );
        assert_eq!(loads("x", &[Load { name: "a".to_owned(), colour: 0, points: vec![] }]).into_string(), "");
    }

    #[test]
    fn a_curve_has_a_text_and_lies_within_the_drawing() {
        let curve = Curve {
            name: "a".to_owned(),
            colour: 0,
            values: (1..=100).map(|value| f64::from(value) * 10.0).collect(),
        };
        let text = distributions("Idle", &[curve]).into_string();
        assert!(text.contains("Idle. a: half within 500 µs, 99 % within 990 µs."), "{text}");
        assert!(text.contains("596.0,10.0"), "the last point is at the upper right: {text}");
    }

    #[test]
    fn what_all_carry_lies_on_the_line() {
        let load = Load {
            name: "a".to_owned(),
            colour: 0,
            points: vec![[1000.0, 1000.0], [2000.0, 1500.0], [4000.0, 500.0]],
        };
        let text = loads("x", &[load]).into_string();
        assert!(text.contains("a: at most 1.5 k a second, of 4 k offered 500."), "{text}");
        // 1000 of 4000 across, 1000 of 2000 up.
        assert!(text.contains("206.0,125.0"), "{text}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([3.0, 21.0, 100.0, 950.0, 0.0].map(round_up), [4.0, 40.0, 100.0, 1000.0, 0.0]);
    }
}
