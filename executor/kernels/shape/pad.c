/* pad.c: borders around tensors (pad, pad3d) and diagonals of matrices (diag_v2), with gradients.
 *
 * A constant border is a fill and a copy of a box. The borders of pad3d that repeat elements are a table for each
 * spatial dimension: which element of the input every element of the output shows. */
#include "executor/kernels/layout.h"

enum { IN_X, OUT = 0 };

/* --- pad: [before, after] a dimension ----------------------------------------------------------------------------- */

enum { PAD_GRAD_IN_OUT_GRAD = 1 };

typedef struct pad_state {
    loops box;
    int64_t offset; /* of the box in the padded tensor */
    double value;
} pad_state;

static weft_status prepare_box(kernel_prepare *p, const tensor *inner, const tensor *padded, bool grad) {
    pad_state *s = KERNEL_STATE(p, pad_state);
    if (!s) return base_out_of_memory();
    size_t n;
    const int64_t *paddings = attr_ints(p->op, "paddings", &n);
    TRY(require_present(p, inner, "X"));
    TRY(require_present(p, padded, "Out"));
    TRY(require_same_dtype(p, inner, padded, "Out"));
    if (n != 2 * (size_t)inner->ndim || padded->ndim != inner->ndim)
        return kernel_unsupported(p, "expected %d paddings, found %zu", 2 * inner->ndim, n);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int of_padded = grad ? 1 : 0;
    strides_dense(padded->ndim, padded->dims, strides[of_padded]);
    strides_dense(inner->ndim, inner->dims, strides[1 - of_padded]);
    for (int i = 0; i < inner->ndim; i++) {
        if (paddings[2 * i] < 0 || paddings[2 * i + 1] < 0 ||
            inner->dims[i] + paddings[2 * i] + paddings[2 * i + 1] != padded->dims[i])
            return kernel_unsupported(p, "expected paddings that make X as large as Out in dimension %d", i);
        s->offset += paddings[2 * i] * strides[of_padded][i];
    }
    loops_init(&s->box, inner->ndim, inner->dims, 2, strides);
    s->value = attr_float(p->op, "pad_value", 0);
    return NULL;
}

static weft_status prepare_pad(kernel_prepare *p) {
    return prepare_box(p, type_in(p, IN_X), type_out(p, OUT), false);
}
static weft_status prepare_pad_grad(kernel_prepare *p) {
    return prepare_box(p, type_out(p, OUT), type_in(p, PAD_GRAD_IN_OUT_GRAD), true);
}

static weft_status run_pad(const kernel_call *c) {
    const pad_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *y = arg_out(c, OUT);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    fill_elements(y->dtype, y->data, y->numel, s->value);
    copy_loops(&s->box, nbytes, (char *)y->data + (size_t)s->offset * nbytes, x->data);
    return NULL;
}

static weft_status run_pad_grad(const kernel_call *c) {
    const pad_state *s = c->state;
    const tensor *dy = arg_in(c, PAD_GRAD_IN_OUT_GRAD);
    size_t nbytes = weft_dtype_nbytes(dy->dtype);
    copy_loops(&s->box, nbytes, arg_out(c, OUT)->data, (const char *)dy->data + (size_t)s->offset * nbytes);
    return NULL;
}

const kernel kernel_pad = {prepare_pad, run_pad};
const kernel kernel_pad_grad = {prepare_pad_grad, run_pad_grad};

/* --- pad3d -------------------------------------------------------------------------------------------------------- */

enum { PAD3D_IN_PADDINGS = 1, PAD3D_IN_OUT_GRAD, SPATIAL = 3 };
typedef enum border { BORDER_CONSTANT, BORDER_REFLECT, BORDER_REPLICATE, BORDER_CIRCULAR } border;

typedef struct pad3d_state {
    border kind;
    double value;
    bool channels_last;
    int64_t before[SPATIAL]; /* depth, height, width; from the attr */
} pad3d_state;

static weft_status prepare_pad3d_pair(kernel_prepare *p, const tensor *x, const tensor *y) {
    static const char *const kinds[] = {"constant", "reflect", "replicate", "circular"};
    pad3d_state *s = KERNEL_STATE(p, pad3d_state);
    if (!s) return base_out_of_memory();
    const char *kind = attr_string(p->op, "mode", "constant");
    size_t n;
    const int64_t *paddings = attr_ints(p->op, "paddings", &n);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, y, "Out"));
    TRY(require_same_dtype(p, x, y, "Out"));
    if (x->ndim != 5 || y->ndim != 5) return kernel_unsupported(p, "expected 5 dimensions, found %d", x->ndim);
    if (!type_in(p, PAD3D_IN_PADDINGS) && n != 2 * SPATIAL)
        return kernel_unsupported(p, "expected 6 paddings, found %zu", n);
    while (s->kind < BORDER_CIRCULAR && strcmp(kind, kinds[s->kind]) != 0) s->kind++;
    if (strcmp(kind, kinds[s->kind]) != 0) return kernel_unsupported(p, "expected another mode than %s", kind);
    s->value = attr_float(p->op, "value", 0);
    s->channels_last = strcmp(attr_string(p->op, "data_format", "NCDHW"), "NDHWC") == 0;
    for (int d = 0; d < SPATIAL && n == 2 * SPATIAL; d++) s->before[d] = paddings[2 * (SPATIAL - 1 - d)];
    for (int d = 0; d < SPATIAL; d++) p->workspace_nbytes += (size_t)y->dims[d + (s->channels_last ? 1 : 2)] * 8;
    return NULL;
}

