/* micro_guard.c: whether a pair gains, by the model of a cluster (plan/cost.h).
 *
 * As it is, a pair takes what its collective takes beyond what runs between it and its wait, and then its products. In
 * chunks it takes what the plan's steps take on their streams. Small products pay for their launch, and for reading the
 * right operand again. Where the cluster was measured, few rows are multiplied at a lower rate, and products and
 * messages slow one another down. All ranks decide alike: messages are priced on the slowest link between neighbours of
 * the ring. */
#include <stdio.h>

#include "ops/cost.h"
#include "passes/micro_pipeline/micro_plan.h"
#include "plan/cost.h"

/* --- single ops --------------------------------------------------------------------------------------------------- */

/* `rows`: of a product's left operand; 0: it is none. */
static double product_seconds(const weft_cluster *c, double rows, double flops, double bytes) {
    double computing = flops / plan_product_rate(c, rows), moving = bytes / c->bytes;
    return (computing > moving ? computing : moving) + c->op_seconds;
}

static double work_seconds(const weft_cluster *c, double flops, double bytes) {
    return product_seconds(c, 0, flops, bytes);
}

static size_t take_side(weft_op *op, const op_schema *s, bool output, shape *types, uint32_t *first, size_t room) {
    const slot_schema *slots = output ? s->outputs : s->inputs;
    size_t n = 0, nslots = output ? s->noutputs : s->ninputs;
    for (size_t i = 0; i < nslots; i++) {
        const slot *found = op_find_slot(op, output, slots[i].name);
        first[i] = (uint32_t)n;
        for (size_t k = 0; found && k < found->nargs && n < room; k++)
            types[n++] = shape_of_var(slot_var(op, found, k));
    }
    first[nslots] = (uint32_t)n;
    return n;
}

enum { MOST_ARGS = 64, MOST_SLOTS = 32 };

/* What an op computes beside others' sight: views and what communicates are nothing. */
static double op_seconds(const micro_pass *m, weft_op *op) {
    const op_schema *s = op_schema_of(op);
    shape in[MOST_ARGS], out[MOST_ARGS];
    uint32_t in_first[MOST_SLOTS + 1], out_first[MOST_SLOTS + 1];
    if (!s || s->ninputs > MOST_SLOTS || s->noutputs > MOST_SLOTS) return 0;
    if (s->effects & (OP_COLLECTIVE | OP_NO_BYTES | OP_ONLY_VIEWS | OP_CONTROL | OP_HOST)) return 0;
    take_side(op, s, false, in, in_first, MOST_ARGS);
    take_side(op, s, true, out, out_first, MOST_ARGS);
    op_cost cost = op_cost_of(&(op_cost_call){op, s, in, out, in_first, out_first});
    return product_seconds(&m->cluster, cost.rows, cost.flops, cost.bytes);
}

weft_status micro_guard_begin(micro_pass *m) {
    const char *cluster = weft_pass_option_string(m->pass, "cluster");
    if (*cluster) TRY(weft_cluster_load(m->pass->context, cluster, &m->cluster));
    TRY(plan_cluster_settle(&m->cluster, &m->cluster));
    m->least_gain = weft_pass_option_float(m->pass, "least_gain");
    if (!(m->least_gain >= 0 && m->least_gain < 1))
        return weft_pass_refuse(m->pass, "least_gain: expected 0 to below 1");
    m->seconds = ARENA_ARRAY(m->scratch, double, m->index.nops + 1);
    if (!m->seconds) return base_out_of_memory();
    for (size_t i = 0; i < m->index.nops; i++)
        m->seconds[i + 1] = m->seconds[i] + op_seconds(m, access_op(&m->index, i));
    return NULL;
}

/* --- a pair ------------------------------------------------------------------------------------------------------- */

static double nbytes_of(int32_t dtype) {
    return (double)weft_dtype_nbytes((weft_dtype)dtype);
}

/* The last extent of a product's left operand. */
static double inner_of(const micro_pair *p) {
    return (double)p->dims[p->ndim - 1];
}

/* Of so many rows and a share of the columns: those products that are parts of a sum, or the others. An operand is
 * `inner` wide; extents of an outer product are those of the operands that it contracts. */
