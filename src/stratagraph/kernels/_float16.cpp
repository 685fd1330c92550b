// Vectors of 16-bit floats that lie in several arrays: read as 32-bit ones, and multiplied where they lie. Called
// by float16.py.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "_dispatch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using Rows = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Segment = nb::ndarray<const uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Found = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

// The value of a 16-bit float of IEEE 754, by arithmetic on the bits of a 32-bit one.
STRATAGRAPH_INLINE float from_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
    if (exponent == 0) {  // zero and what is below the least normal number
        const float value = static_cast<float>(mantissa) * 0x1p-24f;
        return sign ? -value : value;
    }
    const uint32_t raised = exponent == 31 ? 255u : exponent + 112u;
    return std::bit_cast<float>(sign | raised << 23 | mantissa << 13);
}

STRATAGRAPH_INLINE float value(uint16_t half) { return from_half(half); }
STRATAGRAPH_INLINE float value(float whole) { return whole; }

// The inner product with 16-bit floats or with 32-bit ones.
template <typename Other> float dot(const uint16_t *left, const Other *right, size_t dimension) {
    float total = 0;
    for (size_t at = 0; at < dimension; ++at)
        total += from_half(left[at]) * value(right[at]);
    return total;
}

#ifdef STRATAGRAPH_DISPATCH
#define STRATAGRAPH_HALVES __attribute__((target("avx2,fma,f16c")))

STRATAGRAPH_HALVES STRATAGRAPH_INLINE __m256 eight(const uint16_t *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(halves)));
}
STRATAGRAPH_HALVES STRATAGRAPH_INLINE __m256 eight(const float *floats) { return _mm256_loadu_ps(floats); }

template <typename Other> STRATAGRAPH_HALVES float dot_avx2(const uint16_t *left, const Other *right, size_t dimension) {
    __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
    size_t at = 0;
    for (; at + 16 <= dimension; at += 16) {
        even = _mm256_fmadd_ps(eight(left + at), eight(right + at), even);
        odd = _mm256_fmadd_ps(eight(left + at + 8), eight(right + at + 8), odd);
    }
    alignas(32) float sums[8];
    _mm256_store_ps(sums, _mm256_add_ps(even, odd));
    float total = 0;
    for (float sum : sums)
        total += sum;
    for (; at < dimension; ++at)
        total += from_half(left[at]) * value(right[at]);
    return total;
}
#endif

// Scattered vectors are asked of memory before their turn.
constexpr size_t AHEAD = 4;

STRATAGRAPH_INLINE void fetch(const uint16_t *vector, size_t dimension) {
#if defined(__GNUC__) || defined(__clang__)
    for (size_t at = 0; at < dimension; at += 64 / sizeof(uint16_t))
        __builtin_prefetch(vector + at);
#else
    (void)vector, (void)dimension;
#endif
}

bool has_halves() {
#ifdef STRATAGRAPH_DISPATCH
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
    return false;
#endif
}

#ifdef STRATAGRAPH_DISPATCH
STRATAGRAPH_HALVES void widen_avx2(const uint16_t *halves, float *floats, size_t dimension) {
    size_t at = 0;
    for (; at + 8 <= dimension; at += 8)
        _mm256_storeu_ps(floats + at, eight(halves + at));
    for (; at < dimension; ++at)
        floats[at] = from_half(halves[at]);
}
#endif

class HalfVectors {
  public:
    HalfVectors(std::vector<Segment> given, size_t dimension) : segments(std::move(given)), dimension(dimension) {
        for (const Segment &segment : segments) {
            if (segment.shape(1) != dimension)
                throw nb::value_error("vectors differ in their dimension");
            starts.push_back(starts.back() + segment.shape(0));
        }
    }

