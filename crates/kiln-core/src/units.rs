//! Quantities written for people.

/// A time with a fitting unit and 3 significant digits, 4 when the first is a 1 so that the last
/// digit is never worth more than half a percent: `812 ns`, `41.8 us`, `1.034 ms`, `2.50 s`.
pub fn human_ns(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    if !ns.is_finite() {
        return "unknown".to_string();
    }
    if ns == 0.0 {
        return "0 ns".to_string();
    }
    let last = UNITS.len() - 1;
    for (index, (unit, size)) in UNITS.into_iter().enumerate() {
        let text = significant(ns / size);
        // Decided on the rounded text: 999.9 ns is 1.000 us, not 1000 ns.
        let is_below_next = text.parse::<f64>().is_ok_and(|shown| shown.abs() < 1000.0);
        if is_below_next || index == last {
            return format!("{text} {unit}");
        }
    }
    unreachable!("the last unit takes every value")
}

fn significant(value: f64) -> String {
    let starts_with_1 = format!("{:.2e}", value.abs()).starts_with('1');
    let decimals = if starts_with_1 { 3 } else { 2 };
    // The exponent after rounding to that many digits, which `log10` would not give for 9.9996.
    let scientific = format!("{value:.decimals$e}");
    let exponent = scientific.split_once('e').and_then(|(_, e)| e.parse().ok());
    let decimals = decimals as i32 - exponent.unwrap_or(0);
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn picks_unit_and_digits() {
        for (ns, expected) in [
            (0.0, "0 ns"),
            (0.0523, "0.0523 ns"),
            (0.5, "0.500 ns"),
            (1.0, "1.000 ns"),
            (812.4, "812 ns"),
            (999.6, "999.6 ns"),
            (999.96, "1.000 us"),
            (1000.0, "1.000 us"),
            (1034.0, "1.034 us"),
            (9_996.0, "9.996 us"),
            (9_999.9, "10.00 us"),
            (41_800.0, "41.8 us"),
            (523_456.0, "523 us"),
            (2.5e9, "2.50 s"),
            (1.5e12, "1500 s"),
            (8.7654e13, "87654 s"),
            (-41_800.0, "-41.8 us"),
            (f64::NAN, "unknown"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(human_ns(ns), expected, "{ns}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_within_half_a_percent(exponent in -3.0..13.0f64) {
            let ns = 10f64.powf(exponent);
            let text = human_ns(ns);
            let (number, unit) = text.split_once(' ').unwrap();
            let size = match unit {
                "ns" => 1.0,
                "us" => 1e3,
                "ms" => 1e6,
                _ => 1e9,
            };
            let back = number.parse::<f64>().unwrap() * size;
            prop_assert!((back / ns - 1.0).abs() < 0.005, "{} for {}", text, ns);
        }
    }
}
