// Search: Alg. 2 of paper 000 with ERRATA A5 and A8, over rounded vectors.

#include <cstring>
#include <numeric>

#include "_chnsw.hpp"

namespace chnsw {
namespace {

constexpr size_t PADDING = 64;          // elements, enough for every kernel
constexpr size_t MOST_CHILDREN = 64;    // entries that one node above gives at most
constexpr size_t FEW_ENTRIES = 8;       // with fewer, the layer's own pilots are asked
constexpr size_t MOST_POOLED = 16384;   // candidates kept in order while others come
constexpr size_t SPARED = 4;            // a pool of this part of a layer is not found without seeing most of it
constexpr float DEVIATIONS = 8.0F;      // of the rounding error, beyond which nothing is scored again

size_t padded(size_t length) { return (length + PADDING - 1) / PADDING * PADDING; }

// take(i) for every score of at least `bar`, which `take` may raise. Few are, so they are looked for a
// block at a time.
template <typename Take> void each_above(const float *scores, size_t count, const float &bar, Take take) {
    constexpr size_t BLOCK = 32;
    size_t from = 0;
    for (; from + BLOCK <= count; from += BLOCK) {
        const float least = bar;
        int any = 0;
        for (size_t i = 0; i < BLOCK; ++i)
            any |= scores[from + i] >= least;
        for (size_t i = from; any && i < from + BLOCK; ++i)
            if (scores[i] >= bar)
                take(i);
    }
    for (; from < count; ++from)
        if (scores[from] >= bar)
            take(from);
}

}  // namespace

void Index::prepare(const float *vector, Prepared &into) const {
    into.floats.assign(padded(dimension), 0.0F);
    std::memcpy(into.floats.data(), vector, dimension * sizeof(float));
    constexpr size_t LANES = 16;  // side by side, which compilers turn into wide instructions
    float largests[LANES] = {};
    double sums[LANES] = {};
    for (size_t i = 0; i < into.floats.size(); i += LANES)
        for (size_t j = 0; j < LANES; ++j) {
            const float value = into.floats[i + j], size = std::abs(value);
            largests[j] = size > largests[j] ? size : largests[j];
            sums[j] += static_cast<double>(value) * value;
        }
    const float largest = *std::max_element(largests, largests + LANES);
    into.squares = std::accumulate(sums, sums + LANES, 0.0);
    into.norm = static_cast<float>(std::sqrt(into.squares));
    into.exact = {into.floats.data(), 1.0F, 0};
    into.coded = into.exact;
    if (kind != Kind::int8)
        return;
    into.bytes.assign(padded(dimension), 0);
    // Below that, a scale would not be a normal number; such a query is as good as zero.
    const float scale = largest > 1e-30F ? largest / 127.0F : 1.0F, inverse = 1.0F / scale;
    constexpr float ROUNDER = 12582912.0F;  // 1.5 * 2^23, beside which a float has no fraction
    int32_t sum = 0;
    for (size_t i = 0; i < dimension; ++i) {
        const float wanted = vector[i] * inverse;
        const float value = wanted > 127.0F ? 127.0F : wanted > -127.0F ? wanted : -127.0F;
        const auto rounded = static_cast<int32_t>((value + ROUNDER) - ROUNDER);
        into.bytes[i] = static_cast<int8_t>(rounded);
        sum += rounded;
    }
    into.coded = {into.bytes.data(), scale, sum};
}

void Index::score(const Layer &layer, const Query &query, const int32_t *rows, size_t count, float *out) const {
    if (count == 0)
        return;
    many(query, layer.codes, rows, count, out);
    if (metric == Metric::l2)
        for (size_t i = 0; i < count; ++i)
            out[i] = 2.0F * out[i] - layer.norms[rows ? static_cast<size_t>(rows[i]) : i];
    for (size_t i = 0; i < count; ++i)  // a damaged file may hold NaN, which no order admits
        out[i] = out[i] > -FLT_MAX ? out[i] : -FLT_MAX;
}

void Index::promise(const Layer &layer, Scratch &scratch) const {
    const std::vector<int32_t> &fresh = scratch.fresh;
    scratch.bounds.resize(std::max(scratch.bounds.size(), fresh.size()));
    bound(scratch.asked, layer.sketches, fresh.data(), fresh.size(), rotation.words(), scratch.bounds.data());
    scratch.counters.sketched += static_cast<int64_t>(fresh.size());
    for (size_t i = 0; i < fresh.size(); ++i) {
        float &most = scratch.bounds[i];
        if (metric == Metric::l2)
            most = 2.0F * most - layer.norms[fresh[i]];
        most = most > -FLT_MAX ? most : -FLT_MAX;  // a damaged file may hold NaN, which no order admits
    }
}

void Index::beam(const Layer &layer, const Query &query, size_t ef, Scratch &scratch, const float *vector) const {
    Pool &pool = scratch.pool;
    std::vector<int32_t> &fresh = scratch.fresh;
    pool.reset(ef);
    size_t at = 0;
    const bool sketched = vector && layer.sketches.data;
    if (sketched)
        ask(rotation, vector, layer.sketches.centre, dimension, scratch.rotated, scratch.asked);
    const auto take = [&](const int32_t *rows, size_t count) {
        scratch.scores.resize(std::max(scratch.scores.size(), count));
        score(layer, query, rows, count, scratch.scores.data());
        scratch.counters.distances += static_cast<int64_t>(count);
        for (size_t i = 0; i < count; ++i)
            at = std::min(at, pool.insert({scratch.scores[i], static_cast<uint32_t>(rows[i])}));
    };
    for (;;) {
        size_t taken = 0;
        const size_t missing = pool.missing();
        if (sketched && fresh.size() > missing) {
            promise(layer, scratch);
            if (missing > 0) {  // those of the most promise first
                std::vector<Candidate> &order = scratch.order;
                order.clear();
                for (size_t i = 0; i < fresh.size(); ++i)
                    order.push_back({scratch.bounds[i], static_cast<uint32_t>(fresh[i])});
                std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(missing), order.end(), before);
                for (size_t i = 0; i < fresh.size(); ++i) {
                    fresh[i] = order[i].id();
                    scratch.bounds[i] = order[i].score;
                }
                take(fresh.data(), missing);
                taken = missing;
            }
            const float bar = pool.items.back().score;
            size_t kept = taken;
            for (size_t i = taken; i < fresh.size(); ++i)
                if (scratch.bounds[i] >= bar)
                    fresh[kept++] = fresh[i];
            fresh.resize(kept);
        }
        take(fresh.data() + taken, fresh.size() - taken);
        while (at < pool.items.size() && (pool.items[at].node & EXPANDED))
            ++at;
        if (at == pool.items.size())
            return;
        const int32_t node = pool.items[at].id();
        pool.items[at].node |= EXPANDED;
        ++scratch.counters.hops;
        fresh.clear();
        const int32_t *links = layer.links + static_cast<size_t>(node) * layer.width;
        for (size_t i = 0; i < layer.width && links[i] >= 0; ++i)
            if (scratch.mark(links[i]))
                fresh.push_back(links[i]);
#if defined(__GNUC__) || defined(__clang__)
        if (at + 1 < pool.items.size()) {  // most likely the next
            const int32_t *next = layer.links + static_cast<size_t>(pool.items[at + 1].id()) * layer.width;
            __builtin_prefetch(next);
            __builtin_prefetch(next + 16);
        }
#endif
    }
}

