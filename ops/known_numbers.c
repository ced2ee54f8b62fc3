/* known_numbers.c: a program in which numbers that inference knows are written down.
 *
 * An op whose result is known becomes a constant. Where a tensor says extents or places that an attr may say as well,
 * the attr says them. An expand_v2, or a tile that is one, is a product with ones, so that only one kind of op makes
 * rows of what has none. The result is for those who follow values, not to be run: integers that a float cannot hold
 * stay as they were. */
#include <stdio.h>

#include "base/types.h"
#include "ops/infer.h"
#include "ops/open_extents.h"

typedef struct writer {
    weft_program *p;
    shape_env env;
    arena memory;
} writer;

/* --- results ------------------------------------------------------------------------------------------------------ */

static bool has_one_writer(const weft_var *v) {
    size_t n = 0;
    FOR_EACH_USE(u, v) n += u->is_output && use_op(v->program, u)->block;
    return n == 1;
}

/* The elements of a var that one op of block 0 writes; NULL: not known. */
static const int64_t *known_values(const writer *w, const weft_var *v, shape *type) {
    if (!v->block || v->block->idx || v->persistable || v->kind != WEFT_DENSE_TENSOR || v->id >= w->env.nkept)
        return NULL;
    *type = shape_env_get(&w->env, v);
    bool is_number = type->dtype == WEFT_INT32 || type->dtype == WEFT_INT64 || type->dtype == WEFT_BOOL ||
                     type->dtype == WEFT_FP32 || type->dtype == WEFT_FP64;
    return is_number && shape_numel(type) > 0 && has_one_writer(v) ? w->env.values[v->id] : NULL;
}

static double number_of(int32_t dtype, int64_t kept) {
    return dtype_is_float(dtype) ? value_real(dtype, kept) : (double)kept;
}

/* Whether all elements are one number; of an integer one that a double holds. */
static bool is_uniform(const int64_t *values, const shape *type) {
    for (int64_t i = 1; i < shape_numel(type); i++)
        if (values[i] != values[0]) return false;
    return dtype_is_float(type->dtype) || (values[0] > -(INT64_C(1) << 53) && values[0] < INT64_C(1) << 53);
}

static weft_status make_fill(writer *w, double number, const shape *type, weft_var *v, weft_op *before) {
    weft_op *op;
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", number);
    TRY(weft_op_create(w->p, "fill_constant", &op));
    TRY(weft_op_add_output(op, "Out", v));
    TRY(weft_op_set_attr_longs(op, "shape", (size_t)type->ndim, type->dims));
    TRY(weft_op_set_attr_string(op, "str_value", digits));
    TRY(weft_op_set_attr_int(op, "dtype", type->dtype));
    TRY(weft_op_set_attr_int(op, "op_role", weft_op_role(before)));
    weft_block_insert_before(before->block, before, op);
    return NULL;
}

static bool may_go(const weft_op *op) {
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS) return false;
    return op_nargs(op, true) && !op_is(op, "feed") &&
           !op_has_effect((weft_op *)op, OP_COLLECTIVE | OP_RANDOM | OP_NO_BYTES);
}

/* Constants in place of an op of which everything is known. */
static weft_status write_results(writer *w, weft_op *op, bool *out_gone) {
    shape type;
    *out_gone = false;
    if (!may_go(op)) return NULL;
    FOR_EACH_ARG(op, true, u) {
        const int64_t *values = known_values(w, use_var(w->p, u), &type);
        if (!values || !is_uniform(values, &type)) return NULL;
    }
    bool is_constant = op_is(op, "fill_constant") && !op_nargs(op, false);
    if (is_constant) return NULL;
    FOR_EACH_ARG(op, true, u) {
        const int64_t *values = known_values(w, use_var(w->p, u), &type);
        TRY(make_fill(w, number_of(type.dtype, values[0]), &type, use_var(w->p, u), op));
    }
    weft_op_remove(op);
    *out_gone = true;
    return NULL;
}

