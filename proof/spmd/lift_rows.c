/* lift_rows.c: rows of what the serial program puts one behind another.
 *
 * Of a concatenation of two values of which two ranks compute with half the rows each has one of the values: nothing
 * about it says that it is a part. An op next to it, of parts, does. It is taken for the rank's part of a serial
 * concatenation where its elements are those of that part, which is true whatever other ranks have. Of several such it
 * is the one that the serial program's op reads there. */
#include "proof/spmd/lift.h"

#include <stdlib.h>

enum { MOST_TRIED = 16 };

static uint32_t without_extents(const terms *t, uint32_t id) {
    while (term_is(t, id, HEAD_RESHAPE)) id = term_args(t, id)[0].term;
    return id;
}

/* What the first elements are of. */
static uint32_t first_of(const terms *t, uint32_t id) {
    while (term_is(t, id, HEAD_RESHAPE) || term_is(t, id, HEAD_PART) || term_is(t, id, HEAD_FLAT))
        id = term_args(t, id)[0].term;
    return id;
}

/* --- concatenations by what they are of --------------------------------------------------------------------------- */

static int by_member(const void *a, const void *b) {
    const flat_member *x = a, *y = b;
    if (x->member != y->member) return x->member < y->member ? -1 : 1;
    return x->flat < y->flat ? -1 : x->flat > y->flat;
}

weft_status lift_list_flats(lifter *l, arena *memory) {
    const terms *t = l->t;
    size_t count = 0;
    for (uint32_t i = 0; i < l->nserial; i++)
        if (term_is(t, i, HEAD_FLAT)) count += t->items[i].nargs;
    l->flats = ARENA_ARRAY(memory, flat_member, count + 1);
    if (!l->flats) return base_out_of_memory();
    for (uint32_t i = 0; i < l->nserial; i++)
        for (uint32_t k = 0; term_is(t, i, HEAD_FLAT) && k < t->items[i].nargs; k++)
            l->flats[l->nflats++] = (flat_member){first_of(t, term_args(t, i)[k].term), i};
    if (count) qsort(l->flats, count, sizeof *l->flats, by_member);
    return NULL;
}

static size_t find_flats(const lifter *l, uint32_t member) {
    size_t low = 0, high = l->nflats;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->flats[middle].member < member)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Whether some op of the serial program does to `all`, its argument `arg`, what the rank's does. */
static bool is_read_so(const lifter *l, uint32_t op, size_t arg, uint32_t all) {
    const terms *t = l->t;
    for (size_t i = 0; i < l->nserial; i++)
        if (t->items[i].head == t->items[op].head && arg < t->items[i].nargs &&
            term_args(t, (uint32_t)i)[arg].term == all)
            return true;
    return false;
}

/* `flat` as the value of which the rank has rows that are `x`; *out_is false: it has others. */
static weft_status rows_of_flat(lifter *l, size_t rank, size_t axis, uint32_t flat, const lifted *x, bool *out_is,
                                value *out, axis_placement *placed) {
    terms *t = l->t;
    size_t ndim = 0;
    const int64_t *own = term_dims(t, x->term, &ndim);
    int64_t whole[WEFT_MAX_RANK], row = 1, total = term_numel(t, flat), n = l->grid.extent[axis];
    *out_is = false;
    if (!own || ndim < 1 || ndim > WEFT_MAX_RANK || own[0] <= 0 || total <= 0) return NULL;
    memcpy(whole, own, ndim * sizeof *own);
    for (size_t d = 1; d < ndim; d++) row = lift_product(row, own[d]);
    if (row <= 0 || total % row) return NULL;
    whole[0] = total / row;
    int64_t most = (whole[0] + n - 1) / n, first = lift_product(lift_part(l, rank, UINT32_C(1) << axis), most);
    if (!lift_is_part_along(l, rank, UINT32_C(1) << axis, whole[0], first, own[0], 0, placed)) return NULL;
    value part;
    TRY(term_part(t, value_of(flat), first * row, own[0] * row, &part));
    if (part.factor != FACTOR_ONE || without_extents(t, part.term) != without_extents(t, x->term)) return NULL;
    TRY(term_reshape(t, value_of(flat), ndim, whole, out));
    *out_is = out->factor == FACTOR_ONE;
    return NULL;
}

weft_status lift_rows_as_part(lifter *l, size_t rank, size_t axis, uint32_t op, size_t arg, lifted *x, bool *out_is) {
    *out_is = false;
    if (x->state != LIFT_KNOWN || !is_replicated(x->placed[axis]) || lift_is_sharded_at(l, x, 0) ||
        lift_is_partial(l, x))
        return NULL;
    uint32_t member = first_of(l->t, x->term);
    size_t ntried = 0;
    for (size_t i = find_flats(l, member); i < l->nflats && l->flats[i].member == member && ntried < MOST_TRIED; i++) {
        uint32_t flat = l->flats[i].flat;
        bool is_rows, is_again = i && l->flats[i - 1].member == member && l->flats[i - 1].flat == flat;
        axis_placement placed;
        value all;
        if (is_again) continue;
        ntried++;
        TRY(rows_of_flat(l, rank, axis, flat, x, &is_rows, &all, &placed));
        if (!is_rows || !is_read_so(l, op, arg, all.term)) continue;
        x->term = all.term;
        x->placed[axis] = placed;
        *out_is = true;
        return NULL;
    }
    return NULL;
}