static weft_status prepare_pad3d(kernel_prepare *p) {
    return prepare_pad3d_pair(p, type_in(p, IN_X), type_out(p, OUT));
}
static weft_status prepare_pad3d_grad(kernel_prepare *p) {
    TRY(require_real(p, type_in(p, PAD3D_IN_OUT_GRAD), "Out@GRAD"));
    return prepare_pad3d_pair(p, type_out(p, OUT), type_in(p, PAD3D_IN_OUT_GRAD));
}

/* The input element shown at position i of a padded dimension; -1: the constant, or none. */
static int64_t shown_at(border kind, int64_t i, int64_t extent) {
    if (i >= 0 && i < extent) return i;
    if (kind == BORDER_REPLICATE) return i < 0 ? 0 : extent - 1;
    if (kind == BORDER_CIRCULAR) return extent ? (i % extent + extent) % extent : -1;
    if (kind == BORDER_CONSTANT) return -1;
    int64_t mirrored = i < 0 ? -i : 2 * (extent - 1) - i;
    return mirrored >= 0 && mirrored < extent ? mirrored : -1;
}

/* Tables of the three dimensions of y, one after another in the workspace. */
static void make_tables(const kernel_call *c, const pad3d_state *s, const tensor *x, const tensor *y) {
    const tensor *paddings = arg_in(c, PAD3D_IN_PADDINGS);
    int64_t *table = c->workspace;
    for (int d = 0; d < SPATIAL; d++) {
        int at = d + (s->channels_last ? 1 : 2);
        int64_t before = paddings ? host_integer(c, paddings, 2 * (SPATIAL - 1 - d)) : s->before[d];
        for (int64_t i = 0; i < y->dims[at]; i++) *table++ = shown_at(s->kind, i - before, x->dims[at]);
    }
}

/* For every element of y, in order, the offset in x of what it shows, or -1: visit(user, y offset, x offset). Elements
 * are runs of `inner` channels where those are last. */
typedef struct shown {
    const tensor *x, *y;
    const int64_t *depth, *height, *width;
    int64_t outer, inner, x_dims[SPATIAL], y_dims[SPATIAL];
} shown;

static shown shown_of(const kernel_call *c, const pad3d_state *s, const tensor *x, const tensor *y) {
    int first = s->channels_last ? 1 : 2;
    shown v = {.x = x, .y = y, .depth = c->workspace, .outer = x->dims[0], .inner = 1};
    *(s->channels_last ? &v.inner : &v.outer) *= x->dims[s->channels_last ? 4 : 1];
    for (int d = 0; d < SPATIAL; d++) {
        v.x_dims[d] = x->dims[first + d];
        v.y_dims[d] = y->dims[first + d];
    }
    v.height = v.depth + v.y_dims[0];
    v.width = v.height + v.y_dims[1];
    make_tables(c, s, x, y);
    return v;
}

/* The offset in x of what row (o, d, h) of y shows at its start, in elements of `inner`; -1 for a row of the border. */
static int64_t row_shown(const shown *v, int64_t o, int64_t d, int64_t h) {
    if (v->depth[d] < 0 || v->height[h] < 0) return -1;
    return ((o * v->x_dims[0] + v->depth[d]) * v->x_dims[1] + v->height[h]) * v->x_dims[2];
}

static weft_status run_pad3d(const kernel_call *c) {
    const pad3d_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *y = arg_out(c, OUT);
    shown v = shown_of(c, s, x, y);
    size_t run = (size_t)v.inner * weft_dtype_nbytes(x->dtype);
    char *to = y->data;
    fill_elements(y->dtype, y->data, y->numel, s->value);
    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t d = 0; d < v.y_dims[0]; d++)
            for (int64_t h = 0; h < v.y_dims[1]; h++) {
                int64_t row = row_shown(&v, o, d, h);
                for (int64_t w = 0; w < v.y_dims[2]; w++, to += run)
                    if (row >= 0 && v.width[w] >= 0)
                        memcpy(to, (const char *)x->data + (size_t)(row + v.width[w]) * run, run);
            }
    return NULL;
}

