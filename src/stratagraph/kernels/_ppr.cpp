// Personalised PageRank that touches only what the walk reaches. Called by ppr.py, which has the formula.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Nodes = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What a walk reads, mapped from a file: nothing in it is trusted, since an index may be damaged.
struct Graph {
    const int32_t *offsets;
    const int32_t *targets;
    const float *weights;
    size_t nodes;
    size_t edges;

    bool is_row(int32_t from, int32_t to) const {
        return from >= 0 && from <= to && static_cast<size_t>(to) <= edges;
    }
    bool is_edge(int32_t edge) const {
        const int32_t target = targets[edge];
        return target >= 0 && static_cast<size_t>(target) < nodes && weights[edge] >= 0.0f && weights[edge] <= 1.0f;
    }
    // How many edges leave a node; -1 if the graph is damaged there.
    int64_t degree(int32_t node) const {
        const int32_t from = offsets[node], to = offsets[node + 1];
        return is_row(from, to) ? to - from : -1;
    }
    // Hand `mass` on along the edges of a node; false if the graph is damaged there.
    template <class Give> bool pass(int32_t node, double mass, Give give) const {
        for (int32_t edge = offsets[node], to = offsets[node + 1]; edge < to; ++edge) {
            if (!is_edge(edge))
                return false;
            give(targets[edge], mass * weights[edge]);
        }
        return true;
    }
};

// Several graphs as one. A node stands in one or more of them; `places` says where, and which share of its mass
// passes there. These arrays are made when the graphs are opened, and are trusted.
struct Joined {
    std::vector<Graph> graphs;
    std::vector<const int32_t *> numbers;
    const int64_t *starts;
    const int32_t *owners;
    const int32_t *rows;
    const float *shares;

    int64_t degree(int32_t node) const {
        int64_t edges = 0;
        for (int64_t at = starts[node]; at < starts[node + 1]; ++at) {
            const int64_t own = graphs[owners[at]].degree(rows[at]);
            if (own < 0)
                return -1;
            edges += own;
        }
        return edges;
    }
    template <class Give> bool pass(int32_t node, double mass, Give give) const {
        for (int64_t at = starts[node]; at < starts[node + 1]; ++at) {
            const int32_t *known = numbers[owners[at]];
            const auto renamed = [&](int32_t target, double part) { give(known[target], part); };
            if (!graphs[owners[at]].pass(rows[at], mass * shares[at], renamed))
                return false;
        }
        return true;
    }
};

struct Bounds {
    int64_t steps;
    double tolerance;
    double per_edge;
};

// A sparse vector: nodes in the order in which they were reached, their mass, and a hash table of places.
// It is as large as what a walk reaches, whatever the graph holds, and is kept by its thread for the next walk.
class Sparse {
  public:
    double &at(int32_t node) {
        if (2 * (nodes.size() + 1) > slots.size())
            grow();
        size_t slot = place(node);
        if (slots[slot] == EMPTY) {
            slots[slot] = static_cast<uint32_t>(nodes.size());
            nodes.push_back(node);
            mass.push_back(0.0);
        }
        return mass[slots[slot]];
    }
    double get(int32_t node) const {
        if (slots.empty())
            return 0.0;
        const uint32_t found = slots[place(node)];
        return found == EMPTY ? 0.0 : mass[found];
    }
    void clear() {
        if (slots.size() > KEPT) {
            slots = std::vector<uint32_t>();
        } else if (8 * nodes.size() < slots.size()) {
            // The last one first: then no run of occupied slots is torn before what lies behind it is freed.
            for (size_t i = nodes.size(); i-- > 0;)
                slots[place(nodes[i])] = EMPTY;
        } else {
            std::fill(slots.begin(), slots.end(), EMPTY);
        }
        nodes.clear();
        mass.clear();
    }
    void swap(Sparse &other) {
        nodes.swap(other.nodes);
        mass.swap(other.mass);
        slots.swap(other.slots);
    }
    std::vector<int32_t> nodes;
    std::vector<double> mass;

