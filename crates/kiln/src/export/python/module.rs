//! `__init__.py`: the functions that a user of the package calls, with the names of the manifest as parameters.
//!
//! What it uses beside those begins with an underscore and ends with none, or is one of the words that `names` keeps free:
//! no name of a manifest hides it.

use kiln_core::manifest::Role;
use serde_json::json;

use super::{literal, tuple};
use crate::export::names;
use crate::export::package::Package;
use crate::export::plan::Plan;
use crate::export::standing::Standing;

/// The parameters of a call. No two are the same, whatever the manifest calls its arguments, dimensions and scalars.
pub struct CallNames {
    pub tensors: Vec<String>,
    pub parameters: Vec<String>,
    pub scalars: Vec<String>,
    /// Without a tensor nothing says where to run.
    pub device: Option<String>,
}

impl CallNames {
    pub fn of(plan: &Plan) -> CallNames {
        let mut taken = Vec::new();
        let mut free = |name: &str| {
            let mut name = names::safe(name);
            while taken.contains(&name) {
                name.push('_');
            }
            taken.push(name.clone());
            name
        };
        let tensors: Vec<String> = plan.inputs().map(|(_, a)| free(&a.name)).collect();
        let parameters = plan.parameters.iter().map(|(name, _)| free(name)).collect();
        let scalars = plan.scalars().map(|(_, a)| free(&a.name)).collect();
        let device = tensors.is_empty().then(|| free("device"));
        CallNames {
            tensors,
            parameters,
            scalars,
            device,
        }
    }
}

pub fn text(plan: &Plan, package: &Package) -> String {
    let name = &plan.identifier;
    let names = CallNames::of(plan);
    let scalars: Vec<(&String, String)> = names
        .scalars
        .iter()
        .zip(plan.scalars())
        .map(|(name, (scalar, _))| (name, literal(&json!(scalar.default))))
        .collect();
    let mut written: Vec<String> = names
        .parameters
        .iter()
        .zip(&plan.parameters)
        .map(|(name, (_, default))| match default {
            Some(value) => format!("{name}={}", literal(&json!(value))),
            None => name.clone(),
        })
        .collect();
    written.extend(
        scalars
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    written.extend(names.device.iter().map(|name| format!("{name}=None")));
    let signature = match (names.tensors.as_slice(), written.as_slice()) {
        (tensors, []) => tensors.join(", "),
        ([], written) => format!("*, {}", written.join(", ")),
        (tensors, written) => format!("{}, *, {}", tensors.join(", "), written.join(", ")),
    };
    let gives: Vec<String> = plan
        .outputs()
        .map(|(_, a)| format!("`{}`", a.name))
        .collect();
    let writes: Vec<String> = plan
        .buffers(&[Role::InOut])
        .map(|(_, a)| format!("`{}`", a.name))
        .collect();
    let mut told = match gives.is_empty() {
        true => String::new(),
        false => format!("Returns {}.", gives.join(", ")),
    };
    if !writes.is_empty() {
        told.push_str(&format!(" Writes into {}.", writes.join(", ")));
    }
    for (name, value) in &scalars {
        told.push_str(&format!(" `{name}` was checked and timed as {value} only."));
    }
    for sentence in plan.frozen() {
        told.push_str(&format!(" {sentence}."));
    }
    let told = told.trim_start();
    let tensors = tuple(&names.tensors);
    let placed = match &names.device {
        None => String::new(),
        Some(name) => format!(", _kernel.place({name})"),
    };
    let plain: String = names
        .tensors
        .iter()
        .map(|t| format!(" and type({t}) in _PLAIN"))
        .collect();
    let given = format!(
        "{tensors}, {}, {}{placed}",
        tuple(&names.parameters),
        tuple(&names.scalars)
    );
    // PyTorch has no gradient for operators that write into their arguments: the graph is left for the fallback.
    let (outside, aside) = match writes.is_empty() {
        true => (String::new(), String::new()),
        false => (
            format!("    if _compiling() and _kernel.wants_gradient({tensors}):\n        return _outside({given})\n"),
            "\n\n@_runtime.torch.compiler.disable\ndef _outside(*arguments):\n    \
             \"\"\"A gradient of a kernel that writes into its arguments is the fallback's, outside of compiled graphs.\"\"\"\n    \
             return _kernel(*arguments)\n"
                .to_string(),
        ),
    };
    let device = Vec::from_iter(names.device);
    let all = [names.tensors, names.parameters, names.scalars, device].concat();
    format!(
        "\"\"\"{kernel}, as kiln {version} tuned it. {standing}\n\n\
         `{name}` is the kernel, also for `torch.compile` and CUDA graphs (run it once before a capture, or call `prepare`);\n\
         `explain` says what a call runs and why, `dispatch` what was tuned, `prepare` loads all images at once, `nearest` whether\n\
         shapes that were not tuned get the config of the nearest one. It has no gradient: where one is asked for, and where no\n\
         config fits, the fallback computes the answer, with a warning.\n\"\"\"\n\n\
         import os as _os\n\nfrom . import _runtime, _table\nfrom ._runtime import FallsBack, KernelError, NearestShape\n\n\
         __all__ = [\"{name}\", \"explain\", \"dispatch\", \"prepare\", \"nearest\", \"FallsBack\", \"KernelError\", \"NearestShape\"]\n\n\
         _kernel = _runtime.Kernel(_table, _os.path.dirname(_os.path.abspath(__file__)))\n\
         _operator = _kernel.register()\n_compiling, _PLAIN = _runtime.is_compiling, _runtime.PLAIN\n{aside}\n\n\
         def {name}({signature}):\n    \"\"\"{told}\"\"\"\n    \
         # Past the operator's dispatch, which takes longer than all else, unless somebody watches it.\n    \
         if not _compiling(){plain}:\n        return _kernel({given})\n{outside}    return _operator({all})\n\n\n\
         def explain({signature}):\n    \"\"\"What a call would run, and why, as a dictionary.\"\"\"\n    \
         return _kernel.explain({given})\n\n\n\
         def dispatch():\n    \"\"\"Every shape that was tuned, its config and the evidence.\"\"\"\n    \
         return _kernel.dispatch()\n\n\n\
         def prepare(device=None):\n    \"\"\"Loads every image that fits a device; returns how many there are.\"\"\"\n    \
         return _kernel.prepare(device)\n\n\n\
         def nearest(use):\n    \"\"\"Whether shapes that were not tuned get the config of the nearest one (they do) or the fallback.\"\"\"\n    \
         _kernel.take_nearest(use)\n",
        kernel = plan.kernel,
        version = package.kiln_version,
        standing = Standing::of_all(&plan.dispatch).sentence(),
        all = all.join(", "),
    )
}