static double products_seconds(const weft_cluster *c, const micro_pair *p, bool sums, double rows, double inner,
                               double share) {
    double size = nbytes_of(p->dtype), sum = 0, batches = p->is_batched ? (double)p->dims[0] : 1;
    for (size_t k = 0; k < p->nproducts; k++) {
        double columns = share * (double)micro_columns(&p->products[k]);
        if (micro_is_sum(&p->products[k]) != sums) continue;
        double of_left = p->products[k].role == MICRO_OUTER ? inner : rows / batches;
        sum += product_seconds(c, of_left, 2 * rows * inner * columns,
                               size * (rows * inner + batches * inner * columns + rows * columns));
    }
    return sum;
}

/* Adding a chunk's products to their sums. */
static double adding_seconds(const weft_cluster *c, const micro_pair *p, double rows) {
    double sum = 0;
    for (size_t k = 0; k < p->nproducts; k++) {
        const micro_product *x = &p->products[k];
        double elements = (double)micro_columns(x) * (x->role == MICRO_OUTER ? inner_of(p) : rows);
        if (micro_is_sum(x)) sum += work_seconds(c, elements, 3 * elements * nbytes_of(p->dtype));
    }
    return sum;
}

/* Rows of a transposed right operand are columns of it: cut out by a copy. A left one is transposed by one. */
static double cutting_seconds(const weft_cluster *c, const micro_pair *p) {
    double sum = p->is_turned ? work_seconds(c, 0, 2 * (double)(p->dims[0] * p->dims[1]) * nbytes_of(p->dtype)) : 0;
    for (size_t k = 0; k < p->nproducts; k++) {
        const micro_product *x = &p->products[k];
        double inner = inner_of(p) * (x->role == MICRO_INNER ? p->ring.nranks : 1);
        double elements = inner * (double)micro_columns(x);
        if (x->role == (x->trans ? MICRO_INNER : MICRO_COLUMNS))
            sum += work_seconds(c, 0, 2 * elements * nbytes_of(p->dtype));
    }
    return sum;
}

/* The steps of one member on its streams. Members do the same at the same time, so its t-th send ends when its t-th
 * receive does. In the table a receive stands behind its send: the two are one message. While one is under way
 * products take longer, and it does beside products, as the cluster says. */
typedef struct timing {
    const chunk_plan *plan;
    const double *takes;        /* by action */
    bool *done;                 /* by step */
    size_t next[CHUNK_STREAMS]; /* the step of each stream that comes next, or is under way; the plan's count: none */
    double left[CHUNK_STREAMS]; /* of what is under way, at full speed; negative: nothing is */
    double slower[2];           /* beside the other: products, messages */
} timing;

static bool is_message(const chunk_step *s) {
    return s->action == CHUNK_SEND || s->action == CHUNK_RECEIVE || s->action == CHUNK_REDUCE;
}

static void find_next(timing *t, int stream, size_t from) {
    while (from < t->plan->count && t->plan->steps[from].stream != stream) from++;
    t->next[stream] = from;
    t->left[stream] = -1;
}

/* It is the next of its stream, and what it waits for is done. */
static bool can_begin(const timing *t, size_t i) {
    const chunk_step *s = &t->plan->steps[i];
    if (t->next[s->stream] != i || t->left[s->stream] >= 0) return false;
    for (int32_t k = 0; k < s->nwaits; k++)
        if (!t->done[s->waits[k]]) return false;
    return true;
}

static void begin_steps(timing *t) {
    for (int s = 0; s < CHUNK_STREAMS; s++) {
        size_t i = t->next[s];
        if (i == t->plan->count || !can_begin(t, i)) continue;
        const chunk_step *step = &t->plan->steps[i];
        if (step->action == CHUNK_RECEIVE) continue; /* its send begins it */
        if (step->action == CHUNK_SEND && !can_begin(t, i + 1)) continue;
        t->left[s] = t->takes[step->action];
        if (step->action == CHUNK_SEND) t->left[step[1].stream] = t->left[s];
    }
}

