/* shard_updates: each rank updates a part of the parameters and keeps that part of the optimizer's state alone (ZeRO 1,
 * Rajbhandari et al. 2020, arXiv:1910.02054).
 *
 * Where a gradient is all-reduced for one optimizer op, it is reduce-scattered, the op updates its rank's rows, and the
 * parameter's rows are gathered before its first reader in the next step. State lies by rows then: parameters and
 * moments have a placement on a mesh of the ring's ranks, by which files of whole tensors are cut and joined. What a
 * gradient sends is what its all-reduce sent, since an all-reduce is both halves; the sums are in the same order. The
 * two halves have streams of their own: sums hide behind the backward pass, gathers behind the forward pass.
 *
 * Whether an update can be cut is asked of the op's factor table (ops/axes.def): lamb and lars need the whole norm. */
#include <stdio.h>

#include "ops/axes.h"
#include "passes/certificate.h"
#include "passes/grad_sync.h"

#define EVENT_PREFIX "shard_updates/"
#define NAMESCOPE "/shard_updates"

static const weft_option options[] = {
    {"min_kb", WEFT_OPTION_FLOAT, "0", NULL, "parameters of fewer KiB are updated whole on every rank"},
    {"reduce_stream", WEFT_OPTION_STRING, "gradient_sync", NULL, "stream of the sums; empty: the compute stream"},
    {"gather_stream", WEFT_OPTION_STRING, "parameter_sync", NULL, "stream of the gathers; empty: the compute stream"},
};

enum { MOST_ARGS = 16 };

/* One parameter's. All is found before the first edit. */
typedef struct update {
    const grad_sync *sync;
    weft_op *optimizer, *producer; /* of the gradient, before it is reduced */
    weft_op *reader;               /* the first of the parameter; NULL: only the update reads it */
    weft_var *param;
    weft_var *state[MOST_ARGS]; /* what else lies by rows, but for the gradient */
    size_t nstate;
} update;

typedef struct sharder {
    weft_pass_context *pass;
    weft_program *program;
    grad_syncs syncs;
    access_index all; /* who uses parameters */
    const ring *ring; /* of the first reduce: all must run on it */
    const mesh *mesh;
    const char *reduce_stream, *gather_stream;
    int64_t reduce_ring, gather_ring;
    update *updates;
    size_t count, nevents;
    int64_t kept_nbytes; /* of state that a rank need not hold */
} sharder;

/* --- deciding ----------------------------------------------------------------------------------------------------- */

static bool same_extents(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0;
}

static int64_t nbytes_of(const weft_var *v) {
    int64_t n = (int64_t)weft_dtype_nbytes((weft_dtype)v->dtype);
    for (size_t i = 0; i < v->ndim; i++) n *= v->dims[i];
    return n;
}

/* An op's arguments, and how those like the parameter lie. */
typedef struct side {
    axes_side args;
    axes_placed placed[MOST_ARGS];
} side;

static weft_var *side_var(const side *s, const weft_op *op, size_t i) {
    return use_var(op->program, s->args.uses[i]);
}

static weft_status read_side(const sharder *s, weft_op *op, bool output, const weft_var *param, side *out) {
    *out = (side){0};
    TRY(axes_read_side(op, output, NULL, pass_scratch(s->pass), &out->args));
    for (size_t i = 0; i < out->args.count && i < MOST_ARGS; i++)
        out->placed[i].naxes[0] = same_extents(side_var(out, op, i), param);
    return NULL;
}

/* NULL, or why the ranks' parts of the update are not the parts of the whole update. */
static weft_status ask_rule(const sharder *s, weft_op *op, const side *in, side *out, const weft_var *param,
                            const char **why) {
    const axes_call call = {op, op_schema_of(op), in->args.types, out->args.types, in->args.first, out->args.first};
    const axes_mesh line = {.naxes = 1, .extent = {s->ring->nranks}};
    axes_placed made[MOST_ARGS] = {0};
    axes_rule rule;
    TRY(axes_of_op(&call, pass_scratch(s->pass), &rule));
    *why = rule.why_none ? rule.why_none : axes_follow(&rule, &line, in->placed, made);
    for (size_t i = 0; !*why && i < out->args.count; i++) {
        bool by_rows = same_extents(side_var(out, op, i), param);
        if (made[i].partial[0] || made[i].times || made[i].naxes[0] != by_rows) *why = "its outputs lie otherwise";
    }
    return NULL;
}

