/* values.c: a rank's value of a term. What it is made of comes first: arguments, and of a collective what its members
 * give. Ranks may wait for one another in any depth, so nothing here recurs. */
#include "proof/together/together.h"

#include "ops/collectives.h"

#include <stdio.h>

static const uint32_t open_value = TERM_NONE - 1; /* what it is made of is being made */

static weft_status push(together *g, uint32_t rank, uint32_t term_id) {
    TRY(vector_reserve(&g->t->context->allocator, &g->stack, &g->capacity, g->depth + 1, sizeof *g->stack));
    g->stack[g->depth++] = (need){rank, term_id};
    return NULL;
}

/* Pushes it if it is not known; *out_waits: it is being made, so that it would be made of itself. */
static weft_status want(together *g, int side, uint32_t rank, uint32_t term_id, bool *out_waits) {
    uint32_t at = g->values[side][rank][term_id];
    *out_waits |= at == open_value;
    return at == TERM_NONE ? push(g, rank, term_id) : NULL;
}

static weft_status want_all(together *g, int side, need x, bool *out_waits) {
    const terms *t = g->t;
    if (term_is(t, x.term, HEAD_OPENED)) {
        meeting m;
        meeting_find(g, side, x.rank, (uint32_t)term_head(t, x.term)->ints[0], &m);
        for (size_t i = 0; i < m.count && !m.why; i++)
            for (size_t k = 0; k < m.of[i]->nargs; k++) TRY(want(g, side, m.ranks[i], m.of[i]->args[k], out_waits));
        return NULL;
    }
    for (size_t i = 0; i < t->items[x.term].nargs; i++)
        TRY(want(g, side, x.rank, term_args(t, x.term)[i].term, out_waits));
    return NULL;
}

/* What a rank holds at the start, and the random numbers that it draws, are its own. */
static weft_status own_value(together *g, uint32_t rank, uint32_t id, uint32_t *out) {
    terms *t = g->t;
    head h = *term_head(t, id);
    term x = t->items[id];
    char label[256];
    snprintf(label, sizeof label, "%s of rank %u", h.label, rank);
    buffer *key = head_begin(t, h.kind);
    head_put_text(key, "/of rank", 8);
    head_put_int(key, rank);
    head_put_int(key, id);
    uint32_t head_id;
    h.label = label;
    TRY(head_finish(t, &h, &head_id));
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, id, &ndim);
    return term_make(t, head_id, NULL, 0, x.dtype, ndim, dims, out);
}

/* What an op asks of it is its type alone: any value of that type does, and so that which nobody makes any more. */
static weft_status any_of_type(terms *t, value *x) {
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x->term, &ndim);
    shape type = {.dtype = t->items[x->term].dtype, .ndim = (int32_t)ndim, .height = -1};
    if (!dims || ndim > WEFT_MAX_RANK) return NULL;
    if (ndim) memcpy(type.dims, dims, ndim * sizeof *dims);
    return term_leaf(t, HEAD_INPUT, "any value", &type, &x->term);
}

static weft_status forget_values(terms *t, uint32_t op, value *args) {
    const head *h = term_head(t, op);
    if (h->kind != HEAD_OP || !h->roles || h->nargs != t->items[op].nargs) return NULL;
    for (size_t i = 0; i < h->nargs; i++)
        if (term_head(t, op)->roles[i] == ROLE_TYPE_ONLY) TRY(any_of_type(t, &args[i]));
    return NULL;
}

static weft_status again(together *g, int side, need x, uint32_t *out) {
    terms *t = g->t;
    size_t n = t->items[x.term].nargs;
    value *args = base_alloc(&t->context->allocator, (n + 1) * sizeof *args), made;
    if (!args) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) args[i] = value_of(g->values[side][x.rank][term_args(t, x.term)[i].term]);
    weft_status status = forget_values(t, x.term, args);
    if (status) {
        made.term = TERM_NONE;
    } else if (term_is(t, x.term, HEAD_SUM)) {
        status = rows_sum(t, args, n, t->items[x.term].dtype, g->adds_parts, &made);
    } else if (term_is(t, x.term, HEAD_OUT)) {
        made.term = TERM_NONE;
        if (g->adds_parts) status = contracted_value(t, x.term, args[0].term, &made.term);
        if (!status && made.term == TERM_NONE)
            status = gradient_value(t, x.term, args[0].term, g->adds_parts, &made.term);
        if (!status && made.term == TERM_NONE) status = rows_value(t, x.term, args[0].term, g->adds_parts, &made.term);
    } else {
        status = term_again(t, x.term, args, &made);
    }
    base_free(&t->context->allocator, args, (n + 1) * sizeof *args);
    if (!status) *out = made.term; /* terms as read have no factors */
    return status;
}

static weft_status make(together *g, int side, need x, uint32_t *out) {
    const head *h = term_head(g->t, x.term);
    meeting m;
    switch (h->kind) {
    case HEAD_INPUT:
    case HEAD_RANDOM: return own_value(g, x.rank, x.term, out);
    case HEAD_UNKNOWN: return term_unknown(g->t, h->label, out);
    case HEAD_OPENED:
        meeting_find(g, side, x.rank, (uint32_t)h->ints[0], &m);
        return m.why ? term_unknown(g->t, m.why, out) : collective_value(g, side, x.term, &m, out);
    default: return again(g, side, x, out);
    }
}

weft_status value_find(together *g, int side, uint32_t rank, uint32_t term_id, uint32_t *out) {
    g->depth = 0;
    TRY(push(g, rank, term_id));
    while (g->depth) {
        need x = g->stack[g->depth - 1];
        uint32_t *at = &g->values[side][x.rank][x.term];
        bool waits = false;
        if (*at == TERM_NONE) {
            *at = open_value;
            size_t depth = g->depth;
            TRY(want_all(g, side, x, &waits));
            if (!waits && g->depth > depth) continue;
            g->depth = depth;
        }
        if (waits)
            TRY(term_unknown(g->t, "what ranks wait for one another for", at));
        else if (*at == open_value)
            TRY(make(g, side, x, at));
        g->depth--;
    }
    *out = g->values[side][rank][term_id];
    return NULL;
}
