/* expand.c: tensors repeated: to a shape that they broadcast to (expand, meshgrid), or a number of times (tile);
 * gradients add up what was repeated, in double and in memory order. */
#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"

/* --- broadcasting ------------------------------------------------------------------------------------------------- */

typedef struct expand_state {
    loops l;      /* operand 0 the repeated tensor, operand 1 the original */
    int gradient; /* input slot of the repeated tensor's gradient */
} expand_state;

static int slot_named(const kernel_prepare *p, const char *slot_name) {
    for (size_t i = 0; i < p->schema->ninputs; i++)
        if (strcmp(p->schema->inputs[i].name, slot_name) == 0) return (int)i;
    return 0;
}

static weft_status prepare_stretched(kernel_prepare *p, const tensor *x, const tensor *repeated, loops *out) {
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, repeated, "Out"));
    TRY(require_same_dtype(p, x, repeated, "Out"));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    strides_dense(repeated->ndim, repeated->dims, strides[0]);
    if (!strides_broadcast(x, -1, repeated->ndim, repeated->dims, strides[1]))
        return kernel_unsupported(p, "expected X of a shape that broadcasts to Out");
    loops_init(out, repeated->ndim, repeated->dims, 2, strides);
    return NULL;
}

static weft_status prepare_pair(kernel_prepare *p, const tensor *x, const tensor *repeated) {
    expand_state *s = KERNEL_STATE(p, expand_state);
    if (!s) return base_out_of_memory();
    return prepare_stretched(p, x, repeated, &s->l);
}

static weft_status prepare_expand(kernel_prepare *p) {
    return prepare_pair(p, type_in(p, 0), type_out(p, 0));
}

static weft_status prepare_expand_grad(kernel_prepare *p) {
    int slot_index = slot_named(p, "Out@GRAD");
    const tensor *dx = type_out(p, 0);
    TRY(prepare_pair(p, dx, type_in(p, slot_index)));
    if (!dtype_is_float(dx->dtype))
        return kernel_unsupported(p, "expected gradients of a float type, found %s", dtype_text(dx->dtype));
    ((expand_state *)p->state)->gradient = slot_index;
    p->workspace_nbytes = (size_t)dx->numel * sizeof(double);
    return NULL;
}

static weft_status run_expand(const kernel_call *c) {
    const expand_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    copy_loops(&s->l, weft_dtype_nbytes(x->dtype), arg_out(c, 0)->data, x->data);
    return NULL;
}

static void sum_repeated(const loops *l, const tensor *dy, const tensor *dx, double *acc) {
    memset(acc, 0, (size_t)dx->numel * sizeof *acc);
    accumulate_loops(l, dy->dtype, dy->data, acc);
    store_doubles(dx->dtype, dx->numel, acc, dx->data);
}

static weft_status run_expand_grad(const kernel_call *c) {
    const expand_state *s = c->state;
    sum_repeated(&s->l, arg_in(c, s->gradient), arg_out(c, 0), c->workspace);
    return NULL;
}

const kernel kernel_expand_v2 = {prepare_expand, run_expand};
const kernel kernel_expand_as_v2 = {prepare_expand, run_expand};
const kernel kernel_expand_v2_grad = {prepare_expand_grad, run_expand_grad};
const kernel kernel_expand_as_v2_grad = {prepare_expand_grad, run_expand_grad};

/* --- meshgrid: argument k repeats along all dimensions but the k-th ----------------------------------------------- */

enum { MESH_IN_X, MESH_IN_OUT_GRAD, MESH_IN_OUTPUTS_GRAD };

typedef struct mesh_state {
    int gradient;
    loops l[WEFT_MAX_RANK];
} mesh_state;

static weft_status prepare_grid(kernel_prepare *p, const tensor *grids, uint32_t ngrids) {
    mesh_state *s = KERNEL_STATE(p, mesh_state);
    if (!s) return base_out_of_memory();
    uint32_t n = p->in_first[MESH_IN_X + 1];
    if (n != ngrids || n > WEFT_MAX_RANK || p->out_first[1] != n)
        return kernel_unsupported(p, "expected at most %d vectors and as many grids, found %u and %u", WEFT_MAX_RANK, n,
                                  ngrids);
    for (uint32_t k = 0; k < n; k++) {
        const tensor *grid = &grids[k];
        int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}};
        TRY(require_same_dtype(p, &p->in[k], grid, "a grid"));
        if (grid->ndim != (int)n || grid->dims[k] != p->in[k].numel)
            return kernel_unsupported(p, "expected a grid of %u dimensions", n);
        strides_dense(grid->ndim, grid->dims, strides[0]);
        strides[1][k] = 1;
        loops_init(&s->l[k], grid->ndim, grid->dims, 2, strides);
    }
    return NULL;
}