static bool is_used_by_others(const weft_var *v, const weft_op *op) {
    FOR_EACH_USE(u, v) {
        if (use_op(v->program, u) != op) return true;
    }
    return false;
}

static bool lies_otherwise(const sharder *s, const weft_var *v) {
    const placement *p = v->dist;
    return p && (placement_is_sharded(p) || (p->mesh && mesh_size(p->mesh) != s->ring->nranks));
}

static weft_status leave(const sharder *s, const update *u, weft_reason reason, const char *why) {
    const weft_op *op = u->optimizer ? u->optimizer : grad_sync_reduce(&s->syncs, u->sync);
    return weft_pass_left(s->pass, op, reason, "\"%s\": %s", u->sync->var->name->bytes, why);
}

/* The one op that touches the gradient behind its sync; it must be an optimizer that updates one parameter. */
static weft_op *find_optimizer(const sharder *s, const grad_sync *sync) {
    size_t n;
    const access *accesses = accesses_of(&s->syncs.index, sync->var, &n);
    size_t behind = sync->before + grad_sync_nops(sync);
    if (behind + 1 != n || (accesses[behind].flags & (ACCESS_WRITE | ACCESS_NESTED))) return NULL;
    weft_op *op = access_op(&s->syncs.index, accesses[behind].position);
    const slot *params = op_has_effect(op, OP_OPTIMIZER) ? op_param_slot(op) : NULL;
    return params && params->nargs == 1 ? op : NULL;
}

static bool is_on_compute(const weft_op *op) {
    return !*weft_op_stream(op);
}

/* What reads the parameter: nothing behind its update, nothing on another stream. */
static const char *check_readers(const sharder *s, update *u) {
    size_t n;
    const access *accesses = accesses_of(&s->all, u->param, &n);
    for (size_t i = 0; i < n; i++) {
        weft_op *op = access_op(&s->all, accesses[i].position);
        if (op == u->optimizer) return i + 1 == n ? NULL : "the parameter is used behind its update";
        if (accesses[i].flags & (ACCESS_WRITE | ACCESS_ALIAS)) return "others write the parameter, or view it";
        if (!is_on_compute(op)) return "an op on another stream reads the parameter";
        if (!u->reader) u->reader = op;
    }
    return "the parameter is not updated in place";
}

static weft_op *find_producer(const sharder *s, const grad_sync *sync) {
    size_t n;
    const access *accesses = accesses_of(&s->syncs.index, sync->var, &n);
    return sync->before ? access_op(&s->syncs.index, accesses[sync->before - 1].position) : NULL;
}

static weft_status check_reduce(const sharder *s, update *u, bool *ok) {
    const weft_op *reduce = grad_sync_reduce(&s->syncs, u->sync);
    *ok = false;
    if (op_ring(reduce) != s->ring->id) return leave(s, u, WEFT_REASON_RING, "it is reduced on another ring");
    if (u->sync->nreduces != 1 || op_collective_reduce(reduce) != WEFT_REDUCE_SUM)
        return leave(s, u, WEFT_REASON_RING, "it is not one sum over ranks");
    if (op_is_async(reduce) || !is_on_compute(reduce) ||
        !is_on_compute(grad_sync_last_of(&s->syncs, u->sync, GRAD_REDUCE)))
        return leave(s, u, WEFT_REASON_DEPENDENCY,
                     "its reduce has a stream already: run this pass before overlap_comm");
    if (op_nargs(reduce, false) != 1 || op_nargs(reduce, true) != 1)
        return leave(s, u, WEFT_REASON_SHAPE, "it is reduced with others");
    *ok = true;
    return NULL;
}

static weft_status check_extents(const sharder *s, const update *u, double min_nbytes, bool *ok) {
    const weft_var *p = u->param, *g = u->sync->var;
    bool is_known = p->ndim > 0 && p->ndim <= WEFT_MAX_RANK && p->has_tensor && g->has_tensor && same_extents(p, g);
    for (size_t i = 0; is_known && i < p->ndim; i++) is_known = p->dims[i] > 0;
    *ok = false;
    if (!is_known) return leave(s, u, WEFT_REASON_SHAPE, "its extents are not known, or not the parameter's");
    if (p->dims[0] % s->ring->nranks) return leave(s, u, WEFT_REASON_SHAPE, "the ranks do not divide its rows");
    if ((double)nbytes_of(p) < min_nbytes) return leave(s, u, WEFT_REASON_LIMIT, "it is smaller than min_kb");
    *ok = true;
    return NULL;
}

