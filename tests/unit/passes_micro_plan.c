/* passes_micro_plan.c: chunk plans of micro_pipeline_tp: right ones are proved, each with one thing wrong is refused.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "passes/micro_pipeline/micro_plan.h"
#include "tests/support/must.h"

enum { MOST_RANKS = 8 };

static weft_context *context;
static arena memory;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
    arena_init(&memory, &context->allocator);
}
static void tear_down(void) {
    arena_fini(&memory);
    weft_context_destroy(context);
}
TestSuite(passes_micro_plan, .init = set_up, .fini = tear_down);

static void make(const chunk_plan *asked, chunk_plan *plans) {
    chunk_plan one = *asked;
    for (int i = 0; i < asked->nranks; i++) {
        one.member = i;
        must(chunk_plan_make(&memory, &one, &plans[i]));
    }
}

static const char *prove(const chunk_plan *plans) {
    const char *message;
    must(chunk_plans_prove(&memory, plans, &message));
    return message;
}

static const chunk_plan kinds[] = {
    {.kind = MICRO_GATHER, .multiplies = true},
    {.kind = MICRO_GATHER, .multiplies = true, .keeps_rows = true},
    {.kind = MICRO_GATHER, .accumulates = true},
    {.kind = MICRO_GATHER, .multiplies = true, .accumulates = true, .keeps_rows = true},
    {.kind = MICRO_SCATTER},
    {.kind = MICRO_SCATTER, .in_rank_order = true},
    {.kind = MICRO_SCATTER, .widens = true},
    {.kind = MICRO_SCATTER, .in_rank_order = true, .widens = true},
    {.kind = MICRO_REDUCE},
    {.kind = MICRO_REDUCE, .is_scattered = true},
    {.kind = MICRO_REDUCE, .is_scattered = true, .in_rank_order = true},
    {.kind = MICRO_REDUCE, .is_scattered = true, .widens = true},
    {.kind = MICRO_REDUCE, .is_scattered = true, .in_rank_order = true, .widens = true},
    {.kind = MICRO_GATHER, .exchanges = true, .multiplies = true, .keeps_rows = true},
    {.kind = MICRO_SCATTER, .exchanges = true},
};
static const char *const kind_names[] = {
    [MICRO_GATHER] = "gather", [MICRO_SCATTER] = "scatter", [MICRO_REDUCE] = "reduce"};

/* Calls `visit` with the plans of each kind, for 2 to 8 ranks and 1 to 3 pieces. */
static void for_each_kind(int most_ranks, void (*visit)(const chunk_plan *asked, chunk_plan *plans)) {
    for (int n = 2; n <= most_ranks; n++)
        for (int nsub = 1; nsub <= 3; nsub++)
            for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
                chunk_plan plans[MOST_RANKS], asked = kinds[kind];
                asked.nranks = n;
                asked.nsub = nsub;
                for (int ways = 1; ways <= (n > 2 && (asked.kind != MICRO_REDUCE || asked.is_scattered) ? 2 : 1);
                     ways++) {
                    asked.both_ways = ways == 2;
                    make(&asked, plans);
                    visit(&asked, plans);
                }
            }
}

static void print_name(const chunk_plan *asked, char *out, size_t room) {
    snprintf(out, room, "%s of %d ranks, %d pieces%s%s%s%s%s%s%s", kind_names[asked->kind], asked->nranks, asked->nsub,
             asked->is_scattered ? ", scattered" : "", asked->both_ways ? ", both ways" : "",
             asked->exchanges ? ", all to all" : "", asked->widens ? ", wider sums" : "",
             asked->keeps_rows ? ", rows kept" : "", asked->accumulates ? ", added up" : "",
             asked->in_rank_order ? ", in the order of ranks" : "");
}

static void is_proved(const chunk_plan *asked, chunk_plan *plans) {
    char words[128];
    const char *message = prove(plans);
    print_name(asked, words, sizeof words);
    cr_expect_null(message, "%s: %s", words, message ? message : "");
}

Test(passes_micro_plan, right_plans_are_proved) {
    for_each_kind(MOST_RANKS, is_proved);
}

static size_t nmutants;

static void expect_refused(const chunk_plan *asked, const chunk_plan *plans, int member, size_t step,
                           const char *what) {
    char words[128];
    nmutants++;
    print_name(asked, words, sizeof words);
    cr_expect_not_null(prove(plans), "%s: member %d, step %zu: accepted although %s", words, member, step, what);
}

