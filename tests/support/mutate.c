/* mutate.c: see mutate.h. */
#include "tests/support/mutate.h"

#include "ops/ops.h"
#include "tests/support/drop_arg.h"
#include "tests/support/must.h"

const char *mutation_name(mutation m) {
    static const char *const names[] = {
        "factor dropped",    "factor doubled",      "slice shifted",       "member missing",      "reduced early",
        "reduce dropped",    "reduced twice",       "another reduction",   "another dtype",       "another count",
        "another root",      "another ring",        "ring member changed", "op dropped",          "another input",
        "reduces exchanged", "wait dropped",        "wait moved later",    "wait moved earlier",  "event dropped",
        "event moved later", "event moved earlier", "dependency deleted",  "wait_tensor dropped", "stream changed"};
    return names[m];
}

/* --- factors ------------------------------------------------------------------------------------------------------ */

static bool set_factor(weft_op *op, const char *attr, bool drop) {
    const weft_attr *a = op_find_attr(op, attr);
    if (!a || (a->type != ATTR_FLOAT && a->type != ATTR_FLOAT64) || a->u.f == 0 || (drop && a->u.f == 1)) return false;
    if (*attr_string(op, "str_value", "")) must(weft_op_set_attr_string(op, "str_value", ""));
    must(weft_op_set_attr_float(op, attr, drop ? 1 : a->u.f * 2));
    return true;
}

static bool change_factor(weft_op *op, bool drop) {
    if (op_has_effect(op, OP_COLLECTIVE | OP_ALIASES)) return false;
    return set_factor(op, "scale", drop) || set_factor(op, "value", drop) || set_factor(op, "other", drop);
}

/* --- slices and members ------------------------------------------------------------------------------------------- */

static void exchange_args(weft_op *op, const slot *s, uint32_t i, uint32_t k) {
    weft_var *x = slot_var(op, s, i), *y = slot_var(op, s, k);
    use_rename(&slot_args(op, s)[i], y);
    use_rename(&slot_args(op, s)[k], x);
}

/* A bucket's members change places; a slice begins or ends elsewhere. */
static bool shift_slice(weft_op *op, unsigned salt) {
    static const char *const attrs[] = {"index", "start", "storage_offset"};
    const slot *out = op_find_slot(op, true, "Output");
    if (op_is(op, "coalesce_tensor")) {
        if (!out || out->nargs < 2) return false;
        uint32_t i = salt % (out->nargs - 1);
        exchange_args(op, out, i, i + 1); /* the inputs stay in their order */
        op_changed(op);
        return true;
    }
    for (size_t i = 0; i < 3; i++) {
        const weft_attr *a = op_find_attr(op, attrs[i]);
        if (!a || (a->type != ATTR_INT && a->type != ATTR_LONG)) continue;
        weft_attr *changed;
        int64_t old = a->u.i;
        attr_type type = a->type;
        must(op_set_attr(op, attrs[i], &changed));
        changed->type = type;
        changed->u.i = old ? old - 1 : old + 1;
        return true;
    }
    if (out == NULL && op_is(op, "split") && (out = op_find_slot(op, true, "Out")) && out->nargs > 1) {
        exchange_args(op, out, 0, 1 + salt % (out->nargs - 1));
        op_changed(op);
        return true;
    }
    return false;
}

