/* access.h: who touches which bytes, in program order: the question behind every move of a collective. */
#ifndef PASSES_ACCESS_H
#define PASSES_ACCESS_H

#include "ops/ops.h"

enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_NESTED = 4, ACCESS_ALIAS = 8 };

/* One op of block 0 touching one alias class. NESTED: through a sub-block that it runs. ALIAS: it makes views; without
 * READ and WRITE it only names the bytes (a view, a wait) and is no consumer of them. */
typedef struct access {
    weft_op *op;
    uint32_t position; /* of op in block 0, from 0 */
    uint32_t flags;
} access;

/* Accesses of block 0, grouped by alias class and in program order within one. Ops that touch no bytes (nop, depend,
 * c_wait_*) are left out. Holds until the first edit of the block. */
typedef struct access_index {
    weft_program *program;
    weft_op **ops; /* by position */
    size_t nops;
    uint32_t *class_of;   /* by var id: the id of one var of its class; NULL: every var is alone in its class */
    uint32_t *class_size; /* by class: how many vars share the bytes; NULL with class_of */
    uint32_t *first;      /* by class: into `all` */
    uint32_t *count;      /* by class */
    access *all;
} access_index;

/* Lists the ops of block 0, sets each one's mark to its position, and finds alias classes. Linear. */
WEFT_MUST_USE weft_status access_index_begin(weft_program *p, arena *a, access_index *out);
/* Then finds the accesses of the wanted classes (by class; NULL: of all); other classes seem to have none. Linear in
 * the vars and in the uses of the wanted ones. */
WEFT_MUST_USE weft_status access_index_gather(access_index *index, arena *a, const bool *wanted);

static inline uint32_t access_class(const access_index *index, const weft_var *v) {
    return index->class_of ? index->class_of[v->id] : v->id;
}
/* The accesses of v's bytes; *out_count of them. */
static inline const access *accesses_of(const access_index *index, const weft_var *v, size_t *out_count) {
    uint32_t c = access_class(index, v);
    *out_count = index->count[c];
    return index->all + index->first[c];
}
static inline bool access_is_shared(const access_index *index, const weft_var *v) {
    return index->class_size && index->class_size[index->class_of[v->id]] > 1;
}

/* Calls `visit` for every argument of `op` and of the ops in the sub-blocks that it runs (nested true for those). A
 * block is entered once an op. */
typedef weft_status (*visit_use_fn)(void *user, const use *u, bool nested);
WEFT_MUST_USE weft_status access_visit(weft_op *op, arena *scratch, visit_use_fn visit, void *user);

#endif
