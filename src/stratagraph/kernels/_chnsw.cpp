// The binding of C-HNSW: arrays in, results into arrays, the GIL released and a lock taken.
// Shapes are checked here; that links lead somewhere, by chnsw_layer.py where arrays come from a file.

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "_chnsw.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T, size_t Dimensions>
using Array = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
template <typename T, size_t Dimensions>
using Output = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

// A layer's arrays, kept alive as long as they are searched.
struct Arrays {
    Array<uint8_t, 2> codes;
    Array<float, 1> scales;
    Array<float, 2> vectors;
    Array<int32_t, 2> links;
    Array<int32_t, 1> down;
    Array<int64_t, 1> child_from;
    Array<int32_t, 1> children;
    Array<uint8_t, 1> alive;
    Array<int32_t, 1> pilots, ids;
};

constexpr size_t GROUP = 32;  // queries that one thread takes at a time

class Graph {
  public:
    Graph(int kind, size_t dimension, size_t layers, size_t breadth, bool paper,
          const std::string &level)
        : index(dimension) {
        index.kind = static_cast<chnsw::Kind>(kind);
        index.breadth = breadth;
        index.paper = paper;
        index.many = chnsw::kernel(index.kind, level);
        index.many_exact = chnsw::kernel(chnsw::Kind::float32, level);
        index.summed = chnsw::summed(index.many);
        if (!index.many)
            throw nb::value_error(("this machine has no instructions called " + level).c_str());
        index.layers.resize(layers);
        held.resize(layers);
    }

    void set_layer(size_t level, Arrays arrays, float max_scale, float max_norm, bool scanned) {
        chnsw::Layer layer;
        layer.count = arrays.alive.shape(0);
        check(arrays, scanned);
        const size_t length = arrays.codes.shape(1) / (index.kind == chnsw::Kind::int8 ? 1 : sizeof(float));
        layer.codes = {index.kind, reinterpret_cast<const char *>(arrays.codes.data()), arrays.codes.shape(1), length,
                       arrays.scales.shape(0) ? arrays.scales.data() : nullptr};
        if (arrays.vectors.shape(0) == layer.count && layer.count)
            layer.exact = {chnsw::Kind::float32, reinterpret_cast<const char *>(arrays.vectors.data()),
                           index.dimension * sizeof(float), index.dimension, nullptr};
        layer.links = const_cast<int32_t *>(arrays.links.data());
        layer.width = arrays.links.shape(1);
        layer.down = const_cast<int32_t *>(arrays.down.data());
        layer.child_from = arrays.child_from.data();
        layer.children = arrays.children.data();
        layer.alive = arrays.alive.data();
        layer.pilots = arrays.pilots.data();
        layer.pilot_count = arrays.pilots.shape(0);
        layer.ids = arrays.ids.data();
        layer.max_scale = max_scale;
        layer.max_norm = max_norm;
        layer.scanned = scanned;
        {
            nb::gil_scoped_release release;
            std::unique_lock lock(mutex);
            index.layers.at(level) = layer;
        }
        std::swap(held.at(level), arrays);
    }

    void search(Array<float, 2> queries, size_t k, Array<int32_t, 1> ef, size_t lowest, int threads,
                Output<int32_t, 3> rows, Output<float, 3> scores) {
        const size_t count = queries.shape(0), layers = index.layers.size();
        if (k == 0 || queries.shape(1) != index.dimension || ef.shape(0) != layers || rows.shape(0) != layers ||
            rows.shape(1) != count || rows.shape(2) != k || scores.shape(0) != layers ||
            scores.shape(1) != count || scores.shape(2) != k)
            throw nb::value_error("arrays of a search do not fit each other");
        int32_t *found = rows.data();
        float *how = scores.data();
        nb::gil_scoped_release release;
        std::shared_lock lock(mutex);
        const size_t groups = (count + GROUP - 1) / GROUP;
        const chnsw::Counters counters = chnsw::in_parallel(groups, threads, [&](size_t group, chnsw::Scratch &all) {
            thread_local chnsw::Lane lanes[chnsw::LANES];
            const size_t from = group * GROUP;
            const auto load = [&](chnsw::Lane &lane) {
                index.prepare(queries.data() + (from + lane.number) * index.dimension, lane.query);
                ++all.counters.queries;
            };
            for (chnsw::Lane &lane : lanes)
                lane.scratch.counters = {};
            index.descend(lanes, std::min(GROUP, count - from), k, ef.data(), lowest, load, [&](chnsw::Lane &lane) {
                const size_t place = (lane.level * count + from + lane.number) * k;
                write(lane.level, lane.scratch, k, found + place, how + place);
            });
            for (const chnsw::Lane &lane : lanes)
                all.counters.add(lane.scratch.counters);
        });
        index.add(counters);
    }

