/* spmd_emit.c: the ops of steps between placements, in the program's era. Parts of a dimension that is not the
 * outermost are moved there and back by split and concat, as collectives know the outermost alone. */
#include "passes/spmd/spmd.h"

enum { FIRST_NEW_ERA = 3000000 };
static const char namescope[] = "/auto_parallel/reshard", gradients[] = "/auto_parallel/data_parallel";

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static weft_status make_op(spmd_emitter *e, const char *type, const char *in_slot, size_t n, weft_var *const *in,
                           weft_op **out) {
    if ((*out = spmd_places_next(e->places))) return NULL;
    TRY(weft_op_create(e->plan->program, type, out));
    TRY(spmd_places_made(e->places, *out));
    for (size_t i = 0; i < n; i++) TRY(weft_op_add_input(*out, in_slot, in[i]));
    if (e->plan->is_fx) return NULL; /* nodes have no roles */
    TRY(weft_op_set_attr_int(*out, "op_role", e->role));
    return weft_op_set_attr_string(*out, "op_namescope", namescope);
}

static void insert(const spmd_emitter *e, weft_op *op) {
    if (!spmd_places_again(e->places)) weft_block_insert_before(e->plan->block, e->before, op);
}

static weft_status put_output(const spmd_emitter *e, weft_op *op, const char *out_slot, weft_var *var) {
    return spmd_places_again(e->places) ? NULL : weft_op_add_output(op, out_slot, var);
}

weft_status spmd_put(spmd_emitter *e, weft_op *op, const char *attr, attr_type type, size_t count,
                     const int64_t *values) {
    if (spmd_places_again(e->places)) return spmd_places_note(e->places, op, attr, count, values);
    if (type == ATTR_INTS) return weft_op_set_attr_ints(op, attr, count, values);
    return type == ATTR_LONG ? weft_op_set_attr_long(op, attr, *values) : weft_op_set_attr_int(op, attr, *values);
}

static weft_status put_int(const spmd_emitter *e, weft_op *op, const char *attr, int64_t value) {
    return spmd_put((spmd_emitter *)e, op, attr, ATTR_INT, 1, &value);
}

static weft_status put_ints(const spmd_emitter *e, weft_op *op, const char *attr, size_t count, const int64_t *values) {
    return spmd_put((spmd_emitter *)e, op, attr, ATTR_INTS, count, values);
}

/* What is the same at all places. */
static weft_status put_float(const spmd_emitter *e, weft_op *op, const char *attr, double value) {
    return spmd_places_again(e->places) ? NULL : weft_op_set_attr_float(op, attr, value);
}

static weft_status put_bool(const spmd_emitter *e, weft_op *op, const char *attr, bool value) {
    return spmd_places_again(e->places) ? NULL : weft_op_set_attr_bool(op, attr, value);
}

weft_status spmd_emit_scale(spmd_emitter *e, weft_var *x, weft_var *into, double factor) {
    weft_op *op;
    TRY(make_op(e, "scale", "X", 1, &x, &op));
    TRY(put_output(e, op, "Out", into));
    TRY(put_float(e, op, "scale", (double)(float)factor));
    TRY(put_float(e, op, "bias", 0.0));
    TRY(put_bool(e, op, "bias_after_scale", true));
    insert(e, op);
    return NULL;
}

weft_status spmd_emit_copy(spmd_emitter *e, weft_var *x, weft_var *into) {
    weft_op *op;
    TRY(make_op(e, "assign", "X", 1, &x, &op));
    TRY(put_output(e, op, "Out", into));
    insert(e, op);
    return NULL;
}

/* What a step works on. */
typedef struct moved {
    spmd_emitter *e;
    const spmd_var *v;
    const spmd_step *step;
    weft_var *now;
    int64_t extent[WEFT_MAX_RANK]; /* of `now` */
    int64_t made[WEFT_MAX_RANK];   /* of what the step makes */
    axes_placed was;               /* how `now` lies */
    weft_var *into;                /* the last op's output; NULL: a new var */
    double number;                 /* that fills it up */
} moved;

/* The output of the next op: `into` for the last of a step. */
static weft_status next_var(moved *m, bool is_last, weft_var **out) {
    if (is_last && m->into) return *out = m->into, NULL;
    if (spmd_places_again(m->e->places)) return *out = m->now, NULL;
    if (is_last) return spmd_new_var(m->e->plan, m->v, &m->step->made, out);
    return spmd_add_var(m->e->plan, m->v, m->extent, out);
}

