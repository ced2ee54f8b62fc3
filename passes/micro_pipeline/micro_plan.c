/* micro_plan.c: the tables. */
#include "passes/micro_pipeline/micro_plan.h"
#include "program/grow.h"

static weft_status add(chunk_plan *p, arena *a, const chunk_step *step, int32_t *out) {
    TRY(grow(a, &p->steps, &p->capacity, p->count + 1, sizeof *p->steps));
    *out = (int32_t)p->count;
    p->steps[p->count++] = *step;
    return NULL;
}

static int32_t member(const chunk_plan *p, int64_t offset) {
    return (int32_t)((p->member + offset + p->nranks) % p->nranks);
}

static int32_t common_divisor(int32_t a, int32_t b) {
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* By where it stands on its circle. */
int chunk_lane(int nranks, int from, int s) {
    int step = common_divisor(nranks, s), length = nranks / step, at = from % step, index = 0;
    for (; at != from; index++) at = (at - s + nranks) % nranks;
    return length % 2 && index == length - 1 ? 2 : index % 2;
}

/* A wait is kept where streams, and the waits of the same stream before, do not say it. */
static void wait_for(chunk_plan *p, int32_t step, int32_t by) {
    chunk_step *s = &p->steps[step];
    if (by < 0 || p->steps[by].stream == s->stream) return;
    int32_t *waited = &p->waited[s->stream][p->steps[by].stream]; /* 1 + the last one */
    if (by < *waited) return;
    *waited = by + 1;
    int32_t at = 0;
    while (at < s->nwaits && p->steps[s->waits[at]].stream != p->steps[by].stream) at++;
    s->waits[at] = by;
    if (at == s->nwaits) s->nwaits++;
}

static void find_signals(chunk_plan *p) {
    for (size_t i = 0; i < p->count; i++)
        for (int32_t k = 0; k < p->steps[i].nwaits; k++) p->steps[p->steps[i].waits[k]].signals = true;
}

/* --- gather ------------------------------------------------------------------------------------------------------- */

/* Where the rows of a chunk come, by message `t`. */
static int32_t rows_buffer(const chunk_plan *p, int32_t chunk, int32_t t) {
    return p->nbuffers ? t % p->nbuffers : chunk;
}

/* What is done with a chunk once it came, by message `t`: its rows' products, and what it adds to sums. The last step
 * that reads it: *out. */
static weft_status multiply(chunk_plan *p, arena *a, int32_t chunk, int32_t t, int32_t by, int32_t *out) {
    bool is_own = t < 0;
    chunk_step s = {.action = CHUNK_MULTIPLY,
                    .stream = CHUNK_COMPUTE,
                    .from = is_own ? CHUNK_OWN : CHUNK_ROWS,
                    .to = CHUNK_RESULTS,
                    .chunk = chunk,
                    .peer = -1,
                    .lane = -1,
                    .buffer = chunk};
    s.from_buffer = !is_own ? rows_buffer(p, chunk, t) : p->exchanges ? chunk : chunk % p->nsub;
    if (p->multiplies) {
        TRY(add(p, a, &s, out));
        wait_for(p, *out, by);
    }
    if (!p->accumulates) return NULL;
    s.action = CHUNK_ACCUMULATE;
    s.to = CHUNK_TOTALS;
    s.buffer = chunk % p->nsub;
    TRY(add(p, a, &s, out));
    wait_for(p, *out, by);
    return NULL;
}

/* The t-th message of each direction. Rows that are not kept come to one of two buffers, once the rows there are read.
 */
static weft_status send_and_receive(chunk_plan *p, arena *a, int32_t t, const int32_t *read, int32_t *out_came) {
    int32_t s = t / p->nsub + 1, c = t % p->nsub, to = member(p, -s), from = member(p, s), chunk = from * p->nsub + c,
            at;
    TRY(add(p, a,
            &(chunk_step){.action = CHUNK_SEND,
                          .stream = CHUNK_SENDS,
                          .from = CHUNK_OWN,
                          .to = CHUNK_SPACES,
                          .chunk = p->member * p->nsub + c,
                          .peer = to,
                          .lane = chunk_lane(p->nranks, p->member, s),
                          .from_buffer = p->exchanges ? to * p->nsub + c : c,
                          .buffer = -1},
            &at));
    TRY(add(p, a,
            &(chunk_step){.action = CHUNK_RECEIVE,
                          .stream = CHUNK_RECEIVES,
                          .from = CHUNK_SPACES,
                          .to = CHUNK_ROWS,
                          .chunk = chunk,
                          .peer = from,
                          .lane = chunk_lane(p->nranks, from, s),
                          .from_buffer = -1,
                          .buffer = rows_buffer(p, chunk, t)},
            out_came));
    if (p->nbuffers && t >= p->nbuffers) wait_for(p, *out_came, read[t - p->nbuffers]);
    return NULL;
}

static weft_status keep_own(chunk_plan *p, arena *a) {
    for (int32_t c = 0, at; c < p->nsub && p->keeps_rows; c++) {
        int32_t chunk = p->member * p->nsub + c;
        TRY(add(p, a,
                &(chunk_step){.action = CHUNK_KEEP,
                              .stream = CHUNK_COMPUTE,
                              .from = CHUNK_OWN,
                              .to = CHUNK_ROWS,
                              .chunk = chunk,
                              .peer = -1,
                              .lane = -1,
                              .from_buffer = p->exchanges ? chunk : c,
                              .buffer = chunk},
                &at));
    }
    return NULL;
}

/* Messages are begun as far ahead as there are buffers. */
static weft_status make_gather(chunk_plan *p, arena *a) {
    int32_t count = (p->nranks - 1) * p->nsub, at;
    int32_t *came = ARENA_ARRAY(a, int32_t, count), *read = ARENA_ARRAY(a, int32_t, count);
    if (!came || !read) return base_out_of_memory();
    p->nbuffers = p->keeps_rows || count <= 2 ? 0 : 2;
    int32_t ahead = p->nbuffers ? p->nbuffers : count, begun = 0;
    for (; begun < ahead; begun++) TRY(send_and_receive(p, a, begun, read, &came[begun]));
    for (int32_t c = 0; c < p->nsub; c++) TRY(multiply(p, a, p->member * p->nsub + c, -1, -1, &at));
    for (int32_t t = 0; t < count; t++) {
        TRY(multiply(p, a, member(p, t / p->nsub + 1) * p->nsub + t % p->nsub, t, came[t], &read[t]));
        if (begun == count) continue;
        TRY(send_and_receive(p, a, begun, read, &came[begun]));
        begun++;
    }
    return keep_own(p, a);
}

/* --- scatter ------------------------------------------------------------------------------------------------------ */

typedef struct message {
    int32_t multiplied, sent, received, added;
} message;

typedef struct scatter {
    chunk_plan *p;
    arena *a;
    message *all;
    int32_t count;      /* messages of one direction */
    int32_t *added_own; /* by piece: the step that adds the own product */
    int32_t *start;     /* by piece: the step that begins its sum; -1: none, or a sum was formed behind it */
} scatter;

/* The t-th message that comes begins a sum, and so comes to where that is formed. */
static bool begins(const scatter *c, int32_t t) {
    const chunk_plan *p = c->p;
    if (p->exchanges) return true;
    return p->in_rank_order ? member(p, t / p->nsub + 1) == 0 : t < p->nsub;
}

static int32_t incoming(const scatter *c, int32_t t) {
    return c->p->in_rank_order ? t : (c->p->widens ? t : t - c->p->nsub) % 2;
}

/* Adds the product of a member's rows to the sum of a piece, once both are there. */
static weft_status add_up(scatter *c, int32_t from, int32_t sub, chunk_space space, int32_t from_buffer, int32_t by,
                          int32_t *out) {
    TRY(add(c->p, c->a,
            &(chunk_step){.action = CHUNK_ADD,
                          .stream = CHUNK_SUMS,
                          .from = (uint8_t)space,
                          .to = CHUNK_RESULTS,
                          .chunk = from * c->p->nsub + sub,
                          .peer = -1,
                          .lane = -1,
                          .from_buffer = from_buffer,
                          .buffer = sub},
            out));
    wait_for(c->p, *out, by);
    wait_for(c->p, *out, c->start[sub]);
    c->start[sub] = -1;
    return NULL;
}

static weft_status receive(scatter *c, int32_t t) {
    chunk_plan *p = c->p;
    bool starts = begins(c, t) && !p->widens;
    int32_t first = p->widens ? 0 : p->nsub; /* that comes to one of two buffers */
    int32_t sub = t % p->nsub, from = member(p, t / p->nsub + 1), to = p->exchanges ? from * p->nsub + sub : sub;
    message *m = &c->all[t];
    TRY(add(p, c->a,
            &(chunk_step){.action = CHUNK_RECEIVE,
                          .stream = CHUNK_RECEIVES,
                          .from = CHUNK_SPACES,
                          .to = starts ? CHUNK_RESULTS : CHUNK_INCOMING,
                          .chunk = p->member * p->nsub + sub,
                          .peer = from,
                          .lane = chunk_lane(p->nranks, from, t / p->nsub + 1),
                          .from_buffer = -1,
                          .buffer = starts ? to : incoming(c, t)},
            &m->received));
    if (starts) c->start[sub] = m->received;
    if (!starts && !p->in_rank_order && t - 2 >= first) wait_for(p, m->received, c->all[t - 2].added);
    return NULL;
}

static weft_status multiply_rows(scatter *c, int32_t chunk, chunk_space space, int32_t to_buffer, int32_t *out) {
    return add(c->p, c->a,
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

/* The t-th message: its product, the send, and the receive of another's. */
static weft_status exchange(scatter *c, int32_t t) {
    chunk_plan *p = c->p;
    int32_t to = member(p, -(t / p->nsub + 1)), chunk = to * p->nsub + t % p->nsub;
    message *m = &c->all[t];
    TRY(multiply_rows(c, chunk, CHUNK_OUTGOING, t % 2, &m->multiplied));
    if (t >= 2) wait_for(p, m->multiplied, c->all[t - 2].sent);
    TRY(add(p, c->a,
            &(chunk_step){.action = CHUNK_SEND,
                          .stream = CHUNK_SENDS,
                          .from = CHUNK_OUTGOING,
                          .to = CHUNK_SPACES,
                          .chunk = chunk,
                          .peer = to,
                          .lane = chunk_lane(p->nranks, p->member, t / p->nsub + 1),
                          .from_buffer = t % 2,
                          .buffer = -1},
            &m->sent));
    wait_for(p, m->sent, m->multiplied);
    return receive(c, t);
}

/* The message that begins a sum, as what the sum is of. */
static weft_status convert(scatter *c, int32_t t) {
    chunk_plan *p = c->p;
    int32_t sub = t % p->nsub;
    TRY(add(p, c->a,
            &(chunk_step){.action = CHUNK_KEEP,
                          .stream = CHUNK_SUMS,
                          .from = CHUNK_INCOMING,
                          .to = CHUNK_RESULTS,
                          .chunk = p->member * p->nsub + sub,
                          .peer = -1,
                          .lane = -1,
                          .from_buffer = incoming(c, t),
                          .buffer = sub},
            &c->all[t].added));
    wait_for(p, c->all[t].added, c->all[t].received);
    return NULL;
}

static weft_status add_message(scatter *c, int32_t t) {
    if (begins(c, t)) return c->p->widens ? convert(c, t) : NULL;
    return add_up(c, member(c->p, t / c->p->nsub + 1), t % c->p->nsub, CHUNK_INCOMING, incoming(c, t),
                  c->all[t].received, &c->all[t].added);
}

/* The own product of a piece; *out_buffer -1: it begins the sum. */
static weft_status multiply_own(scatter *c, int32_t sub, int32_t *out_buffer, int32_t *out) {
    chunk_plan *p = c->p;
    bool starts = p->exchanges || (p->in_rank_order && p->member == 0);
    int32_t t = c->count + sub, to = p->exchanges ? p->member * p->nsub + sub : sub;
    *out_buffer = starts ? -1 : t % 2;
    TRY(multiply_rows(c, p->member * p->nsub + sub, starts ? CHUNK_RESULTS : CHUNK_OUTGOING, starts ? to : t % 2, out));
    if (starts) c->start[sub] = *out;
    if (!starts && t >= 2 && t - 2 < c->count) wait_for(p, *out, c->all[t - 2].sent);
    if (!starts && sub >= 2) wait_for(p, *out, c->added_own[sub - 2]);
    return NULL;
}

static weft_status add_in_order(scatter *c, int32_t sub, int32_t own_buffer, int32_t own) {
    chunk_plan *p = c->p;
    for (int32_t from = p->widens && p->member ? 0 : 1; from < p->nranks; from++) {
        int32_t t = ((from - p->member + p->nranks) % p->nranks - 1) * p->nsub + sub;
        TRY(from == p->member ? add_up(c, from, sub, CHUNK_OUTGOING, own_buffer, own, &c->added_own[sub])
                              : add_message(c, t));
    }
    return NULL;
}

static weft_status make_scatter(chunk_plan *p, arena *a) {
    scatter c = {.p = p, .a = a, .count = (p->nranks - 1) * p->nsub};
    c.all = ARENA_ARRAY(a, message, c.count);
    c.start = ARENA_ARRAY(a, int32_t, p->nsub);
    c.added_own = ARENA_ARRAY(a, int32_t, p->nsub);
    if (!c.all || !c.start || !c.added_own) return base_out_of_memory();
    for (int32_t i = 0; i < p->nsub; i++) c.start[i] = c.added_own[i] = -1;
    p->nbuffers = p->in_rank_order ? c.count : 2;
    for (int32_t t = 0; t < c.count; t++) {
        TRY(exchange(&c, t));
        if (t && !p->in_rank_order) TRY(add_message(&c, t - 1));
    }
    for (int32_t sub = 0, buffer_of, own; sub < p->nsub; sub++) {
        TRY(multiply_own(&c, sub, &buffer_of, &own));
        if (p->exchanges) continue;
        if (!sub && !p->in_rank_order) TRY(add_message(&c, c.count - 1));
        TRY(p->in_rank_order ? add_in_order(&c, sub, buffer_of, own)
                             : add_up(&c, p->member, sub, CHUNK_OUTGOING, buffer_of, own, &c.added_own[sub]));
    }
    return NULL;
}

/* --- reduce ------------------------------------------------------------------------------------------------------- */

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
        TRY(add(p, a, &s, &multiplied));
        s.action = CHUNK_REDUCE;
        s.stream = CHUNK_SENDS;
        s.from = CHUNK_RESULTS;
        TRY(add(p, a, &s, &at));
        wait_for(p, at, multiplied);
    }
    return NULL;
}

weft_status chunk_plan_make(arena *a, const chunk_plan *asked, chunk_plan *out) {
    *out = (chunk_plan){.kind = asked->kind,
                        .nranks = asked->nranks,
                        .member = asked->member,
                        .nsub = asked->nsub,
                        .in_rank_order = asked->in_rank_order,
                        .keeps_rows = asked->keeps_rows,
                        .exchanges = asked->exchanges,
                        .widens = asked->widens,
                        .multiplies = asked->multiplies,
                        .accumulates = asked->accumulates};
    TRY(out->kind == MICRO_GATHER    ? make_gather(out, a)
        : out->kind == MICRO_SCATTER ? make_scatter(out, a)
                                     : make_reduce(out, a));
    find_signals(out);
    return NULL;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static const char *const action_names[] = {
    [CHUNK_MULTIPLY] = "multiply", [CHUNK_SEND] = "send", [CHUNK_RECEIVE] = "receive",
    [CHUNK_ADD] = "add",           [CHUNK_KEEP] = "keep", [CHUNK_ACCUMULATE] = "accumulate",
    [CHUNK_REDUCE] = "reduce"};
static const char *const stream_names[] = {
    [CHUNK_COMPUTE] = "compute", [CHUNK_SENDS] = "sends", [CHUNK_RECEIVES] = "receives", [CHUNK_SUMS] = "sums"};
static const char *const space_names[] = {
    [CHUNK_OWN] = "own",           [CHUNK_ROWS] = "rows",         [CHUNK_RESULTS] = "results",
    [CHUNK_OUTGOING] = "outgoing", [CHUNK_INCOMING] = "incoming", [CHUNK_TOTALS] = "totals"};

static void print_place(buffer *out, const char *key, int space, int32_t index) {
    if (space < CHUNK_SPACES) buffer_format(out, ", %s: %s.%d", key, space_names[space], index);
}

void chunk_plan_print(const chunk_plan *p, const char *label, buffer *out) {
    buffer_format(out, "%s, member %d of %d:\n", label, p->member, p->nranks);
    for (size_t i = 0; i < p->count; i++) {
        const chunk_step *s = &p->steps[i];
        buffer_format(out, "  - {step: %zu, do: %s, stream: %s, chunk: %d", i, action_names[s->action],
                      stream_names[s->stream], s->chunk);
        if (s->peer >= 0) buffer_format(out, ", peer: %d, lane: %d", s->peer, s->lane);
        print_place(out, "from", s->from, s->from_buffer);
        print_place(out, "to", s->to, s->buffer);
        buffer_text(out, s->nwaits ? ", waits: [" : "");
        for (int32_t k = 0; k < s->nwaits; k++) buffer_format(out, "%s%d", k ? ", " : "", s->waits[k]);
        buffer_text(out, s->nwaits ? "]" : "");
        buffer_text(out, s->signals ? ", signals: true}\n" : "}\n");
    }
}
