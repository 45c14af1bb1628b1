//! A task without sources, compiler or device: from a recording.

use super::*;

impl Task {
    /// The same task on a recorded device: needs no device, no compiler and no source. Its space
    /// holds only configs that were recorded.
    pub fn for_replay(file: ManifestFile, recorded: &RecordedFile) -> Result<Task, Failure> {
        let recording = &recorded.recording;
        let mut task = Task::for_recording(file, recorded)?;
        let (mut configs, mut foreign) = (Vec::new(), 0);
        for trial in &recording.trials {
            match task.space.config_from(&recording.assignment(trial)) {
                Ok(config) if task.space.contains(&config) => configs.push(config),
                Ok(_) | Err(ConfigError::NotInList { .. }) => foreign += 1,
                Err(error) => return Err(other_tunables(recorded, &error)),
            }
        }
        if configs.is_empty() {
            return Err(Failure::usage(format!(
                "not one of the {} configs in `{}` is valid in `{}`",
                recording.trials.len(),
                recorded.path,
                task.file.name()
            ))
            .hint("replay it without a path: a recording brings its own manifest"));
        }
        task.space = Arc::new(task.space.restricted_to(configs, NOT_RECORDED));
        if let Some(replayed) = &mut task.replayed {
            replayed.foreign = foreign;
        }
        Ok(task)
    }

    /// The same with the whole space, to look at and not to search.
    pub fn for_recording(file: ManifestFile, recorded: &RecordedFile) -> Result<Task, Failure> {
        let recording = &recorded.recording;
        check_same_problem(&file.manifest, recorded)?;
        let mut device = recording.device.clone();
        device.name.push_str(" (replayed)");
        let architecture = own_architecture(&device);
        let replayed = Replayed {
            file: recorded.path.clone(),
            hash: recorded.hash.clone(),
            compiler: recording.compiler.clone(),
            foreign: 0,
        };
        Task::bind(file, device, architecture, Some(replayed))
    }

    pub(super) fn cautions_of_replay(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        let Some(replayed) = &self.replayed else {
            return cautions;
        };
        cautions.push(format!(
            "outcomes come from the recording `{}`: nothing is measured here",
            replayed.file
        ));
        let lost = self
            .space
            .removals()
            .iter()
            .find(|r| r.name == NOT_RECORDED);
        if let Some(lost) = lost {
            let recorded = self.space.count().unwrap_or(0);
            let whole = match lost.removed {
                0 => "a space too large to count".to_string(),
                removed => format!("{} valid configs", removed + recorded),
            };
            cautions.push(format!(
                "the recording holds {recorded} of {whole}: only these are searched"
            ));
        }
        if replayed.foreign > 0 {
            cautions.push(format!(
                "{} recorded configs are not valid in `{}` and are left out",
                replayed.foreign,
                self.file.name()
            ));
        }
        cautions
    }
}

/// A recording answers for one kernel on one shape.
fn check_same_problem(manifest: &Manifest, recorded: &RecordedFile) -> Result<(), Failure> {
    let recording = &recorded.recording;
    let (kernel, target) = (&manifest.kernel.name, manifest.target());
    if *kernel != recording.kernel {
        return Err(Failure::usage(format!(
            "`{}` is a recording of kernel `{}`, not of `{kernel}`",
            recorded.path,
            printable(&recording.kernel)
        ))
        .hint("without a manifest, the recording's own is used"));
    }
    if target.dimensions != recording.dimensions {
        let text = |dimensions: &[(String, i64)]| {
            let pairs: Vec<String> = dimensions.iter().map(|(n, v)| format!("{n}={v}")).collect();
            printable(&pairs.join(" "))
        };
        return Err(Failure::usage(format!(
            "`{}` was recorded with {}; the manifest's target has {}",
            recorded.path,
            text(&recording.dimensions),
            text(&target.dimensions)
        ))
        .hint("without a manifest, the recording's own is used"));
    }
    Ok(())
}

fn other_tunables(recorded: &RecordedFile, error: &ConfigError) -> Failure {
    Failure::usage(format!(
        "the configs in `{}` do not fit the manifest: {error}",
        recorded.path
    ))
    .hint("without a manifest, the recording's own is used")
}
