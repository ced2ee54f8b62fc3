/* einsum.c: sums of products by index: einsum of one or two operands, and its gradients.
 *
 * Operands are brought into the form [batch, rows, inner] and [batch, inner, columns]. A label that stands in one
 * operand alone and not in the result is summed; then each pair of matrices is multiplied by the library, and the
 * product [batch, rows, columns] is put where the result's labels say. An operand that lies as it must is not copied.
 * The gradient of an operand is the contraction of the result's gradient with the other operand. */
#include "executor/kernels/layout.h"
#include "ops/einsum.h"

typedef struct form {
    loops to; /* operand 0: as matrices; operand 1: the tensor */
    int64_t numel;
    bool as_it_lies, sums, partial; /* sums: several elements of the tensor make one; partial: not all are written */
} form;

/* One contraction: out = sum of x * y. */
typedef struct contraction {
    form x, y, out;
    bool has_y;
    int64_t batch, rows, columns, inner;
} contraction;

/* Element strides of a tensor along each label, 0 where it is stretched; `has` tells which labels it has. */
typedef struct strides {
    int64_t of[EINSUM_LABELS];
    bool has[EINSUM_LABELS], repeats;
} strides;

static strides label_strides(const einsum_term *t, const int64_t *dims, const int64_t *extents) {
    strides s = {.repeats = false};
    int64_t own[WEFT_MAX_RANK];
    strides_dense(t->ndim, dims, own);
    for (int d = 0; d < t->ndim; d++) {
        int l = t->label[d];
        if (dims[d] != extents[l] || extents[l] == 1) continue;
        s.repeats = s.repeats || s.has[l];
        s.has[l] = true;
        s.of[l] += own[d];
    }
    return s;
}

/* The form of a tensor whose matrices are laid out by `order`. Labels that it has beside these are summed, or in the
 * result written again and again. */
static form make_form(const strides *s, const int64_t *extents, int nlabels, const int *order, int norder) {
    form f = {.numel = 1};
    int64_t dims[WEFT_MAX_RANK], stride[LOOP_OPERANDS][WEFT_MAX_RANK], step = 1;
    int64_t at[EINSUM_LABELS] = {0};
    for (int k = norder - 1; k >= 0; k--) {
        at[order[k]] = step;
        step *= extents[order[k]];
    }
    f.numel = step;
    int n = 0;
    bool listed[EINSUM_LABELS] = {false};
    for (int k = 0; k < norder; k++) listed[order[k]] = true;
    for (int pass = 0; pass < 2; pass++) /* labels that are summed come last */
        for (int k = 0; k < (pass ? nlabels : norder); k++) {
            int l = pass ? k : order[k];
            if (!s->has[l] || (pass && listed[l])) continue;
            dims[n] = extents[l];
            stride[0][n] = at[l];
            stride[1][n++] = s->of[l];
            f.sums = f.sums || pass;
        }
    loops_init(&f.to, n, dims, 2, stride);
    f.partial = s->repeats;
    f.as_it_lies = !f.sums && !f.partial && f.to.numel == f.numel && f.to.naxes == 1 && loops_stride(&f.to, 0) == 1 &&
                   loops_stride(&f.to, 1) == 1;
    return f;
}

