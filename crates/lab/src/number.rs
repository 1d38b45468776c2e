//! Figures as reports show them.

/// Three or four digits that count, two of what is less than a tenth. Whole numbers are whole.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{:.0}", value + 0.0),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size < 0.1 => {
            let decimals = (1.0 - size.log10().floor()).clamp(2.0, 9.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!(
            ["12346", "99.9", "1.57", "0.25", "0.031", "0.0010", "3", "0", "-0.50"].map(str::to_owned),
            [12345.6, 99.94, 1.567, 0.25, 0.0312, 0.001, 3.0, -0.0, -0.5].map(number)
        );
    }
}
