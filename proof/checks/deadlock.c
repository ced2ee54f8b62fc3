/* deadlock.c: a cycle of waits over ranks, streams and host order.
 *
 * Nodes are launches; those that form one collective are one node, since none of them completes alone. An edge leads
 * from what must be complete to what cannot start before. Ranks of one class are looked at as one first: a cycle of the
 * whole is a cycle there too, so without one there nothing can hang. With one, what is left of the graph is taken apart
 * into ranks and looked at again. Cycles are found by taking away nodes that nothing left precedes (Kahn 1962).
 *
 * Edges within a rank lead from a launch to a later one. So before all that, classes are looked at as if each ran its
 * collectives one after another, and had no other launches: a cycle of the whole leads from collective to collective
 * within a rank, each launched later than the one before. It is a cycle there too. */
#include "program/grow.h"
#include "proof/checks/checks.h"

/* One rank, or the ranks of a class at once. */
typedef struct actor {
    const proof_class *class;
    const uint32_t *index_of; /* by event: its number among the kept ones, or PROOF_NONE */
    uint32_t first;           /* its first node */
    int64_t rank;
} actor;

typedef struct edge {
    uint32_t from, to;
} edge;

typedef struct waits_graph {
    const proof_ranks *ranks;
    arena *arena;
    actor *actors;
    size_t nactors, nnodes;
    uint32_t *group; /* by node: union-find */
    edge *edges;
    size_t nedges, edge_capacity;
    uint32_t *npreceding;      /* by root: edges from what is left */
    uint32_t *first, *by_from; /* edges by the root that they leave */
    bool by_rank;
    bool in_order; /* collectives alone, each waits for the one launched before it */
} waits_graph;

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static uint32_t find_root(waits_graph *g, uint32_t node) {
    while (g->group[node] != node) node = g->group[node] = g->group[g->group[node]];
    return node;
}

static uint32_t node_of(const waits_graph *g, size_t actor_index, uint32_t event) {
    const actor *a = &g->actors[actor_index];
    uint32_t index = g->in_order ? a->class->schedule->events[event].collective : a->index_of[event];
    return index == PROOF_NONE ? PROOF_NONE : a->first + index;
}

static void unite(waits_graph *g, uint32_t x, uint32_t y) {
    if (x == PROOF_NONE || y == PROOF_NONE) return;
    x = find_root(g, x);
    y = find_root(g, y);
    g->group[x > y ? x : y] = x > y ? y : x;
}

static size_t actor_of(const waits_graph *g, int64_t rank) {
    return g->by_rank ? (size_t)rank : g->ranks->class_of[rank];
}

static bool is_given(const proof_ranks *r, int64_t rank) {
    return rank >= 0 && rank < r->nranks && r->class_of[rank] != PROOF_NONE;
}

/* The k-th collectives of two members on a ring are one. */
static void unite_sequences(waits_graph *g, int64_t x, int64_t y, const ring_sequence *a, const ring_sequence *b) {
    const proof_class *ca = &g->ranks->classes[g->ranks->class_of[x]], *cb = &g->ranks->classes[g->ranks->class_of[y]];
    for (uint32_t k = 0; k < a->count && k < b->count; k++)
        unite(g, node_of(g, actor_of(g, x), ca->schedule->collectives[ca->order[a->first + k]].event),
              node_of(g, actor_of(g, y), cb->schedule->collectives[cb->order[b->first + k]].event));
}

static weft_status unite_rings(waits_graph *g, int64_t rank, key_set *met) {
    const proof_ranks *r = g->ranks;
    const proof_class *c = &r->classes[r->class_of[rank]];
    for (size_t i = 0; i < c->nsequences; i++) {
        size_t count, k = 0;
        const int64_t *members = ring_members(r, rank, c->sequences[i].ring, &count);
        while (k < count && members[k] != rank && !is_given(r, members[k])) k++;
        if (k == count || members[k] != rank) continue; /* another member begins */
        for (; k < count; k++) {
            if (!is_given(r, members[k]) || members[k] == rank) continue;
            const ring_sequence *theirs = sequences_find(&r->classes[r->class_of[members[k]]], c->sequences[i].ring);
            bool is_new = true;
            uint64_t key = ((uint64_t)r->class_of[rank] << 42 | (uint64_t)r->class_of[members[k]] << 22 | i) + 1;
            if (!g->by_rank) TRY(key_set_add(g->arena, met, key, &is_new));
            if (theirs && is_new) unite_sequences(g, rank, members[k], &c->sequences[i], theirs);
        }
    }
    return NULL;
}

