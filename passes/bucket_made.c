/* bucket_made.c: what a program that was made of planned buckets takes: where making it added copies, other than was
 * planned. It is planned and played as it stands. */
#include "passes/bucket_play.h"
#include "passes/certificate.h"
#include "proof/classes.h"

static weft_status make_plan(const bucket_times *t, const weft_program *made, bucket_times *out) {
    int nranks = (int)(program_last_rank(made) + 1);
    int64_t rank = pass_rank(t->pass) >= 0 ? pass_rank(t->pass) : made->rank >= 0 ? made->rank : 0;
    *out = (bucket_times){.pass = t->pass, .scratch = t->scratch, .cluster = t->cluster};
    TRY(weft_plan_create(made, NULL, &out->plan));
    out->ns = ARENA_ARRAY(t->scratch, int64_t, out->plan->ninstrs + 1);
    out->played = ARENA_ARRAY(t->scratch, int64_t, out->plan->ninstrs + 1);
    if (!out->ns || !out->played) return base_out_of_memory();
    return plan_find_times(out->plan, &out->cluster, nranks, rank, t->scratch, out->ns);
}

static size_t count_waits(const bucket_times *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->plan->ninstrs; i++) n += t->plan->instrs[i].nwaits;
    return n;
}

/* Each instruction of a stream of reduces is an item and a bucket of its own. */
static weft_status list_items(bucket_times *t) {
    size_t n = t->plan->ninstrs;
    bucket_item *items = ARENA_ARRAY(t->scratch, bucket_item, n + 1);
    bucket_kind *kinds = ARENA_ARRAY(t->scratch, bucket_kind, t->nlanes + 1);
    plan_stream *streams;
    t->item_of = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    t->made_after = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    t->answer.begins = ARENA_ARRAY(t->scratch, bool, n + 1);
    t->edges = ARENA_ARRAY(t->scratch, bucket_edge, count_waits(t) + 1);
    if (!items || !kinds || !t->item_of || !t->made_after || !t->answer.begins || !t->edges) return base_out_of_memory();
    TRY(plan_list_streams(t->plan, t->scratch, &streams));
    t->problem = (bucket_problem){.items = items, .kinds = kinds, .nkinds = t->nlanes};
    for (uint32_t k = 0; k < t->nlanes; k++) kinds[k].lane = k;
    for (size_t i = 0; i < n; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        int32_t lane = bucket_lane(t, instr->stream);
        for (uint32_t w = 0; w < instr->nwaits; w++) {
            const plan_wait *wait = &instr->waits[w];
            if (!wait->count || bucket_lane(t, wait->stream) < 0) continue;
            uint32_t item = t->item_of[streams[wait->stream].instrs[wait->count - 1] - t->plan->instrs];
            t->edges[t->nedges++] = (bucket_edge){(uint32_t)i, item};
        }
        if (lane < 0) continue;
        items[t->problem.nitems] = (bucket_item){.alone_ns = t->ns[i], .kind = (uint32_t)lane};
        for (uint32_t w = 0; w < instr->nwaits; w++)
            if (instr->waits[w].stream == 0) t->made_after[t->problem.nitems] = (uint32_t)instr->waits[w].count;
        t->item_of[i] = (uint32_t)t->problem.nitems;
        t->answer.begins[t->problem.nitems++] = true;
    }
    return NULL;
}

static bool find_lane(const bucket_times *t, const char *stream, int32_t *out_lane) {
    for (int s = 0; s < t->plan->nstreams; s++) {
        if (strcmp(t->plan->stream_names[s], stream) != 0) continue;
        *out_lane = t->lane_of[s];
        return true;
    }
    return false;
}

/* Streams are those of the program before, by their names; else no stream has items, and all instructions are played as
 * they stand. */
static weft_status play(const bucket_times *t, const weft_program *made, bucket_times *out) {
    TRY(make_plan(t, made, out));
    int32_t *lane_of = ARENA_ARRAY(t->scratch, int32_t, out->plan->nstreams + 1);
    bool known = lane_of != NULL;
    if (!lane_of) return base_out_of_memory();
    for (int s = 0; s < out->plan->nstreams && known; s++)
        known = find_lane(t, out->plan->stream_names[s], &lane_of[s]) && (lane_of[s] < 0) == (s == 0);
    if (known) {
        out->lane_of = lane_of;
        out->nlanes = t->nlanes;
        TRY(list_items(out));
    }
    TRY(bucket_contention_find(out));
    return bucket_play(out);
}

