/* bucket_times.c: from a program to the problem of its buckets.
 *
 * The program is planned as it is, each reduce by itself. Its streams are played once without the stream of the
 * reduces, which gives when each reduce could begin; and once backwards, which gives what the step takes from the
 * first instruction on that needs a result. If nothing that a reduce waits for needs another's result, these two say
 * all: the step ends with compute, or a tail after a bucket's end. Otherwise they are lower bounds.
 * bucket_play.c plays the buckets on all streams. */
#include "passes/bucket_times.h"

#include <stdio.h>
#include <stdlib.h>

#include "passes/bucket_play.h"
#include "program/grow.h"
#include "proof/classes.h"

/* --- the plan ----------------------------------------------------------------------------------------------------- */

/* Instructions by op and by stream. */
typedef struct layout {
    bucket_times *t;
    const bucket_reduce *reduces;
    size_t nreduces;
    plan_rings rings;
    uint32_t *first_instr, *next_instr; /* by position of the op, 1 + the instruction; 0: none */
    size_t nops;
    uint32_t *places;   /* by position in the index */
    int32_t *stream_of; /* by reduce */
    size_t nitems;
    bucket_item *items;
    bucket_kind *kinds;
    size_t edge_capacity;
    const char *advice;
} layout;

static weft_status make_plan(bucket_times *t, const weft_program *program, const bucket_model *model, layout *l) {
    int nranks = (int)(program_last_rank(program) + 1);
    int64_t rank = pass_rank(t->pass) >= 0 ? pass_rank(t->pass) : program->rank >= 0 ? program->rank : 0;
    if (nranks < 2) return weft_pass_refuse(t->pass, "bucket_mb: auto: no ring says that there are two ranks or more");
    if (*model->cluster) TRY(weft_cluster_load(t->pass->context, model->cluster, &t->cluster));
    if (*model->times) TRY(weft_profile_load(t->pass->context, model->times, &t->profile));
    t->cluster.profile = t->profile;
    TRY(plan_cluster_settle(&t->cluster, &t->cluster));
    TRY(weft_plan_create(program, NULL, &t->plan));
    t->ns = ARENA_ARRAY(t->scratch, int64_t, t->plan->ninstrs + 1);
    t->played = ARENA_ARRAY(t->scratch, int64_t, t->plan->ninstrs + 1);
    if (!t->ns || !t->played) return base_out_of_memory();
    TRY(plan_find_rings(t->plan, nranks, t->scratch, &l->rings));
    return plan_find_times(t->plan, &t->cluster, nranks, rank, t->scratch, t->ns);
}

static weft_status index_instrs(layout *l) {
    const weft_plan *plan = l->t->plan;
    for (size_t i = 0; i < plan->ninstrs; i++)
        if ((size_t)plan->instrs[i].op_index >= l->nops) l->nops = (size_t)plan->instrs[i].op_index + 1;
    l->first_instr = ARENA_ARRAY(l->t->scratch, uint32_t, l->nops + 1);
    l->next_instr = ARENA_ARRAY(l->t->scratch, uint32_t, plan->ninstrs + 1);
    if (!l->first_instr || !l->next_instr) return base_out_of_memory();
    for (size_t i = plan->ninstrs; i-- > 0;) {
        uint32_t *first = &l->first_instr[plan->instrs[i].op_index];
        l->next_instr[i] = *first;
        *first = (uint32_t)i + 1;
    }
    return NULL;
}

/* Where the ops of the index stand now: some may have been removed since it was made. */
static weft_status find_places(layout *l, const access_index *index) {
    uint32_t n = 0;
    l->t->names = ARENA_ARRAY(l->t->scratch, const char *, l->nreduces + 1);
    if (!l->t->names) return base_out_of_memory();
    for (size_t r = 0; r < l->nreduces; r++) l->t->names[r] = l->reduces[r].name;
    l->places = ARENA_ARRAY(l->t->scratch, uint32_t, index->nops + 1);
    if (!l->places) return base_out_of_memory();
    for (size_t i = 0; i < index->nops; i++) l->places[i] = access_op(index, i)->block ? n++ : UINT32_MAX;
    return NULL;
}

static uint32_t first_instr(const layout *l, const access *of) {
    uint32_t place = l->places[of->position];
    return place < l->nops ? l->first_instr[place] : 0;
}

/* i: 1 + the number of an instruction of the op */
#define FOR_EACH_INSTR(i, l, of) for (uint32_t i = first_instr(l, of); i; i = (l)->next_instr[i - 1])

/* --- items -------------------------------------------------------------------------------------------------------- */