static weft_status prepare_meshgrid(kernel_prepare *p) {
    return prepare_grid(p, p->out, p->out_first[1]);
}

static weft_status prepare_meshgrid_grad(kernel_prepare *p) {
    int from = type_in(p, MESH_IN_OUT_GRAD) ? MESH_IN_OUT_GRAD : MESH_IN_OUTPUTS_GRAD;
    TRY(prepare_grid(p, p->in + p->in_first[from], p->in_first[from + 1] - p->in_first[from]));
    ((mesh_state *)p->state)->gradient = from;
    for (uint32_t k = 0; k < p->in_first[MESH_IN_X + 1]; k++) {
        size_t nbytes = (size_t)p->in[k].numel * sizeof(double);
        if (!dtype_is_float(p->in[k].dtype)) return kernel_unsupported(p, "expected gradients of a float type");
        if (nbytes > p->workspace_nbytes) p->workspace_nbytes = nbytes;
    }
    return NULL;
}

static weft_status run_meshgrid(const kernel_call *c) {
    const mesh_state *s = c->state;
    for (uint32_t k = 0; k < c->in_first[MESH_IN_X + 1]; k++)
        copy_loops(&s->l[k], weft_dtype_nbytes(c->in[k].dtype), c->out[k].data, c->in[k].data);
    return NULL;
}

static weft_status run_meshgrid_grad(const kernel_call *c) {
    const mesh_state *s = c->state;
    for (uint32_t k = 0; k < c->in_first[MESH_IN_X + 1]; k++)
        if (c->out[k].data) sum_repeated(&s->l[k], &c->in[c->in_first[s->gradient] + k], &c->out[k], c->workspace);
    return NULL;
}

const kernel kernel_meshgrid = {prepare_meshgrid, run_meshgrid};
const kernel kernel_meshgrid_grad = {prepare_meshgrid_grad, run_meshgrid_grad};

/* --- broadcast_tensors: each argument as large as all need -------------------------------------------------------- */

static weft_status prepare_broadcast(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    loops *l = arena_alloc(p->arena, (n + 1) * sizeof *l);
    if (!l) return base_out_of_memory();
    p->state = l;
    if (p->out_first[1] != n) return kernel_unsupported(p, "expected as many results as arguments");
    for (uint32_t k = 0; k < n; k++) TRY(prepare_stretched(p, &p->in[k], &p->out[k], &l[k]));
    return NULL;
}

static weft_status run_broadcast(const kernel_call *c) {
    const loops *l = c->state;
    for (uint32_t k = 0; k < c->in_first[1]; k++)
        copy_loops(&l[k], weft_dtype_nbytes(c->in[k].dtype), c->out[k].data, c->in[k].data);
    return NULL;
}

static weft_status prepare_broadcast_grad(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    loops *l = arena_alloc(p->arena, (n + 1) * sizeof *l);
    if (!l) return base_out_of_memory();
    p->state = l;
    if (p->in_first[2] != 2 * n) return kernel_unsupported(p, "expected as many gradients as arguments");
    for (uint32_t k = 0; k < n; k++) {
        const tensor *x = &p->in[k], *dy = &p->in[n + k];
        TRY(prepare_stretched(p, x, dy, &l[k]));
        if (!dtype_is_float(x->dtype)) return kernel_unsupported(p, "expected gradients of a float type");
        size_t nbytes = (size_t)x->numel * sizeof(double);
        if (nbytes > p->workspace_nbytes) p->workspace_nbytes = nbytes;
    }
    return NULL;
}

static weft_status run_broadcast_grad(const kernel_call *c) {
    const loops *l = c->state;
    uint32_t n = c->in_first[1];
    for (uint32_t k = 0; k < n; k++)
        if (c->out[k].data) sum_repeated(&l[k], &c->in[n + k], &c->out[k], c->workspace);
    return NULL;
}

