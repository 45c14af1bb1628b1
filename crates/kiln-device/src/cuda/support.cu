// kiln's own kernels: what the device worker runs around a candidate, never the candidate itself.
//
//   kiln_hold       keeps a stream busy until the host says go
//   kiln_fill       writes a pattern that cannot be guessed
//   kiln_check_fill finds the first byte that is not that pattern
//   kiln_sum        a checksum that does not depend on the order of addition
//   kiln_sentinel   arithmetic whose result the host can reproduce to the bit
//
// One dimension of blocks and threads everywhere. Any grid is right for the fills and the sum; a few blocks per
// multiprocessor are fast. The host's twins of the pattern, the sum and the sentinel are in Rust.

typedef unsigned char u8;
typedef unsigned long long u64;

static_assert(sizeof(u64) == 8, "u64 must have 64 bits");

#define GOLDEN 0x9E3779B97F4A7C15ull // The increment of splitmix64.
#define SENTINEL_THREADS 256         // kiln_sentinel is launched with exactly this many threads per block.

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
static __device__ u64 mix(u64 z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static __device__ u64 nanoseconds()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __device__ u64 self()
{
    return static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __device__ u64 threads()
{
    return static_cast<u64>(gridDim.x) * blockDim.x;
}

// The stream waits behind this kernel until `flag`, in pinned host memory, is set, and `least_ns` at the least. The
// time-out is for a supervisor that died in between: nothing on the GPU may wait for ever.
extern "C" __global__ void kiln_hold(volatile unsigned *flag, u64 least_ns, u64 limit_ns)
{
    if (self() != 0)
        return;
    const u64 start = nanoseconds();
    while (*flag == 0 && nanoseconds() - start < limit_ns) {
    }
    while (nanoseconds() - start < least_ns) {
    }
}

// Eight bytes of the pattern from byte `at` on, the first in the lowest bits. Byte j of the pattern is byte j % 8 of
// word j / 8, and the words are the outputs of splitmix64.
static __device__ u64 pattern(u64 seed, u64 at)
{
    const u64 word = at / 8;
    const unsigned shift = static_cast<unsigned>(at % 8) * 8;
    const u64 low = mix(seed + (word + 1) * GOLDEN);
    if (shift == 0)
        return low;
    return low >> shift | mix(seed + (word + 2) * GOLDEN) << (64 - shift);
}

// A buffer as bytes up to the first 16-byte boundary, whole 16-byte pieces, and bytes after the last.
struct Parts {
    u64 head;   // Bytes before the first piece.
    u64 pieces; // Pieces of 16 bytes.
    u64 tail;   // Where the bytes after the last piece start.
};

static __device__ Parts divide(const u8 *p, u64 bytes)
{
    const u64 to_boundary = (16 - reinterpret_cast<u64>(p) % 16) % 16;
    Parts parts;
    parts.head = to_boundary < bytes ? to_boundary : bytes;
    parts.pieces = (bytes - parts.head) / 16;
    parts.tail = parts.head + parts.pieces * 16;
    return parts;
}

// p[i] becomes byte `first + i` of the pattern of `seed`.
extern "C" __global__ void kiln_fill(u8 *p, u64 bytes, u64 seed, u64 first)
{
    const Parts parts = divide(p, bytes);
    ulonglong2 *body = reinterpret_cast<ulonglong2 *>(p + parts.head);
    for (u64 piece = self(); piece < parts.pieces; piece += threads()) {
        const u64 at = first + parts.head + piece * 16;
        body[piece] = make_ulonglong2(pattern(seed, at), pattern(seed, at + 8));
    }
    for (u64 i = self(); i < parts.head; i += threads())
        p[i] = static_cast<u8>(pattern(seed, first + i));
    for (u64 i = parts.tail + self(); i < bytes; i += threads())
        p[i] = static_cast<u8>(pattern(seed, first + i));
}

// Lowers *result to the offset of the first byte that kiln_fill would not have written. The caller sets it to ~0.
extern "C" __global__ void kiln_check_fill(const u8 *p, u64 bytes, u64 seed, u64 first, u64 *result)
{
    const Parts parts = divide(p, bytes);
    const ulonglong2 *body = reinterpret_cast<const ulonglong2 *>(p + parts.head);
    u64 least = ~0ull;
    for (u64 i = self(); i < parts.head; i += threads())
        if (p[i] != static_cast<u8>(pattern(seed, first + i)) && i < least)
            least = i;
    for (u64 piece = self(); piece < parts.pieces; piece += threads()) {
        const u64 offset = parts.head + piece * 16;
        const ulonglong2 found = body[piece];
        const u64 low = found.x ^ pattern(seed, first + offset);
        const u64 high = found.y ^ pattern(seed, first + offset + 8);
        if ((low | high) != 0) {
            const int bit = low != 0 ? __ffsll(low) - 1 : 63 + __ffsll(high);
            if (offset + bit / 8 < least)
                least = offset + bit / 8;
        }
    }
    for (u64 i = parts.tail + self(); i < bytes; i += threads())
        if (p[i] != static_cast<u8>(pattern(seed, first + i)) && i < least)
            least = i;
    if (least != ~0ull)
        atomicMin(result, least);
}

// The 64-bit word at `index`, zero-padded past the end, whatever the alignment.
static __device__ u64 word_at(const u8 *p, u64 bytes, u64 index)
{
    const u64 offset = index * 8;
    if (reinterpret_cast<u64>(p) % 8 == 0 && offset + 8 <= bytes)
        return *reinterpret_cast<const u64 *>(p + offset);
    u64 word = 0;
    for (int i = 0; i < 8 && offset + i < bytes; i++)
        word |= static_cast<u64>(p[offset + i]) << (8 * i);
    return word;
}

// Adds a checksum of the buffer to *result, which the caller sets to 0: the wrapping sum over words of
// mix(word + mix(seed + index)). The index is mixed in, so that words that changed places change the sum.
extern "C" __global__ void kiln_sum(const u8 *p, u64 bytes, u64 seed, u64 *result)
{
    __shared__ u64 block_sum;
    if (threadIdx.x == 0)
        block_sum = 0;
    __syncthreads();

    const u64 words = bytes / 8 + (bytes % 8 != 0);
    const u64 pairs = reinterpret_cast<u64>(p) % 16 == 0 ? bytes / 16 : 0;
    const ulonglong2 *body = reinterpret_cast<const ulonglong2 *>(p);
    u64 sum = 0;
#pragma unroll 4
    for (u64 pair = self(); pair < pairs; pair += threads()) {
        const ulonglong2 found = body[pair];
        sum += mix(found.x + mix(seed + 2 * pair)) + mix(found.y + mix(seed + 2 * pair + 1));
    }
    for (u64 index = 2 * pairs + self(); index < words; index += threads())
        sum += mix(word_at(p, bytes, index) + mix(seed + index));

    atomicAdd(&block_sum, sum);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(result, block_sum);
}

// Integer and floating-point arithmetic with one right answer: every operation below is exact or correctly rounded
// by IEEE 754, and the intrinsics keep compiler flags such as --use_fast_math from changing that.
static __device__ u64 sentinel_word(u64 seed, u64 index)
{
    const u64 x = mix(seed + (index + 1) * GOLDEN);
    float f = static_cast<float>(static_cast<unsigned>(x >> 40)); // 24 bits: exact.
    for (int i = 0; i < 16; i++)
        f = __fmaf_rn(f, 0.9990234375f, static_cast<float>(static_cast<unsigned>(x >> i) & 0xFF));
    f = __fdiv_rn(__fsqrt_rn(f), __fadd_rn(f, 3.0f));
    return x ^ static_cast<u64>(__float_as_uint(f)) << 16;
}

// out[i] for i < n, each from the words of three threads of its block, passed on through shared memory. One that
// differs from the host's means that this device, or this context, no longer computes as it should.
extern "C" __global__ void __launch_bounds__(SENTINEL_THREADS) kiln_sentinel(u64 *out, u64 seed, int n)
{
    __shared__ u64 words[SENTINEL_THREADS];
    const u64 index = static_cast<u64>(blockIdx.x) * SENTINEL_THREADS + threadIdx.x;
    const u64 own = sentinel_word(seed, index);
    words[threadIdx.x] = own;
    __syncthreads();
    const u64 sum = own + mix(words[(threadIdx.x + 97) % SENTINEL_THREADS]);
    __syncthreads();
    words[threadIdx.x] = sum;
    __syncthreads();
    if (index < static_cast<u64>(n))
        out[index] = mix(sum ^ words[(threadIdx.x + 1) % SENTINEL_THREADS]);
}
