// Best-first search in steps. Each step asks for the memory that the next one reads, and other searches take
// their steps in between.

#include <functional>

#include "_chnsw.hpp"

namespace chnsw {
namespace {

constexpr size_t WIDER = 4;     // the pool grows to so many times what `ef` has above k
constexpr float FARTHER = 0.05F;  // of squared distances, for each doubling of `ef` above k

// What is worse is not worth looking at: it would not enter the pool, or is too far away, beside the results, to lead
// to better ones.
float bar(const Scratch &scratch) {
    const std::vector<Candidate> &items = scratch.pool.items;
    float least = scratch.pool.missing() ? -FLT_MAX : items.back().score;
    if (scratch.nearest && items.size() >= scratch.nearest) {
        const float last = items[scratch.nearest - 1].score;
        least = std::max(least, last - std::max(scratch.share * (scratch.origin - last), scratch.rounding));
    }
    return least;
}

// What is worse need not enter the pool: it is not worth looking at, nor among the best, which lead into the next layer.
float threshold(const Scratch &scratch, size_t breadth) {
    const std::vector<Candidate> &items = scratch.pool.items;
    const size_t best = std::min(breadth, items.size() + scratch.pool.missing());
    return items.size() < best ? -FLT_MAX : std::min(bar(scratch), items[best - 1].score);
}

// How many are scored whatever their bounds are, since the pool has room.
size_t unsifted(const Scratch &scratch, size_t breadth) {
    const size_t have = scratch.pool.items.size(), room = scratch.pool.missing();
    const size_t wanted = scratch.nearest ? std::max(scratch.nearest, breadth) : have + room;
    return have < wanted ? std::min(room, wanted - have) : 0;
}

}  // namespace

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

void Index::begin(const Layer &layer, const Query &query, size_t ef, Scratch &scratch,
                  const std::vector<float> *rotated) const {
    scratch.pool.reset(ef);
    scratch.at = 0;
    scratch.nearest = 0;
    scratch.query = query;
    scratch.sketched = rotated && layer.sketches.data;
    if (scratch.sketched)
        ask(*rotated, layer.sketches.centre, scratch.residual, scratch.asked);
    await(layer, scratch);
}

// After distance-adaptive beam search (Al-Jazzazi et al., 2025), with the distance that goes with the metric. For
// inner products it is that of vectors of the longest one's length.
void Index::begin(const Layer &layer, const Prepared &query, size_t k, size_t ef, Scratch &scratch) const {
    if (paper || ef <= k)
        return begin(layer, query.coded, ef, scratch, &query.rotated);
    const size_t most = std::max(ef, std::min(layer.count, MOST_POOLED));
    begin(layer, query.coded, std::min(k + WIDER * (ef - k), most), scratch, &query.rotated);
    scratch.nearest = k;
    scratch.share = FARTHER * std::log2(static_cast<float>(ef) / static_cast<float>(k));
    scratch.rounding = error(layer, query);
    scratch.origin = metric == Metric::l2 ? static_cast<float>(query.squares) : query.norm * layer.max_norm;
}

void Index::await(const Layer &layer, Scratch &scratch) const {
    const std::vector<int32_t> &fresh = scratch.fresh;
    if (scratch.sketched && fresh.size() > unsifted(scratch, breadth)) {
        for (int32_t row : fresh)
            fetch(layer.sketches.data + static_cast<size_t>(row) * layer.sketches.stride, layer.sketches.stride);
        scratch.next = Scratch::Next::bound;
        return;
    }
    scratch.due = fresh.size();
    fetch(layer.codes, fresh.data(), fresh.size());
    scratch.next = Scratch::Next::score;
}

namespace {

// Leaves of scratch.fresh what may be above the bar.
void sift(Scratch &scratch) {
    const float least = bar(scratch);
    size_t kept = 0;
    for (size_t i = 0; i < scratch.fresh.size(); ++i)
        if (scratch.bounds[i] >= least) {
            scratch.bounds[kept] = scratch.bounds[i];
            scratch.fresh[kept++] = scratch.fresh[i];
        }
    scratch.fresh.resize(kept);
    scratch.due = kept;
}

// Puts what promises most first.
void rank(Scratch &scratch, size_t most) {
    std::vector<float> &bounds = scratch.bounds, &order = scratch.scores;
    const size_t size = scratch.fresh.size();
    scratch.due = most;
    order.assign(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(size));
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(scratch.due) - 1;
    std::nth_element(order.begin(), last, order.end(), std::greater<>());
    const float bar = *last;
    size_t front = 0;
    const auto bring = [&](size_t i) {
        std::swap(bounds[i], bounds[front]);
        std::swap(scratch.fresh[i], scratch.fresh[front++]);
    };
    for (size_t i = 0; i < size; ++i)
        if (bounds[i] > bar)
            bring(i);
    for (size_t i = front; front < scratch.due; ++i)
        if (bounds[i] == bar)
            bring(i);
}

}  // namespace

void Index::choose(const Layer &layer, Scratch &scratch) const {
    const std::vector<Candidate> &items = scratch.pool.items;
    const auto links = [&](size_t i) { return layer.links + static_cast<size_t>(items[i].id()) * layer.width; };
    fetch(links(scratch.at), layer.width * sizeof(int32_t));
    if (scratch.at + 1 < items.size())  // most likely the next
        fetch(links(scratch.at + 1), layer.width * sizeof(int32_t));
    scratch.next = Scratch::Next::expand;
}

void Index::take(const Layer &layer, Scratch &scratch) const {
    const size_t due = scratch.due;
    scratch.scores.resize(std::max(scratch.scores.size(), due));
    score(layer, scratch.query, scratch.fresh.data(), due, scratch.scores.data());
    scratch.counters.distances += static_cast<int64_t>(due);
    float least = threshold(scratch, breadth);
    for (size_t i = 0; i < due; ++i) {
        if (scratch.scores[i] < least)
            continue;
        scratch.at = std::min(scratch.at,
                              scratch.pool.insert({scratch.scores[i], static_cast<uint32_t>(scratch.fresh[i])}));
        least = threshold(scratch, breadth);
    }
    scratch.fresh.erase(scratch.fresh.begin(), scratch.fresh.begin() + static_cast<std::ptrdiff_t>(due));
    if (scratch.fresh.empty())
        return;
    scratch.bounds.erase(scratch.bounds.begin(), scratch.bounds.begin() + static_cast<std::ptrdiff_t>(due));
    sift(scratch);
    fetch(layer.codes, scratch.fresh.data(), scratch.due);
}

bool Index::step(const Layer &layer, Scratch &scratch) const {
    std::vector<Candidate> &items = scratch.pool.items;
    std::vector<int32_t> &fresh = scratch.fresh;
    switch (scratch.next) {
    case Scratch::Next::bound:
        promise(layer, scratch);
        sift(scratch);
        if (const size_t first = unsifted(scratch, breadth); first && fresh.size() > first)
            rank(scratch, first);
        fetch(layer.codes, fresh.data(), scratch.due);
        scratch.next = Scratch::Next::score;
        if (scratch.due)
            return true;
        [[fallthrough]];
    case Scratch::Next::score:
        take(layer, scratch);
        if (!fresh.empty())
            return true;
        while (scratch.at < items.size() && (items[scratch.at].node & EXPANDED))
            ++scratch.at;
        if (scratch.at == items.size() || items[scratch.at].score < bar(scratch))
            return false;
        choose(layer, scratch);
        return true;
    case Scratch::Next::expand: {
        const int32_t node = items[scratch.at].id();
        items[scratch.at].node |= EXPANDED;
        ++scratch.counters.hops;
        fresh.clear();
        scratch.meet(layer.links + static_cast<size_t>(node) * layer.width, links_of(layer, node));
        await(layer, scratch);
        return true;
    }
    }
    return false;
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

}  // namespace chnsw
