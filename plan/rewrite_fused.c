/* rewrite_fused.c: torch's fused ops of collectives and products as what they are defined to be. Rows along another
 * dimension than the outermost are put in order by a split and a concat. */
#include "plan/unroll.h"

typedef struct fused {
    unroll *u;
    unroll_scope *s;
    weft_op *op;
    const ring *ring;
} fused;

static weft_status argument(const fused *f, weft_var *v, weft_var **out) {
    return unroll_var(f->u, f->s, v, out);
}

static weft_status temporary(const fused *f, const weft_var *like, weft_var **out) {
    shape type = {.dtype = like->dtype, .ndim = -1, .height = -1}; /* inference finds it */
    return unroll_new_var(f->u, like, &type, out);
}

static weft_status emit_product(const fused *f, weft_var *a, weft_var *b, weft_var *to) {
    weft_op *op;
    TRY(unroll_make(f->u, f->op, "matmul_v2", &op));
    TRY(weft_op_add_input(op, "X", a));
    TRY(weft_op_add_input(op, "Y", b));
    TRY(weft_op_add_output(op, "Out", to));
    return unroll_emit(f->u, op);
}

/* The ring's parts of `x` along one dimension, one after another along another. */
static weft_status emit_reorder(const fused *f, weft_var *x, int64_t from, int64_t to, weft_var *made) {
    weft_op *split, *concat;
    TRY(unroll_make(f->u, f->op, "split", &split));
    TRY(unroll_make(f->u, f->op, "concat", &concat));
    TRY(weft_op_add_input(split, "X", x));
    for (int i = 0; i < f->ring->nranks; i++) {
        weft_var *part;
        TRY(temporary(f, x, &part));
        TRY(weft_op_add_output(split, "Out", part));
        TRY(weft_op_add_input(concat, "X", part));
    }
    TRY(weft_op_set_attr_int(split, "axis", from));
    TRY(weft_op_set_attr_int(split, "num", f->ring->nranks));
    TRY(weft_op_set_attr_int(concat, "axis", to));
    TRY(weft_op_add_output(concat, "Out", made));
    TRY(unroll_emit(f->u, split));
    return unroll_emit(f->u, concat);
}

static weft_status emit_collective(const fused *f, const char *type, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(unroll_make(f->u, f->op, type, &op));
    TRY(weft_op_add_input(op, "x", x));
    TRY(weft_op_add_output(op, "out", to));
    TRY(weft_op_set_attr_int(op, "ring_id", f->ring->id));
    TRY(weft_op_set_attr_int(op, "nranks", f->ring->nranks));
    const weft_attr *reduce = op_find_attr(f->op, "reduce_type");
    if (reduce) TRY(weft_op_set_attr_int(op, "reduce_type", reduce->u.i));
    return unroll_emit(f->u, op);
}

static weft_status gather(const fused *f) {
    const slot *bs = op_find_slot(f->op, false, "Bs"), *products = op_find_slot(f->op, true, "products");
    weft_var *shard = weft_op_input(f->op, "A_shard", 0), *whole = weft_op_output(f->op, "A", 0), *stacked;
    int64_t dim = attr_int(f->op, "gather_dim", 0);
    if (!shard || !bs || !products || bs->nargs != products->nargs)
        return plan_error(f->u->b, WEFT_INVALID_PROGRAM, f->op, "expected A_shard and as many products as Bs");
    TRY(argument(f, shard, &shard));
    if (whole && !plan_is_empty_name(whole))
        TRY(argument(f, whole, &whole));
    else
        TRY(temporary(f, shard, &whole));
    stacked = whole;
    if (dim) TRY(temporary(f, shard, &stacked));
    TRY(emit_collective(f, "all_gather", shard, stacked));
    if (dim) TRY(emit_reorder(f, stacked, 0, dim, whole));
    for (uint32_t k = 0; k < bs->nargs; k++) {
        weft_var *b, *product;
        TRY(argument(f, slot_var(f->op, bs, k), &b));
        TRY(argument(f, slot_var(f->op, products, k), &product));
        TRY(emit_product(f, whole, b, product));
    }
    return NULL;
}

static weft_status scatter(const fused *f) {
    weft_var *a = weft_op_input(f->op, "A", 0), *b = weft_op_input(f->op, "B", 0), *to = weft_op_output(f->op, "out", 0),
             *product, *stacked;
    int64_t dim = attr_int(f->op, "scatter_dim", 0);
    if (!a || !b || !to) return plan_error(f->u->b, WEFT_INVALID_PROGRAM, f->op, "expected A, B and out");
    TRY(argument(f, a, &a));
    TRY(argument(f, b, &b));
    TRY(argument(f, to, &to));
    TRY(temporary(f, to, &product));
    TRY(emit_product(f, a, b, product));
    stacked = product;
    if (dim) TRY(temporary(f, to, &stacked));
    if (dim) TRY(emit_reorder(f, product, dim, 0, stacked));
    return emit_collective(f, "reduce_scatter", stacked, to);
}

bool unroll_is_fused(const char *type) {
    return strcmp(type, "fused_all_gather_matmul") == 0 || strcmp(type, "fused_matmul_reduce_scatter") == 0;
}

weft_status unroll_fused(unroll *u, unroll_scope *s, weft_op *op) {
    fused f = {.u = u, .s = s, .op = op, .ring = program_find_ring(u->program, op_ring(op))};
    if (!f.ring) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "ring %lld is not known", (long long)op_ring(op));
    return op_is(op, "fused_all_gather_matmul") ? gather(&f) : scatter(&f);
}
