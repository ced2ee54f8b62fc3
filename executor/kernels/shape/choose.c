/* choose.c: elements chosen, cut out or set by position, and the product of vectors: multiplex, crop_tensor,
 * fill_diagonal, cross, with gradients. */
#include "executor/kernels/layout.h"

/* --- multiplex: row i of the argument that Ids counts to ---------------------------------------------------------- */

enum { MULTIPLEX_X, MULTIPLEX_IDS, MULTIPLEX_OUT_GRAD };

/* Elements of a row; `result` has a row for each id. */
static weft_status prepare_choice(kernel_prepare *p, const tensor *result) {
    int64_t *width = KERNEL_STATE(p, int64_t);
    if (!width) return base_out_of_memory();
    const tensor *ids = type_in(p, MULTIPLEX_IDS), *x = type_in(p, MULTIPLEX_X);
    TRY(require_present(p, result, "Out"));
    TRY(require_present(p, ids, "Ids"));
    TRY(require_present(p, x, "X"));
    if (ids->dtype != WEFT_INT32 && ids->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64 Ids, found %s", dtype_text(ids->dtype));
    if (result->ndim < 1 || ids->numel < result->dims[0]) return kernel_unsupported(p, "expected an id for each row");
    *width = result->dims[0] ? result->numel / result->dims[0] : 0;
    for (uint32_t k = p->in_first[MULTIPLEX_X]; k < p->in_first[MULTIPLEX_X + 1]; k++) {
        TRY(require_same_dtype(p, result, &p->in[k], "X"));
        if (p->in[k].ndim != result->ndim || p->in[k].numel < result->numel)
            return kernel_unsupported(p, "expected arguments of X as large as Out");
    }
    return NULL;
}
static weft_status prepare_multiplex(kernel_prepare *p) {
    return prepare_choice(p, type_out(p, 0));
}
static weft_status prepare_multiplex_grad(kernel_prepare *p) {
    return prepare_choice(p, type_in(p, MULTIPLEX_OUT_GRAD));
}

static weft_status chosen_at(const kernel_call *c, int64_t row, uint32_t *out_id) {
    int64_t id = tensor_integer(arg_in(c, MULTIPLEX_IDS), row);
    uint32_t count = c->in_first[MULTIPLEX_X + 1] - c->in_first[MULTIPLEX_X];
    if (id < 0 || id >= count) return kernel_failed(c, "expected ids of 0 to %u, found %lld", count - 1, (long long)id);
    *out_id = (uint32_t)id;
    return NULL;
}

static weft_status run_multiplex(const kernel_call *c) {
    tensor *out = arg_out(c, 0);
    size_t nbytes = (size_t) * (const int64_t *)c->state * weft_dtype_nbytes(out->dtype);
    for (int64_t row = 0; row < out->dims[0]; row++) {
        uint32_t id = 0;
        TRY(chosen_at(c, row, &id));
        memcpy((char *)out->data + (size_t)row * nbytes,
               (const char *)c->in[c->in_first[MULTIPLEX_X] + id].data + (size_t)row * nbytes, nbytes);
    }
    return NULL;
}

static weft_status run_multiplex_grad(const kernel_call *c) {
    const tensor *g = arg_in(c, MULTIPLEX_OUT_GRAD);
    size_t nbytes = (size_t) * (const int64_t *)c->state * weft_dtype_nbytes(g->dtype);
    uint32_t count = c->out_first[1] - c->out_first[0];
    for (uint32_t k = 0; k < count; k++)
        if (c->out[k].data) tensor_clear(&c->out[k]);
    for (int64_t row = 0; row < g->dims[0]; row++) {
        uint32_t id = 0;
        TRY(chosen_at(c, row, &id));
        if (id < count && c->out[id].data)
            memcpy((char *)c->out[id].data + (size_t)row * nbytes, (const char *)g->data + (size_t)row * nbytes,
                   nbytes);
    }
    return NULL;
}

const kernel kernel_multiplex = {prepare_multiplex, run_multiplex};
const kernel kernel_multiplex_grad = {prepare_multiplex_grad, run_multiplex_grad};

/* --- crop_tensor, crop: a box of X -------------------------------------------------------------------------------- */

/* Slots of where the box begins: a tensor; a list of tensors, or none (0). */
typedef struct crop_slots {
    int offsets, list, out_grad;
} crop_slots;
static const crop_slots crop_tensor = {2, 3, 0}, crop_tensor_grad = {1, 2, 3}, crop = {2, 0, 0}, crop_grad = {1, 0, 2};
enum { CROP_X };

typedef struct crop_state {
    loops box;
    int ndim;
    const crop_slots *slots;
    int64_t offsets[WEFT_MAX_RANK], most[WEFT_MAX_RANK], strides[WEFT_MAX_RANK]; /* of the whole */
} crop_state;

static weft_status prepare_box(kernel_prepare *p, const tensor *whole, const tensor *box, const crop_slots *slots) {
    crop_state *s = KERNEL_STATE(p, crop_state);
    if (!s) return base_out_of_memory();
    size_t n;
    const int64_t *offsets = attr_ints(p->op, "offsets", &n);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_present(p, whole, "X"));
    TRY(require_present(p, box, "Out"));
    TRY(require_same_dtype(p, whole, box, "Out"));
    if (box->ndim != whole->ndim || (n && n != (size_t)whole->ndim))
        return kernel_unsupported(p, "expected %d extents and offsets, found %d and %zu", whole->ndim, box->ndim, n);
    s->ndim = whole->ndim;
    s->slots = slots;
    bool is_gradient = slots->out_grad > 0;
    strides_dense(whole->ndim, whole->dims, s->strides);
    memcpy(strides[is_gradient ? 0 : 1], s->strides, sizeof s->strides);
    strides_dense(box->ndim, box->dims, strides[is_gradient ? 1 : 0]);
    for (int d = 0; d < whole->ndim; d++) {
        s->offsets[d] = n ? offsets[d] : 0;
        s->most[d] = whole->dims[d] - box->dims[d];
    }
    loops_init(&s->box, box->ndim, box->dims, 2, strides);
    return NULL;
}
static weft_status prepare_crop_tensor(kernel_prepare *p) {
    return prepare_box(p, type_in(p, CROP_X), type_out(p, 0), &crop_tensor);
}
static weft_status prepare_crop_tensor_grad(kernel_prepare *p) {
    return prepare_box(p, type_out(p, 0), type_in(p, crop_tensor_grad.out_grad), &crop_tensor_grad);
}
static weft_status prepare_crop(kernel_prepare *p) {
    return prepare_box(p, type_in(p, CROP_X), type_out(p, 0), &crop);
}
static weft_status prepare_crop_grad(kernel_prepare *p) {
    return prepare_box(p, type_out(p, 0), type_in(p, crop_grad.out_grad), &crop_grad);
}

