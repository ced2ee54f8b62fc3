/* micro_sums.c: the tables of products that are added up: scatters and all-reduces. */
#include "passes/micro_pipeline/micro_plan.h"

typedef struct message {
    chunk_hop hop;
    int32_t incoming; /* the buffer to which it comes; -1: to where its sum is formed */
    int32_t received, added;
} message;

typedef struct scatter {
    chunk_plan *p;
    arena *a;
    message *all;
    int32_t count;             /* messages of one direction */
    int32_t *start;            /* by piece: the step that begins its sum; -1: none, or a sum was formed behind it */
    int32_t nouts;             /* products put to CHUNK_OUTGOING */
    int32_t free[MICRO_TURNS]; /* by buffer of it: the step behind which another may be put there; -1: none */
} scatter;

/* The t-th message that comes begins a sum, and so comes to where that is formed. */
static bool begins(const scatter *c, int32_t t) {
    const chunk_plan *p = c->p;
    if (p->exchanges) return true;
    return p->in_rank_order ? c->all[t].hop.from == 0 : c->all[t].hop.is_first;
}

/* Which messages there are, and to which buffers they come. */
static void find_messages(scatter *c) {
    const chunk_plan *p = c->p;
    int32_t ncome = 0;
    for (int32_t t = 0; t < c->count; t++) {
        message *m = &c->all[t];
        m->hop = chunk_find_hop(p, t);
        int32_t step = (m->hop.from - p->member + p->nranks) % p->nranks;
        if (begins(c, t) && !p->widens)
            m->incoming = -1;
        else
            m->incoming = p->in_rank_order ? (step - 1) * p->nsub + m->hop.sub : ncome++ % p->nturns;
    }
}

/* Where the sum of a piece is formed. */
static chunk_space sum_space(const chunk_plan *p) {
    return p->is_scattered && p->widens ? CHUNK_TOTALS : CHUNK_RESULTS;
}

static int32_t sum_at(const chunk_plan *p, int32_t sub) {
    return p->is_scattered && !p->widens ? p->member * p->nsub + sub : sub;
}

/* Adds the product of a member's rows to the sum of a piece, once both are there. */
static weft_status add_up(scatter *c, int32_t from, int32_t sub, chunk_space space, int32_t from_buffer, int32_t by,
                          int32_t *out) {
    TRY(chunk_plan_add(c->p, c->a,
                       &(chunk_step){.action = CHUNK_ADD,
                                     .stream = CHUNK_SUMS,
                                     .from = (uint8_t)space,
                                     .to = (uint8_t)sum_space(c->p),
                                     .chunk = from * c->p->nsub + sub,
                                     .peer = -1,
                                     .lane = -1,
                                     .from_buffer = from_buffer,
                                     .buffer = sum_at(c->p, sub)},
                       out));
    chunk_plan_wait(c->p, *out, by);
    chunk_plan_wait(c->p, *out, c->start[sub]);
    c->start[sub] = -1;
    return NULL;
}

static weft_status receive(scatter *c, int32_t t) {
    chunk_plan *p = c->p;
    message *m = &c->all[t];
    bool starts = m->incoming < 0;
    int32_t sub = m->hop.sub, to = p->exchanges ? m->hop.from * p->nsub + sub : sum_at(p, sub), before = t - 1;
    TRY(chunk_plan_receive(p, c->a, &m->hop, p->member * p->nsub + sub, starts ? sum_space(p) : CHUNK_INCOMING,
                           starts ? to : m->incoming, &m->received));
    if (starts) return c->start[sub] = m->received, NULL;
    while (before >= 0 && c->all[before].incoming != m->incoming) before--;
    if (before >= 0) chunk_plan_wait(p, m->received, c->all[before].added);
    return NULL;
}

static weft_status multiply_rows(scatter *c, int32_t chunk, chunk_space space, int32_t to_buffer, int32_t *out) {
    return chunk_plan_add(c->p, c->a,
                          &(chunk_step){.action = CHUNK_MULTIPLY,
                                        .stream = CHUNK_COMPUTE,
                                        .from = CHUNK_OWN,
                                        .to = (uint8_t)space,
                                        .chunk = chunk,
                                        .peer = -1,
                                        .lane = -1,
                                        .from_buffer = chunk,
                                        .buffer = to_buffer},
                          out);
}

