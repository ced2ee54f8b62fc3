/* shard_updates: each rank updates a part of the parameters and keeps that part of the optimizer's state alone (ZeRO 1,
 * Rajbhandari et al. 2020, arXiv:1910.02054).
 *
 * Where a gradient is all-reduced for one optimizer op, it is reduce-scattered, and the op updates its rank's rows. The
 * parameter's rows are gathered before its first reader in the next step. State lies by rows then: parameters and
 * moments have a placement on a mesh of the ring's ranks, by which files of whole tensors are cut and joined. What a
 * gradient sends is what its all-reduce sent, since an all-reduce is both halves; the sums are in the same order. The
 * two halves have streams of their own: sums hide behind the backward pass, gathers behind the forward pass. Tensors of
 * one type travel together, in buckets by size (bucket_former.h): gradients in the order of their reduces, parameters
 * in the order of their first readers. Nothing is packed: the collectives take several tensors as they lie.
 *
 * Whether an update can be cut is asked of the op's factor table (ops/axes.def): lamb and lars need the whole norm. */
#include <stdlib.h>

#include "ops/axes.h"
#include "passes/certificate.h"
#include "passes/shard_updates.h"

static const weft_option options[] = {
    {"min_kb", WEFT_OPTION_FLOAT, "0", NULL, "parameters of fewer KiB are updated whole on every rank"},
    {"bucket_mb", WEFT_OPTION_FLOAT, "32.0", NULL,
     "MiB of gradients, and of parameters, that travel together; 0: each alone"},
    {"first_bucket_mb", WEFT_OPTION_FLOAT, "", NULL,
     "size of the first buckets, so that the first sum and the forward pass start early; default: bucket_mb"},
    {"clip", WEFT_OPTION_STRING, "leave", "leave|split",
     "gradients that are clipped by their global norm. leave: their updates stay whole; split: squares are added up by "
     "parts, and so in another order"},
    {"reduce_stream", WEFT_OPTION_STRING, "gradient_sync", NULL, "stream of the sums; empty: the compute stream"},
    {"gather_stream", WEFT_OPTION_STRING, "parameter_sync", NULL, "stream of the gathers; empty: the compute stream"},
};

/* --- deciding ----------------------------------------------------------------------------------------------------- */

static bool same_extents(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0;
}

/* An op's arguments, and how those like the parameter lie. */
typedef struct side {
    axes_side args;
    axes_placed placed[SHARD_MOST_ARGS];
} side;

static weft_var *side_var(const side *s, const weft_op *op, size_t i) {
    return use_var(op->program, s->args.uses[i]);
}

static weft_status read_side(const sharder *s, weft_op *op, bool output, const weft_var *param, side *out) {
    *out = (side){0};
    TRY(axes_read_side(op, output, NULL, pass_scratch(s->pass), &out->args));
    for (size_t i = 0; i < out->args.count && i < SHARD_MOST_ARGS; i++)
        out->placed[i].naxes[0] = same_extents(side_var(out, op, i), param);
    return NULL;
}

/* NULL, or why the ranks' parts of the update are not the parts of the whole update. */
static weft_status ask_rule(const sharder *s, weft_op *op, const side *in, side *out, const weft_var *param,
                            const char **why) {
    const axes_call call = {op, op_schema_of(op), in->args.types, out->args.types, in->args.first, out->args.first};
    const axes_mesh line = {.naxes = 1, .extent = {s->ring->nranks}};
    axes_placed made[SHARD_MOST_ARGS] = {0};
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

/* The last op that touches the gradient behind its sync, which must be an optimizer that updates one parameter. What
 * stands before it clips. */
static weft_op *find_optimizer(const sharder *s, update *u) {
    size_t n;
    const access *accesses = accesses_of(&s->syncs.index, u->sync->var, &n);
    size_t behind = u->sync->before + grad_sync_nops(u->sync);
    if (behind == n || (accesses[n - 1].flags & ACCESS_WRITE)) return NULL;
    for (size_t i = behind; i < n; i++) {
        weft_op *op = access_op(&s->syncs.index, accesses[i].position);
        if (accesses[i].flags & ACCESS_NESTED) return NULL;
        if (i == behind) u->user = op;
        if (i + 1 < n && !shard_clip_takes(s, u, op)) return NULL;
    }
    weft_op *op = access_op(&s->syncs.index, accesses[n - 1].position);
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
    if ((double)shard_nbytes(p) < min_nbytes) return leave(s, u, WEFT_REASON_LIMIT, "it is smaller than min_kb");
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
    if (!(u->optimizer = find_optimizer(s, u)))
        return leave(s, u, WEFT_REASON_IN_USE, "more than one optimizer op uses it");
    if ((u->norm || u->clip) && !s->splits_clip)
        return leave(s, u, WEFT_REASON_IN_USE, "it is clipped; clip: split adds up norms of parts, which changes bits");
    u->param = slot_var(u->optimizer, op_param_slot(u->optimizer), 0);
    u->producer = find_producer(s, sync);
    if (!u->producer || !is_on_compute(u->producer) || !is_on_compute(u->optimizer))
        return leave(s, u, WEFT_REASON_DEPENDENCY, "ops on other streams make or use it");
    TRY(check_extents(s, u, min_nbytes, &ok));
    if (!ok) return NULL;
    if ((why = check_readers(s, u))) return leave(s, u, WEFT_REASON_IN_USE, why);
    if (op_nargs(u->optimizer, false) > SHARD_MOST_ARGS || op_nargs(u->optimizer, true) > SHARD_MOST_ARGS)
        return leave(s, u, WEFT_REASON_LIMIT, "its update has too many arguments");
    TRY(read_side(s, u->optimizer, false, u->param, &in));
    TRY(read_side(s, u->optimizer, true, u->param, &out));
    TRY(ask_rule(s, u->optimizer, &in, &out, u->param, &why));
    if (why) return leave(s, u, WEFT_REASON_SHAPE, why);
    if ((why = list_state(s, u, &in))) return leave(s, u, WEFT_REASON_IN_USE, why);
    s->count++;
    return NULL;
}

/* Where one norm is read before all are there, their gradients stay whole. */
static weft_status settle_norms(sharder *s) {
    size_t count = 0, nnorms = 0;
    for (size_t i = 0; i < s->count; i++) nnorms += s->updates[i].norm != NULL;
    if (!nnorms || shard_clip_place(s)) return NULL;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->updates[i].norm)
            s->updates[count++] = s->updates[i];
        else
            TRY(leave(s, &s->updates[i], WEFT_REASON_IN_USE, "its norm is read before others are made, or never"));
    }
    s->count = count;
    return NULL;
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

