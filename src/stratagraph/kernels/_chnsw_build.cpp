// Building layers: HNSW's heuristic in synchronous batches, which makes builds repeatable, and repair.

#include <cstring>
#include <utility>

#include "_chnsw.hpp"

namespace chnsw {
namespace {

constexpr size_t LARGEST_BATCH = 1024;
constexpr size_t MOST_SIBLINGS = 32;
constexpr size_t MOST_BRIDGED = 512;  // candidates from which what is deleted is replaced

void write_links(const Layer &layer, int32_t node, const std::vector<int32_t> &links) {
    int32_t *row = layer.links + static_cast<size_t>(node) * layer.width;
    std::fill(row, row + layer.width, -1);
    std::copy(links.begin(), links.end(), row);
}

bool append_link(const Layer &layer, int32_t node, int32_t target, size_t limit) {
    int32_t *row = layer.links + static_cast<size_t>(node) * layer.width;
    const size_t count = links_of(layer, node);
    if (std::find(row, row + count, target) != row + count)
        return true;
    if (count >= limit)
        return false;
    row[count] = target;
    return true;
}

// For each node of `below`, one of its parents, or -1.
std::vector<int32_t> parents_of(const Layer &above, size_t below) {
    std::vector<int32_t> parents(below, -1);
    for (size_t node = 0; node < above.count; ++node)
        for (int64_t i = above.child_from[node]; i < above.child_from[node + 1]; ++i)
            parents[static_cast<size_t>(above.children[i])] = static_cast<int32_t>(node);
    return parents;
}

}  // namespace

Query Index::stored(const Layer &layer, int32_t row) const {
    const char *data = layer.codes.data + static_cast<size_t>(row) * layer.codes.stride;
    if (kind == Kind::float32)
        return {data, 1.0F, 0};
    const auto *bytes = reinterpret_cast<const int8_t *>(data);
    int32_t sum = 0;
    for (size_t i = 0; summed && i < layer.codes.length; ++i)
        sum += bytes[i];
    return {data, layer.codes.scales[row], sum};
}

// HNSW's heuristic: a candidate is linked unless one already linked lies nearer to it than `of` does.
// As printed in paper 000 (mode "paper"), the nearest are linked.
std::vector<int32_t> Index::select(const Layer &layer, const std::vector<Candidate> &candidates, int32_t of,
                                   size_t limit, Counters &counters) const {
    std::vector<int32_t> kept;
    kept.reserve(limit);
    float scores[4];
    for (const Candidate &candidate : candidates) {
        const int32_t node = candidate.id();
        if (node == of)
            continue;
        if (kept.size() == limit)
            break;
        bool shadowed = false;
        if (!paper && !kept.empty()) {
            const float own = candidate.score;
            const Query query = stored(layer, node);
            for (size_t i = 0; i < kept.size() && !shadowed; i += 4) {
                const size_t count = std::min<size_t>(4, kept.size() - i);
                score(layer, query, kept.data() + i, count, scores);
                counters.distances += static_cast<int64_t>(count);
                for (size_t j = 0; j < count; ++j)
                    shadowed |= scores[j] > own;
            }
        }
        if (!shadowed)
            kept.push_back(node);
    }
    return kept;
}

// Candidates scored against `of`, the nearest first.
void Index::rescore(const Layer &layer, int32_t of, std::vector<Candidate> &into, Counters &counters) const {
    std::vector<float> scores(into.size());
    std::vector<int32_t> rows;
    rows.reserve(into.size());
    for (const Candidate &each : into)
        rows.push_back(each.id());
    fetch(layer.codes, rows.data(), rows.size());
    score(layer, stored(layer, of), rows.data(), rows.size(), scores.data());
    counters.distances += static_cast<int64_t>(rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
        into[i].score = scores[i];
    std::sort(into.begin(), into.end(), before);
}

void Index::insert(size_t level, const int32_t *rows, size_t count, size_t links, size_t ef, int threads) {
    Layer &layer = layers[level];
    std::vector<uint8_t> inserted(layer.alive, layer.alive + layer.count);
    for (size_t i = 0; i < count; ++i)
        inserted[static_cast<size_t>(rows[i])] = 0;
    size_t done = static_cast<size_t>(std::count_if(inserted.begin(), inserted.end(), [](uint8_t x) { return x != 0; }));
    const Layer *above = level + 1 < layers.size() ? &layers[level + 1] : nullptr;
    if (paper)
        return insert_as_printed(level, rows, count, links, ef);
    std::vector<int32_t> parents;
    if (above)
        parents = parents_of(*above, layer.count);

    std::vector<std::pair<int32_t, int32_t>> back;
    for (size_t start = 0; start < count;) {
        const size_t batch = std::min(count - start, std::clamp<size_t>(done / 16, 1, LARGEST_BATCH));
        add(in_parallel((batch + LANES - 1) / LANES, threads, [&](size_t group, Scratch &all) {
            thread_local Lane lanes[LANES];
            const size_t first = group * LANES, lanes_used = std::min(LANES, batch - first);
            const auto search = [&](size_t i) {
                const int32_t row = rows[start + first + i];
                Scratch &scratch = lanes[i].scratch;
                scratch.counters = {};
                scratch.forget(layer.count);
                scratch.fresh.clear();
                auto offer = [&](int32_t node) {
                    if (inserted[static_cast<size_t>(node)])
                        scratch.meet(&node, 1);
                };
                if (above && parents[static_cast<size_t>(row)] >= 0) {
                    const auto parent = static_cast<size_t>(parents[static_cast<size_t>(row)]);
                    const int64_t from = above->child_from[parent], to = above->child_from[parent + 1];
                    for (int64_t at = from; at < to && scratch.fresh.size() < MOST_SIBLINGS; ++at)
                        offer(above->children[at]);
                }
                for (size_t at = 0; at < layer.pilot_count; ++at)
                    offer(layer.pilots[at]);
                begin(layer, stored(layer, row), ef, scratch);
            };
            for (size_t i = 0; i < lanes_used; ++i)
                search(i);
            finish(layer, lanes, lanes_used);
            for (size_t i = 0; i < lanes_used; ++i) {
                const int32_t row = rows[start + first + i];
                Scratch &scratch = lanes[i].scratch;
                write_links(layer, row,
                            select(layer, scratch.pool.items, row, links, scratch.counters));
                all.counters.add(scratch.counters);
            }
        }));
        back.clear();
        for (size_t i = start; i < start + batch; ++i) {
            const int32_t row = rows[i];
            for (size_t at = 0; at < links_of(layer, row); ++at)
                back.emplace_back(layer.links[static_cast<size_t>(row) * layer.width + at], row);
        }
        link_back(layer, back, layer.width - 1, threads);
        for (size_t i = start; i < start + batch; ++i)
            inserted[static_cast<size_t>(rows[i])] = 1;
        start += batch;
        done += batch;
    }
}

// Adds the links node -> new of `pairs`, choosing anew where a list is full. One place of each list is
// left to repair(), which must always find one.
void Index::link_back(Layer &layer, std::vector<std::pair<int32_t, int32_t>> &pairs, size_t limit, int threads) {
    std::sort(pairs.begin(), pairs.end());
    std::vector<size_t> starts;
    for (size_t i = 0; i < pairs.size(); ++i)
        if (i == 0 || pairs[i].first != pairs[i - 1].first)
            starts.push_back(i);
    starts.push_back(pairs.size());
    add(in_parallel(starts.size() - 1, threads, [&](size_t group, Scratch &scratch) {
        const size_t from = starts[group], to = starts[group + 1];
        const int32_t node = pairs[from].first;
        const int32_t *row = layer.links + static_cast<size_t>(node) * layer.width;
        const size_t have = links_of(layer, node);
        std::vector<int32_t> all(row, row + have);
        for (size_t i = from; i < to; ++i)
            if (std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(have), pairs[i].second) ==
                all.begin() + static_cast<std::ptrdiff_t>(have))
                all.push_back(pairs[i].second);
        if (all.size() > limit) {
            std::vector<Candidate> candidates;
            candidates.reserve(all.size());
            for (int32_t each : all)
                candidates.push_back({0.0F, static_cast<uint32_t>(each)});
            rescore(layer, node, candidates, scratch.counters);
            all = select(layer, candidates, node, limit, scratch.counters);
        }
        write_links(layer, node, all);
    }));
}

// Alg. 3 with ERRATA A6: one node after another, the nearest are linked, and the links down from the layer
// above are kept as nodes arrive.
void Index::insert_as_printed(size_t level, const int32_t *rows, size_t count, size_t links, size_t ef) {
    Layer &layer = layers[level];
    std::vector<std::pair<int32_t, int32_t>> back;
    Scratch scratch;
    for (size_t i = 0; i < count; ++i) {
        const int32_t row = rows[i];
        const Query query = stored(layer, row);
        int32_t start = layer.pilots[0];
        if (level + 1 < layers.size() && layers[level + 1].pilot_count) {
            Layer &above = layers[level + 1];
            scratch.forget(above.count);
            scratch.fresh.clear();
            scratch.meet(above.pilots, 1);
            beam(above, query, ef, scratch);
            const int32_t nearest = scratch.pool.items[0].id();
            int32_t &down = above.down[nearest];
            if (down >= 0)
                start = down;
            const int32_t both[2] = {row, start};
            float scores[2];
            score(layer, stored(above, nearest), both, 2, scores);
            scratch.counters.distances += 2;
            if (down < 0 || scores[0] > scores[1])
                down = row;
        }
        if (row == layer.pilots[0])
            continue;
        scratch.forget(layer.count);
        scratch.fresh.clear();
        scratch.meet(&start, 1);
        beam(layer, query, ef, scratch);
        write_links(layer, row, select(layer, scratch.pool.items, row, links, scratch.counters));
        back.clear();
        for (size_t at = 0; at < links_of(layer, row); ++at)
            back.emplace_back(layer.links[static_cast<size_t>(row) * layer.width + at], row);
        link_back(layer, back, layer.width - 1, 1);
    }
    add(scratch.counters);
}

size_t Index::repair(size_t level) {
    Layer &layer = layers[level];
    if (layer.pilot_count == 0)
        return 0;
    std::vector<uint8_t> reached(layer.count, 0);
    std::vector<int32_t> stack;
    auto reach = [&](int32_t from) {
        stack.assign(1, from);
        reached[static_cast<size_t>(from)] = 1;
        while (!stack.empty()) {
            const int32_t node = stack.back();
            stack.pop_back();
            const int32_t *row = layer.links + static_cast<size_t>(node) * layer.width;
            for (size_t i = 0; i < layer.width && row[i] >= 0; ++i)
                if (!reached[static_cast<size_t>(row[i])]) {
                    reached[static_cast<size_t>(row[i])] = 1;
                    stack.push_back(row[i]);
                }
        }
    };
    reach(layer.pilots[0]);
    size_t set = 0;
    Scratch scratch;
    std::vector<float> scores;
    for (size_t first = 0; first < layer.count; ++first) {
        if (!layer.alive[first] || reached[first])
            continue;
        // What hangs together with `first` outside the reached part, and its medoid.
        std::vector<int32_t> island(1, static_cast<int32_t>(first));
        std::vector<uint8_t> &seen = reached;
        seen[first] = 2;
        for (size_t i = 0; i < island.size(); ++i) {
            const int32_t *row = layer.links + static_cast<size_t>(island[i]) * layer.width;
            for (size_t j = 0; j < layer.width && row[j] >= 0; ++j)
                if (!seen[static_cast<size_t>(row[j])]) {
                    seen[static_cast<size_t>(row[j])] = 2;
                    island.push_back(row[j]);
                }
        }
        int32_t medoid = island[0];
        double most = -HUGE_VAL;
        const size_t sample = std::min<size_t>(island.size(), 64);
        scores.resize(sample);
        for (size_t i = 0; i < sample; ++i) {
            score(layer, stored(layer, island[i]), island.data(), sample, scores.data());
            scratch.counters.distances += static_cast<int64_t>(sample);
            double sum = 0.0;
            for (float each : scores)
                sum += each;
            if (sum > most) {
                most = sum;
                medoid = island[i];
            }
        }
        for (int32_t node : island)
            seen[static_cast<size_t>(node)] = 0;
        scratch.forget(layer.count);
        scratch.fresh.clear();
        scratch.meet(layer.pilots, 1);
        beam(layer, stored(layer, medoid), 64, scratch);
        int32_t bridge = -1;
        for (const Candidate &each : scratch.pool.items)
            if (links_of(layer, each.id()) < layer.width) {
                bridge = each.id();
                break;
            }
        for (size_t node = 0; bridge < 0 && node < layer.count; ++node)
            if (reached[node] == 1 && links_of(layer, static_cast<int32_t>(node)) < layer.width)
                bridge = static_cast<int32_t>(node);
        if (bridge < 0)
            continue;  // cannot be: every component brings a free place with it
        append_link(layer, bridge, medoid, layer.width);
        append_link(layer, medoid, bridge, layer.width - 1);
        ++set;
        reach(medoid);
        --first;  // the rest of the island may still be out of reach
    }
    add(scratch.counters);
    return set;
}

// Leaves in scratch.fresh the neighbours of the nodes that `node` is about to lose, through others that go too:
// `most` of each, the nearest first.
void Index::bridge(const Layer &layer, int32_t node, const std::vector<uint8_t> &gone, size_t most,
                   Scratch &scratch) const {
    const auto links = [&](int32_t of) { return layer.links + static_cast<size_t>(of) * layer.width; };
    std::vector<int32_t> &met = scratch.fresh;
    scratch.forget(layer.count);
    scratch.meet(&node, 1);
    met.clear();
    scratch.meet(links(node), links_of(layer, node));
    const auto own = static_cast<std::ptrdiff_t>(met.size());
    for (size_t i = 0; i < met.size() && met.size() < MOST_BRIDGED; ++i)
        if (gone[static_cast<size_t>(met[i])])
            scratch.meet(links(met[i]), std::min(most, links_of(layer, met[i])));
    met.erase(met.begin(), met.begin() + own);
    const auto lost = [&](int32_t each) { return gone[static_cast<size_t>(each)] || !layer.alive[each]; };
    met.erase(std::remove_if(met.begin(), met.end(), lost), met.end());
}

// Who has links to what goes gets as many others in their place. The links that stay are not chosen among anew:
// most were never held against each other, and would be halved.
void Index::remove(size_t level, const int32_t *rows, size_t count, size_t links, int threads) {
    Layer &layer = layers[level];
    std::vector<uint8_t> gone(layer.count, 0);
    for (size_t i = 0; i < count; ++i)
        gone[static_cast<size_t>(rows[i])] = 1;
    add(in_parallel(layer.count, threads, [&](size_t i, Scratch &scratch) {
        const auto node = static_cast<int32_t>(i);
        const int32_t *row = layer.links + i * layer.width;
        std::vector<int32_t> kept(row, row + links_of(layer, node));
        const size_t have = kept.size();
        kept.erase(std::remove_if(kept.begin(), kept.end(), [&](int32_t to) { return gone[static_cast<size_t>(to)]; }),
                   kept.end());
        if (gone[i] || kept.size() == have)
            return;
        bridge(layer, node, gone, links + links / 2, scratch);
        std::vector<Candidate> candidates;
        candidates.reserve(scratch.fresh.size());
        for (int32_t each : scratch.fresh)
            candidates.push_back({0.0F, static_cast<uint32_t>(each)});
        rescore(layer, node, candidates, scratch.counters);
        const std::vector<int32_t> others =
            select(layer, candidates, node, have - kept.size(), scratch.counters);
        kept.insert(kept.end(), others.begin(), others.end());
        write_links(layer, node, kept);
    }));
    for (size_t i = 0; i < count; ++i)
        write_links(layer, rows[i], {});
}

void Index::link_down(size_t level, const int32_t *rows, size_t count, size_t ef, int threads) {
    Layer &above = layers[level];
    const Layer &layer = layers[level - 1];
    add(in_parallel(count, threads, [&](size_t i, Scratch &scratch) {
        const int32_t node = rows[i];
        if (layer.pilot_count == 0) {
            above.down[node] = -1;
            return;
        }
        scratch.forget(layer.count);
        scratch.fresh.clear();
        auto offer = [&](int32_t below) {
            if (layer.alive[below])
                scratch.meet(&below, 1);
        };
        const int64_t from = above.child_from[node], to = above.child_from[node + 1];
        for (int64_t at = from; at < std::min<int64_t>(to, from + 256); ++at)
            offer(above.children[at]);
        for (size_t at = 0; at < (scratch.fresh.empty() ? layer.pilot_count : 1); ++at)
            offer(layer.pilots[at]);
        beam(layer, stored(above, node), ef, scratch);
        above.down[node] = scratch.pool.items.empty() ? -1 : scratch.pool.items[0].id();
    }));
}

void Index::neighbours(size_t level, size_t k, size_t ef, int threads, int32_t *rows, float *scores) {
    const Layer &layer = layers[level];
    add(in_parallel(layer.count, threads, [&](size_t i, Scratch &scratch) {
        thread_local Prepared query;
        const auto node = static_cast<int32_t>(i);
        std::fill(rows + i * k, rows + (i + 1) * k, -1);
        std::fill(scores + i * k, scores + (i + 1) * k, -FLT_MAX);
        if (!layer.alive[i])
            return;
        scratch.forget(layer.count);
        scratch.fresh.clear();
        scratch.meet(&node, 1);
        beam(layer, stored(layer, node), ef, scratch);
        if (layer.exact.data && kind != Kind::float32) {
            prepare(reinterpret_cast<const float *>(layer.exact.data + i * layer.exact.stride), query);
            doubtful(layer, query, k + 1, scratch);
            rerank(layer, query, scratch);
        }
        size_t at = 0;
        for (const Candidate &each : scratch.pool.items)
            if (each.id() != node && at < k) {
                rows[i * k + at] = each.id();
                scores[i * k + at++] = each.score;
            }
    }));
}

}  // namespace chnsw
