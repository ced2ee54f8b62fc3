/* choice.h: what the files of the pass spmd_choose share.
 *
 * Each op has ways: its factors on mesh axes, or nothing, or sums that pass through. Each var has homes: placements in
 * which its name may lie. A choice takes one way for each op and one home for each var. Its price is what ops take on a
 * rank's parts, and what the steps take between ops. These lead from what an op makes to the var's home, and from there
 * to what ops read. A value under one placement is made once for all its readers. Ops and vars of a class are alike and
 * get the same. */
#ifndef PASSES_CHOICE_CHOICE_H
#define PASSES_CHOICE_CHOICE_H

#include "passes/choice/integer.h"
#include "passes/spmd/spmd_price.h"

typedef struct choice_way {
    axes_placed *in, *out; /* by argument of the rule */
    double seconds, sent;  /* of the op on a rank's part, and of what its form sends */
    bool is_left, is_shut; /* nothing leads to it; it is not asked for now: one axis is chosen for at a time */
} choice_way;

typedef struct choice_op { /* a class */
    const spmd_op *example;
    uint32_t count;
    choice_way *ways;
    size_t nways;
    uint32_t first_column;
} choice_op;

typedef struct choice_var { /* a class */
    const spmd_var *example;
    uint32_t count;
    bool is_annotated;
    axes_placed *homes;
    bool *may, *is_shut; /* by home: its name may lie so; not now */
    int64_t *nbytes;
    size_t nhomes, home_capacity;
    double *seconds; /* by home and home: of the steps from one to the other; negative: there are none */
    uint32_t first_column;
} choice_var;

enum { CHOICE_NONE = UINT32_MAX };

/* An argument of a class of ops that is of a class of vars: what flows along it, from home to placement. */
typedef struct choice_edge {
    uint32_t op, arg, var; /* classes; arg: outputs behind inputs */
    bool is_output, is_unread;
    uint32_t count;
    uint32_t *at;      /* by way of the op: the home of the class that it asks for */
    uint32_t *columns; /* by home and placement; NONE: no steps lead there */
} choice_edge;

/* Vars of a class whose values are read by the same edges, between two writes. */
typedef struct choice_group {
    uint32_t var;
    const uint32_t *edges;
    size_t nedges;
    uint32_t count;
    uint32_t *columns; /* as an edge's, of what is made for all readers; NULL: one edge, whose own columns tell */
} choice_group;

/* A value between two writes, as one var has it. */
typedef struct choice_value {
    uint32_t var;              /* by id */
    uint32_t group;            /* NONE: nothing reads it */
    const uint32_t *positions; /* of its readers, in order, */
    const uint32_t *edges;     /* and their edges */
    size_t nreaders;
} choice_value;

typedef struct choice {
    spmd_plan *plan;
    arena *memory;
    spmd_prices prices; /* of steps */
    choice_op *ops;
    choice_var *vars;
    size_t nops, nvars;
    uint32_t *op_class, *var_class; /* by op; by var id: NONE: it does not count */
    choice_edge *edges;
    choice_group *groups;
    size_t nedges, ngroups, edge_capacity, group_capacity;
    uint32_t **op_edges; /* by op of the program and argument; NONE: no edge */
    choice_value *values;
    size_t nvalues, value_capacity;
    uint32_t *first, *last;     /* by var id: ops that name it */
    int64_t limit;              /* bytes on a rank; 0: none */
    double seconds_limit, ends; /* of all that is solved; by the clock, from the first on */
    size_t most_columns;        /* of an integer program over all axes at once */
    integer_program ip;
    uint32_t most;  /* the column of what a rank holds at most, where that is made least; else NONE */
    uint32_t *cuts; /* ops at which the program bounds what is held */
    size_t ncuts, cut_capacity;
    int64_t *held, *change; /* by op: of the choice that was evaluated last; what begins less what ended */
} choice;

/* What is taken, and what it costs. */
typedef struct choice_taken {
    uint32_t *way, *home; /* by class */
    double seconds, ops_seconds;
    double sent;           /* bytes */
    int64_t nbytes, nkept; /* what a rank holds at most, and what of it is state */
    size_t at;             /* at which op */
} choice_taken;

/* choice_price.c: what ops take, by plan/cost.h. */
WEFT_MUST_USE weft_status choice_op_seconds(choice *c, const spmd_op *op, const choice_way *way, double *out);

/* choice_ways.c: all ways of an op. */
WEFT_MUST_USE weft_status choice_find_ways(choice *c, choice_op *op);

/* choice_classes.c: ops and vars that are alike; at most so many classes of ops where they can be that few. */
WEFT_MUST_USE weft_status choice_find_classes(choice *c, size_t most);

/* choice_flow.c: homes, edges, groups. */
WEFT_MUST_USE weft_status choice_find_flow(choice *c);
static inline double choice_step_seconds(const choice *c, uint32_t var, uint32_t from, uint32_t to) {
    const choice_var *v = &c->vars[var];
    return from == to ? 0 : v->seconds[from * v->nhomes + to];
}
/* The same along an edge: what is looked at for its extents may be partial. */
double choice_edge_seconds(const choice *c, const choice_edge *e, uint32_t from, uint32_t to);

static inline bool choice_has_way(const choice_way *w) {
    return !w->is_left && !w->is_shut;
}
static inline bool choice_has_home(const choice_var *v, size_t home) {
    return v->may[home] && !v->is_shut[home];
}

/* choice_rows.c: the integer program, and its answer. */
WEFT_MUST_USE weft_status choice_write_rows(choice *c, bool least_memory);
WEFT_MUST_USE weft_status choice_bound(choice *c, size_t at); /* choice_cut.c: one row, and what it needs */
void choice_read_answer(const choice *c, const ip_answer *answer, choice_taken *out);

/* Bytes are counted in thousandths of the limit, so that rows hold to less than a byte; or in MiB. */
static inline double choice_unit(const choice *c) {
    return c->limit ? 1000.0 / (double)c->limit : 1.0 / (1 << 20);
}

/* choice_evaluate.c: what a choice costs, op by op, and what a rank holds. */
WEFT_MUST_USE weft_status choice_evaluate(choice *c, choice_taken *taken);

/* choice_solve.c: the best choice. Bounds of memory are added where an answer breaks them, until none does. */
typedef struct choice_result {
    choice_taken taken;
    ip_state state;
    double bound;       /* seconds: no choice takes less */
    bool is_stopped;    /* time ran out before all was tried */
    int rounds, sweeps; /* sweeps 0: over all axes at once */
} choice_result;
WEFT_MUST_USE weft_status choice_solve(choice *c, bool least_memory, choice_result *out);
/* choice_axes.c: the same where that program is not too large; else the best along each axis, given the others, over
 * and over until nothing is better. */
WEFT_MUST_USE weft_status choice_solve_by_axis(choice *c, bool least_memory, choice_result *out);

/* choice_mesh.c: a mesh in words: "4", "2x4", "dp=2, mp=4". */
WEFT_MUST_USE weft_status choice_read_mesh(weft_pass_context *pass, const char *words, arena *memory, mesh *out);

/* choice_report.c: what was chosen, and why. */
WEFT_MUST_USE weft_status choice_report(choice *c, const choice_result *result);
/* Why each var lies so, for `weft show --why`. */
WEFT_MUST_USE weft_status choice_write_reasons(choice *c, const choice_taken *taken);
/* The limit is met by no choice: the least that is, and what it is made of. */
WEFT_MUST_USE weft_status choice_refuse_limit(choice *c);

#endif
