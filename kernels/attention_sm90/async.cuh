// Copies by the tensor memory accelerator and the barriers they report to (sm_90).

#pragma once

// A CUtensorMap, without cuda.h: 128 bytes, opaque, aligned to 64.
struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

static __device__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

static __device__ void barrier_init(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

static __device__ void barrier_arrive(unsigned barrier, int times)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(times) : "memory");
}

// Arrives, and makes the phase last until so many bytes have landed too.
static __device__ void barrier_expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Until the phase of this parity is over. The phase before the first counts as one of parity 1.
static __device__ void barrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// Whether it is over, without waiting.
static __device__ bool barrier_is_over(unsigned barrier, unsigned parity)
{
    unsigned over;
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, over;\n"
                 "}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over;
}

static __device__ void prefetch_map(const TensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box of the tensor to shared memory; what lies outside the tensor becomes zero and counts as landed all the same.
static __device__ void copy_in(unsigned to, const TensorMap *map, int column, int row, int head, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(head), "r"(barrier)
                 : "memory");
}

// --- Blocks of a cluster. ---

// Until all threads of the cluster are here. Of what was written before only barriers are seen by all, see below: a release of
// everything waits for global memory too.
static __device__ void cluster_meet()
{
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The barriers that this thread has made are there for all blocks, when they have met.
static __device__ void barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Once at the barrier that lies at the same place in that block of the cluster. There is nothing to be seen that was written
// before, as warps only read what the copy engine brings: released to the whole cluster, each arrival would take a fence of
// global memory.
static __device__ void barrier_arrive_in(unsigned barrier, unsigned block)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

// As copy_in, to the same place of every block of the cluster, and the same barrier of each.
static __device__ void copy_in_all(unsigned to, const TensorMap *map, int column, int row, int head, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(head), "r"(barrier),
                 "h"(static_cast<unsigned short>((1 << CLUSTER) - 1))
                 : "memory");
}

// A box of shared memory to the tensor; what lies outside the tensor is not written.
static __device__ void copy_out(const TensorMap *map, int column, int row, int head, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(column), "r"(row), "r"(head), "r"(from)
                 : "memory");
}

static __device__ void copies_out_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until the copies out have read shared memory; they may still be on their way.
static __device__ void copies_out_have_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// What this thread wrote to shared memory is there for the copy engine and the tensor cores.
static __device__ void shared_writes_visible()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Among the warpgroups that compute.
static __device__ void all_consumers_sync()
{
    asm volatile("bar.sync 8, %0;" ::"n"(128 * CONSUMERS) : "memory");
}

// Among the 128 threads of a warpgroup.
static __device__ void warpgroup_sync(int which)
{
    asm volatile("bar.sync %0, 128;" ::"r"(which + 1) : "memory");
}

// The turn of a warpgroup (PING_PONG): its own 128 threads wait for it, those of the warpgroup before give it.
static __device__ void turn_await(int which)
{
    asm volatile("bar.sync %0, 256;" ::"r"(which + 9) : "memory");
}

static __device__ void turn_give(int which)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(which + 9) : "memory");
}
