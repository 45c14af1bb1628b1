// Writes occupancy_oracles.csv with NVIDIA's own calculator, cuda_occupancy.h of the CUDA toolkit:
//   g++ -I CUDA/include make_occupancy_oracles.cpp -o make && ./make > occupancy_oracles.csv
#include <climits>
#include <cstdio>
#include <cuda_occupancy.h>
#include <random>

struct Part { int major, minor, threads, shared_kib; };

int main() {
    const Part parts[] = {{7, 0, 2048, 96},   {7, 5, 1024, 64},   {8, 0, 2048, 164}, {8, 6, 1536, 100},
                          {8, 7, 1536, 164},  {8, 9, 1536, 100},  {9, 0, 2048, 228}, {10, 0, 2048, 228},
                          {10, 3, 2048, 228}, {11, 0, 1536, 228}, {12, 0, 1536, 100}, {12, 1, 1536, 100}};
    std::mt19937 random(7);
    auto upto = [&](int n) { return int(random() % unsigned(n + 1)); };
    printf("architecture,registers,static_shared,dynamic_shared,barriers,threads,blocks\n");
    for (const Part &part : parts) {
        cudaOccDeviceProp device;
        device.computeMajor = part.major;
        device.computeMinor = part.minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = part.threads;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 << 10;
        device.sharedMemPerMultiprocessor = part.shared_kib << 10;
        device.numSms = 1;
        device.reservedSharedMemPerBlock = part.major >= 8 ? 1 << 10 : 0;
        device.sharedMemPerBlockOptin = device.sharedMemPerMultiprocessor - device.reservedSharedMemPerBlock;
        for (int i = 0; i < 250; i++) {
            cudaOccFuncAttributes kernel;
            kernel.maxThreadsPerBlock = INT_MAX;
            // Half of the cases are the round numbers people use.
            bool round = i % 2;
            kernel.numRegs = round ? 8 * (1 + upto(31)) - upto(1) : 1 + upto(254);
            kernel.sharedSizeBytes = upto(2) ? 0 : upto(48 << 10);
            kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
            kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
            size_t dynamic = upto(2) ? (round ? 1024 * upto(part.shared_kib) : upto(part.shared_kib << 10)) : 0;
            kernel.maxDynamicSharedSizeBytes = dynamic;
            kernel.numBlockBarriers = upto(3) ? upto(1) : upto(16);
            kernel.virtualResourceCount = 0;
            int threads = round ? 32 * (1 + upto(31)) : 1 + upto(1023);
            if (upto(1)) threads = (threads + 3) / 4;
            cudaOccDeviceState state;
            cudaOccResult result;
            if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic)) return 1;
            printf("sm_%d%d,%d,%zu,%zu,%d,%d,%d\n", part.major, part.minor, kernel.numRegs, kernel.sharedSizeBytes,
                   dynamic, kernel.numBlockBarriers, threads, result.activeBlocksPerMultiprocessor);
        }
    }
}