/* --- extents and places ------------------------------------------------------------------------------------------- */

/* Slots that say what an attr says. */
static const struct {
    const char *type, *tensor, *list, *attr;
    bool is_one; /* the attr is one number */
} places[] = {
    {"fill_constant", "ShapeTensor", "ShapeTensorList", "shape", false},
    {"reshape2", "Shape", "ShapeTensor", "shape", false},
    {"expand_v2", "Shape", "expand_shapes_tensor", "shape", false},
    {"expand_v2_grad", "Shape", "expand_shapes_tensor", "shape", false},
    {"tile", "RepeatTimes", "repeat_times_tensor", "repeat_times", false},
    {"tile_grad", "RepeatTimes", "repeat_times_tensor", "repeat_times", false},
    {"slice", "StartsTensor", "StartsTensorList", "starts", false},
    {"slice", "EndsTensor", "EndsTensorList", "ends", false},
    {"slice_grad", "StartsTensor", "StartsTensorList", "starts", false},
    {"slice_grad", "EndsTensor", "EndsTensorList", "ends", false},
    {"strided_slice", "StartsTensor", "StartsTensorList", "starts", false},
    {"strided_slice", "EndsTensor", "EndsTensorList", "ends", false},
    {"strided_slice", "StridesTensor", "StridesTensorList", "strides", false},
    {"pad3d", "Paddings", "", "paddings", false},
    {"pad3d_grad", "Paddings", "", "paddings", false},
    {"expand", "ExpandTimes", "expand_times_tensor", "expand_times", false},
    {"expand_grad", "ExpandTimes", "expand_times_tensor", "expand_times", false},
    {"crop_tensor", "Shape", "ShapeTensor", "shape", false},
    {"crop_tensor", "Offsets", "OffsetsTensor", "offsets", false},
    {"crop_tensor_grad", "Offsets", "OffsetsTensor", "offsets", false},
    {"crop", "Offsets", "", "offsets", false},
    {"crop_grad", "Offsets", "", "offsets", false},
    {"top_k_v2", "K", "", "k", true},
    {"top_k", "K", "", "k", true},
    {"one_hot_v2", "depth_tensor", "", "depth", true},
    {"concat", "AxisTensor", "", "axis", true},
    {"split", "AxisTensor", "", "axis", true},
};
enum { NPLACES = sizeof places / sizeof *places };

static bool slot_is(const slot *s, const char *wanted) {
    return *wanted && name_is(s->name, wanted);
}

/* The numbers of the arguments of a slot; false: not all are known. */
static bool read_slot(const writer *w, const weft_op *op, const slot *s, int64_t *out, size_t *out_count) {
    size_t n = 0;
    for (size_t k = 0; k < s->nargs; k++) {
        shape type;
        const int64_t *values = known_values(w, slot_var(op, s, k), &type);
        if (!values || dtype_is_float(type.dtype) || n + (size_t)shape_numel(&type) > WEFT_MAX_RANK) return false;
        for (int64_t i = 0; i < shape_numel(&type); i++) out[n++] = values[i];
    }
    *out_count = n;
    return n > 0;
}

/* A copy of the op without these slots, in its place. */
static weft_status leave_out(weft_op *op, const char *tensor_slot, const char *list_slot, weft_op **out) {
    weft_op *made;
    TRY(weft_op_create(op->program, op->type->bytes, &made));
    for (int output = 0; output < 2; output++)
        for (size_t i = 0; i < op_nslots(op, output); i++) {
            const slot *s = op_slot(op, output, i);
            if (!output && (slot_is(s, tensor_slot) || slot_is(s, list_slot))) continue;
            for (size_t k = 0; k < s->nargs; k++)
                TRY(output ? weft_op_add_output(made, s->name->bytes, slot_var(op, s, k))
                           : weft_op_add_input(made, s->name->bytes, slot_var(op, s, k)));
        }
    op_share_attrs(made, op);
    made->dist = op->dist;
    weft_block_insert_before(op->block, op, made);
    weft_op_remove(op);
    *out = made;
    return NULL;
}

