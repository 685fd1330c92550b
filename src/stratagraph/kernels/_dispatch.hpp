// Wheels are built for any x86-64: a function that is compiled for wider instructions by a target attribute is chosen
// where the processor has them.
#pragma once

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define STRATAGRAPH_DISPATCH 1
#define STRATAGRAPH_INLINE inline __attribute__((always_inline))
#else
#define STRATAGRAPH_INLINE inline
#endif