/* A product to the next of the buffers that products go out from. */
static weft_status multiply_out(scatter *c, int32_t chunk, int32_t *out_room, int32_t *out) {
    *out_room = c->nouts++ % c->p->nturns;
    TRY(multiply_rows(c, chunk, CHUNK_OUTGOING, *out_room, out));
    chunk_plan_wait(c->p, *out, c->free[*out_room]);
    return NULL;
}

/* The t-th message: its product, the send, and the receive of another's. */
static weft_status exchange(scatter *c, int32_t t) {
    const chunk_hop *h = &c->all[t].hop;
    int32_t chunk = h->to * c->p->nsub + h->sub, room, multiplied, sent;
    TRY(multiply_out(c, chunk, &room, &multiplied));
    TRY(chunk_plan_send(c->p, c->a, h, chunk, CHUNK_OUTGOING, room, &sent));
    chunk_plan_wait(c->p, sent, multiplied);
    c->free[room] = sent;
    return receive(c, t);
}

/* As another type: what begins a sum, or a sum itself. */
static weft_status convert(scatter *c, int32_t sub, chunk_space from, int32_t from_buffer, chunk_space to,
                           int32_t to_buffer, int32_t *out) {
    return chunk_plan_add(c->p, c->a,
                          &(chunk_step){.action = CHUNK_KEEP,
                                        .stream = CHUNK_SUMS,
                                        .from = (uint8_t)from,
                                        .to = (uint8_t)to,
                                        .chunk = c->p->member * c->p->nsub + sub,
                                        .peer = -1,
                                        .lane = -1,
                                        .from_buffer = from_buffer,
                                        .buffer = to_buffer},
                          out);
}

static weft_status add_message(scatter *c, int32_t t) {
    message *m = &c->all[t];
    int32_t sub = m->hop.sub;
    if (!begins(c, t)) return add_up(c, m->hop.from, sub, CHUNK_INCOMING, m->incoming, m->received, &m->added);
    if (!c->p->widens) return NULL;
    TRY(convert(c, sub, CHUNK_INCOMING, m->incoming, sum_space(c->p), sum_at(c->p, sub), &m->added));
    chunk_plan_wait(c->p, m->added, m->received);
    return NULL;
}

/* The own product of a piece; *out_room -1: it begins the sum. */
static weft_status multiply_own(scatter *c, int32_t sub, int32_t *out_room, int32_t *out) {
    chunk_plan *p = c->p;
    int32_t chunk = p->member * p->nsub + sub;
    *out_room = -1;
    if (!p->exchanges && !(p->in_rank_order && p->member == 0)) return multiply_out(c, chunk, out_room, out);
    TRY(multiply_rows(c, chunk, sum_space(p), p->exchanges ? chunk : sum_at(p, sub), out));
    c->start[sub] = *out;
    return NULL;
}

static weft_status add_own(scatter *c, int32_t sub, int32_t room, int32_t own, int32_t *out) {
    TRY(add_up(c, c->p->member, sub, CHUNK_OUTGOING, room, own, out));
    c->free[room] = *out;
    return NULL;
}

static weft_status add_in_order(scatter *c, int32_t sub, int32_t room, int32_t own, int32_t *out) {
    chunk_plan *p = c->p;
    for (int32_t from = p->widens && p->member ? 0 : 1; from < p->nranks; from++) {
        int32_t t = 0;
        while (t < c->count && (c->all[t].hop.from != from || c->all[t].hop.sub != sub)) t++;
        TRY(from == p->member ? add_own(c, sub, room, own, out) : add_message(c, t));
        if (from != p->member) *out = c->all[t].added;
    }
    return NULL;
}

/* The own product of a piece and the message before it (-1: none) are added up; *out: the step behind which the sum is
 * there. */
static weft_status finish_sum(scatter *c, int32_t sub, int32_t t, int32_t *out) {
    int32_t room, own;
    TRY(multiply_own(c, sub, &room, &own));
    if (c->p->exchanges) return NULL;
    if (t >= 0 && !c->p->in_rank_order) TRY(add_message(c, t));
    return c->p->in_rank_order ? add_in_order(c, sub, room, own, out) : add_own(c, sub, room, own, out);
}

