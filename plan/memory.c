/* memory.c: where each buffer lies.
 *
 * What lives across steps lies one after another in the persistent space. A buffer B may follow a temporary buffer A in
 * its place only if every access of A happens before every access of B (hazards.c). So sharing memory adds no wait and
 * takes away no overlap. Buffers become blocks; place_online.c gives each a place, place_orders.c looks for a denser
 * layout where there may be one.
 *
 * Before that, an output may take over the buffer of the input that its schema names. That input must be as large and
 * die there, and neither may be a bucket's or a part of something: the two become one block with the accesses of both.
 * A view of all of an input stands for it. */
#include "plan/memory.h"

enum { NONE = -1 };

typedef struct layout {
    plan_builder *b;
    size_t nstreams;
    /* By root. A block is named by its first root. */
    int32_t *first;       /* the instruction of the first access; NONE */
    int32_t *end;         /* [stream]: instructions to be completed before all accesses are done */
    int32_t *start;       /* [stream]: instructions completed before any access starts */
    int32_t *block_of;    /* the block that a root belongs to */
    int32_t *tail;        /* by block: its newest root */
    int64_t *offset;      /* by block */
    uint32_t *times_read; /* by root: how often the instruction at hand reads of it */
    plan_block *blocks;
    size_t nblocks;
    int64_t top; /* bytes that they take up */
} layout;

static int64_t aligned(int64_t nbytes) {
    return (nbytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}
static int32_t *row(const layout *l, int32_t *table, int32_t root) {
    return table + (size_t)root * l->nstreams;
}
static const int32_t *clock_of(const layout *l, int32_t instr) {
    return l->b->clocks + (size_t)instr * l->nstreams;
}

/* --- lifetimes ---------------------------------------------------------------------------------------------------- */

static void touch(layout *l, int32_t root, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    int32_t *end = row(l, l->end, root), *start = row(l, l->start, root);
    const int32_t *clock = clock_of(l, instr);
    if (l->first[root] == NONE) {
        l->first[root] = instr;
        memcpy(start, clock, l->nstreams * sizeof *start);
    }
    for (size_t s = 0; s < l->nstreams; s++)
        if (clock[s] < start[s]) start[s] = clock[s];
    if (i->position + 1 > end[i->stream]) end[i->stream] = i->position + 1;
}

static weft_status find_lifetimes(layout *l) {
    plan_builder *b = l->b;
    size_t n = b->nvalues ? b->nvalues : 1, ntable;
    if (!base_mul(n, l->nstreams, &ntable)) return base_out_of_memory();
    l->first = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->block_of = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->tail = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->offset = ARENA_ARRAY(&b->scratch, int64_t, n);
    l->times_read = ARENA_ARRAY(&b->scratch, uint32_t, n);
    l->end = ARENA_ARRAY(&b->scratch, int32_t, ntable);
    l->start = ARENA_ARRAY(&b->scratch, int32_t, ntable);
    if (!l->first || !l->block_of || !l->tail || !l->offset || !l->times_read || !l->end || !l->start)
        return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) {
        l->first[v] = NONE;
        l->block_of[v] = l->tail[v] = (int32_t)v;
    }
    for (size_t i = 0; i < b->ninstrs; i++)
        for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++)
            touch(l, b->root_of[b->accesses[k].value], (int32_t)i);
    return NULL;
}

/* --- in place ----------------------------------------------------------------------------------------------------- */

/* The temporary buffer that the value is all of; NONE where it is no such thing. */
static int32_t whole_of(const plan_builder *b, int32_t value) {
    if (value < 0) return NONE;
    int32_t root = b->root_of[value];
    const plan_root *r = &b->roots[root];
    bool is_whole = b->begin_of[value] == 0 && b->values[value].nbytes == r->nbytes && r->nbytes > 0;
    return is_whole && !r->has_members && !r->persistent && b->values[root].rows < 0 ? root : NONE;
}

static bool dies_at(const layout *l, int32_t value, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    const int32_t *end = row(l, l->end, value), *clock = clock_of(l, instr);
    for (int32_t s = 0; s < (int32_t)l->nstreams; s++)
        if (end[s] > (s == i->stream ? i->position + 1 : clock[s])) return false;
    return true;
}

/* Roots. */
static bool may_take_over(const layout *l, int32_t instr, int32_t from, int32_t to) {
    const plan_builder *b = l->b;
    if (from == to || from == NONE || to == NONE) return false;
    if (b->values[from].nbytes != b->values[to].nbytes || l->first[to] != instr || l->block_of[to] != to) return false;
    if (l->tail[l->block_of[from]] != from || l->first[from] == instr) return false;
    return l->times_read[from] == 1 && dies_at(l, from, instr);
}

static void take_over(layout *l, int32_t from, int32_t to) {
    int32_t block = l->block_of[from];
    int32_t *end = row(l, l->end, block), *start = row(l, l->start, block);
    const int32_t *to_end = row(l, l->end, to), *to_start = row(l, l->start, to);
    for (size_t s = 0; s < l->nstreams; s++) {
        if (to_end[s] > end[s]) end[s] = to_end[s];
        if (to_start[s] < start[s]) start[s] = to_start[s];
    }
    l->block_of[to] = block;
    l->tail[block] = to;
}

