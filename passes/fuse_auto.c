/* fuse_auto.c: bucket_mb: auto of fuse_allreduce_buckets: the buckets with which a step ends earliest (bucket_times.h).
 *
 * A first sweep with every candidate alone finds what is fused with what; then the buckets are planned, and a second
 * sweep forms these. A planned bucket is reduced where the last of its members was, before the first op that computes
 * with one of its results: so no op that takes time moves. Copies make the step longer than planned: what is predicted
 * in the end is that of the program that was made. */
#include "passes/bucket_tensor.h"
#include "passes/fuse_allreduce.h"

/* The first op behind the candidate that touches the bytes of `class`, by these flags. */
static uint32_t next_access(const access *all, size_t count, uint32_t position, unsigned flags) {
    for (size_t i = 0; i < count; i++)
        if (all[i].position > position && (all[i].flags & flags)) return all[i].position;
    return UINT32_MAX;
}

static size_t padded(const fusion *f, const reduce_item *item) {
    size_t nbytes = 0;
    for (size_t i = 0; i < item->nparts; i++)
        nbytes += f->mode == FUSE_IN_PLACE ? bucket_tensor_padded(item->parts[i].nbytes) : item->parts[i].nbytes;
    return nbytes;
}

/* A result is needed by what reads or writes it, and by what writes the bytes that were reduced. */
static uint32_t deadline_of(const fusion *f, const reduce_item *item) {
    uint32_t deadline = UINT32_MAX;
    for (size_t i = 0; i < item->nparts; i++) {
        size_t nout, nx;
        const access *out = accesses_of(&f->index, reduce_part_out(item, &item->parts[i]), &nout);
        const access *x = accesses_of(&f->index, reduce_part_x(item, &item->parts[i]), &nx);
        uint32_t used = next_access(out, nout, item->position, ACCESS_READ | ACCESS_WRITE),
                 written = next_access(x, nx, item->position, ACCESS_WRITE);
        if (used < deadline) deadline = used;
        if (written < deadline) deadline = written;
    }
    return deadline;
}

/* Of all parts, what writes the bytes that are reduced before (`results` false), or touches the results afterwards. */
static weft_status find_accesses(const fusion *f, const reduce_item *item, bool results, const access **out,
                                 size_t *out_count) {
    weft_var *(*var_of)(const reduce_item *, const reduce_part *) = results ? reduce_part_out : reduce_part_x;
    size_t count = 0, n;
    for (size_t i = 0; i < item->nparts; i++, count += n)
        (void)accesses_of(&f->index, var_of(item, &item->parts[i]), &n);
    access *found = ARENA_ARRAY(f->scratch, access, count + 1);
    if (!found) return base_out_of_memory();
    for (size_t i = 0; i < item->nparts; i++) {
        const access *all = accesses_of(&f->index, var_of(item, &item->parts[i]), &n);
        for (size_t k = 0; k < n; k++)
            if (results ? all[k].position > item->position
                        : all[k].position < item->position && (all[k].flags & ACCESS_WRITE))
                found[(*out_count)++] = all[k];
    }
    *out = found;
    return NULL;
}

/* The number of the item's kind: kinds are numbered as they are met. */
static weft_status kind_of(fusion *f, const reduce_item *item, uint32_t *out) {
    bucket *b;
    TRY(bucket_former_find(&f->former, item, &b));
    for (*out = 0; f->former.open[*out] != b;) ++*out;
    return NULL;
}

static weft_status describe(fusion *f, const reduce_item *item, access *op, bucket_reduce *out) {
    *op = (access){.position = item->position & ACCESS_MAX_OPS};
    *out = (bucket_reduce){.ops = op,
                           .nops = 1,
                           .name = reduce_part_out(item, item->parts)->name->bytes,
                           .nbytes = item->nbytes,
                           .padded = padded(f, item),
                           .deadline = deadline_of(f, item)};
    TRY(find_accesses(f, item, false, &out->makers, &out->nmakers));
    TRY(find_accesses(f, item, true, &out->users, &out->nusers));
    return kind_of(f, item, &out->kind);
}

weft_status fuse_plan(fusion *f) {
    bucket_reduce *reduces = ARENA_ARRAY(f->scratch, bucket_reduce, f->ncandidates + 1);
    access *ops = ARENA_ARRAY(f->scratch, access, f->ncandidates + 1);
    bucket_model model;
    f->begins = ARENA_ARRAY(f->scratch, bool, f->ncandidates + 1);
    if (!reduces || !ops || !f->begins) return base_out_of_memory();
    if (f->ncandidates == 0) return NULL;
    TRY(access_index_gather(&f->index, f->scratch, NULL));
    for (size_t i = 0; i < f->ncandidates; i++) TRY(describe(f, &f->candidates[i], &ops[i], &reduces[i]));
    TRY(bucket_model_read(f->pass, &model));
    if (model.most_live && f->mode != FUSE_IN_PLACE)
        return weft_pass_refuse(f->pass, "most_live_mb: expected mode in_place: another has other tensors in memory");
    model.advice = "only asynchronous all-reduces can be planned";
    TRY(bucket_times_find(f->pass, &f->index, &model, reduces, f->ncandidates, (uint32_t)f->former.nopen, &f->times));
    for (size_t i = 0; i < f->times.problem.nitems; i++)
        if (f->times.reduce_of[i] != BUCKET_ALONE) f->begins[f->times.reduce_of[i]] = f->times.answer.begins[i];
    return NULL;
}

static size_t count_planned(const fusion *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->ncandidates; i++) n += f->begins[i];
    return n;
}

weft_status fuse_plan_report(fusion *f) {
    bucket_times *t = &f->times;
    size_t nplanned = count_planned(f);
    TRY(bucket_times_report(t));
    for (size_t i = 0; i < f->ncandidates; i++)
        if (f->candidates[i].nparts > 1) t->not_stated = "a collective of several tensors is in a bucket";
    if (nplanned == f->former.ndone) return NULL;
    t->not_stated = "buckets are not those that were planned";
    return weft_pass_did(f->pass, "%zu buckets were planned, %zu made: what depends on results closed some early",
                         nplanned, f->former.ndone);
}

weft_status fuse_plan_predict(fusion *f) {
    TRY(bucket_times_made(&f->times, f->program));
    TRY(bucket_times_count(&f->times));
    return bucket_times_certify(&f->times);
}
