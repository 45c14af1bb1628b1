// Arithmetic as kiln's expressions mean it: whole numbers that never wrap, division that rounds down.
// Not `#pragma once`: every package brings a copy, and copies are not one file to every compiler.
#ifndef KILN_EXPORT_ARITHMETIC_HPP
#define KILN_EXPORT_ARITHMETIC_HPP

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace kiln_export {

/// What went wrong, in words.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void overflow() { throw Error("a size does not fit into 64 bits"); }
[[noreturn]] inline void by_zero() { throw Error("division by zero"); }

inline int64_t add(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) overflow();
    return r;
}
inline int64_t subtract(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r)) overflow();
    return r;
}
inline int64_t multiply(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) overflow();
    return r;
}
inline int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) by_zero();
    if (a == INT64_MIN && b == -1) overflow();
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t remainder(int64_t a, int64_t b) {
    if (b == 0) by_zero();
    if (a == INT64_MIN && b == -1) overflow();
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
inline int64_t power(int64_t a, int64_t b) {
    int64_t r = 1;
    for (int64_t i = 0; i < b; i++) r = multiply(r, a);
    return r;
}
inline int64_t ceil_div(int64_t a, int64_t b) { return subtract(0, floor_divide(subtract(0, a), b)); }
inline int64_t align_up(int64_t a, int64_t b) { return multiply(ceil_div(a, b), b); }
inline int64_t whole_abs(int64_t a) { return a < 0 ? subtract(0, a) : a; }
inline int64_t gcd(int64_t a, int64_t b) {
    a = whole_abs(a);
    b = whole_abs(b);
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}
inline int64_t lcm(int64_t a, int64_t b) {
    return a == 0 || b == 0 ? 0 : multiply(whole_abs(a) / gcd(a, b), whole_abs(b));
}
inline bool is_pow2(int64_t a) { return a > 0 && (a & (a - 1)) == 0; }

template <class T> T least(T a, T b) { return b < a ? b : a; }
template <class T> T most(T a, T b) { return a < b ? b : a; }

inline double real_divide(double a, double b) {
    if (b == 0.0) by_zero();
    return a / b;
}
inline double real_remainder(double a, double b) {
    if (b == 0.0) by_zero();
    double r = std::fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
inline double real_floor_divide(double a, double b) {
    double q = (a - real_remainder(a, b)) / b;
    double below = std::floor(q);
    return q - below > 0.5 ? below + 1.0 : below;
}
inline double real_power(double a, double b) {
    double r = std::pow(a, b);
    if (std::isinf(r) && std::isfinite(a) && std::isfinite(b)) {
        if (a == 0.0) by_zero();
        throw Error("a number is too large");
    }
    return r;
}
inline double real_abs(double a) { return std::fabs(a); }
inline double real_log2(double a) { return std::log2(a); }
inline double real_sqrt(double a) { return std::sqrt(a); }
inline int64_t whole(double a) {
    if (!(a >= -9223372036854775808.0 && a < 9223372036854775808.0)) overflow();
    return int64_t(a);
}
inline int64_t whole_floor(double a) { return whole(std::floor(a)); }
inline int64_t whole_ceil(double a) { return whole(std::ceil(a)); }
inline int64_t whole_round(double a) { return whole(std::round(a)); }
inline int64_t whole_trunc(double a) { return whole(std::trunc(a)); }

/// A whole number as a scalar argument's own type, or an error where it does not fit.
template <class T> T narrow(int64_t a) {
    T r = T(a);
    if (int64_t(r) != a || (a < 0) != (r < T(0))) throw Error("a scalar argument does not fit its type: " + std::to_string(a));
    return r;
}

/// Sizes begin at 1, as in every manifest; nothing was checked on an empty problem.
inline void at_least_one(int64_t size, const char *dimension) {
    if (size < 1) throw Error(std::string("dimension `") + dimension + "` is " + std::to_string(size) + ", expected at least 1");
}
/// No kernel was checked on a buffer without elements.
inline int64_t buffer_axis(int64_t extent, const char *buffer) {
    if (extent < 1) throw Error(std::string("`") + buffer + "` would have an axis of " + std::to_string(extent) + " for these dimensions, expected at least 1");
    return extent;
}
/// The same for workspace, which a config may do without.
inline int64_t workspace_axis(int64_t extent, const char *buffer) {
    return extent == 0 ? 0 : buffer_axis(extent, buffer);
}
/// A dimension that follows from others: `formula` says how, `holds` whether it is so.
inline void related(bool holds, int64_t size, const char *dimension, const char *formula) {
    if (!holds) throw Error(std::string("dimension `") + dimension + "` is " + std::to_string(size) + ", expected " + formula);
}
/// How far two sizes are apart: 0 when equal, symmetric, the same for 2 to 4 as for 200 to 400.
inline double distance(int64_t a, int64_t b) {
    return std::fabs(std::log(double(a)) - std::log(double(b)));
}

}  // namespace kiln_export

#endif  // KILN_EXPORT_ARITHMETIC_HPP
