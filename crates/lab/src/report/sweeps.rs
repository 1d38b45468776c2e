//! The results for each load that was offered: a small drawing for each subject, all with the same axes, because curves
//! that lie on one another until they bend cannot be told apart in one.

use maud::{Markup, html};

use super::families::{Family, headings};
use super::plot::{points, short};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;

/// A subject's loads.
pub(super) struct Load {
    pub(super) name: String,
    /// Beside the name: where its figures come from.
    pub(super) mark: Markup,
    /// Offered and delivered, packets a second.
    pub(super) points: Vec<[f64; 2]>,
}

/// The scale of all drawings: packets a second, to the right and up.
struct Scale {
    offered: f64,
    delivered: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.offered * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - value / self.delivered) * (HEIGHT - BOTTOM - TOP)
    }

    fn place(&self, point: &[f64; 2]) -> (f64, f64) {
        (self.x(point[0]), self.y(point[1]))
    }
}

/// Packets delivered over packets offered, those of `reference` in each drawing; the straight line is all of them.
pub(super) fn sweeps(title: &str, loads: &[Load], reference: Option<&Load>) -> Markup {
    let most = |index: usize| {
        loads.iter().flat_map(|load| load.points.iter().map(move |point| point[index])).fold(0.0, f64::max)
    };
    let scale = Scale { offered: round_up(most(0)), delivered: round_up(most(1)) };
    let Some(reference) = reference.filter(|_| scale.offered > 0.0 && scale.delivered > 0.0) else {
        return html! {};
    };
    let others = loads.len() > 1;
    let families: Vec<Family> = loads.iter().map(|load| Family::of(&load.name)).collect();
    html! {
        figure {
            figcaption { (title) @if others { "; grey: " (reference.name) } }
            ul.sweeps {
                @for (load, heading) in loads.iter().zip(headings(&families)) {
                    @if let Some(heading) = heading { li.family { (heading) } }
                    li {
                        span.name { (load.name) (load.mark) }
                        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(said(load)) {
                            (axes(&scale))
                            @if others { (curve("behind", reference, &scale)) }
                            (curve("front", load, &scale))
                        }
                    }
                }
            }
        }
    }
}

fn axes(scale: &Scale) -> Markup {
    let all = scale.offered.min(scale.delivered);
    html! {
        @for share in [0.0, 0.5, 1.0] {
            @let (value, other) = (share * scale.offered, share * scale.delivered);
            @let (x, y) = (scale.x(value), scale.y(other));
            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
            line.grid x1=(x) x2=(x) y1=(scale.y(0.0)) y2=(TOP) {}
            text x=(x) y=(HEIGHT - 6.0) text-anchor="middle" { (packets(value)) }
            @if share > 0.0 { text x=(LEFT - 5.0) y=(y + 4.0) text-anchor="end" { (packets(other)) } }
        }
        line.best x1=(scale.x(0.0)) y1=(scale.y(0.0)) x2=(scale.x(all)) y2=(scale.y(all)) {}
    }
}

fn curve(class: &str, load: &Load, scale: &Scale) -> Markup {
    let places: Vec<(f64, f64)> = load.points.iter().map(|point| scale.place(point)).collect();
    html! {
        g.(class) {
            // One point makes no line.
            @if places.len() > 1 { polyline.curve points=(points(&places)) {} }
            @for (x, y) in &places { circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="2.5" {} }
        }
    }
}

/// The drawing as text, for readers that do not see the curves.
fn said(load: &Load) -> String {
    let best = load
        .points
        .iter()
        .copied()
        .fold([0.0; 2], |best, point| if point[1] > best[1] { point } else { best });
    let last = load.points.last().copied().unwrap_or_default();
    let [most, offered, came] = [best[1], last[0], last[1]].map(packets);
    format!("{}: at most {most} a second, of {offered} offered {came}.", load.name)
}

/// The next of 1, 2, 3, 4, 5, 6, 8 and 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0].into_iter().find(|factor| value <= factor * power);
    factor.unwrap_or(10.0) * power
}

/// Packets a second, said shortly.
fn packets(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", short(value / 1e6)),
        value if value >= 1e3 => format!("{} k", short(value / 1e3)),
        value => short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, points: &[[f64; 2]]) -> Load {
        Load { name: name.to_owned(), mark: html! {}, points: points.to_vec() }
    }

    fn drawn(loads: &[Load]) -> String {
        sweeps("x", loads, loads.first()).into_string()
    }

    #[test]
    fn one_point_is_a_dot_without_a_line() {
        let text = drawn(&[load("a", &[[1000.0, 900.0]])]);
        assert!(text.contains("<circle") && !text.contains("<polyline"), "{text}");
    }

    #[test]
    fn families_have_headings() {
        let points = [[1000.0, 900.0], [2000.0, 1900.0]];
        let text = drawn(&[load("adit-udp", &points), load("veth", &points)]);
        assert_eq!(text.matches("<li class=\"family\">").count(), 2, "{text}");
    }

    #[test]
    fn nothing_measured_is_no_drawing() {
        assert_eq!(drawn(&[]), "");
        assert_eq!(drawn(&[load("a", &[])]), "");
    }

    #[test]
    fn what_all_carry_lies_on_the_line() {
        let text = drawn(&[load("a", &[[1000.0, 1000.0], [2000.0, 1500.0], [4000.0, 500.0]])]);
        assert!(text.contains("a: at most 1.5 k a second, of 4 k offered 500."), "{text}");
        // 1000 of 4000 across, 1000 of 2000 up.
        assert!(text.contains("90.0,72.0"), "{text}");
        assert!(!text.contains("behind"), "nothing to compare with: {text}");
    }

    #[test]
    fn every_subject_has_its_own_drawing_with_the_same_axes() {
        let text = drawn(&[load("<a>", &[[1e5, 1e5]]), load("b", &[[2e5, 5e4]])]);
        assert_eq!(text.matches("<svg").count(), 2);
        assert_eq!(text.matches(">200 k<").count(), 2, "{text}");
        assert_eq!(text.matches("class=\"behind\"").count(), 2);
        assert!(text.contains("grey: &lt;a&gt;") && !text.contains("<a>"), "{text}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([3.0, 21.0, 100.0, 950.0, 0.0].map(round_up), [3.0, 30.0, 100.0, 1000.0, 0.0]);
    }
}
