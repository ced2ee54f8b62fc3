/* mutants.h: counts of a mutation suite, and its two halves: schedules and values. */
#ifndef TESTS_SUPPORT_MUTANTS_H
#define TESTS_SUPPORT_MUTANTS_H

#include "tests/support/exact.h"
#include "tests/support/mutate.h"

enum { PLAN_WAIT_DROPPED = MUTATIONS, PLAN_WAIT_LOWERED, PLAN_WAIT_MOVED, PLAN_OVERLAPPED, MUTANT_CLASSES };

typedef struct mutant_count {
    size_t nmutants;
    size_t ncaught;            /* wrong, and refused */
    size_t nnot_proved;        /* refused, though nothing is wrong with it that was seen */
    size_t nharmless;          /* nothing wrong, and accepted */
    size_t nmissed;            /* wrong, and accepted */
    size_t nconfirmed, ntried; /* schedules: a run with a delay differs, of those that were run */
    size_t nkept;              /* those that were not, since any run keeps the pairs in order */
} mutant_count;

typedef struct mutant_table {
    mutant_count of[MUTANT_CLASSES];
    size_t per_class; /* of one program */
    size_t nconfirm;  /* races to confirm by a run, of one program and class */
    void (*complain)(const char *message);
} mutant_table;

/* Mutants of schedules: `w` is exact and has its passes behind it. */
void mutate_schedules(mutant_table *t, const exact_world *w, const char *folder);
/* The same of one rank's plan, which has the waits that bytes ask for. */
void mutate_plans(mutant_table *t, const exact_world *w, const char *folder);
/* Mutants of values. */
void mutate_values(mutant_table *t, const exact_world *w, const char *folder);

/* Programs that are right. */
typedef struct accepted {
    size_t nprograms, nplans, nrefused;
    size_t nwrong; /* recorded programs that are wrong by themselves */
    void (*complain)(const char *message);
} accepted;
/* A recorded program, as it is and after every subset of the passes; and all below a folder of fixtures. */
void accept_folder(accepted *a, weft_context *context, const char *folder);
void accept_all(accepted *a, weft_context *context, const char *parent);
bool plan_is_accepted(const weft_plan *plan);

/* A number that depends on its arguments alone. */
static inline unsigned mutant_draw(size_t a, size_t b) {
    uint64_t x = (a * 1000003 + b + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)((x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) >> 34);
}

#endif
