// Scores of passages over postings of terms. Called by bm25.py, which has the formula.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using namespace nb::literals;

template <typename T> using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

// A sum for each passage and a bit for those that have one; all zero between two questions of a thread.
struct Sums {
    std::vector<double> sums;
    std::vector<uint64_t> touched;

    void fit(size_t size) {
        if (sums.size() < size) {
            sums.resize(size, 0.0);
            touched.resize((size + 63) / 64, 0);
        }
    }
    void add(size_t row, double part) {
        sums[row] += part;
        touched[row / 64] |= uint64_t{1} << (row % 64);
    }
    void collect(size_t size, std::vector<int64_t> &rows, std::vector<float> &scores) {
        for (size_t word = 0; word < (size + 63) / 64; ++word) {
            for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
                const size_t row = 64 * word + static_cast<size_t>(std::countr_zero(bits));
                rows.push_back(static_cast<int64_t>(row));
                scores.push_back(static_cast<float>(sums[row]));
                sums[row] = 0.0;
            }
            touched[word] = 0;
        }
        if (sums.size() > KEPT) {
            sums = std::vector<double>();
            touched = std::vector<uint64_t>();
        }
    }

  private:
    static constexpr size_t KEPT = size_t{1} << 22;
};

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object bm25(Flat<int32_t> rows, Flat<uint8_t> counts, Flat<int64_t> starts, Flat<int64_t> lengths,
                Flat<float> rarity, Flat<float> norms, Flat<bool> mask) {
    const size_t size = norms.shape(0), postings = rows.shape(0), terms = starts.shape(0);
    if (counts.shape(0) != postings || lengths.shape(0) != terms || rarity.shape(0) != terms)
        throw nb::value_error("the arrays of the postings do not fit each other");
    if (mask.shape(0) != 0 && mask.shape(0) != size)
        throw nb::value_error("the mask must have one element per passage, or none");
    for (size_t term = 0; term < terms; ++term) {
        const int64_t start = starts.data()[term], length = lengths.data()[term];
        if (start < 0 || length < 0 || static_cast<uint64_t>(start) > postings ||
            static_cast<uint64_t>(length) > postings - static_cast<uint64_t>(start))
            throw nb::value_error("the postings are damaged: those of a term are out of bounds");
    }
    const bool *admitted = mask.shape(0) ? mask.data() : nullptr;
    std::vector<int64_t> found;
    std::vector<float> scores;
    bool inside = true;
    {
        nb::gil_scoped_release release;
        thread_local Sums sums;
        sums.fit(size);
        for (size_t term = 0; term < terms && inside; ++term) {
            const size_t start = static_cast<size_t>(starts.data()[term]);
            const size_t end = start + static_cast<size_t>(lengths.data()[term]);
            const float weight = rarity.data()[term];
            for (size_t at = start; at < end; ++at) {
                const int32_t row = rows.data()[at];
                if (row < 0 || static_cast<size_t>(row) >= size) {
                    inside = false;
                    break;
                }
                if (admitted && !admitted[row])
                    continue;
                const float often = static_cast<float>(counts.data()[at]);
                const float part = weight * often / (often + norms.data()[row]);
                sums.add(static_cast<size_t>(row), part);
            }
        }
        sums.collect(size, found, scores);
    }
    if (!inside)
        throw nb::value_error("the postings are damaged: a row is no passage");
    return nb::make_tuple(to_array(std::move(found)), to_array(std::move(scores)));
}

}  // namespace

void bind_bm25(nb::module_ &module) {
    module.def("bm25", &bm25, "rows"_a.noconvert(), "counts"_a.noconvert(), "starts"_a.noconvert(),
               "lengths"_a.noconvert(), "rarity"_a.noconvert(), "norms"_a.noconvert(), "mask"_a.noconvert(),
               "Rows, ascending, and scores of the passages that have one of the terms.");
}
