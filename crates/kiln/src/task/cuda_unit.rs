//! The text handed to a CUDA compiler: the source, and assertions that its entry takes what the
//! manifest says. A launch passes bare bytes, so nobody else would notice a difference.

use std::fmt::Write;
use std::path::Path;

use kiln_core::dtype::DType;
use kiln_core::manifest::{Argument, ArgumentKind, Role};

use super::Precision;

// A source's macros hold here too, so that every name is one that nobody else defines.
const TRAITS: &str = "
namespace kiln_manifest_ {
template <class kiln_t_> struct kiln_plain_ { using kiln_type_ = kiln_t_; enum { kiln_const_ = false }; };
template <class kiln_t_> struct kiln_plain_<const kiln_t_> { using kiln_type_ = kiln_t_; enum { kiln_const_ = true }; };
template <class kiln_t_> struct kiln_plain_<volatile kiln_t_> { using kiln_type_ = kiln_t_; enum { kiln_const_ = false }; };
template <class kiln_t_> struct kiln_plain_<const volatile kiln_t_> { using kiln_type_ = kiln_t_; enum { kiln_const_ = true }; };
// 0: passed by value, 1: a pointer, 2: a reference.
template <class kiln_t_> struct kiln_passed_ { enum { kiln_how_ = 0 }; using kiln_to_ = void; };
template <class kiln_t_> struct kiln_passed_<kiln_t_ *> { enum { kiln_how_ = 1 }; using kiln_to_ = kiln_t_; };
template <class kiln_t_> struct kiln_passed_<kiln_t_ *__restrict__> { enum { kiln_how_ = 1 }; using kiln_to_ = kiln_t_; };
template <class kiln_t_> struct kiln_passed_<kiln_t_ &> { enum { kiln_how_ = 2 }; using kiln_to_ = void; };
template <class kiln_t_> struct kiln_passed_<kiln_t_ &&> { enum { kiln_how_ = 2 }; using kiln_to_ = void; };
// 1: floating, 2: signed, 3: unsigned, 4: bytes of anything; 0: all others, whose meaning is the author's affair.
template <class kiln_t_> struct kiln_class_ { enum { kiln_of_ = 0 }; };
template <> struct kiln_class_<float> { enum { kiln_of_ = 1 }; };
template <> struct kiln_class_<double> { enum { kiln_of_ = 1 }; };
template <> struct kiln_class_<signed char> { enum { kiln_of_ = 2 }; };
template <> struct kiln_class_<short> { enum { kiln_of_ = 2 }; };
template <> struct kiln_class_<int> { enum { kiln_of_ = 2 }; };
template <> struct kiln_class_<long> { enum { kiln_of_ = 2 }; };
template <> struct kiln_class_<long long> { enum { kiln_of_ = 2 }; };
template <> struct kiln_class_<unsigned char> { enum { kiln_of_ = 3 }; };
template <> struct kiln_class_<unsigned short> { enum { kiln_of_ = 3 }; };
template <> struct kiln_class_<unsigned> { enum { kiln_of_ = 3 }; };
template <> struct kiln_class_<unsigned long> { enum { kiln_of_ = 3 }; };
template <> struct kiln_class_<unsigned long long> { enum { kiln_of_ = 3 }; };
template <> struct kiln_class_<char> { enum { kiln_of_ = 4 }; };
// Types that are only declared, and `void`, have no size.
template <class kiln_t_, int = 1> struct kiln_size_ { enum { kiln_of_ = 0 }; };
template <class kiln_t_> struct kiln_size_<kiln_t_, sizeof(kiln_t_) != 0> { enum { kiln_of_ = sizeof(kiln_t_) }; };
template <> struct kiln_size_<void, 1> { enum { kiln_of_ = 0 }; };
template <int kiln_n_, class... kiln_p_> struct kiln_nth_ { using kiln_type_ = void; };
template <class kiln_h_, class... kiln_p_> struct kiln_nth_<0, kiln_h_, kiln_p_...> { using kiln_type_ = typename kiln_plain_<kiln_h_>::kiln_type_; };
template <int kiln_n_, class kiln_h_, class... kiln_p_> struct kiln_nth_<kiln_n_, kiln_h_, kiln_p_...> { using kiln_type_ = typename kiln_nth_<kiln_n_ - 1, kiln_p_...>::kiln_type_; };
// `kind` 0 stands for half types, which have many names.
template <class kiln_t_, int kiln_bytes_, int kiln_kind_> struct kiln_buffer_ {
    using kiln_to_ = kiln_plain_<typename kiln_passed_<kiln_t_>::kiln_to_>;
    using kiln_e_ = typename kiln_to_::kiln_type_;
    enum { kiln_size_of_ = kiln_size_<kiln_e_>::kiln_of_ };
    enum { kiln_class_of_ = kiln_class_<kiln_e_>::kiln_of_ };
    enum { kiln_const_ = kiln_to_::kiln_const_ };
    enum { kiln_fits_ = kiln_passed_<kiln_t_>::kiln_how_ == 1 && kiln_passed_<kiln_e_>::kiln_how_ == 0 &&
        (kiln_size_of_ == 0 || kiln_class_of_ == 4 || (kiln_class_of_ > 1 && kiln_size_of_ == 1) ||
         (kiln_class_of_ == 0 ? kiln_size_of_ % kiln_bytes_ == 0
                              : kiln_size_of_ == kiln_bytes_ && (kiln_kind_ == 0 || kiln_class_of_ == kiln_kind_))) };
};
template <class kiln_t_, int kiln_bytes_, int kiln_kind_> struct kiln_scalar_ {
    enum { kiln_class_of_ = kiln_class_<kiln_t_>::kiln_of_ };
    // A half as `unsigned short` is its bits; as `short` it is most likely meant as a number.
    enum { kiln_fits_ = kiln_passed_<kiln_t_>::kiln_how_ == 0 && kiln_size_<kiln_t_>::kiln_of_ == kiln_bytes_ &&
        (kiln_class_of_ == 0 || kiln_class_of_ == kiln_kind_ || (kiln_class_of_ == 4 && kiln_kind_ > 1) ||
         (kiln_class_of_ == 3 && kiln_kind_ == 0)) };
};
template <class kiln_t_> struct kiln_signature_;
template <class... kiln_p_> struct kiln_signature_<void(kiln_p_...)> {
    enum { kiln_count_ = sizeof...(kiln_p_) };
    template <int kiln_n_> using kiln_parameter_ = typename kiln_nth_<kiln_n_, kiln_p_...>::kiln_type_;
};
}
";

