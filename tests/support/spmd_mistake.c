/* spmd_mistake.c: see spmd_mistake.h. */
#include "tests/support/spmd_mistake.h"

#include <string.h>

#include "ops/ops.h"
#include "tests/support/draw.h"
#include "tests/support/must.h"

static bool shift_ints(weft_op *op, const char *attr, size_t at, int64_t by) {
    size_t n;
    int64_t values[64];
    const int64_t *had = attr_ints(op, attr, &n);
    if (!had || at >= n || n > 64 || had[at] + by < 0 || had[at] + by > INT32_MAX) return false;
    memcpy(values, had, n * sizeof *had);
    values[at] += by;
    must(weft_op_set_attr_ints(op, attr, n, values));
    return true;
}

/* Zeros before a part for some behind it, or the other way round. */
static bool spoil_pad(weft_op *op, uint64_t *salt) {
    (void)salt;
    size_t n;
    const int64_t *paddings = attr_ints(op, "paddings", &n);
    for (size_t i = 0; paddings && i + 1 < n; i += 2) {
        int64_t by = paddings[i] ? -1 : 1;
        if (paddings[i] + paddings[i + 1])
            return shift_ints(op, "paddings", i, by) && shift_ints(op, "paddings", i + 1, -by);
    }
    return false;
}

/* Two of what an op puts together, or of what it makes of one, change places. */
static bool exchange_args(weft_op *op, bool outputs, const char *slot_text, uint64_t *salt) {
    const slot *s = op_find_slot(op, outputs, slot_text);
    if (!s || s->nargs < 2) return false;
    unsigned i = draw_below(salt, s->nargs), k = (i + 1 + draw_below(salt, s->nargs - 1)) % s->nargs;
    weft_var *first = slot_var(op, s, i), *last = slot_var(op, s, k);
    use_rename((use *)&slot_args(op, s)[i], last);
    use_rename((use *)&slot_args(op, s)[k], first);
    return first != last;
}

static bool spoil_concat(weft_op *op, uint64_t *salt) {
    return (op_is(op, "concat") || op_is(op, "stack")) && exchange_args(op, false, "X", salt);
}

static bool spoil_split(weft_op *op, uint64_t *salt) {
    return op_is(op, "split") && exchange_args(op, true, "Out", salt);
}

static bool spoil_slice(weft_op *op, uint64_t *salt) {
    int64_t by = draw_below(salt, 2) ? 1 : -1;
    return op_is(op, "slice") && shift_ints(op, "starts", 0, by) && shift_ints(op, "ends", 0, by);
}

static bool spoil_ring(weft_op *op, uint64_t *salt) {
    if (!op_communicates(op) || op->program->nrings < 2) return false;
    must(weft_op_set_attr_int(op, "ring_id", op->program->rings[draw_below(salt, (unsigned)op->program->nrings)].id));
    return true;
}

/* Its members in another order. */
static bool spoil_order(weft_op *op, uint64_t *salt) {
    (void)salt;
    const ring *r = op_communicates(op) ? program_find_ring(op->program, op_ring(op)) : NULL;
    int64_t ranks[16];
    if (!r || r->nranks < 2 || r->nranks > 16) return false;
    memcpy(ranks, r->ranks, (size_t)r->nranks * sizeof *ranks);
    int64_t first = ranks[0];
    ranks[0] = ranks[r->nranks - 1], ranks[r->nranks - 1] = first;
    must(weft_program_set_ring(op->program, 77, (size_t)r->nranks, ranks));
    must(weft_op_set_attr_int(op, "ring_id", 77));
    return true;
}

static bool spoil_splits(weft_op *op, uint64_t *salt) {
    (void)salt;
    static const char *const attrs[] = {"in_splits", "out_splits"};
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        int64_t turned[16];
        const int64_t *had = op_is(op, "all_to_all") ? attr_ints(op, attrs[i], &n) : NULL;
        if (!had || !n || n > 16) return false;
        for (size_t k = 0; k < n; k++) turned[k] = had[n - 1 - k];
        must(weft_op_set_attr_longs(op, attrs[i], n, turned));
    }
    return true;
}

static void set_type(weft_op *op, const char *type_text) {
    const name *type;
    must(program_name(op->program, type_text, strlen(type_text), &type));
    op->type = type;
    op->schema = NULL;
    op_changed(op);
}

static bool spoil_reduce(weft_op *op, uint64_t *salt) {
    if (op_is(op, "c_allreduce_sum")) return set_type(op, draw_below(salt, 2) ? "c_allreduce_max" : "c_allreduce_avg"), true;
    if (op_is(op, "c_allreduce_max")) return set_type(op, "c_allreduce_min"), true;
    if (!op_is(op, "all_reduce") && !op_is(op, "reduce_scatter")) return false;
    must(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_MAX));
    return true;
}

