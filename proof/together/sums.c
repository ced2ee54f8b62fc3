/* sums.c: sums slice by slice, so that the slices of one are equal to sums of slices. Over the real numbers the outer
 * products of rows that lie one behind another are one product: gradients of weights are added up in pieces of any
 * size. What else is made of the elements at one place, as a maximum is, is told slice by slice too.
 */
#include "proof/together/together.h"

/* What is made of the elements at one place. */
typedef struct adding {
    int32_t dtype;
    bool adds_parts;
    uint32_t head; /* TERM_NONE: their sum */
} adding;

static weft_status add_up(terms *t, const value *args, size_t nargs, const adding *how, int64_t total, value *out) {
    if (how->head == TERM_NONE) return term_sum(t, args, nargs, how->dtype, out);
    *out = value_of(TERM_NONE);
    return term_make(t, how->head, args, nargs, how->dtype, 1, &total, &out->term);
}

/* The next place, from `from` on, where an argument that is a concatenation is cut. */
static int64_t next_cut(const terms *t, const value *args, size_t nargs, int64_t from, int64_t total) {
    int64_t next = total;
    for (size_t i = 0; i < nargs; i++) {
        const head *h = term_head(t, term_without_shape(t, args[i].term));
        for (uint32_t k = 0; h->kind == HEAD_FLAT && k < h->nints; k += 2) {
            int64_t end = h->ints[k] + h->ints[k + 1];
            if (h->ints[k] > from && h->ints[k] < next) next = h->ints[k];
            if (end > from && end < next) next = end;
        }
    }
    return next;
}

/* Slices of one range of values of one size are a slice of the sum. */
static bool are_slices_alike(const terms *t, const value *args, size_t nargs) {
    const head *first = term_head(t, term_without_shape(t, args[0].term));
    for (size_t i = 0; i < nargs; i++) {
        uint32_t id = term_without_shape(t, args[i].term);
        const head *h = term_head(t, id);
        if (h->kind != HEAD_PART || h->ints[0] < 0 || h->ints[0] != first->ints[0] || h->ints[1] != first->ints[1])
            return false;
        int64_t all = term_numel(t, term_args(t, id)[0].term);
        if (all < 0 || all != term_numel(t, term_args(t, term_without_shape(t, args[0].term))[0].term)) return false;
    }
    return true;
}

static weft_status sum_flat(terms *t, const value *args, size_t nargs, const adding *how, int64_t total, value *out);

static weft_status sum_slices(terms *t, const value *args, size_t nargs, const adding *how, value *out) {
    value whole[MOST_TOGETHER], sum;
    uint32_t first = term_without_shape(t, args[0].term);
    int64_t offset = term_head(t, first)->ints[0], numel = term_head(t, first)->ints[1];
    for (size_t i = 0; i < nargs; i++) whole[i] = term_args(t, term_without_shape(t, args[i].term))[0];
    TRY(sum_flat(t, whole, nargs, how, term_numel(t, whole[0].term), &sum));
    return term_part(t, sum, offset, numel, out);
}

/* Whether one is a slice of a concatenation that none of its pieces holds: the room between members of a bucket. */
static bool has_room(const terms *t, const value *parts, size_t nparts) {
    for (size_t i = 0; i < nparts; i++) {
        uint32_t id = term_without_shape(t, parts[i].term);
        if (term_is(t, id, HEAD_PART) && term_is(t, term_without_shape(t, term_args(t, id)[0].term), HEAD_FLAT))
            return true;
    }
    return false;
}

/* Of one range of all. Room stays a slice: as one of the whole sum it would come back here. */
static weft_status sum_range(terms *t, const value *parts, size_t nparts, const adding *how, int64_t numel,
                             value *out) {
    return has_room(t, parts, nparts) ? add_up(t, parts, nparts, how, numel, out)
                                      : sum_flat(t, parts, nparts, how, numel, out);
}

static weft_status sum_pieces(terms *t, const value *args, size_t nargs, const adding *how, int64_t total, value *out) {
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    size_t count = 0, most = 1;
    for (size_t i = 0; i < nargs; i++) most += 2 * t->items[term_without_shape(t, args[i].term)].nargs;
    value *sums = ARENA_ARRAY(&memory, value, most), parts[MOST_TOGETHER];
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * most);
    if (!sums || !ranges) TRY_DONE(base_out_of_memory());
    for (int64_t at = 0, end; at < total; at = end, count++) {
        end = next_cut(t, args, nargs, at, total);
        for (size_t i = 0; i < nargs; i++) TRY_DONE(term_part(t, args[i], at, end - at, &parts[i]));
        ranges[2 * count] = at;
        ranges[2 * count + 1] = end - at;
        TRY_DONE(sum_range(t, parts, nargs, how, end - at, &sums[count]));
    }
    TRY_DONE(term_flat(t, sums, ranges, count, total, out));
done:
    arena_fini(&memory);
    return status;
}

/* --- outer products ----------------------------------------------------------------------------------------------- */

typedef struct addends {
    value all[MOST_TOGETHER];
    size_t count;
} addends;

/* Those of sums too; false: they are too many. */
static bool list_addends(const terms *t, const value *args, size_t nargs, addends *out) {
    for (size_t i = 0; i < nargs; i++) {
        uint32_t id = term_without_shape(t, args[i].term);
        if (args[i].factor != FACTOR_ONE) return false;
        if (term_is(t, id, HEAD_SUM)) {
            if (!list_addends(t, term_args(t, id), t->items[id].nargs, out)) return false;
        } else {
            if (out->count == MOST_TOGETHER) return false;
            out->all[out->count++] = value_of(id);
        }
    }
    return true;
}

