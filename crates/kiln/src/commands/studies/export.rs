//! `kiln studies export`: a study in the formats of other tuners.

use std::path::Path;

use kiln_core::interchange::{self, Table, t1};
use kiln_core::manifest::Language;
use kiln_core::study::Study;
use serde_json::json;

use crate::cli::ExportFormat;
use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing};
use crate::printer;
use crate::report::terminal::human_bytes;

pub fn export(
    study: &Study,
    to: ExportFormat,
    out: &Path,
    existing: Existing,
    json: bool,
) -> Result<Exit, Failure> {
    if !packed::is_json_name(out) {
        return Err(
            Failure::usage(format!("`{}` is no name for a JSON file", out.display()))
                .hint("call it NAME.json, or NAME.json.gz to compress it"),
        );
    }
    let refuse =
        |why: String| Failure::usage(format!("study {} cannot be exported: {why}", study.id));
    let table = || Table::of_study(study).map_err(|e| refuse(e.to_string()));
    let text = match to {
        ExportFormat::T1 => {
            let manifest = study.own_manifest().map_err(|e| refuse(e.to_string()))?;
            let document = t1::of_manifest(&manifest);
            let document = document.map_err(|e| refuse(e.to_string()).hint(e.hint()))?;
            if manifest.kernel.language != Language::Cuda {
                printer::talk(
                    "warning: T1 has no word for kernels in C; `Language` is `OpenCL`, `SourceLanguage` is `C`",
                );
            }
            format!("{document:#}\n")
        }
        ExportFormat::T4 => format!("{}\n", interchange::write_t4(&table()?)),
        ExportFormat::KernelTuner => interchange::write_kernel_tuner(&table()?),
    };
    let bytes = packed::write(text.into_bytes(), out, existing)?;
    if !study.finished {
        printer::talk(&format!(
            "warning: study {} is not finished; what it has so far is exported",
            study.id
        ));
    }
    let trials = study.trials.len();
    let out = out.display().to_string();
    if json {
        let document = json!({
            "schema_version": 1, "study": study.id, "file": out, "bytes": bytes,
            "trials": trials, "finished": study.finished,
        });
        printer::document(&document);
    } else {
        let what = match to {
            ExportFormat::T1 => "the space".to_string(),
            ExportFormat::T4 | ExportFormat::KernelTuner => format!("{trials} trials"),
        };
        printer::talk(&format!(
            "exported {what} of study {} to {out} ({})",
            study.id,
            human_bytes(bytes)
        ));
    }
    Ok(Exit::Success)
}
