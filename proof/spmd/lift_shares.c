/* lift_shares.c: what is no part of a sum. Of parts that differ a rank's own mean counts its elements alone, until the
 * rank multiplies it by its share of the elements. A maximum, a minimum or a product of its part is that of all once
 * the ranks reduce it so. Such values stand here until then, and are not known elsewhere. A sum of losses and that of
 * their weights are a mean once they are divided. */
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

/* --- losses ------------------------------------------------------------------------------------------------------- */

enum { REDUCES_TO_MEAN = 1, REDUCES_TO_SUM = 2 }; /* ATen's */

static bool is_mean_of(const serial_op *like, const weft_op *serial, const weft_op *own) {
    return attr_int(serial, like->attr, REDUCES_TO_MEAN) == REDUCES_TO_MEAN &&
           attr_int(own, like->attr, REDUCES_TO_MEAN) == REDUCES_TO_SUM && lift_has_attrs_but(like->attr, serial, own);
}

static bool is_output(const terms *t, uint32_t id, const char *slot_text) {
    return term_is(t, id, HEAD_OUT) && strcmp(term_head(t, id)->label, slot_text) == 0;
}

static const serial_op mean_loss = {.type = "aten_nll_loss_forward", .fits = is_mean_of, .attr = "reduction"};

/* The sum of the weights is that of the op that divides by it. */
static weft_status as_weights_of_mean(lifter *l, uint32_t id, const weft_op *op, const lifted *args, lifted *made) {
    lifted mean = *made;
    if (made->term < l->nserial || !is_output(l->t, id, "total_weight")) return NULL;
    TRY(lift_as_serial(l, id, op, args, &mean_loss, &mean));
    if (mean.term != TERM_NONE) *made = mean;
    return NULL;
}

/* Of the loss that has output `id`, whose inputs are serial values, that of the serial program; TERM_NONE: it has none.
 */
static weft_status find_mean(lifter *l, uint32_t id, uint32_t *out) {
    const terms *t = l->t;
    uint32_t loss = term_args(t, id)[0].term;
    lifted inputs[4] = {{.state = LIFT_UNKNOWN}}, mean = lift_replicated(TERM_NONE);
    size_t n = t->items[loss].nargs;
    *out = TERM_NONE;
    const weft_op *op = term_is(t, loss, HEAD_OP) ? term_head(t, loss)->op : NULL;
    if (!op || !op_is(op, mean_loss.type) || n > sizeof inputs / sizeof *inputs) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (term_args(t, loss)[i].factor != FACTOR_ONE) return NULL;
        inputs[i] = lift_replicated(term_args(t, loss)[i].term);
    }
    TRY(lift_as_serial(l, id, op, inputs, &mean_loss, &mean));
    *out = mean.term;
    return NULL;
}

weft_status lift_mean_of_losses(lifter *l, uint32_t id, const weft_op *op, const lifted *args, lifted *made) {
    uint32_t mean, loss, weights;
    if (op_is(op, mean_loss.type)) return as_weights_of_mean(l, id, op, args, made);
    const lifted *x = lift_argument(op, args, "X"), *y = lift_argument(op, args, "Y");
    if (!op_is(op, "elementwise_div") || !x || !y || !lift_is_replicated(l, x) || !lift_is_replicated(l, y))
        return NULL;
    if (!is_output(l->t, x->term, "output") || !is_output(l->t, y->term, "total_weight")) return NULL;
    TRY(find_mean(l, x->term, &mean));
    loss = term_args(l->t, x->term)[0].term, weights = term_args(l->t, y->term)[0].term;
    if (mean != TERM_NONE && (weights == loss || weights == term_args(l->t, mean)[0].term)) made->term = mean;
    return NULL;
}

/* --- folds -------------------------------------------------------------------------------------------------------- */

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