/* Whether the rows of `b` lie behind those of `a` in one matrix. */
static bool follows(const terms *t, value a, value b) {
    uint32_t x = term_without_shape(t, a.term), y = term_without_shape(t, b.term);
    if (!term_is(t, x, HEAD_PART) || !term_is(t, y, HEAD_PART)) return false;
    const int64_t *first = term_head(t, x)->ints, *next = term_head(t, y)->ints;
    return first[0] >= 0 && first[1] >= 0 && first[0] + first[1] == next[0] &&
           term_args(t, x)[0].term == term_args(t, y)[0].term && a.factor == FACTOR_ONE && b.factor == FACTOR_ONE;
}

static weft_status join_rows(terms *t, value a, value b, value *out) {
    size_t ndim = 0;
    uint32_t x = term_without_shape(t, a.term);
    int64_t width = term_dims(t, a.term, &ndim)[1], numel = term_numel(t, a.term) + term_numel(t, b.term);
    TRY(term_part(t, term_args(t, x)[0], term_head(t, x)->ints[0], numel, out));
    return term_reshape(t, *out, 2, (int64_t[]){numel / width, width}, out);
}

/* *a with the rows of `b` too, if these lie behind its own; *out_joined: whether they do. */
static weft_status join_outers(terms *t, value *a, value b, bool *out_joined) {
    *out_joined = false;
    if (t->items[a->term].head != t->items[b.term].head || !outer_is(t, a->term)) return NULL;
    term x = t->items[a->term];
    value left = term_args(t, a->term)[0], right = term_args(t, a->term)[1], args[2];
    value more_left = term_args(t, b.term)[0], more_right = term_args(t, b.term)[1];
    size_t ndim = 0, nb = 0;
    const int64_t *dims = term_dims(t, a->term, &ndim), *db = term_dims(t, b.term, &nb);
    if (!follows(t, left, more_left) || !follows(t, right, more_right)) return NULL;
    if (!dims || !db || ndim != 2 || nb != 2 || dims[0] != db[0] || dims[1] != db[1]) return NULL;
    int64_t extents[2] = {dims[0], dims[1]};
    TRY(join_rows(t, left, more_left, &args[0]));
    TRY(join_rows(t, right, more_right, &args[1]));
    *out_joined = true;
    return term_make(t, x.head, args, 2, x.dtype, 2, extents, &a->term);
}

/* Joins all that can be; whether any were. */
static weft_status join_all(terms *t, addends *l, bool *out_any) {
    *out_any = false;
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->count; k++) {
            bool joined = false;
            if (i != k) TRY(join_outers(t, &l->all[i], l->all[k], &joined));
            if (!joined) continue;
            *out_any = true;
            memmove(l->all + k, l->all + k + 1, (l->count - k - 1) * sizeof *l->all);
            l->count--;
            i = SIZE_MAX; /* from the beginning */
            break;
        }
    return NULL;
}

static weft_status sum_of_outers(terms *t, const value *args, size_t nargs, int32_t dtype, int64_t total,
                                 bool *out_is_made, value *out) {
    addends list = {.count = 0};
    *out_is_made = false;
    if (!list_addends(t, args, nargs, &list)) return NULL;
    TRY(join_all(t, &list, out_is_made));
    if (!*out_is_made) return NULL;
    for (size_t i = 0; i < list.count; i++) TRY(term_reshape(t, list.all[i], 1, &total, &list.all[i]));
    return list.count == 1 ? (*out = list.all[0], NULL) : term_sum(t, list.all, list.count, dtype, out);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status sum_flat(terms *t, const value *args, size_t nargs, const adding *how, int64_t total, value *out) {
    value flat[MOST_TOGETHER];
    if (next_cut(t, args, nargs, 0, total) < total) return sum_pieces(t, args, nargs, how, total, out);
    if (are_slices_alike(t, args, nargs)) return sum_slices(t, args, nargs, how, out);
    for (size_t i = 0; i < nargs; i++) TRY(term_reshape(t, args[i], 1, &total, &flat[i]));
    bool is_made = false;
    if (how->adds_parts) TRY(sum_of_outers(t, flat, nargs, how->dtype, total, &is_made, out));
    return is_made ? NULL : add_up(t, flat, nargs, how, total, out);
}

static weft_status shaped_like_first(terms *t, const value *args, size_t nargs, const adding *how, int64_t total,
                                     value *out) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    const int64_t *at = term_dims(t, args[0].term, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    value sum;
    TRY(sum_flat(t, args, nargs, how, total, &sum));
    return term_reshape(t, sum, ndim, dims, out);
}

weft_status rows_sum(terms *t, const value *args, size_t nargs, int32_t dtype, bool adds_parts, value *out) {
    int64_t total = nargs ? term_numel(t, args[0].term) : -1;
    for (size_t i = 1; i < nargs; i++)
        if (term_numel(t, args[i].term) != total) total = -1;
    if (total <= 0 || nargs < 2 || nargs > MOST_TOGETHER) return term_sum(t, args, nargs, dtype, out);
    return shaped_like_first(t, args, nargs, &(adding){dtype, adds_parts, TERM_NONE}, total, out);
}

weft_status rows_each(terms *t, uint32_t head_id, const value *args, size_t nargs, int32_t dtype, value *out) {
    return shaped_like_first(t, args, nargs, &(adding){dtype, false, head_id}, term_numel(t, args[0].term), out);
}
