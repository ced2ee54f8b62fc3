/* recurrent.c: types of recurrent layers (paddle/phi/infermeta/multiary.cc, RnnInferMeta). */
#include "ops/infer.h"

enum { IN_X, IN_BEGIN, OUT_DROPOUT = 0, OUT_RESERVE, OUT, OUT_END };

static int64_t gates_of(const infer *i) {
    const char *mode = attr_string(i->op, "mode", "");
    return strcmp(mode, "LSTM") == 0 ? 4 : strcmp(mode, "GRU") == 0 ? 3 : 1;
}

/* The reserve has a row for each layer and direction, step, and sequence (executor/kernels/recurrent/rnn.c). */
weft_status infer_rnn(infer *i) {
    const shape *x = infer_in(i, IN_X), *begin = infer_in(i, IN_BEGIN);
    if (!shape_known(x) || !shape_known(begin)) return NULL;
    if (x->ndim != 3 || begin->ndim != 3)
        return infer_error(i, "expected Input and PreState of 3 dimensions, found %d and %d", x->ndim, begin->ndim);
    int64_t runs = attr_int(i->op, "num_layers", 1) * (attr_bool(i->op, "is_bidirec", false) ? 2 : 1);
    int64_t hidden = begin->dims[2];
    if (!extent_fits(begin->dims[0], runs))
        return infer_error(i, "PreState: expected %lld states, one a layer and direction, found %lld", (long long)runs,
                           (long long)begin->dims[0]);
    int64_t out[] = {x->dims[0], x->dims[1], extent_mul(hidden, attr_bool(i->op, "is_bidirec", false) ? 2 : 1)};
    int64_t reserve[] = {extent_mul(runs, x->dims[0]), x->dims[1],
                         extent_mul(hidden, gates_of(i) + (gates_of(i) == 1 ? 2 : 3))};
    int64_t end[] = {runs, x->dims[1], hidden};
    if (infer_out(i, OUT_DROPOUT)) shape_set(infer_out(i, OUT_DROPOUT), x->dtype, 1, &(int64_t){1});
    if (infer_out(i, OUT_RESERVE)) shape_set(infer_out(i, OUT_RESERVE), x->dtype, 3, reserve);
    if (infer_out(i, OUT)) shape_set(infer_out(i, OUT), x->dtype, 3, out);
    for (size_t k = 0; k < infer_nout(i, OUT_END); k++) shape_set(&i->out[i->out_first[OUT_END] + k], x->dtype, 3, end);
    return NULL;
}

/* Gates are like Input, what comes out is like what was before. */
weft_status infer_gru_unit(infer *i) {
    for (int o = 0; o < 3; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *infer_in(i, o > 0);
    return NULL;
}