/* Splits labels by where they stand. */
static void plan_contraction(contraction *c, const einsum_term *xt, const int64_t *xdims, const einsum_term *yt,
                             const int64_t *ydims, const einsum_term *ot, const int64_t *odims, int nlabels) {
    int64_t extents[EINSUM_LABELS];
    for (int l = 0; l < nlabels; l++) extents[l] = 1;
    const einsum_term *terms[] = {xt, yt, ot};
    const int64_t *dims[] = {xdims, ydims, odims};
    for (int k = 0; k < 3; k++)
        for (int d = 0; terms[k] && d < terms[k]->ndim; d++)
            if (extents[terms[k]->label[d]] == 1) extents[terms[k]->label[d]] = dims[k][d];
    static const einsum_term none;
    strides x = label_strides(xt, xdims, extents), y = label_strides(yt ? yt : &none, ydims, extents);
    strides o = label_strides(ot, odims, extents);
    int groups[4][EINSUM_LABELS], count[4] = {0}; /* batch, rows, inner, columns */
    for (int l = 0; l < nlabels; l++) {
        int g = x.has[l] && y.has[l] ? (o.has[l] ? 0 : 2) : x.has[l] && o.has[l] ? 1 : y.has[l] && o.has[l] ? 3 : -1;
        if (g >= 0) groups[g][count[g]++] = l;
    }
    int64_t size[4];
    for (int g = 0; g < 4; g++) {
        size[g] = 1;
        for (int k = 0; k < count[g]; k++) size[g] *= extents[groups[g][k]];
    }
    static const int orders[3][3] = {{0, 1, 2}, {0, 2, 3}, {0, 1, 3}};
    const strides *all[] = {&x, &y, &o};
    form *forms[] = {&c->x, &c->y, &c->out};
    for (int k = 0; k < 3; k++) {
        int order[EINSUM_LABELS], n = 0;
        for (int g = 0; g < 3; g++)
            for (int j = 0; j < count[orders[k][g]]; j++) order[n++] = groups[orders[k][g]][j];
        *forms[k] = make_form(all[k], extents, nlabels, order, n);
    }
    c->has_y = yt != NULL;
    c->batch = size[0], c->rows = size[1], c->inner = size[2], c->columns = size[3];
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

#define DEFINE_FORMS(type_id, suffix, real)                                                                            \
    /* The matrices of a tensor: its own memory, or `room`. */                                                         \
    static const real *gather_##suffix(const form *f, const real *from, real *room) {                                  \
        if (f->as_it_lies) return from;                                                                                \
        if (!f->sums) {                                                                                                \
            copy_loops(&f->to, sizeof(real), room, from);                                                              \
            return room;                                                                                               \
        }                                                                                                              \
        memset(room, 0, (size_t)f->numel * sizeof(real));                                                              \
        int64_t to = loops_stride(&f->to, 0), at = loops_stride(&f->to, 1), n = loops_run(&f->to);                     \
        for (walk w = walk_start(&f->to); w.left; walk_next(&f->to, &w))                                               \
            for (int64_t i = 0; i < n; i++) room[w.at[0] + i * to] += from[w.at[1] + i * at];                          \
        return room;                                                                                                   \
    }                                                                                                                  \
    static void put_##suffix(const form *f, const real *from, real *out, int64_t numel) {                              \
        if (f->partial) memset(out, 0, (size_t)numel * sizeof(real));                                                  \
        int64_t at = loops_stride(&f->to, 0), to = loops_stride(&f->to, 1), n = loops_run(&f->to);                     \
        for (walk w = walk_start(&f->to); w.left; walk_next(&f->to, &w))                                               \
            for (int64_t i = 0; i < n; i++) out[w.at[1] + i * to] = from[w.at[0] + i * at];                            \
    }
REAL_TYPES(DEFINE_FORMS)
#undef DEFINE_FORMS

/* Room for operands and result as matrices, in the workspace; 64-byte aligned. */
static size_t room_of(const form *f, size_t size) {
    return f->as_it_lies ? 0 : ((size_t)f->numel * size + 63) / 64 * 64;
}
static size_t room_of_contraction(const contraction *c, size_t size) {
    return room_of(&c->x, size) + room_of(&c->y, size) + room_of(&c->out, size);
}

static void multiply_fp32(const kernel_call *call, const contraction *c, const float *x, const float *y, float *out) {
    int64_t m = c->rows, n = c->columns, k = c->inner;
    for (int64_t b = 0; b < c->batch; b++)
        gemm_f32(call, false, false, m, n, k, 1, x + b * m * k, k, y + b * k * n, n, 0, out + b * m * n, n);
}
static void multiply_fp64(const kernel_call *call, const contraction *c, const double *x, const double *y,
                          double *out) {
    int64_t m = c->rows, n = c->columns, k = c->inner;
    (void)call;
    for (int64_t b = 0; b < c->batch; b++)
        gemm_f64(false, false, m, n, k, 1, x + b * m * k, k, y + b * k * n, n, 0, out + b * m * n, n);
}

