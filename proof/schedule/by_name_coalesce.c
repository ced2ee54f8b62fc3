/* by_name_coalesce.c: the rule for fused buffers (dependency_builder.cc, AddDependencyForCoalesceTensorOp): whoever
 * reads a buffer first comes after all producers of members, and readers of members after it.
 *
 * Paddle takes bucket after bucket, and adds an edge only where no path leads there yet, over edges of buckets before
 * too. Here all buckets of a strip are taken in one pass over the instructions: a row of bits says which buckets'
 * readers come before an instruction. An edge of one bucket counts for it and for those behind it alone. */
#include <stdlib.h>

#include "program/grow.h"
#include "proof/schedule/by_name.h"

typedef struct bucket {
    uint32_t at, reader; /* its coalesce_tensor; the first that reads it */
    uint32_t behind;     /* of the collectives that follow its reader at once, the last */
    const weft_op *op;
    const slot *members;
} bucket;

/* An edge that a bucket may add. Those into one instruction are in order of buckets, then of where they come from. */
typedef struct candidate {
    uint32_t bucket, from;
    uint32_t next; /* into the same instruction; PROOF_NONE */
} candidate;

/* An edge that was added in the strip at hand. */
typedef struct added {
    uint32_t bucket, from, to;
    uint32_t next; /* into the same instruction; PROOF_NONE */
} added;

typedef struct coalescer {
    by_name *z;
    reach reach;
    bucket *buckets;
    size_t nbuckets, bucket_capacity;
    list *reads, *writes; /* by var: instructions, of the vars of buckets */
    bool *matters;        /* by var */
    candidate *candidates;
    size_t ncandidates, candidate_capacity;
    uint32_t *first_candidate, *last_candidate; /* by instruction; PROOF_NONE */
    added *added;
    size_t nadded, added_capacity;
    uint32_t *first_added; /* by instruction; PROOF_NONE */
    list *ends_at;         /* by instruction: buckets of the strip whose `behind` it is */
    uint32_t first, count; /* buckets of the strip */
} coalescer;

/* --- buckets ------------------------------------------------------------------------------------------------------ */

static const weft_var *fused_of(const weft_op *op) {
    bool is = op_is(op, "coalesce_tensor") && op_find_slot(op, true, "Output");
    return is ? weft_op_output(op, "FusedOutput", 0) : NULL;
}

static weft_status list_uses(coalescer *c) {
    by_name *z = c->z;
    for (uint32_t i = 0; i < z->n / 2; i++) {
        const weft_op *op = z->instrs[i].op;
        const weft_var *fused = fused_of(op);
        const slot *members = fused ? op_find_slot(op, true, "Output") : NULL;
        if (fused) c->matters[fused->id] = true;
        for (uint32_t k = 0; members && k < members->nargs; k++) c->matters[slot_args(op, members)[k].var_id] = true;
    }
    for (uint32_t i = 0; i < z->n; i++) FOR_EACH_INSTR_ARG(z, i, a) {
            list *l = a->is & ARG_OUT ? &c->writes[a->var] : &c->reads[a->var];
            if (!c->matters[a->var] || (l->count && l->items[l->count - 1] == i)) continue;
            TRY(by_name_push(z, l, i));
        }
    return NULL;
}