static weft_status write_attr(weft_op *op, size_t row, const int64_t *values, size_t count) {
    if (places[row].is_one) return weft_op_set_attr_int(op, places[row].attr, values[0]);
    const weft_attr *a = op_find_attr(op, places[row].attr);
    bool is_long = a && a->type == ATTR_LONGS;
    return is_long ? weft_op_set_attr_longs(op, places[row].attr, count, values)
                   : weft_op_set_attr_ints(op, places[row].attr, count, values);
}

static weft_status write_places(writer *w, weft_op **op) {
    for (size_t row = 0; row < NPLACES; row++) {
        if (!op_is(*op, places[row].type)) continue;
        const slot *s = op_find_slot(*op, false, places[row].tensor);
        if ((!s || !s->nargs) && *places[row].list) s = op_find_slot(*op, false, places[row].list);
        int64_t values[WEFT_MAX_RANK];
        size_t count;
        if (!s || !s->nargs || !read_slot(w, *op, s, values, &count)) continue;
        TRY(write_attr(*op, row, values, count));
        TRY(leave_out(*op, places[row].tensor, places[row].list, op));
    }
    return NULL;
}

/* --- repeats ------------------------------------------------------------------------------------------------------ */

static bool knows_dims(const weft_var *v) {
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0) return false;
    return v->has_tensor && v->kind == WEFT_DENSE_TENSOR;
}

/* Whether only axes of one element are repeated, if any. */
static bool expands(const weft_var *x, const weft_var *out) {
    if (!x || !out || !knows_dims(x) || !knows_dims(out)) return false;
    if (out->ndim < x->ndim || out->ndim > WEFT_MAX_RANK) return false;
    for (size_t i = 0; i < x->ndim; i++)
        if (x->dims[i] != 1 && x->dims[i] != out->dims[out->ndim - x->ndim + i]) return false;
    return true;
}

/* Whether a tile is one. What repeats nothing may be a part of what repeats others. */
static bool is_expansion(const weft_var *x, const weft_var *out) {
    if (!expands(x, out)) return false;
    bool repeats = out->ndim > x->ndim;
    for (size_t i = 0; i < x->ndim; i++) repeats |= x->dims[i] == 1;
    return repeats;
}

/* -1, "as X has it", wherever an expand_v2 repeats nothing; its gradient repeats nothing anyhow. */
static weft_status write_expanded_grad(weft_op *op) {
    size_t n;
    int64_t kept[WEFT_MAX_RANK];
    (void)attr_ints(op, "shape", &n);
    for (size_t i = 0; i < n && i < WEFT_MAX_RANK; i++) kept[i] = -1;
    return n && n <= WEFT_MAX_RANK ? weft_op_set_attr_ints(op, "shape", n, kept) : NULL;
}

/* An expand_v2_grad in the place of a tile_grad that is one. */
static weft_status write_tiled_grad(writer *w, weft_op *op, bool *out_gone) {
    weft_var *x = weft_op_input(op, "X", 0), *given = weft_op_input(op, "Out@GRAD", 0),
             *to = weft_op_output(op, "X@GRAD", 0);
    weft_op *made;
    if (!to || !is_expansion(x, given)) return NULL;
    int64_t kept[WEFT_MAX_RANK];
    for (size_t i = 0; i < given->ndim; i++) kept[i] = -1;
    TRY(weft_op_create(w->p, "expand_v2_grad", &made));
    TRY(weft_op_add_input(made, "X", x));
    TRY(weft_op_add_input(made, "Out@GRAD", given));
    TRY(weft_op_add_output(made, "X@GRAD", to));
    TRY(weft_op_set_attr_ints(made, "shape", given->ndim, kept));
    TRY(weft_op_set_attr_int(made, "op_role", weft_op_role(op)));
    weft_block_insert_before(op->block, op, made);
    weft_op_remove(op);
    *out_gone = true;
    return NULL;
}