/* A dimension becomes so many times as long, or as short. One that is open stays so: it divides by any number. */
static void lengthen(moved *m, int dim, int64_t n) {
    if (m->extent[dim] >= 0) m->extent[dim] *= n;
}
static void shorten(moved *m, int dim, int64_t n) {
    if (m->extent[dim] >= 0) m->extent[dim] /= n;
}

/* The first `n` rows of `now`, and so on, as vars of their own; part `last` is what the step makes (-1: none). */
static weft_status split_in(moved *m, int64_t n, int dim, int64_t last, weft_var **parts) {
    weft_op *split;
    TRY(make_op(m->e, "split", "X", 1, &m->now, &split));
    shorten(m, dim, n);
    for (int64_t i = 0; i < n; i++) {
        parts[i] = m->now;
        if (i == last)
            TRY(next_var(m, true, &parts[i]));
        else if (!spmd_places_again(m->e->places))
            TRY(spmd_add_var(m->e->plan, m->v, m->extent, &parts[i]));
        TRY(put_output(m->e, split, "Out", parts[i]));
    }
    TRY(put_int(m->e, split, "axis", dim));
    TRY(put_int(m->e, split, "num", n));
    TRY(put_ints(m->e, split, "sections", 0, NULL));
    insert(m->e, split);
    return NULL;
}

static weft_status concat(moved *m, int64_t n, weft_var **parts, int dim, bool is_last, weft_var **out) {
    weft_op *op;
    TRY(make_op(m->e, "concat", "X", (size_t)n, parts, &op));
    TRY(next_var(m, is_last, out));
    TRY(put_output(m->e, op, "Out", *out));
    TRY(put_int(m->e, op, "axis", dim));
    insert(m->e, op);
    return NULL;
}

static weft_status split_and_concat(moved *m, int64_t n, int from, int to, bool is_last) {
    weft_var **parts = ARENA_ARRAY(m->e->plan->scratch, weft_var *, n), *made;
    if (!parts) return base_out_of_memory();
    TRY(split_in(m, n, from, -1, parts));
    lengthen(m, to, n);
    TRY(concat(m, n, parts, to, is_last, &made));
    m->now = made;
    return NULL;
}

/* Parts one after another, in the order of the ring, each to its place: the innermost axis first. */
static weft_status put_together(moved *m, int64_t n) {
    const spmd_mesh *on = &m->e->plan->mesh;
    weft_var **parts = ARENA_ARRAY(m->e->plan->scratch, weft_var *, n);
    if (!parts) return base_out_of_memory();
    TRY(split_in(m, n, 0, -1, parts));
    for (int axis = on->axes.naxes; axis-- > 0;) {
        if (!(m->step->axes >> axis & 1)) continue;
        int64_t own = on->axes.extent[axis];
        int d = placed_dim_of(&m->was, m->v->whole.ndim, axis);
        n /= own;
        lengthen(m, d, own);
        for (int64_t i = 0; i < n; i++) TRY(concat(m, own, parts + i * own, d, n == 1, &parts[i]));
    }
    m->now = parts[0];
    return NULL;
}

static weft_status cut(moved *m, int dim, int64_t start, int64_t extent, bool is_last) {
    int64_t axis = dim, end = start + extent, one = 1;
    weft_op *op;
    weft_var *made;
    m->extent[dim] = extent;
    TRY(make_op(m->e, "slice", "Input", 1, &m->now, &op));
    TRY(next_var(m, is_last, &made));
    TRY(put_output(m->e, op, "Out", made));
    TRY(put_ints(m->e, op, "axes", 1, &axis));
    TRY(put_ints(m->e, op, "starts", 1, &start));
    TRY(put_ints(m->e, op, "ends", 1, &end));
    TRY(put_ints(m->e, op, "infer_flags", 1, &one));
    TRY(put_ints(m->e, op, "decrease_axis", 0, NULL));
    insert(m->e, op);
    m->now = made;
    return NULL;
}

/* Zeros, or what the number is, before it and behind it. */
static weft_status pad(moved *m, int dim, int64_t before, int64_t extent, bool is_last) {
    int64_t paddings[2 * WEFT_MAX_RANK] = {0};
    weft_op *op;
    weft_var *made;
    paddings[2 * dim] = before;
    paddings[2 * dim + 1] = extent - before - m->extent[dim];
    m->extent[dim] = extent;
    TRY(make_op(m->e, "pad", "X", 1, &m->now, &op));
    TRY(next_var(m, is_last, &made));
    TRY(put_output(m->e, op, "Out", made));
    TRY(put_ints(m->e, op, "paddings", 2 * (size_t)m->v->whole.ndim, paddings));
    TRY(put_float(m->e, op, "pad_value", m->number));
    insert(m->e, op);
    m->now = made;
    return NULL;
}

