/* bucket_certificate.c: a bucket plan as a certificate states it (docs/certificates.md): the times of compute, what
 * each gradient waits for and is needed by, costs, buckets, and the bound. From these a checker finds out the rest
 * anew.
 *
 * It is stated for compute and streams of reduces alone. Otherwise the report says why it is not. Its bound is that of
 * any buckets in any order, also such as the order of ops does not allow: limits are ours. What it follows from is
 * stated too (bucket_bound.h). */
#include <inttypes.h>

#include "base/json.h"
#include "passes/bucket_play.h"
#include "passes/bucket_tensor.h"
#include "passes/certificate.h"

enum { MOST_LANES = 8 }; /* the checker's */

/* Instructions of compute: by item, so many before the first that needs it. By their number: when so many have run. */
typedef struct places {
    uint32_t *needed;
    int64_t *clock;
    uint32_t ncompute;
} places;

static const char *why_not(const bucket_times *t) {
    const bucket_problem *p = &t->problem;
    if (t->not_stated) return t->not_stated;
    for (size_t i = 0; i < t->plan->ninstrs && t->contends; i++)
        if (t->plan->instrs[i].stream == 0 && t->plan->instrs[i].ring_id >= 0)
            return "collectives on the compute stream slow nobody down";
    if ((uint32_t)t->plan->nstreams != 1 + t->nlanes) return "the program has other streams than those of reduces";
    if (t->ignored) return "what the cluster slows down is not planned";
    if (t->nlanes > MOST_LANES) return "reduces are on more than 8 streams";
    for (size_t e = 0; e < t->nedges; e++)
        if (t->plan->instrs[t->edges[e].instr].stream != 0) return "reduces wait for one another";
    for (size_t k = 0; k < p->nkinds; k++)
        for (size_t i = 0; i < p->kinds[k].ncurves; i++) {
            const plan_curve *curve = &p->kinds[k].curves[i];
            if (!curve->table && curve->is_split && !curve->nccl.machine)
                return "reduces are split, a price that it cannot state";
        }
    return NULL;
}

