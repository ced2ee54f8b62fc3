/* axes_run.c: an op's kernel on parts of tensors. */
#include "tests/support/axes_trial.h"

#include <math.h>

#include "ops/infer.h"
#include "tests/support/kernel_run.h"

/* --- elements ----------------------------------------------------------------------------------------------------- */

double axes_get(const tensor *t, int64_t i) {
    switch ((int)t->dtype) {
    case WEFT_FP32: return (double)((float *)t->data)[i];
    case WEFT_FP64: return ((double *)t->data)[i];
    case WEFT_INT64: return (double)((int64_t *)t->data)[i];
    case WEFT_INT32: return (double)((int32_t *)t->data)[i];
    default: return (double)((uint8_t *)t->data)[i];
    }
}

void axes_put(tensor *t, int64_t i, double x) {
    switch ((int)t->dtype) {
    case WEFT_FP32: ((float *)t->data)[i] = (float)x; break;
    case WEFT_FP64: ((double *)t->data)[i] = x; break;
    case WEFT_INT64: ((int64_t *)t->data)[i] = (int64_t)x; break;
    case WEFT_INT32: ((int32_t *)t->data)[i] = (int32_t)x; break;
    default: ((uint8_t *)t->data)[i] = (uint8_t)x; break;
    }
}

bool axes_is_float(const tensor *t) {
    return t->dtype == WEFT_FP32 || t->dtype == WEFT_FP64;
}

uint32_t axes_mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + 0x165667B19E3779F9u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* What rank `at` of n holds of element x of a partial value: shares of a sum are uneven and of both signs. Of a maximum
 * one rank has the element and the others less, each by its own amount. */
static double share_of(int reduce, double x, int64_t n, int64_t at, uint32_t h) {
    bool whole = x == floor(x);
    double offset = (double)(1 + h % 7) * (h & 8 ? 1 : -1) * (whole ? 1 : 0.125 + fabs(x) / 8), part = 0.6 * x, rest;
    int64_t owner = h % n;
    if (whole) part = floor(part);
    switch (reduce) {
    case WEFT_REDUCE_SUM:
        rest = x - (part + offset);
        if (at == 0) return part + offset;
        return n == 2 ? rest : at == 1 ? rest - 2 * offset : 2 * offset;
    case WEFT_REDUCE_AVG:
        return n == 2 ? (at ? x - offset : x + offset) : x + offset * (at == 0 ? 1 : at == 1 ? 2 : -3);
    case WEFT_REDUCE_MAX: return at == owner ? x : x - (double)(1 + (h >> 8) % 5 + (uint32_t)at) * (whole ? 1 : 0.25);
    case WEFT_REDUCE_MIN: return at == owner ? x : x + (double)(1 + (h >> 8) % 5 + (uint32_t)at) * (whole ? 1 : 0.25);
    case WEFT_REDUCE_PROD: return at == owner ? 2 * x : at == (owner + 1) % n ? 0.5 : 1;
    case WEFT_REDUCE_ANY: return x != 0 && at == owner;
    default: return x != 0 || at != owner; /* ALL */
    }
}

bool axes_make_room(tensor *t, arena *a) {
    t->numel = 1;
    for (int d = 0; d < t->ndim; d++) t->numel *= t->dims[d];
    t->data = arena_alloc(a, (size_t)t->numel * 8 + 256);
    if (t->data) memset(t->data, 0xff, (size_t)t->numel * weft_dtype_nbytes(t->dtype));
    return t->data != NULL;
}

/* The flat index in `whole` of element `i` of a part. */
int64_t axes_index_in(const tensor *whole, const tensor *part, const int64_t *offset, int64_t i) {
    int64_t index = 0, step = 1;
    if (part->numel == whole->numel) return i;
    for (int d = whole->ndim - 1; d >= 0; d--) {
        index += (offset[d] + i % part->dims[d]) * step;
        i /= part->dims[d];
        step *= whole->dims[d];
    }
    return index;
}