/* Parts that differ are moved as if they were equal: the last are filled up, and what was filled in is cut off. */
static weft_status fit(moved *m, int dim, int64_t extent, bool is_last) {
    if (m->extent[dim] < 0 || m->extent[dim] == extent) return NULL; /* open ones are taken to be equal */
    m->e->plan->fits = true;
    weft_status status = m->extent[dim] < extent ? pad(m, dim, 0, extent, is_last) : cut(m, dim, 0, extent, is_last);
    m->e->plan->fits = false;
    return status;
}

/* What an argument of an op is, whose largest part is `made`; false: the rank has as much of `d`. */
static bool is_short(spmd_emitter *e, const spmd_var *v, const axes_placed *at, int d, moved *m) {
    m->e = e;
    m->v = v;
    placed_extents(&e->plan->mesh, at, &v->whole, m->extent);
    placed_largest(&e->plan->mesh, at, &v->whole, m->made);
    return m->extent[d] != m->made[d];
}

weft_status spmd_emit_fitted_input(spmd_emitter *e, spmd_op *op, size_t i, int d, double number) {
    moved m = {.now = use_var(e->plan->program, &op->op->args[op->at[i]]), .number = number};
    if (!is_short(e, op->in[i], &op->choice->in[i], d, &m)) return NULL;
    e->before = op->op;
    TRY(fit(&m, d, m.made[d], false));
    spmd_set_arg(op, i, m.now);
    return NULL;
}

weft_status spmd_emit_fitted_output(spmd_emitter *e, spmd_op *op, size_t o, int d) {
    size_t arg = op->kind->rule.nin + o;
    moved m = {.into = use_var(e->plan->program, &op->op->args[op->at[arg]])};
    if (!is_short(e, op->out[o], &op->choice->out[o], d, &m)) return NULL;
    int64_t own = m.extent[d];
    m.extent[d] = m.made[d];
    e->plan->fits = true;
    weft_status status = spmd_add_var(e->plan, m.v, m.extent, &m.now);
    e->plan->fits = false;
    TRY(status);
    spmd_set_arg(op, arg, m.now);
    e->before = op->op->next;
    return fit(&m, d, own, true);
}

/* Open extents have open parts. */
static int64_t part_of(int64_t extent, int64_t n) {
    return extent < 0 ? extent : (extent + n - 1) / n;
}

static bool makes_up(int64_t part, int64_t n, int64_t extent) {
    return extent < 0 || part * n == extent;
}

/* Where the rank's part begins. */
static int64_t start_of(const moved *m, int64_t extent) {
    const spmd_mesh *on = &m->e->plan->mesh;
    int64_t start = spmd_part(on, m->step->axes) * part_of(extent, spmd_extent(on, m->step->axes));
    return start < extent ? start : extent;
}

/* Of an open extent it is not known where the part begins: it is split. */
static weft_status slice_open(moved *m) {
    const spmd_mesh *on = &m->e->plan->mesh;
    int64_t n = spmd_extent(on, m->step->axes), own = spmd_part(on, m->step->axes);
    weft_var **parts = ARENA_ARRAY(m->e->plan->scratch, weft_var *, n);
    if (!parts) return base_out_of_memory();
    TRY(split_in(m, n, m->step->dim, own, parts));
    m->now = parts[own];
    return NULL;
}

static weft_status slice(moved *m) {
    int d = m->step->dim;
    if (m->extent[d] < 0) return slice_open(m);
    return cut(m, d, start_of(m, m->extent[d]), m->made[d], true);
}

static weft_status pad_part(moved *m) {
    int d = m->step->dim;
    return pad(m, d, start_of(m, m->made[d]), m->made[d], true);
}

static weft_status share(moved *m) {
    weft_var *made;
    TRY(next_var(m, true, &made));
    TRY(spmd_emit_scale(m->e, m->now, made, 1.0 / (double)spmd_extent(&m->e->plan->mesh, m->step->axes)));
    m->now = made;
    return NULL;
}

/* The collective of an era. */
typedef struct collective_name {
    const char *old, *new;
} collective_name;

static bool is_new_era(const spmd_plan *plan) {
    return plan->is_fx || plan->program->version >= FIRST_NEW_ERA;
}

/* Extents of the parts that are sent and received, which are equal. */
static weft_status set_splits(moved *m, weft_op *op, int64_t n) {
    int64_t *parts = ARENA_ARRAY(m->e->plan->scratch, int64_t, n);
    if (!parts) return base_out_of_memory();
    for (int64_t i = 0; i < n; i++) parts[i] = m->extent[0] / n;
    TRY(put_ints(m->e, op, "out_splits", (size_t)n, parts));
    return put_ints(m->e, op, "in_splits", (size_t)n, parts);
}