static void drop_each_wait(const chunk_plan *asked, chunk_plan *plans) {
    for (size_t i = 0; i < plans[0].count; i++)
        for (int32_t k = 0; k < plans[0].steps[i].nwaits; k++) {
            chunk_step *s = &plans[0].steps[i], old = *s;
            s->waits[k] = s->waits[s->nwaits - 1];
            s->nwaits--;
            expect_refused(asked, plans, 0, i, "a wait is dropped");
            *s = old;
        }
}

Test(passes_micro_plan, no_wait_can_be_dropped) {
    for_each_kind(5, drop_each_wait);
    cr_expect_gt(nmutants, 300);
}

static void change_buffers(const chunk_plan *asked, chunk_plan *plans) {
    int member = asked->nranks - 1;
    for (size_t i = 0; i < plans[member].count; i++) {
        chunk_step *s = &plans[member].steps[i], old = *s;
        if (s->to == CHUNK_OUTGOING || s->to == CHUNK_INCOMING) {
            s->buffer ^= 1; /* the other of two */
            bool is_same = s->to == CHUNK_INCOMING && asked->in_rank_order && s->buffer >= plans[member].nbuffers;
            if (!is_same) expect_refused(asked, plans, member, i, "it writes the other buffer");
            *s = old;
        }
        if (s->to == CHUNK_ROWS && plans[member].nbuffers) {
            s->buffer ^= 1;
            expect_refused(asked, plans, member, i, "rows come to the other buffer");
            *s = old;
        }
        if (s->from == CHUNK_ROWS && plans[member].nbuffers) {
            s->from_buffer ^= 1;
            expect_refused(asked, plans, member, i, "it multiplies what is in the other buffer");
            *s = old;
        }
        if (s->from == CHUNK_OUTGOING || s->from == CHUNK_INCOMING) {
            s->from_buffer ^= 1;
            expect_refused(asked, plans, member, i, "it reads the other buffer");
            *s = old;
        }
        int32_t nresults =
            asked->kind == MICRO_REDUCE && !asked->is_scattered ? asked->nsub : asked->nranks * asked->nsub;
        if (s->to == CHUNK_RESULTS && nresults > 1) {
            s->buffer = (s->buffer + 1) % (asked->kind == MICRO_SCATTER ? 2 : nresults);
            expect_refused(asked, plans, member, i, "its result is another");
            *s = old;
        }
        if (s->to == CHUNK_TOTALS) {
            s->buffer++;
            expect_refused(asked, plans, member, i, "it adds to another sum");
            *s = old;
            s->from_buffer ^= 1;
            expect_refused(asked, plans, member, i, "it adds the product of other rows");
            *s = old;
        }
    }
}

Test(passes_micro_plan, no_buffer_can_be_another) {
    for_each_kind(5, change_buffers);
    cr_expect_gt(nmutants, 300);
}

/* One member reduces pieces in another order, or one of them early. */
static void change_reduces(const chunk_plan *asked, chunk_plan *plans) {
    chunk_plan *p = &plans[asked->nranks - 1];
    for (size_t i = 0; asked->kind == MICRO_REDUCE && !asked->is_scattered && i + 2 < p->count; i++) {
        chunk_step *a = &p->steps[i], *b = &p->steps[i + 2], old_a = *a, old_b = *b;
        if (a->action != CHUNK_REDUCE) continue;
        a->chunk = a->buffer = a->from_buffer = old_b.chunk;
        b->chunk = b->buffer = b->from_buffer = old_a.chunk;
        expect_refused(asked, plans, asked->nranks - 1, i, "pieces are reduced in another order");
        *a = old_a, *b = old_b;
        b->action = CHUNK_KEEP;
        expect_refused(asked, plans, asked->nranks - 1, i, "a piece is not reduced");
        *b = old_b;
    }
}

Test(passes_micro_plan, pieces_are_reduced_in_one_order) {
    for_each_kind(5, change_reduces);
    cr_expect_gt(nmutants, 20);
}

static void change_peers(const chunk_plan *asked, chunk_plan *plans) {
    for (size_t i = 0; i < plans[1].count; i++) {
        chunk_step *s = &plans[1].steps[i], old = *s;
        if (s->peer < 0) continue;
        s->peer = (s->peer + 1) % asked->nranks;
        expect_refused(asked, plans, 1, i, "its peer is another");
        *s = old;
    }
}