    // As search, for one query, without what a batch costs; how many were found in each layer.
    std::vector<size_t> search_one(Array<float, 1> vector, size_t k, Array<int32_t, 1> ef,
                                   Output<int64_t, 2> rows, Output<float, 2> scores) {
        const size_t layers = index.layers.size();
        if (k == 0 || vector.shape(0) != index.dimension || ef.shape(0) != layers || rows.shape(0) != layers ||
            rows.shape(1) != k || scores.shape(0) != layers || scores.shape(1) != k)
            throw nb::value_error("arrays of a search do not fit each other");
        std::vector<size_t> counts(layers, 0);
        nb::gil_scoped_release release;
        std::shared_lock lock(mutex);
        thread_local chnsw::Lane lane;
        index.prepare(vector.data(), lane.query);
        if (!std::isfinite(lane.query.squares))
            throw nb::value_error("query 0 holds values that are not finite");
        lane.scratch.counters = {1};
        const auto loaded = [](const chnsw::Lane &) {};
        index.descend(&lane, 1, k, ef.data(), 0, loaded, [&](chnsw::Lane &) {
            const size_t level = lane.level;
            counts[level] = write(level, lane.scratch, k, rows.data() + level * k, scores.data() + level * k);
        });
        index.add(lane.scratch.counters);
        return counts;
    }

    void insert(size_t level, Array<int32_t, 1> rows, size_t links, size_t ef, int threads) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        check_linked(level, links);
        check_rows(level, rows);
        index.insert(level, rows.data(), rows.shape(0), links, ef, threads);
    }

    void remove(size_t level, Array<int32_t, 1> rows, size_t links, int threads) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        check_linked(level, links);
        check_rows(level, rows);
        index.remove(level, rows.data(), rows.shape(0), links, threads);
    }

    size_t repair(size_t level) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        check_linked(level);
        return index.repair(level);
    }

    void link_down(size_t level, Array<int32_t, 1> rows, size_t ef, int threads) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        if (level == 0)
            throw nb::value_error("nothing lies below the lowest layer");
        check_linked(level - 1);
        check_rows(level, rows);
        index.link_down(level, rows.data(), rows.shape(0), ef, threads);
    }

    void neighbours(size_t level, size_t k, size_t ef, int threads, Output<int32_t, 2> rows, Output<float, 2> scores) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        check_linked(level);
        const size_t count = index.layers[level].count;
        if (rows.shape(0) != count || rows.shape(1) != k || scores.shape(0) != count || scores.shape(1) != k)
            throw nb::value_error("arrays of neighbours do not fit the layer");
        index.neighbours(level, k, ef, threads, rows.data(), scores.data());
    }

    nb::tuple counters() const {
        const chnsw::Counters total = index.total();
        return nb::make_tuple(total.queries, total.distances, total.reranked, total.hops);
    }

  private:
    // Whether a layer's arrays are as long as its code will take them to be.
    void check(const Arrays &arrays, bool scanned) const {
        const size_t count = arrays.alive.shape(0), bytes = arrays.codes.shape(1);
        const bool rounded = index.kind == chnsw::Kind::int8;
        const bool fits =
            arrays.codes.shape(0) == count && arrays.scales.shape(0) == (rounded ? count : 0) &&
            (rounded ? bytes >= index.dimension && bytes % 64 == 0 : bytes == index.dimension * sizeof(float)) &&
            (arrays.vectors.shape(0) == 0 || arrays.vectors.shape(0) == count) &&
            arrays.vectors.shape(1) == index.dimension &&
            (arrays.links.shape(0) == count || (scanned && arrays.links.shape(0) == 0)) &&
            arrays.down.shape(0) == count && arrays.child_from.shape(0) == count + 1 &&
            arrays.ids.shape(0) == count;
        if (!fits)
            throw nb::value_error("arrays of a layer do not fit each other");
    }

    void check_linked(size_t level, size_t links = 0) const {
        if (level >= index.layers.size() || index.layers[level].scanned || links > index.layers[level].width)
            throw nb::value_error("there is no such layer, it is not linked, or its nodes hold fewer links");
    }

    void check_rows(size_t level, Array<int32_t, 1> rows) const {
        if (level >= index.layers.size())
            throw nb::value_error("there is no such layer");
        for (size_t i = 0; i < rows.shape(0); ++i)
            if (static_cast<size_t>(rows.data()[i]) >= index.layers[level].count)
                throw nb::value_error("a row is not one of the layer's nodes");
    }

    // The best k of a pool by the callers' numbers, filled up with -1 and 0; returns how many there are.
    template <typename Row>
    size_t write(size_t level, chnsw::Scratch &scratch, size_t k, Row *rows, float *scores) const {
        std::vector<chnsw::Candidate> &items = scratch.pool.items;
        const size_t count = std::min(k, items.size());
        const int32_t *ids = index.layers[level].ids;
        for (size_t at = 0; at < count; ++at)
            items[at].node = static_cast<uint32_t>(ids[items[at].id()]);
        std::sort(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count), chnsw::before);
        for (size_t at = 0; at < k; ++at) {
            rows[at] = at < count ? static_cast<Row>(items[at].id()) : -1;
            scores[at] = at < count ? items[at].score : 0.0F;
        }
        return count;
    }

    chnsw::Index index;
    std::vector<Arrays> held;
    std::shared_mutex mutex;
};

}  // namespace

