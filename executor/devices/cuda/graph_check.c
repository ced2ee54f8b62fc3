/* graph_check.c: is each order that the plan has one of the graph's? The plan orders an instruction behind the one
 * before it on its stream, and behind those that it waits for. Each node of these must reach each of its own.
 *
 * Nodes are taken 64 at a time: a bit each goes along the edges, in an order in which each node comes behind those
 * before it. */
#include "executor/devices/cuda/graph.h"

/* --- which nodes are whose ---------------------------------------------------------------------------------------- */

static size_t slot_of(const cuda_node_map *m, cudaGraphNode_t node) {
    size_t at = (size_t)((uintptr_t)node * 0x9E3779B97F4A7C15u >> 20) & (m->nplaces - 1);
    while (m->places[at].node && m->places[at].node != node) at = (at + 1) & (m->nplaces - 1);
    return at;
}

void cuda_node_map_free(cuda_node_map *m) {
    base_free(m->allocator, m->places, m->nplaces * sizeof *m->places);
    base_free(m->allocator, m->nodes, m->room * sizeof(cudaGraphNode_t));
}

/* Room for n nodes, in a table that is at most half full. */
static weft_status make_room(cuda_node_map *m, size_t n) {
    if (m->room >= n && m->nplaces >= 2 * n) return NULL;
    cuda_node_map larger = {.allocator = m->allocator, .graph = m->graph, .n = m->n, .nplaces = 256, .room = 2 * n};
    while (larger.nplaces < 4 * n) larger.nplaces *= 2;
    larger.places = base_alloc(m->allocator, larger.nplaces * sizeof *larger.places);
    larger.nodes = base_alloc(m->allocator, larger.room * sizeof(cudaGraphNode_t));
    if (!larger.places || !larger.nodes) {
        cuda_node_map_free(&larger);
        return base_out_of_memory();
    }
    memset(larger.places, 0, larger.nplaces * sizeof *larger.places);
    for (size_t i = 0; i < m->nplaces; i++)
        if (m->places[i].node) larger.places[slot_of(&larger, m->places[i].node)] = m->places[i];
    cuda_node_map_free(m);
    *m = larger;
    return NULL;
}

static weft_status touches_memory(cudaGraphNode_t node, bool *out) {
    enum cudaGraphNodeType type;
    CUDA_TRY(GraphNodeGetType, node, &type);
    *out = type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset;
    return NULL;
}

weft_status cuda_node_map_add(cuda_node_map *m, size_t owner, bool is_on_ring) {
    size_t n = 0;
    CUDA_TRY(GraphGetNodes, m->graph, NULL, &n);
    if (n == m->n) return NULL;
    TRY(make_room(m, n));
    CUDA_TRY(GraphGetNodes, m->graph, m->nodes, &n);
    for (size_t i = 0; i < n; i++) {
        size_t at = slot_of(m, m->nodes[i]);
        bool counts = true;
        if (m->places[at].node) continue;
        if (is_on_ring) TRY(touches_memory(m->nodes[i], &counts));
        m->places[at].node = m->nodes[i];
        m->places[at].owner = counts ? owner : (size_t)CUDA_NO_OWNER;
        m->places[at].id = m->n++;
    }
    return NULL;
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

/* Nodes by number, which count up by instruction of the rank, and edges by source. Nodes of other ranks come last, and
 * have no owner here. */
typedef struct order {
    size_t n, nedges;
    size_t *number; /* by id */
    size_t *owner, *first_edge, *target;
    size_t *sorted; /* each behind those before it */
    uint64_t *before;
} order;

/* Behind some edges a node begins when the other has begun: NCCL lets kernels take turns so. They order nothing. */
static size_t keep_ordering(cudaGraphNode_t *from, cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (data[i].from_port != cudaGraphKernelNodePortDefault) continue;
        from[kept] = from[i];
        to[kept++] = to[i];
    }
    return kept;
}

static weft_status read_edges(arena *a, const cuda_node_map *m, cudaGraphNode_t **out_from, cudaGraphNode_t **out_to,
                              size_t *out_n) {
    size_t n = 0;
    CUDA_TRY(GraphGetEdges, m->graph, NULL, NULL, NULL, &n);
    *out_from = ARENA_ARRAY(a, cudaGraphNode_t, n + 1);
    *out_to = ARENA_ARRAY(a, cudaGraphNode_t, n + 1);
    cudaGraphEdgeData *data = ARENA_ARRAY(a, cudaGraphEdgeData, n + 1);
    if (!*out_from || !*out_to || !data) return base_out_of_memory();
    if (n) CUDA_TRY(GraphGetEdges, m->graph, *out_from, *out_to, data, &n);
    *out_n = keep_ordering(*out_from, *out_to, data, n);
    return NULL;
}