/* The same for the ranks of a party at once, where classes stand for their ranks. */
static weft_status unite_party(waits_graph *g, uint32_t of_party, key_set *met) {
    const proof_ranks *r = g->ranks;
    uint32_t class = r->parties->items[of_party].class;
    const proof_class *c = &r->classes[class];
    for (size_t i = 0; i < c->nsequences; i++) {
        member_list *members;
        TRY(parties_at(r->parties, of_party, c->sequences[i].ring, &members));
        if (!members->nparties || members->parties[0].party != of_party) continue; /* another begins */
        for (size_t k = 1; k < members->nparties; k++) {
            uint32_t theirs = r->parties->items[members->parties[k].party].class;
            const ring_sequence *list = sequences_find(&r->classes[theirs], c->sequences[i].ring);
            bool is_new;
            TRY(key_set_add(g->arena, met, ((uint64_t) class << 42 | (uint64_t)theirs << 22 | i) + 1, &is_new));
            if (list && is_new)
                unite_sequences(g, members->parties[0].first, members->parties[k].first, &c->sequences[i], list);
        }
    }
    return NULL;
}

/* Whether the program of a party says who is on its rings. */
static weft_status knows_members(const proof_ranks *r, uint32_t of_party, bool *out) {
    const proof_class *c = &r->classes[r->parties->items[of_party].class];
    *out = true;
    for (size_t i = 0; i < c->nsequences && *out; i++) {
        member_list *members;
        TRY(parties_at(r->parties, of_party, c->sequences[i].ring, &members));
        *out = members != NULL;
    }
    return NULL;
}

static weft_status unite_all_rings(waits_graph *g) {
    const proof_ranks *r = g->ranks;
    rank_parties *parties = g->by_rank ? NULL : r->parties;
    bool *known = ARENA_ARRAY(g->arena, bool, (parties ? parties->count : 0) + 1);
    key_set met = {.keys = NULL};
    if (!known) return base_out_of_memory();
    for (int64_t rank = 0; rank < r->nranks; rank++) {
        if (!is_given(r, rank)) continue;
        uint32_t of_party = parties ? parties->party_of[rank] : 0;
        bool is_first = parties && parties->items[of_party].first_rank == rank;
        if (is_first) TRY(knows_members(r, of_party, &known[of_party]));
        if (!parties || !known[of_party])
            TRY(unite_rings(g, rank, &met));
        else if (is_first)
            TRY(unite_party(g, of_party, &met));
    }
    return NULL;
}

/* --- point to point ----------------------------------------------------------------------------------------------- */

/* Whether two sends or receives are between the same ranks in the same direction. */
static bool is_same_pair(const proof_collective *c, int64_t ring_id, int64_t peer, bool sends) {
    return c->ring == ring_id && c->peer == peer && c->is_send == sends;
}

static bool is_earlier_pair(const proof_collective *c, int64_t ring_id, int64_t peer, bool sends) {
    if (c->ring != ring_id) return c->ring < ring_id;
    return c->peer != peer ? c->peer < peer : c->is_send < sends;
}

/* The n-th receive (send) of a class on a ring from (to) a member; PROOF_NONE if there are fewer. */
static uint32_t nth_with(const proof_class *c, int64_t ring_id, int64_t peer, bool sends, size_t n) {
    const proof_collective *all = c->schedule->collectives;
    size_t low = 0, high = c->npeers; /* the first of them: sorted by ring, peer, direction */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (is_earlier_pair(&all[c->peers[middle]], ring_id, peer, sends))
            low = middle + 1;
        else
            high = middle;
    }
    if (low + n >= c->npeers) return PROOF_NONE;
    uint32_t found = c->peers[low + n];
    return is_same_pair(&all[found], ring_id, peer, sends) ? found : PROOF_NONE;
}

static int64_t index_in(const int64_t *members, size_t count, int64_t rank) {
    for (size_t i = 0; i < count; i++)
        if (members[i] == rank) return (int64_t)i;
    return -1;
}