  private:
    static constexpr uint32_t EMPTY = UINT32_MAX;
    static constexpr size_t KEPT = size_t{1} << 20;

    size_t place(int32_t node) const {
        const size_t last = slots.size() - 1;
        size_t slot = (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15u >> 32) & last;
        while (slots[slot] != EMPTY && nodes[slots[slot]] != node)
            slot = (slot + 1) & last;
        return slot;
    }
    void grow() {
        slots.assign(std::max<size_t>(1024, 2 * slots.size()), EMPTY);
        for (size_t i = 0; i < nodes.size(); ++i)
            slots[place(nodes[i])] = static_cast<uint32_t>(i);
    }
    std::vector<uint32_t> slots;
};

struct Result {
    std::vector<int64_t> nodes;
    std::vector<float> scores;
};

struct Entries {
    const int64_t *nodes;
    const double *shares;
    size_t count;
};

// False if the graph is damaged.
template <class Edges>
bool step(const Edges &graph, const Entries &entries, double restart, const Bounds &bounds, const Sparse &now,
          Sparse &next) {
    next.clear();
    double dangling = 0.0;
    for (size_t i = 0; i < now.nodes.size(); ++i) {
        const int32_t node = now.nodes[i];
        const int64_t degree = graph.degree(node);
        if (degree < 0)
            return false;
        if (!(now.mass[i] >= bounds.per_edge * degree))
            continue;
        const double mass = (1.0 - restart) * now.mass[i];
        if (degree == 0)
            dangling += mass;
        if (!graph.pass(node, mass, [&](int32_t target, double part) { next.at(target) += part; }))
            return false;
    }
    for (size_t i = 0; i < entries.count; ++i)
        next.at(static_cast<int32_t>(entries.nodes[i])) += (restart + dangling) * entries.shares[i];
    return true;
}

double change(const Sparse &now, const Sparse &next) {
    double total = 0.0;
    for (size_t i = 0; i < next.nodes.size(); ++i)
        total += std::abs(next.mass[i] - now.get(next.nodes[i]));
    for (size_t i = 0; i < now.nodes.size(); ++i)
        if (next.get(now.nodes[i]) == 0.0)
            total += now.mass[i];
    return total;
}

template <class Edges>
bool walk(const Edges &graph, const Entries &entries, double restart, const Bounds &bounds, Result &result) {
    thread_local Sparse now, next;
    now.clear();
    for (size_t i = 0; i < entries.count; ++i)
        now.at(static_cast<int32_t>(entries.nodes[i])) += entries.shares[i];
    for (int64_t done = 0; done < bounds.steps; ++done) {
        if (!step(graph, entries, restart, bounds, now, next))
            return false;
        const bool converged = bounds.tolerance > 0.0 && change(now, next) <= bounds.tolerance;
        now.swap(next);
        if (converged)
            break;
    }
    result.nodes.assign(now.nodes.begin(), now.nodes.end());
    result.scores.assign(now.mass.begin(), now.mass.end());
    return true;
}

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

void check(const Graph &graph, size_t offsets, size_t weights, const Nodes &starts, const Nodes &entries,
           size_t shares) {
    if (offsets != graph.nodes + 1 || weights != graph.edges)
        throw std::invalid_argument("the arrays of the transition matrix do not fit each other");
    for (size_t i = 0; i + 1 < starts.shape(0); ++i)
        if (starts.data()[i] < 0 || starts.data()[i] > starts.data()[i + 1])
            throw std::invalid_argument("the starts of entries must ascend from 0");
    if (starts.shape(0) == 0 || shares != entries.shape(0) ||
        static_cast<size_t>(starts.data()[starts.shape(0) - 1]) > shares)
        throw std::invalid_argument("entries and their shares do not fit each other");
    for (size_t i = 0; i < entries.shape(0); ++i)
        if (entries.data()[i] < 0 || static_cast<size_t>(entries.data()[i]) >= graph.nodes)
            throw std::invalid_argument("an entry is not a node");
}

