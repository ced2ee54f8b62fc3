/* fuse_allreduce_buckets: all-reduces of one kind become one, in buckets; in traced graphs as in Paddle programs.
 *
 * It goes by what collectives are, which op produces their input and which ops depend on their result: no role or name
 * counts. Candidates of one kind (fuse_candidates.c) share buckets as long as none depends on another's result, through
 * memory too (fuse_sweep.c); the bucket is reduced right after the last producer, and only what depends on a result and
 * stood before that moves behind it, in order. Three ways to write a bucket: fuse_write.c. A bucket of one stays as it
 * is. All is decided from the program alone; a fingerprint of each bucket tells when ranks differ all the same.
 * Sources: pytorch.md 1, pytorch-observed.md (seed 000). */
#include "passes/fuse_allreduce.h"

static const weft_option options[] = {
    {"mode", WEFT_OPTION_STRING, "in_place", "concat|coalesced|in_place",
     "concat: members are copied into one buffer; coalesced: one collective of many tensors; in_place: producers write "
     "into the buffer"},
    {"bucket_mb", WEFT_OPTION_FLOAT, "25.0", "auto",
     "size of a bucket in MiB; auto: those buckets with which a step ends earliest, by the model of the cluster"},
    {"first_bucket_mb", WEFT_OPTION_FLOAT, "1.0", NULL,
     "size of the first bucket of each kind, so that its reduce starts early"},
    {"last_bucket_mb", WEFT_OPTION_FLOAT, "0.0", NULL,
     "most that the last reduce of each kind has, so that little is left when backward ends; 0: no limit"},
    {"limit", WEFT_OPTION_STRING, "flush", "flush|cap", "flush: reduced once it has that size; cap: never larger"},
    BUCKET_MODEL_OPTIONS("auto: "),
};

static weft_status read_options(fusion *f, bucket_rules *out) {
    static const char *const modes[] = {
        [FUSE_CONCAT] = "concat", [FUSE_COALESCED] = "coalesced", [FUSE_IN_PLACE] = "in_place"};
    const char *mode = weft_pass_option_string(f->pass, "mode");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i]) == 0) f->mode = (fuse_mode)i;
    static const char *const sizes[] = {"first_bucket_mb", "last_bucket_mb", "limit", NULL};
    f->is_auto = pass_option_is_word(f->pass, "bucket_mb");
    TRY(bucket_model_check(f->pass, f->is_auto, sizes));
    *out = (bucket_rules){.cap = strcmp(weft_pass_option_string(f->pass, "limit"), "cap") == 0};
    TRY(bucket_limit(f->pass, "bucket_mb", &out->limit));
    TRY(bucket_limit(f->pass, f->is_auto ? "bucket_mb" : "first_bucket_mb", &out->first_limit));
    return bucket_limit(f->pass, "last_bucket_mb", &f->last_limit);
}

static weft_status report_copies(const fusion *f, const fused_bucket *b, size_t *ncopies) {
    for (size_t i = 0; i < b->items->count; i++) {
        const reduce_item *item = b->items->items[i];
        for (size_t k = 0; k < item->nparts; k++) {
            const reduce_part *part = &item->parts[k];
            if (!part->copied) continue;
            ++*ncopies;
            TRY(weft_pass_left(f->pass, item->op, part->reason, "\"%s\" is copied into its bucket: %s",
                               reduce_part_x(item, part)->name->bytes, part->copied));
        }
    }
    return NULL;
}

static weft_status report_alone(const fusion *f, const bucket *b) {
    const reduce_item *item = b->items[0];
    bool large = f->is_auto || b->nbytes >= f->former.rules.limit;
    return weft_pass_left(f->pass, item->op, large ? WEFT_REASON_LIMIT : WEFT_REASON_DEPENDENCY,
                          "\"%s\" (%zu bytes) is reduced alone: %s", reduce_part_x(item, item->parts)->name->bytes,
                          b->nbytes,
                          f->is_auto ? "with others the step would not end earlier"
                          : large    ? "it has a bucket's size"
                                     : "no other of its kind is reduced before it is used");
}

static weft_status report(fusion *f) {
    size_t nparts = 0, nmoved = 0, ncopies = 0, nbytes = 0;
    uint64_t fingerprint = 0;
    for (size_t i = 0; i < f->former.ndone; i++) {
        const bucket *b = f->former.done[i];
        if (b->count == 1) TRY(report_alone(f, b));
        if (b->tail && b->tail->count == 1) TRY(report_alone(f, b->tail));
    }
    for (size_t i = 0; i < f->nbuckets; i++) {
        const fused_bucket *b = &f->buckets[i];
        const reduce_item *first = b->items->items[0];
        TRY(weft_pass_did(f->pass, "bucket %zu: %zu gradients, %zu bytes, ring %lld, fingerprint %016llx", i, b->nparts,
                          b->items->nbytes, (long long)first->ring, (unsigned long long)b->fingerprint));
        TRY(report_copies(f, b, &ncopies));
        nparts += b->nparts;
        nbytes += b->items->nbytes;
        nmoved += b->nmoved;
        fingerprint = fingerprint * 31 + b->fingerprint;
    }
    TRY(weft_pass_count_add(f->pass, "buckets", (int64_t)f->nbuckets));
    TRY(weft_pass_count_add(f->pass, "gradients bucketed", (int64_t)nparts));
    TRY(weft_pass_count_add(f->pass, "bucket bytes", (int64_t)nbytes));
    TRY(weft_pass_count_add(f->pass, "ops moved", (int64_t)nmoved));
    if (f->mode == FUSE_IN_PLACE) TRY(weft_pass_count_add(f->pass, "copies", (int64_t)ncopies));
    if (f->is_auto) TRY(fuse_plan_report(f));
    return f->nbuckets ? weft_pass_count_add(f->pass, "fingerprint", (int64_t)(fingerprint >> 1)) : NULL;
}

static weft_status fuse(fusion *f) {
    bucket_rules limits;
    TRY(read_options(f, &limits));
    TRY(fuse_form(f, &limits));
    if (f->ncandidates == 0)
        return weft_pass_left(f->pass, NULL, WEFT_REASON_NOTHING, "no all-reduce in block 0 can be fused");
    TRY(report(f));
    TRY(fuse_write(f));
    return f->is_auto ? fuse_plan_predict(f) : NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    fusion f = {.pass = pass, .program = program, .scratch = pass_scratch(pass)};
    weft_status status = fuse(&f);
    bucket_times_fini(&f.times);
    return status;
}

const weft_pass pass_fuse_allreduce_buckets = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run};
