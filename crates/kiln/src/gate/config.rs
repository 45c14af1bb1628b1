//! The config a side runs in, and whose it is where the user typed none.

use kiln_core::study::Study;
use kiln_core::trial::Assignment;

use super::side::Side;
use super::spec::Values;
use super::stage::Stage;
use crate::exit::Failure;
use crate::report::terminal::config_text;
use crate::store::{SqliteStore, Store};
use crate::task::Task;

/// Values by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    pub values: Values,
    /// Where they come from, in words, unless they were typed: `study 2's winner`.
    pub from: Option<String>,
    /// The side of the comparison that named them, where this one named none.
    pub lender: Option<String>,
}

impl From<Values> for Chosen {
    fn from(values: Values) -> Chosen {
        Chosen {
            values,
            ..Chosen::default()
        }
    }
}

impl Chosen {
    pub fn from_place(values: Values, from: impl Into<String>) -> Chosen {
        Chosen {
            values,
            from: Some(from.into()),
            lender: None,
        }
    }

    /// For the other side, which named none.
    pub fn lent_by(&self, side: &Side) -> Chosen {
        let name = match side.letter {
            Some(letter) => format!("{letter} (`{}`)", side.label),
            None => format!("`{}`", side.label),
        };
        Chosen {
            lender: Some(name),
            ..self.clone()
        }
    }

    pub fn winner_of(study: &Study, values: &Assignment) -> Chosen {
        Chosen::from_place(values.clone(), format!("study {}'s winner", study.id))
    }
}

/// The config a kernel runs in where nobody says: that of the latest winner on the task's shape, else on any, else the only
/// one there is.
pub fn default_config(stage: &Stage, task: &Task) -> Result<Chosen, Failure> {
    if task.space.count() == Some(1) {
        return Ok(task.any_config()?.into());
    }
    let none = || {
        Failure::usage(format!(
            "which config of `{}` is meant?",
            stage.file.manifest.kernel.name
        ))
        .hint("give one, as `NAME=VALUE,…`, or find one with `kiln tune`")
    };
    let store = SqliteStore::open_existing(&stage.file.root)?.ok_or_else(none)?;
    let name = stage.file.name();
    let shape = &task.manifest().target().name;
    let mut won = store.studies()?;
    won.retain(|s| {
        s.header.manifest == name && s.winner.is_some() && s.header.replayed_from.is_none()
    });
    let on_this_shape = won.iter().rev().find(|s| s.header.shape == *shape);
    let latest = on_this_shape.or(won.last()).ok_or_else(none)?;
    let study = store.study(latest.id)?;
    let winner = study.winner().ok_or_else(none)?;
    Ok(Chosen::winner_of(&study, &winner.config))
}

/// A config of a task from values by name; tunables without a choice need not be named.
pub fn config_on(task: &Task, label: &str, chosen: &Chosen) -> Result<Assignment, Failure> {
    let mut values = chosen.values.clone();
    for tunable in task.space.tunables() {
        let named = values.iter().any(|(name, _)| *name == tunable.name);
        if let ([only], false) = (tunable.values.as_slice(), named) {
            values.push((tunable.name.clone(), only.clone()));
        }
    }
    let found = task.space.config_from(&values).map_err(|e| {
        if let Some(lender) = &chosen.lender {
            return Failure::usage(format!(
                "`{label}`: the config of {lender} does not fit: {e}"
            ))
            .hint(format!("give it one of its own: `{label}@NAME=VALUE,…`"));
        }
        if let Some(failure) = outdated(task, chosen, &values) {
            return failure;
        }
        let failure = Failure::usage(format!("`{label}`: {e}"));
        match e.hint() {
            Some(hint) => failure.hint(hint),
            None => failure.hint("a config names every tunable that has a choice: `NAME=VALUE,…`"),
        }
    })?;
    if !task.space.contains(&found) {
        let rules = task.space.broken_rules(&found);
        let rules: Vec<String> = rules.iter().map(|r| format!("`{}`", r.name)).collect();
        return Err(Failure::usage(format!(
            "`{label}`: the config{} is not valid on shape `{}`: it breaks {}",
            chosen
                .lender
                .as_ref()
                .map_or(String::new(), |lender| format!(" of {lender}")),
            task.manifest().target().name,
            rules.join(", ")
        ))
        .hint("`kiln check --explain` shows what each rule removes"));
    }
    Ok(task.space.assignment(&found))
}

/// What is wrong with a config that nobody typed: tunables came or went since it was found.
fn outdated(task: &Task, chosen: &Chosen, values: &Values) -> Option<Failure> {
    let from = chosen.from.as_ref()?;
    let tunables = task.space.tunables();
    let (mut whole, mut added, mut gone) = (Values::new(), Vec::new(), Vec::new());
    for tunable in tunables {
        match values.iter().find(|(name, _)| *name == tunable.name) {
            Some(value) => whole.push(value.clone()),
            None => {
                added.push(format!("`{}`", tunable.name));
                whole.extend(
                    tunable
                        .values
                        .first()
                        .map(|v| (tunable.name.clone(), v.clone())),
                );
            }
        }
    }
    for (name, _) in values {
        if !tunables.iter().any(|t| t.name == *name) {
            gone.push(format!("`{name}`"));
        }
    }
    let changed = |names: &[String], how: &str| {
        let was = if names.len() == 1 { "was" } else { "were" };
        (!names.is_empty()).then(|| format!("{} {was} {how}", names.join(", ")))
    };
    let changes = [changed(&added, "added"), changed(&gone, "taken out")];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    if changes.is_empty() {
        return None;
    }
    let message = format!("{from} is from before {}", changes.join(" and "));
    Some(
        Failure::usage(message)
            .hint("`kiln tune` finds a config of the kernel as it is now")
            .hint(format!(
                "or give one, with `--config`, or as a side of `kiln compare`: `{}`",
                config_text(&whole).replace(' ', ",")
            )),
    )
}