/* The optimizer's state that lies by rows. */
static const char *list_state(const sharder *s, update *u, const side *in) {
    for (size_t i = 0; i < in->args.count; i++) {
        weft_var *v = side_var(in, u->optimizer, i);
        if (!in->placed[i].naxes[0] || v == u->sync->var) continue;
        if (lies_otherwise(s, v)) return "it lies on another mesh";
        if (v == u->param) continue;
        if (!v->persistable || is_used_by_others(v, u->optimizer)) return "others use what its update reads";
        u->state[u->nstate++] = v;
    }
    return NULL;
}

static weft_status consider(sharder *s, const grad_sync *sync, double min_nbytes) {
    update *u = &s->updates[s->count];
    const char *why;
    side in, out;
    bool ok;
    *u = (update){.sync = sync};
    TRY(check_reduce(s, u, &ok));
    if (!ok) return NULL;
    if (!(u->optimizer = find_optimizer(s, sync)))
        return leave(s, u, WEFT_REASON_IN_USE, "more than one optimizer op uses it");
    u->param = slot_var(u->optimizer, op_param_slot(u->optimizer), 0);
    u->producer = find_producer(s, sync);
    if (!u->producer || !is_on_compute(u->producer) || !is_on_compute(u->optimizer))
        return leave(s, u, WEFT_REASON_DEPENDENCY, "ops on other streams make or use it");
    TRY(check_extents(s, u, min_nbytes, &ok));
    if (!ok) return NULL;
    if ((why = check_readers(s, u))) return leave(s, u, WEFT_REASON_IN_USE, why);
    if (op_nargs(u->optimizer, false) > MOST_ARGS || op_nargs(u->optimizer, true) > MOST_ARGS)
        return leave(s, u, WEFT_REASON_LIMIT, "its update has too many arguments");
    TRY(read_side(s, u->optimizer, false, u->param, &in));
    TRY(read_side(s, u->optimizer, true, u->param, &out));
    TRY(ask_rule(s, u->optimizer, &in, &out, u->param, &why));
    if (why) return leave(s, u, WEFT_REASON_SHAPE, why);
    if ((why = list_state(s, u, &in))) return leave(s, u, WEFT_REASON_IN_USE, why);
    s->count++;
    return NULL;
}

/* --- editing ------------------------------------------------------------------------------------------------------ */

static weft_status add_ring(const sharder *s, const int64_t *ranks, int64_t *out_id) {
    for (*out_id = 0; program_find_ring(s->program, *out_id);) ++*out_id;
    return weft_program_set_ring(s->program, *out_id, (size_t)s->ring->nranks, ranks);
}

/* A mesh that the program has already may have names. */
static weft_status find_mesh(sharder *s, const int64_t *ids) {
    const int64_t n = s->ring->nranks;
    for (size_t i = 0; i < s->program->nmeshes; i++) {
        const mesh *m = s->program->meshes[i];
        if (m->ndim != 1 || m->shape[0] != n || memcmp(m->ids, ids, (size_t)n * sizeof *ids) != 0) continue;
        s->mesh = m;
        return NULL;
    }
    return program_add_mesh(s->program, &(mesh){.ndim = 1, .shape = &n, .ids = ids}, &s->mesh);
}

/* Two streams may not share a ring: ranks could meet on it in different orders. */
static weft_status make_rings(sharder *s) {
    ring *kept = ARENA_NEW(pass_scratch(s->pass), ring);
    if (!kept) return base_out_of_memory();
    *kept = *s->ring; /* the program's list of rings grows */
    s->ring = kept;
    TRY(find_mesh(s, kept->ranks));
    s->reduce_ring = s->gather_ring = kept->id;
    if (*s->reduce_stream) TRY(add_ring(s, kept->ranks, &s->reduce_ring));
    if (*s->gather_stream) TRY(add_ring(s, kept->ranks, &s->gather_ring));
    return NULL;
}

