/* choice_solve.c: the best choice. What a rank holds is bounded at those ops alone where an answer breaks the limit:
 * each answer is the best under fewer bounds, so one that keeps them all is the best of all. */
#include <time.h>

#include "passes/choice/choice.h"
#include "program/grow.h"

enum { MOST_ROUNDS = 60, STRETCHES = 8 };

static double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status begin(choice *c, choice_result *out) {
    *out = (choice_result){0};
    out->taken.way = ARENA_ARRAY(c->memory, uint32_t, c->nops + 1);
    out->taken.home = ARENA_ARRAY(c->memory, uint32_t, c->nvars + 1);
    if (!out->taken.way || !out->taken.home) return base_out_of_memory();
    c->ncuts = 0;
    return NULL;
}

static weft_status add_cut(choice *c, size_t at, bool *out_new) {
    for (size_t i = 0; i < c->ncuts; i++)
        if (c->cuts[i] == at) return NULL;
    TRY(grow(c->memory, &c->cuts, &c->cut_capacity, c->ncuts + 1, sizeof *c->cuts));
    c->cuts[c->ncuts++] = (uint32_t)at;
    *out_new = true;
    return NULL;
}

/* The op that holds most, of each stretch of the program in which one holds too much. */
static weft_status add_cuts(choice *c, int64_t most, bool *out_new) {
    size_t n = c->plan->nops;
    *out_new = false;
    for (size_t s = 0; s < STRETCHES; s++) {
        size_t first = n * s / STRETCHES, end = n * (s + 1) / STRETCHES, worst = first;
        for (size_t k = first; k < end; k++)
            if (c->held[k] > c->held[worst]) worst = k;
        if (first < end && c->held[worst] > most) TRY(add_cut(c, worst, out_new));
    }
    return NULL;
}

/* Rows hold to a millionth. */
static int64_t allowed(const choice *c, bool least_memory, const ip_answer *answer) {
    double most = least_memory ? answer->values[c->most] / choice_unit(c) : (double)c->limit;
    return (int64_t)(most * (1 + 1e-6)) + 1;
}

weft_status choice_solve(choice *c, bool least_memory, choice_result *out) {
    bool more = true;
    if (c->ends <= 0) c->ends = clock_seconds() + c->seconds_limit;
    TRY(begin(c, out));
    for (out->rounds = 1; more; out->rounds++) {
        ip_answer answer;
        double left = c->ends - clock_seconds();
        if (left <= 0) return out->state = IP_STOPPED, NULL;
        TRY(choice_write_rows(c, least_memory));
        TRY(cbc_solve(&c->ip, left, &answer));
        out->state = answer.state;
        if (answer.state == IP_NONE || answer.state == IP_STOPPED) return NULL;
        choice_read_answer(c, &answer, &out->taken);
        out->bound = answer.bound / 1e6;
        TRY(choice_evaluate(c, &out->taken));
        if (!least_memory && !c->limit) return NULL;
        TRY(add_cuts(c, allowed(c, least_memory, &answer), &more));
        if (more && out->rounds >= MOST_ROUNDS) return out->state = IP_STOPPED, NULL;
    }
    out->rounds--;
    return NULL;
}
