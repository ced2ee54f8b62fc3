/* bucket_made.c: what a program that was made of planned buckets takes: where making it added copies, other than was
 * planned. It is planned and played as it stands. */
#include "passes/bucket_play.h"
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

/* Each instruction of the second stream is an item and a bucket of its own. */
static weft_status list_items(bucket_times *t) {
    static const bucket_kind alone[1];
    size_t n = t->plan->ninstrs, nitems = 0;
    bucket_item *items = ARENA_ARRAY(t->scratch, bucket_item, n + 1);
    t->item_of = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    t->answer.begins = ARENA_ARRAY(t->scratch, bool, n + 1);
    t->edges = ARENA_ARRAY(t->scratch, bucket_edge, count_waits(t) + 1);
    if (!items || !t->item_of || !t->answer.begins || !t->edges) return base_out_of_memory();
    t->stream = 1;
    for (size_t i = 0; i < n; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        for (uint32_t w = 0; w < instr->nwaits && instr->stream == 0; w++)
            if (instr->waits[w].count)
                t->edges[t->nedges++] = (bucket_edge){(uint32_t)i, (uint32_t)instr->waits[w].count - 1};
        if (instr->stream == 0) continue;
        items[nitems].alone_ns = t->ns[i];
        t->item_of[i] = (uint32_t)nitems;
        t->answer.begins[nitems++] = true;
    }
    t->problem = (bucket_problem){.items = items, .nitems = nitems, .kinds = alone, .nkinds = 1};
    return NULL;
}

/* Without contention no stream has items: all instructions are played as they stand. */
static weft_status play(const bucket_times *t, const weft_program *made, bucket_times *out) {
    TRY(make_plan(t, made, out));
    out->stream = -1;
    if (bucket_contends(out)) TRY(list_items(out));
    return bucket_play(out);
}

weft_status bucket_times_made(bucket_times *t, const weft_program *made) {
    bucket_times played = {0};
    weft_status status = play(t, made, &played);
    weft_plan_destroy(played.plan);
    int64_t step = played.step_ns, exposed = played.exposed_ns;
    if (status || (step == t->step_ns && exposed == t->exposed_ns)) return status;
    TRY(weft_pass_did(t->pass,
                      "the program that is made ends a step at %.6f ms, %.6f ms of collectives exposed: members that "
                      "are copied into buckets, or views that must be, were not counted before",
                      1e-6 * (double)step, 1e-6 * (double)exposed));
    t->step_ns = step;
    t->exposed_ns = exposed;
    t->not_stated = "producers do not write all buckets in place";
    return NULL;
}
