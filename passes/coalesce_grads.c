/* coalesce_grads: gradients reduced together, in buckets that their producers write in place.
 *
 * A bucket is one buffer: a coalesce_tensor before the first producer makes the members views of it, and the sync of
 * the last member runs once, on the whole. Syncs are taken in the program's order. Each joins the open bucket of its
 * key (rings in order, reduce types, dtype, mesh, scale factor, stream; bucket_former.h). A bucket of members m1 .. mk
 * is reduced where mk was. So it must be closed before a sync that comes after any other access to a member's bytes;
 * and by its size: "flush" closes it when it has the limit, "cap" before it would go beyond. With bucket_mb: auto it is
 * closed where the best plan says so (bucket_plan.h), and syncs may stand in another order before (bucket_order.h). All
 * of this is decided from the program (and a cluster file) alone, so it is the same on every rank.
 *
 * A member is a dense tensor of known shape that nothing else aliases, keeps, feeds or fetches. It is reduced once, and
 * ops of block 0 write it, without a sub-block. Scales that prune_grad_scale left become one scale a bucket. Sources:
 * paddle.md 4, 11.1 to 11.4, 11.15, 11.19 to 11.22. */
#include <stdlib.h>

#include "passes/bucket_tensor.h"
#include "passes/bucket_times.h"
#include "passes/coalesce_grads.h"

static const weft_option options[] = {
    {"bucket_mb", WEFT_OPTION_FLOAT, "32.0", "auto",
     "size of a bucket in MiB; auto: those buckets with which a step ends earliest, by the model of the cluster"},
    {"first_bucket_mb", WEFT_OPTION_FLOAT, "", NULL,
     "size of the first bucket of each kind, so that its reduce starts early; default: bucket_mb"},
    {"limit", WEFT_OPTION_STRING, "flush", "flush|cap", "flush: reduced once it has that size; cap: never larger"},
    BUCKET_MODEL_OPTIONS("auto: "),
};

static const weft_option planned_options[] = {
    BUCKET_MODEL_OPTIONS(""),
};

typedef struct coalescer {
    weft_pass_context *pass;
    weft_program *program;
    arena *scratch;
    grad_syncs syncs;
    bucket_former former; /* of grad_sync */
    bool is_auto;         /* buckets are planned */
    bit_set repeated;     /* classes with more than one sync */
    bucket_times times;   /* bucket_mb: auto */
    bool *begins;         /* by sync: a bucket begins with it; NULL: that goes by size */
    moved_ops moved;      /* syncs that are sent in another order */
} coalescer;

/* --- who may be a member ------------------------------------------------------------------------------------------ */

static size_t sync_nbytes(const void *item) {
    const grad_sync *s = item;
    size_t n = weft_dtype_nbytes((weft_dtype)s->var->dtype);
    for (size_t i = 0; i < s->var->ndim; i++)
        if (s->var->dims[i] <= 0 || !base_mul(n, (size_t)s->var->dims[i], &n)) return 0;
    return n;
}

typedef struct refusal {
    weft_reason reason;
    const char *message;
} refusal;

static bool is_fetched(const weft_op *op) {
    return op_is(op, "fetch") || op_is(op, "fetch_v2") || op_is(op, "feed") || op_is(op, "feed_v2");
}

/* The accesses before the reduce: the first must write the whole, all must be ops of block 0. */
static refusal check_producers(const grad_sync *s, const access *accesses) {
    if (s->before == 0) return (refusal){WEFT_REASON_DEPENDENCY, "nothing writes it before its reduce"};
    if (accesses[0].flags & ACCESS_READ)
        return (refusal){WEFT_REASON_DEPENDENCY, "it is read before it is first written"};
    for (size_t i = 0; i < s->before; i++)
        if (accesses[i].flags & ACCESS_NESTED) return (refusal){WEFT_REASON_DEPENDENCY, "a sub-block produces it"};
    return (refusal){WEFT_REASON_COUNT, NULL};
}