#define DEFINE_CONTRACT(type_id, suffix, real)                                                                         \
    static void contract_##suffix(const kernel_call *call, const contraction *c, const void *xv, const void *yv,       \
                                  void *outv, int64_t numel) {                                                         \
        char *room = call->workspace;                                                                                  \
        if (numel && !c->inner) memset(outv, 0, (size_t)numel * sizeof(real));                                         \
        if (!numel || !c->inner) return;                                                                               \
        const real *x = gather_##suffix(&c->x, xv, (real *)(void *)room);                                              \
        room += room_of(&c->x, sizeof(real));                                                                          \
        if (!c->has_y) {                                                                                               \
            put_##suffix(&c->out, x, outv, numel);                                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        const real *y = gather_##suffix(&c->y, yv, (real *)(void *)room);                                              \
        room += room_of(&c->y, sizeof(real));                                                                          \
        real *product = c->out.as_it_lies ? outv : (real *)(void *)room;                                               \
        multiply_##suffix(call, c, x, y, product);                                                                     \
        if (!c->out.as_it_lies) put_##suffix(&c->out, product, outv, numel);                                           \
    }
REAL_TYPES(DEFINE_CONTRACT)
#undef DEFINE_CONTRACT

static void contract(const kernel_call *call, const contraction *c, const tensor *x, const tensor *y, tensor *out) {
    if (x->dtype == WEFT_FP64)
        contract_fp64(call, c, x->data, y ? y->data : NULL, out->data, out->numel);
    else
        contract_fp32(call, c, x->data, y ? y->data : NULL, out->data, out->numel);
}

/* --- einsum ------------------------------------------------------------------------------------------------------- */

enum { IN_OPERANDS, OUT = 0, OUT_CACHE, OUT_XSHAPE };

typedef struct einsum_state {
    contraction forward;
    int noperands;
} einsum_state;

static weft_status parse(const kernel_prepare *p, const tensor *operands, int n, einsum *e) {
    int ndims[EINSUM_OPERANDS];
    if (n < 1 || n > EINSUM_OPERANDS) return kernel_unsupported(p, "expected one or two operands, found %d", n);
    for (int k = 0; k < n; k++) ndims[k] = operands[k].ndim;
    const char *why = einsum_parse(attr_string(p->op, "equation", ""), n, ndims, e);
    return why ? kernel_unsupported(p, "equation: %s", why) : NULL;
}

static weft_status prepare(kernel_prepare *p) {
    einsum_state *s = KERNEL_STATE(p, einsum_state);
    if (!s) return base_out_of_memory();
    const tensor *x = p->in, *out = type_out(p, OUT);
    einsum e;
    s->noperands = (int)(p->in_first[1] - p->in_first[0]);
    TRY(parse(p, x, s->noperands, &e));
    TRY(require_real(p, x, "Operands"));
    TRY(require_present(p, out, "Out"));
    bool two = s->noperands == 2;
    if (two) TRY(require_same_dtype(p, x, x + 1, "the second operand"));
    plan_contraction(&s->forward, &e.in[0], x[0].dims, two ? &e.in[1] : NULL, two ? x[1].dims : NULL, &e.out, out->dims,
                     e.nlabels);
    p->workspace_nbytes = room_of_contraction(&s->forward, weft_dtype_nbytes(x->dtype));
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const einsum_state *s = c->state;
    contract(c, &s->forward, &c->in[0], s->noperands == 2 ? &c->in[1] : NULL, arg_out(c, OUT));
    for (uint32_t k = c->out_first[OUT_CACHE]; k < c->out_first[OUT_CACHE + 1]; k++) {
        const tensor *x = &c->in[k - c->out_first[OUT_CACHE]];
        if (c->out[k].dtype != WEFT_DTYPE_NONE) copy_bytes(c->out[k].data, x->data, tensor_nbytes(x));
    }
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

enum { GRAD_IN_CACHE, GRAD_IN_XSHAPE, GRAD_IN_OUT_GRAD };

typedef struct einsum_grad_state {
    contraction of[EINSUM_OPERANDS];
    int noperands;
} einsum_grad_state;

static weft_status prepare_grad(kernel_prepare *p) {
    einsum_grad_state *s = KERNEL_STATE(p, einsum_grad_state);
    if (!s) return base_out_of_memory();
    const tensor *x = &p->in[p->in_first[GRAD_IN_CACHE]], *g = type_in(p, GRAD_IN_OUT_GRAD);
    einsum e;
    s->noperands = (int)(p->in_first[GRAD_IN_CACHE + 1] - p->in_first[GRAD_IN_CACHE]);
    TRY(parse(p, x, s->noperands, &e));
    TRY(require_real(p, g, "Out@GRAD"));
    TRY(require_same_dtype(p, g, x, "InnerCache"));
    for (int k = 0; k < s->noperands; k++) {
        TRY(require_same_dtype(p, g, x + k, "InnerCache"));
        bool two = s->noperands == 2;
        int other = 1 - k;
        plan_contraction(&s->of[k], &e.out, g->dims, two ? &e.in[other] : NULL, two ? x[other].dims : NULL, &e.in[k],
                         x[k].dims, e.nlabels);
        size_t room = room_of_contraction(&s->of[k], weft_dtype_nbytes(g->dtype));
        if (room > p->workspace_nbytes) p->workspace_nbytes = room;
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const einsum_grad_state *s = c->state;
    const tensor *x = &c->in[c->in_first[GRAD_IN_CACHE]], *g = arg_in(c, GRAD_IN_OUT_GRAD);
    uint32_t n = c->out_first[1] - c->out_first[0];
    for (uint32_t k = 0; k < n && k < (uint32_t)s->noperands; k++)
        if (c->out[k].dtype != WEFT_DTYPE_NONE)
            contract(c, &s->of[k], g, s->noperands == 2 ? &x[1 - k] : NULL, &c->out[k]);
    return NULL;
}

const kernel kernel_einsum = {prepare, run};
const kernel kernel_einsum_grad = {prepare_grad, run_grad};
