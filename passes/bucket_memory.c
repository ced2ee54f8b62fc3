/* bucket_memory.c: how much memory buckets may take up, and do.
 *
 * Buckets change what is live only in that a member has its bytes since the first one of its bucket is made. So each
 * item says how many bytes of later ones there is room for while it is the newest of its kind. */
#include "passes/bucket_times.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool has_kind(const bucket_times *t, size_t item) {
    return t->problem.kinds[t->problem.items[item].kind].ncurves > 0;
}

static int64_t nbytes_of(const bucket_times *t, size_t item) {
    return (int64_t)t->problem.items[item].padded;
}

/* Calls the body for each value that an instruction of a stream of reduces has: `v` is the one with its bytes. */
#define FOR_EACH_VALUE(v, plan, instr)                                                                                 \
    for (uint32_t v##_k = 0, v##_n = (instr)->in_first[(instr)->schema->ninputs],                                      \
                  v##_all = v##_n + (instr)->out_first[(instr)->schema->noutputs];                                     \
         v##_k < v##_all; v##_k++)                                                                                     \
        for (int32_t v##_of = v##_k < v##_n ? (instr)->in[v##_k] : (instr)->out[v##_k - v##_n],                        \
                     v = v##_of < 0 ? -1 : plan_root_of(plan, v##_of);                                                 \
             v >= 0; v = -1)

static bool *find_reduced(const bucket_times *t) {
    bool *reduced = ARENA_ARRAY(t->scratch, bool, t->plan->nvalues + 1);
    for (size_t i = 0; reduced && i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (bucket_lane(t, instr->stream) < 0 || !has_kind(t, t->item_of[i])) continue;
        FOR_EACH_VALUE(v, t->plan, instr) reduced[v] = true;
    }
    return reduced;
}

/* From which instruction on an item takes up room: no later than the next one of its kind. */
static weft_status find_first(bucket_times *t, const int32_t *first_of_value) {
    size_t n = t->problem.nitems, nkinds = t->problem.nkinds;
    int32_t *earliest = ARENA_ARRAY(t->scratch, int32_t, nkinds + 1), end = (int32_t)t->plan->ninstrs;
    t->first = ARENA_ARRAY(t->scratch, int32_t, n + 1);
    if (!earliest || !t->first) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) t->first[i] = end;
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (bucket_lane(t, instr->stream) < 0) continue;
        int32_t *first = &t->first[t->item_of[i]];
        FOR_EACH_VALUE(v, t->plan, instr) *first = (int32_t)least(*first, first_of_value[v]);
    }
    for (size_t k = 0; k < nkinds; k++) earliest[k] = end;
    for (size_t i = n; i-- > 0;) {
        int32_t *of_kind = &earliest[t->problem.items[i].kind];
        t->first[i] = *of_kind = (int32_t)least(t->first[i], *of_kind);
    }
    return NULL;
}

/* Adds what every item has from its first instruction to the end. */
static void add_items(const bucket_times *t, int64_t *change) {
    for (size_t i = 0; i < t->problem.nitems; i++)
        if (has_kind(t, i)) change[t->first[i]] += nbytes_of(t, i);
}

static weft_status find_live(bucket_times *t) {
    size_t n = t->plan->ninstrs;
    bool *reduced = find_reduced(t);
    int32_t *first = ARENA_ARRAY(t->scratch, int32_t, t->plan->nvalues + 1);
    int64_t *change = ARENA_ARRAY(t->scratch, int64_t, n + 1), sum = 0;
    t->live = ARENA_ARRAY(t->scratch, int64_t, n + 1);
    if (!reduced || !first || !change || !t->live) return base_out_of_memory();
    TRY(plan_live_rest(t->plan, reduced, t->scratch, t->live, first));
    TRY(find_first(t, first));
    add_items(t, change);
    for (size_t i = 0; i < n; i++) t->live[i] += sum += change[i];
    return NULL;
}

static int64_t most_of(const int64_t *live, int32_t first, int32_t end) {
    int64_t most = 0;
    for (int32_t i = first; i < end; i++) most = live[i] > most ? live[i] : most;
    return most;
}

weft_status bucket_memory_find(bucket_times *t, size_t most_live) {
    const bucket_problem *p = &t->problem;
    int32_t end = (int32_t)t->plan->ninstrs;
    int64_t *rooms = ARENA_ARRAY(t->scratch, int64_t, p->nitems + 1), nkinds = 0;
    int32_t *next = ARENA_ARRAY(t->scratch, int32_t, p->nkinds + 1);
    if (!rooms || !next) return base_out_of_memory();
    TRY(find_live(t));
    t->most_live = most_live;
    int64_t peak = most_of(t->live, 0, end),
            most = (int64_t)most_live; /* an option of MiB, far from what 64 bits hold */
    if (peak > most)
        return weft_pass_refuse(t->pass,
                                "most_live_mb: %.3f MiB of temporaries are live at once with a reduce for each "
                                "gradient: expected no less, found %.3f",
                                (double)peak / 1048576, (double)most_live / 1048576);
    for (size_t k = 0; k < p->nkinds; k++) {
        nkinds += p->kinds[k].ncurves > 0;
        next[k] = end;
    }
    for (size_t i = p->nitems; i-- > 0;) {
        uint32_t k = p->items[i].kind;
        rooms[i] = next[k] > t->first[i] ? (most - most_of(t->live, t->first[i], next[k])) / nkinds : INT64_MAX;
        next[k] = t->first[i];
    }
    t->problem.rooms = rooms;
    return NULL;
}

weft_status bucket_memory_play(bucket_times *t) {
    const bucket_problem *p = &t->problem;
    size_t n = t->plan->ninstrs;
    int64_t *change = ARENA_ARRAY(t->scratch, int64_t, n + 1), sum = 0;
    int32_t *begin = ARENA_ARRAY(t->scratch, int32_t, p->nkinds + 1); /* of the bucket at hand */
    if (!change || !begin) return base_out_of_memory();
    for (size_t i = 0; i < p->nitems; i++) {
        int32_t *of_kind = &begin[p->items[i].kind];
        if (t->answer.begins[i]) *of_kind = t->first[i];
        if (!has_kind(t, i)) continue;
        change[*of_kind] += nbytes_of(t, i);
        change[t->first[i]] -= nbytes_of(t, i);
    }
    for (size_t i = 0; i < n; i++) {
        sum += change[i];
        if (t->live[i] + sum > t->most_seen) t->most_seen = t->live[i] + sum;
    }
    return NULL;
}
