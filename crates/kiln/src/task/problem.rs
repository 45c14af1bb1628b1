//! The arguments of a launch, and what its outputs are compared with.

use super::*;

impl Task {
    /// The arguments of one launch, and its geometry.
    pub fn problem(
        &self,
        part: Part,
        shape: &Shape,
        config: &Assignment,
        seed: u64,
    ) -> Result<Problem, Failure> {
        let values = self.values(shape, config);
        let precision = self.precision(part);
        let mut arguments: Vec<ArgumentSpec> = Vec::new();
        for (argument, bound) in self.manifest().arguments.iter().zip(&self.bound) {
            arguments.push(self.argument_spec(argument, bound, shape, &values, precision)?);
        }
        match self.takes_descriptors(part) {
            true => self.see_tensors(&mut arguments),
            false => without_descriptors(&mut arguments),
        }
        let own_launch = match part {
            Part::Candidate => None,
            Part::Baseline => self.baseline_launch.as_ref(),
            Part::Reference => self.reference_launch.as_ref(),
        };
        let launch = match own_launch {
            Some(launch) => Some(launch.on(&values, shape)?),
            None if self.is_cuda() => Some(self.launch.on(&values, shape)?),
            None => None,
        };
        Ok(Problem {
            shape: shape.name.clone(),
            seed,
            dimensions: shape.dimensions.clone(),
            arguments,
            launch,
            variation: None,
        })
    }

    /// References and baselines of their own get the buffers themselves: boxes belong to configs.
    pub(super) fn takes_descriptors(&self, part: Part) -> bool {
        let baseline = self.manifest().baseline.as_ref().map(|b| &b.kind);
        match part {
            Part::Candidate => true,
            Part::Baseline => matches!(baseline, Some(BaselineKind::Config { .. })),
            Part::Reference => false,
        }
    }

    pub(super) fn precision(&self, part: Part) -> Precision {
        match (part, &self.manifest().reference) {
            (
                Part::Reference,
                Some(Reference::Kernel {
                    precision: ReferencePrecision::Declared,
                    ..
                }),
            ) => Precision::Declared,
            // A Python child widens by itself.
            (Part::Reference, Some(Reference::Python(_))) => Precision::Declared,
            (Part::Reference, _) => Precision::Double,
            _ => Precision::Declared,
        }
    }

    /// Whether the reference answers in the kernel's own types.
    pub fn reference_is_narrow(&self) -> bool {
        self.precision(Part::Reference) == Precision::Declared
            && !matches!(self.manifest().reference, Some(Reference::Python(_)))
    }

    /// A descriptor sees its tensor with as many dimensions as its tile has: leading ones merge.
    pub(super) fn see_tensors(&self, arguments: &mut [ArgumentSpec]) {
        let shapes: Vec<Vec<u64>> = arguments
            .iter()
            .map(|argument| match argument {
                ArgumentSpec::Buffer { extents, .. } => extents.clone(),
                _ => Vec::new(),
            })
            .collect();
        for argument in arguments {
            if let ArgumentSpec::Tma {
                tensor,
                extents,
                tile,
                ..
            } = argument
            {
                let whole = &shapes[*tensor];
                let merged = (whole.len() + 1).saturating_sub(tile.len()).max(1);
                let (leading, rest) = whole.split_at(merged.min(whole.len()));
                *extents = vec![leading.iter().product()];
                extents.extend(rest);
            }
        }
    }

