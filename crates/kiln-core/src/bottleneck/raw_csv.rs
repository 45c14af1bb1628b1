//! What `ncu --csv --page raw` writes: a line of names, a line of units, a line per profiled launch.
//!
//! Lines that are no CSV (`==PROF== …`) are skipped, so that what ncu printed can be given as it is. Values are
//! brought to base units: ncu scales each column to its liking unless told otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Files with more are not of one kernel's profile.
const MOST_LAUNCHES: usize = 10_000;

/// Peaks are not passed by more than what clocks change meanwhile.
const MOST_PERCENT: f64 = 1000.0;

/// One profiled launch, as ncu tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    pub kernel: String,
    /// Metric values in base units: bytes, nanoseconds, hertz, percent.
    pub metrics: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CsvError {
    #[error("there is no line that names a column `Kernel Name`")]
    NoHeader,
    #[error("there are columns, but no profiled launch: the kernel was not among those launched")]
    NoLaunch,
    #[error("line {line} cannot be read as CSV: {why}")]
    Damaged { line: u64, why: String },
    #[error("it has no metrics: only what identifies a launch (was it made with `--page raw`?)")]
    NoMetrics,
    #[error("it holds more than {MOST_LAUNCHES} launches")]
    TooMany,
    #[error("launch {launch}, `{metric}`: `{value}` is no number")]
    NotANumber {
        launch: usize,
        metric: String,
        value: String,
    },
    #[error("`{metric}` is in `{unit}`, a unit that is not known")]
    UnknownUnit { metric: String, unit: String },
    #[error(
        "launch {launch}, `{metric}`: {value} % of a peak (decimal commas? `LC_ALL=C ncu …` writes points)"
    )]
    BeyondPeak {
        launch: usize,
        metric: String,
        value: f64,
    },
}

/// Every launch of a file, in its order.
pub fn parse(text: &str) -> Result<Vec<Launch>, CsvError> {
    // ncu quotes every field, so a line that belongs to the table begins with a quote.
    let table: String = text
        .lines()
        .filter(|line| line.starts_with('"'))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(table.as_bytes());
    let mut header: Option<Vec<String>> = None;
    let mut units: Option<Vec<String>> = None;
    let mut launches = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| CsvError::Damaged {
            line: e.position().map_or(0, csv::Position::line),
            why: e.to_string(),
        })?;
        let fields: Vec<&str> = record.iter().collect();
        if fields.contains(&"Kernel Name") {
            // A second table may follow the first, with columns of its own.
            header = Some(fields.into_iter().map(str::to_string).collect());
            units = None;
            continue;
        }
        let Some(names) = &header else { continue };
        match &units {
            None => units = Some(fields.into_iter().map(str::to_string).collect()),
            Some(units) => {
                if launches.len() == MOST_LAUNCHES {
                    return Err(CsvError::TooMany);
                }
                launches.push(launch(names, units, &fields, launches.len())?);
            }
        }
    }
    if header.is_none() {
        return Err(CsvError::NoHeader);
    }
    if launches.is_empty() {
        return Err(CsvError::NoLaunch);
    }
    if launches.iter().all(|launch| launch.metrics.is_empty()) {
        return Err(CsvError::NoMetrics);
    }
    Ok(launches)
}