static bool drop_member(weft_op *op, unsigned salt) {
    static const char *const lists[] = {"Input", "X", "tensors", "inputs", "self"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const slot *in = op_find_slot(op, false, lists[i]);
        if (!in || in->nargs < 2) continue;
        uint32_t at = salt % in->nargs;
        const char *result = i == 0 ? "Output" : op_find_slot(op, true, "Out") ? "Out" : "out";
        const slot *out = op_find_slot(op, true, result);
        bool has_pairs = out && out->nargs == in->nargs;
        drop_arg(op, in, at);
        if (has_pairs) drop_arg(op, op_find_slot(op, true, result), at);
        return true;
    }
    return false;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* Vars of one buffer: what a bucket or a view makes one. */
static bool is_one_buffer(const weft_program *p, const weft_var *x, const weft_var *y) {
    if (x == y) return true;
    FOR_EACH_OP(op, p->blocks[0]) {
        if (!op_is(op, "coalesce_tensor")) continue;
        bool has_x = false, has_y = false;
        FOR_EACH_ARG(op, true, u) {
            has_x |= u->var_id == x->id;
            has_y |= u->var_id == y->id;
        }
        if (has_x && has_y) return true;
    }
    return false;
}

static bool is_reduce(weft_op *op) {
    return op_has_effect(op, OP_COLLECTIVE) && op_x(op) && op_out(op);
}

/* To before the last op that wrote what it reduces. */
static bool reduce_early(weft_op *op) {
    if (!is_reduce(op)) return false;
    for (weft_op *before = op->prev; before; before = before->prev) {
        if (op_has_effect(before, OP_NO_BYTES | OP_ALIASES)) continue;
        FOR_EACH_ARG(before, true, w) {
            if (!is_one_buffer(op->program, use_var(before->program, w), op_x(op))) continue;
            weft_op_move_before(op, before);
            return true;
        }
    }
    return false;
}

static bool drop_in_place(weft_op *op) {
    if (!op_x(op) || op_x(op) != op_out(op) || op_has_effect(op, OP_NO_BYTES)) return false;
    weft_op_remove(op);
    return true;
}

static bool reduce_twice(weft_op *op) {
    weft_op *again;
    if (!is_reduce(op) || op_x(op) != op_out(op)) return false;
    must(op_clone(op, &again));
    weft_block_insert_after(op->block, op, again);
    return true;
}

static bool change_reduction(weft_op *op, unsigned salt) {
    static const int64_t others[] = {WEFT_REDUCE_MAX, WEFT_REDUCE_MIN};
    if (!is_reduce(op)) return false;
    if (op_find_attr(op, "reduce_op") && op_find_attr(op, "reduce_op")->type == ATTR_STRING) {
        must(weft_op_set_attr_string(op, "reduce_op", salt % 2 ? "max" : "min"));
        return true;
    }
    if (op_find_attr(op, "reduce_type")) {
        must(weft_op_set_attr_int(op, "reduce_type", others[salt % 2]));
        return true;
    }
    if (!op_is(op, "c_allreduce_sum") && !op_is(op, "c_reduce_sum")) return false;
    const name *type;
    const char *other = op_is(op, "c_reduce_sum") ? "c_reduce_max" : salt % 2 ? "c_allreduce_max" : "c_allreduce_min";
    must(program_name(op->program, other, strlen(other), &type));
    op->type = type;
    op->schema = NULL;
    op_changed(op);
    return true;
}

static bool change_dtype(weft_op *op, unsigned salt) {
    static const char *const attrs[] = {"dtype", "out_dtype"};
    for (size_t i = 0; i < 2; i++) {
        if (!op_find_attr(op, attrs[i]) || op_find_attr(op, attrs[i])->type != ATTR_INT) continue;
        int64_t old = attr_int(op, attrs[i], 0);
        must(weft_op_set_attr_int(op, attrs[i], old == WEFT_FP32 ? (salt % 2 ? WEFT_FP16 : WEFT_FP64) : WEFT_FP32));
        return true;
    }
    return false;
}

/* A bucket's reduce takes one of its members instead. */
static bool change_count(weft_op *op, unsigned salt) {
    if (!is_reduce(op) || op_x(op) != op_out(op)) return false;
    weft_var *whole = op_x(op);
    FOR_EACH_OP(bucket, op->block) {
        if (!op_is(bucket, "coalesce_tensor") || weft_op_output(bucket, "FusedOutput", 0) != whole) continue;
        const slot *members = op_find_slot(bucket, true, "Output");
        if (members->nargs < 2) return false;
        weft_var *member = slot_var(bucket, members, salt % members->nargs);
        weft_op_rename_input(op, whole, member);
        weft_op_rename_output(op, whole, member);
        return true;
    }
    return false;
}

static bool change_root(weft_op *op) {
    const char *attr = op_find_attr(op, "root_id") ? "root_id" : op_find_attr(op, "root") ? "root" : NULL;
    if (!attr || !op_has_effect(op, OP_COLLECTIVE)) return false;
    must(weft_op_set_attr_int(op, attr, attr_int(op, attr, 0) ? 0 : 1));
    return true;
}

static bool change_ring(weft_op *op, unsigned salt) {
    weft_program *p = op->program;
    if (!op_has_effect(op, OP_COLLECTIVE)) return false;
    if (p->nrings > 1 && salt % 2) { /* one that there is */
        size_t i = 0;
        while (i < p->nrings && p->rings[i].id == op_ring(op)) i++;
        must(weft_op_set_attr_int(op, "ring_id", p->rings[i].id));
        return true;
    }
    int64_t alone = p->rank < 0 ? 0 : p->rank;
    must(weft_program_set_ring(p, 77, 1, &alone));
    must(weft_op_set_attr_int(op, "ring_id", 77));
    return true;
}

/* Of the op's own ring; the first op on it stands for it. */
static bool change_ring_member(weft_op *op, unsigned salt) {
    const ring *r = op_has_effect(op, OP_COLLECTIVE) ? program_find_ring(op->program, op_ring(op)) : NULL;
    int64_t ranks[64];
    if (!r || r->nranks < 2 || r->nranks > 64) return false;
    size_t n = (size_t)r->nranks;
    memcpy(ranks, r->ranks, n * sizeof *ranks);
    if (salt % 2) {
        int64_t first = ranks[0];
        ranks[0] = ranks[n - 1];
        ranks[n - 1] = first;
    } else {
        n--;
    }
    must(weft_program_set_ring(op->program, r->id, n, ranks));
    return true;
}

static bool exchange_reduces(weft_op *x) {
    if (!is_reduce(x)) return false;
    for (weft_op *y = x->next; y; y = y->next) {
        if (!is_reduce(y) || op_ring(y) != op_ring(x) || op_x(x) == op_x(y)) continue;
        if (op_x(x) != op_out(x) || op_x(y) != op_out(y)) return false;
        weft_var *a = op_x(x), *b = op_x(y);
        weft_op_rename_input(x, a, b);
        weft_op_rename_output(x, a, b);
        weft_op_rename_input(y, b, a);
        weft_op_rename_output(y, b, a);
        return true;
    }
    return false;
}

/* --- any op ------------------------------------------------------------------------------------------------------- */

static bool has_type_of(const weft_var *x, const weft_var *y) {
    return x->dtype == y->dtype && x->kind == y->kind && x->ndim == y->ndim &&
           (!x->ndim || memcmp(x->dims, y->dims, x->ndim * sizeof *x->dims) == 0);
}

/* The first input that is no state becomes another var of that type which an op before wrote. */
static bool other_input(weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        if (v->persistable || op_has_effect(op, OP_NO_BYTES | OP_ALIASES)) continue;
        for (weft_op *before = op->prev; before; before = before->prev) {
            if (op_has_effect(before, OP_NO_BYTES | OP_ALIASES)) continue;
            FOR_EACH_ARG(before, true, w) {
                weft_var *other = use_var(before->program, w);
                if (other == v || !other->block || !has_type_of(other, v)) continue;
                weft_op_rename_input(op, v, other);
                return true;
            }
        }
    }
    return false;
}