static refusal check_member(const coalescer *n, const grad_sync *s) {
    const weft_var *v = s->var;
    if (v->kind != WEFT_DENSE_TENSOR || !v->has_tensor) return (refusal){WEFT_REASON_SHAPE, "it is no dense tensor"};
    if (sync_nbytes(s) == 0) return (refusal){WEFT_REASON_SHAPE, "its shape or element type is not known"};
    if (v->persistable) return (refusal){WEFT_REASON_IN_USE, "it is persistable"};
    if (v->need_check_feed) return (refusal){WEFT_REASON_IN_USE, "it is fed"};
    if (access_is_shared(&n->syncs.index, v))
        return (refusal){WEFT_REASON_IN_USE, "its bytes are shared with other variables already"};
    if (bit_set_has(&n->repeated, access_class(&n->syncs.index, v)))
        return (refusal){WEFT_REASON_IN_USE, "it is reduced more than once"};
    size_t naccesses;
    const access *accesses = accesses_of(&n->syncs.index, v, &naccesses);
    for (size_t i = 0; i < naccesses; i++)
        if (is_fetched(access_op(&n->syncs.index, accesses[i].position)))
            return (refusal){WEFT_REASON_IN_USE, "it is fed or fetched"};
    return check_producers(s, accesses);
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t value) {
    return (h ^ value) * UINT64_C(0x9E3779B97F4A7C15) ^ (h >> 29);
}

static weft_reduce reduce_of(const weft_op *op) {
    weft_reduce reduce = WEFT_REDUCE_SUM;
    (void)op_is_all_reduce(op, &reduce);
    return reduce;
}

static uint64_t key_hash(void *user, const void *item) {
    const coalescer *n = user;
    const grad_sync *s = item;
    uint64_t h = mix((uint64_t)s->var->dtype, s->nreduces);
    FOR_EACH_SYNC_OP(reduce, &n->syncs, s, GRAD_REDUCE) {
        h = mix(mix(h, (uint64_t)op_ring(reduce)), (uint64_t)reduce_of(reduce));
    }
    return h;
}

static bool same_reduce(const weft_op *a, const weft_op *b) {
    if (a->type == b->type && a->attrs == b->attrs && a->nattrs == b->nattrs) return true; /* they share the list */
    return op_ring(a) == op_ring(b) && reduce_of(a) == reduce_of(b);
}

/* Both have as many reduces. */
static bool same_reduces(const grad_syncs *syncs, const grad_sync *a, const grad_sync *b) {
    uint32_t i = 0, k = 0;
    for (const weft_op *x; (x = grad_sync_next_op(syncs, a, GRAD_REDUCE, &i));)
        if (!same_reduce(x, grad_sync_next_op(syncs, b, GRAD_REDUCE, &k))) return false;
    return true;
}

static bool key_equal(void *user, const void *x, const void *y) {
    const grad_syncs *syncs = &((const coalescer *)user)->syncs;
    const grad_sync *a = x, *b = y;
    const mesh *m = grad_sync_mesh(syncs, a), *o = grad_sync_mesh(syncs, b);
    if (a->var->dtype != b->var->dtype || a->nreduces != b->nreduces || (a->nscales == 0) != (b->nscales == 0) ||
        a->factor != b->factor ||
        strcmp(weft_op_stream(grad_sync_reduce(syncs, a)), weft_op_stream(grad_sync_reduce(syncs, b))) != 0)
        return false;
    return same_reduces(syncs, a, b) && (m && o ? mesh_equal(m, o) : m == o);
}

static weft_status find_repeated(coalescer *n) {
    bit_set once;
    size_t nvars = n->program->nall_vars;
    if (!bit_set_init(&once, n->scratch, nvars) || !bit_set_init(&n->repeated, n->scratch, nvars))
        return base_out_of_memory();
    for (size_t i = 0; i < n->syncs.count; i++) {
        uint32_t class = access_class(&n->syncs.index, n->syncs.items[i].var);
        bit_set_add(bit_set_has(&once, class) ? &n->repeated : &once, class);
    }
    return NULL;
}

/* No executor can all-reduce a sparse gradient: better said now than when the program runs. */
static weft_status refuse_sparse(coalescer *n) {
    for (size_t i = 0; i < n->syncs.count; i++) {
        const grad_sync *s = &n->syncs.items[i];
        if (s->var->kind == WEFT_SELECTED_ROWS)
            return weft_pass_refuse(n->pass,
                                    "%s #%u: \"%s\" is SelectedRows (a sparse gradient): all-reduces take dense "
                                    "tensors, so this program cannot run",
                                    grad_sync_reduce(&n->syncs, s)->type->bytes, grad_sync_first(&n->syncs, s),
                                    s->var->name->bytes);
    }
    return NULL;
}

/* --- auto --------------------------------------------------------------------------------------------------------- */

static bool begins(void *user, const void *item) {
    const coalescer *n = user;
    return n->begins[(const grad_sync *)item - n->syncs.items];
}

/* The number of the sync's kind: kinds are numbered as they are met. */
static weft_status kind_of(coalescer *n, const grad_sync *s, uint32_t *out) {
    bucket *b;
    TRY(bucket_former_find(&n->former, s, &b));
    for (*out = 0; n->former.open[*out] != b;) ++*out;
    return NULL;
}

