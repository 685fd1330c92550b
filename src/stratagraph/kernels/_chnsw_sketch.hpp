// One bit per dimension of every vector, by which a search tells most neighbours that are too far away
// without reading their codes.
//
// After RaBitQ (Gao and Long, SIGMOD 2024): the residual r of a vector from the layer's centre c is rotated at
// random, and b are the signs of what comes out. With the factor f = |r|^2 / |Rr|_1 and the query's residual s,
// f <b, Rs> is an unbiased estimate of <r, s>, whose error is near to normal, of the deviation
// f |s| sqrt(1 - rho^2) with rho about sqrt(2 / pi). <q, c> + <c, r> completes it to the inner product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace chnsw {

constexpr size_t PLANES = 4;  // bits to which a query's elements are rounded

constexpr size_t FACTORS = 3;

// Rows of bits, each followed by three floats, f, f times the sum of b, and <c, r>; padded to 64 bytes.
struct Sketches {
    const char *data = nullptr;
    size_t stride = 0;
    std::vector<float> centre;  // rotated
};

// A random rotation of any dimension: signs are flipped at random and the first and the last 2^n elements
// transformed by Hadamard's matrix, in turn. The same for every index of one dimension.
class Rotation {
  public:
    explicit Rotation(size_t dimension);
    size_t words() const { return padded / 64; }
    // Bytes of a sketch.
    size_t stride() const { return (words() * 8 + FACTORS * sizeof(float) + 63) / 64 * 64; }
    // Of a vector of the rotation's dimension; what comes out has 64 * words() elements.
    void apply(const float *vector, std::vector<float> &out) const;

  private:
    size_t dimension, padded, block;
    std::vector<float> signs;
};

// A query as the sketches of one layer meet it: each element is low + step * u, where u has PLANES bits, and word w of plane
// p is planes[w * PLANES + p].
struct Asked {
    std::vector<uint64_t> planes;
    float low = 0.0F, step = 0.0F;
    float slack = 0.0F;   // how far an estimate may be off, for f = 1
    float offset = 0.0F;  // <q, c>
    int32_t sum = 0;      // of u
};

// Writes the sketch of one vector, which is rotated, as the centre is.
void sketch(const Rotation &rotation, const std::vector<float> &rotated, const std::vector<float> &centre, char *out);

// What the sketches of one layer need of a query, which is rotated; `buffer` is scratch space.
void ask(const std::vector<float> &rotated, const std::vector<float> &centre, std::vector<float> &buffer, Asked &into);

// out[i] = what the inner product with rows[i] is at most, but for rare errors.
using Bound = void (*)(const Asked &, const Sketches &, const int32_t *rows, size_t count, size_t words, float *out);

// `level` as in _chnsw_simd.hpp.
Bound bound(const std::string &level);

}  // namespace chnsw
