/* written.c: see written.h. Of a buffer without parts any write counts as one of all of it. A part is written when its
 * own bytes are, through whatever name; what moves a whole buffer wants all parts written, and may look at padding only
 * if what it makes of that stays there. */
#include "proof/schedule/written.h"

#include "program/grow.h"

static weft_status know(written *w, uint32_t buffer_id) {
    TRY(grow(w->schedule->arena, &w->buffers, &w->buffer_capacity, (size_t)buffer_id + 1, sizeof *w->buffers));
    while (w->nbuffers <= buffer_id) {
        w->buffers[w->nbuffers] = (written_buffer){.is_written = w->schedule->buffers[w->nbuffers].is_given};
        w->nbuffers++;
    }
    return NULL;
}

weft_status written_divide(written *w, uint32_t buffer_id, size_t nparts, uint32_t *out_first) {
    TRY(know(w, buffer_id));
    written_buffer *b = &w->buffers[buffer_id];
    size_t n = w->nparts + nparts;
    if (b->has_parts) w->schedule->may_read_unwritten = true; /* names of the old parts may live on */
    b->has_parts = true;
    b->is_written = w->schedule->buffers[buffer_id].is_given;
    b->nunwritten = (uint32_t)nparts;
    TRY(grow(w->schedule->arena, &w->parts, &w->part_capacity, n + 1, sizeof *w->parts));
    *out_first = (uint32_t)w->nparts;
    w->nparts = n;
    return NULL;
}

/* Whether what the op makes of padding stays in the padding. */
static bool keeps_padding_apart(const proof_event *e) {
    return op_is(e->op, "scale") || (op_communicates(e->op) && !op_find_attr(e->op, "sub_block"));
}

static bool is_whole(const proof_buffer *b, const proof_access *x) {
    return !b->nparts || (x->begin <= b->parts[0].begin && x->end > b->parts[b->nparts - 1].end);
}

weft_status written_touch(written *w, const proof_access *x, uint32_t part) {
    proof_schedule *s = w->schedule;
    const proof_event *e = &s->events[s->nevents - 1];
    if (x->buffer >= w->nbuffers) TRY(know(w, x->buffer));
    written_buffer *b = &w->buffers[x->buffer];
    b->is_made |= x->is_write;
    if (b->is_written) return NULL;
    if (!b->has_parts) {
        b->is_written = x->is_write;
        b->is_early |= !x->is_write && !e->is_guarded;
    } else if (part && x->is_write) {
        b->nunwritten -= !w->parts[part - 1];
        w->parts[part - 1] = true;
    } else if (x->is_write) {
        b->is_written = is_whole(&s->buffers[x->buffer], x) && !keeps_padding_apart(e);
    } else if (!e->is_guarded) {
        bool is_sure = part ? w->parts[part - 1] : !b->nunwritten && keeps_padding_apart(e);
        s->may_read_unwritten |= !is_sure;
    }
    return NULL;
}

void written_end(written *w) {
    for (size_t i = 0; i < w->nbuffers; i++)
        if (w->buffers[i].is_early && (w->buffers[i].is_made || w->buffers[i].has_parts))
            w->schedule->may_read_unwritten = true;
}
