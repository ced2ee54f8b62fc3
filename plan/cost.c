/* cost.c: how long an instruction takes: a model, so that plans can be compared.
 *
 * An instruction takes what its flops or its bytes take (ops/cost.h), whichever is longer, and what launching it takes.
 * A collective takes the messages of a ring: each of n members sends the next one an n-th of the largest side n - 1
 * times, for an all-reduce twice (reduce-scatter and all-gather: Patarasuk and Yuan 2009). All send at once, so a
 * message takes as long as the slowest link between neighbours. Nothing contends: streams do not slow one another down,
 * nor do rings. Where a link is a ring or a switch a message takes its seconds at each hop. The messages of an
 * all-to-all share the links (network.h). A send is one message over the link between its two members, from when both
 * have come. */
#include "plan/cost.h"

#include <math.h>

#include "ops/collectives.h"
#include "plan/network.h"
#include "plan/profile.h"
#include "plan/rings.h"

/* --- flops and bytes ---------------------------------------------------------------------------------------------- */

static weft_status shapes_of(const weft_plan *plan, const int32_t *values, uint32_t n, arena *scratch,
                             const shape **out_shapes) {
    shape *shapes = ARENA_ARRAY(scratch, shape, (size_t)n + 1);
    if (!shapes) return base_out_of_memory();
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] >= 0)
            shapes[i] = plan->values[values[i]].shape;
        else
            shapes[i].dtype = WEFT_DTYPE_NONE;
    }
    *out_shapes = shapes;
    return NULL;
}

/* Whether the first output is an input: where nothing is computed, nothing is moved either. */
static bool is_in_place(const weft_plan *plan, const plan_instr *i) {
    if (!i->out_first[i->schema->noutputs] || i->out[0] < 0) return false;
    const plan_value *to = &plan->values[i->out[0]];
    for (uint32_t k = 0; k < i->in_first[i->schema->ninputs]; k++) {
        if (i->in[k] < 0) continue;
        const plan_value *from = &plan->values[i->in[k]];
        if (from->space == to->space && from->offset == to->offset && from->nbytes == to->nbytes) return true;
    }
    return false;
}

weft_status plan_cost_of(const weft_plan *plan, const plan_instr *i, arena *scratch, op_cost *out_cost) {
    op_cost_call c = {.op = i->op, .schema = i->schema, .in_first = i->in_first, .out_first = i->out_first};
    TRY(shapes_of(plan, i->in, i->in_first[i->schema->ninputs], scratch, &c.in));
    TRY(shapes_of(plan, i->out, i->out_first[i->schema->noutputs], scratch, &c.out));
    *out_cost = op_cost_of(&c);
    if (out_cost->flops == 0 && i->ring_id < 0 && is_in_place(plan, i)) out_cost->bytes = 0;
    return NULL;
}

/* --- nanoseconds -------------------------------------------------------------------------------------------------- */

/* 31 years: some of them together are still far from what 64 bits hold. */
static const int64_t most_ns = INT64_C(1000000000) * 1000000000;

int64_t plan_later(int64_t at_ns, int64_t by_ns) {
    return at_ns < INT64_MAX - most_ns - by_ns ? at_ns + by_ns : INT64_MAX - most_ns;
}

/* --- clusters ----------------------------------------------------------------------------------------------------- */

static weft_status settle_rate(double *rate, double default_value, const char *what) {
    if (!(*rate >= 0))
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "cluster: %s: expected a number that is not negative, found %g", what, *rate);
    if (*rate == 0) *rate = default_value;
    return NULL;
}

static weft_status settle_factor(double *factor, const char *what) {
    TRY(settle_rate(factor, 1, what));
    if (*factor >= 1 && *factor <= 1000) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "cluster: %s: expected 1 to 1000, found %g", what, *factor);
}

static weft_status settle_links(weft_cluster *c) {
    if (c->nlinks > WEFT_CLUSTER_LINKS)
        return weft_status_create(WEFT_LIMIT, NULL, "cluster: %zu links, expected at most %d", c->nlinks,
                                  WEFT_CLUSTER_LINKS);
    if (!c->nlinks) c->links[c->nlinks++] = (weft_link){0};
    for (size_t k = 0; k < c->nlinks; k++) {
        int ranks = c->links[k].nranks, within = k ? c->links[k - 1].nranks : 1;
        bool larger = ranks == 0 ? k == 0 || within > 0 : within > 0 && ranks > 0 && ranks % within == 0;
        if (!larger || (k && ranks == within))
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                      "cluster: link %zu joins %d ranks: expected a multiple of %d", k, ranks, within);
        TRY(settle_rate(&c->links[k].bytes, 5e10, "bytes a second of a link"));
        TRY(settle_rate(&c->links[k].seconds, 5e-6, "seconds a message"));
        TRY(settle_rate(&c->links[k].memory_bytes, c->bytes, "bytes a second of memory"));
        TRY(settle_rate(&c->links[k].endpoint_seconds, 0, "seconds at an endpoint"));
        if (c->links[k].splits < 0)
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "cluster: %d splits: expected 0 or more",
                                      c->links[k].splits);
        if (c->links[k].topology == WEFT_TOPOLOGY_RING && !ranks)
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                      "cluster: link %zu is a ring: expected how many ranks it joins", k);
    }
    return NULL;
}

