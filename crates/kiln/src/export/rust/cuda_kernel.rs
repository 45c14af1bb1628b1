//! The part of the crate that launches a CUDA kernel.

use super::*;

/// What both functions that launch are documented with.
const SAFETY: &str = "    ///\n    /// # Safety\n    /// Every address is of a buffer on this device that is as large as the manifest says for these dimensions and lives\n    \
         /// until the launch has run; buffers that start as zeros are zero. `stream` is one of this device, or null.\n";

/// The beginning of what launches.
const LAUNCH: &str = "@ALIGNED@        self.device.enter()?;\n        let choice = self.choose(d)?;\n        if self.functions[choice.config].is_none() {\n            \
         let (image, symbol) = self.image(choice.config).ok_or_else(|| Error(\"no image for this GPU\".into()))?;\n            \
         let loaded = driver::Function::load(&self.device, image, symbol)?;\n            self.functions[choice.config] = Some(loaded);\n        }\n        \
         let Some(function) = self.functions[choice.config].as_mut() else {\n            return Err(Error(\"an image that is gone\".into()));\n        };\n        \
         match choice.config {\n";

/// The heads of the functions that launch: with the scalars' defaults, and with others where there are any.
fn heads(plan: &Plan) -> String {
    const PLAIN: &str = "    /// Queues one launch.\n@SAFETY@    \
         pub unsafe fn launch(&mut self, d: &Dimensions, buffers: &Buffers, stream: *mut std::ffi::c_void) -> Result<Choice, Error> {\n";
    const WITH_SCALARS: &str = "        // SAFETY: the caller's promise.\n        unsafe { self.launch_with(d, &Scalars::default(), buffers, stream) }\n    }\n\n    \
         /// Queues one launch with other scalars.\n@SAFETY@    \
         pub unsafe fn launch_with(&mut self, d: &Dimensions, scalars: &Scalars, buffers: &Buffers, stream: *mut std::ffi::c_void) -> Result<Choice, Error> {\n";
    let text = match plan.settable.is_empty() {
        true => PLAIN.to_string(),
        false => format!("{PLAIN}{WITH_SCALARS}"),
    };
    text.replace("@SAFETY@", SAFETY)
}

