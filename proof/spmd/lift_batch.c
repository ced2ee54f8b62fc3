/* lift_batch.c: a normalisation over the batch of which each rank of a ring has some rows (c_batch_norm, and ATen's),
 * and its gradient. Each adds what its rows give to the sums of all, so each has its rows of the serial program's
 * output. Each has all of means, variances and gradients of scale and bias. Rows may be of any number. */
#include "proof/spmd/lift.h"

enum { MOST_ARGS = 16 };

static bool is_of_rows(const char *slot_text) {
    static const char *const slots[] = {"X", "Y", "Y@GRAD", "X@GRAD", "input", "out", "grad_out", "grad_input"};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (strcmp(slot_text, slots[i]) == 0) return true;
    return false;
}

/* Numbers of a channel; others are single numbers, or bytes that nobody reads. */
static bool is_of_channels(const char *slot_text) {
    return strcmp(slot_text, "MomentumTensor") != 0 && strcmp(slot_text, "ReserveSpace") != 0;
}

/* How an argument lies along an axis where X lies so; `of_ring`: the axis is one of the rows. */
static axis_placement placed_as(const char *slot_text, axis_placement x, bool of_ring) {
    if (is_of_rows(slot_text)) return x;
    if (of_ring || !is_sharded(x) || !is_of_channels(slot_text)) return REPLICATED;
    return sharded_by(0, x.split);
}

static int channels_of(const weft_op *op, int ndim) {
    bool last = ndim == 2 || strcmp(attr_string(op, "data_layout", "NCHW"), "NHWC") == 0;
    return last ? ndim - 1 : 1;
}

/* The axes of the rows; false: X lies otherwise than by rows and channels. */
static bool row_axes(const lifter *l, const lifted *x, int channels, uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < l->grid.naxes; i++) {
        int d = sharded_dim(x->placed[i]);
        if (is_partial(x->placed[i]) || (d > 0 && d != channels)) return false;
        if (d == 0) *out |= UINT32_C(1) << i;
    }
    return *out != 0;
}

static bool goes_with(const lifter *l, const weft_op *op, const lifted *args, const lifted *x, uint32_t axes) {
    for (size_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        for (size_t a = s->first; a < s->first + s->nargs; a++)
            for (size_t i = 0; i < l->grid.naxes; i++)
                if (!placed_equal(args[a].placed[i], placed_as(s->name->bytes, x->placed[i], axes >> i & 1)))
                    return false;
    }
    return true;
}

/* Whether all members give the like; *out LIFT_PENDING: some wait. */
static bool members_have(const lifter *l, size_t self, uint32_t result, uint32_t axes, const lifted *args, size_t n,
                         lifted *out) {
    for (size_t i = 0; i < l->nranks; i++) {
        if (i == self || !lift_is_member(l, self, i, axes)) continue;
        uint32_t theirs = lift_members_result(l, self, result, axes, i);
        uint32_t of = theirs == TERM_NONE ? TERM_NONE : term_args(l->t, theirs)[0].term;
        *out = lift_unknown(result, "ranks give it different values");
        if (of == TERM_NONE || l->t->items[of].nargs != n) return false;
        for (size_t a = 0; a < n; a++) {
            const lifted *x = &l->known[i][term_args(l->t, of)[a].term];
            if (x->state == LIFT_PENDING) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, false;
            if (x->state != LIFT_KNOWN || x->term != args[a].term || x->family != args[a].family ||
                !lift_placed_alike(x, &args[a]))
                return false;
        }
    }
    return true;
}

weft_status lift_batch(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    uint32_t of = term_args(l->t, id)[0].term, axes, ring_axes, result = lift_recorded_output(l, rank, id);
    size_t n = l->t->items[of].nargs;
    lifted args[MOST_ARGS];
    *out = lift_unknown(id, "its rows are not those of its ring");
    if (n > MOST_ARGS || result == TERM_NONE) return NULL;
    for (size_t i = 0; i < n; i++) {
        args[i] = l->known[rank][term_args(l->t, of)[i].term];
        if (lift_is_open(&args[i])) return *out = args[i], NULL;
    }
    const lifted *x = lift_argument(op, args, op_find_slot(op, false, "input") ? "input" : "X");
    int ndim = x ? l->t->items[term_args(l->t, of)[x - args].term].ndim : 0;
    if (ndim < 2 || !row_axes(l, x, channels_of(op, ndim), &axes)) return NULL;
    if (!lift_ring_axes(l, rank, op, &ring_axes) || ring_axes != axes || !goes_with(l, op, args, x, axes)) return NULL;
    if (!members_have(l, rank, result, axes, args, n, out)) return NULL;
    const char *label = term_head(l->t, id)->label;
    lifted made = lift_replicated(TERM_NONE);
    for (size_t i = 0; i < l->grid.naxes; i++) made.placed[i] = placed_as(label, x->placed[i], axes >> i & 1);
    const serial_op like = {.type = op->type->bytes + strlen("c_"), .fits = lift_has_like_attrs};
    TRY(lift_as_serial(l, id, op, args, &like, &made));
    *out = made.term == TERM_NONE ? lift_unknown(id, "the serial program does not normalise so") : made;
    return NULL;
}
