/* pool.c: types of pooling (paddle/phi/infermeta/unary.cc, PoolInferMeta). */
#include "ops/infer.h"
#include "ops/window.h"

weft_status infer_pool2d(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    size_t nsizes;
    const int64_t *sizes = attr_ints(i->op, "ksize", &nsizes);
    bool adaptive = attr_bool(i->op, "adaptive", false), global = attr_bool(i->op, "global_pooling", false);
    bool ceil_mode = attr_bool(i->op, "ceil_mode", false);
    window w;
    TRY(window_read(i, x, "data_format", &w));
    if (nsizes != 2 && !global) return infer_error(i, "ksize: expected 2 extents, found %zu", nsizes);
    shape out = *x;
    for (int d = 0; d < 2; d++) {
        int64_t *extent = &out.dims[(w.channels_last ? 1 : 2) + d];
        if (global)
            *extent = 1;
        else if (adaptive)
            *extent = sizes[d];
        else
            TRY(window_count(i, &w, d, sizes[d], ceil_mode, extent));
    }
    *infer_out(i, 0) = out;
    return NULL;
}