static weft_status report_alone(const proof_schedule *s, const proof_collective *c, int64_t rank, int64_t other,
                                weft_findings *f) {
    weft_finding *found;
    char message[256];
    TRY(finding_add(f, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = c->ring;
    TRY(finding_op(f, found, s, c->event, rank, c->is_send ? "sends" : "receives"));
    return finding_says(f, &found->message, "ring %lld: %s on rank %lld %s rank %lld, which has no %s for it",
                        (long long)c->ring, finding_op_text(&found->ops[0], message, sizeof message), (long long)rank,
                        c->is_send ? "sends to" : "receives from", (long long)other, c->is_send ? "receive" : "send");
}

static weft_status unite_peers(waits_graph *g, int64_t rank, weft_findings *f) {
    const proof_ranks *r = g->ranks;
    const proof_class *mine = &r->classes[r->class_of[rank]];
    const proof_schedule *s = mine->schedule;
    size_t first = 0;
    for (size_t i = 0; i < mine->npeers; i++) {
        const proof_collective *c = &s->collectives[mine->peers[i]], *run = &s->collectives[mine->peers[first]];
        if (!is_same_pair(run, c->ring, c->peer, c->is_send)) first = i;
        size_t count;
        const int64_t *members = ring_members(r, rank, c->ring, &count);
        int64_t me = index_in(members, count, rank), other = c->peer < (int64_t)count ? members[c->peer] : -1;
        if (me < 0 || !is_given(r, other)) continue;
        const proof_class *theirs = &r->classes[r->class_of[other]];
        uint32_t match = nth_with(theirs, c->ring, me, !c->is_send, i - first);
        if (match != PROOF_NONE)
            unite(g, node_of(g, actor_of(g, rank), c->event),
                  node_of(g, actor_of(g, other), theirs->schedule->collectives[match].event));
        else if (f)
            TRY(report_alone(s, c, rank, other, f));
    }
    return NULL;
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

static weft_status add_edge(waits_graph *g, uint32_t from, uint32_t to) {
    if (from == PROOF_NONE || to == PROOF_NONE) return NULL;
    TRY(grow(g->arena, &g->edges, &g->edge_capacity, g->nedges + 1, sizeof *g->edges));
    g->edges[g->nedges++] = (edge){from, to};
    return NULL;
}

/* Stream order, waits within the step, and what the host waited for before it launched. */
static weft_status add_edges(waits_graph *g, size_t actor_index) {
    const proof_schedule *s = g->actors[actor_index].class->schedule;
    uint32_t *last = ARENA_ARRAY(g->arena, uint32_t, s->nstreams), blocker = PROOF_NONE;
    if (!last) return base_out_of_memory();
    for (size_t t = 0; t < s->nstreams; t++) last[t] = PROOF_NONE;
    for (uint32_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i];
        uint32_t node = node_of(g, actor_index, i);
        if (last[e->stream] != PROOF_NONE) TRY(add_edge(g, node_of(g, actor_index, last[e->stream]), node));
        for (size_t k = 0; k < proof_nwaits(s, i); k++)
            if (s->waits[e->first_wait + k] < i)
                TRY(add_edge(g, node_of(g, actor_index, s->waits[e->first_wait + k]), node));
        if (blocker != PROOF_NONE && !s->launches_freely) TRY(add_edge(g, node_of(g, actor_index, blocker), node));
        last[e->stream] = i;
        if (e->blocks_host) blocker = i;
    }
    return NULL;
}

static weft_status add_order(waits_graph *g, size_t actor_index) {
    const actor *a = &g->actors[actor_index];
    for (uint32_t i = 1; i < a->class->schedule->ncollectives; i++) TRY(add_edge(g, a->first + i - 1, a->first + i));
    return NULL;
}

static weft_status index_edges(waits_graph *g) {
    g->npreceding = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 1);
    g->first = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 2);
    g->by_from = ARENA_ARRAY(g->arena, uint32_t, g->nedges + 1);
    if (!g->npreceding || !g->first || !g->by_from) return base_out_of_memory();
    for (size_t i = 0; i < g->nedges; i++) {
        g->npreceding[find_root(g, g->edges[i].to)]++;
        g->first[find_root(g, g->edges[i].from) + 2]++;
    }
    for (size_t n = 2; n < g->nnodes + 2; n++) g->first[n] += g->first[n - 1];
    for (size_t i = 0; i < g->nedges; i++) g->by_from[g->first[find_root(g, g->edges[i].from) + 1]++] = (uint32_t)i;
    return NULL;
}

/* Takes away what nothing left precedes; how many roots stay. */
static weft_status take_away(waits_graph *g, size_t *out_left) {
    uint32_t *ready = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 1);
    size_t nready = 0, left = 0;
    if (!ready) return base_out_of_memory();
    for (uint32_t n = 0; n < g->nnodes; n++) {
        if (g->group[n] != n) continue;
        left++;
        if (!g->npreceding[n]) ready[nready++] = n;
    }
    for (; nready; left--) {
        uint32_t n = ready[--nready];
        for (uint32_t k = g->first[n]; k < g->first[n + 1]; k++) {
            uint32_t to = find_root(g, g->edges[g->by_from[k]].to);
            if (--g->npreceding[to] == 0) ready[nready++] = to;
        }
    }
    *out_left = left;
    return NULL;
}