bool Index::exhaustive(const Layer &layer, size_t pool) const {
    return pool > MOST_POOLED || (!paper && SPARED * pool >= layer.count);
}

void Index::scan(const Layer &layer, const Prepared &query, size_t k, Scratch &scratch) const {
    const size_t kept = std::max(k, breadth);
    std::vector<float> &scores = scratch.scores;
    scores.resize(std::max(scores.size(), layer.count));
    score(layer, query.coded, nullptr, layer.count, scores.data());
    scratch.counters.distances += static_cast<int64_t>(layer.count);
    Pool &pool = scratch.pool;
    pool.reset(kept);
    if (exhaustive(layer, kept)) {  // sorting all costs less than keeping so many in order
        for (size_t i = 0; i < layer.count; ++i)
            if (layer.alive[i])
                pool.items.push_back({scores[i], static_cast<uint32_t>(i)});
        std::sort(pool.items.begin(), pool.items.end(), before);
        return;
    }
    float bar = -FLT_MAX;
    each_above(scores.data(), layer.count, bar, [&](size_t i) {
        if (!layer.alive[i])
            return;
        pool.insert({scores[i], static_cast<uint32_t>(i)});
        if (pool.items.size() == kept)
            bar = pool.items.back().score;
    });
    if (!layer.exact.data || kind == Kind::float32 || pool.items.size() < kept)
        return;
    const float close = pool.items[k - 1].score - error(layer, query);
    if (close >= bar)
        return;
    pool.items.clear();
    each_above(scores.data(), layer.count, close, [&](size_t i) {
        if (layer.alive[i])
            pool.items.push_back({scores[i], static_cast<uint32_t>(i)});
    });
    std::sort(pool.items.begin(), pool.items.end(), before);
}