/* The whole part goes to one rank, and comes from one. */
static weft_status set_permuted(moved *m, weft_op *op, int64_t n) {
    const spmd_mesh *on = &m->e->plan->mesh;
    arena *memory = m->e->plan->scratch;
    int64_t *gives = ARENA_ARRAY(memory, int64_t, n), *gets = ARENA_ARRAY(memory, int64_t, n);
    int64_t *sources = ARENA_ARRAY(memory, int64_t, n), self = spmd_part(on, m->step->axes);
    if (!gives || !gets || !sources) return base_out_of_memory();
    TRY(spmd_permute_sources(on, m->v->whole.ndim, &m->was, &m->step->made, m->step->axes, memory, sources));
    for (int64_t i = 0; i < n; i++) {
        gives[i] = sources[i] == self ? m->extent[0] : 0;
        gets[i] = sources[self] == i ? m->made[0] : 0;
    }
    TRY(put_ints(m->e, op, "out_splits", (size_t)n, gets));
    return put_ints(m->e, op, "in_splits", (size_t)n, gives);
}

/* A graph's collectives only begin. What is waited for is a view of what they make: a var that has bytes of its own
 * gets a copy. */
static weft_status wait_for(moved *m, bool is_last, weft_op *begun) {
    weft_op *op;
    weft_var *made;
    if (!m->e->plan->is_fx) return NULL;
    TRY(put_bool(m->e, begun, "async_op", true));
    TRY(make_op(m->e, "wait_tensor", "X", 1, &m->now, &op));
    TRY(next_var(m, is_last && !m->into, &made));
    TRY(put_output(m->e, op, "Out", made));
    insert(m->e, op);
    m->now = made;
    if (!is_last || !m->into) return NULL;
    m->now = m->into;
    return spmd_emit_copy(m->e, made, m->into);
}

/* Whether some op says that it completes the gradient of a parameter here. */
static bool is_gradient(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        const weft_attr *pairs = u->is_output ? op_find_attr(op, "op_role_var") : NULL;
        for (size_t i = 1; pairs && pairs->type == ATTR_STRINGS && i < pairs->count; i += 2)
            if (op_find_var(op, text_of_name(pairs->u.strings[i])) == v) return true;
    }
    return false;
}

/* Its sum is like one of data parallelism to the passes behind, which put it on a stream and into a bucket. */
static weft_status tell_gradient(const moved *m, weft_op *reduce) {
    if (m->step->reduce != WEFT_REDUCE_SUM || spmd_places_again(m->e->places) || !is_gradient(m->v->var)) return NULL;
    return weft_op_set_attr_string(reduce, "op_namescope", gradients);
}

static weft_status collective(moved *m, collective_name named, bool is_last, bool in_place) {
    bool permutes = m->step->kind == STEP_PERMUTE, new_era = is_new_era(m->e->plan) || permutes;
    int64_t id, n = spmd_extent(&m->e->plan->mesh, m->step->axes);
    weft_op *op;
    weft_var *made = m->now;
    TRY(spmd_ring(m->e->plan, m->step->axes, &id));
    TRY(make_op(m->e, new_era ? named.new : named.old, new_era ? "x" : "X", 1, &m->now, &op));
    if (in_place)
        TRY(tell_gradient(m, op));
    else
        TRY(next_var(m, is_last && !m->e->plan->is_fx, &made));
    TRY(put_output(m->e, op, new_era ? "out" : "Out", made));
    TRY(put_int(m->e, op, "ring_id", id));
    if (m->step->kind == STEP_ALL_GATHER || m->step->kind == STEP_REDUCE_SCATTER) TRY(put_int(m->e, op, "nranks", n));
    if (new_era && (m->step->kind == STEP_ALL_REDUCE || m->step->kind == STEP_REDUCE_SCATTER))
        TRY(put_int(m->e, op, "reduce_type", m->step->reduce));
    if (!new_era) TRY(put_bool(m->e, op, "use_calc_stream", true));
    if (m->e->plan->is_fx && m->step->kind == STEP_ALL_TO_ALL) TRY(set_splits(m, op, n));
    if (permutes) TRY(set_permuted(m, op, n));
    if (!new_era && strcmp(named.old, "c_concat") == 0) {
        TRY(put_int(m->e, op, "rank", spmd_part(&m->e->plan->mesh, m->step->axes)));
        TRY(put_bool(m->e, op, "use_model_parallel", true));
    }
    insert(m->e, op);
    if (!spmd_places_again(m->e->places)) m->e->ncollectives++;
    m->now = made;
    return wait_for(m, is_last, op);
}