nb::list walks(Index offsets, Index targets, Weights weights, Nodes starts, Nodes entries,
               nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> shares, double restart,
               int64_t steps, double tolerance, double per_edge, int threads) {
    const size_t nodes = offsets.shape(0) ? offsets.shape(0) - 1 : 0;
    const Graph graph{offsets.data(), targets.data(), weights.data(), nodes, targets.shape(0)};
    check(graph, offsets.shape(0), weights.shape(0), starts, entries, shares.shape(0));
    const Bounds bounds{steps, tolerance, per_edge};
    const size_t count = starts.shape(0) - 1;
    std::vector<Result> results(count);
    std::atomic<bool> whole{true};
    {
        nb::gil_scoped_release release;
        std::atomic<size_t> waiting{0};
        share(std::min(static_cast<size_t>(std::max(threads, 1)), count), [&](size_t) {
            for (size_t i; whole && (i = waiting.fetch_add(1)) < count;) {
                const int64_t from = starts.data()[i], to = starts.data()[i + 1];
                const Entries own{entries.data() + from, shares.data() + from, static_cast<size_t>(to - from)};
                if (!walk(graph, own, restart, bounds, results[i]))
                    whole = false;
            }
        });
    }
    if (!whole)
        throw std::invalid_argument("the transition matrix is damaged: a row, a target or a weight is out of bounds");
    nb::list found;
    for (Result &result : results)
        found.append(nb::make_tuple(to_array(std::move(result.nodes)), to_array(std::move(result.scores))));
    return found;
}

using Part = std::tuple<Index, Index, Weights, Index>;

// Several graphs, each with its nodes' numbers in all of them.
Joined joined(const std::vector<Part> &parts, const Nodes &starts, const Index &owners, const Index &rows,
              const Weights &shares) {
    Joined graph{{}, {}, starts.data(), owners.data(), rows.data(), shares.data()};
    for (const auto &[offsets, targets, weights, numbers] : parts) {
        if (offsets.shape(0) != numbers.shape(0) + 1 || weights.shape(0) != targets.shape(0))
            throw std::invalid_argument("the arrays of the transition matrix do not fit each other");
        graph.graphs.push_back({offsets.data(), targets.data(), weights.data(), numbers.shape(0), targets.shape(0)});
        graph.numbers.push_back(numbers.data());
    }
    return graph;
}

nb::tuple joined_walk(std::vector<Part> parts, Nodes starts, Index owners, Index rows, Weights shares, Nodes entries,
                      nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> weights, double restart,
                      int64_t steps, double tolerance, double per_edge) {
    const Joined graph = joined(parts, starts, owners, rows, shares);
    const Entries own{entries.data(), weights.data(), entries.shape(0)};
    Result result;
    bool whole;
    {
        nb::gil_scoped_release release;
        whole = walk(graph, own, restart, Bounds{steps, tolerance, per_edge}, result);
    }
    if (!whole)
        throw std::invalid_argument("the transition matrix is damaged: a row, a target or a weight is out of bounds");
    return nb::make_tuple(to_array(std::move(result.nodes)), to_array(std::move(result.scores)));
}

}  // namespace

void bind_ppr(nb::module_ &module) {
    module.def("walks", &walks, "offsets"_a.noconvert(), "targets"_a.noconvert(), "weights"_a.noconvert(),
               "starts"_a.noconvert(), "entries"_a.noconvert(), "shares"_a.noconvert(), "restart"_a, "steps"_a,
               "tolerance"_a, "per_edge"_a, "threads"_a,
               "Nodes and scores of personalised PageRank for each slice of `entries`.");
    module.def("joined_walk", &joined_walk, "parts"_a, "starts"_a.noconvert(), "owners"_a.noconvert(),
               "rows"_a.noconvert(), "shares"_a.noconvert(), "entries"_a.noconvert(), "weights"_a.noconvert(),
               "restart"_a, "steps"_a, "tolerance"_a, "per_edge"_a,
               "Nodes and scores of personalised PageRank over several graphs with nodes in common.");
}