/* How fast each stream goes on, and when the first step ends; false: none is under way. */
static bool find_speeds(const timing *t, double *speed, double *out_seconds) {
    bool computes = t->left[CHUNK_COMPUTE] >= 0, sends = false, is_any = false;
    for (int s = 0; s < CHUNK_STREAMS; s++)
        sends = sends || (t->left[s] >= 0 && is_message(&t->plan->steps[t->next[s]]));
    for (int s = 0; s < CHUNK_STREAMS; s++) {
        if (t->left[s] < 0) continue;
        bool sent = is_message(&t->plan->steps[t->next[s]]);
        speed[s] = 1;
        if (s == CHUNK_COMPUTE && sends) speed[s] = 1 / t->slower[0];
        if (sent && computes) speed[s] = 1 / t->slower[1];
        double seconds = t->left[s] / speed[s];
        if (!is_any || seconds < *out_seconds) *out_seconds = seconds;
        is_any = true;
    }
    return is_any;
}

static double plan_seconds(const weft_cluster *c, const chunk_plan *plan, const double *takes, bool *done) {
    timing t = {.plan = plan,
                .takes = takes,
                .done = done,
                .slower = {c->compute_beside_collective, c->collective_beside_compute}};
    double now = 0, seconds = 0, speed[CHUNK_STREAMS];
    for (int s = 0; s < CHUNK_STREAMS; s++) find_next(&t, s, 0);
    for (;; now += seconds) {
        begin_steps(&t);
        if (!find_speeds(&t, speed, &seconds)) return now;
        for (int s = 0; s < CHUNK_STREAMS; s++) {
            if (t.left[s] < 0) continue;
            t.left[s] -= seconds * speed[s];
            if (t.left[s] > 1e-15) continue;
            done[t.next[s]] = true;
            find_next(&t, s, t.next[s] + 1);
        }
    }
}

/* Rows that do not lie one after another are put in order by one more op. */
static double reorder_seconds(const weft_cluster *c, const micro_pair *p, double elements) {
    return micro_is_inner(p) ? work_seconds(c, 0, 2 * elements * nbytes_of(p->dtype)) : 0;
}

/* Sums of a wider type: what is added is converted. */
static double widening_seconds(const weft_cluster *c, const micro_pair *p, double elements) {
    return work_seconds(c, 0, elements * (nbytes_of(p->sent) + 3 * nbytes_of(p->summed)));
}

static double cast_seconds(const weft_cluster *c, const micro_pair *p, double elements) {
    return work_seconds(c, 0, elements * (nbytes_of(p->dtype) + nbytes_of(p->sent)));
}

/* What the path does with so many elements, as the pair is. */
static double path_seconds(const weft_cluster *c, const micro_pair *p, double elements) {
    double moving = work_seconds(c, 0, 2 * elements * nbytes_of(p->sent));
    double sum = p->path.is_cast ? cast_seconds(c, p, elements) : 0;
    if (p->path.is_transposed) return sum + moving;
    return p->dim ? sum + moving : sum;
}

/* And in chunks: beside their products, and with the rank's own. */
static double chunks_path_seconds(const weft_cluster *c, const micro_pair *p, double elements) {
    double sum = p->path.is_cast && !micro_casts_chunks(p) ? cast_seconds(c, p, elements) : 0;
    return p->path.is_transposed ? sum + work_seconds(c, 0, 2 * elements * nbytes_of(p->sent)) : sum;
}

/* Ways of a message that share one: behind a switch a rank has one port each way. */
static int shared_ways(const micro_pass *m, const micro_pair *p, const plan_curve *curve) {
    for (size_t k = 0; k < curve->nlinks; k++)
        if (m->both_ways && p->ring.nranks > 2 && curve->links[k].topology == WEFT_TOPOLOGY_SWITCH) return 2;
    return 1;
}

/* Of a message of each rank to another. Where the collective was measured it is one of those that it consists of. */
static double message_seconds(const plan_curve *of, int nranks, double nbytes) {
    plan_curve curve = *of;
    double rounds = curve.times > nranks - 1 ? 2 : 1; /* an all-reduce is a reduce-scatter and an all-gather */
    if (curve.table || curve.nccl.machine)
        return 1e-9 * (double)plan_curve_ns(&curve, nranks * nbytes) / (rounds * (nranks - 1));
    curve.times = curve.parts = 1;
    return 1e-9 * (double)plan_curve_ns(&curve, nbytes);
}