/* --- streams and events ------------------------------------------------------------------------------------------- */

/* The next (or previous) op of block 0 on the same stream. */
static weft_op *neighbour(weft_op *op, bool later) {
    weft_op *n = later ? op->next : op->prev;
    while (n && strcmp(weft_op_stream(n), weft_op_stream(op)) != 0) n = later ? n->next : n->prev;
    return n;
}

static void set_waits(weft_op *op, const op_waits *old, size_t left_out, const char *more) {
    size_t n = old ? old->count : 0;
    op_dist *dist;
    must(op_dist_get(op, &dist));
    const char **waits = ARENA_ARRAY(&op->program->arena, const char *, n + 1);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (i != left_out) waits[count++] = old->events[i];
    if (more) waits[count++] = more;
    must(op_dist_set_waits(op->program, dist, waits, count));
    op_changed(op);
}

static bool change_wait(weft_op *op, mutation how, unsigned salt) {
    if (!op->dist || !op_dist_nwaits(op->dist)) return false;
    size_t at = salt % op_dist_nwaits(op->dist);
    const char *event = op->dist->waits->events[at];
    weft_op *to = how == WAIT_DROPPED ? op : neighbour(op, how == WAIT_MOVED_LATER);
    if (!to) return false;
    set_waits(op, op->dist->waits, at, NULL);
    if (to != op) set_waits(to, to->dist ? to->dist->waits : NULL, SIZE_MAX, event);
    return true;
}

