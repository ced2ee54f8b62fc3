/* lift_shares.c: means over parts that differ. A rank's own mean counts its elements alone: it is no part of a sum
 * until the rank multiplies it by its share of the elements. So it stands here until then, and is not known elsewhere.
 */
#include <math.h>

#include "proof/spmd/lift.h"

weft_status lift_note_share(lifter *l, size_t rank, uint32_t id, const lifted *all, int64_t own, int64_t total) {
    TRY(vector_reserve(&l->t->context->allocator, &l->shares, &l->shares_capacity, l->nshares + 1, sizeof *l->shares));
    l->shares[l->nshares++] = (mean_share){.rank = rank, .id = id, .all = *all, .own = own, .total = total};
    return NULL;
}

/* Most are asked for right behind where they were noted. */
static const mean_share *find_share(const lifter *l, size_t rank, uint32_t id) {
    for (size_t i = l->nshares; i-- > 0 && l->shares[i].rank == rank;)
        if (l->shares[i].id == id) return &l->shares[i];
    return NULL;
}

/* The whole number by which the share is divided besides; 0: it is another factor. */
static int64_t divided_by(const mean_share *s, const head *h) {
    double number = h->divides ? 1 / h->number : h->number, share = (double)s->own / (double)s->total;
    double times = number > 0 ? nearbyint(share / number) : 0;
    if (!(times >= 1) || times > (double)LIFT_RANKS) return 0;
    float wanted = (float)(share / times), found = (float)number; /* what attrs hold */
    return wanted < found || wanted > found ? 0 : (int64_t)times;
}

weft_status lift_take_share(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const mean_share *s = find_share(l, rank, term_args(l->t, id)[0].term);
    int64_t times = s ? divided_by(s, term_head(l->t, id)) : 0;
    if (!times) return NULL;
    *out = s->all;
    return lift_times(l, s->all.term, times, true, &out->term);
}
