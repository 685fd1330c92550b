// The statements behind groups of passages, and the few of each group that are shown: called by
// statements.py.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using namespace nb::literals;

template <typename T> using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pairs = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

// For each statement the last group that took it; all zero between two questions of a thread.
struct Taken {
    std::vector<uint32_t> group;

    void fit(size_t size) {
        if (group.size() < size)
            group.resize(size, 0);
    }
    void release(const std::vector<int64_t> &distinct) {
        for (const int64_t each : distinct)
            group[static_cast<size_t>(each)] = 0;
        if (group.size() > KEPT)
            group = std::vector<uint32_t>();
    }

  private:
    static constexpr size_t KEPT = size_t{1} << 22;
};

struct Compressed {
    const int64_t *indptr;
    const int64_t *indices;
    size_t rows, size;

    Compressed(const Flat<int64_t> &borders, const Flat<int64_t> &values)
        : indptr(borders.data()), indices(values.data()), rows(borders.shape(0) ? borders.shape(0) - 1 : 0),
          size(values.shape(0)) {}

    // Whether a row is there and lies within the values.
    bool holds(int64_t row) const {
        return row >= 0 && static_cast<size_t>(row) < rows && indptr[row] >= 0 && indptr[row] <= indptr[row + 1] &&
               static_cast<size_t>(indptr[row + 1]) <= size;
    }
};

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// Whether borders of groups begin at 0, never fall, and end with the values.
bool fit(const Flat<int64_t> &borders, size_t size) {
    const size_t count = borders.shape(0);
    if (!count || borders.data()[0] != 0 || borders.data()[count - 1] != static_cast<int64_t>(size))
        return false;
    return std::is_sorted(borders.data(), borders.data() + count);
}

bool names(const Compressed &named, size_t statement, int64_t entity) {
    if (entity < 0)
        return true;
    const int64_t *begin = named.indptr + statement;
    return std::find(named.indices + begin[0], named.indices + begin[1], entity) != named.indices + begin[1];
}

nb::tuple behind(Flat<int64_t> said_indptr, Flat<int64_t> said_indices, Flat<int64_t> named_indptr,
                 Flat<int64_t> named_indices, Flat<int64_t> passages, Flat<int64_t> borders, Pairs entities) {
    const Compressed said(said_indptr, said_indices), named(named_indptr, named_indices);
    const size_t groups = borders.shape(0) ? borders.shape(0) - 1 : 0;
    if (!fit(borders, passages.shape(0)) || entities.shape(0) != groups || entities.shape(1) != 2)
        throw nb::value_error("the groups of passages do not fit each other");
    std::vector<int64_t> found, ends{0}, distinct;
    bool inside = true;
    {
        nb::gil_scoped_release release;
        thread_local Taken taken;
        taken.fit(named.rows);
        for (size_t group = 0; group < groups && inside; ++group) {
            const int64_t *wanted = entities.data() + 2 * group;
            const auto mark = static_cast<uint32_t>(group + 1);
            for (int64_t at = borders.data()[group]; at < borders.data()[group + 1] && inside; ++at) {
                const int64_t passage = passages.data()[at];
                if (!(inside = said.holds(passage)))
                    break;
                for (int64_t place = said.indptr[passage]; place < said.indptr[passage + 1]; ++place) {
                    const int64_t statement = said.indices[place];
                    if (!(inside = named.holds(statement)))
                        break;
                    uint32_t &last = taken.group[static_cast<size_t>(statement)];
                    if (last == mark || !names(named, static_cast<size_t>(statement), wanted[0]) ||
                        !names(named, static_cast<size_t>(statement), wanted[1]))
                        continue;
                    if (!last)
                        distinct.push_back(statement);
                    last = mark;
                    found.push_back(statement);
                }
            }
            ends.push_back(static_cast<int64_t>(found.size()));
        }
        taken.release(distinct);
    }
    if (!inside)
        throw nb::value_error("the statements of passages are damaged: one is out of bounds");
    return nb::make_tuple(to_array(std::move(found)), to_array(std::move(ends)), to_array(std::move(distinct)));
}

nb::tuple most_telling(Flat<int64_t> statements, Flat<int64_t> borders, Flat<float> scores, Flat<int64_t> most,
                       Flags told, bool again) {
    const size_t groups = borders.shape(0) ? borders.shape(0) - 1 : 0, count = statements.shape(0);
    if (!fit(borders, count) || scores.shape(0) != count || most.shape(0) != groups)
        throw nb::value_error("the groups of statements do not fit each other");
    for (size_t at = 0; at < count; ++at)
        if (statements.data()[at] < 0 || static_cast<size_t>(statements.data()[at]) >= told.shape(0))
            throw nb::value_error("a statement is out of bounds");
    std::vector<int64_t> chosen, ends{0}, places;
    const int64_t *rows = statements.data();
    const auto score = [&](int64_t at) {
        return std::isnan(scores.data()[at]) ? -std::numeric_limits<float>::infinity() : scores.data()[at];
    };
    const auto better = [&](int64_t one, int64_t other) {
        return score(one) != score(other) ? score(one) > score(other) : rows[one] < rows[other];
    };
    {
        nb::gil_scoped_release release;
        for (size_t group = 0; group < groups; ++group) {
            const int64_t begin = borders.data()[group], end = borders.data()[group + 1];
            places.clear();
            for (int64_t at = begin; at < end; ++at)
                if (!told.data()[rows[at]])
                    places.push_back(at);
            if (places.empty() && again) {
                places.resize(static_cast<size_t>(end - begin));
                std::iota(places.begin(), places.end(), begin);
            }
            const size_t size = std::min(places.size(), static_cast<size_t>(std::max<int64_t>(most.data()[group], 0)));
            const auto last = places.begin() + static_cast<std::ptrdiff_t>(size);
            if (size < places.size())
                std::partial_sort(places.begin(), last, places.end(), better);
            const size_t first = chosen.size();
            for (auto place = places.begin(); place != last; ++place)
                chosen.push_back(rows[*place]);
            std::sort(chosen.begin() + static_cast<std::ptrdiff_t>(first), chosen.end());
            for (size_t at = first; at < chosen.size(); ++at)
                told.data()[chosen[at]] = true;
            ends.push_back(static_cast<int64_t>(chosen.size()));
        }
    }
    return nb::make_tuple(to_array(std::move(chosen)), to_array(std::move(ends)));
}

}  // namespace

void bind_statements(nb::module_ &module) {
    module.def("behind", &behind, "said_indptr"_a.noconvert(), "said_indices"_a.noconvert(),
               "named_indptr"_a.noconvert(), "named_indices"_a.noconvert(), "passages"_a.noconvert(),
               "borders"_a.noconvert(), "entities"_a.noconvert(),
               "Statements of groups of passages that name up to two entities, their borders, and all of them once.");
    module.def("most_telling", &most_telling, "statements"_a.noconvert(), "borders"_a.noconvert(),
               "scores"_a.noconvert(), "most"_a.noconvert(), "told"_a.noconvert(), "again"_a,
               "The best statements of each group that no earlier group took, ascending, and their borders.");
}
