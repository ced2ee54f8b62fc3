/* sums.c: sums slice by slice, so that the slices of one are equal to sums of slices. */
#include "proof/together/together.h"

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

static weft_status sum_flat(terms *t, const value *args, size_t nargs, int32_t dtype, int64_t total, value *out);

static weft_status sum_slices(terms *t, const value *args, size_t nargs, int32_t dtype, value *out) {
    value whole[MOST_TOGETHER], sum;
    uint32_t first = term_without_shape(t, args[0].term);
    int64_t offset = term_head(t, first)->ints[0], numel = term_head(t, first)->ints[1];
    for (size_t i = 0; i < nargs; i++) whole[i] = term_args(t, term_without_shape(t, args[i].term))[0];
    TRY(sum_flat(t, whole, nargs, dtype, term_numel(t, whole[0].term), &sum));
    return term_part(t, sum, offset, numel, out);
}

static weft_status sum_pieces(terms *t, const value *args, size_t nargs, int32_t dtype, int64_t total, value *out) {
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
        TRY_DONE(sum_flat(t, parts, nargs, dtype, end - at, &sums[count]));
    }
    TRY_DONE(term_flat(t, sums, ranges, count, total, out));
done:
    arena_fini(&memory);
    return status;
}

static weft_status sum_flat(terms *t, const value *args, size_t nargs, int32_t dtype, int64_t total, value *out) {
    value flat[MOST_TOGETHER];
    if (next_cut(t, args, nargs, 0, total) < total) return sum_pieces(t, args, nargs, dtype, total, out);
    if (are_slices_alike(t, args, nargs)) return sum_slices(t, args, nargs, dtype, out);
    for (size_t i = 0; i < nargs; i++) TRY(term_reshape(t, args[i], 1, &total, &flat[i]));
    return term_sum(t, flat, nargs, dtype, out);
}

weft_status rows_sum(terms *t, const value *args, size_t nargs, int32_t dtype, value *out) {
    int64_t dims[WEFT_MAX_RANK], total = nargs ? term_numel(t, args[0].term) : -1;
    size_t ndim = 0;
    for (size_t i = 1; i < nargs; i++)
        if (term_numel(t, args[i].term) != total) total = -1;
    if (total <= 0 || nargs < 2 || nargs > MOST_TOGETHER) return term_sum(t, args, nargs, dtype, out);
    const int64_t *at = term_dims(t, args[0].term, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    value sum;
    TRY(sum_flat(t, args, nargs, dtype, total, &sum));
    return term_reshape(t, sum, ndim, dims, out);
}