/* A sum is made twice. */
static bool spoil_once(weft_op *op, uint64_t *salt) {
    (void)salt;
    weft_op *again;
    if (!op_is(op, "c_allreduce_sum")) return false;
    must(op_clone(op, &again));
    weft_block_insert_after(op->block, op, again);
    weft_op_rename_input(again, op_x(op), op_out(op));
    return true;
}

/* A share of a mean, or of a sum. */
static bool spoil_scale(weft_op *op, uint64_t *salt) {
    if (!op_is(op, "scale") || !op_find_attr(op, "scale")) return false;
    must(weft_op_set_attr_float(op, "scale", weft_op_attr_float(op, "scale", 1) * (draw_below(salt, 2) ? 2 : 1.125)));
    return true;
}

/* Rows of a table, classes, what a range begins with. */
static bool spoil_offset(weft_op *op, uint64_t *salt) {
    (void)salt;
    static const char *const attrs[] = {"start_index", "rank", "offset", "seed_offset", "start", "depth"};
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        const weft_attr *a = op_find_attr(op, attrs[i]);
        if (!a || (a->type != ATTR_INT && a->type != ATTR_LONG)) continue;
        must(weft_op_set_attr_int(op, attrs[i], a->u.i ? a->u.i - 1 : a->u.i + 1));
        return true;
    }
    return false;
}

static bool spoil_turn(weft_op *op, uint64_t *salt) {
    size_t n;
    int64_t turned[WEFT_MAX_RANK];
    const int64_t *axes = op_is(op, "transpose2") ? attr_ints(op, "axis", &n) : NULL;
    if (!axes || n < 2 || n > WEFT_MAX_RANK) return false;
    unsigned i = draw_below(salt, (unsigned)n - 1);
    memcpy(turned, axes, n * sizeof *axes);
    turned[i] = axes[i + 1], turned[i + 1] = axes[i];
    must(weft_op_set_attr_ints(op, "axis", n, turned));
    return true;
}

static bool has_type_of(const weft_var *x, const weft_var *y) {
    return x != y && x->block && x->kind == y->kind && x->dtype == y->dtype && x->ndim == y->ndim &&
           (!x->ndim || memcmp(x->dims, y->dims, x->ndim * sizeof *x->dims) == 0);
}

/* An op reads something else of that type, which was there before: what is behind the op before in the program is
 * likely. */
static bool spoil_input(weft_op *op, uint64_t *salt) {
    unsigned nargs = (unsigned)op_nargs(op, false), at = nargs ? draw_below(salt, nargs) : 0,
             back = draw_below(salt, 3) ? draw_below(salt, 3) : draw_below(salt, 40);
    FOR_EACH_ARG(op, false, u) {
        if (at-- > 0) continue;
        const weft_var *v = use_var(op->program, u);
        for (weft_op *before = op->prev; before; before = before->prev) {
            FOR_EACH_ARG(before, true, w) {
                weft_var *other = use_var(before->program, w);
                if (!has_type_of(other, v) || back-- > 0) continue;
                weft_op_rename_input(op, v, other);
                return true;
            }
        }
        return false;
    }
    return false;
}

/* What of a collective's is read is what the rank gave to it. */
static bool spoil_read(weft_op *op, uint64_t *salt) {
    (void)salt;
    weft_var *x = op_communicates(op) ? op_x(op) : NULL, *out = op_communicates(op) ? op_out(op) : NULL;
    if (!x || !out || !has_type_of(x, out)) return false;
    for (weft_op *o = op->next; o; o = o->next) weft_op_rename_input(o, out, x);
    return true;
}

/* What of an op is read is what it was made of, as if the op were not there. */
static bool spoil_left_out(weft_op *op, uint64_t *salt) {
    (void)salt;
    weft_var *x = op_x(op), *out = op_out(op);
    if (!x || !out || !has_type_of(x, out)) return false;
    for (weft_op *o = op->next; o; o = o->next) weft_op_rename_input(o, out, x);
    return true;
}

/* Two inputs of one type change places. */
static bool spoil_inputs(weft_op *op, uint64_t *salt) {
    unsigned nargs = (unsigned)op_nargs(op, false), at = nargs > 1 ? draw_below(salt, nargs) : 0;
    use *first = NULL;
    FOR_EACH_ARG(op, false, u) {
        if (first && has_type_of(use_var(op->program, first), use_var(op->program, u))) {
            weft_var *x = use_var(op->program, first), *y = use_var(op->program, u);
            use_rename(first, y);
            use_rename(u, x);
            return true;
        }
        if (!first && at-- == 0) first = u;
    }
    return false;
}

