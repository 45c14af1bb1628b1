//! The effects of tunables in a report, computed once more from the trials.

use serde_json::{Value, json};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Each bar of the effects is the median of the trials with that value, and they are all counted.
pub fn medians_are_those_of_the_trials(data: &Value, trials: &[Value]) {
    for tunable in data["tunables"].as_array().unwrap() {
        let mut counted = 0;
        for (place, value) in tunable["values"].as_array().unwrap().iter().enumerate() {
            let has_value = |trial: &&Value| {
                let config = trial["config"].as_array().unwrap();
                config
                    .iter()
                    .any(|pair| pair[0] == tunable["name"] && json!(pair[1].to_string()) == *value)
            };
            let times = trials.iter().filter(has_value).map(|trial| {
                let samples = trial["outcome"]["samples_ns"].as_array().unwrap();
                median(samples.iter().map(|s| s.as_f64().unwrap()).collect())
            });
            let times: Vec<f64> = times.collect();
            counted += times.len();
            assert_eq!(tunable["measured"][place], json!(times.len()));
            let shown = tunable["medians"][place].as_f64().unwrap();
            assert!((shown / median(times) - 1.0).abs() < 1e-9, "{tunable}");
        }
        assert_eq!(counted, trials.len());
    }
}