// How far apart two scores must be for their order to be that of the exact ones. The errors of int8
// elements are independent, each within half a unit; those of float16 are bounded.
float Index::error(const Layer &layer, const Prepared &query) const {
    const float factor = metric == Metric::l2 ? 2.0F : 1.0F;
    if (kind == Kind::float16)
        return factor * query.norm * layer.max_norm / 1024.0F;
    const float stored = layer.max_scale * query.norm, asked = query.coded.scale * layer.max_norm;
    return factor * DEVIATIONS * std::sqrt((stored * stored + asked * asked) / 12.0F);
}

void Index::rerank(const Layer &layer, const Prepared &query, size_t k, Scratch &scratch) const {
    std::vector<Candidate> &items = scratch.pool.items;
    if (!layer.exact.data || kind == Kind::float32 || items.empty())
        return;
    const float close = items[std::min(k, items.size()) - 1].score - error(layer, query);
    std::vector<int32_t> &rows = scratch.fresh;
    rows.clear();
    for (size_t i = 0; i < items.size() && items[i].score >= close; ++i)
        rows.push_back(items[i].id());
    scratch.scores.resize(std::max(scratch.scores.size(), rows.size()));
    many_exact(query.exact, layer.exact, rows.data(), rows.size(), scratch.scores.data());
    scratch.counters.reranked += static_cast<int64_t>(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        float exact = scratch.scores[i];
        if (metric == Metric::l2)
            exact = 2.0F * exact - layer.norms[rows[i]];
        items[i] = {exact > -FLT_MAX ? exact : -FLT_MAX, static_cast<uint32_t>(rows[i])};
    }
    std::sort(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(rows.size()), before);
}

void Index::enter(size_t level, Scratch &scratch) const {
    const Layer &layer = layers[level];
    scratch.forget(layer.count);
    std::vector<int32_t> &fresh = scratch.fresh;
    fresh.clear();
    auto offer = [&](int32_t node) {
        if (layer.alive[node] && scratch.mark(node))
            fresh.push_back(node);
    };
    if (level + 1 < layers.size()) {
        const Layer &above = layers[level + 1];
        for (const Candidate &each : scratch.best) {
            const auto node = static_cast<size_t>(each.id());
            if (above.down[node] >= 0)
                offer(above.down[node]);
            if (paper)
                continue;
            const int64_t from = above.child_from[node], to = above.child_from[node + 1];
            const int64_t stride = (to - from) / static_cast<int64_t>(MOST_CHILDREN) + 1;
            for (int64_t i = from; i < to; i += stride)
                offer(above.children[i]);
        }
    }
    if (layer.pilot_count == 0)
        return;
    if (fresh.size() < (paper ? 1 : FEW_ENTRIES))
        for (size_t i = 0; i < (paper ? 1 : layer.pilot_count); ++i)
            offer(layer.pilots[i]);
    else if (!paper)
        offer(layer.pilots[0]);
}

void Index::add(const Counters &counters) { total.add(counters); }

}  // namespace chnsw