fn launch(
    names: &[String],
    units: &[String],
    fields: &[&str],
    index: usize,
) -> Result<Launch, CsvError> {
    let mut found = Launch::default();
    for ((name, unit), field) in names.iter().zip(units).zip(fields) {
        if name == "Kernel Name" {
            found.kernel = (*field).to_string();
        }
        // Everything else that is no metric identifies the launch: process, stream, device.
        if !name.contains("__") {
            continue;
        }
        let Some(value) = number(field).map_err(|value| CsvError::NotANumber {
            launch: index,
            metric: name.clone(),
            value,
        })?
        else {
            continue;
        };
        let scale = unit_scale(unit).ok_or_else(|| CsvError::UnknownUnit {
            metric: name.clone(),
            unit: unit.clone(),
        });
        if unit.trim() == "%" && value > MOST_PERCENT && super::counters::is_read(name) {
            return Err(CsvError::BeyondPeak {
                launch: index,
                metric: name.clone(),
                value,
            });
        }
        match scale {
            Ok(scale) if (value * scale).is_finite() => {
                found.metrics.insert(name.clone(), value * scale);
            }
            Ok(_) => {
                return Err(CsvError::NotANumber {
                    launch: index,
                    metric: name.clone(),
                    value: (*field).to_string(),
                });
            }
            // Of the metrics kiln reads, an unknown unit would be a wrong number; of others it is none
            // of its business.
            Err(unknown) if super::counters::is_read(name) => return Err(unknown),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// `None` for what has no value here: `n/a`, `(!) nan`, text, several values in one field.
fn number(field: &str) -> Result<Option<f64>, String> {
    let field = field.trim();
    let is_number = field
        .trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !is_number {
        return Ok(None);
    }
    // `1,234.5`; and `17 (1; 2; 3)`, a value with its instances.
    let head = field.split_once(" (").map_or(field, |(head, _)| head);
    let plain = without_separators(head).ok_or_else(|| field.to_string());
    match plain?.parse::<f64>() {
        // Nothing that is counted is less than nothing.
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
        // Names and versions of devices begin with digits too.
        _ if field.contains(|c: char| c.is_ascii_alphabetic()) => Ok(None),
        _ => Err(field.to_string()),
    }
}

/// Commas part thousands, and nothing else: `1,234.5`. A decimal comma would make another number of it.
fn without_separators(number: &str) -> Option<String> {
    let (whole, rest) = match number.split_once('.') {
        Some((whole, rest)) => (whole, format!(".{rest}")),
        None => (number, String::new()),
    };
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let is_parted = |mut groups: std::str::Split<'_, char>| groups.all(|g| g.len() == 3);
    let is_well_formed = first.len() <= 4 || !whole.contains(',');
    (is_well_formed && is_parted(groups) && !rest.contains(','))
        .then(|| format!("{}{rest}", whole.replace(',', "")))
}

/// What a value in this unit is multiplied by. Counts of things (`inst`, `sector`) are counts.
fn unit_scale(unit: &str) -> Option<f64> {
    let unit = unit.trim();
    let (base, per) = unit.split_once('/').unwrap_or((unit, ""));
    let scaled = [
        (["nsecond", "ns"].as_slice(), 1.0),
        (&["usecond", "us"], 1e3),
        (&["msecond", "ms"], 1e6),
        (&["second", "s"], 1e9),
        (&["byte", "B"], 1.0),
        (&["Kbyte", "KB"], 1e3),
        (&["Mbyte", "MB"], 1e6),
        (&["Gbyte", "GB"], 1e9),
        (&["Tbyte", "TB"], 1e12),
        (&["hz", "Hz"], 1.0),
        (&["Khz", "KHz"], 1e3),
        (&["Mhz", "MHz"], 1e6),
        (&["Ghz", "GHz"], 1e9),
        (&["K", "Kinst", "Ksector", "Kcycle"], 1e3),
    ];
    let known = scaled.iter().find(|(names, _)| names.contains(&base));
    let scale = match known {
        Some((_, scale)) => *scale,
        None if is_count(base) => 1.0,
        None => return None,
    };
    // A rate is told per second, a clock or a thing; only other times would change the number.
    let rate = match per {
        "usecond" | "us" => 1e6,
        "nsecond" | "ns" => 1e9,
        "msecond" | "ms" => 1e3,
        _ => 1.0,
    };
    Some(scale * rate)
}

fn is_count(unit: &str) -> bool {
    const COUNTS: [&str; 18] = [
        "",
        "%",
        "inst",
        "sector",
        "cycle",
        "warp",
        "thread",
        "block",
        "request",
        "register",
        "wavefront",
        "SM",
        "cluster",
        "lane",
        "op",
        "bank_conflict",
        "KiB",
        "##",
    ];
    COUNTS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
==PROF== Connected to process 12
\"ID\",\"Kernel Name\",\"Block Size\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"launch__grid_size\",\"x__other.sum\"
\"\",\"\",\"\",\"us\",\"Mbyte\",\"\",\"furlong\"
\"0\",\"scale(const float *, int)\",\"(256, 1, 1)\",\"1,234.5\",\"2.5\",\"17 (1; 2)\",\"3\"
\"1\",\"other\",\"(1, 1, 1)\",\"2\",\"n/a\",\"1\",\"4\"
==PROF== Disconnected
";

    #[test]
    fn a_decimal_comma_is_no_separator() {
        for good in ["1,234.5", "20,480", "1234.5", "12", "-0.5", "1,234,567"] {
            assert!(without_separators(good).is_some(), "{good}");
        }
        for bad in ["20,48", "1.234,5", "14,1", "1,23,456", "12345,678"] {
            assert_eq!(without_separators(bad), None, "{bad}");
        }
        let german = FILE.replace("1,234.5", "1.234,5");
        let said = parse(&german).map_err(|e| e.to_string());
        assert!(said.is_err_and(|e| e.ends_with("`1.234,5` is no number")));
        let beyond =
            "\"Kernel Name\",\"lts__t_sector_hit_rate.pct\"\n\"\",\"%\"\n\"k\",\"26,360\"\n";
        assert!(matches!(parse(beyond), Err(CsvError::BeyondPeak { .. })));
    }

    #[test]
    fn values_come_in_base_units() {
        let launches = parse(FILE).expect("a table");
        assert_eq!(launches.len(), 2);
        assert_eq!(launches[0].kernel, "scale(const float *, int)");
        let get = |launch: usize, name: &str| launches[launch].metrics.get(name).copied();
        assert_eq!(get(0, "gpu__time_duration.sum"), Some(1_234_500.0));
        assert_eq!(get(0, "dram__bytes_read.sum"), Some(2_500_000.0));
        assert_eq!(get(0, "launch__grid_size"), Some(17.0));
        assert_eq!(get(1, "dram__bytes_read.sum"), None);
        assert_eq!(get(0, "x__other.sum"), None, "nobody reads it");
    }

    #[test]
    fn what_is_no_profile_is_said() {
        assert_eq!(parse(""), Err(CsvError::NoHeader));
        assert_eq!(parse("no quotes here\n"), Err(CsvError::NoHeader));
        let names = FILE.lines().nth(1).expect("names");
        let units = FILE.lines().nth(2).expect("units");
        assert_eq!(
            parse(&format!("{names}\n{units}\n")),
            Err(CsvError::NoLaunch)
        );
        let strange = FILE.replace("\"us\"", "\"fortnight\"");
        assert!(matches!(parse(&strange), Err(CsvError::UnknownUnit { .. })));
        let torn = FILE.replace("\"1,234.5\"", "\"1.2.3\"");
        assert!(matches!(parse(&torn), Err(CsvError::NotANumber { .. })));
        let bare = "\"ID\",\"Kernel Name\"\n\"\",\"\"\n\"0\",\"k\"\n";
        assert_eq!(parse(bare), Err(CsvError::NoMetrics));
    }

    #[test]
    fn a_line_cut_short_has_fewer_metrics() {
        let cut = FILE.replace(",\"2.5\",\"17 (1; 2)\",\"3\"", "");
        let launches = parse(&cut).expect("a table");
        assert_eq!(launches[0].metrics.len(), 1);
    }
}
