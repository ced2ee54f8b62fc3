/* worlds.h: random worlds of ranks whose programs differ in a few ops: buckets with producers, reduces, consumers and
 * updates, on streams ordered by events, of which one kind of rank leaves out, moves, doubles or adds something. */
#ifndef TESTS_SUPPORT_WORLDS_H
#define TESTS_SUPPORT_WORLDS_H

#include "program/ir.h"

enum { MOST_RANKS = 6, MOST_KINDS = 4, MOST_OPS = 64, MOST_TEXT = 32768, NONE = -1 };

typedef enum op_kind {
    COALESCE,
    MAKE,
    REDUCE,
    USE,
    UPDATE,
    LOOK,
    PRIVATE,
    PEEK,
    SYNC,
    WAIT_COMM,
    SHOW,       /* another name for a member */
    USE_SHOWN,  /* reads by that name; member 1: writes */
    WORK_WHOLE, /* on a bucket, in place; member 1: anew */
    PEEK_WHOLE, /* padding too */
    REGROUP,    /* the members become those of another bucket */
    GUARDED     /* runs block 1 */
} op_kind;

typedef struct toy {
    op_kind kind;
    int bucket, member, stream, record, wait, ring;
    bool of_local; /* of an update: its gradient is not reduced; of a bucket: its members are exchanged; of a reduce: of
                    * a gradient alone */
    int fills;     /* of a bucket: 1: it copies its members, 2: it sets them */
} toy;

typedef struct kind_of_rank {
    toy ops[MOST_OPS];
    int nops, extent, place; /* elements of the private value, and of the last bucket's members */
    char text[MOST_TEXT];
} kind_of_rank;

typedef struct world {
    uint64_t state;
    weft_context *context;
    int nbuckets, nkinds, nranks, inner; /* which block 1 there is; 0: none */
    kind_of_rank kinds[MOST_KINDS];
    weft_program *programs[MOST_RANKS];
    int kind_at[MOST_RANKS];
} world;

/* The world that comes of w->state, in w->context; `number` is its name. */
void draw_world(world *w, int number);

#endif
