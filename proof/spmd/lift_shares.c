/* lift_shares.c: what is no part of a sum. Of parts that differ a rank's own mean counts its elements alone, until the
 * rank multiplies it by its share of the elements. A maximum, a minimum or a product of its part is that of all once
 * the ranks reduce it so. Such values stand here until then, and are not known elsewhere. */
#include <math.h>

#include "proof/spmd/lift.h"

static weft_status keep(lifter *l, const kept_share *s) {
    TRY(vector_reserve(&l->t->context->allocator, &l->shares, &l->shares_capacity, l->nshares + 1, sizeof *l->shares));
    l->shares[l->nshares++] = *s;
    return NULL;
}

weft_status lift_note_share(lifter *l, size_t rank, uint32_t id, const lifted *all, int64_t own, int64_t total) {
    return keep(l, &(kept_share){.rank = rank, .id = id, .all = *all, .own = own, .total = total});
}

weft_status lift_note_fold(lifter *l, size_t rank, uint32_t id, const lifted *all, uint32_t axes, int reduce) {
    return keep(l, &(kept_share){.rank = rank, .id = id, .all = *all, .axes = axes, .reduce = reduce});
}

/* Most are asked for right behind where they were noted. */
static const kept_share *find_share(const lifter *l, size_t rank, uint32_t id) {
    for (size_t i = l->nshares; i-- > 0;)
        if (l->shares[i].rank == rank && l->shares[i].id == id) return &l->shares[i];
    return NULL;
}

/* The whole number by which the share is divided besides; 0: it is another factor. */
static int64_t divided_by(const kept_share *s, const head *h) {
    double number = h->divides ? 1 / h->number : h->number, share = (double)s->own / (double)s->total;
    double times = number > 0 ? nearbyint(share / number) : 0;
    if (!(times >= 1) || times > (double)LIFT_RANKS) return 0;
    float wanted = (float)(share / times), found = (float)number; /* what attrs hold */
    return wanted < found || wanted > found ? 0 : (int64_t)times;
}

weft_status lift_take_share(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const kept_share *s = find_share(l, rank, term_args(l->t, id)[0].term);
    int64_t times = s && s->total ? divided_by(s, term_head(l->t, id)) : 0;
    if (!times) return NULL;
    *out = s->all;
    return lift_times(l, s->all.term, times, true, &out->term);
}

static bool are_alike(const kept_share *a, const kept_share *b) {
    return b && a->all.term == b->all.term && a->all.family == b->all.family && a->axes == b->axes &&
           a->reduce == b->reduce && lift_placed_alike(&a->all, &b->all);
}

void lift_take_fold(const lifter *l, size_t rank, uint32_t id, uint32_t axes, int reduce, lifted *out) {
    const kept_share *own = find_share(l, rank, term_args(l->t, id)[0].term);
    if (!own || own->total || own->axes != axes || own->reduce != reduce || !l->record[rank][id]) return;
    for (size_t i = 0; i < l->nranks; i++) {
        if (i == rank || !lift_is_member(l, rank, i, axes)) continue;
        uint32_t argument = lift_members_argument(l, rank, id, axes, i);
        if (argument == TERM_NONE) return;
        if (l->known[i][argument].state == LIFT_PENDING) {
            *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE};
            return;
        }
        if (!are_alike(own, find_share(l, i, argument))) return;
    }
    *out = own->all;
}