static weft_status refuse_stream(const layout *l, const plan_instr *instr, const char *why) {
    char place[200];
    return weft_pass_refuse(l->t->pass, "bucket_mb: auto: %s %s", instr_place(instr, place, sizeof place), why);
}

static weft_status refuse_compute(const layout *l, const plan_instr *instr) {
    char why[200];
    snprintf(why, sizeof why, "is on the compute stream: %s", l->advice);
    return refuse_stream(l, instr, why);
}

/* A stream of reduces is a lane. */
static weft_status add_lane(layout *l, const plan_instr *instr) {
    int32_t *lane = &l->t->lane_of[instr->stream];
    if (instr->stream == 0) return refuse_compute(l, instr);
    if (*lane < 0) *lane = (int32_t)l->t->nlanes++;
    return NULL;
}

/* The reduces' streams, and which reduce each of their instructions is of. */
static weft_status find_owners(layout *l, uint32_t *owner) {
    bucket_times *t = l->t;
    if (!(t->lane_of = ARENA_ARRAY(t->scratch, int32_t, t->plan->nstreams + 1))) return base_out_of_memory();
    for (int s = 0; s < t->plan->nstreams; s++) t->lane_of[s] = -1;
    for (size_t i = 0; i < t->plan->ninstrs; i++) owner[i] = BUCKET_ALONE;
    for (size_t r = 0; r < l->nreduces; r++) {
        for (size_t k = 0; k < l->reduces[r].nops; k++) {
            FOR_EACH_INSTR(at, l, &l->reduces[r].ops[k]) {
                const plan_instr *instr = &t->plan->instrs[at - 1];
                if (k && instr->stream != l->stream_of[r])
                    return refuse_stream(l, instr, "is on another stream than the reduce of the same gradient before");
                l->stream_of[r] = instr->stream;
                TRY(add_lane(l, instr));
                owner[at - 1] = (uint32_t)r;
            }
        }
    }
    if (!t->nlanes) return weft_pass_refuse(t->pass, "bucket_mb: auto: there is nothing to reduce");
    return NULL;
}

static weft_status begin_item(layout *l, const plan_instr *instr, uint32_t owner, uint32_t nkinds) {
    bucket_item *item = &l->items[l->nitems];
    uint32_t lane = (uint32_t)l->t->lane_of[instr->stream];
    l->t->reduce_of[l->nitems++] = owner;
    *item = (bucket_item){.kind = nkinds + lane, .position = (uint32_t)instr->op_index, .deadline = UINT32_MAX};
    if (owner != BUCKET_ALONE && l->reduces[owner].kind != BUCKET_ALONE) item->kind = l->reduces[owner].kind;
    l->kinds[item->kind].lane = lane;
    if (owner == BUCKET_ALONE) return NULL;
    const bucket_reduce *r = &l->reduces[owner];
    item->nbytes = r->nbytes;
    item->padded = r->padded;
    item->position = r->ops[r->nops - 1].position;
    item->deadline = r->deadline;
    return NULL;
}

static void wait_for(bucket_times *t, uint32_t item, uint32_t count) {
    if (count > t->made_after[item]) t->made_after[item] = count;
}

/* The plan leaves out waits that those of another item before imply: that may be reduced later, in a bucket. */
static void find_makers(layout *l, uint32_t item, const bucket_reduce *r) {
    for (size_t k = 0; k < r->nmakers; k++) FOR_EACH_INSTR(at, l, &r->makers[k]) {
            const plan_instr *instr = &l->t->plan->instrs[at - 1];
            if (instr->stream == 0) wait_for(l->t, item, (uint32_t)instr->position + 1);
        }
}

/* One for each reduce, and for each instruction of their streams that is of none. Of a lane, `last` has the owner of
 * the instruction before. */
