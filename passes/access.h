/* access.h: who touches which bytes, in program order: the question behind every move of a collective. */
#ifndef PASSES_ACCESS_H
#define PASSES_ACCESS_H

#include "ops/ops.h"
#include "passes/bits.h"

enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_NESTED = 4, ACCESS_ALIAS = 8 };

/* One op of block 0 touching one alias class. NESTED: through a sub-block that it runs. ALIAS: it makes views; without
 * READ and WRITE it only names the bytes (a view, a wait) and is no consumer of them. */
typedef struct access {
    uint32_t position : 28; /* of the op in block 0, from 0 */
    uint32_t flags : 4;
} access;
enum { ACCESS_MAX_OPS = (1 << 28) - 1 };

/* Accesses of block 0, grouped by alias class and in program order within one. Ops that touch no bytes (nop, depend,
 * c_wait_*) are left out. Holds until the first edit of the block. */
typedef struct access_index {
    weft_program *program;
    uint32_t *op_ids; /* by position: access_op */
    size_t nops;
    uint32_t *class_of; /* by var id: the id of one var of its class; NULL: every var is alone in its class */
    bit_set shared;     /* classes of several vars; none without class_of */
    bit_set gathered;   /* classes whose accesses are known; numbered */
    uint32_t *first;    /* by number of the class: into `all` */
    uint32_t *count;    /* by number of the class */
    access *all;
} access_index;

/* Lists the ops of block 0, sets each one's mark to its position, and finds alias classes. Linear. */
WEFT_MUST_USE weft_status access_index_begin(weft_program *p, arena *a, access_index *out);
/* Then finds the accesses of the wanted classes (NULL: of all); other classes seem to have none. Linear in the uses of
 * all vars. Takes the set, which is of the same arena. */
WEFT_MUST_USE weft_status access_index_gather(access_index *index, arena *a, const bit_set *wanted);

static inline weft_op *access_op(const access_index *index, size_t position) {
    return (weft_op *)pool_at(&index->program->ops, index->op_ids[position], sizeof(weft_op));
}
static inline uint32_t access_class(const access_index *index, const weft_var *v) {
    return index->class_of ? index->class_of[v->id] : v->id;
}
/* The accesses of v's bytes; *out_count of them. */
static inline const access *accesses_of(const access_index *index, const weft_var *v, size_t *out_count) {
    uint32_t class = access_class(index, v);
    *out_count = 0;
    if (!bit_set_has(&index->gathered, class)) return NULL;
    uint32_t i = bit_set_index(&index->gathered, class);
    *out_count = index->count[i];
    return index->all + index->first[i];
}
static inline bool access_is_shared(const access_index *index, const weft_var *v) {
    return index->class_of && bit_set_has(&index->shared, index->class_of[v->id]);
}

/* Calls `visit` for every argument of `op` and of the ops in the sub-blocks that it runs (nested true for those). A
 * block is entered once an op. */
typedef weft_status (*visit_use_fn)(void *user, const use *u, bool nested);
WEFT_MUST_USE weft_status access_visit(weft_op *op, arena *scratch, visit_use_fn visit, void *user);

#endif