/* --- for the certificate ------------------------------------------------------------------------------------------ */

/* The next instruction of the lane from *at on; NULL: there is none. */
static const plan_instr *next_of_lane(const bucket_times *played, int32_t lane, size_t *at) {
    for (; *at < played->plan->ninstrs; ++*at)
        if (bucket_lane(played, played->plan->instrs[*at].stream) == lane) return &played->plan->instrs[(*at)++];
    return NULL;
}

/* Where a bucket stands in the program that was made: behind so many instructions of compute, before so many. */
static void place_bucket(bucket_times *t, const bucket_times *played, size_t k, const plan_instr *instr) {
    uint32_t item = played->item_of[instr - played->plan->instrs];
    t->made.after[k] = 0;
    t->made.needed[k] = (uint32_t)t->made.ncompute;
    for (uint32_t w = 0; w < instr->nwaits; w++)
        if (instr->waits[w].stream == 0) t->made.after[k] = (uint32_t)instr->waits[w].count;
    for (size_t e = 0; e < played->nedges; e++) {
        const plan_instr *user = &played->plan->instrs[played->edges[e].instr];
        if (played->edges[e].item == item && (uint32_t)user->position < t->made.needed[k])
            t->made.needed[k] = (uint32_t)user->position;
    }
    t->buckets[k].start_ns = played->buckets[item].start_ns;
    t->buckets[k].end_ns = played->buckets[item].end_ns;
}

/* Whether the buckets that were planned are what its streams of reduces run, one after another, and take as long. */
static weft_status state(bucket_times *t, const bucket_times *played, bool *out) {
    size_t *at = ARENA_ARRAY(t->scratch, size_t, t->nlanes + 1), n = played->plan->ninstrs;
    t->made.ns = ARENA_ARRAY(t->scratch, int64_t, n + 1);
    t->made.after = ARENA_ARRAY(t->scratch, uint32_t, t->nbuckets + 1);
    t->made.needed = ARENA_ARRAY(t->scratch, uint32_t, t->nbuckets + 1);
    if (!at || !t->made.ns || !t->made.after || !t->made.needed) return base_out_of_memory();
    for (size_t i = 0; i < n; i++)
        if (played->plan->instrs[i].stream == 0) t->made.ns[t->made.ncompute++] = played->ns[i];
    *out = played->nlanes && played->nbuckets == t->nbuckets;
    for (size_t e = 0; e < played->nedges && *out; e++) *out = played->plan->instrs[played->edges[e].instr].stream == 0;
    for (size_t k = 0; k < t->nbuckets && *out; k++) {
        bucket_time *b = &t->buckets[k];
        const bucket_item *first = &t->problem.items[b->first];
        const bucket_kind *kind = &t->problem.kinds[first->kind];
        const plan_instr *instr = next_of_lane(played, (int32_t)kind->lane, &at[kind->lane]);
        int64_t ns = b->count == 1 ? first->alone_ns : bucket_kind_ns(kind, b->nbytes);
        *out = instr && played->ns[instr - played->plan->instrs] == ns;
        if (*out) place_bucket(t, played, k, instr);
    }
    return NULL;
}

weft_status bucket_times_made(bucket_times *t, const weft_program *made) {
    bucket_times played = {0};
    bool stated = true;
    weft_status status = play(t, made, &played);
    bool same = played.step_ns == t->step_ns && played.exposed_ns == t->exposed_ns;
    if (!status && !same && pass_certifies(t->pass)) status = state(t, &played, &stated);
    weft_plan_destroy(played.plan);
    if (status || same) return status;
    TRY(weft_pass_did(t->pass,
                      "the program that is made ends a step at %.6f ms, %.6f ms of collectives exposed: members that "
                      "are copied into buckets, or views that must be, were not counted before",
                      1e-6 * (double)played.step_ns, 1e-6 * (double)played.exposed_ns));
    t->step_ns = played.step_ns;
    t->exposed_ns = played.exposed_ns;
    t->is_made = true;
    if (!stated) t->not_stated = "the program that is made has other reduces than were planned";
    return NULL;
}
