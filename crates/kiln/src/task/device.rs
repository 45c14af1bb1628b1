//! What a config means on the device at hand: how it is timed, what it occupies, what it cannot beat.

use kiln_core::roofline::{Peaks, Work};

use super::*;

impl Task {
    /// All compilers that matter, in words.
    pub fn compiler_identity(&self) -> String {
        if let Some(replayed) = &self.replayed {
            return replayed.compiler.clone();
        }
        let c = self.compiler.iter().map(|c| c.identity.clone());
        let cuda = self.cuda.iter().map(|c| {
            format!(
                "CUDA {} for {} ({})",
                c.version, self.architecture, c.identity
            )
        });
        c.chain(cuda).collect::<Vec<_>>().join(" | ")
    }

    /// What the compiler made of a config, with the occupancy that follows from it.
    pub fn compile_facts(&self, built: &Built, config: &Assignment) -> CompileFacts {
        let compiled = &built.artifact.compiled;
        CompileFacts {
            artifact: built.artifact.key.clone(),
            cached: built.cached,
            compile_ms: compiled.compile_ms,
            image_bytes: built.artifact.image_bytes,
            resources: compiled.resources,
            occupancy: self
                .occupancy(compiled.resources.as_ref(), config)
                .map(|o| o.fraction),
            gate_warnings: self.gate_warnings(compiled.resources.as_ref(), config),
            log: compiled.log.clone(),
            writable: compiled.writable.clone(),
        }
    }

    pub fn occupancy(
        &self,
        resources: Option<&Resources>,
        config: &Assignment,
    ) -> Option<Occupancy> {
        let resources = resources?;
        let architecture = Architecture::parse(&self.architecture)?;
        let launch = self.target_launch(config)?;
        let threads = launch.block.iter().product();
        Some(occupancy(
            &architecture,
            resources,
            launch.shared_bytes,
            threads,
        ))
    }

    /// How a config is launched on the target shape; nothing where it cannot be.
    pub fn target_launch(&self, config: &Assignment) -> Option<LaunchSpec> {
        let target = self.manifest().target();
        let values = self.values(target, config);
        self.launch.on(&values, target).ok()
    }

    /// How a config is timed.
    pub fn style(&self, config: &Assignment) -> Style {
        Style {
            cores: self.cores(config),
            caches: self.manifest().measure.caches,
            on_gpu: self.is_cuda(),
        }
    }

    /// The shortest time any kernel can take on this device, and what it is needed for.
    pub fn floor_ns(&self) -> Option<(f64, &'static str)> {
        let manifest = self.manifest();
        let is_byte = |a: &Argument| a.dtype.size_bytes() == 1;
        let has_bytes = manifest.arguments.iter().any(is_byte);
        let work = Work {
            flops: self.work(manifest.work.flops.as_ref()),
            bytes: self.work(manifest.work.bytes.as_ref()),
        };
        Peaks::of_device(&self.device, has_bytes)?.floor_ns(work, manifest.measure.caches)
    }

    /// Cores a config's threads are kept on, where the manifest says how many it uses.
    pub fn cores(&self, config: &Assignment) -> Cores {
        let values = self.values(self.manifest().target(), config);
        let threads = self.threads.as_ref().and_then(|e| e.eval(&values).ok());
        match threads {
            Some(Value::Int(n)) if n > 0 => Cores::Pinned(usize::try_from(n).unwrap_or(usize::MAX)),
            _ => Cores::Any,
        }
    }

    /// A baseline in a function of its own may use any number of threads.
    pub fn baseline_cores(&self) -> Result<Cores, Failure> {
        match self.manifest().baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::Config { .. }) => Ok(self.cores(&self.baseline_config()?)),
            _ => Ok(Cores::Any),
        }
    }

    /// An amount of work on the target shape.
    pub fn work(&self, expr: Option<&Expr>) -> Option<f64> {
        let target = self.manifest().target();
        let bound = expr?.bind(&self.manifest().dimension_names()).ok()?;
        let values: Vec<Value> = target
            .dimensions
            .iter()
            .map(|(_, n)| Value::Int(*n))
            .collect();
        bound.eval(&values).ok()?.as_f64()
    }
}
