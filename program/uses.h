/* uses.h: a var's doubly linked list of uses. */
#ifndef PROGRAM_USES_H
#define PROGRAM_USES_H

#include "program/ir.h"

static inline void use_link(use *u) {
    weft_var *v = u->var;
    u->prev = v->last_use;
    u->next = NULL;
    *(v->last_use ? &v->last_use->next : &v->first_use) = u;
    v->last_use = u;
    v->nuses++;
}

static inline void use_unlink(use *u) {
    weft_var *v = u->var;
    *(u->prev ? &u->prev->next : &v->first_use) = u->next;
    *(u->next ? &u->next->prev : &v->last_use) = u->prev;
    u->prev = u->next = NULL;
    v->nuses--;
}

#endif