Test(passes_micro_plan, no_peer_can_be_another) {
    for_each_kind(5, change_peers);
    cr_expect_gt(nmutants, 100);
}

/* Two messages of a stream change places. All members are sent the same rows to gather: these sends may. */
static void swap_steps(const chunk_plan *asked, chunk_plan *plans) {
    chunk_plan *p = &plans[0];
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = i + 1; k < p->count; k++) {
            chunk_step *a = &p->steps[i], *b = &p->steps[k], old_a = *a, old_b = *b;
            if (a->stream != b->stream || a->action != b->action || a->peer < 0) continue;
            if (a->action == CHUNK_SEND && asked->kind == MICRO_GATHER && !asked->exchanges) continue;
            if (a->action == CHUNK_SEND && a->from == CHUNK_RESULTS && b->from == CHUNK_RESULTS) continue;
            a->peer = old_b.peer, b->peer = old_a.peer;
            if (old_a.peer == old_b.peer) continue;
            expect_refused(asked, plans, 0, i, "messages are in another order");
            *a = old_a, *b = old_b;
        }
}

Test(passes_micro_plan, messages_keep_their_order) {
    for_each_kind(5, swap_steps);
    cr_expect_gt(nmutants, 100);
}

/* A message goes the other way round, or on another lane. */
static void change_ways(const chunk_plan *asked, chunk_plan *plans) {
    static const uint8_t others[] = {[CHUNK_SENDS] = CHUNK_SENDS_BACK,
                                     [CHUNK_RECEIVES] = CHUNK_RECEIVES_BACK,
                                     [CHUNK_SENDS_BACK] = CHUNK_SENDS,
                                     [CHUNK_RECEIVES_BACK] = CHUNK_RECEIVES};
    for (size_t i = 0; i < plans[0].count; i++) {
        chunk_step *s = &plans[0].steps[i], old = *s;
        if (s->peer < 0) continue;
        s->stream = others[s->stream];
        expect_refused(asked, plans, 0, i, "it goes the other way");
        *s = old;
        s->lane = (s->lane + 1) % MICRO_LANES;
        expect_refused(asked, plans, 0, i, "it goes on another lane");
        *s = old;
    }
}

Test(passes_micro_plan, messages_go_their_way) {
    for_each_kind(5, change_ways);
    cr_expect_gt(nmutants, 1000);
}

/* Steps in which a member sends: half as many, rounded up, where each sends to both sides. */
Test(passes_micro_plan, both_ways_take_half_the_steps) {
    for (int n = 2; n <= MOST_RANKS; n++) {
        chunk_plan asked = {.kind = MICRO_GATHER, .nranks = n, .nsub = 1, .multiplies = true}, plan;
        for (int ways = 1; ways <= 2; ways++) {
            int sent[CHUNK_STREAMS] = {0};
            asked.both_ways = ways == 2;
            must(chunk_plan_make(&memory, &asked, &plan));
            for (size_t i = 0; i < plan.count; i++) sent[plan.steps[i].stream] += plan.steps[i].action == CHUNK_SEND;
            cr_expect_eq(sent[CHUNK_SENDS], n > 2 && ways == 2 ? n / 2 : n - 1);
            cr_expect_eq(sent[CHUNK_SENDS] + sent[CHUNK_SENDS_BACK], n - 1);
        }
    }
}

Test(passes_micro_plan, a_plan_is_printed_as_a_table) {
    chunk_plan asked = {.kind = MICRO_GATHER, .nranks = 2, .nsub = 1, .multiplies = true}, plan;
    buffer out;
    buffer_init(&out, &context->allocator);
    must(chunk_plan_make(&memory, &asked, &plan));
    chunk_plan_print(&plan, "pair 0", &out);
    buffer_append(&out, "", 1);
    cr_expect_str_eq(
        out.bytes,
        "pair 0, member 0 of 2:\n"
        "  - {step: 0, do: send, stream: sends, chunk: 0, peer: 1, lane: 0, from: own.0}\n"
        "  - {step: 1, do: receive, stream: receives, chunk: 1, peer: 1, lane: 1, to: rows.1, signals: true}\n"
        "  - {step: 2, do: multiply, stream: compute, chunk: 0, from: own.0, to: results.0}\n"
        "  - {step: 3, do: multiply, stream: compute, chunk: 1, from: rows.1, to: results.1, waits: [1]}\n");
    buffer_fini(&out);
}