/* Where the box begins, in bytes: a tensor or a list of tensors counts before the attr. */
static weft_status find_box(const kernel_call *c, size_t nbytes, size_t *out_first) {
    const crop_state *s = c->state;
    const tensor *given = arg_in(c, s->slots->offsets), *list = s->slots->list ? arg_in(c, s->slots->list) : NULL;
    int64_t first = 0;
    for (int d = 0; d < s->ndim; d++) {
        int64_t offset = given ? host_integer(c, given, d) : list ? host_integer(c, list + d, 0) : s->offsets[d];
        if (offset < 0 || offset > s->most[d])
            return kernel_failed(c, "dimension %d: expected an offset of 0 to %lld, found %lld", d,
                                 (long long)s->most[d], (long long)offset);
        first += offset * s->strides[d];
    }
    *out_first = (size_t)first * nbytes;
    return NULL;
}

static weft_status run_crop_tensor(const kernel_call *c) {
    const crop_state *s = c->state;
    const tensor *x = arg_in(c, CROP_X);
    size_t nbytes = weft_dtype_nbytes(x->dtype), first = 0;
    TRY(find_box(c, nbytes, &first));
    copy_loops(&s->box, nbytes, arg_out(c, 0)->data, (const char *)x->data + first);
    return NULL;
}

static weft_status run_crop_tensor_grad(const kernel_call *c) {
    const crop_state *s = c->state;
    tensor *dx = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(dx->dtype), first = 0;
    TRY(find_box(c, nbytes, &first));
    tensor_clear(dx);
    copy_loops(&s->box, nbytes, (char *)dx->data + first, arg_in(c, s->slots->out_grad)->data);
    return NULL;
}

const kernel kernel_crop_tensor = {prepare_crop_tensor, run_crop_tensor};
const kernel kernel_crop_tensor_grad = {prepare_crop_tensor_grad, run_crop_tensor_grad};
const kernel kernel_crop = {prepare_crop, run_crop_tensor};
const kernel kernel_crop_grad = {prepare_crop_grad, run_crop_tensor_grad};

/* --- fill_diagonal of a matrix; wrapped, the diagonal begins anew below a tall one -------------------------------- */

typedef struct diagonal_state {
    double value;
    int64_t columns, offset, end; /* elements at 0, columns + 1, ... before `end`, `offset` to the right */
} diagonal_state;

