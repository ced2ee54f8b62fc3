/* read_ops.c: the terms of an op's outputs.
 *
 * One table says which ops are more than "some function of the inputs": those that only move elements (copies,
 * concatenations, slices; ops/axes.def says which change extents alone), and those of which normal forms know a rule
 * (scales, fills, sums, casts, all-reduces). They are taken as that only where attrs and extents say all that must be
 * known; otherwise they are functions like others (read_function.c). */
#include "ops/axes.h"
#include "ops/collectives.h"
#include "proof/equivalence/read.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum rule {
    RULE_NONE, /* not looked up yet */
    RULE_FUNCTION,
    RULE_NOTHING,
    RULE_SAME, /* argument k of each output is argument k of X, or of the first input slot that has any */
    RULE_COPY, /* into the first input */
    RULE_FEED,
    RULE_RESHAPE,
    RULE_CONCAT,
    RULE_SPLIT,
    RULE_SLICE,
    RULE_CAST,
    RULE_SCALE,
    RULE_FILL,
    RULE_LIKE,
    RULE_REPEAT,
    RULE_SUM,
    RULE_ADD,
    RULE_ADD_GRAD,
    RULE_REDUCE,
    RULE_EACH, /* output k of argument k, which is gathered or scattered alone */
    RULE_EINSUM
} rule;

static const struct {
    const char *type;
    rule rule;
} rules[] = {
    {"nop", RULE_NOTHING},
    {"assign", RULE_SAME},
    {"share_data", RULE_SAME},
    {"share_buffer", RULE_SAME},
    {"memcpy", RULE_SAME},
    {"memcpy_d2h", RULE_SAME},
    {"memcpy_h2d", RULE_SAME},
    {"depend", RULE_SAME},
    {"feed", RULE_FEED},
    {"feed_v2", RULE_FEED},
    {"concat", RULE_CONCAT},
    {"split", RULE_SPLIT},
    {"slice", RULE_SLICE},
    {"cast", RULE_CAST},
    {"fill_constant", RULE_FILL},
    {"fill_any_like", RULE_LIKE},
    {"fill_zeros_like", RULE_LIKE},
    {"fill_constant_batch_size_like", RULE_LIKE},
    {"expand_v2", RULE_REPEAT},
    {"expand_as_v2", RULE_REPEAT},
    {"tile", RULE_REPEAT},
    {"sum", RULE_SUM},
    {"elementwise_add", RULE_ADD},
    {"grad_add", RULE_ADD},
    {"elementwise_add_grad", RULE_ADD_GRAD},
    {"einsum", RULE_EINSUM},
    {"aten_copy_", RULE_COPY},
    {"aten_cat", RULE_CONCAT},
    {"aten_add", RULE_ADD},
    {"aten_full", RULE_LIKE},
    {"aten_full_like", RULE_LIKE},
    {"aten_new_full", RULE_LIKE},
};

/* Ops that multiply every element by a number, or divide by it. */
static const struct {
    const char *type, *number; /* the attr that holds it */
    bool divides;
} scales[] = {
    {"scale", "scale", false},
    {"aten_mul_scalar", "other", false},
    {"aten_div_scalar", "other", true},
    {"aten_foreach_mul_scalar", "scalar", false},
    {"aten_foreach_div_scalar", "scalar", true},
};

static rule find_rule(weft_op *op) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (op_is(op, rules[i].type)) return rules[i].rule;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (op_is(op, scales[i].type)) return RULE_SCALE;
    if (op_collective(op) && op_collective(op)->form == COLLECTIVE_EACH) return RULE_EACH;
    if (!op_has_effect(op, OP_VIEWS) && axes_only_reshapes(op_schema_of(op))) return RULE_RESHAPE;
    switch (op_collective_kind(op)) {
    case COLLECTIVE_ALL_REDUCE: return RULE_REDUCE;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_IDENTITY:
    case COLLECTIVE_SYNC_COMPUTE:
    case COLLECTIVE_SYNC_COMM:
    case COLLECTIVE_WAIT_COMPUTE:
    case COLLECTIVE_WAIT_COMM: return RULE_SAME;
    default: return RULE_FUNCTION;
    }
}

static rule rule_of(reader *r, weft_op *op, const op_schema *s) {
    if (!s) return find_rule(op);
    uint8_t *at = &r->rules[s->index];
    if (*at == RULE_NONE) *at = (uint8_t)find_rule(op);
    return (rule)*at;
}

