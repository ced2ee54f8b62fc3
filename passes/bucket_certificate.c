/* bucket_certificate.c: a bucket plan as a certificate states it (docs/certificates.md): the times of compute, what
 * each gradient waits for and is needed by, costs, buckets, and the bound. From these a checker finds out the rest
 * anew.
 *
 * It is stated for compute and one stream of reduces of one kind, which all stand before what needs them. Otherwise the
 * report says why it is not. */
#include <inttypes.h>

#include "base/json.h"
#include "passes/bucket_play.h"
#include "passes/certificate.h"

/* By item: instructions of compute before it is ready, and before the first that needs it. */
typedef struct places {
    uint32_t *after, *needed;
    uint32_t ncompute;
} places;

static const char *why_not(const bucket_times *t) {
    const bucket_problem *p = &t->problem;
    if (t->not_stated) return t->not_stated;
    for (size_t i = 0; i < t->plan->ninstrs && bucket_contends(t); i++)
        if (t->plan->instrs[i].stream == 0 && t->plan->instrs[i].ring_id >= 0)
            return "collectives on the compute stream slow nobody down";
    if (t->stalls) return "results are needed before the last reduce is ready";
    if (p->nkinds != 1 || !p->kinds[0].ncurves) return "there are reduces of several kinds on the stream";
    if (t->plan->nstreams != 2) return "the program has other streams";
    for (size_t i = 0; i < p->kinds[0].ncurves; i++)
        if (!p->kinds[0].curves[i].table && p->kinds[0].curves[i].is_split && !p->kinds[0].curves[i].nccl.machine)
            return "reduces are split, a price that it cannot state";
    for (size_t i = 0; i < p->nitems; i++)
        if (p->items[i].deadline <= p->items[p->nitems - 1].position)
            return "a result is needed before the last reduce";
    return NULL;
}

static weft_status find_places(const bucket_times *t, places *out) {
    const weft_plan *plan = t->plan;
    size_t n = t->problem.nitems;
    uint32_t after = 0;
    out->after = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    out->needed = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    if (!out->after || !out->needed) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) out->needed[i] = UINT32_MAX;
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        out->ncompute += instr->stream == 0;
        for (uint32_t w = 0; w < instr->nwaits && instr->stream != 0; w++)
            if ((uint32_t)instr->waits[w].count > after) after = (uint32_t)instr->waits[w].count;
        if (instr->stream != 0) out->after[t->item_of[i]] = after;
    }
    for (size_t e = 0; e < t->nedges; e++) {
        uint32_t *needed = &out->needed[t->edges[e].item],
                 position = (uint32_t)plan->instrs[t->edges[e].instr].position;
        if (position < *needed) *needed = position;
    }
    for (size_t i = 0; i < n; i++)
        if (out->needed[i] == UINT32_MAX) out->needed[i] = out->ncompute;
    return NULL;
}

static void put_table(buffer *out, const weft_cluster_table *t) {
    buffer_text(out, "{\"measured\": [");
    for (size_t i = 0; i < t->npoints; i++) {
        buffer_text(out, i ? ", [" : "[");
        buffer_double(out, t->nbytes[i]);
        buffer_text(out, ", ");
        buffer_double(out, t->seconds[i]);
        buffer_text(out, "]");
    }
    buffer_text(out, "]}");
}

static void put_number(buffer *out, const char *before, double number) {
    buffer_text(out, before);
    buffer_double(out, number);
}

static void put_ways(buffer *out, const nccl_call *call) {
    nccl_stated ways[NCCL_ALGORITHMS * NCCL_PROTOCOLS];
    size_t n = plan_nccl_state(call, ways);
    buffer_text(out, "{\"ways\": [");
    for (size_t i = 0; i < n; i++) {
        const nccl_stated *w = &ways[i];
        put_number(out, i ? ",\n      {\"latency_us\": " : "\n      {\"latency_us\": ", w->latency_us);
        put_number(out, ", \"bandwidth\": ", w->bandwidth);
        if (w->parts > 0) {
            put_number(out, ", \"parts\": ", w->parts);
            put_number(out, ", \"plateau\": ", w->plateau);
            put_number(out, ", \"plateau_latency_us\": ", w->plateau_latency_us);
        }
        for (size_t k = 0; k < w->nfactors; k++) put_number(out, k ? ", " : ", \"factors\": [", w->factors[k]);
        buffer_text(out, w->nfactors ? "]}" : "}");
    }
    buffer_text(out, "]}");
}