/* --- the looks ---------------------------------------------------------------------------------------------------- */

static weft_status build(waits_graph *g, weft_findings *f) {
    const proof_ranks *r = g->ranks;
    g->group = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 1);
    if (!g->group) return base_out_of_memory();
    for (uint32_t n = 0; n < g->nnodes; n++) g->group[n] = n;
    TRY(unite_all_rings(g));
    for (int64_t rank = 0; rank < r->nranks; rank++)
        if (is_given(r, rank)) TRY(unite_peers(g, rank, f));
    for (size_t i = 0; i < g->nactors; i++)
        if (g->actors[i].class) TRY(g->in_order ? add_order(g, i) : add_edges(g, i));
    return index_edges(g);
}

static weft_status add_classes(waits_graph *g) {
    const proof_ranks *r = g->ranks;
    g->nactors = r->nclasses;
    g->actors = ARENA_ARRAY(g->arena, actor, g->nactors + 1);
    if (!g->actors) return base_out_of_memory();
    size_t most = 0;
    for (size_t c = 0; c < r->nclasses && !g->in_order; c++)
        if (r->classes[c].schedule->nevents > most) most = r->classes[c].schedule->nevents;
    uint32_t *same = ARENA_ARRAY(g->arena, uint32_t, most + 1);
    if (!same) return base_out_of_memory();
    for (uint32_t i = 0; i < most; i++) same[i] = i;
    for (size_t c = 0; c < r->nclasses; c++) {
        g->actors[c] = (actor){.class = &r->classes[c], .index_of = same, .first = (uint32_t)g->nnodes};
        g->nnodes += g->in_order ? r->classes[c].schedule->ncollectives : r->classes[c].schedule->nevents;
    }
    for (int64_t rank = r->nranks; rank-- > 0;)
        if (is_given(r, rank)) g->actors[r->class_of[rank]].rank = rank;
    return g->nnodes < UINT32_MAX / 4 ? NULL : weft_status_create(WEFT_LIMIT, "verify", "more than 2^30 ops in all");
}

/* The events of each class that were not taken away, then one actor a rank. */
static weft_status add_ranks(waits_graph *g, waits_graph *of_classes) {
    const proof_ranks *r = g->ranks;
    g->by_rank = true;
    g->nactors = (size_t)r->nranks;
    g->actors = ARENA_ARRAY(g->arena, actor, g->nactors + 1);
    uint32_t **index_of = ARENA_ARRAY(g->arena, uint32_t *, r->nclasses),
             *kept = ARENA_ARRAY(g->arena, uint32_t, r->nclasses);
    if (!g->actors || !index_of || !kept) return base_out_of_memory();
    for (size_t c = 0; c < r->nclasses; c++) {
        size_t n = r->classes[c].schedule->nevents;
        if (!(index_of[c] = ARENA_ARRAY(g->arena, uint32_t, n + 1))) return base_out_of_memory();
        for (uint32_t i = 0; i < n; i++) {
            bool stays = of_classes->npreceding[find_root(of_classes, node_of(of_classes, c, i))] > 0;
            index_of[c][i] = stays ? kept[c]++ : PROOF_NONE;
        }
    }
    for (int64_t rank = 0; rank < r->nranks; rank++) {
        if (!is_given(r, rank)) continue;
        uint32_t c = r->class_of[rank];
        g->actors[rank] = (actor){&r->classes[c], index_of[c], (uint32_t)g->nnodes, rank};
        g->nnodes += kept[c];
        if (g->nnodes > UINT32_MAX / 4) return weft_status_create(WEFT_LIMIT, "verify", "more than 2^30 ops in all");
    }
    return NULL;
}

/* --- findings ----------------------------------------------------------------------------------------------------- */

static size_t actor_at(const waits_graph *g, uint32_t node) {
    size_t found = 0;
    for (size_t i = 0; i < g->nactors; i++) /* one that was not given has no class */
        if (g->actors[i].class && g->actors[i].first <= node) found = i;
    return found;
}

static uint32_t event_at(const waits_graph *g, size_t actor_index, uint32_t node) {
    const actor *a = &g->actors[actor_index];
    for (uint32_t i = 0; i < a->class->schedule->nevents; i++)
        if (a->index_of[i] != PROOF_NONE && a->first + a->index_of[i] == node) return i;
    return 0;
}

