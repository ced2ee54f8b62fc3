/* axes_trial.h: between the files of axes_check.h: an op at hand, its tensors, and parts of them. */
#ifndef TESTS_SUPPORT_AXES_TRIAL_H
#define TESTS_SUPPORT_AXES_TRIAL_H

#include "tests/support/axes_check.h"

enum { MOST_ARGS = 24, MOST_RANKS = 6, MOST_ROWS = 96 };

/* Along one mesh axis: replicated, sharded along a dimension, or partial. */
enum { REPLICATED = -1, PARTIAL = 100 };

typedef struct way {
    int8_t in[MOST_ARGS];
} way;

typedef struct axes_trial {
    axes_check *c;
    axes_tally *tally;
    weft_op *op;
    const op_schema *schema;
    const uint32_t *in_first, *out_first;
    const tensor *in;
    tensor *out; /* the whole's */
    axes_rule rule;
    uint32_t nin, nout;
    arena arena;   /* of the trial */
    arena scratch; /* of one placement */
    way allowed[MOST_ROWS];
    size_t nallowed;
} axes_trial;

/* --- axes_run.c --------------------------------------------------------------------------------------------------- */
bool axes_is_float(const tensor *t);
double axes_get(const tensor *t, int64_t i);
void axes_put(tensor *t, int64_t i, double x);
/* A number that two others make. */
uint32_t axes_mix(uint64_t a, uint64_t b);
/* Memory for all elements. */
bool axes_make_room(tensor *t, arena *a);
/* The flat index in `whole` of element `i` of a part. */
int64_t axes_index_in(const tensor *whole, const tensor *part, const int64_t *offset, int64_t i);
shape axes_type_of(const tensor *x);
/* Runs the kernel on `in`; outputs as inference says, or else as `out` comes. */
weft_status axes_run_kernel(axes_trial *t, const tensor *in, tensor *out);
int64_t axes_nranks(const axes_mesh *on);
void axes_coordinates(const axes_mesh *on, int64_t rank, int64_t *at);
/* Runs every rank on its part. out[rank]: what it computed. `placed`: of outputs; NULL: not known. */
weft_status axes_run_ranks(axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *placed,
                           tensor **out);

/* --- axes_compare.c ----------------------------------------------------------------------------------------------- */
/* Whether output k lies as `p` says. *nfinite: elements that tell something. */
bool axes_is_placed(const axes_trial *t, const axes_mesh *on, const axes_placed *p, tensor *const *out, size_t k,
                    int64_t *nfinite);

/* --- axes_placement.c --------------------------------------------------------------------------------------------- */
/* Along mesh axis `axis`, as `code` says: REPLICATED, a dimension, or PARTIAL and the reduce. */
void axes_place(axes_placed *p, int code, int axis);
/* Adds to the tally whether a placement holds: one that the rule allows; one that it denies, on one mesh axis. */
void axes_check_allowed(axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out);
void axes_try_denied(axes_trial *t, const axes_mesh *on, const axes_placed *in);

#endif
