// The NVIDIA driver, loaded while the program runs: no CUDA toolkit is needed to build or to use this.
// Not `#pragma once`: every package brings a copy, and copies are not one file to every compiler.
#ifndef KILN_EXPORT_DRIVER_HPP
#define KILN_EXPORT_DRIVER_HPP

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kiln_arithmetic.hpp"

// Declared as CUDA's own headers do: a `CUstream` or `cudaStream_t` is passed as it is, whether they are included or not.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;

namespace kiln_export {

// The part of the driver's interface that is used here, as its documentation gives it. Under names of its own, and functions without
// `cu`: those are types and macros where CUDA's headers are included too.
using Stream = ::CUstream_st *;
using DriverCode = int;
using DriverDevice = int;
using DriverPointer = unsigned long long;
using DriverContext = ::CUctx_st *;
using DriverModule = ::CUmod_st *;
using DriverFunction = ::CUfunc_st *;

struct alignas(64) TensorMap {
    uint64_t opaque[16];
};
struct LaunchAttribute {
    unsigned id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int cooperative;
    } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "the driver's layout");
struct LaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    Stream hStream;
    LaunchAttribute *attrs;
    unsigned numAttrs;
};
static_assert(sizeof(LaunchConfig) == 56, "the driver's layout");

constexpr unsigned ATTRIBUTE_COOPERATIVE = 2, ATTRIBUTE_CLUSTER_DIMENSION = 4;
constexpr int FUNCTION_MAX_DYNAMIC_SHARED = 8, FUNCTION_NON_PORTABLE_CLUSTER = 14;
constexpr int DEVICE_CAPABILITY_MAJOR = 75, DEVICE_CAPABILITY_MINOR = 76;
constexpr unsigned SHARED_WITHOUT_ASKING = 48 << 10, PORTABLE_CLUSTER = 8;

/// The driver's functions. Made once, on first use; says what is missing where there is no driver.
class Driver {
  public:
    static Driver &get() {
        static Driver driver;
        return driver;
    }

    DriverCode (*init)(unsigned);
    DriverCode (*deviceGet)(DriverDevice *, int);
    DriverCode (*deviceGetAttribute)(int *, int, DriverDevice);
    DriverCode (*devicePrimaryCtxRetain)(DriverContext *, DriverDevice);
    DriverCode (*ctxGetCurrent)(DriverContext *);
    DriverCode (*ctxSetCurrent)(DriverContext);
    DriverCode (*ctxSynchronize)();
    DriverCode (*memAlloc)(DriverPointer *, size_t);
    DriverCode (*memFree)(DriverPointer);
    DriverCode (*memcpyHtoD)(DriverPointer, const void *, size_t);
    DriverCode (*memcpyDtoH)(void *, DriverPointer, size_t);
    DriverCode (*memsetD8)(DriverPointer, unsigned char, size_t);
    DriverCode (*moduleLoadData)(DriverModule *, const void *);
    DriverCode (*moduleGetFunction)(DriverFunction *, DriverModule, const char *);
    DriverCode (*funcSetAttribute)(DriverFunction, int, int);
    DriverCode (*launchKernelEx)(const LaunchConfig *, DriverFunction, void **, void **);
    DriverCode (*tensorMapEncodeTiled)(TensorMap *, int, unsigned, void *, const uint64_t *, const uint64_t *,
                                       const unsigned *, const unsigned *, int, int, int, int);
    DriverCode (*getErrorName)(DriverCode, const char **);

    void check(DriverCode code, const std::string &what) const {
        if (code == 0) return;
        const char *name = nullptr;
        if (getErrorName(code, &name) != 0 || name == nullptr) name = "CUDA_ERROR_UNKNOWN";
        throw Error(what + ": " + name + " (" + std::to_string(code) + ")");
    }

  private:
    Driver() {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (library == nullptr) throw Error("no NVIDIA driver: libcuda.so.1 cannot be loaded");
        auto find = [&](auto &function, const char *name) {
            void *found = dlsym(library, name);
            if (found == nullptr) throw Error(std::string("the NVIDIA driver is too old: it has no ") + name + " (CUDA 12.0 has)");
            function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
        };
        find(init, "cuInit");
        find(deviceGet, "cuDeviceGet");
        find(deviceGetAttribute, "cuDeviceGetAttribute");
        find(devicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
        find(ctxGetCurrent, "cuCtxGetCurrent");
        find(ctxSetCurrent, "cuCtxSetCurrent");
        find(ctxSynchronize, "cuCtxSynchronize");
        find(memAlloc, "cuMemAlloc_v2");
        find(memFree, "cuMemFree_v2");
        find(memcpyHtoD, "cuMemcpyHtoD_v2");
        find(memcpyDtoH, "cuMemcpyDtoH_v2");
        find(memsetD8, "cuMemsetD8_v2");
        find(moduleLoadData, "cuModuleLoadData");
        find(moduleGetFunction, "cuModuleGetFunction");
        find(funcSetAttribute, "cuFuncSetAttribute");
        find(launchKernelEx, "cuLaunchKernelEx");
        find(tensorMapEncodeTiled, "cuTensorMapEncodeTiled");
        find(getErrorName, "cuGetErrorName");
        check(init(0), "the NVIDIA driver finds no usable GPU");
    }
};

/// Geometry of one launch.
struct Launch {
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {0, 0, 0};
    unsigned shared = 0;
    bool cooperative = false;
};

inline unsigned extent(int64_t value, const char *what) {
    if (value < 1 || value > INT64_C(4294967295)) throw Error(std::string(what) + " of " + std::to_string(value) + " cannot be launched");
    return unsigned(value);
}

/// Whether an image made for an architecture, such as `sm_90a`, runs on a device.
inline bool fits(const std::string &architecture, int major, int minor) {
    unsigned number = 0;
    char suffix = 0;
    if (std::sscanf(architecture.c_str(), "sm_%u%c", &number, &suffix) < 1) return false;
    int own_major = int(number / 10), own_minor = int(number % 10);
    if (suffix == 'a') return own_major == major && own_minor == minor;
    return own_major == major && own_minor <= minor;
}

/// One device and its primary context, which other libraries of the process share.
class Device {
  public:
    explicit Device(int index) : driver(Driver::get()) {
        driver.check(driver.deviceGet(&handle, index), "there is no GPU " + std::to_string(index));
        driver.check(driver.devicePrimaryCtxRetain(&context, handle), "the GPU refuses a context");
        driver.check(driver.deviceGetAttribute(&major, DEVICE_CAPABILITY_MAJOR, handle), "the GPU does not answer");
        driver.check(driver.deviceGetAttribute(&minor, DEVICE_CAPABILITY_MINOR, handle), "the GPU does not answer");
    }