weft_status plan_cluster_settle(const weft_cluster *given, weft_cluster *out_cluster) {
    weft_cluster c = {0};
    if (given) c = *given;
    TRY(settle_rate(&c.flops, 1e14, "flops a second"));
    TRY(settle_rate(&c.bytes, 2e12, "bytes a second"));
    TRY(settle_rate(&c.op_seconds, 2e-6, "seconds an op"));
    TRY(settle_factor(&c.compute_beside_collective, "compute_beside_collective"));
    TRY(settle_factor(&c.collective_beside_compute, "collective_beside_compute"));
    TRY(settle_links(&c));
    *out_cluster = c;
    return NULL;
}

double plan_product_rate(const weft_cluster *c, double rows) {
    const weft_cluster_products *p = &c->products;
    size_t k = 0;
    if (!p->npoints || !(rows > 0)) return c->flops;
    if (rows <= p->rows[0]) return p->flops[0];
    while (k < p->npoints && rows >= p->rows[k]) k++;
    if (k == p->npoints) return p->flops[k - 1];
    double part = log(rows / p->rows[k - 1]) / log(p->rows[k] / p->rows[k - 1]);
    return p->flops[k - 1] * pow(p->flops[k] / p->flops[k - 1], part);
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* The links that neighbours of a ring use, a bit each, and the most hops between two of them. */
typedef struct ring_links {
    const plan_ring *ring;
    uint32_t used;
    int hops[WEFT_CLUSTER_LINKS];
} ring_links;

/* The first link that joins two ranks; nlinks: none. */
static size_t link_between(const weft_cluster *c, int64_t a, int64_t b) {
    size_t k = 0;
    while (k < c->nlinks && c->links[k].nranks && a / c->links[k].nranks != b / c->links[k].nranks) k++;
    return k;
}

/* A link joins groups of the link before it. */
static plan_network network_of(const weft_cluster *c, size_t k) {
    int within = k ? c->links[k - 1].nranks : 1;
    return (plan_network){&c->links[k], c->links[k].nranks / within};
}

/* The group of the link before it that a rank is in, among those of its own. */
static int place_in(const weft_cluster *c, size_t k, int64_t rank) {
    int within = k ? c->links[k - 1].nranks : 1, all = c->links[k].nranks;
    return (int)((all ? rank % all : rank) / within);
}

static int hops_between(const weft_cluster *c, size_t k, int64_t a, int64_t b) {
    plan_network net = network_of(c, k);
    return plan_network_hops(&net, place_in(c, k, a), place_in(c, k, b));
}

static weft_status no_link(const plan_ring *r, int64_t a, int64_t b) {
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                              "ring %lld: no link of the cluster joins ranks %lld and %lld", (long long)r->id,
                              (long long)a, (long long)b);
}

static weft_status find_links(const weft_cluster *c, ring_links *l) {
    const plan_ring *r = l->ring;
    for (int m = 0; m < r->nranks; m++) {
        int64_t from = r->ranks[m], to = r->ranks[(m + 1) % r->nranks];
        size_t k = link_between(c, from, to);
        if (k == c->nlinks) return no_link(r, from, to);
        if (r->nranks < 2) continue;
        int hops = hops_between(c, k, from, to);
        l->used |= 1u << k;
        if (hops > l->hops[k]) l->hops[k] = hops;
    }
    return NULL;
}

static double sum_nbytes(const weft_plan *plan, const int32_t *values, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= 0) sum += (double)plan->values[values[i]].nbytes;
    return sum;
}

/* Messages over these links and hops, each of one of `parts` of what is communicated. */
static plan_curve curve_over(const weft_cluster *c, const ring_links *l, double times, double parts) {
    plan_curve curve = {.times = times, .parts = parts, .op_seconds = c->op_seconds};
    for (size_t k = 0; k < c->nlinks; k++) {
        if (!(l->used & 1u << k)) continue;
        curve.links[curve.nlinks] = c->links[k];
        curve.links[curve.nlinks++].seconds *= l->hops[k];
    }
    return curve;
}