/* The var is the rank's rows now, of a tensor that is cut over the ring. */
static weft_status cut(const sharder *s, weft_var *v) {
    arena *a = &s->program->arena;
    placement *p = ARENA_NEW(a, placement);
    int64_t dims[WEFT_MAX_RANK], *made, *mapping = ARENA_ARRAY(a, int64_t, v->ndim);
    if (!p || !mapping) return base_out_of_memory();
    for (size_t i = 0; i < v->ndim; i++) mapping[i] = i ? -1 : 0;
    for (size_t i = 0; i < v->ndim; i++) dims[i] = i ? v->dims[i] : v->dims[i] / s->ring->nranks;
    TRY(program_dims(s->program, v->ndim, dims, &made));
    *p = (placement){.mesh = s->mesh, .ndim = (int)v->ndim, .dims_mapping = mapping};
    var_changed(v);
    v->dims = made;
    v->dist = p;
    v->dist_is_null = false;
    return NULL;
}

static weft_status new_var(const sharder *s, const weft_var *like, const char *suffix, weft_var **out) {
    char stem[256];
    const name *unique;
    snprintf(stem, sizeof stem, "%.200s%s", like->name->bytes, suffix);
    TRY(program_unique_name(s->program, stem, &unique));
    TRY(weft_block_add_var(s->program->blocks[0], unique->bytes, (weft_dtype)like->dtype, like->ndim, like->dims, out));
    (*out)->has_stop_gradient = true;
    (*out)->stop_gradient = true;
    return NULL;
}

static weft_status make_collective(const sharder *s, const char *const types[2], const weft_op *like, weft_var *x,
                                   weft_var *out, int64_t ring_id, int64_t role, weft_op **made) {
    bool new_era = op_find_slot(like, false, "x") != NULL;
    weft_op *op;
    TRY(weft_op_create(s->program, types[new_era], &op));
    TRY(weft_op_add_input(op, new_era ? "x" : "X", x));
    TRY(weft_op_add_output(op, new_era ? "out" : "Out", out));
    TRY(weft_op_set_attr_int(op, "ring_id", ring_id));
    TRY(weft_op_set_attr_int(op, "nranks", s->ring->nranks));
    if (!new_era) TRY(weft_op_set_attr_bool(op, "use_calc_stream", true));
    TRY(weft_op_set_attr_int(op, "op_role", role));
    TRY(weft_op_set_attr_string(op, "op_namescope", NAMESCOPE));
    *made = op;
    return NULL;
}

/* `later`, on another stream, waits for `earlier`. */
static weft_status order(sharder *s, weft_op *earlier, weft_op *later) {
    char event[sizeof EVENT_PREFIX + 20];
    if (!*weft_op_event_recorded(earlier)) {
        snprintf(event, sizeof event, EVENT_PREFIX "%zu", s->nevents++);
        TRY(weft_op_set_event_recorded(earlier, event));
    }
    size_t n = 0;
    while (weft_op_event_awaited(later, n)) n++;
    const char **events = ARENA_ARRAY(pass_scratch(s->pass), const char *, n + 1);
    if (!events) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) events[i] = weft_op_event_awaited(later, i);
    events[n] = weft_op_event_recorded(earlier);
    return weft_op_set_events_awaited(later, n + 1, events);
}

static weft_status scatter_gradient(sharder *s, const update *u) {
    static const char *const types[] = {"c_reducescatter", "reduce_scatter"};
    weft_op *reduce = grad_sync_reduce(&s->syncs, u->sync), *op, *last;
    weft_op *wait = grad_reduce_wait(reduce);
    weft_var *grad = u->sync->var, *part;
    TRY(new_var(s, grad, "@PART", &part));
    TRY(cut(s, part));
    TRY(make_collective(s, types, reduce, grad, part, s->reduce_ring, op_role(reduce), &op));
    if (strcmp(op->type->bytes, types[1]) == 0) TRY(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_SUM));
    weft_block_insert_before(s->program->blocks[0], reduce, op);
    last = op;
    FOR_EACH_SYNC_OP(scale, &s->syncs, u->sync, GRAD_SCALE) {
        weft_op_rename_input(scale, grad, part);
        weft_op_rename_output(scale, grad, part);
        if (*s->reduce_stream) TRY(weft_op_set_stream(scale, s->reduce_stream));
        last = scale;
    }
    weft_op_rename_input(u->optimizer, grad, part);
    weft_op_remove(reduce);
    if (wait) weft_op_remove(wait);
    if (!*s->reduce_stream) return NULL;
    TRY(weft_op_set_stream(op, s->reduce_stream));
    TRY(order(s, u->producer, op));
    return order(s, last, u->optimizer);
}