static size_t number_of(const order *o, const cuda_node_map *m, cudaGraphNode_t node) {
    return o->number[m->places[slot_of(m, node)].id];
}

static void sort_edges(order *o, const cuda_node_map *m, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                       size_t *nmissing) {
    for (size_t i = 0; i < o->nedges; i++) {
        o->first_edge[number_of(o, m, from[i]) + 1]++;
        nmissing[number_of(o, m, to[i])]++;
    }
    for (size_t i = 0; i < o->n; i++) o->first_edge[i + 1] += o->first_edge[i];
    for (size_t i = o->nedges; i-- > 0;) {
        size_t *end = &o->first_edge[number_of(o, m, from[i]) + 1];
        o->target[--*end] = number_of(o, m, to[i]);
    }
    /* each end has become the next one's first */
    for (size_t i = 0; i < o->n; i++) o->first_edge[i] = o->first_edge[i + 1];
    o->first_edge[o->n] = o->nedges;
}

static void sort_nodes(order *o, size_t *nmissing) {
    size_t end = 0;
    for (size_t i = 0; i < o->n; i++)
        if (!nmissing[i]) o->sorted[end++] = i;
    for (size_t at = 0; at < end; at++)
        for (size_t e = o->first_edge[o->sorted[at]]; e < o->first_edge[o->sorted[at] + 1]; e++)
            if (--nmissing[o->target[e]] == 0) o->sorted[end++] = o->target[e];
}

/* Several ranks may have added nodes in turn: those of an instruction get numbers one after another. */
static weft_status number_nodes(arena *a, const cuda_rank *r, const cuda_node_map *m, order *o) {
    size_t ninstrs = r->state->plan->ninstrs;
    size_t *first = ARENA_ARRAY(a, size_t, ninstrs + 2), *owner = ARENA_ARRAY(a, size_t, o->n + 1);
    if (!first || !owner) return base_out_of_memory();
    for (size_t i = 0; i < m->nplaces; i++) {
        if (!m->places[i].node) continue;
        size_t own = m->places[i].owner - r->first_owner;
        bool is_own = m->places[i].owner != (size_t)CUDA_NO_OWNER && own < ninstrs;
        owner[m->places[i].id] = is_own ? own : ninstrs;
        first[(is_own ? own : ninstrs) + 1]++;
    }
    for (size_t i = 0; i <= ninstrs; i++) first[i + 1] += first[i];
    for (size_t id = 0; id < o->n; id++) {
        size_t number = first[owner[id]]++;
        o->number[id] = number;
        o->owner[number] = owner[id] < ninstrs ? owner[id] : (size_t)CUDA_NO_OWNER;
    }
    return NULL;
}

static weft_status read_order(arena *a, const cuda_rank *r, const cuda_node_map *m, order *o) {
    cudaGraphNode_t *from, *to;
    TRY(read_edges(a, m, &from, &to, &o->nedges));
    o->n = m->n;
    o->number = ARENA_ARRAY(a, size_t, o->n + 1);
    o->owner = ARENA_ARRAY(a, size_t, o->n + 1);
    o->first_edge = ARENA_ARRAY(a, size_t, o->n + 2);
    o->target = ARENA_ARRAY(a, size_t, o->nedges + 1);
    o->sorted = ARENA_ARRAY(a, size_t, o->n + 1);
    o->before = ARENA_ARRAY(a, uint64_t, o->n + 1);
    size_t *nmissing = ARENA_ARRAY(a, size_t, o->n + 1);
    if (!o->number || !o->owner || !o->first_edge || !o->target || !o->sorted || !o->before || !nmissing)
        return base_out_of_memory();
    TRY(number_nodes(a, r, m, o));
    sort_edges(o, m, from, to, nmissing);
    sort_nodes(o, nmissing);
    return NULL;
}

