/* elements.c: launchers of functions of elements of any type, and of what moves. */
#include "executor/devices/cuda/strided.h"
#include "executor/kernels/layout.h"

/* --- walks -------------------------------------------------------------------------------------------------------- */

static void init(elements_walk *w, int ndim, const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]) {
    strided_walk axes = {.args = {.p = 0}};
    strided_init(&axes, ndim, dims, nin, strides);
    w->args.walk = axes.args;
    w->args.nitems = axes.args.nitems;
}

weft_status elements_init(elements_walk *w, element_function function, weft_dtype in, weft_dtype out, int ndim,
                          const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]) {
    element_type from, to;
    if (!element_type_of(in, &from) || !element_type_of(out, &to))
        return cuda_refuse("%s to %s", weft_dtype_name(in), weft_dtype_name(out));
    *w = (elements_walk){{.function = (int)function, .type = (int)from, .out_type = (int)to}};
    init(w, ndim, dims, nin, strides);
    return NULL;
}

static weft_status size_of(weft_dtype dtype, int *out) {
    size_t n = weft_dtype_nbytes(dtype);
    *out = (int)n;
    return n == 1 || n == 2 || n == 4 || n == 8 ? NULL : cuda_refuse("elements of %zu bytes", n);
}

weft_status move_init(elements_walk *w, weft_dtype dtype, int ndim, const int64_t *dims,
                      int64_t (*strides)[WEFT_MAX_RANK]) {
    *w = (elements_walk){{.function = ELEMENTS_MOVE}};
    TRY(size_of(dtype, &w->args.size));
    init(w, ndim, dims, 1, strides);
    return NULL;
}

weft_status elements_launch(const cuda_launch *l, const elements_walk *w, void *out, const void *a, const void *b,
                            const void *c) {
    elements_args args = w->args;
    bool moves = args.function == ELEMENTS_MOVE || args.function == ELEMENTS_CHOOSE;
    args.walk.out = out;
    args.walk.in[0] = a;
    args.walk.in[1] = b;
    args.walk.in[2] = c;
    return cuda_start_items(l, moves ? CUDA_KERNEL_move_elements : CUDA_KERNEL_elements_of, args.nitems, &args);
}

static weft_status require_dense(const kernel_prepare *p) {
    for (uint32_t i = 0; i < p->in_first[p->schema->ninputs]; i++)
        if (p->in[i].dtype != WEFT_DTYPE_NONE && p->in[i].height >= 0) return cuda_refuse("rows (SelectedRows)");
    return NULL;
}

/* --- questions, and integers -------------------------------------------------------------------------------------- */

static weft_status prepare_function(kernel_prepare *p, element_function function, int nin) {
    elements_walk *w = KERNEL_STATE(p, elements_walk);
    if (!w) return base_out_of_memory();
    int64_t strides[1 + KERNEL_INPUTS][WEFT_MAX_RANK];
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_dense(p));
    strides_dense(out->ndim, out->dims, strides[0]);
    for (int k = 0; k < nin; k++) {
        if (type_in(p, k)->dtype != x->dtype) return cuda_refuse("two types");
        TRY(strided_broadcast(p, type_in(p, k), out, strides[k + 1]));
    }
    return elements_init(w, function, x->dtype, out->dtype, out->ndim, out->dims, nin, strides);
}

static weft_status launch_function(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const void *y = c->schema->ninputs > 1 ? arg_in(c, 1)->data : NULL;
    return elements_launch(l, c->state, arg_out(c, 0)->data, arg_in(c, 0)->data, y, NULL);
}

#define FUNCTION(type, name, nin)                                                                                      \
    static weft_status prepare_##type(kernel_prepare *p) {                                                             \
        return prepare_function(p, ELEMENTS_##name, nin);                                                              \
    }                                                                                                                  \
    const cuda_op cuda_##type = {.prepare = prepare_##type, .launch = launch_function};
FUNCTION(equal, equal, 2)
FUNCTION(not_equal, not_equal, 2)
FUNCTION(less_than, less_than, 2)
FUNCTION(less_equal, less_equal, 2)
FUNCTION(greater_than, greater_than, 2)
FUNCTION(greater_equal, greater_equal, 2)
FUNCTION(logical_and, logical_and, 2)
FUNCTION(logical_or, logical_or, 2)
FUNCTION(logical_xor, logical_xor, 2)
FUNCTION(logical_not, logical_not, 1)
FUNCTION(isfinite_v2, isfinite_v2, 1)
FUNCTION(isinf_v2, isinf_v2, 1)
FUNCTION(isnan_v2, isnan_v2, 1)
FUNCTION(elementwise_mod, mod, 2)
FUNCTION(elementwise_floordiv, floordiv, 2)
#undef FUNCTION