/// Everything the compiler gets for one entry.
pub(super) fn text(
    arguments: &[&Argument],
    source: &Path,
    entry: &str,
    precision: Precision,
) -> String {
    let mut text = format!("#include \"{}\"\n{TRAITS}", source.display());
    let signature = format!("kiln_manifest_::kiln_signature_<decltype({entry})>");
    if entry.contains('<') {
        // NVRTC instantiates what it is asked for by name, nvcc what host code uses.
        let _ = writeln!(
            text,
            "#ifndef __CUDACC_RTC__\nauto *kiln_instance_ = &{entry};\n#endif"
        );
    }
    let count = arguments.len();
    let _ = writeln!(
        text,
        "static_assert({signature}::kiln_count_ == {count}, \"'{entry}' does not take the {count} arguments of the manifest\");"
    );
    for (index, argument) in arguments.iter().enumerate() {
        let dtype = match precision {
            Precision::Double if argument.dtype.is_float() => DType::F64,
            _ => argument.dtype,
        };
        let kind = match dtype {
            DType::F16 | DType::Bf16 => 0,
            DType::F32 | DType::F64 => 1,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 2,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 3,
        };
        let parameter = format!("{signature}::kiln_parameter_<{index}>");
        let size = dtype.size_bytes();
        let buffer = format!("kiln_manifest_::kiln_buffer_<{parameter}, {size}, {kind}>");
        let number = index + 1;
        let name = &argument.name;
        let (condition, is) = match &argument.kind {
            ArgumentKind::Buffer { .. } => (
                format!("{buffer}::kiln_fits_"),
                format!("a pointer to {dtype}"),
            ),
            ArgumentKind::Scalar { .. } => (
                format!("kiln_manifest_::kiln_scalar_<{parameter}, {size}, {kind}>::kiln_fits_"),
                format!("a scalar {dtype}, passed by value"),
            ),
            ArgumentKind::Tma { .. } => (
                format!(
                    "(kiln_manifest_::kiln_passed_<{parameter}>::kiln_how_ == 0 && \
                     kiln_manifest_::kiln_size_<{parameter}>::kiln_of_ == 128)"
                ),
                "a TMA descriptor of 128 bytes, passed by value".into(),
            ),
        };
        // The compiler prints some characters as question marks, backticks among them.
        // Shorter lists were reported above; more messages would only hide that.
        let _ = writeln!(
            text,
            "static_assert({index} >= {signature}::kiln_count_ || {condition}, \
             \"parameter {number} of '{entry}' is not what the manifest says: argument '{name}' is {is}\");",
        );
        let written = match &argument.kind {
            ArgumentKind::Buffer { role, .. } => match role {
                Role::Output => Some("output"),
                Role::InOut => Some("inout"),
                Role::Input | Role::Scratch | Role::Zeroed => None,
            },
            _ => None,
        };
        if let Some(role) = written {
            let _ = writeln!(
                text,
                "static_assert({index} >= {signature}::kiln_count_ || !{buffer}::kiln_const_, \
                 \"parameter {number} of '{entry}' points to const, but the manifest says that argument '{name}' is written: its role is {role}\");",
            );
        }
    }
    text
}