static weft_status describe(coalescer *n, const grad_sync *s, bucket_reduce *out) {
    size_t naccesses, after = s->before + grad_sync_nops(s), nbytes = sync_nbytes(s);
    const access *accesses = accesses_of(&n->syncs.index, s->var, &naccesses);
    *out = (bucket_reduce){.ops = grad_sync_ops(&n->syncs, s),
                           .nops = grad_sync_nops(s),
                           .makers = accesses,
                           .nmakers = s->before,
                           .users = accesses + after,
                           .nusers = naccesses - after,
                           .name = s->var->name->bytes,
                           .nbytes = nbytes,
                           .padded = bucket_tensor_padded(nbytes),
                           .kind = BUCKET_ALONE,
                           .deadline = grad_sync_next(&n->syncs, s)};
    return check_member(n, s).message ? NULL : kind_of(n, s, &out->kind);
}

static weft_status find_plan(coalescer *n) {
    bucket_reduce *reduces = ARENA_ARRAY(n->scratch, bucket_reduce, n->syncs.count);
    if (!reduces) return base_out_of_memory();
    for (size_t i = 0; i < n->syncs.count; i++) TRY(describe(n, &n->syncs.items[i], &reduces[i]));
    bucket_model model;
    TRY(bucket_model_read(n->pass, &model));
    return bucket_times_find(n->pass, &n->syncs.index, &model, reduces, n->syncs.count, (uint32_t)n->former.nopen,
                             &n->times);
}

/* Of the program with its syncs as they stand now. */
static weft_status plan_anew(coalescer *n) {
    bucket_rules rules = n->former.rules;
    size_t nevents;
    if (grad_syncs_have_streams(&n->syncs)) TRY(grad_sync_write_events(n->pass, n->program, &nevents));
    bucket_times_fini(&n->times);
    TRY(grad_syncs_find(n->pass, n->program, &n->syncs));
    bucket_former_init(&n->former, &rules, n->scratch);
    TRY(find_repeated(n));
    return find_plan(n);
}

/* Sends what the step needs first before what is ready first, where it ends earlier then. */
static weft_status order_reduces(coalescer *n) {
    bucket_moves moves;
    int64_t before = n->times.step_ns;
    TRY(bucket_order_find(&n->times, &moves));
    if (!moves.count) return NULL;
    TRY(grad_syncs_move(&n->syncs, &moves, n->scratch, &n->moved));
    TRY(plan_anew(n));
    if (n->times.step_ns < before)
        return weft_pass_did(n->pass,
                             "%zu reduces are sent behind later ones that the step needs first: it ends %.6f ms earlier",
                             moves.count, 1e-6 * (double)(before - n->times.step_ns));
    moved_ops_undo(&n->moved);
    return plan_anew(n);
}

static weft_status plan_buckets(coalescer *n) {
    TRY(find_plan(n));
    TRY(order_reduces(n));
    n->begins = ARENA_ARRAY(n->scratch, bool, n->syncs.count);
    if (!n->begins) return base_out_of_memory();
    for (size_t i = 0; i < n->times.problem.nitems; i++)
        if (n->times.reduce_of[i] != BUCKET_ALONE) n->begins[n->times.reduce_of[i]] = n->times.answer.begins[i];
    n->former.rules.begins = begins;
    TRY(bucket_times_report(&n->times));
    TRY(bucket_times_count(&n->times));
    return bucket_times_certify(&n->times);
}

static weft_status make_buckets(coalescer *n, const bucket_rules *rules) {
    bucket_former_init(&n->former, rules, n->scratch);
    TRY(find_repeated(n));
    if (n->is_auto) TRY(plan_buckets(n));
    for (size_t i = 0; i < n->syncs.count; i++) {
        const grad_sync *s = &n->syncs.items[i];
        refusal r = check_member(n, s);
        if (r.message)
            TRY(weft_pass_left(n->pass, grad_sync_reduce(&n->syncs, s), r.reason, "\"%s\": %s", s->var->name->bytes,
                               r.message));
        else
            TRY(bucket_former_put(&n->former, s, grad_sync_last(&n->syncs, s), grad_sync_next(&n->syncs, s)));
    }
    return bucket_former_close_all(&n->former);
}

/* --- reporting and doing ------------------------------------------------------------------------------------------ */

