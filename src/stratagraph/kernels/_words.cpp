// Hashed words and word pairs of texts in Latin letters. models/hashing.py does the same for all other scripts.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

constexpr uint32_t MIX = 0x9E3779B1u;
constexpr double NAMED = 2.0;

constexpr std::array<uint32_t, 256> crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t entry = 0; entry < 256; ++entry) {
        uint32_t value = entry;
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1) ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        table[entry] = value;
    }
    return table;
}

constexpr auto CRC = crc_table();

// CRC-32 as zlib computes it, of more bytes after those that gave `crc`; 0 to begin with.
uint32_t crc32(uint32_t crc, std::string_view bytes) {
    crc = ~crc;
    for (const char byte : bytes)
        crc = CRC[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (crc >> 8);
    return ~crc;
}

bool is_space(uint32_t c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31); }

// What the pattern of words in hashing.py leaves out, of the letters that are read here.
bool in_word(uint32_t c) {
    if (c < 0x80)
        return !is_space(c) && !((c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                                 (c >= '{' && c <= '~'));
    return c > 0xBF && c < 0x2000;
}

// The code point at `at` of UTF-8, which Python has checked; moves on to the next.
uint32_t decoded(std::string_view text, size_t &at) {
    const auto byte = [&] { return static_cast<uint8_t>(text[at++]); };
    const uint32_t first = byte();
    if (first < 0x80)
        return first;
    if (first < 0xE0)
        return ((first & 0x1F) << 6) | (byte() & 0x3Fu);
    uint32_t found = first < 0xF0 ? first & 0x0F : first & 0x07;
    for (int more = first < 0xF0 ? 2 : 3; more > 0 && at < text.size(); --more)
        found = (found << 6) | (byte() & 0x3Fu);
    return found;
}

using Places = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;
using Values = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

template <typename Array, typename T> Array owned(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *data) noexcept { delete static_cast<std::vector<T> *>(data); });
    return Array(kept->data(), {kept->size()}, owner);
}

struct Word {
    std::string_view spelled;
    uint32_t crc = 0;
    double count = 0, emphasis = 1;
};

// Places of things by their hashes, with open addressing; what is equal, the caller says.
class Table {
  public:
    void clear(size_t most) {
        size_t size = 64;
        while (size < 2 * most)
            size *= 2;
        slots_.assign(size, 0);
    }

    // The place of a thing that is there; if it is not, `next`, which it has from now on.
    template <typename Same> uint32_t place(uint32_t hash, uint32_t next, Same same) {
        const size_t mask = slots_.size() - 1;
        for (size_t at = hash & mask;; at = (at + 1) & mask) {
            if (slots_[at] == 0) {
                slots_[at] = next + 1;
                return next;
            }
            if (same(slots_[at] - 1))
                return slots_[at] - 1;
        }
    }

  private:
    std::vector<uint32_t> slots_;
};

struct Pair {
    uint32_t first, second;
    double count = 0;
};

class HashedWords {
  public:
    HashedWords(const std::vector<std::string> &dropped, const std::vector<std::string> &endings,
                size_t shortest, const std::vector<std::string> &folds, const std::vector<bool> &emphatic)
        : words_(dropped), endings_(endings), shortest_(shortest), folds_(folds), emphatic_(emphatic) {
        if (folds.size() != emphatic.size() || folds.size() < 0x80)
            throw nb::value_error("folds and emphatic must be of the same letters, from the first on");
        for (const std::string &word : words_) {
            dropped_.insert(word);
            longest_ = std::max(longest_, word.size());
        }
    }

    // Unit vectors as the arrays of a sparse matrix with a row per text and ascending places in each row.
    nb::tuple rows(const nb::list &texts, int64_t dimension) const {
        std::vector<std::string_view> read;
        for (const nb::handle text : texts) {
            Py_ssize_t size = 0;
            const char *bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
            if (bytes == nullptr)
                throw nb::python_error();
            read.emplace_back(bytes, static_cast<size_t>(size));
        }
        std::vector<int64_t> starts{0}, places;
        std::vector<float> values;
        {
            nb::gil_scoped_release release;  // `texts` holds the bytes
            Scratch scratch;
            for (const std::string_view text : read) {
                collect(text, dimension, scratch);
                append(scratch.entries, places, values);
                starts.push_back(static_cast<int64_t>(places.size()));
            }
        }
        return nb::make_tuple(owned<Places>(std::move(starts)), owned<Places>(std::move(places)),
                              owned<Values>(std::move(values)));
    }

  private:
    struct Spelled {
        size_t start, end, letters;
        bool emphatic;
    };

    struct Entry {
        int64_t place;
        double value;
        uint32_t order = 0;
    };

    struct Scratch {
        std::vector<Entry> entries;
        std::string folded;
        std::vector<Spelled> spelled;
        std::vector<Word> words;
        std::vector<Pair> pairs;
        std::vector<uint32_t> spoken;
        Table places, pair_places;
    };

    // A word in lower case without a common ending; nothing of a dropped one.
    std::string_view stem(std::string_view word, size_t letters) const {
        if (word.size() <= longest_ && dropped_.contains(word))
            return {};
        for (const std::string &ending : endings_) {
            const bool plural = ending == "s";
            if (word.ends_with(ending) && letters - ending.size() + plural >= shortest_)
                return word.substr(0, word.size() - ending.size());
        }
        return word;
    }

