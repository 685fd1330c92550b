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

// Bytes of several files one behind the other; zeros where none was put yet.
class Range {
  public:
    explicit Range(size_t size) : size_(size) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
        flags |= MAP_NORESERVE;
#endif
        start_ = size ? mmap(nullptr, size, PROT_READ, flags, -1, 0) : nullptr;
        if (start_ == MAP_FAILED)
            raise();
    }
    ~Range() {
        if (start_ != nullptr)
            munmap(start_, size_);
    }
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

    void put(size_t at, int descriptor, size_t size) {
        if (at > size_ || size > size_ - at || !size)
            throw nb::value_error("a file must lie within the range");
        void *place = static_cast<char *>(start_) + at;
        if (mmap(place, size, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED)
            raise();
    }
    void *start() const { return start_; }
    size_t size() const { return size_; }

  private:
    [[noreturn]] static void raise() {
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }

    void *start_ = nullptr;
    size_t size_;
};

}  // namespace
#endif

void bind_mapped(nb::module_ &module) {
#ifdef STRATAGRAPH_MAPS
    module.def("mapped", &mapped, "descriptor"_a, "size"_a, "The bytes of a file, read-only.");
    nb::class_<Range>(module, "Range", "Memory in which files are mapped one behind the other, read-only.")
        .def(nb::init<size_t>(), "size"_a)
        .def("put", &Range::put, "at"_a, "descriptor"_a, "size"_a,
             "Map a file at a multiple of the page size; what lay there is there no more.")
        .def("bytes", [](nb::handle self) {
            const Range &range = *nb::inst_ptr<Range>(self);
            return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(range.start(), {range.size()}, self);
        });
#endif
}
