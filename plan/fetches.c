/* fetches.c: what a fetch op keeps: another name of the bytes, or a copy of them.
 *
 * A copy where the bytes change later, and of a slice, so that not all of a buffer is kept for a part of it. But where
 * at least half of a bucket is fetched (gradients that a traced graph returns) the bucket itself is kept: nothing is
 * copied, and its gradients are not held twice. */
#include <stdio.h>

#include "plan/builder.h"

static bool is_fetch(const weft_op *op) {
    return op_is(op, "fetch") || op_is(op, "fetch_v2");
}

/* The bucket that the fetched value is a part of; -1: none. */
static int32_t bucket_of(const plan_builder *b, int32_t value) {
    int64_t begin;
    if (value < 0 || (size_t)value >= b->nviewed) return -1;
    int32_t root = plan_find_root(b, value, &begin);
    return b->values[plan_base_of(b, value)].view_of >= 0 ? root : -1;
}

weft_status plan_find_kept_buckets(plan_builder *b) {
    int64_t *fetched = ARENA_ARRAY(&b->scratch, int64_t, b->nviewed + 1);
    b->is_kept = ARENA_ARRAY(&b->scratch, bool, b->nviewed + 1);
    if (!fetched || !b->is_kept) return base_out_of_memory();
    for (size_t i = 0; i < b->nsteps; i++) {
        const weft_var *v = is_fetch(b->steps[i].op) ? weft_op_input(b->steps[i].op, "X", 0) : NULL;
        int32_t value = v ? b->value_of_var[v->id] : -1, root = bucket_of(b, value);
        if (root < 0) continue;
        fetched[root] += b->values[value].nbytes;
        b->is_kept[root] = fetched[root] >= b->values[root].nbytes / 2;
    }
    return NULL;
}

/* Whether the bytes of `v` may change after `step`, or are a part of something larger that would be kept for them. */
static bool changes_later(const plan_builder *b, const plan_step *step, const weft_var *v, int32_t value) {
    bool is_kept = false;
    if (step->frame >= 0) return true;
    if ((size_t)value < b->nviewed) {
        int64_t begin;
        int32_t root = plan_find_root(b, value, &begin);
        bool is_slice = plan_base_of(b, value) != root || b->values[value].nbytes != b->values[root].nbytes;
        is_kept = b->is_kept[root];
        if ((is_slice && !is_kept) || b->last_write[root] > step->op->mark) return true;
    }
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output || !op->mark || op_has_effect(op, OP_NO_BYTES)) continue;
        if (op->mark > step->op->mark || (op_has_effect(op, OP_ALIASES) && !is_kept)) return true;
    }
    return false;
}

/* A graph may give back what it was given: meshes, numbers. No op computes it, and a run has nothing to keep. */
static bool is_passed_on(const weft_var *v) {
    if (v->kind != WEFT_RAW) return false;
    FOR_EACH_USE(u, v)
    if (u->is_output) return false;
    return true;
}

weft_status plan_take_fetch(plan_builder *b, const plan_step *step) {
    weft_var *v = weft_op_input(step->op, "X", 0);
    char stem[40];
    int32_t value, kept;
    if (!v) return plan_error(b, WEFT_INVALID_PROGRAM, step->op, "input slot X is empty");
    if (is_passed_on(v)) return NULL;
    TRY(plan_value_of(b, step->op, v, &value));
    snprintf(stem, sizeof stem, "fetch.%lld", (long long)attr_int(step->op, "col", 0));
    TRY(plan_name_taken(b, step->op, stem));
    TRY(plan_new_value(b, stem, &b->values[value].shape, &kept));
    b->values[kept].is_fetch = true;
    b->values[kept].dist = b->values[value].dist;
    int32_t rows = b->values[value].rows, kept_rows;
    if (changes_later(b, step, v, value)) {
        if (rows < 0) return plan_add_copy(b, step, b->given ? plan_given_stream(b, step->op) : 0, value, kept);
        return plan_error(b, WEFT_UNSUPPORTED, step->op, "\"%s\" is SelectedRows and changes after it is fetched",
                          v->name->bytes);
    }
    b->values[kept].view_of = value;
    if (rows < 0) return NULL;
    const char *rows_stem = arena_format(&b->scratch, "%s#rows", stem);
    if (!rows_stem) return base_out_of_memory();
    TRY(plan_name_taken(b, step->op, rows_stem));
    TRY(plan_new_value(b, rows_stem, &b->values[rows].shape, &kept_rows));
    b->values[kept_rows].is_fetch = true;
    b->values[kept_rows].view_of = rows;
    b->values[kept].rows = kept_rows;
    return NULL;
}
