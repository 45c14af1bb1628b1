// A buffer of the example, with contents that are the same every time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

/// Small numbers whose bits every type here can write down: -1, -0.5, 0, 0.5, 1; whole types get 0 to 4.
inline std::vector<unsigned char> contents(size_t bytes, int type) {
    static const unsigned short f16[] = {0xbc00, 0xb800, 0, 0x3800, 0x3c00}, bf16[] = {0xbf80, 0xbf00, 0, 0x3f00, 0x3f80};
    static const size_t sizes[] = {1, 2, 2, 4, 8, 1, 2, 4, 8};
    std::vector<unsigned char> made(bytes);
    uint32_t state = 12345;
    for (size_t at = 0; at + sizes[type] <= bytes; at += sizes[type]) {
        state = state * 1664525u + 1013904223u;
        int pick = int((state >> 16) % 5);
        float f = 0.5f * float(pick - 2);
        double g = f;
        int64_t whole = pick;
        const void *from = &whole;
        if (type == 1) from = &f16[pick];
        if (type == 2) from = &bf16[pick];
        if (type == 3) from = &f;
        if (type == 4) from = &g;
        std::memcpy(&made[at], from, sizes[type]);
    }
    return made;
}

inline void show_bytes(const std::string &name, const std::vector<unsigned char> &bytes) {
    uint64_t hash = 14695981039346656037u;
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    std::printf("%s: %zu bytes, hash %016llx\n", name.c_str(), bytes.size(), static_cast<unsigned long long>(hash));
}

inline void keep_bytes(const std::string &path, const std::vector<unsigned char> &bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
}
