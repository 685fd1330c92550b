// Personalised PageRank that touches only what the walk reaches. The numpy twin is in ppr.py.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Nodes = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Graph {
    const int32_t *offsets;
    const int32_t *targets;
    const float *weights;
    size_t nodes;
};

// A sparse vector over a dense one: values, and which of them are not 0 (all mass is positive). Cleared
// in the time it took to fill, so that one walk costs what it reaches and not what the graph holds.
class Sparse {
  public:
    void resize(size_t count) {
        if (values.size() != count) {
            values.assign(count, 0.0);
            touched.clear();
        }
    }
    void add(int32_t node, double mass) {
        double &value = values[node];
        if (value == 0.0)
            touched.push_back(node);
        value += mass;
    }
    void clear() {
        for (int32_t node : touched)
            values[node] = 0.0;
        touched.clear();
    }
    std::vector<double> values;
    std::vector<int32_t> touched;
};

struct Result {
    std::vector<int64_t> nodes;
    std::vector<float> scores;
};

void step(const Graph &graph, const int64_t *entries, const double *shares, size_t count, double restart,
          const Sparse &now, Sparse &next) {
    next.clear();
    double dangling = 0.0;
    for (int32_t node : now.touched) {
        const double mass = (1.0 - restart) * now.values[node];
        const int32_t from = graph.offsets[node], to = graph.offsets[node + 1];
        if (from == to)
            dangling += mass;
        for (int32_t edge = from; edge < to; ++edge)
            next.add(graph.targets[edge], mass * graph.weights[edge]);
    }
    for (size_t i = 0; i < count; ++i)
        next.add(static_cast<int32_t>(entries[i]), (restart + dangling) * shares[i]);
}

double change(const Sparse &now, const Sparse &next) {
    double total = 0.0;
    for (int32_t node : next.touched)
        total += std::abs(next.values[node] - now.values[node]);
    for (int32_t node : now.touched)
        if (next.values[node] == 0.0)
            total += now.values[node];
    return total;
}

Result walk(const Graph &graph, const int64_t *entries, const double *shares, size_t count, double restart,
            int64_t steps, double tolerance) {
    thread_local Sparse now, next;
    now.resize(graph.nodes);
    next.resize(graph.nodes);
    now.clear();
    for (size_t i = 0; i < count; ++i)
        now.add(static_cast<int32_t>(entries[i]), shares[i]);
    for (int64_t done = 0; done < steps; ++done) {
        step(graph, entries, shares, count, restart, now, next);
        const bool converged = tolerance > 0.0 && change(now, next) <= tolerance;
        std::swap(now.values, next.values);
        std::swap(now.touched, next.touched);
        if (converged)
            break;
    }
    Result result;
    result.nodes.assign(now.touched.begin(), now.touched.end());
    result.scores.reserve(now.touched.size());
    for (int32_t node : now.touched)
        result.scores.push_back(static_cast<float>(now.values[node]));
    return result;
}

template <typename T> nb::object to_array(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *pointer) noexcept { delete static_cast<std::vector<T> *>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// The arrays were checked by ppr.py: offsets ascend, targets and entries are nodes, shares sum to 1.
nb::list walks(Index offsets, Index targets, Weights weights, Nodes starts, Nodes entries,
               nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> shares, double restart,
               int64_t steps, double tolerance, int threads) {
    const Graph graph{offsets.data(), targets.data(), weights.data(), offsets.shape(0) - 1};
    const size_t count = starts.shape(0) - 1;
    std::vector<Result> results(count);
    {
        nb::gil_scoped_release release;
        std::atomic<size_t> waiting{0};
        auto work = [&] {
            for (size_t i; (i = waiting.fetch_add(1)) < count;) {
                const int64_t from = starts.data()[i], to = starts.data()[i + 1];
                results[i] = walk(graph, entries.data() + from, shares.data() + from,
                                  static_cast<size_t>(to - from), restart, steps, tolerance);
            }
        };
        const size_t others = std::min(static_cast<size_t>(std::max(threads, 1)), count);
        std::vector<std::thread> pool;
        for (size_t i = 1; i < others; ++i)
            pool.emplace_back(work);
        work();
        for (std::thread &thread : pool)
            thread.join();
    }
    nb::list found;
    for (Result &result : results)
        found.append(nb::make_tuple(to_array(std::move(result.nodes)), to_array(std::move(result.scores))));
    return found;
}

}  // namespace

void bind_ppr(nb::module_ &module) {
    module.def("walks", &walks, "offsets"_a.noconvert(), "targets"_a.noconvert(), "weights"_a.noconvert(),
               "starts"_a.noconvert(), "entries"_a.noconvert(), "shares"_a.noconvert(), "restart"_a, "steps"_a,
               "tolerance"_a, "threads"_a,
               "Nodes and scores of personalised PageRank for each slice of `entries`.");
}
