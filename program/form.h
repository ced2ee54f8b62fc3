/* form.h: what the readers of all serialized forms share. */
#ifndef PROGRAM_FORM_H
#define PROGRAM_FORM_H

#include "program/ir.h"

/* What reading a file of `nbytes` may hold in memory, everything together: a hostile file cannot ask for more. */
size_t form_budget(size_t nbytes);
/* An error once the program and `more_nbytes` beside it exceed `budget`. */
WEFT_MUST_USE weft_status form_over_budget(const weft_program *p, size_t budget);
static inline weft_status form_charge(const weft_program *p, size_t budget, size_t more_nbytes) {
    size_t held = program_nbytes(p);
    bool fits = held <= budget && more_nbytes <= budget - held;
    return fits ? NULL : form_over_budget(p, budget);
}

/* The same before an op is made. */
static inline weft_status form_charge_op(const weft_program *p, size_t budget) {
    return form_charge(p, budget, pool_growth(&p->ops, 1));
}

/* Block indices agree with positions; parents and forward blocks exist; no block is its own ancestor. Every problem
 * goes to the sink. */
WEFT_MUST_USE weft_status form_check_blocks(const weft_program *p);
/* Names of reduce kinds: "sum", "max", ...; NULL and -1 for an unknown one. */
const char *form_reduce_name(int reduce);
int form_reduce_parse(const char *text, size_t nbytes);

/* How a value lies along a mesh axis, as graphs tell it: "S(2)" of the dimension, "P(sum)" of a reduce, "R" where both
 * are -1. */
enum { FX_PLACEMENT_WORD = 24 };
void fx_placement_word(int dim, int reduce, char out[FX_PLACEMENT_WORD]);

/* The index of each of a program's meshes, by its address: O(log n). */
typedef struct mesh_index {
    const mesh *mesh;
    size_t index;
} mesh_index;
/* An array of p->nmeshes entries in `a`. */
WEFT_MUST_USE weft_status mesh_indices(const weft_program *p, arena *a, mesh_index **out);
/* -1 if the program does not list that mesh. */
int64_t mesh_index_find(const mesh_index *indices, size_t count, const mesh *m);

/* The axis of a mesh by its name; -1: there is none, or no mesh. */
int64_t form_axis(const mesh *m, const char *bytes, size_t nbytes);
/* "of dp, mp"; or why its number is expected. */
const char *form_axes_text(const mesh *m, char *out, size_t room);

/* The vars that a sidecar means, by name id: of several of one name, that of the lowest block. */
WEFT_MUST_USE weft_status vars_by_name(const weft_program *p, arena *a, weft_var ***out);

/* Whether there is anything for a sidecar to hold. */
bool program_has_dist(const weft_program *p);

#endif