/* A send or receive may be of one part of so many of its tensor. */
static double parts_of(const weft_op *op) {
    int64_t num = op_collective(op)->form == COLLECTIVE_PART ? attr_int(op, "num", 1) : 1;
    return num > 1 ? (double)num : 1;
}

static double message_nbytes(const weft_plan *plan, const plan_instr *i) {
    double in = sum_nbytes(plan, i->in, i->in_first[i->schema->ninputs]);
    double out = sum_nbytes(plan, i->out, i->out_first[i->schema->noutputs]);
    return in > out ? in : out;
}

/* The link between the rank and its peer; one that the ring does not have is for others to find. */
static weft_status pair_curve(const weft_cluster *c, const plan_instr *i, const plan_ring *r, int64_t rank,
                              plan_curve *out) {
    int64_t peer = op_collective_root(i->op);
    bool is_there = peer >= 0 && peer < r->nranks && plan_ring_index(r, rank) >= 0;
    int64_t other = is_there ? r->ranks[peer] : rank;
    size_t k = link_between(c, rank, other);
    if (k == c->nlinks) return no_link(r, rank, other);
    ring_links l = {.used = 1u << k};
    l.hops[k] = hops_between(c, k, rank, other);
    *out = curve_over(c, &l, 1, parts_of(i->op));
    return NULL;
}

/* Groups of the first link in which the ring has members. Members of one group stand together where a program means it;
 * a group that is come back to counts again. */
static int count_nodes(const weft_cluster *c, const plan_ring *r) {
    int64_t group = c->links[0].nranks ? c->links[0].nranks : INT64_MAX;
    int n = 1;
    for (int m = 1; m < r->nranks; m++) n += r->ranks[m] / group != r->ranks[m - 1] / group;
    return n;
}

static const weft_cluster_table *find_table(const weft_cluster *c, const char *kind, int nranks, int nnodes) {
    for (size_t i = 0; i < c->ntables; i++) {
        const weft_cluster_table *t = &c->tables[i];
        if (t->nranks == nranks && (!t->nnodes || t->nnodes == nnodes) && strcmp(t->kind, kind) == 0) return t;
    }
    return NULL;
}

/* What leaves a node leaves it over the links of all its ranks. */
static nccl_call nccl_of(const weft_cluster *c, collective_kind kind, int nranks, int nnodes) {
    const weft_link *inter = &c->links[c->nlinks > 1 ? 1 : 0];
    return (nccl_call){.machine = plan_nccl_has(kind) && *c->machine ? plan_nccl_machine_find(c->machine) : NULL,
                       .kind = kind,
                       .nranks = nranks,
                       .nnodes = nnodes,
                       .intra = c->links[0].bytes,
                       .inter = inter->bytes * nranks / nnodes};
}

static plan_curve collective_curve(const weft_cluster *c, collective_kind kind, const ring_links *l) {
    double nranks = l->ring->nranks, rounds = kind == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    plan_curve curve = curve_over(c, l, rounds * (nranks - 1), nranks);
    int nnodes = count_nodes(c, l->ring);
    curve.table = find_table(c, collective_kind_name(kind), l->ring->nranks, nnodes);
    curve.is_split = rounds > 1 && curve.nlinks == 1 && curve.links[0].splits > 0;
    curve.nccl = nccl_of(c, kind, l->ring->nranks, nnodes);
    return curve;
}

weft_status plan_kind_curve(const weft_cluster *c, const plan_ring *r, collective_kind kind, plan_curve *out) {
    ring_links l = {.ring = r};
    TRY(find_links(c, &l));
    *out = collective_curve(c, kind, &l);
    return NULL;
}

weft_status plan_collective_curve(const weft_cluster *c, const plan_ring *r, const weft_op *op, plan_curve *out) {
    return plan_kind_curve(c, r, op_collective_kind(op), out);
}

/* Whether all members of a ring lie on one link whose hops they share; *out_link says which. */
static bool share_hops(const weft_cluster *c, const ring_links *l, size_t *out_link) {
    enum { MOST_PLAYED = 32 }; /* an exchange of n ranks is n^2 messages */
    size_t k = 0;
    while (l->used >> k > 1) k++;
    *out_link = k;
    return l->used == 1u << k && c->links[k].topology != WEFT_TOPOLOGY_DIRECT && c->links[k].nranks &&
           l->ring->nranks <= MOST_PLAYED;
}

