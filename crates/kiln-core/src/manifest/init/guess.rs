//! The dimensions and arguments of a first manifest, as far as the function shows them.

use super::body::{self, Bounds, Doubt, Extents, Reach, Use};
use super::source::{Function, Parameter, Passing, words};
use crate::diagnostic::printable;
use crate::dtype::DType;
use crate::manifest::fill::whole_range;

/// A size of the problem.
#[derive(Debug, PartialEq)]
pub(super) struct Dimension {
    pub name: String,
    pub target: u32,
    /// Odd and unlike the others, so that a mix-up of two sizes shows.
    pub tiny: u32,
}

/// A parameter as a line of `[arguments]`.
pub(super) struct Argument {
    pub line: String,
    pub name: String,
    /// Bytes over dimensions, of a buffer whose size could be seen.
    pub bytes: Option<String>,
    pub is_buffer: bool,
    /// Of a buffer: a person should look at its shape.
    pub shape_is_guessed: bool,
    /// A fixed number of sums over everything else.
    pub is_one_sum: bool,
}

pub(super) struct Guess {
    pub dimensions: Vec<Dimension>,
    pub arguments: Vec<Argument>,
}

/// Integers that say how, not how much.
const NOT_SIZES: [&str; 8] = [
    "radius", "iter", "step", "pad", "stride", "flag", "mode", "axis",
];

impl Guess {
    pub fn of(entry: &Function, is_cuda: bool, taken: &dyn Fn(&str) -> bool) -> Guess {
        let could_be_size = |p: &&Parameter| {
            let holds_a_size = p
                .dtype
                .is_some_and(|d| !d.is_float() && d.size_bytes() >= 4);
            let name = p.name.to_lowercase();
            p.passing == Passing::Value
                && holds_a_size
                && !NOT_SIZES.iter().any(|n| name.contains(n))
        };
        let integers: Vec<&str> = entry
            .parameters
            .iter()
            .filter(could_be_size)
            .map(|p| p.name.as_str())
            .collect();
        let buffers: Vec<&str> = entry
            .parameters
            .iter()
            .filter(|p| p.passing != Passing::Value)
            .map(|p| p.name.as_str())
            .collect();
        let bounds = Bounds::of(&entry.body, &integers);
        let mut sizes = bounds.sizes(&buffers);
        // A kernel with a block for each row has no use for their number.
        let blocks = match is_cuda && words(&entry.body).any(|word| word == "blockIdx") {
            true => bounds.unnamed(),
            false => Vec::new(),
        };
        if !sizes.is_empty() {
            sizes = integers
                .iter()
                .copied()
                .filter(|name| sizes.contains(name) || blocks.contains(name))
                .collect();
        } else {
            sizes = integers.clone();
        }
        let names = dimension_names(&sizes, taken);
        let dimensions: Vec<Dimension> = dimensions(&names);
        let dimension_of = |size: &str| {
            let place = sizes.iter().position(|s| *s == size)?;
            names.get(place).cloned()
        };
        let roles = Roles::of(entry);
        let is_factor = |p: &&Parameter| {
            p.passing == Passing::Value && p.dtype.is_none_or(|dtype| dtype.is_float())
        };
        let scalars = entry.parameters.iter().filter(is_factor);
        let scalars: Vec<&str> = scalars.map(|p| p.name.as_str()).collect();
        let first_buffer = buffers.first().copied();
        let arguments = entry
            .parameters
            .iter()
            .map(|p| match (p.passing, first_buffer) {
                (Passing::Value, Some(buffer)) if is_cuda && p.c_type == "CUtensorMap" => Argument {
                    line: format!(
                        "{} = {{ tma = \"{buffer}\", box = [64] }}  # fill in: which buffer it describes; the box",
                        p.name
                    ),
                    name: p.name.clone(),
                    bytes: None,
                    is_buffer: false,
                    shape_is_guessed: false,
        is_one_sum: false,
                },
                (Passing::Value, _) => scalar(p, dimension_of(&p.name)),
                _ => {
                    let shape = bounds.extents(&p.name).and_then(|extents| {
                        let sizes = extents.sizes.iter().map(|e| dimension_of(e));
                        let mut sizes = sizes.collect::<Option<Vec<_>>>()?;
                        if extents.is_by_block && extents.doubt.is_some() {
                            let blocks = blocks.iter().filter_map(|size| dimension_of(size));
                            sizes = blocks.chain(sizes).collect();
                        }
                        match &mut sizes[..] {
                            [] => sizes.extend(extents.factor.map(|count| count.to_string())),
                            [only] => *only = only_extent(only, &extents),
                            _ => {}
                        }
                        Some(Shape { sizes, doubt: extents.doubt })
                    });
                    let is_fixed = |s: &Shape| s.sizes.iter().all(|size| size.parse::<u64>().is_ok());
                    let extents_are_fixed = shape.as_ref().is_some_and(is_fixed);
                    let is_integer = p.dtype.is_some_and(|d| !d.is_float());
                    let reach = bounds.reach(&p.name, &buffers).filter(|_| is_integer);
                    let values = match reach {
                        None => Values::Any,
                        Some(Reach::Unknown) => Values::Indices { below: None },
                        Some(Reach::Below { sizes, factor }) => {
                            let sizes = sizes.iter().map(|size| dimension_of(size));
                            let sizes: Option<Vec<String>> = sizes.collect();
                            let factor = factor.map(|f| format!("{f} * ")).unwrap_or_default();
                            let below = sizes.map(|s| format!("{factor}{}", s.join(" * ")));
                            Values::Indices { below }
                        }
                    };
                    let mut argument = buffer(p, shape, values, &names, roles.of_pointer(p));
                    argument.is_one_sum = extents_are_fixed
                        && p.dtype == Some(DType::F32)
                        && p.passing == Passing::Pointer
                        && body::is_plain_sum(&entry.body, &p.name, &scalars);
                    argument
                }
            })
            .collect();
        Guess {
            dimensions,
            arguments,
        }
    }

