// The module of native kernels. Python checks what callers give; a kernel checks whatever it follows into an array.

#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_alignment(nb::module_ &module);
void bind_bm25(nb::module_ &module);
void bind_chnsw(nb::module_ &module);
void bind_float16(nb::module_ &module);
void bind_mapped(nb::module_ &module);
void bind_paths(nb::module_ &module);
void bind_ppr(nb::module_ &module);
void bind_statements(nb::module_ &module);
void bind_topk(nb::module_ &module);
void bind_words(nb::module_ &module);

NB_MODULE(_native, module) {
    module.doc() = "The compiled kernels; the Python modules beside it document them.";
    nb::set_leak_warnings(false);  // an index that is open when Python ends is not a user's mistake
    bind_alignment(module);
    bind_bm25(module);
    bind_chnsw(module);
    bind_float16(module);
    bind_mapped(module);
    bind_paths(module);
    bind_ppr(module);
    bind_statements(module);
    bind_topk(module);
    bind_words(module);
}
