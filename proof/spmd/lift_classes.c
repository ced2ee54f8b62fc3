/* lift_classes.c: softmax with cross entropy over classes of which each rank of a ring has a part (a vocabulary that is
 * cut). Each may have its part of the logits of the same rows, and the same labels. It then has its part of the serial
 * program's softmax and all of its loss; its part of the gradient needs no other rank.
 *
 * The op takes it that all ranks have as many classes. So where one has fewer its logits are filled up with what
 * counts for nothing, and its part of the softmax has something behind it. */
#include "proof/spmd/lift.h"

/* Labels are class numbers, along the last of `ndim` dimensions; the same ones are left out. */
static bool is_over_classes(const serial_op *like, const weft_op *serial, const weft_op *own) {
    (void)like;
    const slot *s = op_find_slot(serial, false, "Logits");
    if (!s) s = op_find_slot(serial, false, "Softmax");
    int64_t axis = attr_int(serial, "axis", -1);
    bool last = axis == -1 || (s && s->nargs && axis == (int64_t)slot_var(serial, s, 0)->ndim - 1);
    return last && !attr_bool(serial, "soft_label", false) && attr_bool(serial, "use_softmax", true) &&
           attr_int(serial, "ignore_index", -100) == attr_int(own, "ignore_index", -100);
}

/* The axes that cut the last dimension of `x`, of which the rank says that its part is that of attr `rank`. `filled`:
 * into parts that differ, of one axis. */
static bool class_axes(const lifter *l, size_t rank, const weft_op *op, const lifted *x, int last, bool filled,
                       uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < l->grid.naxes && last >= 0; i++) {
        if (sharded_dim(x->placed[i]) != last) continue;
        if (!filled && !is_sharded_evenly(x->placed[i], last)) return false;
        *out |= UINT32_C(1) << i;
    }
    return last >= 0 && lift_extent(l, *out) == attr_int(op, "nranks", 1) &&
           lift_part(l, rank, *out) == attr_int(op, "rank", 0);
}

/* The term of the op's argument in that slot; TERM_NONE: it has none. */
static uint32_t term_of(const lifter *l, uint32_t of, const weft_op *op, const char *slot_text) {
    const slot *s = op_find_slot(op, false, slot_text);
    return s && s->nargs ? term_args(l->t, of)[s->first].term : TERM_NONE;
}

/* Labels that go with such logits: the same along the axes of the classes, and cut with the rows. */
static bool goes_with(const lifter *l, const lifted *label, const lifted *logits, uint32_t axes) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (!placed_equal(label->placed[i], axes >> i & 1 ? REPLICATED : logits->placed[i])) return false;
    return !lift_is_partial(l, label);
}