/* --- where -------------------------------------------------------------------------------------------------------- */

static weft_status prepare_where(kernel_prepare *p) {
    elements_walk *w = KERNEL_STATE(p, elements_walk);
    if (!w) return base_out_of_memory();
    int64_t strides[1 + KERNEL_INPUTS][WEFT_MAX_RANK];
    const tensor *out = type_out(p, 0);
    TRY(require_dense(p));
    if (type_in(p, 0)->dtype != WEFT_BOOL) return cuda_refuse("a condition that is no boolean");
    *w = (elements_walk){{.function = ELEMENTS_CHOOSE}};
    TRY(size_of(out->dtype, &w->args.size));
    strides_dense(out->ndim, out->dims, strides[0]);
    for (int k = 0; k < 3; k++) TRY(strided_broadcast(p, type_in(p, k), out, strides[k + 1]));
    init(w, out->ndim, out->dims, 3, strides);
    return NULL;
}

static weft_status launch_where(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return elements_launch(l, c->state, arg_out(c, 0)->data, arg_in(c, 0)->data, arg_in(c, 1)->data,
                           arg_in(c, 2)->data);
}

const cuda_op cuda_where = {.prepare = prepare_where, .launch = launch_where};

/* --- what moves --------------------------------------------------------------------------------------------------- */

typedef struct transposed {
    elements_walk walk;
    int slot;
} transposed;

/* Axis i of `to` is axis axes[i] of `from`, of the forward op; the gradient goes back. */
static weft_status prepare_transposed(kernel_prepare *p, int from_slot, bool is_grad) {
    transposed *s = KERNEL_STATE(p, transposed);
    if (!s) return base_out_of_memory();
    const tensor *from = type_in(p, from_slot), *to = type_out(p, 0);
    int64_t strides[1 + KERNEL_INPUTS][WEFT_MAX_RANK], of_from[WEFT_MAX_RANK];
    size_t count;
    const int64_t *axes = attr_ints(p->op, "axis", &count);
    s->slot = from_slot;
    if ((int)count != from->ndim || from->ndim != to->ndim) return cuda_refuse("axes of another rank");
    strides_dense(from->ndim, from->dims, of_from);
    strides_dense(to->ndim, to->dims, strides[0]);
    for (int i = 0; i < to->ndim; i++) {
        int axis = (int)(axes[i] < 0 ? axes[i] + to->ndim : axes[i]);
        if (is_grad)
            strides[1][axis] = of_from[i];
        else
            strides[1][i] = of_from[axis];
    }
    return move_init(&s->walk, from->dtype, to->ndim, to->dims, strides);
}

static weft_status prepare_transpose(kernel_prepare *p) {
    return prepare_transposed(p, 0, false);
}
static weft_status prepare_transpose_grad(kernel_prepare *p) {
    return prepare_transposed(p, 1, true);
}
static weft_status launch_transpose(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const transposed *s = c->state;
    return elements_launch(l, &s->walk, arg_out(c, 0)->data, arg_in(c, s->slot)->data, NULL, NULL);
}

const cuda_op cuda_transpose2 = {.prepare = prepare_transpose, .launch = launch_transpose};
const cuda_op cuda_transpose2_grad = {.prepare = prepare_transpose_grad, .launch = launch_transpose};

static weft_status prepare_expand(kernel_prepare *p) {
    transposed *s = KERNEL_STATE(p, transposed);
    if (!s) return base_out_of_memory();
    int64_t strides[1 + KERNEL_INPUTS][WEFT_MAX_RANK];
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_dense(p));
    strides_dense(out->ndim, out->dims, strides[0]);
    TRY(strided_broadcast(p, x, out, strides[1]));
    return move_init(&s->walk, x->dtype, out->ndim, out->dims, strides);
}

const cuda_op cuda_expand = {.prepare = prepare_expand, .launch = launch_transpose};

static weft_status prepare_triangle(kernel_prepare *p) {
    triangle_args *a = KERNEL_STATE(p, triangle_args);
    if (!a) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    TRY(size_of(x->dtype, &a->size));
    a->nitems = x->numel;
    a->nrows = x->dims[x->ndim - 2];
    a->ncolumns = x->dims[x->ndim - 1];
    a->diagonal = attr_int(p->op, "diagonal", 0);
    a->is_lower = attr_bool(p->op, "lower", true);
    return NULL;
}

static weft_status launch_triangle(const cuda_launch *l) {
    triangle_args a = *(const triangle_args *)l->call->state;
    a.x = arg_in(l->call, 0)->data;
    a.out = arg_out(l->call, 0)->data;
    return cuda_start_items(l, CUDA_KERNEL_triangles, a.nitems, &a);
}

const cuda_op cuda_tril_triu = {.prepare = prepare_triangle, .launch = launch_triangle};