static weft_status all_reduce(moved *m) {
    static const collective_name names[] = {[WEFT_REDUCE_SUM] = {"c_allreduce_sum", "all_reduce"},
                                            [WEFT_REDUCE_MAX] = {"c_allreduce_max", "all_reduce"},
                                            [WEFT_REDUCE_MIN] = {"c_allreduce_min", "all_reduce"},
                                            [WEFT_REDUCE_PROD] = {"c_allreduce_prod", "all_reduce"}};
    return collective(m, names[m->step->reduce], true, m->into == m->now);
}

/* All parts of one dimension. */
static weft_status gather_dim(moved *m, int64_t n, int d) {
    int64_t part = part_of(m->made[d], n);
    bool ends = makes_up(part, n, m->made[d]), last_dim = d > 0 && d == m->v->whole.ndim - 1 && !is_new_era(m->e->plan);
    TRY(fit(m, d, part, false));
    lengthen(m, last_dim ? d : 0, n);
    TRY(collective(m, (collective_name){last_dim ? "c_concat" : "c_allgather", "all_gather"},
                   ends && (d == 0 || last_dim), false));
    if (d && !last_dim) TRY(split_and_concat(m, n, 0, d, ends));
    return fit(m, d, m->made[d], true);
}

static weft_status all_gather(moved *m) {
    int64_t n = spmd_extent(&m->e->plan->mesh, m->step->axes);
    if (m->step->dim >= 0) return gather_dim(m, n, m->step->dim);
    lengthen(m, 0, n);
    TRY(collective(m, (collective_name){"c_allgather", "all_gather"}, false, false));
    return put_together(m, n);
}

static weft_status reduce_scatter(moved *m) {
    int64_t n = spmd_extent(&m->e->plan->mesh, m->step->axes);
    int d = m->step->dim;
    int64_t part = part_of(m->extent[d], n);
    TRY(fit(m, d, part * n, false));
    if (d) TRY(split_and_concat(m, n, d, 0, false));
    shorten(m, 0, n);
    TRY(collective(m, (collective_name){"c_reducescatter", "reduce_scatter"}, part == m->made[d], false));
    return fit(m, d, m->made[d], true);
}

static weft_status all_to_all(moved *m) {
    int64_t n = spmd_extent(&m->e->plan->mesh, m->step->axes);
    int d = m->step->dim, from = m->step->from;
    int64_t part = part_of(m->extent[d], n), part_from = part_of(m->made[from], n);
    bool ends = makes_up(part_from, n, m->made[from]), ends_all = ends && part == m->made[d];
    TRY(fit(m, from, part_from, false));
    TRY(fit(m, d, part * n, false));
    if (d) TRY(split_and_concat(m, n, d, 0, false));
    TRY(collective(m, (collective_name){"alltoall", "all_to_all"}, from == 0 && ends_all, false));
    if (from) TRY(split_and_concat(m, n, 0, from, ends_all));
    TRY(fit(m, from, m->made[from], part == m->made[d]));
    return fit(m, d, m->made[d], true);
}

static weft_status permute(moved *m) { /* no older op has splits */
    return collective(m, (collective_name){"all_to_all", "all_to_all"}, true, false);
}

static weft_status emit_step(moved *m) {
    switch (m->step->kind) {
    case STEP_SLICE: return slice(m);
    case STEP_ALL_TO_ALL: return all_to_all(m);
    case STEP_REDUCE_SCATTER: return reduce_scatter(m);
    case STEP_ALL_REDUCE: return all_reduce(m);
    case STEP_ALL_GATHER: return all_gather(m);
    case STEP_PERMUTE: return permute(m);
    case STEP_SHARE: return share(m);
    case STEP_PAD: return pad_part(m);
    }
    return NULL;
}

weft_status spmd_emit_path(spmd_emitter *e, const spmd_var *v, weft_var *from, const spmd_path *path, weft_var *into,
                           weft_var **out) {
    moved m = {.e = e, .v = v, .now = from};
    for (int i = 0; i < path->count; i++) {
        const spmd_step *step = &path->steps[i];
        m.was = i ? path->steps[i - 1].made : path->start;
        placed_extents(&e->plan->mesh, &m.was, &v->whole, m.extent);
        placed_extents(&e->plan->mesh, &step->made, &v->whole, m.made);
        m.step = step;
        m.into = i + 1 == path->count ? into : NULL;
        TRY(emit_step(&m));
        if (step->divide != 1) TRY(spmd_emit_scale(e, m.now, m.now, 1.0 / (double)step->divide));
    }
    *out = m.now;
    return NULL;
}
