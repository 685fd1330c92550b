// One small function per instruction set and kind of code: the inner products with four rows at a time.
// They are compiled for their instructions by target attributes and chosen when the program runs, so that
// one wheel serves every machine.

#include "_chnsw_simd.hpp"

#include <cstring>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CHNSW_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define CHNSW_NEON 1
#include <arm_neon.h>
#endif

namespace chnsw {
namespace {

inline const char *row_at(const Codes &codes, const int32_t *rows, size_t i) {
    return codes.data + codes.stride * (rows ? static_cast<size_t>(rows[i]) : i);
}

// The loop around FOUR(query, a, b, c, d, length, out[4]). A macro, since a template that calls functions
// of another target cannot be inlined into one.
#define CHNSW_LOOP(NAME, TARGET, FOUR)                                                                         \
    TARGET void NAME(const Query &query, const Codes &codes, const int32_t *rows, size_t count, float *out) {   \
        float last[4];                                                                                          \
        for (size_t i = 0; i < count; i += 4) {                                                                 \
            const size_t end = count - 1;                                                                       \
            const char *a = row_at(codes, rows, i), *b = row_at(codes, rows, i + 1 < count ? i + 1 : end);      \
            const char *c = row_at(codes, rows, i + 2 < count ? i + 2 : end);                                   \
            const char *d = row_at(codes, rows, i + 3 < count ? i + 3 : end);                                   \
            if (i + 4 <= count) {                                                                               \
                FOUR(query, a, b, c, d, codes.length, out + i);                                                 \
            } else {                                                                                            \
                FOUR(query, a, b, c, d, codes.length, last);                                                    \
                std::memcpy(out + i, last, sizeof(float) * (count - i));                                        \
            }                                                                                                   \
        }                                                                                                       \
        if (codes.scales)                                                                                       \
            for (size_t i = 0; i < count; ++i)                                                                  \
                out[i] *= query.scale * codes.scales[rows ? static_cast<size_t>(rows[i]) : i];                  \
    }

#define CHNSW_ROWS const Query &query, const char *a, const char *b, const char *c, const char *d, size_t n, float *out

inline void four_f32(CHNSW_ROWS) {
    const auto *q = static_cast<const float *>(query.data);
    const char *rows[4] = {a, b, c, d};
    for (int r = 0; r < 4; ++r) {
        const auto *x = reinterpret_cast<const float *>(rows[r]);
        float part[8] = {};
        size_t i = 0;
        for (; i + 8 <= n; i += 8)
            for (size_t j = 0; j < 8; ++j)
                part[j] += q[i + j] * x[i + j];
        for (; i < n; ++i)
            part[0] += q[i] * x[i];
        out[r] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
}

inline void four_i8(CHNSW_ROWS) {
    const auto *q = static_cast<const int8_t *>(query.data);
    const char *rows[4] = {a, b, c, d};
    for (int r = 0; r < 4; ++r) {
        const auto *x = reinterpret_cast<const int8_t *>(rows[r]);
        int32_t total = 0;
        for (size_t i = 0; i < n; ++i)
            total += q[i] * x[i];
        out[r] = static_cast<float>(total);
    }
}

CHNSW_LOOP(many_f32, , four_f32)
CHNSW_LOOP(many_i8, , four_i8)

#ifdef CHNSW_X86
#define CHNSW_AVX2 __attribute__((target("avx2,fma")))
#define CHNSW_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")))
#define CHNSW_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))
#define CHNSW_INLINE inline __attribute__((always_inline))

CHNSW_AVX2 CHNSW_INLINE float total8(__m256 v) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

CHNSW_AVX2 CHNSW_INLINE void four_f32_avx2(CHNSW_ROWS) {
    const auto *q = static_cast<const float *>(query.data);
    const float *rows[4] = {reinterpret_cast<const float *>(a), reinterpret_cast<const float *>(b),
                            reinterpret_cast<const float *>(c), reinterpret_cast<const float *>(d)};
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 part = _mm256_loadu_ps(q + i);
        for (int r = 0; r < 4; ++r)
            sums[r] = _mm256_fmadd_ps(part, _mm256_loadu_ps(rows[r] + i), sums[r]);
    }
    for (int r = 0; r < 4; ++r) {
        out[r] = total8(sums[r]);
        for (size_t j = i; j < n; ++j)
            out[r] += q[j] * rows[r][j];
    }
}

// The instruction takes one unsigned factor: the query's size, while the row takes its sign. Both are at most
// 127, so that two products fit into 16 bits.
CHNSW_AVX2 CHNSW_INLINE void four_i8_avx2(CHNSW_ROWS) {
    const auto *q = static_cast<const char *>(query.data);
    const char *rows[4] = {a, b, c, d};
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                       _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += 32) {
        const __m256i part = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(q + i));
        const __m256i size = _mm256_abs_epi8(part);
        for (int r = 0; r < 4; ++r) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(rows[r] + i));
            const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(bytes, part));
            sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs, ones));
        }
    }
    // The four are added up side by side.
    const __m256i ab = _mm256_hadd_epi32(sums[0], sums[1]), cd = _mm256_hadd_epi32(sums[2], sums[3]);
    const __m256i all = _mm256_hadd_epi32(ab, cd);
    const __m128i total = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storeu_ps(out, _mm_cvtepi32_ps(total));
}