    pub(super) fn argument_spec(
        &self,
        argument: &Argument,
        bound: &BoundArgument,
        shape: &Shape,
        values: &[Value],
        precision: Precision,
    ) -> Result<ArgumentSpec, Failure> {
        let seen_as = match precision {
            Precision::Double if argument.dtype.is_float() => DType::F64,
            _ => argument.dtype,
        };
        let bad = |message: String| {
            let label = format!("on shape `{}`", shape.name);
            self.file
                .error(&Diagnostic::new(message, argument.span.clone()).label(label))
        };
        let evaluate = |expr: &BoundExpr| {
            expr.eval(values).map_err(|e| {
                bad(format!(
                    "argument `{}`: `{}`: {e}",
                    argument.name,
                    expr.text()
                ))
            })
        };
        match (&argument.kind, bound) {
            (ArgumentKind::Scalar { .. }, BoundArgument::Scalar(expr)) => {
                Ok(ArgumentSpec::Scalar {
                    name: argument.name.clone(),
                    dtype: seen_as,
                    value: rounded(evaluate(expr)?, argument.dtype),
                })
            }
            (ArgumentKind::Buffer { role, fill, .. }, BoundArgument::Buffer(exprs)) => {
                let mut extents = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    match evaluate(expr)? {
                        Value::Int(n) if n >= 0 => extents.push(n as u64),
                        other => {
                            return Err(bad(format!(
                                "argument `{}`: extent `{}` is {other}, not a size",
                                argument.name,
                                expr.text()
                            )));
                        }
                    }
                }
                Ok(ArgumentSpec::Buffer {
                    name: argument.name.clone(),
                    dtype: argument.dtype,
                    extents,
                    role: *role,
                    fill: self.resolved_fill(argument, fill, shape)?,
                    seen_as,
                })
            }
            (
                ArgumentKind::Tma {
                    tensor, swizzle, ..
                },
                BoundArgument::Tma(exprs),
            ) => {
                let mut tile = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    match evaluate(expr)? {
                        Value::Int(n @ 1..=256) => tile.push(n as u32),
                        other => {
                            return Err(bad(format!(
                                "argument `{}`: box extent `{}` is {other}, not from 1 to 256",
                                argument.name,
                                expr.text()
                            )));
                        }
                    }
                }
                Ok(ArgumentSpec::Tma {
                    name: argument.name.clone(),
                    tensor: *tensor,
                    dtype: argument.dtype,
                    extents: Vec::new(),
                    tile,
                    swizzle: *swizzle,
                })
            }
            _ => unreachable!("arguments were bound in the same order"),
        }
    }

    pub(super) fn resolved_fill(
        &self,
        argument: &Argument,
        fill: &FillRule,
        shape: &Shape,
    ) -> Result<Fill, Failure> {
        let bad = |why: BadRange| {
            let told = format!("the draw of argument `{}`: {}", argument.name, why.message);
            let label = format!("on shape `{}`", shape.name);
            self.file
                .error(&Diagnostic::new(told, argument.span.clone()).label(label))
        };
        match fill.on(&shape.dimensions, argument.dtype).map_err(bad)? {
            Fill::File { path } => Ok(Fill::File {
                path: self.data_file(&path, &[("{shape}", &shape.name)])?,
            }),
            other => Ok(other),
        }
    }

    /// A data file inside the project, with the placeholders of its pattern filled in.
    pub(super) fn data_file(
        &self,
        pattern: &str,
        replace: &[(&str, &str)],
    ) -> Result<String, Failure> {
        let mut name = pattern.to_string();
        for (placeholder, value) in replace {
            name = name.replace(placeholder, value);
        }
        let found = self.file.dir().join(&name).canonicalize().map_err(|e| {
            Failure::usage(format!("cannot use the data file `{name}`: {e}"))
                .hint("paths are relative to the manifest")
        })?;
        if !found.starts_with(&self.file.root) {
            return Err(
                Failure::usage(format!("the data file `{name}` lies outside the project")).hint(
                    "copy it into the project, or make its folder the project with `git init`",
                ),
            );
        }
        if !found.is_file() {
            return Err(
                Failure::usage(format!("the data file `{name}` is not a regular file"))
                    .hint("name a .npy file"),
            );
        }
        Ok(found.display().to_string())
    }

    /// Outputs of a problem in order, with no expected contents yet.
    pub fn outputs(&self, problem: &Problem) -> Result<Vec<Expected>, Failure> {
        let arguments = self.manifest().arguments.iter().zip(&problem.arguments);
        let results = arguments.filter(|(_, spec)| spec.is_result());
        results
            .map(|(argument, spec)| {
                let ArgumentSpec::Buffer { dtype, extents, .. } = spec else {
                    unreachable!("only buffers are results");
                };
                let tolerance = self.tolerance(argument, problem)?;
                let extents = extents.clone();
                Ok(Expected::new(&argument.name, *dtype, extents, tolerance))
            })
            .collect()
    }

    fn tolerance(&self, argument: &Argument, problem: &Problem) -> Result<Tolerance, Failure> {
        let own = match &argument.kind {
            ArgumentKind::Buffer { tolerance, .. } => tolerance.as_ref(),
            ArgumentKind::Scalar { .. } | ArgumentKind::Tma { .. } => None,
        };
        let by_type = || {
            let mut all = self.manifest().tolerance.iter();
            let (_, rule) = all.find(|(dtype, _)| *dtype == argument.dtype)?;
            Some(rule)
        };
        let Some(rule) = own.or_else(by_type) else {
            return Ok(numerics::default_tolerance(argument.dtype));
        };
        // The manifest's own shapes were looked at when it was read.
        rule.on(&problem.dimensions).map_err(|why| {
            let (name, shape) = (&argument.name, &problem.shape);
            Failure::usage(format!("the tolerance of `{name}` on shape `{shape}`: {why}"))
                .hint("write it so that it holds for every size, e.g. with `max`; or set `unseen_shapes = 0` in [confirm]")
        })
    }

    pub fn reference_array(
        &self,
        shape: &Shape,
        argument: &str,
    ) -> Result<Option<String>, Failure> {
        let ReferenceFile::Arrays { pattern } = &self.reference else {
            return Ok(None);
        };
        let replace = [("{shape}", shape.name.as_str()), ("{argument}", argument)];
        self.data_file(pattern, &replace).map(Some)
    }

    /// Bytes of all buffers of the target.
    pub fn target_bytes(&self) -> Option<u64> {
        let config = self.any_config().ok()?;
        let problem = self
            .problem(Part::Candidate, self.manifest().target(), &config, 0)
            .ok()?;
        let mut arguments = problem.arguments.iter();
        arguments.try_fold(0u64, |sum, a| sum.checked_add(a.bytes()?))
    }
}

/// A descriptor without a box is one the program does not take; it keeps its place, for places
/// decide what inputs hold.
fn without_descriptors(arguments: &mut [ArgumentSpec]) {
    for argument in arguments {
        if let ArgumentSpec::Tma { tile, .. } = argument {
            tile.clear();
        }
    }
}

/// What a floating type makes of a value: the reference must see what the kernel sees.
fn rounded(value: Value, dtype: DType) -> Value {
    match value.as_f64() {
        Some(number) if dtype.is_float() => {
            let mut bytes = Vec::new();
            dtype.push_f64(number, &mut bytes);
            Value::Float(dtype.read_f64(&bytes))
        }
        _ => value,
    }
}
