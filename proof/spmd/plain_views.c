/* plain_views.c: see plain_views.h.
 *
 * The rules for parts of what is moved know the moves of Paddle. A traced graph has views for them, which share bytes
 * with what they are views of. Where no write comes between a view and its last reader the two are one. */
#include "proof/spmd/plain_views.h"

#include "ops/ops.h"
#include "ops/view.h"
#include "proof/equivalence/read.h"

typedef struct writer {
    weft_program *p;
    weft_block *block;
    uint32_t *root;       /* by var id: 1 + the var whose bytes it shares; 0: its own */
    uint32_t *last_read;  /* by var id: the last op that reads it or a view of it; 0: none */
    uint32_t *next_write; /* by var id of a root: the next op that writes its bytes; 0: none */
} writer;

static uint32_t root_of(const writer *w, uint32_t var) {
    return w->root[var] ? w->root[var] - 1 : var;
}

static bool is_view(weft_op *op, const slot *out) {
    return op_has_effect(op, OP_VIEWS) && op_viewed_slot(op, out) != NULL;
}

/* --- the ops ------------------------------------------------------------------------------------------------------ */

static bool knows_dims(const weft_var *v) {
    return v && var_knows_dims(v) && v->ndim <= WEFT_MAX_RANK;
}

static int64_t from_front(int64_t n, int64_t extent) {
    return n < 0 ? n + extent : n;
}

static weft_status write_transpose(const weft_op *op, const weft_var *x, weft_op *made) {
    int64_t axes[WEFT_MAX_RANK], n = (int64_t)x->ndim;
    size_t count = x->ndim;
    for (size_t d = 0; d < count; d++) axes[d] = (int64_t)d;
    if (op_is(op, "aten_permute")) {
        const int64_t *dims = attr_ints(op, "dims", &count);
        for (size_t d = 0; d < count && d < x->ndim; d++) axes[d] = from_front(dims[d], n);
    } else if (n >= 2) {
        bool is_t = op_is(op, "aten_t");
        int64_t a = is_t ? 0 : from_front(attr_int(op, "dim0", 0), n),
                b = is_t ? 1 : from_front(attr_int(op, "dim1", 0), n);
        if (a < 0 || b < 0 || a >= n || b >= n) return NULL;
        axes[a] = b, axes[b] = a;
    }
    return weft_op_set_attr_ints(made, "axis", x->ndim, axes);
}

static weft_status put_bounds(weft_op *made, int64_t dim, int64_t from, int64_t to) {
    TRY(weft_op_set_attr_ints(made, "axes", 1, &dim));
    TRY(weft_op_set_attr_ints(made, "starts", 1, &from));
    return weft_op_set_attr_ints(made, "ends", 1, &to);
}

static weft_status write_slice(const weft_op *op, const weft_var *x, weft_op *made) {
    int64_t dim = from_front(attr_int(op, "dim", 0), (int64_t)x->ndim), extent = x->dims[dim];
    int64_t from = from_front(attr_int(op, "start", 0), extent),
            to = from_front(attr_int(op, "end", INT64_MAX), extent);
    if (from < 0) from = 0;
    return put_bounds(made, dim, from, to > extent ? extent : to);
}

static weft_status write_select(const weft_op *op, const weft_var *x, weft_op *made) {
    int64_t dim = from_front(attr_int(op, "dim", 0), (int64_t)x->ndim);
    int64_t at = from_front(attr_int(op, "index", 0), x->dims[dim]);
    TRY(weft_op_set_attr_ints(made, "decrease_axis", 1, &dim));
    return put_bounds(made, dim, at, at + 1);
}

static weft_status write_split(const weft_op *op, const weft_var *x, weft_op *made) {
    int64_t dim = from_front(attr_int(op, "dim", 0), (int64_t)x->ndim);
    size_t n = weft_op_noutputs(op, "out");
    int64_t *sections = base_alloc(&op->program->context->allocator, (n + 1) * sizeof *sections);
    if (!sections) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) sections[i] = weft_op_output(op, "out", i)->dims[dim];
    weft_status status = weft_op_set_attr_ints(made, "sections", n, sections);
    base_free(&op->program->context->allocator, sections, (n + 1) * sizeof *sections);
    return status ? status : weft_op_set_attr_int(made, "axis", dim);
}

