/* buckets.c: what buckets cost in memory: how many of their bytes are live before anything wrote them.
 *
 * A bucket is a buffer that a collective takes whole and that was made of parts: by the instructions that write the
 * parts, or by a coalesce_tensor that copies them. A temporary one is live from the first of these on, so its later
 * parts are live ahead of their time; without the bucket they would not be. Found from values and instructions alone,
 * like live.c: so a plan that was read back says the same. */
#include <stdlib.h>

#include "plan/plan.h"

/* A value as bytes of a buffer, and the instruction that touches it first. */
typedef struct part {
    int32_t root, first;
    int64_t begin, end;
} part;

typedef struct finder {
    weft_plan *plan;
    arena *scratch;
    int32_t *first, *last; /* by value: instructions that touch it; -1: none */
    bool *is_taken;        /* by root: a collective takes all of it */
    part *parts;
    size_t nparts;
    int64_t *cuts;  /* of the buffer at hand: where parts begin and end */
    size_t *next;   /* by cut: the first from there on that nothing touched yet */
    int64_t *ahead; /* by instruction: change of the bytes that are live and that nothing touched before it */
} finder;

static int32_t root_of(const weft_plan *plan, int32_t value) {
    while (plan->values[value].view_of >= 0) value = plan->values[value].view_of;
    return value;
}

static void touch(finder *f, int32_t value, int32_t instr) {
    if (value < 0) return;
    int32_t root = root_of(f->plan, value);
    if (f->first[value] < 0) f->first[value] = instr;
    f->last[root] = instr;
    bool is_whole = f->plan->values[value].nbytes == f->plan->values[root].nbytes;
    if (f->plan->instrs[instr].ring_id >= 0 && is_whole) f->is_taken[root] = true;
}

static void find_touches(finder *f) {
    for (size_t v = 0; v < f->plan->nvalues; v++) f->first[v] = f->last[v] = -1;
    for (size_t i = 0; i < f->plan->ninstrs; i++) {
        const plan_instr *instr = &f->plan->instrs[i];
        for (size_t s = 0; s < instr->schema->ninputs; s++)
            for (uint32_t k = instr->in_first[s]; k < instr->in_first[s + 1] && !instr->schema->inputs[s].only_type;
                 k++)
                touch(f, instr->in[k], (int32_t)i);
        for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++) touch(f, instr->out[k], (int32_t)i);
    }
}

static int by_root_and_first(const void *a, const void *b) {
    const part *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void list_parts(finder *f) {
    for (size_t v = 0; v < f->plan->nvalues; v++) {
        const plan_value *value = &f->plan->values[v];
        int32_t root = root_of(f->plan, (int32_t)v);
        if (f->first[v] < 0 || !f->is_taken[root]) continue;
        int64_t begin = value->offset - f->plan->values[root].offset;
        f->parts[f->nparts++] = (part){root, f->first[v], begin, begin + value->nbytes};
    }
    if (f->nparts) qsort(f->parts, f->nparts, sizeof *f->parts, by_root_and_first);
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t first_untouched(finder *f, size_t cut) {
    while (f->next[cut] != cut) cut = f->next[cut] = f->next[f->next[cut]];
    return cut;
}

static size_t cut_at(const finder *f, size_t ncuts, int64_t byte) {
    size_t low = 0;
    for (size_t high = ncuts; low + 1 < high;) {
        size_t middle = (low + high) / 2;
        *(f->cuts[middle] <= byte ? &low : &high) = middle;
    }
    return low;
}

/* Every byte of a bucket is ahead up to and with the instruction that touches it first. */
static void count_ahead(finder *f, const part *parts, size_t count) {
    size_t ncuts = 0, kept = 1;
    int64_t left = f->plan->values[parts->root].nbytes;
    f->ahead[parts->first] += left;
    for (size_t i = 0; i < count; i++) {
        f->cuts[ncuts++] = parts[i].begin;
        f->cuts[ncuts++] = parts[i].end;
    }
    qsort(f->cuts, ncuts, sizeof *f->cuts, by_number);
    for (size_t i = 1; i < ncuts; i++)
        if (f->cuts[i] != f->cuts[kept - 1]) f->cuts[kept++] = f->cuts[i];
    for (size_t i = 0; i < kept; i++) f->next[i] = i;
    for (size_t i = 0; i < count; i++) {
        size_t at = first_untouched(f, cut_at(f, kept, parts[i].begin));
        for (; at + 1 < kept && f->cuts[at] < parts[i].end; at = first_untouched(f, at)) {
            f->ahead[parts[i].first + 1] -= f->cuts[at + 1] - f->cuts[at];
            left -= f->cuts[at + 1] - f->cuts[at];
            f->next[at] = at + 1;
        }
    }
    f->ahead[f->last[parts->root] + 1] -= left;
}

/* Whether the parts of one buffer, in order of time, made it. */
static bool is_bucket(const finder *f, const part *parts, size_t count) {
    const plan_value *root = &f->plan->values[parts->root];
    bool has_members = false, is_made_whole = false;
    for (size_t i = 0; i < count; i++) {
        bool is_whole = parts[i].end - parts[i].begin == root->nbytes;
        has_members = has_members || !is_whole;
        is_made_whole = is_made_whole || (is_whole && parts[i].first == parts->first);
    }
    bool is_copied = strcmp(f->plan->instrs[parts->first].schema->type, "coalesce_tensor") == 0;
    return has_members && (!is_made_whole || is_copied);
}

static void count_buckets(finder *f) {
    weft_plan *plan = f->plan;
    for (size_t i = 0, n; i < f->nparts; i += n) {
        for (n = 1; i + n < f->nparts && f->parts[i + n].root == f->parts[i].root;) n++;
        if (!is_bucket(f, &f->parts[i], n)) continue;
        const plan_value *root = &plan->values[f->parts[i].root];
        plan->nbuckets++;
        plan->bucket_nbytes += root->nbytes;
        if (root->nbytes > plan->largest_bucket_nbytes) plan->largest_bucket_nbytes = root->nbytes;
        if (root->space == PLAN_TEMPORARY) count_ahead(f, &f->parts[i], n);
    }
}

weft_status plan_find_buckets(weft_plan *plan, const int64_t *live, arena *scratch) {
    finder f = {.plan = plan, .scratch = scratch};
    f.first = ARENA_ARRAY(scratch, int32_t, plan->nvalues + 1);
    f.last = ARENA_ARRAY(scratch, int32_t, plan->nvalues + 1);
    f.is_taken = ARENA_ARRAY(scratch, bool, plan->nvalues + 1);
    f.parts = ARENA_ARRAY(scratch, part, plan->nvalues + 1);
    f.cuts = ARENA_ARRAY(scratch, int64_t, 2 * plan->nvalues + 1);
    f.next = ARENA_ARRAY(scratch, size_t, 2 * plan->nvalues + 1);
    f.ahead = ARENA_ARRAY(scratch, int64_t, plan->ninstrs + 2);
    if (!f.first || !f.last || !f.is_taken || !f.parts || !f.cuts || !f.next || !f.ahead) return base_out_of_memory();
    plan->nbuckets = 0;
    plan->bucket_nbytes = plan->largest_bucket_nbytes = plan->ahead_nbytes = plan->written_nbytes = 0;
    find_touches(&f);
    list_parts(&f);
    count_buckets(&f);
    int64_t ahead = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) {
        ahead += f.ahead[i];
        if (ahead > plan->ahead_nbytes) plan->ahead_nbytes = ahead;
        if (live[i] - ahead > plan->written_nbytes) plan->written_nbytes = live[i] - ahead;
    }
    return NULL;
}
