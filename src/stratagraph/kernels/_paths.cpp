// Shortest paths by breadth-first search from both ends. Called by paths.py.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Index = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pairs = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Layers = std::vector<std::vector<int32_t>>;

// Compressed rows that may have been altered since paths.py looked at them: every number is tested before it
// is followed, and the first that leads nowhere ends the call.
struct Graph {
    const int32_t *offsets;
    const int32_t *targets;
    const int32_t *edges;
    size_t count;         // nodes
    size_t entries;       // of targets and of edges
    const bool *nodes;    // admitted ones; null: all
    const bool *allowed;  // admitted edges; null: all
    size_t allowances;    // of allowed

    template <typename Visit> void each(int32_t node, Visit visit) const {
        const auto from = static_cast<size_t>(offsets[node]), to = static_cast<size_t>(offsets[node + 1]);
        if (from > to || to > entries)  // a negative number is a large one here
            throw nb::value_error("the offsets of a graph do not ascend from 0 to the number of its targets");
        for (size_t at = from; at < to; ++at) {
            const int32_t head = targets[at];
            if (static_cast<size_t>(head) >= count)
                throw nb::value_error("a target of a graph is not one of its nodes");
            if (nodes != nullptr && !nodes[head])
                continue;
            if (allowed != nullptr) {
                if (static_cast<size_t>(edges[at]) >= allowances)
                    throw nb::value_error("an edge of a graph is not one of those that may be allowed");
                if (!allowed[edges[at]])
                    continue;
            }
            visit(head);
        }
    }
    int64_t degree(const std::vector<int32_t> &layer) const {
        int64_t total = 0;
        for (int32_t node : layer)
            total += static_cast<int64_t>(offsets[node + 1]) - offsets[node];
        return total;
    }
};

// A number per node, all -1 again in the time it took to set some.
class Levels {
  public:
    void resize(size_t count) {
        if (values.size() != count) {
            values.assign(count, -1);
            touched.clear();
        }
    }
    void set(int32_t node, int32_t value) {
        if (values[node] < 0)
            touched.push_back(node);
        values[node] = value;
    }
    int32_t operator[](int32_t node) const { return values[node]; }
    void clear() {
        for (int32_t node : touched)
            values[node] = -1;
        touched.clear();
    }

  private:
    std::vector<int32_t> values;
    std::vector<int32_t> touched;
};

struct Search {
    Levels ahead, behind, useful;
    Layers from, to;

    void resize(size_t count) {
        ahead.resize(count);
        behind.resize(count);
        useful.resize(count);
    }

    bool meet(const Graph &graph, int32_t source, int32_t target) {
        ahead.clear();
        behind.clear();
        useful.clear();
        from.assign(1, {source});
        to.assign(1, {target});
        ahead.set(source, 0);
        behind.set(target, 0);
        while (!from.back().empty() && !to.back().empty()) {
            const bool forward = graph.degree(from.back()) <= graph.degree(to.back());
            Layers &layers = forward ? from : to;
            Levels &own = forward ? ahead : behind, &other = forward ? behind : ahead;
            std::vector<int32_t> reached;
            bool met = false;
            const int32_t level = static_cast<int32_t>(layers.size());
            for (int32_t node : layers.back())
                graph.each(node, [&](int32_t head) {
                    if (own[head] >= 0)
                        return;
                    own.set(head, level);
                    reached.push_back(head);
                    met = met || other[head] >= 0;
                });
            layers.push_back(std::move(reached));
            if (met)
                return true;
        }
        return false;
    }

    // The first in order of all shortest paths: back from where the sides met, then forward by least rows.
    void walk(const Graph &graph, std::vector<int32_t> &path) {
        const int32_t middle = static_cast<int32_t>(from.size()) - 1;
        for (int32_t node : from.back())
            if (behind[node] >= 0)
                useful.set(node, middle);
        for (int32_t level = middle - 1; level >= 0; --level)
            for (int32_t node : from[level]) {
                bool leads = false;
                graph.each(node, [&](int32_t head) { leads = leads || useful[head] == level + 1; });
                if (leads)
                    useful.set(node, level);
            }
        int32_t node = from[0][0];
        path.push_back(node);
        for (int32_t level = 1; level <= middle; ++level)
            path.push_back(node = least(graph, node, useful, level));
        for (int32_t level = behind[node] - 1; level >= 0; --level)
            path.push_back(node = least(graph, node, behind, level));
    }

    static int32_t least(const Graph &graph, int32_t node, const Levels &levels, int32_t level) {
        int32_t best = std::numeric_limits<int32_t>::max();
        graph.each(node, [&](int32_t head) {
            if (levels[head] == level)
                best = std::min(best, head);
        });
        if (best == std::numeric_limits<int32_t>::max())
            throw nb::value_error("a graph has an edge in one direction alone");
        return best;
    }
};

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// An empty mask admits all.
nb::tuple shortest_paths(Index offsets, Index targets, Index edges, Pairs pairs, Mask nodes, Mask allowed) {
    if (offsets.shape(0) == 0 || targets.shape(0) != edges.shape(0) || pairs.shape(1) != 2)
        throw nb::value_error("arrays of a graph do not fit each other");
    const size_t count = offsets.shape(0) - 1;
    if (nodes.shape(0) != 0 && nodes.shape(0) != count)
        throw nb::value_error("a mask of nodes has one element per node");
    const Graph graph{offsets.data(), targets.data(), edges.data(), count, targets.shape(0),
                      nodes.shape(0) ? nodes.data() : nullptr, allowed.shape(0) ? allowed.data() : nullptr,
                      allowed.shape(0)};
    std::vector<int32_t> path;
    std::vector<int64_t> ends;
    {
        nb::gil_scoped_release release;
        thread_local Search search;
        search.resize(count);
        for (size_t i = 0; i < pairs.shape(0); ++i) {
            for (size_t end = 0; end < 2; ++end)
                if (static_cast<uint64_t>(pairs.data()[2 * i + end]) >= count)
                    throw nb::value_error("a pair is not of two nodes");
            const int32_t source = static_cast<int32_t>(pairs.data()[2 * i]);
            const int32_t target = static_cast<int32_t>(pairs.data()[2 * i + 1]);
            const bool open = graph.nodes == nullptr || (graph.nodes[source] && graph.nodes[target]);
            if (open && source == target)
                path.push_back(source);
            else if (open && search.meet(graph, source, target))
                search.walk(graph, path);
            ends.push_back(static_cast<int64_t>(path.size()));
        }
    }
    return nb::make_tuple(to_array(std::move(ends)), to_array(std::move(path)));
}

}  // namespace

void bind_paths(nb::module_ &module) {
    module.def("shortest_paths", &shortest_paths, "offsets"_a.noconvert(), "targets"_a.noconvert(),
               "edges"_a.noconvert(), "pairs"_a.noconvert(), "nodes"_a.noconvert(), "allowed"_a.noconvert(),
               "Where each path ends among the nodes of all paths, and these nodes; no path is of no nodes.");
}
