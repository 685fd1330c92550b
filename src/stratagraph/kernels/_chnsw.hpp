// The hierarchy of layers as C-HNSW searches it. All arrays belong to the caller (chnsw.py); see there for
// what they hold. Methods do no locking: the binding takes the lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "_chnsw_simd.hpp"
#include "_threads.hpp"

namespace chnsw {

struct Layer {
    Codes codes;
    Codes exact;  // the float32 vectors; no data where they were given up
    int32_t *links = nullptr;  // (count, width), ended by -1
    size_t width = 0;
    int32_t *down = nullptr;             // nearest node of the layer below, or -1
    const int64_t *child_from = nullptr;  // children of node i: children[child_from[i] .. child_from[i + 1])
    const int32_t *children = nullptr;
    const uint8_t *alive = nullptr;
    const int32_t *ids = nullptr;  // what callers call each node
    const int32_t *pilots = nullptr;  // entries of last resort; all else is reachable from the first
    size_t pilot_count = 0;
    size_t count = 0;
    float max_scale = 0.0F, max_norm = 0.0F;
    bool scanned = false;
};

constexpr uint32_t EXPANDED = 0x80000000U;

struct Candidate {
    float score;
    uint32_t node;  // with EXPANDED once its links were followed
    int32_t id() const { return static_cast<int32_t>(node & ~EXPANDED); }
};

// An object, not a function, so that sorting inlines it; of bits, not of branches.
struct Before {
    bool operator()(const Candidate &a, const Candidate &b) const {
        return (a.score > b.score) | ((a.score == b.score) & (a.id() < b.id()));
    }
};
inline constexpr Before before{};

struct Counters {
    int64_t queries = 0, distances = 0, reranked = 0, hops = 0;

    void add(const Counters &other) {
        queries += other.queries;
        distances += other.distances;
        reranked += other.reranked;
        hops += other.hops;
    }
};

// The best `capacity` candidates so far, the best first.
class Pool {
  public:
    void reset(size_t capacity) {
        limit = std::max<size_t>(capacity, 1);
        items.clear();
    }
    // Where the candidate was put, or size() if it is not among the best.
    size_t insert(Candidate candidate) {
        if (items.size() == limit) {
            if (!before(candidate, items.back()))
                return items.size();
            items.pop_back();
        }
        const size_t at = place(candidate);
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), candidate);
        return at;
    }
    // How many more it takes before one has to go.
    size_t missing() const { return limit - items.size(); }
    std::vector<Candidate> items;

  private:
    // How many come before it; without a branch, which nobody could foretell.
    size_t place(const Candidate &candidate) const {
        const Candidate *from = items.data();
        size_t left = items.size();
        for (; left > 1; left -= left / 2)
            from += before(from[left / 2 - 1], candidate) ? left / 2 : 0;
        return static_cast<size_t>(from - items.data()) + (left && before(*from, candidate) ? 1 : 0);
    }
    size_t limit = 1;
};

// What one search needs while it runs.
struct Scratch {
    Pool pool;
    std::vector<Candidate> best;    // of the layer above
    std::vector<int32_t> entries;   // that they lead to
    std::vector<int32_t> fresh;     // rows to be scored
    std::vector<float> scores;
    Counters counters;

    // What the next call of Index::step does; the call before has asked for the memory that it reads.
    enum class Next { score, expand };
    Next next = Next::score;
    Query query;
    size_t at = 0;   // all in the pool before this were expanded
    size_t nearest = 0;  // results asked for, by which the search ends; 0: it ends with the pool
    // Distances are highest - score; what is farther than the last result by `share` of its distance does not
    // matter, nor what is farther by `rounding`, within which the order is not known.
    float highest = 0.0F, share = 0.0F, rounding = 0.0F;

