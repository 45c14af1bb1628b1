// The tensor cores of sm_90a: products of a warpgroup, wgmma m64nNk16, 16-bit operands and f32 sums.
//
// A sum d[4 n + 2 r + c] of thread t lies in row 16 (t / 32) + t % 32 / 4 + 8 r and column 8 n + 2 (t % 4) + c, r and c
// being 0 or 1. Two neighbouring groups n, rounded to 16 bits, are at once the left operand of the next product, 16 deep.
//
// The products run on their own: between a product and the wait for it nobody may touch its registers, or the compiler
// makes it wait at once (and says so, C7510). `pin` keeps the compiler from moving uses across the wait.

#pragma once

#if BF16
#define OPERANDS "bf16.bf16"
#else
#define OPERANDS "f16.f16"
#endif

typedef unsigned long long Descriptor;

// How a tile lies in shared memory: rows of 128 bytes, their 16-byte chunks permuted by the 128-byte swizzle, which
// repeats every 8 rows. `stride` is from 64 columns to the next 64 and matters only where rows run along the depth.
static __device__ Descriptor describe(unsigned address, unsigned stride)
{
    const unsigned low = (address & 0x3FFFF) >> 4 | stride >> 4 << 16;
    const unsigned high = 1024 >> 4 | 1u << 30; // From 8 rows to the next 8; the swizzle of 128 bytes.
    return static_cast<Descriptor>(high) << 32 | low;
}

static __device__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> static __device__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int COUNT> static __device__ void pin(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// Names and values of the first so many sums, as an asm statement wants them.
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define SUMS_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_16 SUMS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SUMS_24 SUMS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_32 SUMS_24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SUMS_40 SUMS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define SUMS_48 SUMS_40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SUMS_56 SUMS_48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_64 SUMS_56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define NAMES_72 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define SUMS_72 SUMS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define NAMES_80 NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define SUMS_80 SUMS_72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define NAMES_88 NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define SUMS_88 SUMS_80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define NAMES_96 NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define SUMS_96 SUMS_88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define NAMES_104 NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SUMS_104 SUMS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define NAMES_112 NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define SUMS_112 SUMS_104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define NAMES_120 NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define SUMS_120 SUMS_112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define NAMES_128 NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_128 SUMS_120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define NAMES_36 NAMES_32 ", %32, %33, %34, %35"
#define SUMS_36 SUMS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])

// d = a b (+ d if `keep`), 16 deep; a and b in shared memory, the depth running along the rows of both.
template <int N> struct Shared;
#define SHARED_PRODUCT(N, COUNT, A, B, KEEP)                                                                           \
    template <> struct Shared<N> {                                                                                     \
        static __device__ void multiply(float (&d)[COUNT], Descriptor a, Descriptor b, int keep)                       \
        {                                                                                                              \
            asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #KEEP ", 0;\n"                                     \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." OPERANDS " {" NAMES_##COUNT "}, %" #A       \
                         ", %" #B ", keep, 1, 1, 0, 0;\n}"                                                             \
                         : SUMS_##COUNT                                                                                \
                         : "l"(a), "l"(b), "r"(keep));                                                                 \
        }                                                                                                              \
    };
SHARED_PRODUCT(32, 16, 16, 17, 18)
SHARED_PRODUCT(48, 24, 24, 25, 26)
SHARED_PRODUCT(64, 32, 32, 33, 34)
SHARED_PRODUCT(80, 40, 40, 41, 42)
SHARED_PRODUCT(96, 48, 48, 49, 50)
SHARED_PRODUCT(112, 56, 56, 57, 58)
SHARED_PRODUCT(128, 64, 64, 65, 66)
SHARED_PRODUCT(144, 72, 72, 73, 74)
SHARED_PRODUCT(160, 80, 80, 81, 82)
SHARED_PRODUCT(176, 88, 88, 89, 90)
SHARED_PRODUCT(192, 96, 96, 97, 98)
SHARED_PRODUCT(208, 104, 104, 105, 106)
SHARED_PRODUCT(224, 112, 112, 113, 114)
SHARED_PRODUCT(240, 120, 120, 121, 122)
SHARED_PRODUCT(256, 128, 128, 129, 130)

// The same with a in registers and b the other way round: its rows are the depth.
template <int N> struct Registers;
#define REGISTER_PRODUCT(N, COUNT, A0, A1, A2, A3, B, KEEP)                                                            \
    template <> struct Registers<N> {                                                                                  \
        static __device__ void multiply(float (&d)[COUNT], const unsigned *a, Descriptor b, int keep)                  \
        {                                                                                                              \
            asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #KEEP ", 0;\n"                                     \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." OPERANDS " {" NAMES_##COUNT "}, {%" #A0     \
                         ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", keep, 1, 1, 1;\n}"                                 \
                         : SUMS_##COUNT                                                                                \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                             \
        }                                                                                                              \
    };
REGISTER_PRODUCT(64, 32, 32, 33, 34, 35, 36, 37)
REGISTER_PRODUCT(72, 36, 36, 37, 38, 39, 40, 41)
REGISTER_PRODUCT(128, 64, 64, 65, 66, 67, 68, 69)
