/* coalesce_grads: gradients reduced together, in buckets that their producers write in place.
 *
 * A bucket is one buffer: a coalesce_tensor before the first producer makes the members views of it, and the sync of
 * the last member runs once, on the whole. Syncs are taken in the program's order. Each joins the open bucket of its
 * key (rings in order, reduce types, dtype, mesh, scale factor, stream; bucket_former.h). A bucket of members m1 .. mk
 * is reduced where mk was. So it must be closed before a sync that comes after any other access to a member's bytes;
 * and by its size: "flush" closes it when it has the limit, "cap" before it would go beyond. All of this is decided
 * from the program alone, so it is the same on every rank.
 *
 * A member is a dense tensor of known shape that nothing else aliases, keeps, feeds or fetches, that is reduced once,
 * and that ops of block 0 write, without a sub-block. Scales that prune_grad_scale left become one scale a bucket.
 * Sources: paddle.md 4, 11.1 to 11.4, 11.15, 11.19 to 11.22. */
#include <stdlib.h>

#include "passes/coalesce_grads.h"

static const weft_option options[] = {
    {"bucket_mb", WEFT_OPTION_FLOAT, "32.0", NULL, "size of a bucket in MiB"},
    {"first_bucket_mb", WEFT_OPTION_FLOAT, "", NULL,
     "size of the first bucket of each kind, so that its reduce starts early; default: bucket_mb"},
    {"limit", WEFT_OPTION_STRING, "flush", "flush|cap", "flush: reduced once it has that size; cap: never larger"},
};

typedef struct coalescer {
    weft_pass_context *pass;
    weft_program *program;
    arena *scratch;
    grad_syncs syncs;
    bucket_former former; /* of grad_sync */
    uint32_t *nsyncs_of;  /* by class: how many syncs there are */
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
    const char *words;
} refusal;

static bool is_fetched(const access *x) {
    return op_is(x->op, "fetch") || op_is(x->op, "fetch_v2") || op_is(x->op, "feed") || op_is(x->op, "feed_v2");
}

/* The accesses before the reduce: the first must write the whole, all must be ops of block 0. */
static refusal check_producers(const grad_sync *s) {
    if (s->before == 0) return (refusal){WEFT_REASON_DEPENDENCY, "nothing writes it before its reduce"};
    if (s->accesses[0].flags & ACCESS_READ)
        return (refusal){WEFT_REASON_DEPENDENCY, "it is read before it is first written"};
    for (size_t i = 0; i < s->before; i++)
        if (s->accesses[i].flags & ACCESS_NESTED) return (refusal){WEFT_REASON_DEPENDENCY, "a sub-block produces it"};
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
    if (n->nsyncs_of[access_class(&n->syncs.index, v)] > 1)
        return (refusal){WEFT_REASON_IN_USE, "it is reduced more than once"};
    for (size_t i = 0; i < s->naccesses; i++)
        if (is_fetched(&s->accesses[i])) return (refusal){WEFT_REASON_IN_USE, "it is fed or fetched"};
    return check_producers(s);
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t value) {
    return (h ^ value) * UINT64_C(0x9E3779B97F4A7C15) ^ (h >> 29);
}

static const char *sync_stream(const grad_sync *s) {
    return weft_op_stream(s->reduces[0].op);
}

static uint64_t key_hash(const void *item) {
    const grad_sync *s = item;
    uint64_t h = mix((uint64_t)s->var->dtype, s->nreduces);
    for (size_t i = 0; i < s->nreduces; i++)
        h = mix(mix(h, (uint64_t)s->reduces[i].ring), (uint64_t)s->reduces[i].reduce);
    return h;
}

static bool key_equal(const void *x, const void *y) {
    const grad_sync *a = x, *b = y;
    const mesh *m = grad_sync_mesh(a), *o = grad_sync_mesh(b);
    if (a->var->dtype != b->var->dtype || a->nreduces != b->nreduces || (a->nscales == 0) != (b->nscales == 0) ||
        a->factor != b->factor || strcmp(sync_stream(a), sync_stream(b)) != 0)
        return false;
    for (size_t i = 0; i < a->nreduces; i++)
        if (a->reduces[i].ring != b->reduces[i].ring || a->reduces[i].reduce != b->reduces[i].reduce) return false;
    return m && o ? mesh_equal(m, o) : m == o;
}