static weft_status list_items(layout *l, uint32_t nkinds) {
    bucket_times *t = l->t;
    const weft_plan *plan = t->plan;
    uint32_t *owner = ARENA_ARRAY(t->scratch, uint32_t, plan->ninstrs + 1), *last, *newest;
    bool *seen = ARENA_ARRAY(t->scratch, bool, l->nreduces + 1);
    l->items = ARENA_ARRAY(t->scratch, bucket_item, plan->ninstrs + 1);
    t->reduce_of = ARENA_ARRAY(t->scratch, uint32_t, plan->ninstrs + 1);
    t->item_of = ARENA_ARRAY(t->scratch, uint32_t, plan->ninstrs + 1);
    t->made_after = ARENA_ARRAY(t->scratch, uint32_t, plan->ninstrs + 1);
    l->stream_of = ARENA_ARRAY(t->scratch, int32_t, l->nreduces + 1);
    if (!owner || !seen || !l->items || !t->reduce_of || !t->item_of || !t->made_after || !l->stream_of)
        return base_out_of_memory();
    TRY(find_owners(l, owner));
    l->kinds = ARENA_ARRAY(t->scratch, bucket_kind, nkinds + t->nlanes + 1);
    last = ARENA_ARRAY(t->scratch, uint32_t, t->nlanes);
    newest = ARENA_ARRAY(t->scratch, uint32_t, t->nlanes); /* by lane: its item */
    if (!l->kinds || !last || !newest) return base_out_of_memory();
    for (uint32_t k = 0; k < t->nlanes; k++) last[k] = BUCKET_ALONE;
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        int32_t lane = bucket_lane(t, instr->stream);
        if (lane < 0) continue;
        if (owner[i] == BUCKET_ALONE || owner[i] != last[lane]) {
            if (owner[i] != BUCKET_ALONE && seen[owner[i]])
                return refuse_stream(l, instr, "does not stand directly behind the reduce of the same gradient");
            newest[lane] = (uint32_t)l->nitems;
            TRY(begin_item(l, instr, owner[i], nkinds));
            if (owner[i] != BUCKET_ALONE) find_makers(l, newest[lane], &l->reduces[owner[i]]);
        }
        last[lane] = owner[i];
        if (owner[i] != BUCKET_ALONE) seen[owner[i]] = true;
        bucket_item *item = &l->items[t->item_of[i] = newest[lane]];
        item->alone_ns = plan_later(item->alone_ns, t->ns[i]);
        for (uint32_t w = 0; w < instr->nwaits; w++)
            if (instr->waits[w].stream == 0) wait_for(t, newest[lane], (uint32_t)instr->waits[w].count);
    }
    return NULL;
}

/* --- costs -------------------------------------------------------------------------------------------------------- */

/* Of a scale: what it computes and moves grows with the bytes. */
static weft_status scale_curve(const bucket_times *t, const plan_instr *instr, size_t nbytes, plan_curve *out) {
    op_cost cost;
    TRY(plan_cost_of(t->plan, instr, t->scratch, &cost));
    *out = (plan_curve){.times = 1, .parts = 1, .op_seconds = t->cluster.op_seconds};
    if (cost.flops > 0) out->links[out->nlinks++].bytes = t->cluster.flops / (cost.flops / (double)nbytes);
    if (cost.bytes > 0) out->links[out->nlinks++].bytes = t->cluster.bytes / (cost.bytes / (double)nbytes);
    return NULL;
}

/* What a bucket of the reduce's kind runs: its collectives, then one scale if there are any. */
static weft_status find_kind(layout *l, const bucket_reduce *r, bucket_kind *out) {
    bucket_times *t = l->t;
    plan_curve *curves = ARENA_ARRAY(t->scratch, plan_curve, r->nops + 1);
    const plan_instr *scale = NULL;
    if (!curves) return base_out_of_memory();
    for (size_t k = 0; k < r->nops; k++) {
        FOR_EACH_INSTR(at, l, &r->ops[k]) {
            const plan_instr *instr = &t->plan->instrs[at - 1];
            const plan_ring *ring_of = instr->ring_id >= 0 ? plan_ring_find(&l->rings, instr->ring_id) : NULL;
            if (!ring_of)
                scale = instr;
            else if (ring_of->nranks < 2)
                return refuse_stream(l, instr, "is on a ring of one rank");
            else
                TRY(plan_collective_curve(&t->cluster, ring_of, instr->op, &curves[out->ncurves++]));
        }
    }
    out->ncollectives = out->ncurves;
    if (scale) TRY(scale_curve(t, scale, r->nbytes, &curves[out->ncurves++]));
    out->curves = curves;
    return NULL;
}

/* The last kinds, one of each lane, are of those that go with nothing. */
static weft_status find_kinds(layout *l, uint32_t nkinds) {
    bucket_kind *kinds = l->kinds;
    bool alone = false;
    for (size_t i = 0; i < l->nitems; i++) {
        bucket_item *item = &l->items[i];
        alone = alone || item->kind >= nkinds;
        if (item->kind >= nkinds) continue;
        if (!kinds[item->kind].curves) TRY(find_kind(l, &l->reduces[l->t->reduce_of[i]], &kinds[item->kind]));
    }
    l->t->problem = (bucket_problem){
        .items = l->items, .nitems = l->nitems, .kinds = kinds, .nkinds = nkinds + (alone ? l->t->nlanes : 0)};
    return NULL;
}

