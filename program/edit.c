/* Inserting, removing and moving ops; the order numbers that answer "is a before b" at once.
 *
 * Every op of a block has a label, larger is later, in [0, 2^62). An op put between two others takes the middle of
 * their labels. When there is none left, the smallest aligned range of labels around the place that is sparse enough is
 * labelled anew, evenly; what counts as sparse shrinks with the size of the range. So an insertion costs O(log n)
 * amortised, whatever the order of insertions (Bender, Cole, Demaine, Farach-Colton, Zito: Two simplified algorithms
 * for maintaining order in a list, 2002). Appending never labels anew. */
#include "program/ir.h"
#include "program/uses.h"

#define LABEL_BITS 62
#define LABEL_END (UINT64_C(1) << LABEL_BITS)
#define LABEL_GAP (UINT64_C(1) << 32)

/* A range of 2^i labels may hold (2/1.4)^i ops; (2/1.4)^62 is over 10^9. */
#define RANGE_GROWTH (2.0 / 1.4)

static void label_evenly(weft_op *first, size_t count, uint64_t base, uint64_t width) {
    uint64_t step = width / count;
    for (size_t i = 0; i < count; i++, first = first->next) first->order = base + step / 2 + i * step;
}

/* Makes room around `op` among its neighbours' labels. */
static void relabel_around(weft_op *op) {
    weft_op *first = op, *last = op;
    size_t count = 1;
    double allowed = 1;
    for (int bits = 1; bits <= LABEL_BITS; bits++) {
        uint64_t width = UINT64_C(1) << bits, base = op->order & ~(width - 1);
        while (first->prev && first->prev->order >= base) first = first->prev, count++;
        while (last->next && last->next->order - base < width) last = last->next, count++;
        allowed *= RANGE_GROWTH;
        if (bits == LABEL_BITS || (bits > 3 && (double)count <= allowed && count < width / 4)) {
            label_evenly(first, count, base, width);
            return;
        }
    }
}

static bool label_between(const weft_op *before, const weft_op *after, uint64_t *out) {
    uint64_t low = before ? before->order + 1 : 0, high = after ? after->order : LABEL_END;
    if (low >= high) return false;
    if (!before && !after)
        *out = LABEL_END / 2;
    else if (!after && high - low > LABEL_GAP)
        *out = low + LABEL_GAP;
    else if (!before && high - low > LABEL_GAP)
        *out = high - LABEL_GAP;
    else
        *out = low + (high - low) / 2;
    return true;
}

/* Puts `op` between two neighbours; either may be NULL (the ends). */
static void link_between(weft_block *b, weft_op *before, weft_op *op, weft_op *after) {
    if (!label_between(before, after, &op->order)) {
        relabel_around(before ? before : after);
        bool found = label_between(before, after, &op->order);
        (void)found; /* a range that is at most a quarter full has a free label between any two */
    }
    op->prev = before;
    op->next = after;
    *(before ? &before->next : &b->first) = op;
    *(after ? &after->prev : &b->last) = op;
    b->nops++;
    b->program->edits++;
}

static void unlink_op(weft_op *op) {
    weft_block *b = op->block;
    *(op->prev ? &op->prev->next : &b->first) = op->next;
    *(op->next ? &op->next->prev : &b->last) = op->prev;
    op->prev = op->next = NULL;
    b->nops--;
    b->program->edits++;
}

static void link_args(weft_program *p, const weft_op *op) {
    for (uint32_t i = 0; i < op->slots->nargs; i++) use_link(p, &op->args[i], op->args_id + i);
}

static void insert_between(weft_block *b, weft_op *before, weft_op *op, weft_op *after) {
    link_between(b, before, op, after);
    op->block = b;
    op->generation = b->program->generation;
    link_args(b->program, op);
}

void weft_block_insert_before(weft_block *block, weft_op *before, weft_op *op) {
    insert_between(block, before ? before->prev : block->last, op, before);
}

void weft_block_insert_after(weft_block *block, weft_op *after, weft_op *op) {
    insert_between(block, after, op, after ? after->next : block->first);
}

void weft_op_remove(weft_op *op) {
    unlink_op(op);
    for (uint32_t i = 0; i < op->slots->nargs; i++) use_unlink(op->program, &op->args[i]);
    op->block = NULL;
}

void weft_op_move_before(weft_op *op, weft_op *where) {
    if (op == where || op->next == where) return;
    unlink_op(op);
    link_between(op->block, where->prev, op, where);
    op_changed(op);
}

void weft_op_move_after(weft_op *op, weft_op *where) {
    if (op == where || op->prev == where) return;
    unlink_op(op);
    link_between(op->block, where, op, where->next);
    op_changed(op);
}
