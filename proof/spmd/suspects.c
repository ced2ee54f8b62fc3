/* suspects.c: see suspects.h. Terms that differ say what to look for, no more: a rule that is missing makes equal
 * values different terms. So only a witness makes a suspicion a verdict. */
#include "proof/spmd/suspects.h"

#include <stdio.h>

static bool is_suspected(const finding *f) {
    return f->difference == WEFT_DIFFERENCE_SUSPECTED;
}

static weft_status say_shown(weft_equivalence *e, finding *f, const weft_witness_answer *a) {
    char whose[48];
    snprintf(whose, sizeof whose, a->rank < 0 ? "of the ranks together" : "of rank %lld", (long long)a->rank);
    f->difference = WEFT_DIFFERENCE_SHOWN;
    f->message = arena_format(&e->arena, "%s\n         shown by random data: element %lld %s is %.9g, expected %.9g",
                              f->message, (long long)a->element, whose, a->found, a->expected);
    return f->message ? NULL : base_out_of_memory();
}

static weft_status say_suspected(weft_equivalence *e, finding *f, const char *reason) {
    f->message = arena_format(&e->arena, "%s\n         suspected only: %s", f->message, reason);
    return f->message ? NULL : base_out_of_memory();
}

static weft_status ask(weft_equivalence *e, const weft_witness_question *q, const weft_equivalence_options *o,
                       finding *const *suspects, arena *memory) {
    char reason[WEFT_WITNESS_REASON] = "";
    weft_witness_answer *answers = ARENA_ARRAY(memory, weft_witness_answer, q->nvars);
    if (!answers) return base_out_of_memory();
    if (o->witness)
        TRY(o->witness(o->witness_data, q, answers, reason));
    else
        snprintf(reason, sizeof reason, "nobody was asked to compute it");
    for (size_t i = 0; i < q->nvars; i++) {
        if (answers[i].differs)
            TRY(say_shown(e, suspects[i], &answers[i]));
        else
            TRY(say_suspected(e, suspects[i], *reason ? reason : "random data does not show it"));
    }
    return NULL;
}

weft_status suspects_ask(weft_equivalence *e, const weft_witness_question *about, const weft_equivalence_options *o) {
    arena memory;
    arena_init(&memory, &e->context->allocator);
    weft_status status = NULL;
    weft_witness_question q = *about;
    const char **vars = ARENA_ARRAY(&memory, const char *, e->count + 1);
    int64_t *ranks = ARENA_ARRAY(&memory, int64_t, e->count + 1);
    finding **suspects = ARENA_ARRAY(&memory, finding *, e->count + 1);
    if (!vars || !ranks || !suspects) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < e->count; i++) {
        if (!is_suspected(&e->items[i])) continue;
        vars[q.nvars] = e->items[i].var;
        ranks[q.nvars] = e->items[i].rank;
        suspects[q.nvars++] = &e->items[i];
    }
    q.vars = vars;
    q.var_ranks = q.before ? ranks : NULL;
    if (q.nvars) TRY_DONE(ask(e, &q, o, suspects, &memory));
done:
    arena_fini(&memory);
    return status;
}
