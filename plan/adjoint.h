/* adjoint.h: a reading of the ops that stand in the place of loops and conditions, with a number for each value and for
 * each part of a gradient. */
#ifndef PLAN_ADJOINT_H
#define PLAN_ADJOINT_H

#include "plan/unroll.h"

struct adjoint;

/* What an op makes of gradients: its gradient is an op like it; parts that it reads, or zero; or something else. */
typedef enum adjoint_makes { ADJOINT_PASSES_ON, ADJOINT_PARTS, ADJOINT_ANOTHER } adjoint_makes;

/* What an op does to the numbers. */
typedef struct adjoint_rule {
    const char *type;
    void (*run)(struct adjoint *a, const weft_op *op);
    adjoint_makes makes;
    bool is_made; /* where the program has such an op, it is one like others */
} adjoint_rule;

typedef struct adjoint_type {
    const adjoint_rule *rule;
    const op_schema *gradient; /* NULL: none is named for it */
    bool is_other;             /* its gradient has another name */
} adjoint_type;

/* An op that is read in each draw. */
typedef struct adjoint_step {
    weft_op *op;
    const unroll_origin *origin; /* NULL: the program has no such op */
    const weft_op *forward;      /* what it is the gradient of; NULL: nothing */
    const adjoint_type *type;
    const struct adjoint_steps *body; /* of a condition that only a run knows */
} adjoint_step;

typedef struct adjoint_steps {
    size_t count;
    adjoint_step *steps;
} adjoint_steps;

/* What a var holds. */
typedef struct adjoint_content {
    uint64_t value, parts; /* parts: of a gradient, the sum of their numbers */
    double number;         /* NAN: not known */
    bool is_gradient, truth;
    bool is_trained; /* it comes of a parameter that is trained */
    bool is_stopped; /* though the program marks it as what has no gradient */
} adjoint_content;

/* What the names and the writers of a var say. */
typedef struct adjoint_fact {
    size_t stem;              /* of a gradient: how much of its name is the name of what it is of; 0: it is none */
    const weft_var *whole_of; /* the var of block 0 that it is the whole gradient of */
    bool is_written, is_written_twice, is_written_within;
} adjoint_fact;

/* What one op adds to the gradient of a value. */
typedef struct adjoint_part {
    struct adjoint_part *next;
    const weft_op *by;
    uint64_t number;
} adjoint_part;

typedef struct adjoint_total {
    uint64_t sum;
    adjoint_part *parts;
} adjoint_total;

/* One argument of an op in one of its runs. */
typedef struct adjoint_arg {
    uint64_t value;
    bool is_trained, is_stopped;
    bool has_part; /* of an input: its gradient added one */
} adjoint_arg;

/* One run of an op. */
typedef struct adjoint_instance {
    struct adjoint_instance *next;
    const weft_op *op;
    const adjoint_type *type;
    const weft_op *gradient; /* the last that ran; NULL: none */
    adjoint_arg *args;       /* inputs first */
} adjoint_instance;

/* What was read as the gradient of a value; or as the value that an op had. */
typedef struct adjoint_taken {
    struct adjoint_taken *next;
    const weft_op *by;  /* NULL: the optimizer, or nobody */
    const weft_op *had; /* that op, where another value was read; NULL: a gradient was read */
    const weft_var *of, *gradient;
    uint64_t value, parts;
} adjoint_taken;

typedef struct adjoint {
    unroll *u;
    arena kept; /* for all draws; memory is for one */
    arena memory;
    adjoint_fact *facts; /* by id, of the vars of the program */
    size_t nfacts;
    adjoint_content *vars; /* by id */
    uint64_t draw, serial;
    bool is_several; /* backward passes: their parts are not one sum */
    adjoint_taken *taken, **next_taken;
    adjoint_instance *first, **next;
    unroll_map instances; /* scope and op */
    unroll_map totals;    /* value: adjoint_total */
    unroll_map unknown;   /* vars whose gradients are made by ops that are not known to be a gradient */
    unroll_map types;     /* type of an op: adjoint_type */
} adjoint;

static inline uint64_t adjoint_mix(uint64_t x) {
    x = (x ^ x >> 31) * UINT64_C(0x7FB5D329728EA185);
    x = (x ^ x >> 27) * UINT64_C(0x81DADEF4BC2DD44D);
    return x ^ x >> 33;
}
/* Of a var that nothing has written. */
static inline uint64_t adjoint_first_value(const weft_var *v) {
    return adjoint_mix(v->id + (UINT64_C(1) << 40));
}
static inline adjoint_content *adjoint_held(const adjoint *a, const weft_op *op, bool output, size_t i) {
    return &a->vars[op_args(op, output)[i].var_id];
}

/* Made vars have no names of their own. */
static inline const adjoint_fact *adjoint_fact_of(const adjoint *a, const weft_var *v) {
    static const adjoint_fact none;
    return v->id < a->nfacts ? &a->facts[v->id] : &none;
}

/* adjoint_vars.c: what names say. */
WEFT_MUST_USE weft_status adjoint_find_facts(adjoint *a);
/* The argument of that side, by its number, that a gradient is of, or that is the var itself; -1: none. */
int64_t adjoint_find_arg(const adjoint *a, const weft_op *op, bool output, const weft_var *v);
/* The input whose gradient is argument k of that slot: by the slot's name, or the first of that name without a part. */
int64_t adjoint_find_input(const adjoint *a, const adjoint_instance *of, const slot *s, size_t k, const weft_var *v);

/* adjoint_ops.c: what ops do to the numbers. */
adjoint_content adjoint_new_content(adjoint *a);
const adjoint_rule *adjoint_rule_of(const weft_op *op); /* never NULL */
void adjoint_run_rule(adjoint *a, const adjoint_step *step);
bool adjoint_is_true(const adjoint *a, const weft_op *op, const char *slot_name);

/* adjoint_types.c: what is known by the type of an op. */
WEFT_MUST_USE weft_status adjoint_type_of(adjoint *a, const weft_op *op, const adjoint_type **out);
/* Whether ops of that type have a gradient, and that makes one of this input slot. */
bool adjoint_has_gradient(const adjoint_type *type, const char *slot_name);
bool adjoint_reads_type_alone(weft_op *op, const char *slot_name);

/* adjoint_warnings.c: tells what is no gradient, once a var. */
WEFT_MUST_USE weft_status adjoint_compare(adjoint *a);

#endif
