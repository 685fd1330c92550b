// Search: Alg. 2 of paper 000 with ERRATA A5 and A8, over rounded vectors.

#include <cstring>
#include <numeric>

#include "_chnsw.hpp"

namespace chnsw {
namespace {

constexpr size_t PADDING = 64;          // elements, enough for every kernel
constexpr size_t MOST_CHILDREN = 64;    // entries that one node above gives at most
constexpr size_t FEW_ENTRIES = 8;       // with fewer, the layer's own pilots are asked
constexpr size_t SPARED = 4;            // a pool of this part of a layer is not found without seeing most of it
constexpr float DEVIATIONS = 8.0F;      // of the rounding error, beyond which nothing is scored again
constexpr size_t WIDER = 4;             // the pool grows to so many times what `ef` has above k
constexpr float FARTHER = 0.05F;        // of squared distances, for each doubling of `ef` above k

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

// A score below the bar is not worth following: it would not enter the pool, or it is too far from the results to
// lead to better ones.
float bar(const Scratch &scratch) {
    const std::vector<Candidate> &items = scratch.pool.items;
    float least = scratch.pool.missing() ? -FLT_MAX : items.back().score;
    if (scratch.nearest && items.size() >= scratch.nearest) {
        const float last = items[scratch.nearest - 1].score;
        least = std::max(least, last - std::max(scratch.share * (scratch.highest - last), scratch.rounding));
    }
    return least;
}

// A score below the threshold need not enter the pool: it is below the bar, and not among the `breadth` best, which
// lead into the next layer.
float threshold(const Scratch &scratch, size_t breadth) {
    const std::vector<Candidate> &items = scratch.pool.items;
    const size_t best = std::min(breadth, items.size() + scratch.pool.missing());
    return items.size() < best ? -FLT_MAX : std::min(bar(scratch), items[best - 1].score);
}

}  // namespace

void Index::prepare(const float *vector, Prepared &into) const {
    into.floats.assign(padded(dimension), 0.0F);
    std::memcpy(into.floats.data(), vector, dimension * sizeof(float));
    constexpr size_t WIDE = 16;  // side by side, which compilers turn into wide instructions
    float largests[WIDE] = {};
    double sums[WIDE] = {};
    for (size_t i = 0; i < into.floats.size(); i += WIDE)
        for (size_t j = 0; j < WIDE; ++j) {
            const float value = into.floats[i + j], size = std::abs(value);
            largests[j] = size > largests[j] ? size : largests[j];
            sums[j] += static_cast<double>(value) * value;
        }
    const float largest = *std::max_element(largests, largests + WIDE);
    into.squares = std::accumulate(sums, sums + WIDE, 0.0);
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
    for (size_t i = 0; i < count; ++i)  // a damaged file may hold NaN, which no order admits
        out[i] = out[i] > -FLT_MAX ? out[i] : -FLT_MAX;
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
// elements are independent, each within half a unit.
float Index::error(const Layer &layer, const Prepared &query) const {
    if (kind == Kind::float32)
        return query.norm * layer.max_norm * FLT_EPSILON;
    const float stored = layer.max_scale * query.norm, asked = query.coded.scale * layer.max_norm;
    return DEVIATIONS * std::sqrt((stored * stored + asked * asked) / 12.0F);
}

void Index::doubtful(const Layer &layer, const Prepared &query, size_t k, Scratch &scratch) const {
    const std::vector<Candidate> &items = scratch.pool.items;
    std::vector<int32_t> &rows = scratch.fresh;
    rows.clear();
    if (!layer.exact.data || kind == Kind::float32 || items.empty())
        return;
    const float close = items[std::min(k, items.size()) - 1].score - error(layer, query);
    for (size_t i = 0; i < items.size() && items[i].score >= close; ++i)
        rows.push_back(items[i].id());
    fetch(layer.exact, rows.data(), rows.size());
}

void Index::rerank(const Layer &layer, const Prepared &query, Scratch &scratch) const {
    std::vector<Candidate> &items = scratch.pool.items;
    const std::vector<int32_t> &rows = scratch.fresh;
    if (rows.empty())
        return;
    scratch.scores.resize(std::max(scratch.scores.size(), rows.size()));
    many_exact(query.exact, layer.exact, rows.data(), rows.size(), scratch.scores.data());
    scratch.counters.reranked += static_cast<int64_t>(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        const float exact = scratch.scores[i];
        items[i] = {exact > -FLT_MAX ? exact : -FLT_MAX, static_cast<uint32_t>(rows[i])};
    }
    std::sort(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(rows.size()), before);
}

void Index::enter(size_t level, Scratch &scratch) const {
    const Layer &layer = layers[level];
    scratch.forget(layer.count);
    scratch.fresh.clear();
    std::vector<int32_t> &entries = scratch.entries;
    entries.clear();
    const auto offer = [&](int32_t row) {
        if (layer.alive[row])
            entries.push_back(row);
    };
    if (level + 1 < layers.size()) {
        const Layer &above = layers[level + 1];
        for (const Candidate &each : scratch.best) {
            fetch(above.child_from + each.id(), 2 * sizeof(int64_t));
            fetch(above.down + each.id(), sizeof(int32_t));
        }
        for (const Candidate &each : scratch.best)
            fetch(above.children + above.child_from[each.id()], 1);
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
        scratch.meet(entries.data(), entries.size());
    }
    const bool few = scratch.fresh.size() < (paper ? 1 : FEW_ENTRIES);
    if (few || !paper)
        scratch.meet(layer.pilots, std::min<size_t>(layer.pilot_count, few && !paper ? layer.pilot_count : 1));
}

void Index::sink(Lane &lane, size_t k, const int32_t *ef) const {
    const Layer &layer = layers[--lane.level];
    const auto pool = static_cast<size_t>(ef[lane.level]);
    lane.searching = !layer.scanned && !exhaustive(layer, pool);
    if (lane.searching) {
        enter(lane.level, lane.scratch);
        begin(layer, lane.query, k, pool, lane.scratch);
        return;
    }
    scan(layer, lane.query, k, lane.scratch);
    doubtful(layer, lane.query, k, lane.scratch);
}

void Index::begin(const Layer &layer, const Query &query, size_t ef, Scratch &scratch) const {
    scratch.pool.reset(ef);
    scratch.at = 0;
    scratch.nearest = 0;
    scratch.query = query;
    fetch(layer.codes, scratch.fresh.data(), scratch.fresh.size());
    scratch.next = Scratch::Next::score;
}

// Distance-adaptive beam search (Al-Jazzazi et al., 2025), with the distances of vectors that are all as long as the
// longest one.
void Index::begin(const Layer &layer, const Prepared &query, size_t k, size_t ef, Scratch &scratch) const {
    if (paper || ef <= k)
        return begin(layer, query.coded, ef, scratch);
    const size_t most = std::max(ef, std::min(layer.count, MOST_POOLED));
    begin(layer, query.coded, std::min(k + WIDER * (ef - k), most), scratch);
    scratch.nearest = k;
    scratch.share = FARTHER * std::log2(static_cast<float>(ef) / static_cast<float>(k));
    scratch.rounding = error(layer, query);
    scratch.highest = query.norm * layer.max_norm;
}

void Index::take(const Layer &layer, Scratch &scratch) const {
    const std::vector<int32_t> &fresh = scratch.fresh;
    scratch.scores.resize(std::max(scratch.scores.size(), fresh.size()));
    score(layer, scratch.query, fresh.data(), fresh.size(), scratch.scores.data());
    scratch.counters.distances += static_cast<int64_t>(fresh.size());
    float least = threshold(scratch, breadth);
    for (size_t i = 0; i < fresh.size(); ++i) {
        if (scratch.scores[i] < least)
            continue;
        const Candidate candidate{scratch.scores[i], static_cast<uint32_t>(fresh[i])};
        scratch.at = std::min(scratch.at, scratch.pool.insert(candidate));
        least = threshold(scratch, breadth);
    }
}

// Each step asks for the memory that the next one reads; other searches take their steps in between.
bool Index::step(const Layer &layer, Scratch &scratch) const {
    std::vector<Candidate> &items = scratch.pool.items;
    const auto links = [&](size_t i) { return layer.links + static_cast<size_t>(items[i].id()) * layer.width; };
    if (scratch.next == Scratch::Next::score) {
        take(layer, scratch);
        while (scratch.at < items.size() && (items[scratch.at].node & EXPANDED))
            ++scratch.at;
        if (scratch.at == items.size() || items[scratch.at].score < bar(scratch))
            return false;
        fetch(links(scratch.at), layer.width * sizeof(int32_t));
        if (scratch.at + 1 < items.size())  // most likely the next
            fetch(links(scratch.at + 1), layer.width * sizeof(int32_t));
        scratch.next = Scratch::Next::expand;
        return true;
    }
    items[scratch.at].node |= EXPANDED;
    ++scratch.counters.hops;
    scratch.fresh.clear();
    scratch.meet(links(scratch.at), links_of(layer, items[scratch.at].id()));
    fetch(layer.codes, scratch.fresh.data(), scratch.fresh.size());
    scratch.next = Scratch::Next::score;
    return true;
}

void Index::finish(const Layer &layer, Lane *lanes, size_t count) const {
    Lane *running[LANES];
    for (size_t i = 0; i < count; ++i)
        running[i] = lanes + i;
    while (count > 0)
        for (size_t i = 0; i < count;)
            if (step(layer, running[i]->scratch))
                ++i;
            else
                running[i] = running[--count];
}

void Index::beam(const Layer &layer, const Query &query, size_t ef, Scratch &scratch) const {
    begin(layer, query, ef, scratch);
    while (step(layer, scratch)) {
    }
}

void Index::add(const Counters &counters) {
    std::lock_guard guard(counting);
    spent.add(counters);
}

Counters Index::total() const {
    std::lock_guard guard(counting);
    return spent;
}

}  // namespace chnsw
