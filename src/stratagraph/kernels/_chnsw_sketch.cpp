// Sketches of vectors: the rotation, a query's planes, and the bounds in the widest instructions there are.

#include "_chnsw_sketch.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>

#include "_chnsw_simd.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CHNSW_X86 1
#include <immintrin.h>
#endif

namespace chnsw {
namespace {

constexpr size_t ROUNDS = 4;
constexpr size_t WORDS = 8;  // of a cache line
constexpr float DEVIATIONS = 1.9F;  // of an estimate's error, which one in 35 exceeds
constexpr float DEVIATION = 0.6028F;  // sqrt(1 - 2 / pi)

uint64_t mixed(uint64_t seed) {
    seed += 0x9E3779B97F4A7C15ULL;
    seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EBULL;
    return seed ^ (seed >> 31);
}

// The butterflies of Hadamard's matrix of `size` that are at least `least` apart.
void butterflies(float *vector, size_t size, size_t least) {
    for (size_t half = least; half < size; half *= 2)
        for (size_t from = 0; from < size; from += 2 * half)
            for (size_t i = from; i < from + half; ++i) {
                const float a = vector[i], b = vector[i + half];
                vector[i] = a + b;
                vector[i + half] = a - b;
            }
}

void transpose(const float *from, float *to, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j)
            to[j * rows + i] = from[i * columns + j];
}

// Those that are close together are done on the transposed rows of 16, where they are far apart, so that
// wide instructions do them all.
void hadamard(float *vector, size_t size, std::vector<float> &buffer) {
    constexpr size_t ROW = 16;
    butterflies(vector, size, ROW);
    buffer.resize(size);
    transpose(vector, buffer.data(), size / ROW, ROW);
    butterflies(buffer.data(), size, size / ROW);
    transpose(buffer.data(), vector, ROW, size / ROW);
}

// Every eighth byte's lowest bit: bit i of the result is that of byte i.
inline uint64_t gathered(uint64_t bytes) { return ((bytes & 0x0101010101010101ULL) * 0x0102040810204080ULL) >> 56; }

inline float bounded(const Asked &asked, const char *row, size_t words, int64_t hits) {
    float factors[FACTORS];
    std::memcpy(factors, row + 8 * words, sizeof factors);
    return asked.offset + factors[2] + factors[0] * (asked.step * static_cast<float>(2 * hits - asked.sum) + asked.slack) +
           factors[1] * asked.low;
}

#define CHNSW_BOUND(NAME, TARGET, HITS)                                                                          \
    TARGET void NAME(const Asked &asked, const Sketches &sketches, const int32_t *rows, size_t count, \
                     size_t words, float *out) {                                                                   \
        for (size_t i = 0; i < count; ++i) {                                                                       \
            const char *row = sketches.data + sketches.stride * static_cast<size_t>(rows[i]);                      \
            out[i] = bounded(asked, row, words, HITS(asked, row, words));                                  \
        }                                                                                                          \
    }

inline int64_t hits(const Asked &asked, const char *row, size_t words) {
    int64_t counts[PLANES] = {};
    for (size_t w = 0; w < words; ++w) {
        const uint64_t *planes = asked.planes.data() + w / WORDS * WORDS * PLANES + w % WORDS;
        uint64_t bits;
        std::memcpy(&bits, row + 8 * w, sizeof bits);
        for (size_t p = 0; p < PLANES; ++p)
            counts[p] += std::popcount(bits & planes[p * WORDS]);
    }
    return counts[0] + 2 * counts[1] + 4 * counts[2] + 8 * counts[3];
}

CHNSW_BOUND(bound_plain, , hits)

#ifdef CHNSW_X86
#define CHNSW_POPCNT __attribute__((target("popcnt,avx2,bmi,bmi2")))
#define CHNSW_VPOPCNT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,popcnt,avx2,fma")))
#define CHNSW_INLINE inline __attribute__((always_inline))

CHNSW_POPCNT CHNSW_INLINE int64_t hits_popcnt(const Asked &asked, const char *row, size_t words) {
    int64_t counts[PLANES] = {};
    const uint64_t *planes = asked.planes.data();
    for (size_t from = 0; from < words; from += WORDS, planes += WORDS * PLANES)
        for (size_t w = 0; w < WORDS && from + w < words; ++w) {
            uint64_t bits;
            std::memcpy(&bits, row + 8 * (from + w), sizeof bits);
            for (size_t p = 0; p < PLANES; ++p)
                counts[p] += __builtin_popcountll(bits & planes[p * WORDS + w]);
        }
    return counts[0] + 2 * counts[1] + 4 * counts[2] + 8 * counts[3];
}

// The factors at the end of a row meet planes of zeros.
CHNSW_VPOPCNT CHNSW_INLINE int64_t hits_vpopcnt(const Asked &asked, const char *row, size_t words) {
    __m512i total = _mm512_setzero_si512();
    const uint64_t *planes = asked.planes.data();
    for (size_t from = 0; from < words; from += WORDS, planes += WORDS * PLANES) {
        const __m512i bits = _mm512_loadu_si512(row + 8 * from);
        __m512i counts[PLANES];
        for (size_t p = 0; p < PLANES; ++p)
            counts[p] = _mm512_popcnt_epi64(_mm512_and_si512(bits, _mm512_loadu_si512(planes + p * WORDS)));
        const __m512i low = _mm512_add_epi64(counts[0], _mm512_slli_epi64(counts[1], 1));
        const __m512i high = _mm512_add_epi64(counts[2], _mm512_slli_epi64(counts[3], 1));
        total = _mm512_add_epi64(total, _mm512_add_epi64(low, _mm512_slli_epi64(high, 2)));
    }
    return _mm512_reduce_add_epi64(total);
}

CHNSW_BOUND(bound_popcnt, CHNSW_POPCNT, hits_popcnt)
CHNSW_BOUND(bound_vpopcnt, CHNSW_VPOPCNT, hits_vpopcnt)
#endif

}  // namespace