static weft_status price(micro_pass *m, micro_pair *p, double *out_collective, double *out_between) {
    const weft_cluster *c = &m->cluster;
    plan_ring of_pair = {.id = p->ring.id, .nranks = p->ring.nranks, .ranks = p->ring.ranks};
    plan_curve curve;
    TRY(plan_collective_curve(c, &of_pair, p->collective, &curve));
    chunk_plan plan;
    double n = micro_sends(p) ? p->ring.nranks : 1, inner = inner_of(p), size = nbytes_of(p->sent),
           rows = (double)micro_rows(p), results = 0;
    TRY(micro_find_plan(m, p, 0, &plan));
    bool *done = ARENA_ARRAY(m->scratch, bool, plan.count);
    if (!done) return base_out_of_memory();
    bool is_inner = p->products[0].role == MICRO_INNER;
    double share = micro_is_columns(p) ? 1 / n : 1;
    for (size_t k = 0; k < p->nproducts; k++)
        if (!micro_is_sum(&p->products[k])) results += share * (double)micro_columns(&p->products[k]);
    double moved = p->kind == MICRO_GATHER ? inner : results,
           chunk = (double)micro_piece_rows((int64_t)rows, plan.nsub, 0);
    *out_collective = 1e-9 * (double)plan_curve_ns(&curve, n * rows * moved * size);
    uint32_t last = p->wait ? p->wait->mark : p->collective->mark;
    *out_between = m->seconds[last] - m->seconds[p->collective->mark + 1];
    double exposed = *out_collective > *out_between ? *out_collective - *out_between : 0;
    double all_rows = micro_is_columns(p) ? rows : n * rows;
    double all =
        is_inner ? products_seconds(c, p, true, rows, n * inner, 1)
                 : products_seconds(c, p, false, all_rows, inner, 1) + products_seconds(c, p, true, all_rows, inner, 1);
    p->serial_seconds = exposed + all + path_seconds(c, p, n * rows * moved);
    double reduce = 1e-9 * (double)plan_curve_ns(&curve, chunk * moved * size);
    double message = message_seconds(&curve, p->ring.nranks, shared_ways(m, p, &curve) * chunk * moved * size);
    double casting = micro_casts_chunks(p) ? cast_seconds(c, p, chunk * moved) : 0;
    double takes[] = {[CHUNK_MULTIPLY] = casting + products_seconds(c, p, false, chunk, inner, share),
                      [CHUNK_ACCUMULATE] = products_seconds(c, p, true, chunk, inner, 1) + adding_seconds(c, p, chunk),
                      [CHUNK_REDUCE] = reduce,
                      [CHUNK_SEND] = message,
                      [CHUNK_RECEIVE] = message,
                      [CHUNK_ADD] = work_seconds(c, chunk * results, 3 * chunk * results * size),
                      [CHUNK_KEEP] =
                          work_seconds(c, 0, 2 * chunk * (p->kind == MICRO_GATHER ? inner : results) * size)};
    if (plan.widens) takes[CHUNK_ADD] += widening_seconds(c, p, chunk * results);
    double reordered = p->kind == MICRO_GATHER ? results + (p->keeps_whole ? inner : 0) : inner;
    if (!plan.multiplies) takes[CHUNK_ACCUMULATE] += casting;
    p->pair_seconds = plan_seconds(c, &plan, takes, done) + cutting_seconds(c, p) +
                      reorder_seconds(c, p, n * rows * reordered) + chunks_path_seconds(c, p, rows * moved);
    if (p->kind == MICRO_SCATTER && p->reduce == WEFT_REDUCE_AVG)
        p->pair_seconds += work_seconds(c, rows * results, 2 * rows * results * size);
    return NULL;
}

weft_status micro_guard(micro_pass *m, micro_pair *p, micro_refusal *why) {
    double collective = 0, between = 0;
    char words[160];
    TRY(price(m, p, &collective, &between));
    if (!m->guards || p->pair_seconds < p->serial_seconds * (1 - m->least_gain)) return NULL;
    if (between >= collective)
        snprintf(words, sizeof words, "already hidden: it takes %.1f us, and %.1f us are computed before its wait",
                 1e6 * collective, 1e6 * between);
    else
        snprintf(words, sizeof words, "too small to gain: %.1f us as it is, %.1f us in chunks", 1e6 * p->serial_seconds,
                 1e6 * p->pair_seconds);
    *why = (micro_refusal){WEFT_REASON_LIMIT, arena_string(m->scratch, words, strlen(words))};
    return why->words ? NULL : base_out_of_memory();
}
