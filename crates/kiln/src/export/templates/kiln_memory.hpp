// Memory as kernels in C may expect it: beginning at a multiple of 64 bytes, where a cache line does.
// Not `#pragma once`: every package brings a copy, and copies are not one file to every compiler.
#ifndef KILN_EXPORT_MEMORY_HPP
#define KILN_EXPORT_MEMORY_HPP

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

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
    explicit Aligned(size_t count) : memory(std::calloc(1, bytes_for(count)), std::free), count(count) {
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
    static size_t bytes_for(size_t count) {
        if (count > (SIZE_MAX - ALIGNMENT) / sizeof(T)) throw Error("out of memory");
        return count * sizeof(T) + ALIGNMENT;
    }

    std::unique_ptr<void, void (*)(void *)> memory;
    T *start = nullptr;
    size_t count;
};

/// A buffer of a call: a plain pointer, or anything with `data()` and `size()`, whose size is then checked.
template <class T> class View {
    template <class C> using Pointer = decltype(std::declval<C &>().data());
    template <class C> using IsContainer =
        std::enable_if_t<std::is_convertible<Pointer<C>, T *>::value && std::is_integral<decltype(std::declval<C &>().size())>::value>;

  public:
    View(T *address) : data(address), bytes(-1) {}
    template <class C, class = IsContainer<C>>
    View(C &&container)
        : data(container.data()), bytes(int64_t(container.size() * sizeof(*container.data()))) {}

    /// Refuses a buffer of another size than the dimensions ask for.
    void fit(int64_t needed, const char *name) const {
        if (data == nullptr) throw Error(std::string("`") + name + "` is a null pointer");
        if (bytes >= 0 && bytes != needed)
            throw Error(std::string("`") + name + "` has " + std::to_string(bytes) + " bytes, expected " + std::to_string(needed));
    }

    T *data;

  private:
    /// -1: not known.
    int64_t bytes;
};

}  // namespace kiln_export

#endif  // KILN_EXPORT_MEMORY_HPP