static void share_in_place(layout *l, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    uint32_t nins = i->in_first[i->schema->ninputs];
    for (uint32_t k = 0; k < nins; k++)
        if (i->in[k] >= 0) l->times_read[l->b->root_of[i->in[k]]]++;
    for (size_t s = 0; s < i->schema->noutputs; s++) {
        int32_t in_slot = i->schema->outputs[s].in_place_of;
        if (in_slot < 0) continue;
        uint32_t nin = i->in_first[in_slot + 1] - i->in_first[in_slot];
        for (uint32_t k = 0; k < i->out_first[s + 1] - i->out_first[s] && k < nin; k++) {
            int32_t from = whole_of(l->b, i->in[i->in_first[in_slot] + k]);
            int32_t to = whole_of(l->b, i->out[i->out_first[s] + k]);
            if (may_take_over(l, instr, from, to)) take_over(l, from, to);
        }
    }
    for (uint32_t k = 0; k < nins; k++)
        if (i->in[k] >= 0) l->times_read[l->b->root_of[i->in[k]]] = 0;
}

/* --- the temporary space ------------------------------------------------------------------------------------------ */

/* The blocks in order of first access; several that an instruction begins, in order of its arguments. */
static weft_status list_blocks(layout *l) {
    plan_builder *b = l->b;
    int32_t *index = ARENA_ARRAY(&b->scratch, int32_t, b->nvalues + 1); /* by block: where it is, from 1 */
    l->blocks = ARENA_ARRAY(&b->scratch, plan_block, b->nvalues + 1);
    if (!index || !l->blocks) return base_out_of_memory();
    for (size_t i = 0; i < b->ninstrs; i++)
        for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++) {
            int32_t root = b->root_of[b->accesses[k].value], block = l->block_of[root];
            if (b->roots[root].persistent) continue;
            if (!index[block]) {
                index[block] = (int32_t)++l->nblocks;
                l->blocks[l->nblocks - 1] = (plan_block){.root = block,
                                                         .first = (int32_t)i,
                                                         .start = row(l, l->start, block),
                                                         .end = row(l, l->end, block),
                                                         .nbytes = b->values[block].nbytes};
            }
            l->blocks[index[block] - 1].last = (int32_t)i;
        }
    return NULL;
}

/* The largest sum of blocks at any instruction, in plan order: no layout is smaller. */
static weft_status find_bound(const layout *l, int64_t *out_bound) {
    int64_t *change = ARENA_ARRAY(&l->b->scratch, int64_t, l->b->ninstrs + 1), sum = 0;
    if (!change) return base_out_of_memory();
    for (size_t k = 0; k < l->nblocks; k++) {
        change[l->blocks[k].first] += l->blocks[k].nbytes;
        change[l->blocks[k].last + 1] -= l->blocks[k].nbytes;
    }
    *out_bound = 0;
    for (size_t i = 0; i < l->b->ninstrs; i++)
        if ((sum += change[i]) > *out_bound) *out_bound = sum;
    return NULL;
}

static weft_status place_temporaries(layout *l) {
    plan_builder *b = l->b;
    int64_t bound = 0;
    for (size_t i = 0; i < b->ninstrs; i++) share_in_place(l, (int32_t)i);
    TRY(list_blocks(l));
    TRY(find_bound(l, &bound));
    TRY(plan_place_online(b, l->blocks, l->nblocks, &l->top));
    TRY(plan_place_orders(b, l->blocks, l->nblocks, bound, &l->top));
    for (size_t k = 0; k < l->nblocks; k++) l->offset[l->blocks[k].root] = l->blocks[k].offset;
    return NULL;
}

/* --- both spaces -------------------------------------------------------------------------------------------------- */

static weft_status place_persistents(layout *l) {
    plan_builder *b = l->b;
    int64_t top = 0;
    for (size_t v = 0; v < b->nvalues; v++) {
        if (b->root_of[v] != (int32_t)v || !b->roots[v].persistent) continue;
        b->values[v].space = PLAN_PERSISTENT;
        b->values[v].offset = top;
        top += aligned(b->values[v].nbytes);
        if (top > PLAN_MAX_NBYTES)
            return weft_status_create(WEFT_LIMIT, b->program->place, "persistent values need more than 2^46 bytes");
    }
    b->plan->persistent_nbytes = top;
    return NULL;
}

/* Every value, view or not, gets its place. Temporaries that nothing touches lie at 0. */
static weft_status assign_offsets(layout *l) {
    plan_builder *b = l->b;
    int64_t top = l->top;
    for (size_t v = 0; v < b->nvalues; v++) {
        if (b->root_of[v] != (int32_t)v || b->roots[v].persistent) continue;
        b->values[v].offset = l->offset[l->block_of[v]];
        bool is_touched = l->first[l->block_of[v]] != NONE;
        if (!is_touched && b->values[v].nbytes > top) top = b->values[v].nbytes;
    }
    for (size_t v = 0; v < b->nvalues; v++) {
        int32_t root = b->root_of[v];
        b->values[v].space = b->values[root].space;
        if (root != (int32_t)v) b->values[v].offset = b->values[root].offset + b->begin_of[v];
    }
    if (top > PLAN_MAX_NBYTES)
        return weft_status_create(WEFT_LIMIT, b->program->place, "temporaries need more than 2^46 bytes");
    b->plan->temporary_nbytes = top;
    return NULL;
}

weft_status plan_lay_out(plan_builder *b) {
    layout l = {.b = b, .nstreams = b->nstreams};
    TRY(find_lifetimes(&l));
    TRY(place_persistents(&l));
    TRY(place_temporaries(&l));
    return assign_offsets(&l);
}
