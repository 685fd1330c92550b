// What two sequences have in common, in order. Called by alignment.py.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T> using Items = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Spans = std::vector<int64_t>;

constexpr int64_t BLOCK = 64;  // items compared at once

// A difference, modulo 2^64: what a damaged array holds may be anything.
template <typename T> uint64_t apart(T before, T after) {
    return static_cast<uint64_t>(static_cast<int64_t>(after)) - static_cast<uint64_t>(static_cast<int64_t>(before));
}

template <typename T> class Aligner {
  public:
    Aligner(Items<T> before, Items<T> after, int64_t tolerance, int64_t window, int64_t reach, int64_t corner)
        : a_(before.data()), b_(after.data()), n_(static_cast<int64_t>(before.shape(0))),
          m_(static_cast<int64_t>(after.shape(0))), tolerance_(tolerance), window_(window), reach_(reach),
          corner_(corner) {}

    // Triples: where in `before` a run begins, its length, and how many items of `after` follow that are new.
    std::optional<Spans> spans(int64_t most) const {
        Spans found;
        int64_t i = 0, j = 0, fresh = 0;
        while (j < m_) {
            const int64_t run = same(i, j);
            const int64_t begin = i;
            i += run;
            j += run;
            const auto [skipped, added] = resumed(i, j);
            fresh += added;
            found.insert(found.end(), {begin, run, added});
            if (fresh + static_cast<int64_t>(found.size()) > most)  // a run costs three items
                return std::nullopt;
            i += skipped;
            j += added;
        }
        return found;
    }

  private:
    bool near(int64_t i, int64_t j) const {
        if (tolerance_ == 0)
            return a_[i] == b_[j];
        return apart(a_[i], b_[j]) + static_cast<uint64_t>(tolerance_) <= 2 * static_cast<uint64_t>(tolerance_);
    }

    int64_t same(int64_t i, int64_t j) const {
        const int64_t most = std::min(n_ - i, m_ - j);
        int64_t run = 0;
        if (tolerance_ == 0)
            while (run + BLOCK <= most && !std::memcmp(a_ + i + run, b_ + j + run, BLOCK * sizeof(T)))
                run += BLOCK;
        while (run < most && near(i + run, j + run))
            ++run;
        return run;
    }

    // Whether as much as is looked at is the same from here on; the ends of both are the same too.
    bool agrees(int64_t i, int64_t j) const {
        if (i > n_ || j > m_)
            return false;
        const int64_t left = n_ - i, right = m_ - j;
        if (std::min(left, right) < window_ && left != right)
            return false;
        const int64_t length = std::min({window_, left, right});
        for (int64_t at = 0; at < length; ++at)
            if (!near(i + at, j + at))
                return false;
        return true;
    }

    // How much to skip in `before` and to add of `after` until they agree again.
    std::pair<int64_t, int64_t> resumed(int64_t i, int64_t j) const {
        if (j == m_)
            return {0, 0};
        for (int64_t step = 1; step <= reach_; ++step) {
            if (agrees(i, j + step))
                return {0, step};
            if (agrees(i + step, j))
                return {step, 0};
            if (agrees(i + step, j + step))
                return {step, step};
            if (step > corner_)
                continue;
            for (int64_t less = 1; less < step; ++less) {
                if (agrees(i + less, j + step))
                    return {less, step};
                if (agrees(i + step, j + less))
                    return {step, less};
            }
        }
        const int64_t step = std::min(reach_, m_ - j);
        return {std::min(step, n_ - i), step};
    }

    const T *a_;
    const T *b_;
    int64_t n_, m_, tolerance_, window_, reach_, corner_;
};

template <typename T>
std::optional<Spans> aligned(Items<T> before, Items<T> after, int64_t tolerance, int64_t most, int64_t window,
                             int64_t reach, int64_t corner) {
    nb::gil_scoped_release release;
    return Aligner<T>(before, after, tolerance, window, reach, corner).spans(most);
}

// By how much most of what a value became differs from it, for each value that runs have in common: the majority
// vote of Boyer and Moore.
template <typename T>
void shifts(Items<T> before, Items<T> after, Items<int64_t> spans,
            nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> found,
            nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> votes) {
    const auto values = static_cast<int64_t>(found.shape(0));
    const auto n = static_cast<int64_t>(before.shape(0)), m = static_cast<int64_t>(after.shape(0));
    const T *a = before.data(), *b = after.data();
    const int64_t *span = spans.data();
    int64_t *shift = found.data();
    int32_t *vote = votes.data();
    nb::gil_scoped_release release;
    int64_t j = 0;
    for (size_t at = 0; at + 2 < spans.shape(0); at += 3) {
        const int64_t begin = span[at], run = span[at + 1];
        if (begin < 0 || run < 0 || run > n - begin || run > m - j)
            throw std::invalid_argument("a run leads beyond the sequences");
        for (int64_t i = begin; i < begin + run; ++i, ++j) {
            const auto value = static_cast<int64_t>(a[i]);
            if (value < 0 || value >= values)
                continue;
            const auto further = static_cast<int64_t>(apart(a[i], b[j]));
            if (vote[value] == 0) {
                shift[value] = further;
                vote[value] = 1;
            } else
                vote[value] += shift[value] == further ? 1 : -1;
        }
        j += span[at + 2];
    }
}

template <typename T> void bind(nb::module_ &module) {
    module.def("aligned", &aligned<T>, "before"_a, "after"_a, "tolerance"_a, "most"_a, "window"_a, "reach"_a,
               "corner"_a);
}

}  // namespace

void bind_alignment(nb::module_ &module) {
    bind<uint8_t>(module);
    bind<uint16_t>(module);
    bind<uint32_t>(module);
    bind<uint64_t>(module);
    bind<int32_t>(module);
    bind<int64_t>(module);
    module.def("shifts", &shifts<int32_t>, "before"_a, "after"_a, "spans"_a, "found"_a, "votes"_a);
    module.def("shifts", &shifts<int64_t>, "before"_a, "after"_a, "spans"_a, "found"_a, "votes"_a);
}