static bool take_input(axes_trial *t, const axes_mesh *on, const axes_placed *p, size_t k, const int64_t *at,
                       tensor *to) {
    const tensor *from = &t->in[k];
    int64_t offset[WEFT_MAX_RANK];
    *to = *from;
    if (from->dtype == WEFT_DTYPE_NONE) return true;
    axes_part(on, p, from->ndim, from->dims, at, offset, to->dims);
    if (!axes_make_room(to, &t->scratch)) return false;
    for (int64_t i = 0; i < to->numel; i++) {
        int64_t index = axes_index_in(from, to, offset, i);
        double x = axes_get(from, index);
        bool any = false;
        for (int axis = 0; axis < on->naxes; axis++) {
            any |= p->partial[axis] != 0;
            if (p->partial[axis])
                x = share_of(p->partial[axis] - 1, x, on->extent[axis], at[axis],
                             axes_mix((uint64_t)index, k * 8 + (uint64_t)axis));
        }
        if (any)
            axes_put(to, i, x);
        else
            memcpy((char *)to->data + (size_t)i * weft_dtype_nbytes(to->dtype),
                   (char *)from->data + (size_t)index * weft_dtype_nbytes(to->dtype), weft_dtype_nbytes(to->dtype));
    }
    return true;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

shape axes_type_of(const tensor *x) {
    shape s = {.dtype = (int32_t)x->dtype, .ndim = x->ndim, .height = x->height};
    memcpy(s.dims, x->dims, sizeof s.dims);
    return s;
}

/* Types of outputs on these inputs; those that inference leaves open stay as they are. */
static weft_status infer_outputs(axes_trial *t, const tensor *in, tensor *out) {
    shape *types = ARENA_ARRAY(&t->scratch, shape, t->nin + 1), *made = ARENA_ARRAY(&t->scratch, shape, t->nout + 1);
    const int64_t **values = ARENA_ARRAY(&t->scratch, const int64_t *, t->nin + 1);
    const int64_t **out_values = ARENA_ARRAY(&t->scratch, const int64_t *, t->nout + 1);
    if (!types || !made || !values || !out_values) return base_out_of_memory();
    for (uint32_t i = 0; i < t->nin; i++) {
        types[i] = axes_type_of(&in[i]);
        bool small = (in[i].dtype == WEFT_INT64 || in[i].dtype == WEFT_INT32) && in[i].numel <= WEFT_MAX_RANK;
        int64_t *list = small ? ARENA_ARRAY(&t->scratch, int64_t, in[i].numel + 1) : NULL;
        for (int64_t k = 0; list && k < in[i].numel; k++) list[k] = (int64_t)axes_get(&in[i], k);
        values[i] = list;
    }
    for (uint32_t i = 0; i < t->nout; i++) {
        made[i] = axes_type_of(&out[i]);
        made[i].ndim = -1;
    }
    infer call = {.op = t->op, .schema = t->schema, .in = types, .in_first = t->in_first, .out = made};
    call.out_first = t->out_first;
    call.in_values = values;
    call.out_values = out_values;
    call.memory = &t->scratch;
    TRY(t->schema->infer(&call));
    for (uint32_t i = 0; i < t->nout; i++) {
        if (out[i].dtype == WEFT_DTYPE_NONE) continue;
        out[i].dtype = (weft_dtype)made[i].dtype;
        if (made[i].ndim < 0) continue;
        bool known = true;
        for (int d = 0; d < made[i].ndim; d++) known &= made[i].dims[d] >= 0;
        if (!known) continue;
        out[i].ndim = made[i].ndim;
        out[i].height = made[i].height;
        memcpy(out[i].dims, made[i].dims, sizeof out[i].dims);
    }
    return NULL;
}

/* Sparse rows as the whole tensor, so that it can be compared. */
static bool spread_rows(axes_trial *t, tensor *x) {
    if (!x->rows) return true;
    tensor dense = *x;
    dense.rows = NULL;
    dense.height = -1;
    dense.dims[0] = x->height;
    if (!axes_make_room(&dense, &t->scratch)) return false;
    for (int64_t i = 0; i < dense.numel; i++) axes_put(&dense, i, 0);
    int64_t width = x->dims[0] ? x->numel / x->dims[0] : 0;
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t to = x->rows[i / width] * width + i % width;
        axes_put(&dense, to, axes_get(&dense, to) + axes_get(x, i));
    }
    *x = dense;
    return true;
}

