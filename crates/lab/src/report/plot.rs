//! Curves, as SVG whose colours come from the page's style, each with a text for readers that do not see it.

use maud::{Markup, html};

use super::families::Family;
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
/// Samples that a distribution needs at least: one has none.
const LEAST_SAMPLES: usize = 2;

/// A series: a name and its values in ascending order.
pub(super) struct Curve {
    pub(super) name: String,
    /// The colour of a subject, alike in all drawings.
    pub(super) colour: usize,
    pub(super) values: Vec<f64>,
}

/// The shares of the values that do not exceed a value: empirical distribution functions over a logarithmic axis of
/// time, from microseconds. Where there are more curves than colours, each family has a drawing of its own, with the
/// same axes. A series with a single value is left out.
pub(super) fn distributions(title: &str, mut curves: Vec<Curve>) -> Markup {
    // On a logarithmic axis there is no place for 0.
    let is_drawn = |curve: &Curve| curve.values.iter().filter(|value| **value > 0.0).count() >= LEAST_SAMPLES;
    curves.retain(is_drawn);
    let all = || curves.iter().flat_map(|curve| curve.values.iter().copied()).filter(|value| *value > 0.0);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if least.partial_cmp(&most) != Some(std::cmp::Ordering::Less) {
        return html! {};
    }
    let (first, last) = (least.log10().floor(), most.log10().ceil());
    let family = |curve: &Curve| Family::of(&curve.name);
    let drawings: Vec<(String, &[Curve])> = match curves.len() > COLOURS {
        false => vec![(title.to_owned(), &curves)],
        true => curves
            .chunk_by(|one, other| family(one) == family(other))
            .filter_map(|some| Some((format!("{title}. {}", family(some.first()?).words()), some)))
            .collect(),
    };
    html! { @for (title, curves) in &drawings { (distribution(title, curves, [first, last])) } }
}

/// One drawing, whose axis reaches from one power of ten to another.
fn distribution(title: &str, curves: &[Curve], [first, last]: [f64; 2]) -> Markup {
    let x = |value: f64| LEFT + (value.log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let decades = (first as i32..=last as i32).map(|decade| 10f64.powi(decade));
    let across = decades.map(|value| (x(value), duration(value))).collect();
    let up = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (y(share), format!("{:.0} %", share * 100.0)));
    let lines: Vec<Line> = curves
        .iter()
        .map(|curve| Line { name: curve.name.clone(), colour: curve.colour, points: steps(&curve.values, x) })
        .collect();
    let said = curves.iter().map(|curve| {
        let of = |share| duration(stats::percentile(&curve.values, share).unwrap_or(f64::NAN));
        format!("{}: half within {}, 99 % within {}", curve.name, of(0.5), of(0.99))
    });
    drawing(title, &said.collect::<Vec<_>>().join("; "), &lines, &Axes { across, up: up.into() })
}

/// A share of the height, from the bottom.
fn y(share: f64) -> f64 {
    TOP + (1.0 - share) * (HEIGHT - BOTTOM - TOP)
}

struct Line {
    name: String,
    colour: usize,
    points: Vec<(f64, f64)>,
}

/// Where lines of the grid are, and the texts beside them.
struct Axes {
    across: Vec<(f64, String)>,
    up: Vec<(f64, String)>,
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
                @for line in lines {
                    g class=(colour(line.colour)) {
                        polyline.curve points=(points(&line.points)) {}
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

pub(super) fn points(points: &[(f64, f64)]) -> String {
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

/// A number of at most three digits.
pub(super) fn short(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_curve() {
        assert_eq!(
            distributions("x", vec![Curve { name: "a".to_owned(), colour: 0, values: vec![] }]).into_string(),
            ""
        );
    }

    fn curve(name: &str, values: &[f64]) -> Curve {
        Curve { name: name.to_owned(), colour: 0, values: values.to_vec() }
    }

    #[test]
    fn one_sample_is_no_curve() {
        let text = distributions("x", vec![curve("a", &[10.0, 20.0]), curve("b", &[15.0])]).into_string();
        assert_eq!(text.matches("<polyline").count(), 1, "{text}");
        assert!(!text.contains("b: half within"), "{text}");
        assert_eq!(distributions("x", vec![curve("a", &[10.0]), curve("b", &[15.0])]).into_string(), "");
        // A sample of 0 has no place on the axis: the second curve is left with one sample.
        let text =
            distributions("x", vec![curve("a", &[10.0, 20.0]), curve("b", &[0.0, 15.0])]).into_string();
        assert_eq!(text.matches("<polyline").count(), 1, "{text}");
    }

    #[test]
    fn many_curves_have_a_drawing_for_each_family_with_the_same_axis() {
        let names = [
            "adit-udp",
            "adit-tcp",
            "openvpn-udp",
            "openvpn-tcp",
            "wireguard-go",
            "boringtun",
            "gotatun",
            "tinc",
            "veth",
        ];
        let curves = |count: usize| -> Vec<Curve> {
            names
                .iter()
                .take(count)
                .zip(1..)
                .map(|(name, value)| curve(name, &[10.0, 20.0 * f64::from(value)]))
                .collect()
        };
        let text = distributions("Idle", curves(9)).into_string();
        assert_eq!(text.matches("<figure>").count(), 4, "{text}");
        assert_eq!(text.matches(">1 ms<").count(), 4, "{text}");
        assert!(text.contains("Idle. OpenVPN in user space") && text.contains("Idle. Bounds"), "{text}");
        assert_eq!(distributions("Idle", curves(8)).into_string().matches("<figure>").count(), 1);
    }

    #[test]
    fn a_curve_has_a_text_and_lies_within_the_drawing() {
        let curve = Curve {
            name: "a".to_owned(),
            colour: 0,
            values: (1..=100).map(|value| f64::from(value) * 10.0).collect(),
        };
        let text = distributions("Idle", vec![curve]).into_string();
        assert!(text.contains("Idle. a: half within 500 µs, 99 % within 990 µs."), "{text}");
        assert!(text.contains("596.0,10.0"), "the last point is at the upper right: {text}");
    }
}
