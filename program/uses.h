/* uses.h: a var's doubly linked list of uses. */
#ifndef PROGRAM_USES_H
#define PROGRAM_USES_H

#include "program/ir.h"

/* Of an argument of the op. */
static inline uint32_t use_id(const weft_op *op, const use *u) {
    return op->args_id + (uint32_t)(u - op->args);
}

/* An argument that is in no list yet. */
static inline use use_make(const weft_op *op, const weft_var *v, bool is_output) {
    return (use){.op = op->id, .var_id = v->id & PROGRAM_MAX_VARS, .is_output = is_output};
}

static inline void use_link(weft_program *p, use *u, uint32_t id) {
    weft_var *v = use_var(p, u);
    u->prev = v->last_use;
    u->next = 0;
    *(v->last_use ? &use_at(p, v->last_use)->next : &v->first_use) = id;
    v->last_use = id;
    v->nuses++;
}

/* The ends of the list of `u`, or its neighbours, take `next_of_prev` and `prev_of_next` for it. */
static inline void use_set_neighbours(weft_program *p, const use *u, uint32_t next_of_prev, uint32_t prev_of_next) {
    weft_var *v = use_var(p, u);
    *(u->prev ? &use_at(p, u->prev)->next : &v->first_use) = next_of_prev;
    *(u->next ? &use_at(p, u->next)->prev : &v->last_use) = prev_of_next;
}

static inline void use_unlink(weft_program *p, use *u) {
    use_set_neighbours(p, u, u->next, u->prev);
    u->prev = u->next = 0;
    use_var(p, u)->nuses--;
}

#endif
