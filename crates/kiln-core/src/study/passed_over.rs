//! Why the fastest config of a search is not the winner, where it is not.

use super::Study;
use crate::trial::{Outcome, Trial};

#[derive(Clone, Debug, PartialEq)]
pub struct PassedOver<'s> {
    pub trial: &'s Trial,
    /// In the search.
    pub median_ns: f64,
    pub why: Why<'s>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Why<'s> {
    /// It failed when it was confirmed.
    Failed(&'s Outcome),
    /// Another one was faster when both were measured again.
    Overtaken { speedup: f64, winners_speedup: f64 },
    /// It was not measured again.
    NotTried,
}

impl Study {
    /// `None` while nothing is confirmed, and where the winner was the fastest of the search.
    pub fn passed_over(&self) -> Option<PassedOver<'_>> {
        let confirmation = self.confirmation.as_ref()?;
        let (trial, median_ns) = self.best()?;
        let winner = confirmation.winner.as_ref();
        let in_search = |number: u64| {
            let trial = self.trials.iter().find(|t| t.number == number);
            trial.and_then(|t| t.outcome.median_ns())
        };
        // It may be one of two that are equally fast.
        let won = |number: u64| number == trial.number || in_search(number) == Some(median_ns);
        if winner.is_some_and(|w| won(w.trial)) {
            return None;
        }
        let mut dropped = confirmation.dropped.iter();
        let failed = dropped.find(|d| d.trial == trial.number);
        let again = |number: u64| {
            let played = confirmation.playoff.iter().find(|f| f.trial == number);
            played.map(|finalist| finalist.speedup)
        };
        let why = match (failed, again(trial.number), winner) {
            (Some(dropped), _, _) => Why::Failed(&dropped.outcome),
            (None, Some(speedup), Some(winner)) => Why::Overtaken {
                speedup,
                winners_speedup: again(winner.trial)?,
            },
            (None, None, Some(_)) => Why::NotTried,
            (None, _, None) => return None,
        };
        Some(PassedOver {
            trial,
            median_ns,
            why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Confirmation, Dropped, Event, Finalist, Winner};
    use crate::retrospective::tests::{failed, header, measured, trial};
    use crate::verdict;

    fn study(winner: Option<u64>, playoff: &[(u64, f64)], dropped: &[u64]) -> Study {
        let finalist = |(trial, speedup): &(u64, f64)| Finalist {
            trial: *trial,
            median_ns: 1.0,
            speedup: *speedup,
            samples_ns: vec![1.0],
        };
        let fell = |trial: &u64| Dropped {
            trial: *trial,
            outcome: failed(),
        };
        let rounds = vec![vec![1.0, 1.1, 1.2]];
        let confirmation = Confirmation {
            playoff: playoff.iter().map(finalist).collect(),
            dropped: dropped.iter().map(fell).collect(),
            winner: winner.map(|trial| Winner {
                trial,
                config: Vec::new(),
                comparison: verdict::compare(&rounds, &rounds, 0.02, 1),
                baseline_rounds_ns: rounds.clone(),
                winner_rounds_ns: rounds.clone(),
                alone_ns: None,
                other_caches: None,
                energy_mj: None,
                acceptance: None,
            }),
        };
        let times = [(1, 100.0), (2, 80.0), (3, 90.0), (4, 80.0)];
        let mut events = vec![Event::StudyStarted(Box::new(header("a", 0)))];
        events.extend(times.map(|(number, ns)| trial(number, measured(ns))));
        events.push(Event::Confirmed(Box::new(confirmation)));
        Study::from_events(1, events.into_iter().map(|e| (0, e))).expect("a header")
    }

    #[test]
    fn the_reason_is_told_and_only_where_there_is_one() {
        let why = |winner, playoff: &[(u64, f64)], dropped: &[u64]| {
            study(winner, playoff, dropped).passed_over().map(|found| {
                assert_eq!((found.trial.number, found.median_ns), (2, 80.0));
                match found.why {
                    Why::Failed(outcome) => outcome.reason().to_string(),
                    Why::Overtaken {
                        speedup,
                        winners_speedup,
                    } => format!("{speedup} {winners_speedup}"),
                    Why::NotTried => "not tried".to_string(),
                }
            })
        };
        let told = |words: &str| Some(words.to_string());
        assert_eq!(why(Some(2), &[(2, 1.2)], &[]), None);
        assert_eq!(why(Some(4), &[(4, 1.2), (2, 1.1)], &[]), None, "as fast");
        let failed = why(Some(3), &[(2, 1.2), (3, 1.1)], &[2]);
        assert_eq!(failed, told("timeout"));
        let overtaken = why(Some(3), &[(2, 1.1), (3, 1.2)], &[]);
        assert_eq!(overtaken, told("1.1 1.2"));
        assert_eq!(why(Some(1), &[(1, 1.2)], &[]), told("not tried"));
        assert_eq!(why(None, &[(2, 1.2)], &[2]), told("timeout"));
        assert_eq!(why(None, &[], &[]), None);
    }
}