Rotation::Rotation(size_t dimension)
    : dimension(dimension), padded((dimension + 63) / 64 * 64), block(std::bit_floor(padded)) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(block));
    signs.resize(ROUNDS * block);
    for (size_t i = 0; i < signs.size(); ++i)
        signs[i] = mixed(i) & 1 ? scale : -scale;
}

void Rotation::apply(const float *vector, std::vector<float> &out) const {
    thread_local std::vector<float> buffer;
    out.assign(padded, 0.0F);
    std::copy(vector, vector + dimension, out.begin());
    for (size_t round = 0; round < ROUNDS; ++round) {
        float *from = out.data() + (round % 2 ? padded - block : 0);
        const float *flips = signs.data() + round * block;
        for (size_t i = 0; i < block; ++i)
            from[i] *= flips[i];
        hadamard(from, block, buffer);
    }
}

void sketch(const Rotation &rotation, const std::vector<float> &rotated, const std::vector<float> &centre, char *out) {
    const size_t words = rotation.words();
    std::memset(out, 0, rotation.stride());
    float squares = 0.0F, sizes = 0.0F;
    double along = 0.0;
    int64_t balance = 0;
    for (size_t w = 0; w < words; ++w) {
        uint64_t bits = 0;
        for (size_t i = 0; i < 64; ++i) {
            const float value = rotated[64 * w + i] - centre[64 * w + i];
            squares += value * value;
            sizes += std::abs(value);
            along += static_cast<double>(value) * centre[64 * w + i];
            bits |= static_cast<uint64_t>(value > 0.0F) << i;
        }
        balance += 2 * std::popcount(bits) - 64;
        std::memcpy(out + 8 * w, &bits, sizeof bits);
    }
    const float factor = sizes > 0.0F ? squares / sizes : 0.0F;
    const float factors[FACTORS] = {factor, factor * static_cast<float>(balance), static_cast<float>(along)};
    std::memcpy(out + 8 * words, factors, sizeof factors);
}

void ask(const std::vector<float> &rotated, const std::vector<float> &centre, std::vector<float> &buffer, Asked &into) {
    constexpr size_t WIDE = 16;  // side by side, which compilers turn into wide instructions
    constexpr float LEVELS = (1U << PLANES) - 1U;
    const size_t words = rotated.size() / 64;
    float squares[WIDE] = {}, along[WIDE] = {}, least[WIDE], most[WIDE];
    std::fill(least, least + WIDE, FLT_MAX);
    std::fill(most, most + WIDE, -FLT_MAX);
    buffer.resize(rotated.size());
    for (size_t i = 0; i < rotated.size(); i += WIDE)
        for (size_t j = 0; j < WIDE; ++j) {
            const float value = rotated[i + j] - centre[i + j];
            buffer[i + j] = value;
            squares[j] += value * value;
            along[j] += rotated[i + j] * centre[i + j];
            least[j] = value < least[j] ? value : least[j];
            most[j] = value > most[j] ? value : most[j];
        }
    const float largest = *std::max_element(most, most + WIDE);
    into.low = *std::min_element(least, least + WIDE);
    into.step = largest > into.low ? (largest - into.low) / LEVELS : 1.0F;
    into.slack = DEVIATIONS * DEVIATION * std::sqrt(std::accumulate(squares, squares + WIDE, 0.0F));
    into.offset = std::accumulate(along, along + WIDE, 0.0F);
    into.sum = 0;
    into.planes.assign((words + WORDS - 1) / WORDS * WORDS * PLANES, 0);
    const float inverse = 1.0F / into.step;
    for (size_t w = 0; w < words; ++w) {
        int32_t levels[64];
        uint8_t bytes[64];
        for (size_t i = 0; i < 64; ++i) {
            const float wanted = (buffer[64 * w + i] - into.low) * inverse + 0.5F;
            levels[i] = static_cast<int32_t>(wanted < LEVELS ? wanted : LEVELS);
        }
        for (size_t i = 0; i < 64; ++i) {
            into.sum += levels[i];
            bytes[i] = static_cast<uint8_t>(levels[i]);
        }
        uint64_t *planes = into.planes.data() + w / WORDS * WORDS * PLANES + w % WORDS;
        for (size_t eight = 0; eight < 8; ++eight) {
            uint64_t some;
            std::memcpy(&some, bytes + 8 * eight, sizeof some);
            for (size_t p = 0; p < PLANES; ++p)
                planes[p * WORDS] |= gathered(some >> p) << (8 * eight);
        }
    }
}

Bound bound(const std::string &level) {
#ifdef CHNSW_X86
    if ((level == "auto" || level == "avx512vnni" || level == "avx512") && __builtin_cpu_supports("avx512vpopcntdq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return bound_vpopcnt;
    if (level != "scalar" && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx2"))
        return bound_popcnt;
#endif
    (void)level;
    return bound_plain;
}

}  // namespace chnsw