/* Every member sends every other its part at once. */
static weft_status exchange_seconds(const weft_cluster *c, const ring_links *l, size_t k, double nbytes, arena *scratch,
                                    double *out) {
    const plan_ring *r = l->ring;
    plan_network net = network_of(c, k);
    size_t n = (size_t)r->nranks, count = 0;
    plan_message *messages = ARENA_ARRAY(scratch, plan_message, n * n);
    if (!messages) return base_out_of_memory();
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (i != j)
                messages[count++] =
                    (plan_message){place_in(c, k, r->ranks[i]), place_in(c, k, r->ranks[j]), nbytes / (double)n};
    int64_t ns = 0;
    TRY(plan_network_play(&net, messages, count, scratch, &ns));
    *out = 1e-9 * (double)ns;
    return NULL;
}

static weft_status list_links(const weft_cluster *c, const plan_rings *rings, arena *scratch, ring_links **out) {
    ring_links *links = ARENA_ARRAY(scratch, ring_links, rings->count + 1);
    if (!links) return base_out_of_memory();
    for (size_t k = 0; k < rings->count; k++) {
        links[k].ring = &rings->items[k];
        TRY(find_links(c, &links[k]));
    }
    *out = links;
    return NULL;
}

/* What all instructions are priced with. */
typedef struct pricing {
    const weft_plan *plan;
    const weft_cluster *cluster;
    int64_t rank;
    arena *scratch;
    plan_rings rings;
    ring_links *links;
    double *measured; /* by instruction, from a profile: negative where it says nothing; NULL: there is none */
} pricing;

static weft_status price_collective(const pricing *p, const plan_instr *i, const plan_ring *r, double *out_seconds,
                                    const char **out_source) {
    const ring_links *l = &p->links[r - p->rings.items];
    double nbytes = message_nbytes(p->plan, i);
    char words[64];
    plan_curve curve;
    size_t k;
    bool is_send;
    if (plan_is_pair(i, &is_send))
        TRY(pair_curve(p->cluster, i, r, p->rank, &curve));
    else
        curve = collective_curve(p->cluster, op_collective_kind(i->op), l);
    *out_source = plan_curve_source(&curve, nbytes, words, sizeof words);
    if (*out_source == words && !(*out_source = arena_string(p->scratch, words, strlen(words))))
        return base_out_of_memory();
    *out_seconds = plan_curve_seconds(&curve, nbytes);
    if (curve.table || !op_is_collective(i->op, COLLECTIVE_ALL_TO_ALL) || !share_hops(p->cluster, l, &k)) return NULL;
    TRY(exchange_seconds(p->cluster, l, k, nbytes, p->scratch, out_seconds));
    *out_seconds += p->cluster->op_seconds;
    return NULL;
}

static weft_status price(const pricing *p, size_t k, double *out_seconds, const char **out_source) {
    const plan_instr *i = &p->plan->instrs[k];
    const plan_ring *r = i->ring_id >= 0 ? plan_ring_find(&p->rings, i->ring_id) : NULL;
    op_cost cost;
    if (r && r->nranks > 1) return price_collective(p, i, r, out_seconds, out_source);
    *out_source = "profile";
    if (p->measured && p->measured[k] >= 0) return *out_seconds = p->measured[k], NULL;
    TRY(plan_cost_of(p->plan, i, p->scratch, &cost));
    double computing = cost.flops / plan_product_rate(p->cluster, cost.rows), moving = cost.bytes / p->cluster->bytes;
    *out_seconds = (computing > moving ? computing : moving) + p->cluster->op_seconds;
    *out_source = computing > moving ? "flops" : moving > 0 ? "bytes" : "op";
    return NULL;
}

weft_status plan_find_costs(const weft_plan *plan, const weft_cluster *c, int nranks, int64_t rank, arena *scratch,
                            int64_t *out_ns, const char **out_sources) {
    pricing p = {.plan = plan, .cluster = c, .rank = rank, .scratch = scratch};
    TRY(plan_find_rings(plan, nranks, scratch, &p.rings));
    TRY(list_links(c, &p.rings, scratch, &p.links));
    if (c->profile) TRY(plan_profile_times(c->profile, plan, rank, false, scratch, &p.measured));
    for (size_t k = 0; k < plan->ninstrs; k++) {
        double seconds = 0;
        const char *source = "";
        TRY(price(&p, k, &seconds, &source));
        out_ns[k] = plan_ns(seconds);
        if (out_sources) out_sources[k] = source;
    }
    return NULL;
}

weft_status plan_find_times(const weft_plan *plan, const weft_cluster *c, int nranks, int64_t rank, arena *scratch,
                            int64_t *out_ns) {
    return plan_find_costs(plan, c, nranks, rank, scratch, out_ns, NULL);
}
