//! What a config means on the device at hand: how it is timed, what it occupies, what it cannot beat.

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
        let device = self.device.cuda.as_ref()?;
        let work = &self.manifest().work;
        let architecture = Architecture::parse(&device.architecture)?;
        let by_flops = self.work(work.flops.as_ref()).map(|flops| {
            // Products of 8-bit numbers run at twice the rate of 16-bit ones; narrower types, which
            // arrive packed in bytes, at four times.
            let is_byte = |a: &Argument| a.dtype.size_bytes() == 1;
            let faster = match self.manifest().arguments.iter().any(is_byte) {
                true => 4.0,
                false => 1.0,
            };
            let per_second = faster
                * f64::from(architecture.tensor_fp16_flops_per_clock)
                * f64::from(device.multiprocessors)
                * device.clock_khz as f64
                * 1e3;
            (flops / per_second * 1e9, "flops")
        });
        // What is written may still be in the L2 cache at the end, and when that was not flushed,
        // what is read may have been there from the start.
        let caches_full = match self.manifest().measure.caches {
            Caches::Cold => 1.0,
            Caches::Warm => 2.0,
        };
        let by_bytes = self.work(work.bytes.as_ref()).map(|bytes| {
            let beyond = bytes - caches_full * device.l2_bytes as f64;
            (beyond / device.memory_bandwidth() * 1e9, "bytes")
        });
        let floors = [by_flops, by_bytes];
        floors
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0))
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
