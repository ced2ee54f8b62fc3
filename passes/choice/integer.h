/* integer.h: integer programs: columns with costs, rows that bound sums of them; and who solves them. Knows no programs
 * of ops. */
#ifndef PASSES_CHOICE_INTEGER_H
#define PASSES_CHOICE_INTEGER_H

#include "base/base.h"

typedef struct ip_entry {
    uint32_t row, column;
    double value;
} ip_entry;

/* The least sum of cost x value, where each row's sum of entry x value lies within its limits. All zero but `memory`:
 * empty. */
typedef struct integer_program {
    arena *memory;
    double *low, *high, *cost; /* by column */
    bool *is_whole;
    double *row_low, *row_high;
    ip_entry *entries; /* a column is in a row once at most */
    size_t ncolumns, nrows, nentries;
    size_t low_capacity, high_capacity, cost_capacity, whole_capacity, row_low_capacity, row_high_capacity,
        entry_capacity;
} integer_program;

#define IP_FREE 1e300 /* no limit */

WEFT_MUST_USE weft_status ip_add_column(integer_program *p, double low, double high, double cost, bool whole,
                                        uint32_t *out);
WEFT_MUST_USE weft_status ip_add_row(integer_program *p, double low, double high, uint32_t *out);
/* An entry of a row; a value of 0 is left out. */
WEFT_MUST_USE weft_status ip_put(integer_program *p, uint32_t row, uint32_t column, double value);

typedef enum ip_state {
    IP_BEST,   /* no answer costs less */
    IP_FOUND,  /* time ran out: `bound` says how much less another may cost */
    IP_NONE,   /* rows contradict one another */
    IP_STOPPED /* time ran out, and there is no answer yet */
} ip_state;

typedef struct ip_answer {
    ip_state state;
    double cost, bound;
    double *values; /* by column, in the program's memory */
} ip_answer;

/* cbc.c: COIN-OR's branch and cut, opened at run time: `library` is the name of its file. Whether it is there; *out_why
 * is a static text. From one thread at a time. */
bool cbc_open(const char *library, const char **out_why);
/* After cbc_open. Prints nothing. Equal programs have equal answers. */
WEFT_MUST_USE weft_status cbc_solve(const integer_program *p, double seconds, ip_answer *out);

#endif
