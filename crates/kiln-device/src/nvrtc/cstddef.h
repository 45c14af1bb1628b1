// <cstddef>: sizes, in `std` too.
#pragma once
#include <stddef.h>
namespace std {
using ::ptrdiff_t;
using ::size_t;
typedef decltype(nullptr) nullptr_t;
}