#define DEFINE_ADD_SHOWN(dtype, suffix, real)                                                                          \
    static void add_shown_##suffix(const shown *v, const real *dy, real *dx) {                                         \
        for (int64_t o = 0; o < v->outer; o++)                                                                         \
            for (int64_t d = 0; d < v->y_dims[0]; d++)                                                                 \
                for (int64_t h = 0; h < v->y_dims[1]; h++) {                                                           \
                    int64_t row = row_shown(v, o, d, h);                                                               \
                    for (int64_t w = 0; w < v->y_dims[2]; w++, dy += v->inner) {                                       \
                        if (row < 0 || v->width[w] < 0) continue;                                                      \
                        real *to = dx + (row + v->width[w]) * v->inner;                                                \
                        for (int64_t i = 0; i < v->inner; i++) to[i] += dy[i];                                         \
                    }                                                                                                  \
                }                                                                                                      \
    }
REAL_TYPES(DEFINE_ADD_SHOWN)
#undef DEFINE_ADD_SHOWN

static weft_status run_pad3d_grad(const kernel_call *c) {
    const tensor *dy = arg_in(c, PAD3D_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    shown v = shown_of(c, c->state, dx, dy);
    tensor_clear(dx);
    if (dy->dtype == WEFT_FP64)
        add_shown_fp64(&v, dy->data, dx->data);
    else
        add_shown_fp32(&v, dy->data, dx->data);
    return NULL;
}

const kernel kernel_pad3d = {prepare_pad3d, run_pad3d};
const kernel kernel_pad3d_grad = {prepare_pad3d_grad, run_pad3d_grad};

/* --- diag_v2 ------------------------------------------------------------------------------------------------------ */

enum { DIAG_GRAD_IN_OUT_GRAD = 1 };

typedef struct diag_state {
    loops l; /* over the diagonal; operand 0 is written */
    int64_t offset;
    bool into_matrix;
    double value;
} diag_state;

static weft_status prepare_diagonal(kernel_prepare *p, const tensor *from, const tensor *to) {
    diag_state *s = KERNEL_STATE(p, diag_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, from, "X"));
    TRY(require_present(p, to, "Out"));
    TRY(require_same_dtype(p, from, to, "Out"));
    s->into_matrix = to->ndim == 2;
    const tensor *matrix = s->into_matrix ? to : from, *vector = s->into_matrix ? from : to;
    if (matrix->ndim != 2 || vector->ndim > 1) return kernel_unsupported(p, "expected a matrix and a vector");
    int64_t diagonal = attr_int(p->op, "offset", 0), rows = matrix->dims[0], columns = matrix->dims[1];
    int64_t first_row = diagonal < 0 ? -diagonal : 0, first_column = diagonal > 0 ? diagonal : 0;
    int64_t n = rows - first_row < columns - first_column ? rows - first_row : columns - first_column;
    if (n < 0) n = 0;
    TRY(require_numel(p, vector, n, "the diagonal"));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    strides[s->into_matrix ? 0 : 1][0] = columns + 1;
    strides[s->into_matrix ? 1 : 0][0] = 1;
    loops_init(&s->l, 1, &n, 2, strides);
    s->offset = n ? first_row * columns + first_column : 0;
    s->value = attr_float(p->op, "padding_value", 0);
    return NULL;
}

static weft_status prepare_diag(kernel_prepare *p) {
    return prepare_diagonal(p, type_in(p, IN_X), type_out(p, OUT));
}
static weft_status prepare_diag_grad(kernel_prepare *p) {
    TRY(prepare_diagonal(p, type_in(p, DIAG_GRAD_IN_OUT_GRAD), type_out(p, OUT)));
    ((diag_state *)p->state)->value = 0;
    return NULL;
}

static void copy_diagonal(const diag_state *s, const tensor *from, tensor *to) {
    size_t nbytes = weft_dtype_nbytes(from->dtype), offset = (size_t)s->offset * nbytes;
    if (s->into_matrix) fill_elements(to->dtype, to->data, to->numel, s->value);
    copy_loops(&s->l, nbytes, (char *)to->data + (s->into_matrix ? offset : 0),
               (const char *)from->data + (s->into_matrix ? 0 : offset));
}

static weft_status run_diag(const kernel_call *c) {
    copy_diagonal(c->state, arg_in(c, IN_X), arg_out(c, OUT));
    return NULL;
}
static weft_status run_diag_grad(const kernel_call *c) {
    copy_diagonal(c->state, arg_in(c, DIAG_GRAD_IN_OUT_GRAD), arg_out(c, OUT));
    return NULL;
}

const kernel kernel_diag_v2 = {prepare_diag, run_diag};
const kernel kernel_diag_v2_grad = {prepare_diag_grad, run_diag_grad};