/* Readers before the update read what is gathered. */
static weft_status gather_param(sharder *s, const update *u) {
    static const char *const types[] = {"c_allgather", "all_gather"};
    weft_var *whole;
    weft_op *op;
    if (!u->reader) return NULL;
    TRY(new_var(s, u->param, "@WHOLE", &whole));
    for (use *x = use_at(s->program, u->param->first_use), *next; x; x = next) {
        next = use_at(s->program, x->next);
        if (use_op(s->program, x) != u->optimizer) use_rename_placed(x, whole);
    }
    const weft_op *reduce = grad_sync_reduce(&s->syncs, u->sync);
    TRY(make_collective(s, types, reduce, u->param, whole, s->gather_ring, WEFT_ROLE_FORWARD, &op));
    weft_block_insert_before(s->program->blocks[0], u->reader, op);
    if (!*s->gather_stream) return NULL;
    TRY(weft_op_set_stream(op, s->gather_stream));
    return order(s, op, u->reader);
}

static weft_status rewrite(sharder *s, const update *u) {
    TRY(gather_param(s, u));
    TRY(scatter_gradient(s, u));
    int64_t n = s->ring->nranks, kept = 0;
    for (size_t i = 0; i < u->nstate; i++) kept += nbytes_of(u->state[i]);
    s->kept_nbytes += kept / n * (n - 1);
    TRY(cut(s, u->param));
    for (size_t i = 0; i < u->nstate; i++) TRY(cut(s, u->state[i]));
    return NULL;
}

static weft_status begin(sharder *s) {
    s->reduce_stream = weft_pass_option_string(s->pass, "reduce_stream");
    s->gather_stream = weft_pass_option_string(s->pass, "gather_stream");
    if (*s->reduce_stream && strcmp(s->reduce_stream, s->gather_stream) == 0)
        return weft_pass_refuse(s->pass, "expected two streams, found \"%s\" twice: a gather would wait for the sums",
                                s->reduce_stream);
    if (weft_pass_option_float(s->pass, "min_kb") < 0)
        return weft_pass_refuse(s->pass, "min_kb: expected at least 0, found %g",
                                weft_pass_option_float(s->pass, "min_kb"));
    TRY(grad_syncs_find(s->pass, s->program, &s->syncs));
    if (!s->syncs.count) return NULL;
    TRY(access_index_begin(s->program, pass_scratch(s->pass), &s->all));
    TRY(access_index_gather(&s->all, pass_scratch(s->pass), NULL));
    s->updates = ARENA_ARRAY(pass_scratch(s->pass), update, s->syncs.count);
    if (!s->updates) return base_out_of_memory();
    int64_t id = op_ring(grad_sync_reduce(&s->syncs, s->syncs.items));
    s->ring = program_find_ring(s->program, id);
    return s->ring && s->ring->nranks > 0 ? NULL : weft_pass_refuse(s->pass, "ring %lld has no ranks", (long long)id);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    sharder s = {.pass = pass, .program = program};
    pass_claims_nothing(pass);
    TRY(begin(&s));
    if (s.syncs.count == 0) return grad_syncs_none(pass, &s.syncs);
    double min_nbytes = weft_pass_option_float(pass, "min_kb") * 1024;
    for (size_t i = 0; i < s.syncs.count; i++) TRY(consider(&s, &s.syncs.items[i], min_nbytes));
    TRY(weft_pass_count_add(pass, "updates sharded", (int64_t)s.count));
    if (!s.count) return NULL;
    TRY(make_rings(&s));
    for (size_t i = 0; i < s.count; i++) TRY(rewrite(&s, &s.updates[i]));
    return weft_pass_did(pass, "%zu of %zu gradients are summed by parts; a rank keeps %lld bytes of state less",
                         s.count, s.syncs.count, (long long)s.kept_nbytes);
}

const weft_pass pass_shard_updates = {.options = options,
                                      .noptions = sizeof options / sizeof *options,
                                      .run = run,
                                      .changes_meaning = "each rank keeps a part of the state"};