/* Which of nodes first .. first + 63 are before each. */
static void reach_from(order *o, size_t first) {
    memset(o->before, 0, o->n * sizeof *o->before);
    for (size_t at = 0; at < o->n; at++) {
        size_t v = o->sorted[at];
        uint64_t bits = o->before[v] | (v >= first && v < first + 64 ? (uint64_t)1 << (v - first) : 0);
        for (size_t e = o->first_edge[v]; e < o->first_edge[v + 1]; e++) o->before[o->target[e]] |= bits;
    }
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

typedef struct range {
    size_t first, end;
} range;

/* What must be before an instruction: nodes of others. Of those without a node, what is before them. */
typedef struct demand {
    size_t instr, *of; /* instructions that have nodes */
    size_t n;
} demand;

typedef struct demands {
    arena *a;
    const cuda_rank *r;
    const cuda_segment *s;
    range *nodes; /* by instruction, from the segment's first */
    demand *of;
} demands;

static weft_status add_demand(const demands *d, demand *to, size_t room, size_t instr) {
    size_t i = instr - d->s->first;
    const demand *own = &d->of[i];
    bool has_nodes = d->nodes[i].first < d->nodes[i].end;
    for (size_t k = 0; k < (has_nodes ? 1 : own->n); k++) {
        size_t one = has_nodes ? instr : own->of[k], at = 0;
        while (at < to->n && to->of[at] != one) at++;
        if (at == room) return base_out_of_memory();
        to->of[at] = one;
        if (at == to->n) to->n++;
    }
    return NULL;
}

/* The instruction before this one on its stream, and those that it waits for, as far as the segment has them. */
static weft_status collect(const demands *d, size_t instr, const size_t *const *by_position) {
    const plan_instr *p = &d->r->state->plan->instrs[instr];
    demand *to = &d->of[instr - d->s->first];
    size_t most = 0, n = 0, *direct = ARENA_ARRAY(d->a, size_t, p->nwaits + 1);
    if (!direct) return base_out_of_memory();
    if (p->position > 0) direct[n++] = by_position[p->stream][p->position - 1];
    for (uint32_t k = 0; k < p->nwaits; k++)
        if (p->waits[k].count > 0) direct[n++] = by_position[p->waits[k].stream][p->waits[k].count - 1];
    for (size_t k = 0; k < n; k++)
        if (direct[k] >= d->s->first) most += 1 + d->of[direct[k] - d->s->first].n;
    to->instr = instr;
    to->of = ARENA_ARRAY(d->a, size_t, most + 1);
    if (!to->of) return base_out_of_memory();
    for (size_t k = 0; k < n; k++)
        if (direct[k] >= d->s->first) TRY(add_demand(d, to, most + 1, direct[k]));
    return NULL;
}

static weft_status collect_all(demands *d, const order *o) {
    const weft_plan *plan = d->r->state->plan;
    size_t n = d->s->end - d->s->first, **by_position = ARENA_ARRAY(d->a, size_t *, plan->nstreams);
    d->nodes = ARENA_ARRAY(d->a, range, n + 1);
    d->of = ARENA_ARRAY(d->a, demand, n + 1);
    if (!by_position || !d->nodes || !d->of) return base_out_of_memory();
    for (int k = 0; k < plan->nstreams; k++) {
        by_position[k] = ARENA_ARRAY(d->a, size_t, d->r->lanes[k].state->ninstrs + 1);
        if (!by_position[k]) return base_out_of_memory();
    }
    for (size_t i = 0; i < plan->ninstrs; i++) by_position[plan->instrs[i].stream][plan->instrs[i].position] = i;
    for (size_t id = 0; id < o->n; id++) {
        if (o->owner[id] == (size_t)CUDA_NO_OWNER) continue;
        range *own = &d->nodes[o->owner[id] - d->s->first];
        if (own->first == own->end) *own = (range){id, id};
        own->end = id + 1;
    }
    for (size_t i = d->s->first; i < d->s->end; i++) TRY(collect(d, i, (const size_t *const *)by_position));
    return NULL;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static weft_status tell(const cuda_rank *r, size_t before, size_t after) {
    char first[200], second[200];
    return weft_status_create(WEFT_RUNTIME, NULL,
                              "rank %d: the captured graph does not order %s before %s, as the plan does",
                              r->state->rank, instr_place(&r->state->plan->instrs[before], first, sizeof first),
                              instr_place(&r->state->plan->instrs[after], second, sizeof second));
}

static weft_status compare(const demands *d, const order *o, size_t first) {
    for (const demand *to = d->of; to < d->of + (d->s->end - d->s->first); to++)
        for (size_t k = 0; k < to->n; k++) {
            range from = d->nodes[to->of[k] - d->s->first], own = d->nodes[to->instr - d->s->first];
            if (from.end <= first || from.first >= first + 64) continue;
            for (size_t u = from.first > first ? from.first : first; u < from.end && u < first + 64; u++)
                for (size_t v = own.first; v < own.end; v++)
                    if (!(o->before[v] >> (u - first) & 1)) return tell(d->r, to->of[k], to->instr);
        }
    return NULL;
}

weft_status cuda_graph_check(const cuda_rank *r, const cuda_segment *s, const cuda_node_map *m) {
    arena a;
    order o = {0};
    demands d = {.a = &a, .r = r, .s = s};
    arena_init(&a, m->allocator);
    weft_status status = read_order(&a, r, m, &o);
    if (!status) status = collect_all(&d, &o);
    for (size_t first = 0; first < o.n && !status; first += 64) {
        reach_from(&o, first);
        status = compare(&d, &o, first);
    }
    arena_fini(&a);
    return status;
}