static weft_status report_alone(coalescer *n, const bucket *b) {
    const grad_sync *s = b->items[0];
    bool large = n->begins || b->nbytes >= n->former.rules.limit;
    return weft_pass_left(n->pass, grad_sync_reduce(&n->syncs, s), large ? WEFT_REASON_LIMIT : WEFT_REASON_DEPENDENCY,
                          "\"%s\" (%zu bytes) is reduced alone: %s", s->var->name->bytes, b->nbytes,
                          n->begins ? "with others the step would not end earlier"
                          : large   ? "it has a bucket's size"
                                    : "no other gradient of its kind is reduced before it is used");
}

/* Syncs lie in the order of their first reduces. */
static int by_last_member(const void *a, const void *b) {
    const bucket *x = *(bucket *const *)a, *y = *(bucket *const *)b;
    const grad_sync *s = x->items[x->count - 1], *t = y->items[y->count - 1];
    return s < t ? -1 : s > t;
}

static weft_status report(coalescer *n, size_t *out_nbuckets) {
    size_t count = 0, ngrads = 0, nbytes = 0;
    for (size_t i = 0; i < n->former.ndone; i++) {
        bucket *b = n->former.done[i];
        if (b->count < 2) {
            TRY(report_alone(n, b));
            continue;
        }
        TRY(weft_pass_did(n->pass, "bucket %zu: %zu gradients, %zu bytes, ring %lld", count, b->count, b->nbytes,
                          (long long)op_ring(grad_sync_reduce(&n->syncs, b->items[0]))));
        n->former.done[count++] = b;
        ngrads += b->count;
        nbytes += b->nbytes;
    }
    TRY(weft_pass_count_add(n->pass, "buckets", (int64_t)count));
    TRY(weft_pass_count_add(n->pass, "gradients bucketed", (int64_t)ngrads));
    *out_nbuckets = count;
    return weft_pass_count_add(n->pass, "bucket bytes", (int64_t)nbytes);
}

static weft_status coalesce(coalescer *n, const bucket_rules *rules) {
    bool has_streams = grad_syncs_have_streams(&n->syncs);
    TRY(refuse_sparse(n));
    TRY(make_buckets(n, rules));
    if (n->former.ndone) qsort(n->former.done, n->former.ndone, sizeof *n->former.done, by_last_member);
    size_t nbuckets;
    TRY(report(n, &nbuckets));
    TRY(grad_buckets_write(n->pass, n->program, &n->syncs, n->former.done, nbuckets));
    bool edited = nbuckets || n->moved.count;
    n->moved.count = 0;
    bucket_times_fini(&n->times);
    arena_fini(n->scratch);
    size_t nevents;
    return has_streams && edited ? grad_sync_write_events(n->pass, n->program, &nevents) : NULL;
}

static weft_status run_with(coalescer *n, bucket_rules *rules) {
    TRY(grad_syncs_find(n->pass, n->program, &n->syncs));
    if (n->syncs.count == 0) return grad_syncs_none(n->pass, &n->syncs);
    weft_status status = coalesce(n, rules);
    if (status) moved_ops_undo(&n->moved);
    bucket_times_fini(&n->times);
    return status;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    coalescer n = {.pass = pass,
                   .program = program,
                   .scratch = pass_scratch(pass),
                   .is_auto = pass_option_is_word(pass, "bucket_mb")};
    bucket_rules rules = {.hash = key_hash, .same_kind = key_equal, .nbytes = sync_nbytes, .user = &n};
    static const char *const sizes[] = {"first_bucket_mb", "limit", NULL};
    TRY(bucket_model_check(pass, n.is_auto, sizes));
    TRY(bucket_limit(pass, "bucket_mb", &rules.limit));
    bool first_given = weft_pass_option_given(pass, "first_bucket_mb");
    TRY(bucket_limit(pass, first_given ? "first_bucket_mb" : "bucket_mb", &rules.first_limit));
    rules.cap = strcmp(weft_pass_option_string(pass, "limit"), "cap") == 0;
    return run_with(&n, &rules);
}

/* The same with bucket_mb: auto. */
static weft_status run_planned(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    coalescer n = {.pass = pass, .program = program, .scratch = pass_scratch(pass), .is_auto = true};
    bucket_rules rules = {.hash = key_hash,
                          .same_kind = key_equal,
                          .nbytes = sync_nbytes,
                          .user = &n,
                          .limit = SIZE_MAX,
                          .first_limit = SIZE_MAX};
    return run_with(&n, &rules);
}

const weft_pass pass_coalesce_grads = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run, .keeps_places = true};
const weft_pass pass_plan_buckets = {
    .options = planned_options, .noptions = sizeof planned_options / sizeof *planned_options, .run = run_planned};