static weft_status begin(scatter *c) {
    chunk_plan *p = c->p;
    c->count = (p->nranks - 1) * p->nsub;
    c->all = ARENA_ARRAY(c->a, message, c->count);
    c->start = ARENA_ARRAY(c->a, int32_t, p->nsub);
    if (!c->all || !c->start) return base_out_of_memory();
    for (int32_t i = 0; i < p->nsub; i++) c->start[i] = -1;
    for (int32_t i = 0; i < MICRO_TURNS; i++) c->free[i] = -1;
    p->nbuffers = p->in_rank_order ? c->count : p->nturns;
    find_messages(c);
    return NULL;
}

/* Messages `first` to before `end`, each added up while the next is under way. */
static weft_status exchange_all(scatter *c, int32_t first, int32_t end) {
    for (int32_t t = first; t < end; t++) {
        TRY(exchange(c, t));
        if (t > first && !c->p->in_rank_order) TRY(add_message(c, t - 1));
    }
    return NULL;
}

static weft_status make_scatter(chunk_plan *p, arena *a) {
    scatter c = {.p = p, .a = a};
    TRY(begin(&c));
    TRY(exchange_all(&c, 0, c.count));
    for (int32_t sub = 0, done; sub < p->nsub; sub++) TRY(finish_sum(&c, sub, sub ? -1 : c.count - 1, &done));
    return NULL;
}

/* --- reduce ------------------------------------------------------------------------------------------------------- */

/* The own sum of a piece goes to all, and theirs come. */
static weft_status spread(scatter *c, int32_t sub, int32_t by) {
    chunk_plan *p = c->p;
    int32_t own = p->member * p->nsub + sub, n = p->nranks - 1, at;
    for (int32_t t = sub * n; t < (sub + 1) * n; t++) {
        const chunk_hop *h = &c->all[t].hop;
        TRY(chunk_plan_send(p, c->a, h, own, CHUNK_RESULTS, own, &at));
        chunk_plan_wait(p, at, by);
        TRY(chunk_plan_receive(p, c->a, h, h->from * p->nsub + sub, CHUNK_RESULTS, h->from * p->nsub + sub, &at));
    }
    return NULL;
}

/* Sums are spread while the next piece is multiplied. */
static weft_status make_scattered(chunk_plan *p, arena *a) {
    scatter c = {.p = p, .a = a};
    TRY(begin(&c));
    for (int32_t sub = 0, n = p->nranks - 1, before = -1, done = -1; sub < p->nsub; sub++, before = done) {
        TRY(exchange_all(&c, sub * n, (sub + 1) * n));
        if (sub) TRY(spread(&c, sub - 1, before));
        TRY(finish_sum(&c, sub, (sub + 1) * n - 1, &done));
        if (p->widens) TRY(convert(&c, sub, CHUNK_TOTALS, sub, CHUNK_RESULTS, p->member * p->nsub + sub, &done));
        if (sub + 1 == p->nsub) TRY(spread(&c, sub, done));
    }
    return NULL;
}

static weft_status make_reduce(chunk_plan *p, arena *a) {
    for (int32_t c = 0, multiplied, at; c < p->nsub; c++) {
        chunk_step s = {.action = CHUNK_MULTIPLY,
                        .stream = CHUNK_COMPUTE,
                        .from = CHUNK_OWN,
                        .to = CHUNK_RESULTS,
                        .chunk = c,
                        .peer = -1,
                        .lane = -1,
                        .from_buffer = c,
                        .buffer = c};
        TRY(chunk_plan_add(p, a, &s, &multiplied));
        s.action = CHUNK_REDUCE;
        s.stream = CHUNK_SENDS;
        s.from = CHUNK_RESULTS;
        TRY(chunk_plan_add(p, a, &s, &at));
        chunk_plan_wait(p, at, multiplied);
    }
    return NULL;
}

weft_status chunk_plan_make_sums(chunk_plan *p, arena *a) {
    if (p->kind == MICRO_SCATTER) return make_scatter(p, a);
    return p->is_scattered ? make_scattered(p, a) : make_reduce(p, a);
}