size_t op_noutputs(const weft_op *op) {
    return op_nargs(op, true);
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

/* The only argument of the one input slot that has any; NULL if there are others. */
static const weft_var *only_input(const weft_op *op) {
    const weft_var *found = NULL;
    FOR_EACH_ARG(op, false, u) {
        if (found) return NULL;
        found = use_var(op->program, u);
    }
    return found;
}

/* The one output argument that is neither a view nor an XShape; NULL if there are others. */
static const weft_var *only_output(weft_op *op) {
    const weft_var *found = NULL;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        if (s->nargs == 0 || name_is(s->name, "XShape") || view_base(op, s, 0)) continue;
        if (s->nargs > 1 || found) return NULL;
        found = slot_var(op, s, 0);
    }
    return found;
}

static bool is_dense(const weft_var *v) {
    return v->kind == WEFT_DENSE_TENSOR && v->has_tensor && v->block;
}

static bool same_dims(const weft_var *a, const weft_var *b) {
    return is_dense(a) && is_dense(b) && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0);
}

/* The result of `v`; others keep what is there. */
static void set_result(const weft_op *op, uint32_t *results, const weft_var *v, value x) {
    size_t at = 0;
    FOR_EACH_ARG(op, true, u) {
        if (u->var_id == v->id) results[at] = x.term;
        at++;
    }
}

static void no_results(const weft_op *op, uint32_t *results) {
    for (size_t i = 0, n = op_noutputs(op); i < n; i++) results[i] = TERM_NONE;
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

static weft_status same_results(reader *r, const weft_op *op, uint32_t *results) {
    const slot *from = op_find_slot(op, false, "X");
    for (size_t i = 0; !from && i < op_nslots(op, false); i++)
        if (op_slot(op, false, i)->nargs) from = op_slot(op, false, i);
    size_t at = 0;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        for (size_t k = 0; k < op_slot(op, true, i)->nargs; k++, at++) {
            results[at] = TERM_NONE;
            if (from && k < from->nargs) TRY(read_var(r, slot_var(op, from, k), &results[at]));
        }
    }
    return NULL;
}

static weft_status reshape_results(reader *r, weft_op *op, uint32_t *results) {
    const weft_var *out = only_output(op);
    const slot *from = op_find_slot(op, false, "Out@GRAD");
    if (!from || !from->nargs) from = op_find_slot(op, false, "X");
    TRY(function_results(r, op, results));
    if (!out || !var_knows_dims(out) || !from || from->nargs != 1 || !is_dense(slot_var(op, from, 0))) return NULL;
    value x;
    TRY(read_value(r, slot_var(op, from, 0), &x));
    TRY(term_reshape(r->t, x, out->ndim, out->dims, &x));
    set_result(op, results, out, x);
    return NULL;
}

/* Along dimension 0 the arguments' elements are one after another. */
static weft_status concat_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *in = op_find_slot(op, false, "X"), *axis = op_find_slot(op, false, "AxisTensor");
    if (!in) in = op_find_slot(op, false, "tensors");
    const weft_var *out = only_output(op);
    bool good = in && in->nargs && out && var_knows_dims(out) && !(axis && axis->nargs) &&
                attr_int(op, "axis", 0) == 0 && attr_int(op, "dim", 0) == 0;
    for (size_t i = 0; good && i < in->nargs; i++)
        good = var_knows_dims(slot_var(op, in, i)) && slot_var(op, in, i)->dtype == out->dtype;
    if (!good) return function_results(r, op, results);
    value *args = ARENA_ARRAY(&r->memory, value, in->nargs), x;
    int64_t *ranges = ARENA_ARRAY(&r->memory, int64_t, 2 * (size_t)in->nargs), at = 0;
    if (!args || !ranges) return base_out_of_memory();
    for (size_t i = 0; i < in->nargs; i++) {
        TRY(read_value(r, slot_var(op, in, i), &args[i]));
        ranges[2 * i] = at;
        ranges[2 * i + 1] = var_numel_from(slot_var(op, in, i), 0);
        at += ranges[2 * i + 1];
    }
    if (at != var_numel_from(out, 0)) return function_results(r, op, results);
    no_results(op, results);
    TRY(term_flat(r->t, args, ranges, in->nargs, at, &x));
    TRY(term_reshape(r->t, x, out->ndim, out->dims, &x));
    set_result(op, results, out, x);
    return NULL;
}