CHNSW_AVX512 CHNSW_INLINE void four_f32_avx512(CHNSW_ROWS) {
    const auto *q = static_cast<const float *>(query.data);
    const float *rows[4] = {reinterpret_cast<const float *>(a), reinterpret_cast<const float *>(b),
                            reinterpret_cast<const float *>(c), reinterpret_cast<const float *>(d)};
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 part = _mm512_loadu_ps(q + i);
        for (int r = 0; r < 4; ++r)
            sums[r] = _mm512_fmadd_ps(part, _mm512_loadu_ps(rows[r] + i), sums[r]);
    }
    if (i < n) {
        const auto mask = static_cast<__mmask16>((1U << (n - i)) - 1U);
        const __m512 part = _mm512_maskz_loadu_ps(mask, q + i);
        for (int r = 0; r < 4; ++r)
            sums[r] = _mm512_fmadd_ps(part, _mm512_maskz_loadu_ps(mask, rows[r] + i), sums[r]);
    }
    for (int r = 0; r < 4; ++r)
        out[r] = _mm512_reduce_add_ps(sums[r]);
}

CHNSW_AVX512 CHNSW_INLINE void four_i8_avx512(CHNSW_ROWS) {
    const auto *q = static_cast<const char *>(query.data);
    const char *rows[4] = {a, b, c, d};
    __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                       _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += 32) {
        const __m512i part = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(q + i)));
        for (int r = 0; r < 4; ++r) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(rows[r] + i));
            sums[r] = _mm512_add_epi32(sums[r], _mm512_madd_epi16(part, _mm512_cvtepi8_epi16(bytes)));
        }
    }
    for (int r = 0; r < 4; ++r)
        out[r] = static_cast<float>(_mm512_reduce_add_epi32(sums[r]));
}