/* Along another dimension. */
static bool spoil_axis(weft_op *op, uint64_t *salt) {
    weft_var *x = op_x(op);
    if (!x || x->ndim < 2 || op_communicates(op)) return false;
    for (size_t i = 0; i < 2; i++) {
        const char *attr = i ? "dim" : "axis";
        const weft_attr *a = op_find_attr(op, attr);
        int64_t by = 1 + draw_below(salt, (unsigned)x->ndim - 1);
        if (!a || (a->type != ATTR_INT && a->type != ATTR_LONG) || a->u.i < 0 || a->u.i >= (int64_t)x->ndim) continue;
        must(weft_op_set_attr_int(op, attr, (a->u.i + by) % (int64_t)x->ndim));
        return true;
    }
    return false;
}

/* Two slices begin and end where the other ones does. */
static bool spoil_slices(weft_op *op, uint64_t *salt) {
    (void)salt;
    int64_t own[2][8], others[2][8];
    static const char *const attrs[] = {"starts", "ends"};
    size_t n, m;
    for (weft_op *other = op_is(op, "slice") ? op->next : NULL; other; other = other->next) {
        if (!op_is(other, "slice")) continue;
        bool good = true, differ = false;
        for (size_t i = 0; i < 2 && good; i++) {
            const int64_t *a = attr_ints(op, attrs[i], &n), *b = attr_ints(other, attrs[i], &m);
            good = a && b && n == m && n <= 8;
            if (good) memcpy(own[i], a, n * sizeof *a), memcpy(others[i], b, n * sizeof *b);
            differ |= good && memcmp(a, b, n * sizeof *a) != 0;
        }
        if (!good || !differ) continue;
        for (size_t i = 0; i < 2; i++) {
            must(weft_op_set_attr_ints(op, attrs[i], n, others[i]));
            must(weft_op_set_attr_ints(other, attrs[i], n, own[i]));
        }
        return true;
    }
    return false;
}

/* The same elements under other extents than are declared. */
static bool spoil_shape(weft_op *op, uint64_t *salt) {
    size_t n;
    int64_t turned[WEFT_MAX_RANK];
    const int64_t *had = op_is(op, "reshape2") ? attr_ints(op, "shape", &n) : NULL;
    if (!had || n < 2 || n > WEFT_MAX_RANK) return false;
    unsigned i = draw_below(salt, (unsigned)n - 1);
    if (had[i] == had[i + 1] || had[i] <= 0 || had[i + 1] <= 0) return false;
    memcpy(turned, had, n * sizeof *had);
    turned[i] = had[i + 1], turned[i + 1] = had[i];
    must(weft_op_set_attr_ints(op, "shape", n, turned));
    return true;
}

/* A slice of another dimension. */
static bool spoil_sliced(weft_op *op, uint64_t *salt) {
    size_t n;
    const int64_t *axes = op_is(op, "slice") ? attr_ints(op, "axes", &n) : NULL;
    const weft_var *x = op_x(op);
    if (!axes || n != 1 || !x || x->ndim < 2) return false;
    int64_t other = (axes[0] + 1 + draw_below(salt, (unsigned)x->ndim - 1)) % (int64_t)x->ndim;
    if (x->dims[other] != x->dims[axes[0]]) return false;
    must(weft_op_set_attr_ints(op, "axes", 1, &other));
    return true;
}

static const struct {
    const char *what;
    bool (*make)(weft_op *op, uint64_t *salt); /* false: it cannot be made with that op */
} mistakes[] = {
    {"another slice", spoil_slice},      {"zeros elsewhere", spoil_pad},
    {"pieces exchanged", spoil_concat},  {"parts exchanged", spoil_split},
    {"another ring", spoil_ring},        {"a ring in another order", spoil_order},
    {"pieces for others", spoil_splits}, {"another reduce", spoil_reduce},
    {"a sum of sums", spoil_once},       {"another factor", spoil_scale},
    {"another offset", spoil_offset},    {"dimensions turned otherwise", spoil_turn},
    {"another input", spoil_input},      {"read before the collective", spoil_read},
    {"an op left out", spoil_left_out},  {"inputs exchanged", spoil_inputs},
    {"another axis", spoil_axis},        {"bounds of slices exchanged", spoil_slices},
    {"another dimension", spoil_sliced}, {"other extents", spoil_shape},
};

bool spmd_mistake(weft_program *p, uint64_t salt, const char **out_what) {
    unsigned nops = 0, at;
    FOR_EACH_OP(op, p->blocks[0]) nops++;
    unsigned how = draw_below(&salt, sizeof mistakes / sizeof *mistakes), first = draw_below(&salt, UINT16_MAX);
    *out_what = mistakes[how].what;
    for (unsigned tries = 0; tries < nops; tries++) { /* the next op with which it can be made */
        at = 0;
        FOR_EACH_OP(op, p->blocks[0])
        if (at++ == (first + tries) % nops && mistakes[how].make(op, &salt)) return true;
    }
    return false;
}
