// Memory as kernels in C may expect it: beginning at a multiple of 64 bytes, where a cache line does.
// Not `#pragma once`: every package brings a copy, and copies are not one file to every compiler.
#ifndef KILN_EXPORT_MEMORY_HPP
#define KILN_EXPORT_MEMORY_HPP

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kiln_arithmetic.hpp"

namespace kiln_export {

constexpr uintptr_t ALIGNMENT = 64;

inline void aligned(const void *address, const char *name) {
    if (reinterpret_cast<uintptr_t>(address) % ALIGNMENT != 0)
        throw Error(std::string("`") + name + "` begins at an address that is no multiple of 64 bytes; `kiln_export::Aligned` does");
}

/// Zeros, so many elements of a plain type.
template <class T> class Aligned {
  public:
    explicit Aligned(size_t count) : memory(std::calloc(1, count * sizeof(T) + ALIGNMENT), std::free), count(count) {
        if (!memory) throw Error("out of memory");
        uintptr_t address = (reinterpret_cast<uintptr_t>(memory.get()) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        start = reinterpret_cast<T *>(address);
    }
    T *data() const { return start; }
    size_t size() const { return count; }
    T &operator[](size_t at) const { return start[at]; }
    T *begin() const { return start; }
    T *end() const { return start + count; }

  private:
    std::unique_ptr<void, void (*)(void *)> memory;
    T *start = nullptr;
    size_t count;
};

}  // namespace kiln_export

#endif  // KILN_EXPORT_MEMORY_HPP