/* --- who needs what ----------------------------------------------------------------------------------------------- */

static weft_status add_edge(layout *l, size_t instr, uint32_t item) {
    bucket_times *t = l->t;
    int32_t lane = bucket_lane(t, t->plan->instrs[instr].stream);
    if (lane >= 0 && (uint32_t)lane == l->kinds[l->items[item].kind].lane) return NULL; /* in order by themselves */
    TRY(grow(t->scratch, &t->edges, &l->edge_capacity, t->nedges + 1, sizeof *t->edges));
    t->edges[t->nedges++] = (bucket_edge){(uint32_t)instr, item};
    return NULL;
}

static int by_instr(const void *a, const void *b) {
    const bucket_edge *x = a, *y = b;
    return x->instr != y->instr ? (x->instr < y->instr ? -1 : 1) : (x->item > y->item) - (x->item < y->item);
}

static uint32_t item_waited_for(const layout *l, const plan_stream *s, const plan_wait *w) {
    return l->t->item_of[s->instrs[w->count - 1] - l->t->plan->instrs];
}

/* From the waits of the plan, which leave out what others imply, and from who touches the results. */
static weft_status list_edges(layout *l) {
    bucket_times *t = l->t;
    for (size_t i = 0; i < l->nitems; i++) {
        if (t->reduce_of[i] == BUCKET_ALONE) continue;
        const bucket_reduce *r = &l->reduces[t->reduce_of[i]];
        for (size_t k = 0; k < r->nusers; k++)
            FOR_EACH_INSTR(at, l, &r->users[k]) TRY(add_edge(l, at - 1, (uint32_t)i));
    }
    plan_stream *streams;
    TRY(plan_list_streams(t->plan, t->scratch, &streams));
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        for (uint32_t w = 0; w < instr->nwaits; w++)
            if (bucket_lane(t, instr->waits[w].stream) >= 0 && instr->waits[w].count)
                TRY(add_edge(l, i, item_waited_for(l, &streams[instr->waits[w].stream], &instr->waits[w])));
    }
    if (t->nedges) qsort(t->edges, t->nedges, sizeof *t->edges, by_instr);
    return NULL;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

weft_status bucket_times_find(weft_pass_context *pass, const access_index *index, const bucket_model *model,
                              const bucket_reduce *reduces, size_t count, uint32_t nkinds, bucket_times *out) {
    *out = (bucket_times){.pass = pass, .scratch = pass_scratch(pass)};
    layout l = {.t = out, .reduces = reduces, .nreduces = count, .advice = model->advice};
    TRY(make_plan(out, index->program, model, &l));
    TRY(index_instrs(&l));
    TRY(find_places(&l, index));
    TRY(list_items(&l, nkinds));
    TRY(find_kinds(&l, nkinds));
    TRY(list_edges(&l));
    TRY(bucket_contention_find(out));
    TRY(bucket_play_alone(out, l.items));
    TRY(bucket_plan_solve(&out->problem, out->scratch, &out->answer));
    out->unlimited_ns = out->answer.step_ns;
    out->unlimited_bound_ns = out->answer.bound_ns;
    out->problem.most_nbytes = model->most_nbytes;
    if (model->most_live) TRY(bucket_memory_find(out, model->most_live));
    if (model->most_nbytes || model->most_live) TRY(bucket_plan_solve(&out->problem, out->scratch, &out->answer));
    if (out->contends) TRY(bucket_slowed_bound(out));
    if (out->slowed_bound_ns > out->answer.bound_ns) out->answer.bound_ns = out->slowed_bound_ns;
    TRY(bucket_play(out));
    if (out->contends && out->step_ns > out->answer.bound_ns) TRY(bucket_settle(out, l.items));
    TRY(bucket_times_bound(out));
    return model->most_live ? bucket_memory_play(out) : NULL;
}