static weft_status split_results(reader *r, weft_op *op, uint32_t *results) {
    const weft_var *in = only_input(op);
    const slot *outs = op_find_slot(op, true, "Out");
    bool good = in && var_knows_dims(in) && in->ndim && outs && outs->nargs && attr_int(op, "axis", 0) == 0;
    int64_t at = 0;
    for (size_t i = 0; good && i < outs->nargs; i++) {
        good = var_knows_dims(slot_var(op, outs, i));
        if (good) at += var_numel_from(slot_var(op, outs, i), 0);
    }
    if (!good || at != var_numel_from(in, 0) || op_noutputs(op) != outs->nargs) return function_results(r, op, results);
    value x, part;
    TRY(read_value(r, in, &x));
    at = 0;
    for (size_t i = 0; i < outs->nargs; i++) {
        const weft_var *v = slot_var(op, outs, i);
        TRY(term_part(r->t, x, at, var_numel_from(v, 0), &part));
        TRY(term_reshape(r->t, part, v->ndim, v->dims, &part));
        results[i] = part.term;
        at += var_numel_from(v, 0);
    }
    return NULL;
}

static weft_status slice_results(reader *r, weft_op *op, uint32_t *results) {
    const weft_var *in = only_input(op), *out = only_output(op);
    size_t naxes = 0, nstarts = 0, nends = 0;
    const int64_t *axes = attr_ints(op, "axes", &naxes), *starts = attr_ints(op, "starts", &nstarts);
    const int64_t *ends = attr_ints(op, "ends", &nends);
    bool good = in && out && var_knows_dims(in) && var_knows_dims(out) && in->ndim && naxes == 1 && nstarts == 1 &&
                nends == 1 && axes[0] == 0;
    if (!good) return function_results(r, op, results);
    int64_t extent = in->dims[0], start = starts[0] < 0 ? starts[0] + extent : starts[0];
    int64_t end = ends[0] < 0 ? ends[0] + extent : ends[0], row = var_numel_from(in, 1);
    if (end > extent) end = extent;
    if (start < 0 || end <= start || (end - start) * row != var_numel_from(out, 0))
        return function_results(r, op, results);
    value x;
    TRY(read_value(r, in, &x));
    no_results(op, results);
    TRY(term_part(r->t, x, start * row, (end - start) * row, &x));
    TRY(term_reshape(r->t, x, out->ndim, out->dims, &x));
    set_result(op, results, out, x);
    return NULL;
}

/* --- what normal forms know --------------------------------------------------------------------------------------- */

static weft_status cast_results(reader *r, weft_op *op, uint32_t *results) {
    const weft_var *in = only_input(op), *out = only_output(op);
    if (!in || !out || !is_dense(in) || !is_dense(out) || attr_int(op, "out_dtype", WEFT_FP32) != out->dtype)
        return function_results(r, op, results);
    value x;
    TRY(read_value(r, in, &x));
    no_results(op, results);
    TRY(term_cast(r->t, x, out->dtype, &x));
    set_result(op, results, out, x);
    return NULL;
}

/* Argument k of both slots is a tensor, or rows of one, of one element type. */
static bool alike(const weft_op *op, const slot *in, const slot *out, size_t k) {
    const weft_var *x = slot_var(op, in, k), *y = slot_var(op, out, k);
    bool tensors = is_dense(x) || (x->kind == WEFT_SELECTED_ROWS && x->block);
    return tensors && x->kind == y->kind && y->block && x->dtype == y->dtype;
}

/* The first input and output slots that have arguments, if these are alike and there are no others. */
static bool lists_alike(weft_op *op, const slot **out_in, const slot **out_out) {
    const slot *in = NULL, *out = NULL;
    for (size_t i = 0; i < op_nslots(op, false); i++) {
        const slot *s = op_slot(op, false, i);
        if (s->nargs && in) return false;
        if (s->nargs) in = s;
    }
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        if (!s->nargs || view_base(op, s, 0)) continue;
        if (out) return false;
        out = s;
    }
    if (!in || !out || in->nargs != out->nargs) return false;
    for (size_t k = 0; k < in->nargs; k++)
        if (!alike(op, in, out, k)) return false;
    *out_in = in;
    *out_out = out;
    return true;
}