/* Runs the kernel on `in`; outputs as inference says, or else as `out` comes. */
weft_status axes_run_kernel(axes_trial *t, const tensor *in, tensor *out) {
    TRY(infer_outputs(t, in, out));
    for (uint32_t i = 0; i < t->nout; i++) {
        if (out[i].dtype == WEFT_DTYPE_NONE) continue;
        if (!axes_make_room(&out[i], &t->scratch)) return base_out_of_memory();
        if (out[i].height >= 0 && !(out[i].rows = ARENA_ARRAY(&t->scratch, int64_t, out[i].dims[0] + 1)))
            return base_out_of_memory();
    }
    TRY(kernel_run_op(t->op, in, t->in_first, out, t->out_first, 7, &t->scratch));
    for (uint32_t i = 0; i < t->nout; i++)
        if (!spread_rows(t, &out[i])) return base_out_of_memory();
    return NULL;
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

int64_t axes_nranks(const axes_mesh *on) {
    int64_t n = 1;
    for (int i = 0; i < on->naxes; i++) n *= on->extent[i];
    return n;
}

void axes_coordinates(const axes_mesh *on, int64_t rank, int64_t *at) {
    for (int i = on->naxes - 1; i >= 0; i--) {
        at[i] = rank % on->extent[i];
        rank /= on->extent[i];
    }
}

static void keep_attrs(const weft_op *op, weft_attr *kept) {
    if (op->nattrs) memcpy(kept, op->attrs, op->nattrs * sizeof *kept);
}

static void restore_attrs(weft_op *op, const weft_attr *kept) {
    if (op->nattrs) memcpy(op->attrs, kept, op->nattrs * sizeof *kept);
}

/* Runs every rank on its part. out[rank]: what it computed. `placed`: of outputs; NULL: not known. */
weft_status axes_run_ranks(axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *placed,
                           tensor **out) {
    weft_attr *kept = ARENA_ARRAY(&t->scratch, weft_attr, t->op->nattrs + 1);
    weft_status status = NULL;
    if (!kept) return base_out_of_memory();
    keep_attrs(t->op, kept);
    for (int64_t rank = 0; rank < axes_nranks(on) && !status; rank++) {
        int64_t at[AXES_MESH], offset[WEFT_MAX_RANK];
        tensor *own = ARENA_ARRAY(&t->scratch, tensor, t->nin + 1);
        out[rank] = ARENA_ARRAY(&t->scratch, tensor, t->nout + 1);
        if (!own || !out[rank]) return base_out_of_memory();
        axes_coordinates(on, rank, at);
        for (uint32_t i = 0; i < t->nin; i++)
            if (!take_input(t, on, &in[i], i, at, &own[i])) return base_out_of_memory();
        for (uint32_t i = 0; i < t->nout; i++) {
            out[rank][i] = t->out[i];
            out[rank][i].rows = NULL;
            if (placed) axes_part(on, &placed[i], t->out[i].ndim, t->out[i].dims, at, offset, out[rank][i].dims);
        }
        if (placed) status = axes_localize(&t->rule, on, in, placed, at, t->op);
        if (!status) status = axes_run_kernel(t, own, out[rank]);
        restore_attrs(t->op, kept);
    }
    return status;
}