static size_t update_nbytes(const void *item) {
    return (size_t)shard_nbytes(((const update *)item)->param);
}

static uint64_t type_hash(void *user, const void *item) {
    (void)user;
    return (uint64_t)((const update *)item)->param->dtype;
}

static bool same_type(void *user, const void *a, const void *b) {
    (void)user;
    return ((const update *)a)->param->dtype == ((const update *)b)->param->dtype;
}

static weft_status form_sums(sharder *s) {
    for (size_t i = 0; i < s->count; i++) {
        const grad_sync *sync = s->updates[i].sync;
        TRY(bucket_former_put(&s->sums, &s->updates[i], grad_sync_last(&s->syncs, sync),
                              grad_sync_next(&s->syncs, sync)));
    }
    return bucket_former_close_all(&s->sums);
}

static int by_reader(const void *a, const void *b) {
    const update *x = *(update *const *)a, *y = *(update *const *)b;
    if (x->reader == y->reader) return x < y ? -1 : x > y;
    return weft_op_is_before(x->reader, y->reader) ? -1 : 1;
}

static weft_status form_gathers(sharder *s) {
    update **read = ARENA_ARRAY(pass_scratch(s->pass), update *, s->count + 1);
    size_t n = 0;
    if (!read) return base_out_of_memory();
    for (size_t i = 0; i < s->count; i++)
        if (s->updates[i].reader) read[n++] = &s->updates[i];
    if (n) qsort(read, n, sizeof *read, by_reader);
    for (size_t i = 0; i < n; i++) TRY(bucket_former_put(&s->gathers, read[i], 0, UINT32_MAX));
    return bucket_former_close_all(&s->gathers);
}

static weft_status form_buckets(sharder *s) {
    bucket_rules rules = {.hash = type_hash, .same_kind = same_type, .nbytes = update_nbytes, .user = s};
    bool is_alone = weft_pass_option_float(s->pass, "bucket_mb") == 0;
    bool first_given = !is_alone && weft_pass_option_given(s->pass, "first_bucket_mb");
    if (!is_alone) TRY(bucket_limit(s->pass, "bucket_mb", &rules.limit));
    rules.first_limit = rules.limit;
    if (first_given) TRY(bucket_limit(s->pass, "first_bucket_mb", &rules.first_limit));
    bucket_former_init(&s->sums, &rules, pass_scratch(s->pass));
    bucket_former_init(&s->gathers, &rules, pass_scratch(s->pass));
    TRY(form_sums(s));
    return form_gathers(s);
}

static weft_status begin(sharder *s) {
    s->reduce_stream = weft_pass_option_string(s->pass, "reduce_stream");
    s->gather_stream = weft_pass_option_string(s->pass, "gather_stream");
    if (*s->reduce_stream && strcmp(s->reduce_stream, s->gather_stream) == 0)
        return weft_pass_refuse(s->pass, "expected two streams, found \"%s\" twice: a gather would wait for the sums",
                                s->reduce_stream);
    s->splits_clip = strcmp(weft_pass_option_string(s->pass, "clip"), "split") == 0;
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
    TRY(settle_norms(&s));
    TRY(weft_pass_count_add(pass, "updates sharded", (int64_t)s.count));
    if (!s.count) return NULL;
    TRY(form_buckets(&s));
    TRY(shard_write(&s));
    TRY(weft_pass_count_add(pass, "sums", (int64_t)s.sums.ndone));
    TRY(weft_pass_count_add(pass, "gathers", (int64_t)s.gathers.ndone));
    return weft_pass_did(pass,
                         "%zu of %zu gradients are summed by parts, in %zu buckets, and gathered in %zu; a rank keeps "
                         "%lld bytes of state less",
                         s.count, s.syncs.count, s.sums.ndone, s.gathers.ndone, (long long)s.kept_nbytes);
}

const weft_pass pass_shard_updates = {.options = options,
                                      .noptions = sizeof options / sizeof *options,
                                      .run = run,
                                      .changes_meaning = "each rank keeps a part of the state"};
