// Hamming distances from one packed code to many. The numpy twin is hamming.py.

#include <bit>
#include <cstddef>
#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "_dispatch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using Code = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Distances = nb::ndarray<uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

STRATAGRAPH_INLINE void distances(const uint64_t *query, const uint64_t *codes, size_t count, size_t words,
                                uint16_t *out) {
    for (size_t row = 0; row < count; ++row, codes += words) {
        int total = 0;
        for (size_t word = 0; word < words; ++word)
            total += std::popcount(query[word] ^ codes[word]);
        out[row] = static_cast<uint16_t>(total);
    }
}

#ifdef STRATAGRAPH_DISPATCH
__attribute__((target("popcnt"))) void distances_popcnt(const uint64_t *query, const uint64_t *codes,
                                                        size_t count, size_t words, uint16_t *out) {
    distances(query, codes, count, words, out);
}
#endif

void hamming(Code query, Codes codes, Distances out) {
    const size_t count = codes.shape(0), words = codes.shape(1);
    if (query.shape(0) != words)
        throw nb::value_error("query and codes differ in their number of words");
    if (out.shape(0) != count)
        throw nb::value_error("out must have one element per code");
    if (words > 1023)
        throw nb::value_error("codes of more than 65,472 bits do not fit the 16-bit distances");

    nb::gil_scoped_release release;
#ifdef STRATAGRAPH_DISPATCH
    if (__builtin_cpu_supports("popcnt"))
        return distances_popcnt(query.data(), codes.data(), count, words, out.data());
#endif
    distances(query.data(), codes.data(), count, words, out.data());
}

}  // namespace

void bind_alignment(nb::module_ &module);
void bind_bm25(nb::module_ &module);
void bind_chnsw(nb::module_ &module);
void bind_float16(nb::module_ &module);
void bind_mapped(nb::module_ &module);
void bind_paths(nb::module_ &module);
void bind_ppr(nb::module_ &module);
void bind_statements(nb::module_ &module);
void bind_topk(nb::module_ &module);
void bind_words(nb::module_ &module);

NB_MODULE(_native, module) {
    module.doc() = "Native twins of the numpy kernels.";
    nb::set_leak_warnings(false);  // an index that is open when Python ends is not a user's mistake
    bind_alignment(module);
    bind_bm25(module);
    bind_chnsw(module);
    bind_float16(module);
    bind_mapped(module);
    bind_paths(module);
    bind_ppr(module);
    bind_statements(module);
    bind_topk(module);
    bind_words(module);
    module.def("hamming", &hamming, "query"_a.noconvert(), "codes"_a.noconvert(), "out"_a.noconvert(),
               "Write the Hamming distance from `query` (words,) to each of `codes` (n, words) to `out` (n,).");
}