void bind_chnsw(nb::module_ &module) {
    module.def("simd_levels", &chnsw::levels, "Instruction sets of this machine that have kernels, the widest first.");
    nb::class_<Graph>(module, "Graph", "Search over a hierarchy of layers; the arrays stay the caller's.")
        .def(nb::init<int, size_t, size_t, size_t, bool, const std::string &>(), "kind"_a, "dimension"_a, "layers"_a, "breadth"_a, "paper"_a, "level"_a)
        .def(
            "set_layer",
            [](Graph &graph, size_t level, Array<uint8_t, 2> codes, Array<float, 1> scales, Array<float, 2> vectors,
               Array<int32_t, 2> links, Array<int32_t, 1> down, Array<int64_t, 1> child_from,
               Array<int32_t, 1> children, Array<uint8_t, 1> alive, Array<int32_t, 1> pilots, Array<int32_t, 1> ids,
               float max_scale, float max_norm, bool scanned) {
                graph.set_layer(
                    level, {codes, scales, vectors, links, down, child_from, children, alive, pilots, ids}, max_scale,
                    max_norm, scanned);
            },
            "level"_a, "codes"_a.noconvert(), "scales"_a.noconvert(), "vectors"_a.noconvert(),
            "links"_a.noconvert(), "down"_a.noconvert(), "child_from"_a.noconvert(), "children"_a.noconvert(),
            "alive"_a.noconvert(), "pilots"_a.noconvert(), "ids"_a.noconvert(),
            "max_scale"_a, "max_norm"_a, "scanned"_a)
        .def("search", &Graph::search, "queries"_a.noconvert(), "k"_a, "ef"_a.noconvert(), "lowest"_a, "threads"_a,
             "rows"_a.noconvert(), "scores"_a.noconvert())
        .def("search_one", &Graph::search_one, "vector"_a.noconvert(), "k"_a, "ef"_a.noconvert(),
             "rows"_a.noconvert(), "scores"_a.noconvert())
        .def("insert", &Graph::insert, "level"_a, "rows"_a.noconvert(), "links"_a, "ef"_a, "threads"_a)
        .def("remove", &Graph::remove, "level"_a, "rows"_a.noconvert(), "links"_a, "threads"_a)
        .def("repair", &Graph::repair, "level"_a)
        .def("link_down", &Graph::link_down, "level"_a, "rows"_a.noconvert(), "ef"_a, "threads"_a)
        .def("neighbours", &Graph::neighbours, "level"_a, "k"_a, "ef"_a, "threads"_a, "rows"_a.noconvert(),
             "scores"_a.noconvert())
        .def("counters", &Graph::counters);
}
