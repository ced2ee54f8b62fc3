/* pool3d.c: the largest or the mean element of each window of a volume; and pooling that tells where in its channel
 * each largest element lies. Windows end at the border; a mean divides by what is left of the window where `exclusive`,
 * else by its part of the padded volume. That ends `before` elements behind the border. Adaptive windows tile the
 * volume. Gradients of maxima go to the first of them. Paddle: phi/kernels/funcs/pooling.cc. */
#include <math.h>

#include "executor/kernels/volume/volume.h"

enum { IN_X, GRAD_IN_OUT, GRAD_IN_OUT_GRAD, OUT = 0, OUT_MASK };
enum { INDEX_IN_MASK = 1, INDEX_IN_OUT_GRAD };

typedef struct pool3d_state {
    windows w;
    bool max, adaptive, exclusive;
} pool3d_state;

typedef struct box {
    int64_t first[AXES], end[AXES], count;
} box;

static weft_status prepare_common(kernel_prepare *p, const tensor *y, bool has_kind) {
    pool3d_state *s = KERNEL_STATE(p, pool3d_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    const char *kind = has_kind ? attr_string(p->op, "pooling_type", "max") : "max";
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Out"));
    TRY(volume_prepare(p, x, &s->w.in));
    TRY(volume_prepare(p, y, &s->w.out));
    if (x->ndim != y->ndim || s->w.in.count != s->w.out.count || s->w.in.channels != s->w.out.channels)
        return kernel_unsupported(p, "expected Out of X's batch and channels");
    s->max = strcmp(kind, "max") == 0;
    if (!s->max && strcmp(kind, "avg") != 0) return kernel_unsupported(p, "expected max or avg, found %s", kind);
    s->exclusive = attr_bool(p->op, "exclusive", true);
    s->adaptive = attr_bool(p->op, "adaptive", false);
    bool global = attr_bool(p->op, "global_pooling", false);
    size_t n;
    const int64_t *size = attr_ints(p->op, "ksize", &n);
    for (int d = 0; d < AXES; d++) {
        int at = d - (AXES + 2 - x->ndim);
        s->w.size[d] = global || s->adaptive || at < 0 || (size_t)at >= n ? s->w.in.extent[d] : size[at];
    }
    TRY(windows_prepare(p, &s->w));
    for (int d = 0; d < AXES && global; d++) s->w.before[d] = 0, s->w.stride[d] = 1;
    return NULL;
}

static box box_of(const pool3d_state *s, int64_t window) {
    const volume *o = &s->w.out;
    const int64_t at[AXES] = {window / (o->extent[1] * o->extent[2]), window / o->extent[2] % o->extent[1],
                              window % o->extent[2]};
    box b = {.count = 1};
    for (int d = 0; d < AXES; d++) {
        int64_t extent = s->w.in.extent[d], n = o->extent[d], before = s->w.before[d];
        int64_t first = at[d] * s->w.stride[d] - before, end = first + s->w.size[d];
        if (s->adaptive) first = at[d] * extent / n, end = ((at[d] + 1) * extent + n - 1) / n;
        if (end > extent + before) end = extent + before;
        int64_t padded = end - first;
        b.first[d] = first < 0 ? 0 : first;
        b.end[d] = end > extent ? extent : end;
        b.count *= s->exclusive || s->adaptive ? b.end[d] - b.first[d] : padded;
    }
    return b;
}

static int64_t offset_in(const volume *v, int64_t n, int64_t c, int64_t i) {
    int64_t x = i % v->extent[2], y = i / v->extent[2] % v->extent[1], z = i / (v->extent[2] * v->extent[1]);
    return n * v->image + c * v->channel + z * v->axis[0] + y * v->axis[1] + x * v->axis[2];
}

#define FOR_EACH_IN(b, v, base, at, where)                                                                             \
    for (int64_t z_ = (b)->first[0]; z_ < (b)->end[0]; z_++)                                                           \
        for (int64_t y_ = (b)->first[1]; y_ < (b)->end[1]; y_++)                                                       \
            for (int64_t x_ = (b)->first[2], at = (base) + z_ * (v)->axis[0] + y_ * (v)->axis[1] + x_ * (v)->axis[2],  \
                         where = (z_ * (v)->extent[1] + y_) * (v)->extent[2] + x_;                                     \
                 x_ < (b)->end[2]; x_++, at += (v)->axis[2], where++)

static double pooled(const pool3d_state *s, const box *b, const tensor *x, int64_t base, int64_t *out_where) {
    double best = -INFINITY, sum = 0;
    *out_where = -1;
    FOR_EACH_IN(b, &s->w.in, base, at, where) {
        double value = tensor_real(x, at);
        sum += value;
        if (*out_where < 0 || value > best || (isnan(value) && !isnan(best))) best = value, *out_where = where;
    }
    return s->max ? best : b->count ? sum / (double)b->count : 0;
}

static weft_status run_pool(const kernel_call *c, tensor *out, int32_t *mask) {
    const pool3d_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    for (int64_t n = 0; n < s->w.out.count; n++)
        for (int64_t ch = 0; ch < s->w.out.channels; ch++)
            for (int64_t i = 0; i < s->w.out.positions; i++) {
                box b = box_of(s, i);
                int64_t where, at = offset_in(&s->w.out, n, ch, i);
                double value = pooled(s, &b, x, n * s->w.in.image + ch * s->w.in.channel, &where);
                if (out) tensor_set_real(out, at, value);
                if (mask) mask[at] = (int32_t)where;
            }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    return run_pool(c, arg_out(c, OUT), NULL);
}
static weft_status run_index(const kernel_call *c) {
    return run_pool(c, arg_out(c, OUT), data_or_null(arg_out(c, OUT_MASK)));
}

static void add_at(tensor *t, int64_t i, double value) {
    tensor_set_real(t, i, tensor_real(t, i) + value);
}

static weft_status run_grad(const kernel_call *c) {
    const pool3d_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    for (int64_t n = 0; n < s->w.out.count; n++)
        for (int64_t ch = 0; ch < s->w.out.channels; ch++)
            for (int64_t i = 0; i < s->w.out.positions; i++) {
                box b = box_of(s, i);
                int64_t base = n * s->w.in.image + ch * s->w.in.channel, first = 0;
                double slope = tensor_real(g, offset_in(&s->w.out, n, ch, i));
                if (s->max) pooled(s, &b, x, base, &first);
                FOR_EACH_IN(&b, &s->w.in, base, at, where)
                if (!s->max || where == first) add_at(dx, at, s->max ? slope : slope / (double)b.count);
            }
    return NULL;
}

static weft_status run_index_grad(const kernel_call *c) {
    const pool3d_state *s = c->state;
    const tensor *mask = arg_in(c, INDEX_IN_MASK), *g = arg_in(c, INDEX_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    for (int64_t n = 0; n < s->w.out.count; n++)
        for (int64_t ch = 0; ch < s->w.out.channels; ch++)
            for (int64_t i = 0; i < s->w.out.positions; i++) {
                int64_t from = offset_in(&s->w.out, n, ch, i), where = tensor_integer(mask, from);
                if (where < 0 || where >= s->w.in.positions)
                    return kernel_failed(c, "Mask: expected a place below %lld, found %lld",
                                         (long long)s->w.in.positions, (long long)where);
                add_at(dx, offset_in(&s->w.in, n, ch, where), tensor_real(g, from));
            }
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT), true);
}
static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *y = type_in(p, GRAD_IN_OUT_GRAD);
    TRY(prepare_common(p, y, true));
    TRY(require_same_dtype(p, type_in(p, IN_X), y, "Out@GRAD"));
    return require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}
static weft_status prepare_index(kernel_prepare *p) {
    const tensor *mask = type_out(p, OUT_MASK);
    TRY(prepare_common(p, type_out(p, OUT), false));
    if (!mask) return NULL;
    if (mask->dtype != WEFT_INT32) return kernel_unsupported(p, "expected a Mask of int32");
    return require_numel(p, mask, type_out(p, OUT)->numel, "Mask");
}
static weft_status prepare_index_grad(kernel_prepare *p) {
    const tensor *y = type_in(p, INDEX_IN_OUT_GRAD);
    TRY(prepare_common(p, y, false));
    TRY(require_numel(p, type_in(p, INDEX_IN_MASK), y->numel, "Mask"));
    TRY(require_same_dtype(p, type_in(p, IN_X), y, "Out@GRAD"));
    return require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}

const kernel kernel_pool3d = {prepare, run};
const kernel kernel_pool3d_grad = {prepare_grad, run_grad};
const kernel kernel_max_pool_with_index = {prepare_index, run_index};
const kernel kernel_max_pool_with_index_grad = {prepare_index_grad, run_index_grad};
