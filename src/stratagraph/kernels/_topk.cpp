// The rows of a sketch that are nearest to a code, and the inner products of chosen rows: called
// by topk.py.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "_dispatch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using Code = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr size_t MOST_WORDS = 1023;
constexpr uint16_t LEFT_OUT = UINT16_MAX;

// What a scan notes of its thread, kept for the next one unless it is large.
struct Noted {
    std::vector<uint16_t> distances;
    std::vector<size_t> counts;

    void release() {
        if (distances.capacity() > KEPT)
            distances = std::vector<uint16_t>();
    }

  private:
    static constexpr size_t KEPT = size_t{1} << 24;
};

STRATAGRAPH_INLINE void scan(const uint64_t *query, const uint64_t *codes, const bool *mask, size_t count, size_t words,
                           Noted &noted) {
    for (size_t row = 0; row < count; ++row, codes += words) {
        if (mask && !mask[row]) {
            noted.distances[row] = LEFT_OUT;
            continue;
        }
        int total = 0;
        for (size_t word = 0; word < words; ++word)
            total += std::popcount(query[word] ^ codes[word]);
        noted.distances[row] = static_cast<uint16_t>(total);
        ++noted.counts[static_cast<size_t>(total)];
    }
}

#ifdef STRATAGRAPH_DISPATCH
__attribute__((target("popcnt"))) void scan_popcnt(const uint64_t *query, const uint64_t *codes, const bool *mask,
                                                   size_t count, size_t words, Noted &noted) {
    scan(query, codes, mask, count, words, noted);
}

// Bits of each byte, by its halves in a table (Mula, Kurz and Lemire 2018); for sketches, which have 8 words.
__attribute__((target("avx2"))) void scan_avx2(const uint64_t *query, const uint64_t *codes, const bool *mask,
                                               size_t count, Noted &noted) {
    const __m256i bits = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                          2, 3, 2, 3, 3, 4);
    const __m256i half = _mm256_set1_epi8(15);
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(query));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(query + 4));
    for (size_t row = 0; row < count; ++row, codes += 8) {
        if (mask && !mask[row]) {
            noted.distances[row] = LEFT_OUT;
            continue;
        }
        const __m256i a = _mm256_xor_si256(low, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes)));
        const __m256i b = _mm256_xor_si256(high, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes + 4)));
        const __m256i first = _mm256_add_epi8(
            _mm256_shuffle_epi8(bits, _mm256_and_si256(a, half)),
            _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(a, 4), half)));
        const __m256i second = _mm256_add_epi8(
            _mm256_shuffle_epi8(bits, _mm256_and_si256(b, half)),
            _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(b, 4), half)));
        const __m256i sums = _mm256_sad_epu8(_mm256_add_epi8(first, second), _mm256_setzero_si256());
        const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const auto total = static_cast<size_t>(_mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1));
        noted.distances[row] = static_cast<uint16_t>(total);
        ++noted.counts[total];
    }
}
#endif

// The rows of the smallest distances, of equals the lower rows, ascending.
std::vector<int64_t> chosen(const Noted &noted, size_t count, size_t size) {
    size_t below = 0, border = 0;
    while (border < noted.counts.size() && below + noted.counts[border] < size)
        below += noted.counts[border++];
    size_t at_border = size > below ? size - below : 0;
    std::vector<int64_t> rows;
    rows.reserve(size);
    for (size_t row = 0; row < count; ++row) {
        const uint16_t distance = noted.distances[row];
        if (distance < border)
            rows.push_back(static_cast<int64_t>(row));
        else if (distance == border && distance != LEFT_OUT && at_border) {
            --at_border;
            rows.push_back(static_cast<int64_t>(row));
        }
    }
    return rows;
}

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object shortlist(Code query, Codes codes, Mask mask, size_t size) {
    const size_t count = codes.shape(0), words = codes.shape(1);
    if (query.shape(0) != words || words > MOST_WORDS)
        throw nb::value_error("query and codes differ in their number of words, or have too many");
    if (mask.shape(0) != 0 && mask.shape(0) != count)
        throw nb::value_error("the mask must have one element per code, or none");
    std::vector<int64_t> rows;
    {
        nb::gil_scoped_release release;
        thread_local Noted noted;
        noted.distances.resize(count);
        noted.counts.assign(64 * words + 1, 0);
        const bool *admitted = mask.shape(0) ? mask.data() : nullptr;
#ifdef STRATAGRAPH_DISPATCH
        if (words == 8 && __builtin_cpu_supports("avx2"))
            scan_avx2(query.data(), codes.data(), admitted, count, noted);
        else if (__builtin_cpu_supports("popcnt"))
            scan_popcnt(query.data(), codes.data(), admitted, count, words, noted);
        else
#endif
            scan(query.data(), codes.data(), admitted, count, words, noted);
        rows = chosen(noted, count, size < count ? size : count);
        noted.release();
    }
    return to_array(std::move(rows));
}

// Eight sums side by side, which compilers turn into vector instructions without changing the order of additions.
STRATAGRAPH_INLINE float dot(const float *left, const float *right, size_t dimension) {
    float sums[8] = {};
    size_t at = 0;
    for (; at + 8 <= dimension; at += 8)
        for (size_t lane = 0; lane < 8; ++lane)
            sums[lane] += left[at + lane] * right[at + lane];
    float total = 0.0f;
    for (; at < dimension; ++at)
        total += left[at] * right[at];
    for (float sum : sums)
        total += sum;
    return total;
}

#ifdef STRATAGRAPH_DISPATCH
__attribute__((target("avx2,fma"))) float dot_avx2(const float *left, const float *right, size_t dimension) {
    return dot(left, right, dimension);
}
#endif

nb::object products(Matrix vectors, Vector query, Rows rows) {
    const size_t dimension = vectors.shape(1);
    if (query.shape(0) != dimension)
        throw nb::value_error("query and vectors differ in their dimension");
    std::vector<float> scores(rows.shape(0));
    bool inside = true;
    {
        nb::gil_scoped_release release;
        bool wide = false;
#ifdef STRATAGRAPH_DISPATCH
        wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
        for (size_t i = 0; i < scores.size() && inside; ++i) {
            const int64_t row = rows.data()[i];
            inside = row >= 0 && static_cast<size_t>(row) < vectors.shape(0);
            if (!inside)
                break;
            const float *vector = vectors.data() + static_cast<size_t>(row) * dimension;
#ifdef STRATAGRAPH_DISPATCH
            if (wide) {
                scores[i] = dot_avx2(vector, query.data(), dimension);
                continue;
            }
#endif
            scores[i] = dot(vector, query.data(), dimension);
        }
        (void)wide;
    }
    if (!inside)
        throw nb::value_error("a row is not one of the vectors'");
    return to_array(std::move(scores));
}

}  // namespace

void bind_topk(nb::module_ &module) {
    module.def("shortlist", &shortlist, "query"_a.noconvert(), "codes"_a.noconvert(), "mask"_a.noconvert(), "size"_a,
               "The `size` rows of smallest Hamming distance to `query`, ascending; an empty mask admits all.");
    module.def("products", &products, "vectors"_a.noconvert(), "query"_a.noconvert(), "rows"_a.noconvert(),
               "Inner products of `query` with chosen rows of `vectors`.");
}