/* Edges of a cycle, the last first: walks back from any root that is left until one comes again. */
static weft_status find_cycle(waits_graph *g, edge **out, size_t *out_n) {
    uint32_t *into = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 1),
             *when = ARENA_ARRAY(g->arena, uint32_t, g->nnodes + 1);
    edge *path = ARENA_ARRAY(g->arena, edge, g->nnodes + 1);
    if (!into || !when || !path) return base_out_of_memory();
    uint32_t at = PROOF_NONE;
    for (uint32_t i = 0; i < g->nedges;
         i++) { /* by root: an edge from what is left too, of another rank if there is one */
        uint32_t to = find_root(g, g->edges[i].to);
        if (g->npreceding[to] && g->npreceding[find_root(g, g->edges[i].from)]) into[at = to] = i + 1;
    }
    size_t n = 0;
    while (!when[at]) {
        when[at] = (uint32_t)n + 1;
        path[n++] = g->edges[into[at] - 1];
        at = find_root(g, path[n - 1].from);
    }
    *out = path + when[at] - 1;
    *out_n = n + 1 - when[at];
    return NULL;
}

typedef struct reporter {
    waits_graph *g;
    weft_findings *findings;
    weft_finding *found;
    buffer text;
} reporter;

/* "rank 0: X waits for Y": both ends of a stretch of the cycle within one rank. */
static weft_status report_stretch(reporter *t, uint32_t from, uint32_t to) {
    size_t who = actor_at(t->g, to);
    const actor *a = &t->g->actors[who];
    const proof_schedule *s = a->class->schedule;
    uint32_t later = event_at(t->g, who, to), earlier = event_at(t->g, who, from);
    char x[256], y[256];
    TRY(finding_op(t->findings, t->found, s, later, a->rank, "waits"));
    finding_op_text(&t->found->ops[t->found->nops - 1], x, sizeof x);
    TRY(finding_op(t->findings, t->found, s, earlier, a->rank, "is waited for"));
    finding_op_text(&t->found->ops[t->found->nops - 1], y, sizeof y);
    buffer_format(&t->text, "\nrank %lld: %s", (long long)a->rank, x);
    uint32_t c = s->events[later].collective, d = s->events[earlier].collective;
    if (c != PROOF_NONE) buffer_format(&t->text, " (ring %lld)", (long long)s->collectives[c].ring);
    buffer_format(&t->text, " on stream %s starts only after %s", s->streams[s->events[later].stream], y);
    if (d != PROOF_NONE) buffer_format(&t->text, " (ring %lld)", (long long)s->collectives[d].ring);
    buffer_format(&t->text, " on stream %s", s->streams[s->events[earlier].stream]);
    return NULL;
}

/* Stretches begin where the cycle goes over to another rank, that is in a collective. */
static weft_status report_cycle(waits_graph *g, weft_findings *f) {
    edge *path = NULL;
    size_t n = 0, start = 0;
    reporter t = {.g = g, .findings = f};
    TRY(find_cycle(g, &path, &n));
    TRY(finding_add(f, WEFT_VERDICT_DEADLOCK, &t.found));
    if (!t.found) return NULL;
    buffer_init(&t.text, &f->context->allocator);
    while (start + 1 < n && path[(start + n - 1) % n].from == path[start].to) start++;
    weft_status status = NULL;
    buffer_text(&t.text, "each of these waits for the next for ever");
    for (size_t i = 0; i < n && !status;) { /* path goes backwards: edge i ends where edge i - 1 begins */
        size_t end = i;
        while (end + 1 < n && path[(start + end) % n].from == path[(start + end + 1) % n].to) end++;
        status = report_stretch(&t, path[(start + end) % n].from, path[(start + i) % n].to);
        i = end + 1;
    }
    if (!status) status = buffer_status(&t.text);
    if (!status) status = finding_says(f, &t.found->message, "%.*s", (int)t.text.nbytes, t.text.bytes);
    buffer_fini(&t.text);
    return status;
}

static weft_status look(const proof_ranks *r, arena *a, weft_findings *f) {
    waits_graph first = {.ranks = r, .arena = a, .in_order = true}, g = {.ranks = r, .arena = a};
    waits_graph apart = {.ranks = r, .arena = a};
    size_t left;
    TRY(add_classes(&first));
    TRY(build(&first, f));
    TRY(take_away(&first, &left));
    if (!left) return NULL;
    TRY(add_classes(&g));
    TRY(build(&g, NULL));
    TRY(take_away(&g, &left));
    if (!left) return NULL;
    TRY(add_ranks(&apart, &g));
    TRY(build(&apart, NULL));
    TRY(take_away(&apart, &left));
    return left ? report_cycle(&apart, f) : NULL;
}

weft_status check_deadlock(const proof_ranks *r, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &r->context->allocator);
    weft_status status = look(r, &scratch, f);
    arena_fini(&scratch);
    return status;
}