static void put_costs(buffer *out, const bucket_kind *kind) {
    for (size_t i = 0; i < kind->ncurves; i++) {
        const plan_curve *c = &kind->curves[i];
        buffer_text(out, i ? ", " : "");
        if (c->table) {
            put_table(out, c->table);
            continue;
        }
        if (c->nccl.machine) {
            put_ways(out, &c->nccl);
            continue;
        }
        buffer_text(out, "{\"times\": ");
        buffer_double(out, c->times);
        buffer_text(out, ", \"parts\": ");
        buffer_double(out, c->parts);
        buffer_text(out, ", \"op_seconds\": ");
        buffer_double(out, c->op_seconds);
        buffer_text(out, ", \"links\": [");
        for (size_t k = 0; k < c->nlinks; k++) {
            buffer_text(out, k ? ", [" : "[");
            buffer_double(out, c->links[k].seconds);
            buffer_text(out, ", ");
            buffer_double(out, c->links[k].bytes);
            buffer_text(out, "]");
        }
        buffer_text(out, "]}");
    }
}

static void put_gradient(buffer *out, const bucket_times *t, const places *at, size_t i) {
    const bucket_item *item = &t->problem.items[i];
    const char *var = t->names[t->reduce_of[i]];
    buffer_text(out, i ? ",\n     {\"var\": " : "\n     {\"var\": ");
    json_put_string(out, var, strlen(var));
    buffer_format(
        out, ", \"nbytes\": %zu, \"after\": %u, \"ready_ns\": %" PRId64 ", \"needed\": %u, \"tail_ns\": %" PRId64 "}",
        item->nbytes, at->after[i], item->ready_ns, at->needed[i], item->tail_ns);
}

static void put_plan(buffer *out, const bucket_times *t, const places *at) {
    int64_t compute = t->problem.compute_ns, bound = t->unlimited_bound_ns; /* of all buckets: limits are ours */
    buffer_format(out,
                  "{\"step_ns\": %" PRId64 ", \"compute_ns\": %" PRId64 ", \"exposed_ns\": %" PRId64
                  ", \"bound_ns\": %" PRId64 ", \"gap_ns\": %" PRId64 ",\n    \"costs\": [",
                  t->step_ns, compute, t->step_ns - compute, bound, t->step_ns - bound);
    put_costs(out, t->problem.kinds);
    buffer_text(out, "],\n    ");
    if (bucket_contends(t)) {
        put_number(out, "\"slowed\": {\"compute\": ", t->cluster.compute_beside_collective);
        put_number(out, ", \"collective\": ", t->cluster.collective_beside_compute);
        buffer_format(out, ", \"collectives\": %zu},\n    ", t->problem.kinds[0].ncollectives);
    }
    buffer_text(out, "\"compute\": [");
    uint32_t n = 0;
    for (size_t i = 0; i < t->plan->ninstrs; i++)
        if (t->plan->instrs[i].stream == 0) buffer_format(out, "%s%" PRId64, n++ ? ", " : "", t->ns[i]);
    buffer_text(out, "],\n    \"gradients\": [");
    for (size_t i = 0; i < t->problem.nitems; i++) put_gradient(out, t, at, i);
    buffer_text(out, "],\n    \"buckets\": [");
    for (size_t k = 0; k < t->nbuckets; k++) {
        const bucket_time *b = &t->buckets[k];
        buffer_format(out, "%s{\"count\": %zu, \"nbytes\": %zu, \"start_ns\": %" PRId64 ", \"end_ns\": %" PRId64 "}",
                      k ? ",\n     " : "\n     ", b->count, b->nbytes, b->start_ns, b->end_ns);
    }
    buffer_text(out, "]}");
}

weft_status bucket_times_certify(const bucket_times *t) {
    if (!pass_certifies(t->pass)) return NULL;
    places at = {.ncompute = 0};
    const char *why = why_not(t);
    if (why) return weft_pass_did(t->pass, "the certificate leaves the plan out: %s", why);
    TRY(find_places(t, &at));
    buffer out;
    buffer_init(&out, &t->pass->context->allocator);
    put_plan(&out, t, &at);
    weft_status status = buffer_status(&out);
    if (!status) status = pass_claim_plan(t->pass, out.bytes, out.nbytes);
    buffer_fini(&out);
    return status;
}