// The instruction takes one unsigned factor: 128 is added to the row, and 128 times the query's sum
// subtracted from the result.
CHNSW_VNNI CHNSW_INLINE void four_i8_vnni(CHNSW_ROWS) {
    const auto *q = static_cast<const char *>(query.data);
    const char *rows[4] = {a, b, c, d};
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(-128));
    __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                       _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += 64) {
        const __m512i part = _mm512_loadu_si512(q + i);
        for (int r = 0; r < 4; ++r)
            sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_xor_si512(_mm512_loadu_si512(rows[r] + i), flip), part);
    }
    // The four are added up side by side: every step halves what is left of each.
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                        _mm512_unpackhi_epi32(sums[0], sums[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                        _mm512_unpackhi_epi32(sums[2], sums[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    const __m128i total = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    _mm_storeu_ps(out, _mm_cvtepi32_ps(_mm_sub_epi32(total, _mm_set1_epi32(128 * query.sum))));
}

CHNSW_LOOP(many_f32_avx2, CHNSW_AVX2, four_f32_avx2)
CHNSW_LOOP(many_i8_avx2, CHNSW_AVX2, four_i8_avx2)
CHNSW_LOOP(many_f32_avx512, CHNSW_AVX512, four_f32_avx512)
CHNSW_LOOP(many_i8_avx512, CHNSW_AVX512, four_i8_avx512)
CHNSW_LOOP(many_i8_vnni, CHNSW_VNNI, four_i8_vnni)
#endif

#ifdef CHNSW_NEON
inline void four_f32_neon(CHNSW_ROWS) {
    const auto *q = static_cast<const float *>(query.data);
    const float *rows[4] = {reinterpret_cast<const float *>(a), reinterpret_cast<const float *>(b),
                            reinterpret_cast<const float *>(c), reinterpret_cast<const float *>(d)};
    float32x4_t sums[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t part = vld1q_f32(q + i);
        for (int r = 0; r < 4; ++r)
            sums[r] = vfmaq_f32(sums[r], part, vld1q_f32(rows[r] + i));
    }
    for (int r = 0; r < 4; ++r) {
        out[r] = vaddvq_f32(sums[r]);
        for (size_t j = i; j < n; ++j)
            out[r] += q[j] * rows[r][j];
    }
}

inline void four_i8_neon(CHNSW_ROWS) {
    const auto *q = static_cast<const int8_t *>(query.data);
    const char *rows[4] = {a, b, c, d};
    int32x4_t sums[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    for (size_t i = 0; i < n; i += 16) {
        const int8x16_t part = vld1q_s8(q + i);
        for (int r = 0; r < 4; ++r) {
            const int8x16_t bytes = vld1q_s8(reinterpret_cast<const int8_t *>(rows[r] + i));
            sums[r] = vpadalq_s16(sums[r], vmull_s8(vget_low_s8(part), vget_low_s8(bytes)));
            sums[r] = vpadalq_s16(sums[r], vmull_s8(vget_high_s8(part), vget_high_s8(bytes)));
        }
    }
    for (int r = 0; r < 4; ++r)
        out[r] = static_cast<float>(vaddvq_s32(sums[r]));
}

CHNSW_LOOP(many_f32_neon, , four_f32_neon)
CHNSW_LOOP(many_i8_neon, , four_i8_neon)
#endif

struct Level {
    const char *name;
    Many float32, int8;
};

std::vector<Level> supported() {
    std::vector<Level> found;
#ifdef CHNSW_X86
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512 && __builtin_cpu_supports("avx512vnni"))
        found.push_back({"avx512vnni", many_f32_avx512, many_i8_vnni});
    if (avx512)
        found.push_back({"avx512", many_f32_avx512, many_i8_avx512});
    if (avx2)
        found.push_back({"avx2", many_f32_avx2, many_i8_avx2});
#endif
#ifdef CHNSW_NEON
    found.push_back({"neon", many_f32_neon, many_i8_neon});
#endif
    found.push_back({"scalar", many_f32, many_i8});
    return found;
}

}  // namespace

std::vector<std::string> levels() {
    std::vector<std::string> names;
    for (const Level &level : supported())
        names.emplace_back(level.name);
    return names;
}

bool summed(Many kernel) {
#ifdef CHNSW_X86
    return kernel == many_i8_vnni;
#else
    (void)kernel;
    return false;
#endif
}

Many kernel(Kind kind, const std::string &name) {
    for (const Level &level : supported())
        if (name == "auto" || name == level.name)
            return kind == Kind::int8 ? level.int8 : level.float32;
    return nullptr;
}

}  // namespace chnsw
