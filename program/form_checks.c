/* form_checks.c: budgets and the structure of blocks, which every reader checks before anything follows a block index.
 */
#include "program/form.h"

/* Fifteen times the file and 15 MiB, so that with the file itself it stays below sixteen times and 16 MiB. */
enum { BUDGET_FACTOR = 15, BUDGET_BASE = 15 << 20 };

size_t form_budget(size_t nbytes) {
    size_t budget;
    if (!base_mul(nbytes, BUDGET_FACTOR, &budget) || !base_add(budget, BUDGET_BASE, &budget)) return SIZE_MAX;
    return budget;
}

weft_status form_over_budget(const weft_program *p, size_t budget) {
    return weft_status_create(WEFT_LIMIT, p->place, "reading it would take more than %zu bytes of memory", budget);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Sends a problem to the sink; the status has the first. */
static void report(const weft_program *p, weft_status *first, weft_status found) {
    context_diagnose(p->context, WEFT_ERROR, p->place, 0, 0, "%s", weft_status_message(found));
    if (*first)
        weft_status_free(found);
    else
        *first = found;
}

static void check_indices(const weft_program *p, const weft_block *b, size_t position, weft_status *first) {
    const char *place = p->place;
    if (b->idx < 0 || (size_t)b->idx != position)
        report(
            p, first,
            weft_status_create(WEFT_PARSE, place, "block %zu: expected idx %zu, found %d", position, position, b->idx));
    if (b->parent_idx < -1 || b->parent_idx >= (int32_t)p->nblocks)
        report(p, first,
               weft_status_create(WEFT_PARSE, place, "block %zu: expected a parent_idx from -1 to %zu, found %d",
                                  position, p->nblocks - 1, b->parent_idx));
    if (b->has_forward_block_idx && (b->forward_block_idx < -1 || b->forward_block_idx >= (int32_t)p->nblocks))
        report(p, first,
               weft_status_create(WEFT_PARSE, place, "block %zu: expected a forward_block_idx from -1 to %zu, found %d",
                                  position, p->nblocks - 1, b->forward_block_idx));
}

/* Follows parents from each block; `mark` holds 1 + the block from which a block was first reached, so that every block
 * is visited once. */
static void check_ancestors(const weft_program *p, uint32_t *mark, weft_status *first) {
    for (size_t i = 0; i < p->nblocks; i++) {
        size_t at = i;
        while (!mark[at]) {
            mark[at] = (uint32_t)i + 1;
            if (p->blocks[at]->parent_idx < 0) break;
            at = (size_t)p->blocks[at]->parent_idx;
        }
        if (mark[at] != (uint32_t)i + 1 || p->blocks[at]->parent_idx < 0) continue;
        report(p, first,
               weft_status_create(WEFT_PARSE, p->place,
                                  "block %zu: expected ancestors that end at a block without parent, found a "
                                  "cycle through block %zu",
                                  i, at));
    }
}

weft_status form_check_blocks(const weft_program *p) {
    weft_status first = NULL;
    for (size_t i = 0; i < p->nblocks; i++) check_indices(p, p->blocks[i], i, &first);
    if (first) return first;
    const weft_allocator *allocator = &p->context->allocator;
    size_t nbytes = p->nblocks * sizeof(uint32_t);
    uint32_t *mark = base_alloc(allocator, nbytes);
    if (!mark) return base_out_of_memory();
    memset(mark, 0, nbytes);
    check_ancestors(p, mark, &first);
    base_free(allocator, mark, nbytes);
    return first;
}