/* The first in a rising list that is behind `at`; its end if none is. */
static size_t find_behind(const list *l, uint32_t at) {
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->items[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static weft_status list_buckets(coalescer *c) {
    by_name *z = c->z;
    for (uint32_t i = 0; i < z->n; i++) {
        const weft_var *fused = fused_of(z->instrs[i].op);
        const list *readers = fused ? &c->reads[fused->id] : NULL;
        size_t first = fused ? find_behind(readers, i) : 0;
        if (!fused || first == readers->count) continue;
        const weft_op *op = z->instrs[i].op;
        bucket b = {i, readers->items[first], readers->items[first], op, op_find_slot(op, true, "Output")};
        while (b.behind + 1 < z->n && by_name_communicates(z->instrs[b.behind].op) &&
               by_name_communicates(z->instrs[b.behind + 1].op))
            b.behind++;
        TRY(grow(z->arena, &c->buckets, &c->bucket_capacity, c->nbuckets + 1, sizeof *c->buckets));
        c->buckets[c->nbuckets++] = b;
    }
    return NULL;
}

/* --- candidates --------------------------------------------------------------------------------------------------- */

static weft_status add_candidate(coalescer *c, uint32_t bucket_id, uint32_t from, uint32_t to) {
    TRY(grow(c->z->arena, &c->candidates, &c->candidate_capacity, c->ncandidates + 1, sizeof *c->candidates));
    uint32_t id = (uint32_t)c->ncandidates++;
    c->candidates[id] = (candidate){bucket_id, from, PROOF_NONE};
    if (c->first_candidate[to] == PROOF_NONE)
        c->first_candidate[to] = id;
    else
        c->candidates[c->last_candidate[to]].next = id;
    c->last_candidate[to] = id;
    return NULL;
}

static int compare_ids(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

/* Which instructions in (after, before) are in the lists of a bucket's members: sorted, each once. */
static weft_status gather(coalescer *c, const bucket *b, const list *of_var, uint32_t after, uint32_t before,
                          list *out) {
    out->count = 0;
    c->z->stamp++;
    for (uint32_t k = 0; k < b->members->nargs; k++) {
        const list *l = &of_var[slot_args(b->op, b->members)[k].var_id];
        for (size_t i = find_behind(l, after); i < l->count && l->items[i] < before; i++) {
            if (c->z->visited[l->items[i]] == c->z->stamp) continue;
            c->z->visited[l->items[i]] = c->z->stamp;
            TRY(by_name_push(c->z, out, l->items[i]));
        }
    }
    if (out->count > 1) qsort(out->items, out->count, sizeof *out->items, compare_ids);
    return NULL;
}

static weft_status list_candidates(coalescer *c) {
    list found = {0};
    for (uint32_t k = 0; k < c->nbuckets; k++) {
        const bucket *b = &c->buckets[k];
        TRY(gather(c, b, c->writes, b->at, b->reader, &found));
        for (size_t i = 0; i < found.count; i++) TRY(add_candidate(c, k, found.items[i], b->reader));
        TRY(gather(c, b, c->reads, b->behind, (uint32_t)c->z->n, &found));
        for (size_t i = 0; i < found.count; i++) TRY(add_candidate(c, k, b->behind, found.items[i]));
    }
    return NULL;
}

/* --- a strip ------------------------------------------------------------------------------------------------------ */

/* What bucket `bucket_id` and those behind it see of an edge from `from`. */
static void see(const coalescer *c, uint64_t *row, uint32_t from, uint32_t bucket_id) {
    uint32_t column = bucket_id - c->first;
    uint64_t seen[REACH_WORDS] = {0};
    if (from > c->reach.first) memcpy(seen, reach_row(&c->reach, from), sizeof seen);
    for (size_t i = 0; i < c->ends_at[from].count; i++) reach_set(seen, c->ends_at[from].items[i] - c->first);
    for (uint32_t w = column / 64; w < REACH_WORDS; w++)
        row[w] |= w == column / 64 ? seen[w] & ~UINT64_C(0) << (column % 64) : seen[w];
}

static weft_status add(coalescer *c, uint32_t bucket_id, uint32_t from, uint32_t to, uint64_t *row) {
    TRY(grow(c->z->arena, &c->added, &c->added_capacity, c->nadded + 1, sizeof *c->added));
    c->added[c->nadded] = (added){bucket_id, from, to, c->first_added[to]};
    c->first_added[to] = (uint32_t)c->nadded++;
    see(c, row, from, bucket_id);
    return NULL;
}

static weft_status visit(coalescer *c, uint32_t x, uint32_t above) {
    if (x <= above || c->z->visited[x] == c->z->stamp) return NULL;
    c->z->visited[x] = c->z->stamp;
    return by_name_push(c->z, &c->z->stack, x);
}

/* Marks what comes before a bucket's reader and behind its coalesce_tensor, as the bucket sees it. */
static weft_status mark_before(coalescer *c, uint32_t bucket_id) {
    const bucket *b = &c->buckets[bucket_id];
    c->z->stamp++;
    c->z->stack.count = 0;
    TRY(visit(c, b->reader, b->at));
    while (c->z->stack.count) {
        uint32_t y = c->z->stack.items[--c->z->stack.count];
        const list *l = &c->z->before[y];
        for (size_t i = 0; i < l->count; i++) TRY(visit(c, l->items[i], b->at));
        for (uint32_t i = c->first_added[y]; i != PROOF_NONE; i = c->added[i].next)
            if (c->added[i].bucket < bucket_id) TRY(visit(c, c->added[i].from, b->at));
    }
    return NULL;
}

/* Edges into `y` of the buckets of the strip. */
static weft_status decide(coalescer *c, uint32_t y, uint64_t *row) {
    uint32_t marked = PROOF_NONE;
    for (uint32_t i = c->first_candidate[y]; i != PROOF_NONE; i = c->candidates[i].next) {
        uint32_t k = c->candidates[i].bucket, from = c->candidates[i].from;
        if (k < c->first || k - c->first >= c->count) continue;
        bool leads;
        if (c->buckets[k].reader == y) {
            if (marked != k) TRY(mark_before(c, k));
            marked = k;
            leads = c->z->visited[from] == c->z->stamp;
        } else {
            leads = reach_has(row, k - c->first);
        }
        if (!leads) TRY(add(c, k, from, y, row));
    }
    return NULL;
}

/* The edges of a strip come in order of where they lead; Paddle adds them bucket after bucket. */
static int compare_added(const void *x, const void *y) {
    const added *a = x, *b = y;
    if (a->bucket != b->bucket) return a->bucket < b->bucket ? -1 : 1;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

static weft_status take_strip(coalescer *c) {
    by_name *z = c->z;
    c->reach.first = PROOF_NONE;
    for (uint32_t k = c->first; k < c->first + c->count; k++) {
        if (c->buckets[k].at < c->reach.first) c->reach.first = c->buckets[k].at;
        TRY(by_name_push(z, &c->ends_at[c->buckets[k].behind], k));
    }
    for (uint32_t y = c->reach.first + 1; y < z->n; y++) {
        uint64_t row[REACH_WORDS] = {0};
        reach_join(&c->reach, y, row);
        for (size_t i = 0; i < z->before[y].count; i++) {
            const list *ends = &c->ends_at[z->before[y].items[i]];
            for (size_t e = 0; e < ends->count; e++) reach_set(row, ends->items[e] - c->first);
        }
        TRY(decide(c, y, row));
        memcpy(reach_row(&c->reach, y), row, sizeof row);
    }
    if (c->nadded > 1) qsort(c->added, c->nadded, sizeof *c->added, compare_added);
    for (size_t i = 0; i < c->nadded; i++) {
        TRY(by_name_add(z, c->added[i].from, c->added[i].to));
        c->first_added[c->added[i].to] = PROOF_NONE;
    }
    for (uint32_t k = c->first; k < c->first + c->count; k++) c->ends_at[c->buckets[k].behind].count = 0;
    c->nadded = 0;
    return NULL;
}

static weft_status prepare(coalescer *c) {
    by_name *z = c->z;
    size_t nvars = z->s->program->nall_vars + 1;
    c->reads = ARENA_ARRAY(z->arena, list, nvars);
    c->writes = ARENA_ARRAY(z->arena, list, nvars);
    c->matters = ARENA_ARRAY(z->arena, bool, nvars);
    if (!c->reads || !c->writes || !c->matters) return base_out_of_memory();
    TRY(list_uses(c));
    TRY(list_buckets(c));
    if (!c->nbuckets) return NULL;
    c->first_candidate = ARENA_ARRAY(z->arena, uint32_t, z->n);
    c->last_candidate = ARENA_ARRAY(z->arena, uint32_t, z->n);
    c->first_added = ARENA_ARRAY(z->arena, uint32_t, z->n);
    c->ends_at = ARENA_ARRAY(z->arena, list, z->n);
    if (!c->first_candidate || !c->last_candidate || !c->first_added || !c->ends_at) return base_out_of_memory();
    for (size_t i = 0; i < z->n; i++) c->first_candidate[i] = c->first_added[i] = PROOF_NONE;
    TRY(reach_begin(&c->reach, z, z->n));
    return list_candidates(c);
}

weft_status by_name_coalesce(by_name *z) {
    coalescer c = {.z = z};
    TRY(prepare(&c));
    for (uint32_t k = 0; k < c.nbuckets; k += REACH_SOURCES) {
        c.first = k;
        c.count = c.nbuckets - k < REACH_SOURCES ? (uint32_t)(c.nbuckets - k) : REACH_SOURCES;
        TRY(take_strip(&c));
    }
    return NULL;
}
