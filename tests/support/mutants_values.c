/* mutants_values.c: is a program with one thing changed still taken for what it was? What it is, two steps on all ranks
 * tell: they are exact. Where results differ, weft_equivalent or weft_verify must have refused it. */
#include <stdio.h>
#include <string.h>

#include "tests/support/must.h"
#include "tests/support/mutants.h"
#include "weft/equivalent.h"
#include "weft/verify.h"

typedef struct suite {
    mutant_table *table;
    const exact_world *world;
    const char *folder;
    exact_result expected;
    size_t nfindings; /* of the world as it is */
} suite;

/* Whether an earlier finding says the same of another rank. */
static bool is_reported(const weft_findings *found, size_t index) {
    const char *message = weft_finding_at(found, index)->message, *rank = strstr(message, " (rank ");
    size_t n = rank ? (size_t)(rank - message) : strlen(message);
    for (size_t i = 0; i < index; i++)
        if (strncmp(weft_finding_at(found, i)->message, message, n) == 0) return true;
    return false;
}

/* Ranks with one program are judged once, so what all have counts once wherever programs differ. */
static size_t count_findings(const exact_world *w) {
    weft_findings *found;
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES, .nranks = w->nranks};
    weft_status status = weft_verify((const weft_program *const *)w->programs, (size_t)w->nranks, &o, &found);
    if (status) {
        weft_status_free(status);
        return SIZE_MAX;
    }
    size_t n = 0;
    for (size_t i = 0; i < weft_findings_count(found); i++) n += !is_reported(found, i);
    weft_findings_destroy(found);
    return n;
}

static bool is_refused(const suite *s, const exact_world *mutant, const bool *is_changed) {
    for (int r = 0; r < mutant->nranks; r++) {
        weft_equivalence *e;
        if (!is_changed[r]) continue;
        weft_status status = weft_equivalent(s->world->programs[r], mutant->programs[r], NULL, &e);
        if (status) {
            weft_status_free(status);
            return true;
        }
        weft_grade grade = weft_equivalence_grade(e);
        weft_equivalence_destroy(e);
        if (grade == WEFT_NOT_PROVED) return true;
    }
    return count_findings(mutant) > s->nfindings;
}

static void judge_mutant(suite *s, const exact_world *mutant, const bool *is_changed, mutation how, size_t index) {
    mutant_count *count = &s->table->of[how];
    exact_result found;
    char difference[320], message[640];
    bool refused = is_refused(s, mutant, is_changed);
    world_run(mutant, NULL, &found);
    bool equal = result_equal(&s->expected, &found, difference, sizeof difference);
    count->nmutants++;
    *(equal ? refused ? &count->nnot_proved : &count->nharmless : refused ? &count->ncaught : &count->nmissed) += 1;
    if (!equal && !refused) {
        int r = 0;
        while (r < mutant->nranks - 1 && !is_changed[r]) r++;
        weft_op *op = s->world->programs[r]->blocks[0]->first;
        for (size_t i = 0; i < index; i++) op = op->next;
        snprintf(message, sizeof message, "%s: %s #%zu of rank %d%s: %s is accepted, but %s", s->folder,
                 op->type->bytes, index, r, is_changed[mutant->nranks - 1] && !r ? " and all" : "", mutation_name(how),
                 difference);
        s->table->complain(message);
    }
    result_free(&found);
}

/* On all ranks, or on one of them. False: there is nothing to change there. */
static bool try_mutant(suite *s, exact_world *mutant, mutation how, size_t index, unsigned draw) {
    bool is_changed[EXACT_MOST_RANKS] = {false}, any = false;
    int only = draw % 3 ? (int)(draw / 3) % mutant->nranks : -1;
    for (int r = 0; r < mutant->nranks; r++) {
        if (only >= 0 && r != only) continue;
        is_changed[r] = mutate(mutant->programs[r], index, how, draw / 32);
        any |= is_changed[r];
    }
    if (any) judge_mutant(s, mutant, is_changed, how, index);
    return any;
}

void mutate_values(mutant_table *t, const exact_world *w, const char *folder) {
    suite s = {.table = t, .world = w, .folder = folder, .nfindings = count_findings(w)};
    size_t nops = w->programs[0]->blocks[0]->nops;
    char message[640];
    world_run(w, NULL, &s.expected);
    if (!s.expected.nranks || !result_is_finite(&s.expected)) {
        snprintf(message, sizeof message, "%s: it does not run, or overflows: %s", folder, s.expected.why_not);
        t->complain(message);
    }
    for (int how = 0; how < VALUE_MUTATIONS && s.expected.nranks; how++) {
        exact_world mutant;
        size_t made = 0;
        world_clone(w, &mutant);
        for (size_t i = 0; i < nops && made < t->per_class; i++) {
            unsigned draw = mutant_draw(i, (size_t)how);
            size_t index = (i * 7 + draw % 3) % nops;
            if (!try_mutant(&s, &mutant, (mutation)how, index, draw)) continue;
            made++;
            world_free(&mutant);
            world_clone(w, &mutant);
        }
        world_free(&mutant);
    }
    result_free(&s.expected);
}
