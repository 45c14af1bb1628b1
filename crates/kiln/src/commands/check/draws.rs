//! Ranges that integers are drawn from, where they depend on the shape: what each comes to.

use kiln_core::manifest::{ArgumentKind, Fill, FillRule, Manifest};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct DrawnRange {
    argument: String,
    low: String,
    high: String,
    shapes: Vec<OnShape>,
}

#[derive(Serialize)]
struct OnShape {
    shape: String,
    low: i64,
    high: i64,
}

pub(super) fn of(manifest: &Manifest) -> Vec<DrawnRange> {
    let ranges = manifest.arguments.iter().filter_map(|argument| {
        let ArgumentKind::Buffer { fill: rule, .. } = &argument.kind else {
            return None;
        };
        let FillRule::Integers { low, high } = rule else {
            return None;
        };
        let on_shape =
            |shape: &kiln_core::manifest::Shape| match rule.on(&shape.dimensions, argument.dtype) {
                Ok(Fill::Integers { low, high }) => Some(OnShape {
                    shape: shape.name.clone(),
                    low,
                    high,
                }),
                _ => None,
            };
        Some(DrawnRange {
            argument: argument.name.clone(),
            low: low.text().to_string(),
            high: high.text().to_string(),
            shapes: manifest.shapes.iter().filter_map(on_shape).collect(),
        })
    });
    ranges.collect()
}

impl DrawnRange {
    pub(super) fn line(&self) -> String {
        let shapes: Vec<String> = self
            .shapes
            .iter()
            .map(|s| format!("{} to {} on `{}`", s.low, s.high, s.shape))
            .collect();
        format!(
            "`{}` is drawn from integers {} to {}: {}",
            self.argument,
            self.low,
            self.high,
            shapes.join(", ")
        )
    }
}