static weft_status prepare_diagonal(kernel_prepare *p, double value) {
    diagonal_state *s = KERNEL_STATE(p, diagonal_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, type_out(p, 0), "Out"));
    TRY(require_same_dtype(p, x, type_out(p, 0), "Out"));
    TRY(require_numel(p, type_out(p, 0), x->numel, "Out"));
    if (x->ndim != 2) return kernel_unsupported(p, "expected a matrix, found %d dimensions", x->ndim);
    int64_t square = x->dims[1] * x->dims[1];
    *s = (diagonal_state){value, x->dims[1], attr_int(p->op, "offset", 0), x->numel};
    if (!attr_bool(p->op, "wrap", false) && square < s->end) s->end = square;
    return NULL;
}
static weft_status prepare_fill_diagonal(kernel_prepare *p) {
    return prepare_diagonal(p, attr_float(p->op, "value", 0));
}
static weft_status prepare_fill_diagonal_grad(kernel_prepare *p) {
    return prepare_diagonal(p, 0);
}

static weft_status run_fill_diagonal(const kernel_call *c) {
    const diagonal_state *s = c->state;
    tensor *out = arg_out(c, 0);
    copy_bytes(out->data, arg_in(c, 0)->data, tensor_nbytes(out));
    for (int64_t i = 0; i < s->end; i += s->columns + 1) {
        int64_t column = i % s->columns + s->offset;
        if (column >= 0 && column < s->columns)
            fill_elements(out->dtype, (char *)out->data + (size_t)(i + s->offset) * weft_dtype_nbytes(out->dtype), 1,
                          s->value);
    }
    return NULL;
}

const kernel kernel_fill_diagonal = {prepare_fill_diagonal, run_fill_diagonal};
const kernel kernel_fill_diagonal_grad = {prepare_fill_diagonal_grad, run_fill_diagonal};

/* --- cross: of vectors of 3 along a dimension --------------------------------------------------------------------- */

enum { CROSS_X, CROSS_Y, CROSS_OUT_GRAD, NO_DIMENSION = 9 /* Paddle's default: the first of extent 3 */ };

static weft_status prepare_vectors(kernel_prepare *p, const tensor *result) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, CROSS_X);
    int64_t dim = attr_int(p->op, "dim", NO_DIMENSION);
    TRY(require_real(p, x, "X"));
    TRY(require_like(p, x, type_in(p, CROSS_Y), x->numel, "Y"));
    TRY(require_present(p, result, "Out"));
    TRY(require_like(p, x, result, x->numel, "Out"));
    for (int d = 0; d < x->ndim && dim == NO_DIMENSION; d++)
        if (x->dims[d] == 3) dim = d;
    TRY(axis_split_prepare(p, x, dim, s));
    return s->extent == 3 ? NULL : kernel_unsupported(p, "expected an extent of 3, found %lld", (long long)s->extent);
}
static weft_status prepare_cross(kernel_prepare *p) {
    return prepare_vectors(p, type_out(p, 0));
}
static weft_status prepare_cross_grad(kernel_prepare *p) {
    TRY(prepare_vectors(p, type_in(p, CROSS_OUT_GRAD)));
    for (int o = 0; o < 2; o++) TRY(require_like(p, type_in(p, 0), type_out(p, o), type_in(p, 0)->numel, "a gradient"));
    return NULL;
}

/* out = a x b, of every column. */
static void multiply_vectors(const axis_split *s, const tensor *a, const tensor *b, tensor *out) {
    for (int64_t column = 0; out && column < s->outer * s->inner; column++) {
        int64_t at = column / s->inner * 3 * s->inner + column % s->inner;
        double u[3], v[3];
        for (int i = 0; i < 3; i++) {
            u[i] = tensor_real(a, at + i * s->inner);
            v[i] = tensor_real(b, at + i * s->inner);
        }
        for (int i = 0; i < 3; i++)
            tensor_set_real(out, at + i * s->inner, u[(i + 1) % 3] * v[(i + 2) % 3] - u[(i + 2) % 3] * v[(i + 1) % 3]);
    }
}

static weft_status run_cross(const kernel_call *c) {
    multiply_vectors(c->state, arg_in(c, CROSS_X), arg_in(c, CROSS_Y), arg_out(c, 0));
    return NULL;
}

/* dX = Y x dOut, dY = dOut x X */
static weft_status run_cross_grad(const kernel_call *c) {
    const tensor *g = arg_in(c, CROSS_OUT_GRAD);
    multiply_vectors(c->state, arg_in(c, CROSS_Y), g, arg_out(c, 0));
    multiply_vectors(c->state, g, arg_in(c, CROSS_X), arg_out(c, 1));
    return NULL;
}

const kernel kernel_cross = {prepare_cross, run_cross};
const kernel kernel_cross_grad = {prepare_cross_grad, run_cross_grad};
