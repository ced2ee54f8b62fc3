/* lift_sums.c: sums over ranks that give different values, as where each adds up the squares of some gradients for the
 * norm of all.
 *
 * What a rank gives is taken apart into what it added up. An addend that is the same on all ranks counts as often as
 * ranks give it. Partial values make their sum where each is given equally often: by one rank for each coordinate
 * along the axes over which they are partial, whichever it is along the others. */
#include "proof/spmd/lift.h"

typedef struct addend {
    lifted value;
    uint32_t axes;  /* along which it is partial */
    int64_t *given; /* by part along these: how often */
} addend;

typedef struct addends {
    lifter *l;
    arena memory;
    uint32_t axes; /* of the ring */
    addend *items;
    size_t count, capacity;
    lifted why_not; /* LIFT_KNOWN: all is known so far */
} addends;

static bool is_zero(const terms *t, uint32_t id) {
    return term_is(t, id, HEAD_FILL) && term_head(t, id)->number == 0;
}

/* Whether it is replicated along all axes that the ring does not lie along, and not sharded along the ring's. */
static bool adds_up(const addends *a, const lifted *x) {
    for (size_t i = 0; i < a->l->grid.naxes; i++)
        if (!is_replicated(x->placed[i]) && !((a->axes >> i & 1) && is_partial(x->placed[i]))) return false;
    return true;
}

static weft_status add_known(addends *a, size_t rank, const lifted *x) {
    addend *found = NULL;
    for (size_t i = 0; i < a->count && !found; i++) {
        const lifted *y = &a->items[i].value;
        if (y->term == x->term && y->family == x->family && lift_placed_alike(y, x)) found = &a->items[i];
    }
    if (!found) {
        TRY(vector_reserve(&a->l->t->context->allocator, &a->items, &a->capacity, a->count + 1, sizeof *found));
        found = &a->items[a->count];
        *found = (addend){.value = *x, .axes = lift_axes_with(a->l, x, PARTIAL)};
        found->given = ARENA_ARRAY(&a->memory, int64_t, (size_t)lift_extent(a->l, found->axes));
        if (!found->given) return base_out_of_memory();
        a->count++;
    }
    found->given[lift_part(a->l, rank, found->axes)]++;
    return NULL;
}

/* What the rank added up to `id`. */
static weft_status take_apart(addends *a, size_t rank, uint32_t id) {
    const terms *t = a->l->t;
    for (size_t i = 0; term_is(t, id, HEAD_SUM) && i < t->items[id].nargs; i++)
        TRY(take_apart(a, rank, term_args(t, id)[i].term));
    if (term_is(t, id, HEAD_SUM) || is_zero(t, id) || a->why_not.state != LIFT_KNOWN) return NULL;
    const lifted x = a->l->known[rank][id];
    if (lift_is_open(&x))
        a->why_not = x;
    else if (!adds_up(a, &x))
        a->why_not = lift_unknown(id, "ranks give it different values that are parts");
    else
        return add_known(a, rank, &x);
    return NULL;
}

static weft_status add_up(addends *a, uint32_t id, lifted *out) {
    lifter *l = a->l;
    value *args = ARENA_ARRAY(&a->memory, value, a->count + 1), sum;
    if (!args) return base_out_of_memory();
    for (size_t i = 0; i < a->count; i++) {
        const addend *x = &a->items[i];
        for (int64_t k = 1; k < lift_extent(l, x->axes); k++)
            if (x->given[k] != x->given[0])
                return *out = lift_unknown(id, "ranks give it different values: only some give their partial value"),
                       NULL;
        args[i] = value_of(TERM_NONE);
        TRY(lift_times(l, x->value.term, x->given[0], false, &args[i].term));
    }
    *out = lift_unknown(id, "ranks give it nothing but zeros");
    if (!a->count) return NULL;
    TRY(term_sum(l->t, args, a->count, l->t->items[id].dtype, &sum));
    *out = lift_replicated(sum.term);
    return NULL;
}

weft_status lift_sum_of_different(lifter *l, size_t rank, uint32_t id, uint32_t axes, lifted *out) {
    addends a = {.l = l, .axes = axes, .why_not = lift_replicated(TERM_NONE)};
    arena_init(&a.memory, &l->t->context->allocator);
    weft_status status = NULL;
    for (size_t i = 0; i < l->nranks && a.why_not.state == LIFT_KNOWN; i++) {
        if (!lift_is_member(l, rank, i, axes)) continue;
        uint32_t argument = i == rank ? term_args(l->t, id)[0].term : lift_members_argument(l, rank, id, axes, i);
        if (argument == TERM_NONE)
            a.why_not = lift_unknown(id, "ranks give it different values: one has no collective to go with it");
        else
            TRY_DONE(take_apart(&a, i, argument));
    }
    *out = a.why_not;
    if (a.why_not.state == LIFT_KNOWN) TRY_DONE(add_up(&a, id, out));
done:
    base_free(&l->t->context->allocator, a.items, a.capacity * sizeof *a.items);
    arena_fini(&a.memory);
    return status;
}
