/* micro_write.h: the ops that chunk plans are written as. */
#ifndef PASSES_MICRO_PIPELINE_MICRO_WRITE_H
#define PASSES_MICRO_PIPELINE_MICRO_WRITE_H

#include "passes/micro_pipeline/micro_plan.h"

typedef struct micro_writing {
    micro_pass *m;
    const micro_pair *pair;
    chunk_plan plan;
    size_t number;
    const char *plan_name; /* in the program's memory: what its ops are tagged with */
    size_t plan_name_nbytes;
    const weft_attr *role;           /* of the collective; NULL: it has none */
    const chunk_step *step;          /* whose ops are made; NULL: those around the steps */
    weft_op *anchor, *front;         /* before the first is put what comes; the second begins the steps */
    int64_t rows;                    /* of a chunk */
    int64_t width;                   /* of a row of `own` */
    weft_var **spaces[CHUNK_SPACES]; /* by buffer; results of the k-th product behind those of the one before */
    weft_var **parts; /* of products that are added up: the other operand's, by chunk; the k-th's as results */
    bool *begun;      /* the totals that hold something */
    weft_var *last[CHUNK_SPACES]
                  [MICRO_TURNS]; /* by buffer: outgoing and incoming of the last piece, where that has fewer rows */
    const char **events;         /* by step, in the program's memory: what it records; NULL: nobody has asked yet */
    size_t nchunks;
    micro_lanes lanes;
} micro_writing;

/* HEAD, the number, the texts of `middle` up to NULL, the index: as printf would, in less time, for a pair has many
 * names. Cut to `room`. */
void micro_name(char *to, size_t room, const char *head, uint64_t number, const char *const *middle, int64_t index);
/* The name of the plan, before anything is put. */
WEFT_MUST_USE weft_status micro_begin_writing(micro_writing *w);
WEFT_MUST_USE weft_status micro_new_var(const micro_writing *w, const char *stem, int64_t index, int32_t dtype,
                                        size_t ndim, const int64_t *dims, weft_var **out);
WEFT_MUST_USE weft_status micro_new_op(const micro_writing *w, const char *type, const char *in, weft_var *x,
                                       const char *to, weft_var *made, weft_op **out);
/* An attr that the op has not. */
WEFT_MUST_USE weft_status micro_add_int(const micro_writing *w, weft_op *op, micro_word word, int64_t value);
WEFT_MUST_USE weft_status micro_add_bool(const micro_writing *w, weft_op *op, micro_word word, bool value);
WEFT_MUST_USE weft_status micro_put(const micro_writing *w, weft_op *op);
/* `to` is a view of `x` in its own extents. */
WEFT_MUST_USE weft_status micro_put_view(const micro_writing *w, weft_var *x, weft_var *to);
/* Parts of these extents along a dimension, or n equal ones: views where that is the outermost. */
WEFT_MUST_USE weft_status micro_put_split(const micro_writing *w, weft_var *x, int64_t dim, int64_t n,
                                          const int64_t *sizes, const char *stem, weft_var **parts);
WEFT_MUST_USE weft_status micro_make_cast(const micro_writing *w, weft_var *x, weft_var *to, weft_op **out);
WEFT_MUST_USE weft_status micro_put_cast(const micro_writing *w, weft_var *x, weft_var *to);
WEFT_MUST_USE weft_status micro_put_permute(const micro_writing *w, weft_var *x, const int64_t *perm, weft_var *to);
/* Its rows of all dimensions as those of a matrix; *out is `v` where it is one. */
WEFT_MUST_USE weft_status micro_put_matrix(const micro_writing *w, weft_var *v, weft_var **out);
/* The rows of `x` as a matrix for each piece of so many ranks' rows; a batch of them as it is. */
WEFT_MUST_USE weft_status micro_cut_rows(const micro_writing *w, weft_var *x, int64_t nranks, const char *stem,
                                         weft_var **out);
/* The rows of all members' parts of `x` along `dim`, a matrix for each chunk. */
WEFT_MUST_USE weft_status micro_cut_members(const micro_writing *w, weft_var *x, weft_var **out);
/* `whole`, of matrices that lie one after another in one buffer. */
WEFT_MUST_USE weft_status micro_put_together(const micro_writing *w, weft_var **chunks, size_t count, bool is_inner,
                                             weft_var *whole);

/* micro_steps.c. Whether buffers of a space take one piece after another. */
bool micro_is_in_turn(const micro_writing *w, int space);
/* The steps of the plan: what others do before with the rows and the buffers is done, and they wait for it behind. */
WEFT_MUST_USE weft_status micro_put_steps(micro_writing *w);
/* What else the pair's ops make, by ops of their own. */
WEFT_MUST_USE weft_status micro_put_rests(micro_writing *w);

#endif
