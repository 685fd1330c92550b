// Inner products of one query with many stored vectors, in the widest instructions the machine has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace chnsw {

enum class Kind { float32, int8 };

// Vectors as the search reads them. Rows of int8 are padded with zeros to 64 bytes.
struct Codes {
    Kind kind = Kind::float32;
    const char *data = nullptr;
    size_t stride = 0;              // bytes from row to row
    size_t length = 0;              // elements per row, padding included
    const float *scales = nullptr;  // int8: what one unit of each row is worth
};

// A query in the form that goes with the codes: float for float32, int8 for int8.
struct Query {
    const void *data = nullptr;
    float scale = 1.0F;
    int32_t sum = 0;  // of an int8 query's elements
};

// out[i] = inner product with row rows[i], or with row i where `rows` is null.
using Many = void (*)(const Query &, const Codes &, const int32_t *rows, size_t count, float *out);

// Asks for memory that will be read soon.
inline void fetch(const void *memory, size_t bytes) {
#if defined(__GNUC__) || defined(__clang__)
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(static_cast<const char *>(memory) + at);
#else
    (void)memory, (void)bytes;
#endif
}

inline void fetch(const Codes &codes, const int32_t *rows, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        fetch(codes.data + codes.stride * static_cast<size_t>(rows[i]), codes.stride);
        if (codes.scales)
            fetch(codes.scales + rows[i], sizeof(float));
    }
}

// The kernel for one kind of codes; `level` is "auto" or one of levels(). Null if the machine lacks it.
Many kernel(Kind kind, const std::string &level);

// Whether a kernel reads Query::sum.
bool summed(Many kernel);

// What this machine can run, the widest first.
std::vector<std::string> levels();

}  // namespace chnsw
