/* proof_in_flight.c: races between one step and the next, which Paddle's executor does not keep apart: what the reading
 * by name claims shows when it is simulated with two steps in flight and the op late that nobody waits for. What does
 * not race shows nothing, whichever op is late. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/must.h"
#include "weft/program.h"
#include "weft/simulate.h"
#include "weft/verify.h"

enum { NVARS = 6, NOPS = 8 };

/* Ops of block 0 wait for one another by name; what a block under a condition does on streams nobody outside waits for.
 * It is one op, and not on compute: a late op that runs a block makes all of the block late, and so more than what
 * races. No op reads what it writes. */
static void write_op(FILE *to, uint64_t *seed, bool inner) {
    uint32_t x = draw_below(seed, NVARS), y = draw_below(seed, NVARS - 1), stream = draw_below(seed, inner ? 2 : 6);
    if (y >= x) y++;
    fprintf(to, "  - {relu: {X: v%u}, out: {Out: v%u}", x, y);
    if (stream < 2) fprintf(to, ", dist: {stream: s%u}", stream);
    fprintf(to, "}\n");
}

static weft_program *random_program(weft_context *context, uint64_t seed, uint32_t *out_conditional) {
    char *yaml = NULL;
    size_t nbytes;
    weft_program *p;
    uint32_t conditional = *out_conditional = draw_below(&seed, NOPS);
    FILE *to = open_memstream(&yaml, &nbytes);
    fprintf(to, "weft: 1\nblocks:\n- vars:\n    c: {bool: [1], persistable: true}\n");
    for (int i = 0; i < NVARS; i++) fprintf(to, "    v%d: {float32: [4]%s}\n", i, i % 2 ? ", persistable: true" : "");
    fprintf(to, "  ops:\n");
    for (uint32_t i = 0; i < NOPS; i++)
        if (i == conditional)
            fprintf(to, "  - {conditional_block: {Cond: c}, out: {Out: v1}, attrs: {sub_block: !block 1, "
                        "is_scalar_condition: true}}\n");
        else
            write_op(to, &seed, false);
    fprintf(to, "- parent: 0\n  vars: {}\n  ops:\n");
    write_op(to, &seed, true);
    fclose(to);
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, nbytes, NULL, 0, "random", &p));
    free(yaml);
    return p;
}

/* --- what is claimed ---------------------------------------------------------------------------------------------- */

/* By ops: whether the one in a step races with the other in the next. */
typedef struct claims {
    bool across[NOPS][NOPS];
    size_t nacross, nraces;
} claims;

static void find_claims(const weft_program *p, claims *out) {
    weft_findings *found;
    memset(out, 0, sizeof *out);
    must(weft_verify(
        &p, 1, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .nranks = 1}, &found));
    for (size_t i = 0; i < weft_findings_count(found); i++) {
        const weft_finding *f = weft_finding_at(found, i);
        if (f->verdict != WEFT_VERDICT_RACE) continue;
        out->nraces++;
        if (f->nops != 2 || !strstr(f->message, "in one step")) continue;
        out->across[f->ops[0].index][f->ops[1].index] = true;
        out->nacross++;
    }
    weft_findings_destroy(found);
}

/* --- what shows --------------------------------------------------------------------------------------------------- */

/* Whether a race of the late op in the first step with `later` in the second is seen; -1: with any op there. */
static bool shows(weft_context *context, const weft_plan *plan, int64_t late, int64_t later) {
    weft_delay delay = {.rank = -1, .op_index = late, .seconds = 1};
    weft_simulation_options o = {WEFT_SIMULATION_OPTIONS_INIT, .trace_steps = 1, .unsafe = true, .delays = &delay,
                                 .ndelays = 1};
    weft_simulation *x;
    bool seen = false;
    must(weft_simulation_create(context, &plan, 1, 1, &o, &x));
    must(weft_simulation_run(x));
    for (size_t i = 0; i < weft_simulation_nraces(x); i++) {
        weft_seen_race race;
        weft_simulation_race_at(x, i, &race);
        bool across = race.first.op_index < NOPS && race.second.op_index >= NOPS;
        seen |= across && (later < 0 || race.second.op_index == later + NOPS);
    }
    weft_simulation_destroy(x);
    return seen;
}

static weft_plan *plan_two_steps(weft_program *p) {
    weft_plan_order *order;
    weft_plan *plan;
    must(weft_program_repeat(p, 2));
    must(weft_plan_order_create(p, &(weft_order_options){WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME},
                                &order));
    must(weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, &plan));
    weft_plan_order_destroy(order);
    return plan;
}

Test(proof_in_flight, races_between_steps_show) {
    weft_context *context;
    size_t nsafe = 0, nclaims = 0;
    must(weft_context_create(NULL, &context));
    for (uint32_t seed = 1; seed <= 300; seed++) {
        uint32_t conditional;
        weft_program *p = random_program(context, seed, &conditional);
        claims c;
        find_claims(p, &c);
        weft_plan *plan = plan_two_steps(p);
        for (int a = 0; a < NOPS; a++)
            for (int b = 0; b < NOPS; b++) {
                if (!c.across[a][b] || b == (int)conditional) continue; /* a plan waits for the condition */
                cr_expect(shows(context, plan, a, b), "seed %u: #%d and #%d of the next step do not race", seed, a, b);
                nclaims++;
            }
        for (int a = 0; a < NOPS && !c.nraces; a++)
            cr_expect(!shows(context, plan, a, -1), "seed %u: steps race that are kept apart if #%d is late", seed, a);
        nsafe += !c.nraces;
        weft_plan_destroy(plan);
        weft_program_destroy(p);
    }
    weft_context_destroy(context);
    cr_expect_gt(nclaims, 50, "%zu races between steps are claimed", nclaims);
    cr_expect_gt(nsafe, 5, "%zu programs do not race", nsafe);
}