    // The words of a text, in lower case.
    void spell(std::string_view text, Scratch &scratch) const {
        scratch.folded.clear();
        scratch.spelled.clear();
        bool inside = false;
        for (size_t at = 0; at < text.size();) {
            const uint32_t letter = decoded(text, at);
            if (!in_word(letter)) {
                inside = false;
                continue;
            }
            const size_t start = scratch.folded.size();
            if (letter >= folds_.size())
                throw std::invalid_argument("a text has letters that are not read here");
            const std::string &fold = folds_[letter];
            scratch.folded += fold;
            if (!inside)
                scratch.spelled.push_back({start, start, 0, emphatic_[letter]});
            inside = true;
            Spelled &word = scratch.spelled.back();
            word.end = scratch.folded.size();
            for (const char byte : fold)
                word.letters += (byte & 0xC0) != 0x80;
        }
    }

    // The features of a text: words, then pairs of neighbours, each in the order of the text.
    void collect(std::string_view text, int64_t dimension, Scratch &scratch) const {
        scratch.entries.clear();
        scratch.words.clear();
        scratch.pairs.clear();
        scratch.spoken.clear();
        scratch.places.clear(text.size() / 2 + 1);
        spell(text, scratch);
        read_words(scratch, true);
        if (scratch.spoken.empty())
            read_words(scratch, false);
        scratch.pair_places.clear(scratch.spoken.size());
        for (size_t at = 1; at < scratch.spoken.size(); ++at)
            count_pair(scratch.spoken[at - 1], scratch.spoken[at], scratch);
        const auto enter = [&](uint32_t crc, double weight) {
            const uint32_t hash = crc * MIX;
            scratch.entries.push_back({static_cast<int64_t>(hash >> 1) % dimension, hash & 1 ? weight : -weight});
        };
        for (const Word &word : scratch.words)
            enter(word.crc, (1 + std::log(word.count)) * word.emphasis);
        for (const Pair &pair : scratch.pairs) {
            const Word &first = scratch.words[pair.first], &second = scratch.words[pair.second];
            const uint32_t crc = crc32(crc32(first.crc, " "), second.spelled);
            enter(crc, (1 + std::log(pair.count)) * std::sqrt(first.emphasis * second.emphasis));
        }
    }

    // Entries of the same place added up in their order, scaled to unit length.
    static void append(std::vector<Entry> &entries, std::vector<int64_t> &places, std::vector<float> &values) {
        for (size_t at = 0; at < entries.size(); ++at)
            entries[at].order = static_cast<uint32_t>(at);
        std::sort(entries.begin(), entries.end(), [](const Entry &one, const Entry &other) {
            return one.place != other.place ? one.place < other.place : one.order < other.order;
        });
        size_t count = 0;
        for (const Entry &entry : entries) {
            if (count && entries[count - 1].place == entry.place)
                entries[count - 1].value += entry.value;
            else
                entries[count++] = entry;
        }
        double squares = 0;
        for (size_t at = 0; at < count; ++at)
            squares += entries[at].value * entries[at].value;
        const double length = squares > 0 ? std::sqrt(squares) : 1;
        for (size_t at = 0; at < count; ++at) {
            places.push_back(entries[at].place);
            values.push_back(static_cast<float>(entries[at].value / length));
        }
    }

    // What the words of the text are counted as; all of them, as they are, where it has none but dropped ones.
    void read_words(Scratch &scratch, bool stemmed) const {
        for (const Spelled &spelled : scratch.spelled) {
            std::string_view word(scratch.folded.data() + spelled.start, spelled.end - spelled.start);
            if (stemmed)
                word = stem(word, spelled.letters);
            if (word.empty())
                continue;
            const uint32_t crc = crc32(0, word), next = static_cast<uint32_t>(scratch.words.size());
            const uint32_t place = scratch.places.place(
                crc, next, [&](uint32_t other) { return scratch.words[other].spelled == word; });
            if (place == next)
                scratch.words.push_back({word, crc});
            Word &known = scratch.words[place];
            known.count += 1;
            if (stemmed && spelled.emphatic)
                known.emphasis = NAMED;
            scratch.spoken.push_back(place);
        }
    }

    static void count_pair(uint32_t first, uint32_t second, Scratch &scratch) {
        const uint32_t next = static_cast<uint32_t>(scratch.pairs.size());
        const uint32_t place =
            scratch.pair_places.place(first * MIX + second * 0x85EBCA6Bu, next, [&](uint32_t other) {
                return scratch.pairs[other].first == first && scratch.pairs[other].second == second;
            });
        if (place == next)
            scratch.pairs.push_back({first, second});
        scratch.pairs[place].count += 1;
    }

    std::vector<std::string> words_;
    std::unordered_set<std::string_view> dropped_;  // views of `words_`
    std::vector<std::string> endings_;
    size_t shortest_, longest_ = 0;
    std::vector<std::string> folds_;  // of each letter, by its code point
    std::vector<bool> emphatic_;
};

}  // namespace

void bind_words(nb::module_ &module) {
    nb::class_<HashedWords>(module, "HashedWords")
        .def(nb::init<const std::vector<std::string> &, const std::vector<std::string> &, size_t,
                      const std::vector<std::string> &, const std::vector<bool> &>(),
             "dropped"_a, "endings"_a, "shortest"_a, "folds"_a, "emphatic"_a)
        .def("rows", &HashedWords::rows, "texts"_a, "dimension"_a,
             "Unit vectors of texts as a sparse matrix: where rows begin, places, values.");
}