    /// Bytes that a launch moves at least, where all buffers show their size.
    pub fn bytes(&self) -> Option<String> {
        let buffers = self.arguments.iter().filter(|a| a.is_buffer);
        let terms: Option<Vec<&str>> = buffers.map(|a| a.bytes.as_deref()).collect();
        terms.map(|terms| terms.join(" + "))
    }

    /// The buffers whose shape only a person can tell.
    pub fn guessed_shapes(&self) -> Vec<String> {
        let guessed = self.arguments.iter().filter(|a| a.shape_is_guessed);
        guessed.map(|a| a.name.clone()).collect()
    }
}

/// The names of sizes as dimensions: in capitals, and none that a tunable has.
fn dimension_names(sizes: &[&str], taken: &dyn Fn(&str) -> bool) -> Vec<String> {
    let free = |name: String, others: &[String]| match taken(&name) || others.contains(&name) {
        true => format!("{name}_SIZE"),
        false => name,
    };
    let mut names: Vec<String> = Vec::new();
    for size in sizes {
        let name = free(size.to_uppercase(), &names);
        names.push(name);
    }
    if names.is_empty() {
        names.push(free("N".to_string(), &[]));
    }
    names
}

fn dimensions(names: &[String]) -> Vec<Dimension> {
    // All buffers together stay at some megabytes, also where one has all dimensions.
    let target = match names.len() {
        1 => 1_048_576,
        2 => 1024,
        3 => 256,
        4 => 64,
        _ => 16,
    };
    const ODD: [u32; 5] = [17, 33, 9, 7, 5];
    let tiny = |place: usize| match names.len() {
        // Odd, so that sizes that no one has tried are not all multiples of eight: they share what the shapes share.
        1 => 1003,
        2..=4 => ODD[place % ODD.len()],
        _ => [3, 5, 7, 9, 2][place % 5],
    };
    names
        .iter()
        .enumerate()
        .map(|(place, name)| Dimension {
            name: name.clone(),
            target,
            tiny: tiny(place),
        })
        .collect()
}

/// Which pointers are written, if any can be seen to be.
struct Roles<'f> {
    body: &'f str,
    some_is_written: bool,
}

impl Roles<'_> {
    fn of(entry: &Function) -> Roles<'_> {
        let is_written = |p: &&Parameter| {
            p.passing == Passing::Pointer
                && matches!(
                    body::use_of(&entry.body, &p.name),
                    Use::Written | Use::Updated
                )
        };
        Roles {
            body: &entry.body,
            some_is_written: entry.parameters.iter().any(|p| is_written(&p)),
        }
    }

    /// The role, and what is left to say about it.
    fn of_pointer(&self, parameter: &Parameter) -> (&'static str, Option<&'static str>) {
        if parameter.passing == Passing::ConstPointer {
            return ("input", None);
        }
        match body::use_of(self.body, &parameter.name) {
            Use::Written => ("output", None),
            Use::Updated => ("inout", None),
            Use::Read if self.some_is_written => ("input", None),
            Use::Read | Use::Unknown => ("output", Some("`inout` if it is read too")),
        }
    }
}

fn only_extent(dimension: &str, extents: &Extents<'_>) -> String {
    match (extents.factor, extents.beyond) {
        (Some(factor), _) => format!("{factor} * {dimension}"),
        (None, 0) => dimension.to_string(),
        (None, beyond) => format!("{dimension} + {beyond}"),
    }
}

fn scalar(parameter: &Parameter, dimension: Option<String>) -> Argument {
    let (dtype, mut notes) = dtype(parameter);
    let value = match (dimension, parameter.dtype) {
        (Some(dimension), _) => format!("\"{dimension}\""),
        // One would hide a factor that was forgotten.
        (None, Some(d)) if d.is_float() => {
            notes.push("the value".to_string());
            "1.5".to_string()
        }
        (None, _) => {
            notes.push("the value".to_string());
            "1".to_string()
        }
    };
    Argument {
        line: with_notes(
            format!(
                "{} = {{ dtype = \"{dtype}\", value = {value} }}",
                parameter.name
            ),
            &notes,
        ),
        name: parameter.name.clone(),
        bytes: None,
        is_buffer: false,
        shape_is_guessed: false,
        is_one_sum: false,
    }
}