void bucket_times_fini(bucket_times *t) {
    weft_plan_destroy(t->plan);
    weft_profile_destroy(t->profile);
    t->plan = NULL;
    t->profile = NULL;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

/* What a bucket hides behind; the caller's buffer. */
static const char *beside(const bucket_times *t, const bucket_time *b, char *out, size_t nbytes) {
    char first[100], last[100];
    *out = '\0';
    if (b->beside_first >= 0)
        snprintf(out, nbytes, " behind %s to %s", instr_place(&t->plan->instrs[b->beside_first], first, sizeof first),
                 instr_place(&t->plan->instrs[b->beside_last], last, sizeof last));
    return out;
}

/* Why what is not hidden is not; the caller's buffer. */
static const char *exposed(const bucket_times *t, const bucket_time *b, char *out, size_t nbytes) {
    char place[100];
    int64_t ns = b->collective_ns - b->hidden_ns;
    *out = '\0';
    if (ns <= 0) return out;
    snprintf(out, nbytes, "; %.0f bytes exposed: %s, and %s%s",
             (double)b->nbytes * (double)ns / (double)b->collective_ns,
             b->start_ns > b->ready_ns ? "its stream is busy until then" : "it is ready no sooner",
             b->stalled < 0 ? "compute has ended" : "what waits is ",
             b->stalled < 0 ? "" : instr_place(&t->plan->instrs[b->stalled], place, sizeof place));
    return out;
}

weft_status bucket_times_report(const bucket_times *t) {
    char words[256], reason[256];
    const char *best = t->step_ns == t->bound.ns          ? ": it is the best of all"
                       : t->step_ns == t->answer.bound_ns ? ": it is the best in this order"
                                                          : "";
    TRY(weft_pass_did(t->pass,
                      "plan: the step ends at %.6f ms, %.6f ms of collectives exposed; no plan of buckets in "
                      "this order ends before %.6f ms, no buckets in any order before %.6f%s",
                      1e-6 * (double)t->step_ns, 1e-6 * (double)t->exposed_ns, 1e-6 * (double)t->answer.bound_ns,
                      1e-6 * (double)t->bound.ns, best));
    if (t->problem.most_nbytes || t->most_live)
        TRY(weft_pass_did(t->pass, "%s%s%s: the step ends %.6f ms later than without it",
                          t->problem.most_nbytes ? "most_mb" : "", t->problem.most_nbytes && t->most_live ? ", " : "",
                          t->most_live ? "most_live_mb" : "", 1e-6 * (double)(t->answer.step_ns - t->unlimited_ns)));
    if (t->most_live)
        TRY(weft_pass_did(t->pass, "%.3f MiB of temporaries are live at once, at most; most_live_mb lets be %.3f",
                          (double)t->most_seen / 1048576, (double)t->most_live / 1048576));
    if (!t->contends && t->answer.bound_ns < t->answer.step_ns)
        TRY(weft_pass_did(t->pass,
                          "reduces of %zu kinds share streams: the search ended with %.3f %% between its best plan and "
                          "the bound",
                          t->problem.nkinds,
                          100 * (double)(t->answer.step_ns - t->answer.bound_ns) / (double)t->answer.step_ns));
    if (t->stalls)
        TRY(weft_pass_did(t->pass, "the gap comes from results that are needed before the last reduce is ready: the "
                                   "bound does not count what waits for them"));
    if (t->contends && t->step_ns > t->answer.bound_ns)
        TRY(weft_pass_did(
            t->pass,
            "%s%.2f %% of the step are above the bound, which lets compute and collectives slow one another "
            "down as little as any buckets do (compute_beside_collective, collective_beside_compute)",
            t->stalls ? "so do the factors of the cluster: " : "",
            100 * (double)(t->step_ns - t->answer.bound_ns) / (double)t->step_ns));
    if (t->ignored)
        TRY(weft_pass_did(t->pass, "%s: that compute and collectives slow one another down does not count",
                          t->ignored));
    for (size_t i = 0; i < t->nbuckets; i++) {
        const bucket_time *b = &t->buckets[i];
        TRY(weft_pass_did(
            t->pass, "reduce %zu: %zu tensors, %zu bytes, ready %.6f, from %.6f to %.6f ms, %.6f hidden%s%s", i,
            b->count, b->nbytes, 1e-6 * (double)b->ready_ns, 1e-6 * (double)b->start_ns, 1e-6 * (double)b->end_ns,
            1e-6 * (double)b->hidden_ns, beside(t, b, words, sizeof words), exposed(t, b, reason, sizeof reason)));
    }
    return NULL;
}

weft_status bucket_times_count(const bucket_times *t) {
    TRY(weft_pass_count_add(t->pass, "predicted step ns", t->step_ns));
    TRY(weft_pass_count_add(t->pass, "predicted exposed ns", t->exposed_ns));
    if (t->most_live) TRY(weft_pass_count_add(t->pass, "predicted live bytes", t->most_seen));
    TRY(weft_pass_count_add(t->pass, "bound ns", t->answer.bound_ns));
    return weft_pass_count_add(t->pass, "bound of all ns", t->bound.ns);
}