static bool change_event(weft_op *op, mutation how) {
    if (!op->dist || !op->dist->event_to_record) return false;
    weft_op *to = how == EVENT_DROPPED ? op : neighbour(op, how == EVENT_MOVED_LATER);
    if (!to || (to != op && to->dist && to->dist->event_to_record)) return false;
    const char *event = op->dist->event_to_record;
    op->dist->event_to_record = NULL;
    op_changed(op);
    if (to == op) return true;
    op_dist *dist;
    must(op_dist_get(to, &dist));
    dist->event_to_record = event;
    op_changed(to);
    return true;
}

/* Who read the value that was waited for reads the pending one. */
static bool drop_wait_tensor(weft_op *op) {
    if (!op_is(op, "wait_tensor")) return false;
    weft_var *pending = slot_var(op, op_slot(op, false, 0), 0), *value = slot_var(op, op_slot(op, true, 0), 0);
    for (weft_op *o = op->next; o; o = o->next) weft_op_rename_input(o, value, pending);
    weft_op_remove(op);
    return true;
}

static bool change_stream(weft_op *op) {
    if (!*weft_op_stream(op)) return false;
    op->dist->execution_stream = "elsewhere";
    op_changed(op);
    return true;
}

bool mutate(weft_program *p, size_t index, mutation how, unsigned salt) {
    weft_op *op = p->blocks[0]->first;
    while (op && index--) op = op->next;
    if (!op) return false;
    switch (how) {
    case FACTOR_DROPPED: return change_factor(op, true);
    case FACTOR_DOUBLED: return change_factor(op, false);
    case SLICE_SHIFTED: return shift_slice(op, salt);
    case MEMBER_MISSING: return drop_member(op, salt);
    case REDUCED_EARLY: return reduce_early(op);
    case REDUCE_DROPPED: return is_reduce(op) && drop_in_place(op);
    case REDUCED_TWICE: return reduce_twice(op);
    case OTHER_REDUCTION: return change_reduction(op, salt);
    case OTHER_DTYPE: return change_dtype(op, salt);
    case OTHER_COUNT: return change_count(op, salt);
    case OTHER_ROOT: return change_root(op);
    case OTHER_RING: return change_ring(op, salt);
    case RING_MEMBER_CHANGED: return change_ring_member(op, salt);
    case OP_DROPPED: return !is_reduce(op) && drop_in_place(op);
    case OTHER_INPUT: return other_input(op);
    case REDUCES_EXCHANGED: return exchange_reduces(op);
    case WAIT_DROPPED:
    case WAIT_MOVED_LATER:
    case WAIT_MOVED_EARLIER: return change_wait(op, how, salt);
    case EVENT_DROPPED:
    case EVENT_MOVED_LATER:
    case EVENT_MOVED_EARLIER: return change_event(op, how);
    case WAIT_TENSOR_DROPPED: return drop_wait_tensor(op);
    case STREAM_CHANGED: return change_stream(op);
    case DEPENDENCY_DELETED:
        if (!op_is(op, "nop") && !op_is(op, "depend")) return false;
        weft_op_remove(op);
        return true;
    case MUTATIONS: break;
    }
    return false;
}
