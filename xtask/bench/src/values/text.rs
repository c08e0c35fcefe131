//! Figures as text.
use super::unit::Unit;

/// Formats a figure of a unit with as few digits as suffice.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 100.0 => format!("{value:.1}"),
        size if size < 1e6 => format!("{value:.0}"),
        size if size < 1e9 => format!("{:.2} M", value / 1e6),
        _ => format!("{:.2} G", value / 1e9),
    }
}

/// Formats a value of `unit`, short: 20 ns, 3 µs, 1.5 ms; 20, 3 k, 1.5 M; 20 KiB, 3 MiB.
pub fn said(value: f64, unit: Unit) -> String {
    let steps: &[(f64, &str)] = match unit {
        Unit::Clock => &[(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")],
        Unit::Instructions => &[(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")],
        Unit::Kib => &[(1.0, " KiB"), (1024.0, " MiB"), (1024.0 * 1024.0, " GiB")],
    };
    let fits = steps.iter().rfind(|(size, _)| value.abs() >= *size * (1.0 - 1e-9));
    let (size, name) = fits.or(steps.first()).copied().unwrap_or((1.0, ""));
    format!("{}{name}", plain(value / size))
}

/// Formats a number with at most two decimals.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let all = [12.34, 1234.5, 123_456_789.0, 2.5e9].map(figure);
        assert_eq!(all, ["12.3", "1234", "123.46 M", "2.50 G"]);
    }

    #[test]
    fn values_are_said_in_units_that_people_read() {
        let times = [20.0, 3000.0, 1.5e6, 2e9].map(|value| said(value, Unit::Clock));
        assert_eq!(times, ["20 ns", "3 µs", "1.5 ms", "2 s"]);
        let counts = [0.0, 999.0, 1e4].map(|value| said(value, Unit::Instructions));
        assert_eq!(counts, ["0", "999", "10 k"]);
        assert_eq!(said(3072.0, Unit::Kib), "3 MiB");
    }
}