/* Zeros around the slice. */
static weft_status write_pad(const weft_op *op, const weft_var *x, weft_op *made) {
    const weft_var *out = weft_op_output(op, "grad_input", 0);
    int64_t dim = from_front(attr_int(op, "dim", 0), (int64_t)x->ndim), extent = out->dims[dim];
    int64_t from = from_front(attr_int(op, "start", 0), extent), paddings[2 * WEFT_MAX_RANK] = {0};
    if (from < 0) from = 0;
    paddings[2 * dim] = from;
    paddings[2 * dim + 1] = extent - from - x->dims[dim];
    return weft_op_set_attr_ints(made, "paddings", 2 * x->ndim, paddings);
}

/* -1, "as X has it", where it repeats nothing: that is the same of a part. */
static weft_status write_expand(const weft_op *op, const weft_var *x, weft_op *made) {
    int64_t kept[WEFT_MAX_RANK];
    const weft_var *out = weft_op_output(op, "out", 0);
    size_t more = out->ndim - x->ndim;
    for (size_t d = 0; d < out->ndim; d++) kept[d] = d >= more && x->dims[d - more] == out->dims[d] ? -1 : out->dims[d];
    return weft_op_set_attr_ints(made, "shape", out->ndim, kept);
}

static bool fits_dim(const weft_op *op, const weft_var *x) {
    int64_t n = (int64_t)x->ndim, dim = from_front(attr_int(op, "dim", 0), n);
    return dim >= 0 && dim < n;
}

static bool fits_slice(const weft_op *op, const weft_var *x) {
    return fits_dim(op, x) && attr_int(op, "step", 1) == 1;
}

static bool fits_pad(const weft_op *op, const weft_var *x) {
    const weft_var *out = weft_op_output(op, "grad_input", 0);
    int64_t dim = from_front(attr_int(op, "dim", 0), (int64_t)x->ndim);
    if (!fits_slice(op, x) || out->ndim != x->ndim) return false;
    int64_t from = from_front(attr_int(op, "start", 0), out->dims[dim]);
    return (from < 0 ? 0 : from) + x->dims[dim] <= out->dims[dim];
}

/* Whether the program declares the extents that the view has. */
static bool is_as_declared(const weft_op *op, const weft_var *x, const weft_var *out, size_t part) {
    const shape type = shape_of_var(x);
    op_view v;
    weft_status status = op_view_of(op, &type, part, &v);
    bool is_known = !status && (size_t)v.ndim == out->ndim;
    weft_status_free(status);
    return is_known && memcmp(v.dims, out->dims, out->ndim * sizeof *v.dims) == 0;
}

/* All of it: the bounds need not be those of a part. */
static bool is_whole(const weft_op *op, const weft_var *x, const weft_var *out) {
    bool may_be = op_is(op, "aten_slice") || op_is(op, "aten_slice_backward");
    return may_be && out->ndim == x->ndim && memcmp(out->dims, x->dims, x->ndim * sizeof *x->dims) == 0;
}

/* An op of one tensor, and what it is written as. */
static const struct {
    const char *type, *input, *output, *made, *made_input;
    bool (*fits)(const weft_op *op, const weft_var *x); /* NULL: always */
    weft_status (*write)(const weft_op *op, const weft_var *x, weft_op *made);
} moves[] = {
    {"aten_t", "self", "out", "transpose2", "X", NULL, write_transpose},
    {"aten_transpose", "self", "out", "transpose2", "X", NULL, write_transpose},
    {"aten_permute", "self", "out", "transpose2", "X", NULL, write_transpose},
    {"aten_slice", "self", "out", "slice", "Input", fits_slice, write_slice},
    {"aten_select", "self", "out", "slice", "Input", fits_dim, write_select},
    {"aten_split", "self", "out", "split", "X", fits_dim, write_split},
    {"aten_expand", "self", "out", "expand_v2", "X", NULL, write_expand},
    {"aten_slice_backward", "grad_output", "grad_input", "pad", "X", fits_pad, write_pad},
};
enum { NMOVES = sizeof moves / sizeof *moves };