static weft_status scale_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *in, *out;
    if (!lists_alike(op, &in, &out) || attr_float(op, "bias", 0.0) != 0.0 ||
        !dtype_is_float(slot_var(op, in, 0)->dtype))
        return function_results(r, op, results);
    size_t row = 0;
    while (!op_is(op, scales[row].type)) row++; /* each type of RULE_SCALE has one */
    double number = attr_float(op, scales[row].number, 1.0);
    no_results(op, results);
    for (size_t k = 0; k < in->nargs; k++) {
        value x;
        TRY(read_value(r, slot_var(op, in, k), &x));
        TRY(term_scale(r->t, x, number, scales[row].divides, &x));
        set_result(op, results, slot_var(op, out, k), x);
    }
    return NULL;
}

static bool is_number(int32_t dtype) {
    return dtype_is_float(dtype) || dtype == WEFT_INT32 || dtype == WEFT_INT64 || dtype == WEFT_BOOL;
}

static weft_status fill_results(reader *r, weft_op *op, bool like, uint32_t *results) {
    const weft_var *out = only_output(op);
    const char *digits = attr_string(op, "str_value", "");
    char *end = NULL;
    double number = *digits ? strtod(digits, &end) : attr_float(op, "value", attr_float(op, "fill_value", 0.0));
    if (!out || !var_knows_dims(out) || !is_number(out->dtype) || (*digits && *end) || (!like && only_input(op)) ||
        (!like && attr_int(op, "dtype", WEFT_FP32) != out->dtype))
        return function_results(r, op, results);
    shape type = shape_of_var(out);
    value x;
    no_results(op, results);
    TRY(term_fill(r->t, number, &type, &x));
    set_result(op, results, out, x);
    return NULL;
}

/* A constant that is repeated is a longer one. */
static weft_status repeat_results(reader *r, weft_op *op, uint32_t *results) {
    const weft_var *in = op_x(op), *out = only_output(op);
    value x = value_of(TERM_NONE);
    bool good = in && out && is_dense(in) && var_knows_dims(out) && in->dtype == out->dtype;
    if (good) TRY(read_value(r, in, &x));
    if (!good || x.factor != FACTOR_ONE || !term_is(r->t, x.term, HEAD_FILL)) return function_results(r, op, results);
    shape type = shape_of_var(out);
    no_results(op, results);
    TRY(term_fill(r->t, term_head(r->t, x.term)->number, &type, &x));
    set_result(op, results, out, x);
    return NULL;
}

static weft_status sum_results(reader *r, weft_op *op, bool pair, uint32_t *results) {
    const weft_var *out = only_output(op);
    size_t n = op_nargs(op, false), at = 0;
    bool good = out && is_dense(out) && dtype_is_float(out->dtype), alike = true, are_fills = false;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        good = good && is_dense(v) && v->dtype == out->dtype;
        alike = alike && same_dims(v, out);
    }
    if (!good || n == 0 || (pair && n != 2) || (!pair && !alike) || attr_float(op, "alpha", 1.0) != 1.0)
        return function_results(r, op, results);
    value *args = ARENA_ARRAY(&r->memory, value, n), x;
    if (!args) return base_out_of_memory();
    FOR_EACH_ARG(op, false, u) TRY(read_value(r, use_var(op->program, u), &args[at++]));
    shape type = shape_of_var(out);
    if (var_knows_dims(out)) TRY(term_fills_sum(r->t, args, n, &type, &x, &are_fills));
    if (!alike && !are_fills) return function_results(r, op, results);
    no_results(op, results);
    if (!are_fills) TRY(term_sum(r->t, args, n, out->dtype, &x));
    set_result(op, results, out, x);
    return NULL;
}

/* An argument of the extents of the sum was not repeated: its gradient is that of the sum. */
static weft_status add_grad_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *of_sum = op_find_slot(op, false, "Out@GRAD");
    TRY(function_results(r, op, results));
    if (!of_sum || of_sum->nargs != 1 || !var_knows_dims(slot_var(op, of_sum, 0))) return NULL;
    const weft_var *from = slot_var(op, of_sum, 0);
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        value x;
        if (!same_dims(v, from) || v->dtype != from->dtype) continue;
        TRY(read_value(r, from, &x));
        set_result(op, results, v, x);
    }
    return NULL;
}