    /// Makes the context current in this thread, unless one is.
    void enter() const {
        DriverContext current = nullptr;
        driver.check(driver.ctxGetCurrent(&current), "the driver does not answer");
        if (current == nullptr) driver.check(driver.ctxSetCurrent(context), "the context cannot be made current");
    }

    Driver &driver;
    DriverDevice handle = 0;
    DriverContext context = nullptr;
    int major = 0, minor = 0;
};

/// A kernel that was loaded from a file.
class Function {
  public:
    Function(const Device &device, const std::string &path, const char *symbol) : driver(device.driver) {
        std::ifstream file(path, std::ios::binary);
        std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        if (image.empty()) throw Error("cannot read `" + path + "`");
        device.enter();
        driver.check(driver.moduleLoadData(&module, image.data()), "the driver does not take `" + path + "`");
        driver.check(driver.moduleGetFunction(&handle, module, symbol), "no kernel in `" + path + "`");
    }

    void launch(const Launch &launch, Stream stream, void **parameters) {
        if (launch.shared > SHARED_WITHOUT_ASKING && launch.shared > granted) {
            driver.check(driver.funcSetAttribute(handle, FUNCTION_MAX_DYNAMIC_SHARED, int(launch.shared)), "shared memory");
            granted = launch.shared;
        }
        LaunchAttribute attributes[2] = {};
        unsigned count = 0;
        if (launch.cluster[0] != 0) {
            unsigned size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
            if (size > PORTABLE_CLUSTER) driver.check(driver.funcSetAttribute(handle, FUNCTION_NON_PORTABLE_CLUSTER, 1), "a cluster of this size");
            attributes[count].id = ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[count].value.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
            count++;
        }
        if (launch.cooperative) {
            attributes[count].id = ATTRIBUTE_COOPERATIVE;
            attributes[count].value.cooperative = 1;
            count++;
        }
        LaunchConfig config = {launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2],
                                 launch.shared, stream, attributes, count};
        driver.check(driver.launchKernelEx(&config, handle, parameters, nullptr), "the launch");
    }

    Driver &driver;
    DriverModule module = nullptr;
    DriverFunction handle = nullptr;
    unsigned granted = 0;
};

/// Kernels were checked on buffers that begin at multiples of this, and may load whole vectors.
inline void aligned(const void *address, const char *name) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) throw Error(std::string("`") + name + "` begins at an address that is no multiple of 16 bytes");
}

/// A descriptor for the tensor memory accelerator. Extents and box are outermost first; a tensor of higher rank is
/// seen with its leading dimensions merged.
inline TensorMap tensor_map(Driver &driver, const void *address, int type, unsigned element_bytes,
                              const std::vector<int64_t> &extents, const std::vector<int64_t> &box, int swizzle) {
    size_t rank = box.size();
    std::vector<uint64_t> dims(rank, 1), strides;
    size_t merged = extents.size() + 1 > rank ? extents.size() + 1 - rank : 1;
    for (size_t i = 0; i < extents.size(); i++) {
        size_t axis = i < merged ? 0 : i - merged + 1;
        dims[rank - 1 - axis] *= uint64_t(extents[i]);
    }
    uint64_t stride = element_bytes;
    for (size_t i = 0; i + 1 < rank; i++) {
        stride *= dims[i];
        strides.push_back(stride);
    }
    std::vector<unsigned> tile, steps(rank, 1);
    for (size_t i = 0; i < rank; i++) tile.push_back(unsigned(box[rank - 1 - i]));
    TensorMap map = {};
    constexpr int INTERLEAVE_NONE = 0, PROMOTION_128B = 2, OUTSIDE_IS_ZERO = 0;
    driver.check(driver.tensorMapEncodeTiled(&map, type, unsigned(rank), const_cast<void *>(address), dims.data(), strides.data(),
                                               tile.data(), steps.data(), INTERLEAVE_NONE, swizzle, PROMOTION_128B, OUTSIDE_IS_ZERO),
                 "a descriptor of a tensor");
    return map;
}

}  // namespace kiln_export

#endif  // KILN_EXPORT_DRIVER_HPP