static weft_status replace(writer *w, weft_op *op) {
    size_t row = 0, n;
    while (row < NMOVES && !op_is(op, moves[row].type)) row++;
    if (row == NMOVES || (n = weft_op_noutputs(op, moves[row].output)) == 0) return NULL;
    weft_var *x = weft_op_input(op, moves[row].input, 0);
    bool fits = knows_dims(x);
    for (size_t i = 0; fits && i < n; i++) {
        const weft_var *out = weft_op_output(op, moves[row].output, i);
        fits = knows_dims(out) && (!op_has_effect(op, OP_VIEWS) || is_as_declared(op, x, out, i));
    }
    if (!fits || (moves[row].fits && !moves[row].fits(op, x))) return NULL;
    bool whole = is_whole(op, x, weft_op_output(op, moves[row].output, 0));
    weft_op *made;
    TRY(weft_op_create(w->p, whole ? "assign" : moves[row].made, &made));
    TRY(weft_op_add_input(made, whole ? "X" : moves[row].made_input, x));
    for (size_t i = 0; i < n; i++) TRY(weft_op_add_output(made, "Out", weft_op_output(op, moves[row].output, i)));
    if (!whole) TRY(moves[row].write(op, x, made));
    TRY(weft_op_set_attr_int(made, "op_role", weft_op_role(op)));
    weft_block_insert_before(w->block, op, made);
    weft_op_remove(op);
    return NULL;
}

/* --- which read as copies ------------------------------------------------------------------------------------------
 */

static void find_roots(writer *w) {
    FOR_EACH_OP(op, w->block) {
        for (size_t i = 0; op_has_effect(op, OP_VIEWS) && i < op_nslots(op, true); i++) {
            const slot *out = op_slot(op, true, i), *of = op_viewed_slot(op, out);
            for (uint32_t k = 0; of && k < out->nargs; k++) {
                const weft_var *to = slot_var(op, out, k), *from = slot_var(op, of, of->nargs > 1 ? k : 0);
                if (to != from) w->root[to->id] = 1 + root_of(w, from->id);
            }
        }
    }
}

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* What op number `at` reads and writes; whether its views are read before their bytes are written again. */
static bool note(writer *w, weft_op *op, uint32_t at) {
    bool is_copy = true;
    uint32_t reads = at;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *out = op_slot(op, true, i);
        for (uint32_t k = 0; is_view(op, out) && k < out->nargs; k++) {
            uint32_t id = slot_var(op, out, k)->id, next = w->next_write[root_of(w, id)];
            is_copy = is_copy && (!next || w->last_read[id] <= next);
            reads = later(reads, w->last_read[id]);
        }
    }
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *out = op_slot(op, true, i);
        for (uint32_t k = 0; !is_view(op, out) && k < out->nargs; k++)
            w->next_write[root_of(w, slot_var(op, out, k)->id)] = at;
    }
    FOR_EACH_ARG(op, false, u) {
        w->last_read[u->var_id] = later(w->last_read[u->var_id], reads);
    }
    return is_copy;
}

weft_status plain_views_write(weft_program *p) {
    writer w = {.p = p, .block = p->blocks[0]};
    arena memory;
    uint32_t at = 0;
    if (p->nblocks != 1) return NULL;
    arena_init(&memory, &p->context->allocator);
    weft_status status = NULL;
    w.root = ARENA_ARRAY(&memory, uint32_t, p->nall_vars + 1);
    w.last_read = ARENA_ARRAY(&memory, uint32_t, p->nall_vars + 1);
    w.next_write = ARENA_ARRAY(&memory, uint32_t, p->nall_vars + 1);
    if (!w.root || !w.last_read || !w.next_write) TRY_DONE(base_out_of_memory());
    find_roots(&w);
    FOR_EACH_OP(op, w.block) {
        at++;
    }
    for (weft_op *op = w.block->last, *before; op; op = before) {
        before = op->prev;
        if (note(&w, op, at--)) TRY_DONE(replace(&w, op));
    }
done:
    arena_fini(&memory);
    return status;
}
