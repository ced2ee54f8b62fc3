/* normal_several.c: outputs that are linear in several operands, one by one: products, and gradients of products, whose
 * operands are gradients themselves where a program differentiates twice. Factors of each come out; zero makes zero. */
#include "ops/axes.h"
#include "proof/equivalence/normal.h"

/* Operands that an output is linear in one by one, beside what is linear together: those of a product, and of a
 * gradient of one the other operand. */
static const struct {
    const char *type, *label, *operands[2];
} multilinear[] = {
    {"matmul_v2", "Out", {"X", "Y"}},
    {"matmul", "Out", {"X", "Y"}},
    {"bmm", "Out", {"X", "Y"}},
    {"mul", "Out", {"X", "Y"}},
    {"dot", "Out", {"X", "Y"}},
    {"elementwise_mul", "Out", {"Y", NULL}},
    {"matmul_v2_grad", "X@GRAD", {"Y", NULL}},
    {"matmul_v2_grad", "Y@GRAD", {"X", NULL}},
    {"matmul_grad", "X@GRAD", {"Y", NULL}},
    {"matmul_grad", "Y@GRAD", {"X", NULL}},
    {"bmm_grad", "X@GRAD", {"Y", NULL}},
    {"bmm_grad", "Y@GRAD", {"X", NULL}},
    {"mul_grad", "X@GRAD", {"Y", NULL}},
    {"mul_grad", "Y@GRAD", {"X", NULL}},
    {"dot_grad", "X@GRAD", {"Y", NULL}},
    {"dot_grad", "Y@GRAD", {"X", NULL}},
    {"elementwise_mul_grad", "X@GRAD", {"Y", NULL}},
    {"elementwise_mul_grad", "Y@GRAD", {"X", NULL}},
};
enum { NMULTILINEAR = sizeof multilinear / sizeof *multilinear };

/* Takes the factor from an operand that is alone in its slot, into that of *made, unless that is too large to be exact.
 */
static weft_status take_factor(normal *n, uint32_t id, uint32_t op, const char *slot_text, value *args, value *made) {
    terms *t = n->terms;
    const slot *s = slot_text ? op_find_slot(term_head(t, op)->op, false, slot_text) : NULL;
    if (!s || s->nargs != 1 || s->first >= t->items[op].nargs) return NULL;
    value *x = &args[s->first];
    if (x->factor == FACTOR_ONE || factor_is_zero(value_factor(t, *x)) || t->items[x->term].dtype != t->items[id].dtype)
        return NULL;
    bool good;
    TRY(normal_times(t, made, value_factor(t, *x), false, &good));
    if (good) x->factor = FACTOR_ONE;
    return NULL;
}

/* Of operands that the output does not depend on the factors are left out; whether there were any. */
static bool drop_factors(const normal *n, uint32_t id, uint32_t op, value *args) {
    const terms *t = n->terms;
    const weft_op *of = term_head(t, op)->op;
    bool any = false;
    for (size_t i = 0; i < op_nslots(of, false); i++) {
        const slot *s = op_slot(of, false, i);
        bool is_one = s->nargs == 1 && s->first < t->items[op].nargs;
        if (!is_one || axes_reads(term_head(t, op)->schema, term_head(t, id)->label, s->name->bytes)) continue;
        any |= args[s->first].factor != FACTOR_ONE;
        args[s->first].factor = FACTOR_ONE;
    }
    return any;
}

static weft_status multilinear_form(normal *n, uint32_t id, uint32_t op, size_t row, value *args, value *out) {
    terms *t = n->terms;
    size_t nargs = t->items[op].nargs, ndim = 0;
    value common = value_of(op), from;
    for (size_t i = 0; i < nargs; i++) args[i] = normal_of_arg(n, op, i);
    for (size_t k = 0; k < 2; k++) TRY(take_factor(n, id, op, multilinear[row].operands[k], args, &common));
    if (!drop_factors(n, id, op, args) && common.factor == FACTOR_ONE) return NULL;
    TRY(normal_op_form(n, op, args, nargs, true, &from));
    value inner = value_of(from.term);
    const int64_t *dims = term_dims(t, id, &ndim);
    bool good;
    value made = value_of(TERM_NONE);
    TRY(term_make(t, t->items[id].head, &inner, 1, t->items[id].dtype, ndim, dims, &made.term));
    TRY(normal_times(t, &made, &t->factors[from.factor], false, &good));
    if (good) TRY(normal_times(t, &made, &t->factors[common.factor], false, &good));
    if (good) *out = made; /* else they stay inside */
    return NULL;
}

static bool has_zero(const normal *n, uint32_t op, size_t row) {
    for (size_t k = 0; k < 2; k++) {
        const char *slot_text = multilinear[row].operands[k];
        const slot *s = slot_text ? op_find_slot(term_head(n->terms, op)->op, false, slot_text) : NULL;
        bool is_one = s && s->nargs == 1 && s->first < n->terms->items[op].nargs;
        if (is_one && factor_is_zero(value_factor(n->terms, normal_of_arg(n, op, s->first)))) return true;
    }
    return false;
}

/* A product with zero is that; out->term TERM_NONE: its extents are not known. */
static weft_status zero_form(normal *n, uint32_t id, value *out) {
    terms *t = n->terms;
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    value filled;
    if (!dims || ndim > WEFT_MAX_RANK) return NULL;
    shape type = {.dtype = t->items[id].dtype, .ndim = (int32_t)ndim, .height = -1};
    memcpy(type.dims, dims, ndim * sizeof *dims);
    TRY(term_fill(t, 0.0, &type, &filled));
    return normal_fill_form(n, filled.term, out);
}

/* out->term TERM_NONE: no factor comes out so. */
weft_status normal_several(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op), *which = term_head(t, id);
    size_t row = 0;
    *out = value_of(TERM_NONE);
    if (!h->op || !normal_pulls(n, t->items[id].dtype)) return NULL;
    while (row < NMULTILINEAR &&
           (!normal_is_type(h, multilinear[row].type) || strcmp(which->label, multilinear[row].label)))
        row++;
    if (row == NMULTILINEAR) return NULL;
    if (has_zero(n, op, row)) return zero_form(n, id, out);
    value *args = base_alloc(&t->context->allocator, (t->items[op].nargs + 1) * sizeof *args);
    if (!args) return base_out_of_memory();
    weft_status status = multilinear_form(n, id, op, row, args, out);
    base_free(&t->context->allocator, args, (t->items[op].nargs + 1) * sizeof *args);
    return status;
}