    void forget(size_t nodes) {
        for (size_t i = 0; i < marked.size(); ++i)
            seen[static_cast<size_t>(marked[i]) / 64] = 0;
        marked.clear();
        if (seen.size() * 64 < nodes)
            seen.resize(nodes / 64 + 1, 0);
    }
    // Puts those of the rows that were not seen before into `fresh`.
    void meet(const int32_t *rows, size_t count) {
        const size_t before = marked.size();
        marked.resize(before + count);
        size_t size = before;
        for (size_t i = 0; i < count; ++i) {  // without a branch, which nobody could foretell
            const auto row = static_cast<size_t>(rows[i]);
            uint64_t &word = seen[row / 64];
            marked[size] = rows[i];
            size += (word >> (row % 64) & 1U) ^ 1U;
            word |= uint64_t{1} << (row % 64);
        }
        marked.resize(size);
        fresh.insert(fresh.end(), marked.begin() + static_cast<std::ptrdiff_t>(before), marked.end());
    }

  private:
    std::vector<uint64_t> seen;  // a bit for each row
    std::vector<int32_t> marked;
};

// A query in float32 and in the form of the codes, both padded with zeros.
struct Prepared {
    std::vector<float> floats;
    std::vector<int8_t> bytes;
    Query exact, coded;
    float norm = 0.0F;  // its length
    double squares = 0.0;
};

constexpr size_t MOST_POOLED = 16384;  // candidates kept in order while others come

// Searches that one thread has under way at once: while the memory that one needs is on its way, the others
// go on. Eight take as long over int8 codes, and up to 8 % longer over float32 (90,000 vectors of 384, Zen 4):
// what more of them ask for does not fit into the nearest cache.
constexpr size_t LANES = 4;

struct Lane {
    Prepared query;
    Scratch scratch;
    size_t number = 0, level = 0;
    bool searching = false;  // or to be ranked by exact scores
};

class Index {
  public:
    explicit Index(size_t dimension) : dimension(dimension) {}

    Kind kind = Kind::int8;
    Many many = nullptr, many_exact = nullptr;
    bool summed = false;  // whether `many` asks for a query's sum
    const size_t dimension;
    size_t breadth = 10;  // nodes of a layer whose links and children lead into the next
    bool paper = false;   // entries are one inter-layer link; nothing is scanned
    std::vector<Layer> layers;

    void prepare(const float *vector, Prepared &into) const;
    // A stored row as a query.
    Query stored(const Layer &layer, int32_t row) const;
    void score(const Layer &layer, const Query &query, const int32_t *rows, size_t count, float *out) const;

    // Best-first search from the rows in scratch.fresh, which were met already; leaves scratch.pool.
    void beam(const Layer &layer, const Query &query, size_t ef, Scratch &scratch) const;
    // The same in steps, for several searches in turn.
    void begin(const Layer &layer, const Query &query, size_t ef, Scratch &scratch) const;
    // The same for the best k: easy queries end sooner than the pool, hard ones take a larger one.
    void begin(const Layer &layer, const Prepared &query, size_t k, size_t ef, Scratch &scratch) const;
    bool step(const Layer &layer, Scratch &scratch) const;  // false when nothing is left
    void finish(const Layer &layer, Lane *lanes, size_t count) const;
    void scan(const Layer &layer, const Prepared &query, size_t k, Scratch &scratch) const;
    // Whether a pool is so large that a scan finds it sooner.
    bool exhaustive(const Layer &layer, size_t pool) const;
    // What rounding may have kept out of the best k, into scratch.fresh; and scoring it again in float32.
    void doubtful(const Layer &layer, const Prepared &query, size_t k, Scratch &scratch) const;
    void rerank(const Layer &layer, const Prepared &query, Scratch &scratch) const;
    void enter(size_t layer, Scratch &scratch) const;
    // From the top layer down to `lowest`, for `count` queries, of which LANES are under way at once: `load(lane)`
    // prepares that of lane.number, and `visit(lane)` sees the pool of lane.level.
    template <typename Load, typename Visit>
    void descend(Lane *lanes, size_t count, size_t k, const int32_t *ef, size_t lowest, Load load, Visit visit) const;

