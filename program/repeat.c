/* repeat.c: a program whose step is several of its steps, one right after the other: what an executor has in flight
 * that does not wait between them. A block that an op runs is copied with the op, as what runs it is told by its
 * number; the vars are the same, as they are from step to step. */
#include "program/ir.h"

enum { MOST_NESTED = 16 };

static weft_status copy_op(weft_op *op, int depth, weft_op **out);

/* Another block with the same ops. */
static weft_status copy_block(weft_program *p, int64_t index, int depth, int64_t *out) {
    weft_block *copy;
    if (index <= 0 || (uint64_t)index >= p->nblocks || depth > MOST_NESTED)
        return weft_status_create(WEFT_INVALID_PROGRAM, p->place, "a block %lld that cannot be run again",
                                  (long long)index);
    TRY(program_add_block(p, p->blocks[index]->parent_idx, &copy));
    FOR_EACH_OP(op, p->blocks[index]) {
        weft_op *made;
        TRY(copy_op(op, depth + 1, &made));
        weft_block_insert_before(copy, NULL, made);
    }
    *out = copy->idx;
    return NULL;
}

static weft_status copy_op(weft_op *op, int depth, weft_op **out) {
    TRY(op_clone(op, out));
    for (size_t i = 0; i < (*out)->nattrs; i++)
        if ((*out)->attrs[i].type == ATTR_BLOCK)
            TRY(copy_block(op->program, op->attrs[i].u.i, depth, &(*out)->attrs[i].u.i));
    return NULL;
}

weft_status weft_program_repeat(weft_program *program, size_t times) {
    weft_block *b = program->blocks[0];
    weft_op *last = b->last;
    for (size_t i = 1; i < times; i++) {
        for (weft_op *op = b->first; op; op = op == last ? NULL : op->next) {
            weft_op *copy;
            TRY(copy_op(op, 0, &copy));
            weft_block_insert_before(b, NULL, copy);
        }
    }
    return NULL;
}