/* Ones where `x` is repeated, of extent 1 where it is not; false: it is repeated nowhere. */
static bool shape_of_ones(const weft_var *x, const weft_var *out, shape *type) {
    bool is_any = out->ndim > x->ndim;
    *type = shape_of_var(out);
    for (size_t i = 0; i < x->ndim; i++) {
        int64_t *extent = &type->dims[out->ndim - x->ndim + i];
        if (x->dims[i] == *extent)
            *extent = 1;
        else
            is_any = true;
    }
    return is_any;
}

/* A product with ones in the place of an expand_v2, or of a tile that is one; of one that repeats nothing, a copy. */
static weft_status write_expanded(writer *w, weft_op *op, bool *out_gone) {
    const weft_var *x = weft_op_input(op, "X", 0), *out = weft_op_output(op, "Out", 0);
    if (op_is(op, "tile") ? !is_expansion(x, out) : !expands(x, out)) return NULL;
    if (x->dtype != out->dtype || !dtype_is_float(out->dtype)) return NULL;
    shape type;
    bool repeats = shape_of_ones(x, out, &type);
    weft_var *ones = NULL, *to = weft_op_output(op, "Out", 0);
    if (repeats) {
        char text_of_ones[64];
        snprintf(text_of_ones, sizeof text_of_ones, "ones@%u", op->id);
        TRY(weft_block_add_var(op->block, text_of_ones, (weft_dtype)out->dtype, out->ndim, type.dims, &ones));
        TRY(make_fill(w, 1, &type, ones, op));
    }
    weft_op *made;
    TRY(weft_op_create(w->p, repeats ? "elementwise_mul" : "assign", &made));
    TRY(weft_op_add_input(made, "X", repeats ? ones : weft_op_input(op, "X", 0)));
    if (repeats) TRY(weft_op_add_input(made, "Y", weft_op_input(op, "X", 0)));
    TRY(weft_op_add_output(made, "Out", to));
    if (repeats) TRY(weft_op_set_attr_int(made, "axis", -1));
    TRY(weft_op_set_attr_int(made, "op_role", weft_op_role(op)));
    weft_block_insert_before(op->block, op, made);
    weft_op_remove(op);
    *out_gone = true;
    return NULL;
}

static weft_status write_repeats(writer *w, weft_op *op, bool *out_gone) {
    size_t n = op_nargs(op, false);
    *out_gone = false;
    if (op_is(op, "expand_v2_grad") && n == 2) return write_expanded_grad(op);
    if (op_is(op, "tile_grad") && n == 2) return write_tiled_grad(w, op, out_gone);
    return (op_is(op, "expand_v2") || op_is(op, "tile")) && n == 1 ? write_expanded(w, op, out_gone) : NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status write_all(writer *w) {
    for (weft_op *op = w->p->blocks[0]->first, *next; op; op = next) {
        bool is_gone;
        next = op->next;
        TRY(write_results(w, op, &is_gone));
        if (is_gone) continue;
        TRY(known_rows_write(&w->env, op, &is_gone));
        if (is_gone) continue;
        TRY(write_places(w, &op));
        TRY(write_repeats(w, op, &is_gone));
    }
    return NULL;
}

weft_status known_numbers_write(weft_program *p) {
    writer w = {.p = p};
    arena_init(&w.memory, &p->context->allocator);
    weft_status status = NULL;
    TRY_DONE(shape_env_init(&w.env, p, &w.memory));
    TRY_DONE(shape_infer_block(&w.env, p->blocks[0], &w.memory));
    for (size_t i = 0; i < w.env.nkept; i++) TRY_DONE(open_extents_declare(&w.env, program_var(p, i)));
    TRY_DONE(write_all(&w));
done:
    arena_fini(&w.memory);
    return status;
}