const kernel kernel_broadcast_tensors = {prepare_broadcast, run_broadcast};
const kernel kernel_broadcast_tensors_grad = {prepare_broadcast_grad, run_broadcast_grad};

/* --- tile: copies side by side ------------------------------------------------------------------------------------ */

/* Extents of both tensors, aligned at the end; ones before the shorter. */
typedef struct tile_state {
    int ndim, gradient;
    int64_t small[WEFT_MAX_RANK], large[WEFT_MAX_RANK], small_stride[WEFT_MAX_RANK];
} tile_state;

static weft_status prepare_tiles(kernel_prepare *p, const tensor *x, const tensor *y) {
    tile_state *s = KERNEL_STATE(p, tile_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, y, "Out"));
    TRY(require_same_dtype(p, x, y, "Out"));
    s->ndim = y->ndim;
    if (x->ndim > y->ndim) return kernel_unsupported(p, "expected Out of at least X's rank");
    for (int i = 0; i < y->ndim; i++) {
        int of_x = i - (y->ndim - x->ndim);
        s->small[i] = of_x < 0 ? 1 : x->dims[of_x];
        s->large[i] = y->dims[i];
        if (s->small[i] ? s->large[i] % s->small[i] : s->large[i])
            return kernel_unsupported(p, "expected whole copies of X in dimension %d", i);
    }
    strides_dense(s->ndim, s->small, s->small_stride);
    return NULL;
}

static weft_status prepare_tile(kernel_prepare *p) {
    return prepare_tiles(p, type_in(p, 0), type_out(p, 0));
}

static weft_status prepare_tile_grad(kernel_prepare *p) {
    int slot_index = slot_named(p, "Out@GRAD");
    const tensor *dx = type_out(p, 0);
    TRY(prepare_tiles(p, dx, type_in(p, slot_index)));
    if (!dtype_is_float(dx->dtype)) return kernel_unsupported(p, "expected gradients of a float type");
    ((tile_state *)p->state)->gradient = slot_index;
    p->workspace_nbytes = (size_t)dx->numel * sizeof(double);
    return NULL;
}

/* Steps through the rows (all but the last dimension) of the large tensor; returns the small one's row, or -1 at the
 * end. */
static int64_t next_row(const tile_state *s, int64_t *index) {
    int i = s->ndim - 2;
    for (; i >= 0 && ++index[i] == s->large[i]; i--) index[i] = 0;
    if (i < 0) return -1;
    int64_t at = 0;
    for (int d = 0; d < s->ndim - 1; d++) at += index[d] % s->small[d] * s->small_stride[d];
    return at;
}

static weft_status run_tile(const kernel_call *c) {
    const tile_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *y = arg_out(c, 0);
    if (y->numel == 0) return NULL;
    size_t width = weft_dtype_nbytes(x->dtype);
    int64_t run = s->ndim ? s->small[s->ndim - 1] : 1, copies = s->ndim ? s->large[s->ndim - 1] / run : 1;
    int64_t index[WEFT_MAX_RANK] = {0};
    char *to = y->data;
    for (int64_t row = 0; row >= 0; row = next_row(s, index))
        for (int64_t k = 0; k < copies; k++, to += (size_t)run * width)
            memcpy(to, (const char *)x->data + (size_t)row * width, (size_t)run * width);
    return NULL;
}

static weft_status run_tile_grad(const kernel_call *c) {
    const tile_state *s = c->state;
    const tensor *dy = arg_in(c, s->gradient);
    tensor *dx = arg_out(c, 0);
    double *acc = c->workspace;
    size_t width = weft_dtype_nbytes(dy->dtype);
    int64_t run = s->ndim ? s->small[s->ndim - 1] : 1, copies = s->ndim && run ? s->large[s->ndim - 1] / run : 1;
    int64_t index[WEFT_MAX_RANK] = {0};
    const char *from = dy->data;
    memset(acc, 0, (size_t)dx->numel * sizeof *acc);
    for (int64_t row = dy->numel ? 0 : -1; row >= 0; row = next_row(s, index))
        for (int64_t k = 0; k < copies; k++, from += (size_t)run * width)
            accumulate(dy->dtype, run, from, 1, acc + row);
    store_doubles(dx->dtype, dx->numel, acc, dx->data);
    return NULL;
}

const kernel kernel_tile = {prepare_tile, run_tile};
const kernel kernel_tile_grad = {prepare_tile_grad, run_tile_grad};
