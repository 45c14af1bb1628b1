//! What a section found: rows while it runs, findings for the table, numbers for JSON.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::exit::Failure;
use crate::printer;

/// Raised when a key changes its meaning; new keys may appear at any time.
const SCHEMA_VERSION: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Pass,
    Fail,
    Skipped,
}

impl Mark {
    pub fn when(holds: bool) -> Mark {
        if holds { Mark::Pass } else { Mark::Fail }
    }

    fn word(self) -> &'static str {
        match self {
            Mark::Pass => "pass",
            Mark::Fail => "FAIL",
            Mark::Skipped => "skipped",
        }
    }
}

#[derive(Serialize)]
struct Finding {
    what: String,
    /// For a skipped one: why.
    limit: String,
    result: Mark,
}

pub struct Report {
    name: &'static str,
    findings: Vec<Finding>,
    numbers: Map<String, Value>,
    started: Instant,
    seconds: f64,
}

impl Report {
    pub fn new(name: &'static str, question: &str) -> Report {
        printer::talk(&format!("{name}: {question}"));
        Report {
            name,
            findings: Vec::new(),
            numbers: Map::new(),
            started: Instant::now(),
            seconds: 0.0,
        }
    }

    /// A line for whoever watches.
    pub fn row(&self, text: &str) {
        printer::talk(&format!("  {text}"));
    }

    pub fn number(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.numbers.insert(name.into(), value);
    }

    /// Adds to a list of numbers.
    pub fn item(&mut self, list: &str, value: Value) {
        let items = self.numbers.entry(list).or_insert_with(|| json!([]));
        if let Value::Array(items) = items {
            items.push(value);
        }
    }

    pub fn judge(&mut self, what: impl Into<String>, limit: impl Into<String>, result: Mark) {
        let finding = Finding {
            what: what.into(),
            limit: limit.into(),
            result,
        };
        self.row(&format!(
            "{}: {} ({})",
            result.word(),
            finding.what,
            finding.limit
        ));
        self.findings.push(finding);
    }

    pub fn skip(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.judge(what, reason, Mark::Skipped);
    }

    pub fn broke(&mut self, failure: &Failure) {
        self.number("error", failure.to_string());
        let what = failure.message.lines().next().unwrap_or_default();
        self.judge(what, "runs to its end", Mark::Fail);
        for line in failure.to_string().lines().skip(1) {
            self.row(line);
        }
    }

    pub fn close(&mut self) {
        self.seconds = self.started.elapsed().as_secs_f64();
        self.row(&format!("took {:.1} s", self.seconds));
    }

    pub fn has_failed(&self) -> bool {
        self.findings.iter().any(|f| f.result == Mark::Fail)
    }
}

/// What a reader needs to judge the numbers.
#[derive(Serialize)]
pub struct Header {
    pub date: String,
    pub backend: &'static str,
    pub device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_cuda: Option<String>,
    pub compiler: String,
    pub kiln_version: &'static str,
    pub host_cores: usize,
    pub quick: bool,
}

impl Header {
    pub fn lines(&self) -> String {
        self.lines_of("selftest")
    }

    /// For the verb that was asked for.
    pub fn lines_of(&self, verb: &str) -> String {
        let driver = self.driver_cuda.as_ref();
        let driver = driver.map_or(String::new(), |v| format!(", driver for CUDA {v}"));
        let quick = if self.quick { ", --quick" } else { "" };
        format!(
            "kiln {} {verb}{quick}, {}\n{}{driver}; {}; {} host cores",
            self.kiln_version, self.date, self.device, self.compiler, self.host_cores
        )
    }
}

/// `2026-11-30 14:05 UTC`.
pub fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// The date that many days after 1 January 1970, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted in eras of 400 years from 1 March 0000, so that leap days come last in their year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    (era * 400 + year + carry, month, of_month)
}

/// One line per finding.
pub fn table(header: &Header, reports: &[Report]) -> String {
    let titles = ["section", "what was shown", "limit", "result"].map(str::to_string);
    let mut rows = vec![titles];
    for report in reports {
        for finding in &report.findings {
            rows.push([
                report.name.into(),
                finding.what.clone(),
                finding.limit.clone(),
                finding.result.word().into(),
            ]);
        }
    }
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    let mut lines = vec![header.lines(), String::new()];
    for [section, what, limit, result] in &rows {
        let line = format!("{section:first$}  {what:second$}  {limit:third$}  {result}");
        lines.push(line.trim_end().to_string());
    }
    lines.push(String::new());
    lines.push(summary(reports));
    lines.join("\n")
}

fn summary(reports: &[Report]) -> String {
    let count = |mark: Mark| {
        let findings = reports.iter().flat_map(|r| &r.findings);
        findings.filter(|f| f.result == mark).count()
    };
    let failed = count(Mark::Fail);
    let skipped = match count(Mark::Skipped) {
        0 => String::new(),
        n => format!(", {n} skipped"),
    };
    let seconds: f64 = reports.iter().map(|r| r.seconds).sum();
    let passed = count(Mark::Pass);
    format!("{passed} passed, {failed} failed{skipped}, in {seconds:.0} s")
}

pub fn document(header: &Header, reports: &[Report]) -> Value {
    let sections: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "section": report.name,
                "seconds": report.seconds,
                "findings": report.findings,
                "numbers": report.numbers,
            })
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "success": !reports.iter().any(Report::has_failed),
        "machine": header,
        "sections": sections,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_787, (2026, 11, 30)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}