    // Links rows (not linked before, no two alike) into a layer, a batch at a time.
    void insert(size_t layer, const int32_t *rows, size_t count, size_t links, size_t ef, int threads);
    void remove(size_t layer, const int32_t *rows, size_t count, size_t links, int threads);
    // Makes every living node reachable from the first pilot; returns the number of links set.
    size_t repair(size_t layer);
    // The nearest node below of each of `rows`.
    void link_down(size_t layer, const int32_t *rows, size_t count, size_t ef, int threads);
    // The k nearest others of every node, found from its own links.
    void neighbours(size_t layer, size_t k, size_t ef, int threads, int32_t *rows, float *scores);

    // Searches of several threads may add at once, while another asks for the sum.
    void add(const Counters &counters);
    Counters total() const;

  private:
    std::vector<int32_t> select(const Layer &layer, const std::vector<Candidate> &candidates, int32_t of,
                                size_t limit, Counters &counters) const;
    void bridge(const Layer &layer, int32_t node, const std::vector<uint8_t> &gone, size_t most,
                Scratch &scratch) const;
    // Begins the search of the layer below lane.level.
    void sink(Lane &lane, size_t k, const int32_t *ef) const;
    // Scores scratch.fresh and puts what is good enough into the pool.
    void take(const Layer &layer, Scratch &scratch) const;
    void link_back(Layer &layer, std::vector<std::pair<int32_t, int32_t>> &pairs, size_t links, int threads);
    void insert_as_printed(size_t layer, const int32_t *rows, size_t count, size_t links, size_t ef);
    float error(const Layer &layer, const Prepared &query) const;
    void rescore(const Layer &layer, int32_t of, std::vector<Candidate> &into, Counters &counters) const;

    Counters spent;
    mutable std::mutex counting;
};

inline size_t links_of(const Layer &layer, int32_t node) {
    const int32_t *row = layer.links + static_cast<size_t>(node) * layer.width;
    size_t count = 0;
    while (count < layer.width && row[count] >= 0)
        ++count;
    return count;
}

template <typename Load, typename Visit>
void Index::descend(Lane *lanes, size_t count, size_t k, const int32_t *ef, size_t lowest, Load load,
                    Visit visit) const {
    Lane *running[LANES];
    size_t used = std::min(count, LANES), next = 0;
    const auto take_next = [&](Lane &lane) {
        if (next == count)
            return false;
        lane.number = next++;
        lane.level = layers.size();
        lane.scratch.best.clear();
        load(lane);
        return true;
    };
    for (size_t i = 0; i < used; ++i) {
        running[i] = lanes + i;
        take_next(lanes[i]);
        sink(lanes[i], k, ef);
    }
    while (used > 0)
        for (size_t i = 0; i < used;) {
            Lane &lane = *running[i];
            if (lane.searching) {
                lane.searching = step(layers[lane.level], lane.scratch);
                if (!lane.searching)
                    doubtful(layers[lane.level], lane.query, k, lane.scratch);
                ++i;
                continue;
            }
            rerank(layers[lane.level], lane.query, lane.scratch);
            const std::vector<Candidate> &found = lane.scratch.pool.items;
            lane.scratch.best.assign(found.begin(), found.begin() + std::min(found.size(), paper ? 1 : breadth));
            visit(lane);
            if (lane.level > lowest || take_next(lane)) {
                sink(lane, k, ef);
                ++i;
            } else {
                running[i] = running[--used];
            }
        }
}

// Runs work(i, scratch) for every i; which thread does which i must not matter.
template <typename Work> Counters in_parallel(size_t count, int threads, Work work) {
    const size_t workers = std::max<size_t>(1, std::min<size_t>(static_cast<size_t>(std::max(threads, 1)), count));
    std::atomic<size_t> waiting{0};
    const size_t step = std::max<size_t>(1, std::min<size_t>(64, count / (workers * 4)));
    std::vector<Counters> counters(workers);
    share(workers, [&](size_t worker) {
        thread_local Scratch scratch;
        scratch.counters = {};
        for (size_t from; (from = waiting.fetch_add(step)) < count;)
            for (size_t i = from; i < std::min(count, from + step); ++i)
                work(i, scratch);
        counters[worker] = scratch.counters;
    });
    Counters sum;
    for (const Counters &each : counters)
        sum.add(each);
    return sum;
}

}  // namespace chnsw