static weft_status find_places(const bucket_times *t, places *out) {
    const weft_plan *plan = t->plan;
    size_t n = t->problem.nitems;
    out->needed = ARENA_ARRAY(t->scratch, uint32_t, n + 1);
    out->clock = ARENA_ARRAY(t->scratch, int64_t, plan->ninstrs + 1);
    if (!out->needed || !out->clock) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) out->needed[i] = UINT32_MAX;
    for (size_t i = 0; i < plan->ninstrs; i++) {
        if (bucket_lane(t, plan->instrs[i].stream) >= 0) continue;
        out->clock[out->ncompute + 1] = plan_later(out->clock[out->ncompute], t->ns[i]);
        out->ncompute++;
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

/* --- the text ----------------------------------------------------------------------------------------------------- */

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

/* Lanes are numbered as kinds name them. */
static uint32_t number_of(const bucket_times *t, uint32_t lane) {
    uint32_t n = 0;
    for (size_t k = 0; k < t->problem.nkinds && t->problem.kinds[k].lane != lane; k++) {
        bool is_new = true;
        for (size_t i = 0; i < k; i++) is_new = is_new && t->problem.kinds[i].lane != t->problem.kinds[k].lane;
        n += is_new;
    }
    return n;
}

static void put_kinds(buffer *out, const bucket_times *t) {
    for (size_t k = 0; k < t->problem.nkinds; k++) {
        const bucket_kind *kind = &t->problem.kinds[k];
        buffer_format(out, "%s{\"lane\": %u, ", k ? ",\n     " : "\n     ", number_of(t, kind->lane));
        if (t->contends) buffer_format(out, "\"collectives\": %zu, ", kind->ncollectives);
        buffer_text(out, "\"costs\": [");
        put_costs(out, kind);
        buffer_text(out, "]}");
    }
}

static void put_gradient(buffer *out, const bucket_times *t, const places *at, size_t i) {
    const bucket_item *item = &t->problem.items[i];
    const char *var = t->reduce_of[i] == BUCKET_ALONE ? "" : t->names[t->reduce_of[i]];
    buffer_text(out, i ? ",\n     {\"var\": " : "\n     {\"var\": ");
    json_put_string(out, var, strlen(var));
    buffer_format(out,
                  ", \"kind\": %u, \"nbytes\": %zu, \"alone_ns\": %" PRId64 ", \"after\": %u, \"ready_ns\": %" PRId64
                  ", \"needed\": %u, \"tail_ns\": %" PRId64 "}",
                  item->kind, item->nbytes, item->alone_ns, t->made_after[i], at->clock[t->made_after[i]],
                  at->needed[i], item->tail_ns);
}

/* Of kinds that count, a line for each cost; none where what items take alone says all. */
static void put_lines(buffer *out, const bucket_times *t) {
    const bucket_bound *b = &t->bound;
    for (size_t k = 0; k < t->problem.nkinds; k++) {
        const bucket_kind *kind = &t->problem.kinds[k];
        size_t n = !b->lines[k] ? 0 : b->by == BUCKET_BY_SLOWED ? kind->ncollectives : kind->ncurves;
        buffer_text(out, k ? ", " : "");
        buffer_text(out, b->counts[k] ? "[" : "null");
        for (size_t i = 0; i < n; i++) {
            buffer_format(out, "%s[%" PRId64 ", ", i ? ", " : "", b->lines[k][i].latency);
            buffer_double(out, b->lines[k][i].slope);
            buffer_text(out, "]");
        }
        buffer_text(out, b->counts[k] ? "]" : "");
    }
}

/* What the bound follows from. */
static void put_bound(buffer *out, const bucket_times *t) {
    static const char *const names[] = {"compute", "slowed", "lines", "sets"};
    const bucket_bound *b = &t->bound;
    buffer_format(out, "\"bound\": {\"by\": \"%s\"", names[b->by]);
    if (b->by != BUCKET_BY_COMPUTE) buffer_format(out, ", \"lane\": %u", number_of(t, b->lane));
    if (b->by == BUCKET_BY_LINES) {
        buffer_format(out, ", \"tail_ns\": %" PRId64, b->tail_ns);
        buffer_text(out, b->as_one ? ", \"as_one\": true" : ", \"as_one\": false");
    }
    if (b->by == BUCKET_BY_LINES || b->by == BUCKET_BY_SLOWED) {
        buffer_text(out, ", \"lines\": [");
        put_lines(out, t);
        buffer_text(out, "]");
    }
    buffer_text(out, "},\n    ");
}

static int64_t sum_of(const int64_t *ns, size_t first, size_t end) {
    int64_t sum = 0;
    for (size_t i = first; i < end; i++) sum += ns[i];
    return sum;
}

static void put_bucket(buffer *out, const bucket_times *t, size_t k) {
    const bucket_time *b = &t->buckets[k];
    buffer_format(
        out, "%s{\"kind\": %u, \"count\": %zu, \"nbytes\": %zu, \"start_ns\": %" PRId64 ", \"end_ns\": %" PRId64,
        k ? ",\n     " : "\n     ", t->problem.items[b->last].kind, b->count, b->nbytes, b->start_ns, b->end_ns);
    if (t->is_made)
        buffer_format(out, ", \"after\": %u, \"ready_ns\": %" PRId64 ", \"needed\": %u, \"tail_ns\": %" PRId64,
                      t->made.after[k], sum_of(t->made.ns, 0, t->made.after[k]), t->made.needed[k],
                      sum_of(t->made.ns, t->made.needed[k], t->made.ncompute));
    buffer_text(out, "}");
}

static void put_made(buffer *out, const bucket_times *t) {
    buffer_text(out, "\"made\": [");
    for (size_t i = 0; i < t->made.ncompute; i++) buffer_format(out, "%s%" PRId64, i ? ", " : "", t->made.ns[i]);
    buffer_text(out, "],\n    ");
}

static int64_t compute_of(const bucket_times *t) {
    return t->is_made ? sum_of(t->made.ns, 0, t->made.ncompute) : t->problem.compute_ns;
}

/* Of members in a bucket; 0: they are not aligned alike. */
static size_t alignment_of(const bucket_times *t) {
    const bucket_problem *p = &t->problem;
    size_t alignment = 1;
    for (size_t i = 0; i < p->nitems; i++)
        if (p->kinds[p->items[i].kind].ncurves && p->items[i].padded != p->items[i].nbytes)
            alignment = bucket_tensor_padded(1);
    for (size_t i = 0; i < p->nitems; i++) {
        size_t padded = (p->items[i].nbytes + alignment - 1) / alignment * alignment;
        if (p->kinds[p->items[i].kind].ncurves && padded != p->items[i].padded) return 0;
    }
    return alignment;
}

static void put_plan(buffer *out, const bucket_times *t, const places *at) {
    int64_t compute = compute_of(t), bound = t->bound.ns;
    buffer_format(out,
                  "{\"step_ns\": %" PRId64 ", \"compute_ns\": %" PRId64 ", \"exposed_ns\": %" PRId64
                  ", \"bound_ns\": %" PRId64 ", \"gap_ns\": %" PRId64 ", \"alignment\": %zu,\n    \"kinds\": [",
                  t->step_ns, compute, t->step_ns - compute, bound, t->step_ns - bound, alignment_of(t));
    put_kinds(out, t);
    buffer_text(out, "],\n    ");
    if (t->contends) {
        put_number(out, "\"slowed\": {\"compute\": ", t->cluster.compute_beside_collective);
        put_number(out, ", \"collective\": ", t->cluster.collective_beside_compute);
        buffer_text(out, "},\n    ");
    }
    if (t->is_made) put_made(out, t);
    put_bound(out, t);
    buffer_text(out, "\"compute\": [");
    uint32_t n = 0;
    for (size_t i = 0; i < t->plan->ninstrs; i++)
        if (t->plan->instrs[i].stream == 0) buffer_format(out, "%s%" PRId64, n++ ? ", " : "", t->ns[i]);
    buffer_text(out, "],\n    \"gradients\": [");
    for (size_t i = 0; i < t->problem.nitems; i++) put_gradient(out, t, at, i);
    buffer_text(out, "],\n    \"buckets\": [");
    for (size_t k = 0; k < t->nbuckets; k++) put_bucket(out, t, k);
    buffer_text(out, "]}");
}

weft_status bucket_times_certify(const bucket_times *t) {
    if (!pass_certifies(t->pass)) return NULL;
    places at = {.ncompute = 0};
    const char *why = alignment_of(t) ? why_not(t) : "members are not aligned alike";
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