static weft_status count_syncs(coalescer *n) {
    n->nsyncs_of = ARENA_ARRAY(n->scratch, uint32_t, n->program->nall_vars + 1);
    if (!n->nsyncs_of) return base_out_of_memory();
    for (size_t i = 0; i < n->syncs.count; i++) n->nsyncs_of[access_class(&n->syncs.index, n->syncs.items[i].var)]++;
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
                                    s->reduces[0].op->type->bytes, s->first, s->var->name->bytes);
    }
    return NULL;
}

static weft_status make_buckets(coalescer *n, const bucket_rules *rules) {
    TRY(bucket_former_init(&n->former, rules, n->scratch, n->syncs.count));
    TRY(count_syncs(n));
    for (size_t i = 0; i < n->syncs.count; i++) {
        const grad_sync *s = &n->syncs.items[i];
        refusal r = check_member(n, s);
        if (r.words)
            TRY(weft_pass_left(n->pass, s->reduces[0].op, r.reason, "\"%s\": %s", s->var->name->bytes, r.words));
        else
            TRY(bucket_former_put(&n->former, s, s->last, s->next));
    }
    return bucket_former_close_all(&n->former);
}

/* --- reporting and doing ------------------------------------------------------------------------------------------ */

static weft_status report_alone(coalescer *n, const bucket *b) {
    const grad_sync *s = b->items[0];
    bool large = b->nbytes >= n->former.rules.limit;
    return weft_pass_left(n->pass, s->reduces[0].op, large ? WEFT_REASON_LIMIT : WEFT_REASON_DEPENDENCY,
                          "\"%s\" (%zu bytes) is reduced alone: %s", s->var->name->bytes, b->nbytes,
                          large ? "it has a bucket's size"
                                : "no other gradient of its kind is reduced before it is used");
}

static int by_last_member(const void *a, const void *b) {
    const bucket *x = *(bucket *const *)a, *y = *(bucket *const *)b;
    const grad_sync *s = x->items[x->count - 1], *t = y->items[y->count - 1];
    uint32_t i = s->first, k = t->first;
    return i < k ? -1 : i > k;
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
                          (long long)((const grad_sync *)b->items[0])->reduces[0].ring));
        n->former.done[count++] = b;
        ngrads += b->count;
        nbytes += b->nbytes;
    }
    TRY(weft_pass_count_add(n->pass, "buckets", (int64_t)count));
    TRY(weft_pass_count_add(n->pass, "gradients bucketed", (int64_t)ngrads));
    *out_nbuckets = count;
    return weft_pass_count_add(n->pass, "bucket bytes", (int64_t)nbytes);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    coalescer n = {.pass = pass, .program = program, .scratch = pass_scratch(pass)};
    bucket_rules rules = {.hash = key_hash, .same_kind = key_equal, .nbytes = sync_nbytes};
    TRY(bucket_limit(pass, "bucket_mb", &rules.limit));
    bool first_given = weft_pass_option_given(pass, "first_bucket_mb");
    TRY(bucket_limit(pass, first_given ? "first_bucket_mb" : "bucket_mb", &rules.first_limit));
    rules.cap = strcmp(weft_pass_option_string(pass, "limit"), "cap") == 0;
    TRY(grad_syncs_find(pass, program, &n.syncs));
    if (n.syncs.count == 0) return grad_syncs_none(pass, &n.syncs);
    bool has_streams = grad_syncs_have_streams(&n.syncs);
    TRY(refuse_sparse(&n));
    TRY(make_buckets(&n, &rules));
    qsort(n.former.done, n.former.ndone, sizeof *n.former.done, by_last_member);
    size_t nbuckets;
    TRY(report(&n, &nbuckets));
    TRY(grad_buckets_write(pass, program, n.former.done, nbuckets));
    size_t nevents;
    return has_streams && nbuckets ? grad_sync_write_events(pass, program, &nevents) : NULL;
}

const weft_pass pass_coalesce_grads = {.options = options, .noptions = sizeof options / sizeof *options, .run = run};
