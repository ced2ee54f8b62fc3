/* micro_plan.c: the tables: what all have in common, and gathers. */
#include "passes/micro_pipeline/micro_plan.h"
#include "program/grow.h"

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
        TRY(chunk_plan_add(p, a, &s, out));
        chunk_plan_wait(p, *out, by);
    }
    if (!p->accumulates) return NULL;
    s.action = CHUNK_ACCUMULATE;
    s.to = CHUNK_TOTALS;
    s.buffer = chunk % p->nsub;
    TRY(chunk_plan_add(p, a, &s, out));
    chunk_plan_wait(p, *out, by);
    return NULL;
}

/* The t-th message of each direction. Rows that are not kept come to buffers in turn, once the rows there are
 * read. */
static weft_status send_and_receive(chunk_plan *p, arena *a, int32_t t, const int32_t *read, int32_t *out_came) {
    chunk_hop h = chunk_find_hop(p, t);
    int32_t chunk = h.from * p->nsub + h.sub, at;
    TRY(chunk_plan_send(p, a, &h, p->member * p->nsub + h.sub, CHUNK_OWN, p->exchanges ? h.to * p->nsub + h.sub : h.sub,
                        &at));
    TRY(chunk_plan_receive(p, a, &h, chunk, CHUNK_ROWS, rows_buffer(p, chunk, t), out_came));
    if (p->nbuffers && t >= p->nbuffers) chunk_plan_wait(p, *out_came, read[t - p->nbuffers]);
    return NULL;
}

static weft_status keep_own(chunk_plan *p, arena *a) {
    for (int32_t c = 0, at; c < p->nsub && p->keeps_rows; c++) {
        int32_t chunk = p->member * p->nsub + c;
        TRY(chunk_plan_add(p, a,
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
    p->nbuffers = p->keeps_rows || count <= p->nturns ? 0 : p->nturns;
    int32_t ahead = p->nbuffers ? p->nbuffers : count, begun = 0;
    for (; begun < ahead; begun++) TRY(send_and_receive(p, a, begun, read, &came[begun]));
    for (int32_t c = 0; c < p->nsub; c++) TRY(multiply(p, a, p->member * p->nsub + c, -1, -1, &at));
    for (int32_t t = 0; t < count; t++) {
        chunk_hop h = chunk_find_hop(p, t);
        TRY(multiply(p, a, h.from * p->nsub + h.sub, t, came[t], &read[t]));
        if (begun == count) continue;
        TRY(send_and_receive(p, a, begun, read, &came[begun]));
        begun++;
    }
    return keep_own(p, a);
}

weft_status chunk_plan_make(arena *a, const chunk_plan *asked, chunk_plan *out) {
    *out = (chunk_plan){.kind = asked->kind,
                        .nranks = asked->nranks,
                        .member = asked->member,
                        .nsub = asked->nsub,
                        .in_rank_order = asked->in_rank_order,
                        .both_ways = asked->both_ways && asked->nranks > 2,
                        .keeps_rows = asked->keeps_rows,
                        .is_scattered = asked->is_scattered,
                        .exchanges = asked->exchanges,
                        .widens = asked->widens,
                        .multiplies = asked->multiplies,
                        .accumulates = asked->accumulates};
    out->nturns = out->both_ways ? MICRO_TURNS : MICRO_TURNS / 2;
    TRY(out->kind == MICRO_GATHER ? make_gather(out, a) : chunk_plan_make_sums(out, a));
    find_signals(out);
    return NULL;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static const char *const action_names[] = {
    [CHUNK_MULTIPLY] = "multiply", [CHUNK_SEND] = "send", [CHUNK_RECEIVE] = "receive",
    [CHUNK_ADD] = "add",           [CHUNK_KEEP] = "keep", [CHUNK_ACCUMULATE] = "accumulate",
    [CHUNK_REDUCE] = "reduce"};
static const char *const stream_names[] = {
    [CHUNK_COMPUTE] = "compute", [CHUNK_SENDS] = "sends",           [CHUNK_RECEIVES] = "receives",
    [CHUNK_SUMS] = "sums",       [CHUNK_SENDS_BACK] = "sends_back", [CHUNK_RECEIVES_BACK] = "receives_back"};
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