static weft_status reduce_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *in, *out;
    weft_reduce kind = (weft_reduce)op_collective_reduce(op);
    static const char *const kinds[] = {"sum", "max", "min", "prod", "mean"};
    if (!lists_alike(op, &in, &out) || (size_t)kind >= 5) return function_results(r, op, results);
    char label[128], where[96];
    const ring *of = op_ring_of(r->p, op, where, sizeof where);
    snprintf(label, sizeof label, "all_reduce %s over %s", kinds[kind], where);
    no_results(op, results);
    for (size_t k = 0; k < in->nargs; k++) {
        value x;
        TRY(read_value(r, slot_var(op, in, k), &x));
        TRY(term_reduce(r->t, x, kind, label, of ? of->ranks : NULL, of ? (size_t)of->nranks : 0, &x));
        set_result(op, results, slot_var(op, out, k), x);
    }
    return NULL;
}

static weft_status each_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *in = op_find_slot(op, false, "x"), *out = op_find_slot(op, true, "out");
    if (!in || !out || in->nargs != out->nargs) return function_results(r, op, results);
    uint32_t head_id, op_id;
    TRY(op_head_of_one(r, op, &head_id));
    for (size_t k = 0; k < in->nargs; k++) {
        value x;
        TRY(read_value(r, slot_var(op, in, k), &x));
        TRY(term_make(r->t, head_id, &x, 1, WEFT_DTYPE_NONE, 0, NULL, &op_id));
        TRY(out_term(r, op, op_id, out, k, &results[k]));
    }
    return NULL;
}

/* What is kept for the gradient is a copy of the operands. */
static weft_status einsum_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *kept = op_find_slot(op, true, "InnerCache"), *operands = op_find_slot(op, false, "Operands");
    TRY(function_results(r, op, results));
    for (size_t k = 0; kept && operands && k < kept->nargs && k < operands->nargs; k++) {
        value x;
        TRY(read_value(r, slot_var(op, operands, k), &x));
        set_result(op, results, slot_var(op, kept, k), x);
    }
    return NULL;
}

/* What is written into the first input; the output of the same bytes gets it. */
static weft_status copy_results(reader *r, weft_op *op, uint32_t *results) {
    const slot *to = op_find_slot(op, true, "self_out"), *from = op_find_slot(op, false, "src");
    bool good = to && to->nargs == 1 && from && from->nargs == 1 && var_knows_dims(slot_var(op, to, 0)) &&
                same_dims(slot_var(op, to, 0), slot_var(op, from, 0));
    if (!good) return function_results(r, op, results);
    value x;
    TRY(read_value(r, slot_var(op, from, 0), &x));
    TRY(term_cast(r->t, x, slot_var(op, to, 0)->dtype, &x));
    no_results(op, results);
    set_result(op, results, slot_var(op, to, 0), x);
    return NULL;
}

static weft_status feed_results(reader *r, const weft_op *op, uint32_t *results) {
    size_t at = 0;
    FOR_EACH_ARG(op, true, u) {
        shape type = shape_of_var(use_var(op->program, u));
        TRY(term_leaf(r->t, HEAD_INPUT, use_var(op->program, u)->name->bytes, &type, &results[at++]));
    }
    return NULL;
}

weft_status op_results(reader *r, weft_op *op, uint32_t *results) {
    const op_schema *s = op_schema_of(op);
    switch (rule_of(r, op, s)) {
    case RULE_NONE:
    case RULE_FUNCTION: break;
    case RULE_NOTHING: no_results(op, results); return NULL;
    case RULE_SAME: return same_results(r, op, results);
    case RULE_COPY: return copy_results(r, op, results);
    case RULE_FEED: return feed_results(r, op, results);
    case RULE_RESHAPE: return reshape_results(r, op, results);
    case RULE_CONCAT: return concat_results(r, op, results);
    case RULE_SPLIT: return split_results(r, op, results);
    case RULE_SLICE: return slice_results(r, op, results);
    case RULE_CAST: return cast_results(r, op, results);
    case RULE_SCALE: return scale_results(r, op, results);
    case RULE_FILL: return fill_results(r, op, false, results);
    case RULE_LIKE: return fill_results(r, op, true, results);
    case RULE_REPEAT: return repeat_results(r, op, results);
    case RULE_SUM: return sum_results(r, op, false, results);
    case RULE_ADD: return sum_results(r, op, true, results);
    case RULE_ADD_GRAD: return add_grad_results(r, op, results);
    case RULE_REDUCE: return reduce_results(r, op, results);
    case RULE_EACH: return each_results(r, op, results);
    case RULE_EINSUM: return einsum_results(r, op, results);
    }
    return function_results(r, op, results);
}