/* The last dimension of what argument `slot_text` of the op behind `id` is; -1: not known. */
static int last_of(const lifter *l, uint32_t id, const weft_op *op, const char *slot_text) {
    uint32_t argument = term_of(l, term_args(l->t, id)[0].term, op, slot_text);
    return argument == TERM_NONE ? -1 : l->t->items[argument].ndim - 1;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* What `rank` has as the labels of the op that gives `result`. */
static const lifted *labels_of(const lifter *l, size_t rank, uint32_t result) {
    if (result == TERM_NONE || !term_is(l->t, result, HEAD_OUT)) return NULL;
    uint32_t of = term_args(l->t, result)[0].term;
    const slot *label = op_find_slot(term_head(l->t, of)->op, false, "Label");
    return label && label->nargs ? &l->known[rank][term_args(l->t, of)[label->first].term] : NULL;
}

static bool is_equal(const lifted *a, const lifted *b) {
    return a->state == LIFT_KNOWN && b->state == LIFT_KNOWN && a->term == b->term && a->family == b->family &&
           lift_placed_alike(a, b);
}

/* Whether all members have the like; *out LIFT_PENDING: some wait. `last`: the dimension of classes, of which all give
 * `extent`, filled up; 0: as they are. */
static bool members_have(lifter *l, size_t self, uint32_t result, uint32_t axes, int last, int64_t extent,
                         const lifted *logits, const lifted *label, lifted *out) {
    for (size_t i = 0; i < l->nranks; i++) {
        if (i == self || !lift_is_member(l, self, i, axes)) continue;
        uint32_t argument = lift_members_argument(l, self, result, axes, i);
        lifted theirs = argument == TERM_NONE ? lift_unknown(result, "") : l->known[i][argument];
        const lifted *labels = labels_of(l, i, lift_members_result(l, self, result, axes, i));
        if (labels && (theirs.state == LIFT_PENDING || labels->state == LIFT_PENDING))
            return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, false;
        bool fits = labels && theirs.state == LIFT_KNOWN &&
                    (!extent || lift_filled_part(l, i, argument, (size_t)last, true, &theirs) == extent);
        if (!fits || !is_equal(&theirs, logits) || !is_equal(labels, label))
            return *out = lift_unknown(result, "ranks give it different values"), false;
    }
    return true;
}

weft_status lift_classes(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    uint32_t of = term_args(l->t, id)[0].term, axes, ring_axes, result = lift_recorded_output(l, rank, id);
    lifted args[2];
    *out = lift_unknown(id, "its logits are no parts of the classes, in the order of its ring");
    if (l->t->items[of].nargs != 2 || result == TERM_NONE) return NULL;
    for (size_t i = 0; i < 2; i++) {
        args[i] = l->known[rank][term_args(l->t, of)[i].term];
        if (lift_is_open(&args[i])) return *out = args[i], NULL;
    }
    lifted *logits = (lifted *)lift_argument(op, args, "Logits");
    const lifted *label = lift_argument(op, args, "Label");
    int last = last_of(l, id, op, "Logits");
    if (!logits || !label || last < 0 || lift_is_partial(l, logits)) return NULL;
    int64_t filled = lift_filled_part(l, rank, term_of(l, of, op, "Logits"), (size_t)last, true, logits);
    if (!class_axes(l, rank, op, logits, last, filled > 0, &axes)) return NULL;
    if (!lift_ring_axes(l, rank, op, &ring_axes) || ring_axes != axes || !lift_ring_in_order(l, rank, op, axes))
        return NULL;
    *out = lift_unknown(id, "its labels are not those of the rows");
    if (!goes_with(l, label, logits, axes)) return NULL;
    if (!members_have(l, rank, result, axes, last, filled, logits, label, out)) return NULL;
    bool of_classes = strcmp(term_head(l->t, id)->label, "Softmax") == 0;
    lifted made = of_classes ? *logits : *label;
    TRY(lift_as_serial(l, id, op, args, &(serial_op){.type = "softmax_with_cross_entropy", .fits = is_over_classes},
                       &made));
    if (made.term != TERM_NONE && filled && of_classes) TRY(lift_fill_part(l, rank, (size_t)last, &made));
    *out = made.term == TERM_NONE ? lift_unknown(id, "the serial program has no such loss") : made;
    return NULL;
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

/* How the gradient is placed along an axis; false: it is not known. */
static bool place_grad(const lifted *softmax, const lifted *label, const lifted *grad, bool of_classes, size_t axis,
                       axis_placement *out) {
    axis_placement own = softmax->placed[axis], theirs = grad->placed[axis];
    *out = own;
    if (of_classes) return is_replicated(label->placed[axis]) && is_replicated(theirs);
    if (is_partial(own) || !placed_equal(label->placed[axis], own)) return false;
    if (is_replicated(own) && is_partial(theirs)) return *out = PARTIAL, true;
    return placed_equal(theirs, own);
}

weft_status lift_classes_grad(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *args, size_t n,
                              lifted *out) {
    lifted *softmax = (lifted *)lift_argument(op, args, "Softmax");
    const lifted *label = lift_argument(op, args, "Label"), *grad = lift_argument(op, args, "Loss@GRAD");
    uint32_t axes, argument = term_of(l, term_args(l->t, id)[0].term, op, "Softmax");
    int last = last_of(l, id, op, "Softmax");
    *out = lift_unknown(id, "its softmax is no part of the classes, or its gradient not that of the rows");
    for (size_t i = 0; i < n; i++)
        if (args[i].state != LIFT_KNOWN) return NULL;
    if (!softmax || !label || !grad || last < 0) return NULL;
    int64_t filled = lift_filled_part(l, rank, argument, (size_t)last, false, softmax);
    if (!class_axes(l, rank, op, softmax, last, filled > 0, &axes)) return NULL;
    lifted made = *softmax;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (!place_grad(softmax, label, grad, axes >> i & 1, i, &made.placed[i])) return NULL;
    TRY(lift_as_serial(l, id, op, args,
                       &(serial_op){.type = "softmax_with_cross_entropy_grad", .fits = is_over_classes}, &made));
    *out = lift_unknown(id, "the serial program has no such loss");
    if (made.term == TERM_NONE) return NULL;
    lift_name_family(l, args, n, &made);
    if (filled) TRY(lift_fill_part(l, rank, (size_t)last, &made));
    *out = made;
    return NULL;
}
