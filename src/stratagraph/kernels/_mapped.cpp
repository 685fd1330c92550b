// Files mapped into memory. A mapping of Python's own keeps a descriptor, of which a process has about a thousand.

#include <cstddef>
#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#if __has_include(<sys/mman.h>)
#include <cerrno>
#include <sys/mman.h>
#define STRATAGRAPH_MAPS 1
#endif

namespace nb = nanobind;
using namespace nb::literals;

#ifdef STRATAGRAPH_MAPS
namespace {

struct Mapping {
    void *start;
    size_t size;
};

nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>> mapped(int descriptor, size_t size) {
    void *start = size ? mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
    if (start == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    nb::capsule owner(new Mapping{start, size}, [](void *kept) noexcept {
        auto *mapping = static_cast<Mapping *>(kept);
        if (mapping->start != nullptr)
            munmap(mapping->start, mapping->size);
        delete mapping;
    });
    return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(start, {size}, owner);
}

}  // namespace
#endif

void bind_mapped(nb::module_ &module) {
#ifdef STRATAGRAPH_MAPS
    module.def("mapped", &mapped, "descriptor"_a, "size"_a, "The bytes of a file, read-only.");
#endif
}