    void rows(Rows slots, Found found) const {
        if (found.shape(0) != slots.shape(0) || found.shape(1) != dimension)
            throw nb::value_error("there are not as many places as slots");
        visit(slots, [&](size_t i, const uint16_t *vector, bool wide) {
            float *row = found.data() + i * dimension;
#ifdef STRATAGRAPH_DISPATCH
            if (wide)
                return widen_avx2(vector, row, dimension);
#endif
            for (size_t at = 0; at < dimension; ++at)
                row[at] = from_half(vector[at]);
        });
    }

    void products(Vector query, Rows slots, Scores scores) const {
        if (query.shape(0) != dimension || scores.shape(0) != slots.shape(0))
            throw nb::value_error("query and vectors differ in their dimension, or scores and slots in number");
        visit(slots, [&](size_t i, const uint16_t *vector, bool wide) {
#ifdef STRATAGRAPH_DISPATCH
            if (wide) {
                scores.data()[i] = dot_avx2(vector, query.data(), dimension);
                return;
            }
#endif
            scores.data()[i] = dot(vector, query.data(), dimension);
        });
    }

    void pair_products(Rows one, Rows two, Scores scores) const {
        if (two.shape(0) != one.shape(0) || scores.shape(0) != one.shape(0))
            throw nb::value_error("there are not as many second slots, or scores, as first ones");
        for (size_t i = 0; i < two.shape(0); ++i)
            if (!inside(two.data()[i]))
                throw nb::value_error("a slot is not one of the vectors'");
        const size_t count = two.shape(0);
        visit(one, [&](size_t i, const uint16_t *vector, bool wide) {
            if (i + AHEAD < count)
                fetch(at(two.data()[i + AHEAD]), dimension);
            const uint16_t *other = at(two.data()[i]);
#ifdef STRATAGRAPH_DISPATCH
            if (wide) {
                scores.data()[i] = dot_avx2(vector, other, dimension);
                return;
            }
#endif
            scores.data()[i] = dot(vector, other, dimension);
        });
    }

  private:
    // Calls `each` with the place of every slot, its vector, and whether there are instructions for 16-bit floats.
    template <class Each> void visit(Rows slots, Each each) const {
        const size_t count = slots.shape(0);
        bool known = true;
        {
            nb::gil_scoped_release release;
            const bool wide = has_halves();
            for (size_t i = 0; i < count && known; ++i) {
                const int64_t slot = slots.data()[i];
                known = inside(slot);
                if (!known)
                    break;
                if (i + AHEAD < count && inside(slots.data()[i + AHEAD]))
                    fetch(at(slots.data()[i + AHEAD]), dimension);
                each(i, at(slot), wide);
            }
        }
        if (!known)
            throw nb::value_error("a slot is not one of the vectors'");
    }

    bool inside(int64_t slot) const { return slot >= 0 && static_cast<size_t>(slot) < starts.back(); }

    const uint16_t *at(int64_t given) const {
        const size_t slot = static_cast<size_t>(given);
        const size_t number = std::upper_bound(starts.begin(), starts.end(), slot) - starts.begin() - 1;
        return segments[number].data() + (slot - starts[number]) * dimension;
    }

    const std::vector<Segment> segments;
    const size_t dimension;
    std::vector<size_t> starts{0};
};

}  // namespace

void bind_float16(nb::module_ &module) {
    nb::class_<HalfVectors>(module, "HalfVectors",
                            "Vectors counted through all segments; a segment holds the bits of 16-bit floats.")
        .def(nb::init<std::vector<Segment>, size_t>(), "segments"_a.noconvert(), "dimension"_a)
        .def("rows", &HalfVectors::rows, "slots"_a.noconvert(), "found"_a.noconvert(),
             "Write chosen vectors into the rows of `found`.")
        .def("products", &HalfVectors::products, "query"_a.noconvert(), "slots"_a.noconvert(), "scores"_a.noconvert(),
             "Write inner products of `query` with chosen vectors to `scores`.")
        .def("pair_products", &HalfVectors::pair_products, "one"_a.noconvert(), "two"_a.noconvert(),
             "scores"_a.noconvert(), "Write inner products of pairs of vectors to `scores`.");
}