pub fn cuda_runner(plan: &Plan) -> Result<String, Failure> {
    let mut text = String::from(
        "/// An architecture, the cubin for it, and the kernel in that.\ntype Image = (&'static str, &'static [u8], &'static str);\n\nfn images(config: usize) -> &'static [Image] {\n    match config {\n",
    );
    for config in &plan.configs {
        let all: Vec<String> = config
            .images
            .iter()
            .map(|i| {
                // A program that is carried elsewhere has them with it.
                let file = format!("/{}", i.file);
                format!(
                    "({:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?})), {:?})",
                    i.architecture, i.symbol
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "        {} => &[{}],",
            config_number(&config.id),
            all.join(", ")
        );
    }
    let roles = [
        Role::Input,
        Role::InOut,
        Role::Output,
        Role::Scratch,
        Role::Zeroed,
    ];
    let fields: Vec<String> = plan
        .buffers(&roles)
        .map(|(_, a)| format!("    pub {}: u64,\n", parameter(a)))
        .collect();
    let _ = writeln!(
        text,
        "        _ => &[],\n    }}\n}}\n\n/// Addresses on the device, of contiguous buffers with the extents of the manifest.\n#[derive(Clone, Copy, Debug)]\npub struct Buffers {{\n{}}}\n\n\
         /// The kernel on one GPU. Cubins are part of the program, and loaded when they are first needed.\npub struct Kernel {{\n    pub device: driver::Device,\n    \
         functions: Vec<Option<driver::Function>>,\n}}\n\n\
         impl Kernel {{\n    /// `device` counts from 0.\n    pub fn new(device: i32) -> Result<Kernel, Error> {{\n        \
         Ok(Kernel {{\n            device: driver::Device::new(device)?,\n            functions: (0..{}).map(|_| None).collect(),\n        }})\n    }}\n\n    \
         fn image(&self, config: usize) -> Option<(&'static [u8], &'static str)> {{\n        let mut all = images(config).iter();\n        \
         all.find(|(architecture, _, _)| self.device.fits(architecture)).map(|(_, image, symbol)| (*image, *symbol))\n    }}\n\n    \
         pub fn choose(&self, d: &Dimensions) -> Result<Choice, Error> {{\n        choose(d, |config| self.image(config).is_some())\n    }}\n",
        fields.concat(),
        plan.configs.len()
    );
    if plan.scratch().next().is_some() {
        let named: Vec<String> = plan
            .scratch()
            .map(|(_, a)| format!("`{}`", a.name))
            .collect();
        let _ = writeln!(
            text,
            "    /// Bytes of workspace to be given: {}.\n    pub fn scratch_bytes(&self, d: &Dimensions) -> Result<Vec<i64>, Error> {{\n        Ok(match self.choose(d)?.config {{",
            named.join(", ")
        );
        for config in &plan.configs {
            let sizes = plan
                .scratch()
                .map(|(place, a)| {
                    let count = elements_of(plan, a, &config.arguments[place])?;
                    Ok(format!("multiply({count}, {})?", a.dtype.size_bytes()))
                })
                .collect::<Result<Vec<_>, Failure>>()?;
            let _ = writeln!(
                text,
                "            {} => vec![{}],",
                config_number(&config.id),
                sizes.join(", ")
            );
        }
        text.push_str("            _ => Vec::new(),\n        })\n    }\n\n");
    }
    let aligned: String = plan
        .buffers(&roles)
        .map(|(_, a)| {
            format!(
                "        driver::aligned({:?}, buffers.{})?;\n",
                a.name,
                parameter(a)
            )
        })
        .collect();
    text.push_str(&heads(plan));
    text.push_str(&LAUNCH.replace("@ALIGNED@", &aligned));
    for config in &plan.configs {
        let _ = writeln!(text, "            {} => {{", config_number(&config.id));
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            if matches!(value, ConfigArgument::Buffer(_)) {
                let count = elements_of(plan, argument, value)?;
                let size = argument.dtype.size_bytes();
                let _ = writeln!(text, "                multiply({count}, {size})?;");
            }
            let made = match value {
                ConfigArgument::Scalar(_) => passed_scalar(plan, place, argument, value)?,
                ConfigArgument::Buffer(_) => format!("buffers.{}", parameter(argument)),
                ConfigArgument::Tma {
                    tensor,
                    tile,
                    swizzle,
                } => {
                    let ConfigArgument::Buffer(extents) = &config.arguments[*tensor] else {
                        continue;
                    };
                    let dtype = plan.arguments[*tensor].dtype;
                    format!(
                        "driver::tensor_map(&self.device, buffers.{}, {}, {}, &[{}], &[{}], {})?",
                        parameter(&plan.arguments[*tensor]),
                        tensor_map_type(dtype),
                        dtype.size_bytes(),
                        plan.ints(extents, CODE)?.join(", "),
                        plan.ints(tile, CODE)?.join(", "),
                        swizzle_number(*swizzle)
                    )
                }
            };
            let _ = writeln!(text, "                let mut kiln_a{place} = {made};");
        }
        let passed: Vec<String> = (0..plan.arguments.len())
            .map(|place| format!("(&raw mut kiln_a{place}).cast()"))
            .collect();
        let _ = writeln!(
            text,
            "                let mut parameters: [*mut std::ffi::c_void; {}] = [{}];\n                \
             // SAFETY: one pointer per parameter, in order; the rest is the caller's promise.\n                \
             unsafe {{ function.launch(&{}_geometry(d)?, stream, &mut parameters)? }};\n            }}",
            passed.len(),
            passed.join(", "),
            config.id
        );
    }
    text.push_str("            _ => unreachable!(\"only configs that are here are chosen\"),\n        }\n        Ok(choice)\n    }\n}\n");
    Ok(text)
}
