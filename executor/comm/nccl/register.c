/* register.c: NCCL is told of buffers before the first step, so that collectives copy nothing.
 *
 * The idea: buffers lie in few blocks of memory, which NCCL has given (memory.h). While a member is recorded, its ring
 * sees each request, and keeps the blocks in the order of their use. A ring whose members use blocks of the same sizes,
 * and the same places in them, registers the blocks as a whole: as symmetric windows where NCCL has them, else for
 * the member alone. Another ring registers nothing, since NCCL takes registered buffers of all members or of none.
 *
 * The invariant: what is registered is let go after the graphs that use it, and before memory and communicator go. An
 * abort lets go of it by itself. */
#include "executor/comm/nccl/engine.h"
#include "executor/comm/nccl/memory.h"
#include "executor/comm/request.h"

/* How long the other members may take. */
static const double register_seconds = 120;
enum { SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC */

/* --- what is used ------------------------------------------------------------------------------------------------- */

static void mix(uint64_t *hash, uint64_t value) {
    *hash = (*hash ^ (value + 1)) * 1099511628211u;
}

static weft_status add_buffer(nccl_ring *r, const nccl_block *block, uint64_t *out_number) {
    nccl_buffer **at = &r->buffers;
    for (*out_number = 0; *at && (*at)->bytes != block->bytes; at = &(*at)->next) ++*out_number;
    if (*at) return NULL;
    nccl_buffer *b = base_alloc(r->world->allocator, sizeof *b);
    if (!b) return base_out_of_memory();
    *b = (nccl_buffer){.bytes = block->bytes, .nbytes = block->nbytes};
    *at = b;
    return NULL;
}

/* NULL: the member has no buffer there. What is one member's alone may lie anywhere. */
static weft_status note(nccl_ring *r, const void *address, bool is_alone) {
    const nccl_world *w = r->view.shared;
    const nccl_block *block = address ? nccl_memory_find(w->device, address) : NULL;
    uint64_t number;
    if (address && !block) r->has_others = true;
    if (!block) return NULL;
    TRY(add_buffer(r, block, &number));
    if (is_alone) return NULL;
    mix(&r->places, number);
    mix(&r->places, (uint64_t)((const unsigned char *)address - block->bytes));
    return NULL;
}

/* A member's part of the whole, in its place there, lies where NCCL expects it. */
static bool is_in_place(const comm_ring *view, const comm_request *q, const void *whole, const void *part) {
    size_t nbytes = (size_t)q->count * weft_dtype_nbytes(q->dtype);
    return whole && part == (const char *)whole + (size_t)view->index * nbytes;
}

static weft_status note_side(nccl_ring *r, const comm_request *q, bool is_source) {
    const comm_kind_row *row = &comm_kinds[q->kind];
    comm_extent own = is_source ? row->src : row->dst, other = is_source ? row->dst : row->src;
    const void *own_bytes = is_source ? q->src : q->dst, *whole = is_source ? q->dst : q->src;
    bool has_parts = is_source ? q->srcs != NULL : q->dsts != NULL;
    bool is_alone = row->has_peer || (is_source ? row->only_root_reads : row->only_root_writes);
    if (own == COMM_NOTHING) return NULL;
    if (!has_parts && own == COMM_PART && other == COMM_WHOLE && is_in_place(&r->view, q, whole, own_bytes))
        return note(r, own_bytes, true);
    if (!has_parts) return note(r, own_bytes, is_alone);
    for (int64_t k = 0, n = comm_nparts(&r->view, q); k < n; k++)
        TRY(note(r, is_source ? q->srcs[k] : q->dsts[k], is_alone));
    return NULL;
}

weft_status nccl_announce(comm_ring *view, const comm_request *q, const nccl_config *config) {
    nccl_ring *r = nccl_ring_of(view);
    if (!r) return NULL;
    for (int64_t i = 0; i < q->ngroup; i++) TRY(nccl_announce(view, &q->group[i], NULL));
    if (!comm_kinds[q->kind].has_peer) mix(&r->places, q->kind);
    if (!comm_kinds[q->kind].has_peer) mix(&r->configs, nccl_config_word(config));
    TRY(note_side(r, q, true));
    return note_side(r, q, false);
}

uint64_t nccl_buffers_word(const nccl_ring *r) {
    bool can = (nccl.CommRegister && nccl.CommDeregister) || (nccl.CommWindowRegister && nccl.CommWindowDeregister);
    uint64_t word = r->places;
    if (!can || r->has_others || !r->buffers) return 0;
    for (const nccl_buffer *b = r->buffers; b; b = b->next) mix(&word, b->nbytes);
    return word | 1;
}

/* --- telling NCCL ------------------------------------------------------------------------------------------------- */

/* Without support for windows a communicator leaves it at NULL. */
static weft_status make_window(const nccl_ring *r, nccl_buffer *b) {
    if (!nccl.CommWindowRegister || !nccl.CommWindowDeregister) return NULL;
    ncclResult_t result = nccl.CommWindowRegister(r->comm, b->bytes, b->nbytes, &b->window, SYMMETRIC);
    return nccl_settle(r->comm, result, r->world, register_seconds, "ncclCommWindowRegister");
}

static weft_status make_handle(const nccl_ring *r, nccl_buffer *b) {
    if (!nccl.CommRegister || !nccl.CommDeregister) return NULL;
    ncclResult_t result = nccl.CommRegister(r->comm, b->bytes, b->nbytes, &b->handle);
    return nccl_settle(r->comm, result, r->world, register_seconds, "ncclCommRegister");
}

weft_status nccl_register(nccl_ring *r) {
    for (nccl_buffer *b = r->buffers; b; b = b->next) {
        TRY(make_window(r, b));
        if (!b->window) TRY(make_handle(r, b));
    }
    return NULL;
}

static void let_go(const nccl_ring *r, const nccl_buffer *b) {
    if (b->window) nccl.CommWindowDeregister(r->comm, b->window);
    if (b->handle) nccl.CommDeregister(r->comm, b->handle);
}

/* Of all members here: an abort may wait for those of others. */
static void end_rings(const nccl_world *w) {
    for (nccl_ring *r = w->rings; r; r = r->next) {
        pthread_mutex_lock(&r->lock);
        nccl_ring_end(r);
        pthread_mutex_unlock(&r->lock);
    }
}

bool nccl_ring_release(nccl_ring *r) {
    if (!nccl_ring_has_ended(r)) return false; /* what it still writes stays */
    for (nccl_buffer *b = r->buffers, *next; b; b = next) {
        next = b->next;
        if (r->comm) let_go(r, b);
        base_free(r->world->allocator, b, sizeof *b);
    }
    r->buffers = NULL;
    return true;
}

/* Of an aborted run a window may be on its way, which nobody could let go of, and so may collectives. */
bool nccl_release(comm_ring *view) {
    nccl_ring *r = nccl_ring_of(view);
    if (!r) return true;
    if (comm_world_aborted(r->world)) end_rings(view->shared);
    return nccl_ring_release(r);
}