/// Extents over dimensions.
struct Shape {
    sizes: Vec<String>,
    doubt: Option<Doubt>,
}

/// What to look at in a shape, if anything.
fn doubt_about(shape: Option<&Shape>, name: &str) -> Option<String> {
    const LONGEST: usize = 40;
    let Some(shape) = shape else {
        return Some("the shape, which no subscript shows".to_string());
    };
    match shape.doubt.as_ref()? {
        Doubt::Subscript(index) => {
            let index = index.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(match index.chars().count() > LONGEST {
                true => "the shape, a guess".to_string(),
                false => format!("the shape, a guess from `{name}[{}]`", printable(&index)),
            })
        }
        Doubt::NotOnlySubscripts => Some(format!(
            "the shape, a guess: `{name}` is used without a subscript too"
        )),
    }
}

/// What the elements of a buffer are for.
enum Values {
    Any,
    /// Subscripts of another buffer, and over dimensions what they stay below, where that can be seen.
    Indices {
        below: Option<String>,
    },
}

fn buffer(
    parameter: &Parameter,
    shape: Option<Shape>,
    values: Values,
    all: &[String],
    (role, doubt): (&str, Option<&str>),
) -> Argument {
    let (dtype, mut notes) = dtype(parameter);
    let guessed = doubt_about(shape.as_ref(), &parameter.name);
    let shape_is_guessed = guessed.is_some();
    notes.extend(guessed);
    let extents = shape.map(|s| s.sizes);
    notes.extend(doubt.map(String::from));
    let draw = match role {
        "output" => None,
        _ => parameter.dtype.and_then(|dtype| draw(dtype, &values)),
    };
    if draw.is_some() {
        notes.push("the values it may hold".to_string());
    }
    let draw = draw.map_or(String::new(), |draw| format!(", draw = {draw}"));
    let bytes = parameter
        .dtype
        .zip(extents.as_ref())
        .map(|(dtype, extents)| {
            let factors = extents.iter().map(|extent| match extent.contains('+') {
                true => format!("({extent})"),
                false => extent.clone(),
            });
            let factors: Vec<String> = factors.collect();
            // What is updated is read and written.
            let times = if role == "inout" { 2 } else { 1 };
            format!("{} * {}", times * dtype.size_bytes(), factors.join(" * "))
        });
    let shape: Vec<String> = extents
        .as_deref()
        .unwrap_or(all)
        .iter()
        .map(|e| match e.parse::<u64>() {
            Ok(count) => count.to_string(),
            Err(_) => format!("\"{e}\""),
        })
        .collect();
    let role = match role {
        "input" => String::new(),
        other => format!(", role = \"{other}\""),
    };
    let name = &parameter.name;
    Argument {
        line: with_notes(
            format!(
                "{name} = {{ dtype = \"{dtype}\", shape = [{}]{role}{draw} }}",
                shape.join(", ")
            ),
            &notes,
        ),
        name: name.clone(),
        bytes,
        is_buffer: true,
        shape_is_guessed,
        is_one_sum: false,
    }
}

/// What integers are drawn from, where the default is not good enough. By default only small numbers are drawn, for which a
/// kernel that drops high bits is right, so:
///
/// - Small types, pixels and samples, are drawn from all their values.
/// - Subscripts are drawn from all that stay inside the buffer they choose from. Where its size cannot be seen, they are
///   drawn from all values of the type: the reference then reads outside, and nothing is tuned before the author has said
///   what they may be.
fn draw(dtype: DType, values: &Values) -> Option<String> {
    let is_small = dtype.size_bytes() < 4;
    let (least, most) = whole_range(dtype);
    let range = |low: i64, high: &str| {
        Some(format!(
            "{{ kind = \"integers\", low = {low}, high = {high} }}"
        ))
    };
    match values {
        _ if dtype.is_float() => None,
        Values::Indices { below: Some(below) } if is_small => {
            range(0, &format!("\"min({below} - 1, {most})\""))
        }
        Values::Indices { below: Some(below) } => range(0, &format!("\"{below} - 1\"")),
        Values::Indices { below: None } => range(least, &most.to_string()),
        Values::Any if is_small => range(least, &most.to_string()),
        Values::Any => None,
    }
}

fn dtype(parameter: &Parameter) -> (&'static str, Vec<String>) {
    match parameter.dtype {
        Some(dtype) if parameter.is_nested() => (
            dtype.name(),
            vec![format!(
                "kiln hands over `{0} *{1}`; the source has `{0} {1}{2}`",
                printable(&parameter.c_type),
                parameter.name,
                printable(&parameter.brackets)
            )],
        ),
        Some(dtype) => (dtype.name(), Vec::new()),
        None => (
            "f32",
            vec![format!(
                "the type, `{}` in the source",
                printable(&parameter.c_type)
            )],
        ),
    }
}

fn with_notes(line: String, notes: &[String]) -> String {
    match notes.is_empty() {
        true => line,
        false => format!("{line}  # fill in: {}", notes.join("; ")),
    }
}
