/* feed_parts.c: a rank gets its part of what is fed.
 *
 * The rule: a var with a dist attr is cut as that says. Without one, rows are split over all ranks where dim 0 is the
 * batch, which is the largest dim 0 among the feeds that are not persistable; everything else, and every persistable,
 * is given whole. A set of one rank's own is given as it is. */
#include "plan/feeds.h"

const weft_tensor *feed_at(const feed_value *f, size_t step) {
    return step < f->nsteps && f->steps[step] ? f->steps[step] : f->always;
}

/* As the first program has it that does. */
static bool is_persistable(const weft_feeds *feeds, const char *n) {
    for (size_t i = 0; i < feeds->options.nprograms; i++) {
        const weft_var *v = feeds_find_var(feeds->options.programs[i], n);
        if (v) return v->persistable;
    }
    return false;
}

void feeds_set_batch(weft_feeds *feeds, size_t step) {
    for (size_t k = 0; k < feeds->nsets; k++) {
        feed_set *set = &feeds->sets[k];
        set->batch = 0;
        for (size_t i = 0; i < set->count; i++) {
            const weft_tensor *fed = feed_at(&set->items[i], step);
            if (fed->ndim && fed->dims[0] > set->batch && !is_persistable(feeds, set->items[i].name))
                set->batch = fed->dims[0];
        }
    }
}

/* Whether rows are split though no dist attr says so. */
static bool splits_rows(const weft_feeds *feeds, const feed_set *set, const weft_var *v, const weft_tensor *fed) {
    const weft_feeds_options *o = &feeds->options;
    if (o->per_rank || o->nranks == 1 || v->persistable || (v->dist && v->dist->mesh)) return false;
    return fed->ndim > 0 && fed->dims[0] == set->batch;
}

weft_status feeds_part(const weft_feeds *feeds, int rank, const weft_var *v, const weft_tensor *fed, slice *out) {
    *out = (slice){.ndim = (int)fed->ndim};
    memcpy(out->whole, fed->dims, fed->ndim * sizeof *fed->dims);
    memcpy(out->extent, fed->dims, fed->ndim * sizeof *fed->dims);
    if (!v || feeds->options.per_rank) return NULL;
    if (v->dist && v->dist->mesh) {
        for (size_t i = 0; i < fed->ndim;
             i++) /* what takes any number of rows takes them to be equally many, or some */
            if (i < v->ndim && v->dims[i] < 0)
                TRY(placement_check_even(v->dist, out->ndim, fed->dims, (int)i, fed->name));
        return placement_slice(v->dist, out->ndim, fed->dims, rank, fed->name, out->offset, out->extent);
    }
    if (!splits_rows(feeds, feeds_of(feeds, rank), v, fed)) return NULL;
    if (fed->dims[0] % feeds->options.nranks != 0) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": %lld rows cannot be split over %d ranks",
                                  fed->name, (long long)fed->dims[0], feeds->options.nranks);
    }
    out->extent[0] = fed->dims[0] / feeds->options.nranks;
    out->offset[0] = rank * out->extent[0];
    return NULL;
}

/* What is fed is what the var declares, as far as it does. Where rows were split by the rule alone, the var may still
 * declare the rows of the global batch. */
static weft_status check_type(const weft_feeds *feeds, int rank, const weft_var *v, const weft_tensor *fed,
                              const slice *part) {
    bool same = fed->dtype == (weft_dtype)v->dtype && (!v->has_tensor || v->ndim == fed->ndim);
    for (size_t i = 0; i < v->ndim && same && v->has_tensor; i++) {
        bool global_rows = i == 0 && v->dims[0] == fed->dims[0] && splits_rows(feeds, feeds_of(feeds, rank), v, fed);
        same = v->dims[i] < 0 || v->dims[i] == part->extent[i] || global_rows;
    }
    if (same || v->kind != WEFT_DENSE_TENSOR) return NULL;
    char want[200], got[200], whole[200];
    type_text((weft_dtype)v->dtype, v->ndim, v->dims, want, sizeof want);
    type_text(fed->dtype, fed->ndim, part->extent, got, sizeof got);
    type_text(fed->dtype, fed->ndim, fed->dims, whole, sizeof whole);
    if (slice_is_whole(part)) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": expected %s, found %s", fed->name, want,
                                  got);
    }
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": rank %d expects %s, its part of %s is %s",
                              fed->name, rank, want, whole, got);
}

enum { KNOWN_MASK = 1024 };

/* The elements of a feed that shapes may depend on: few integers (a shape, an axis, a count) or a small mask. They are
 * whole on this rank and the same in every step, or decide how often a loop runs. NULL for any other. */
static weft_status known_values(weft_feeds *feeds, const feed_value *f, const weft_tensor *fed, const slice *part,
                                const int64_t **out) {
    *out = NULL;
    if (!fed || (f->nsteps && !f->decides) || !slice_is_whole(part)) return NULL;
    if (fed->dtype != WEFT_BOOL && fed->dtype != WEFT_INT32 && fed->dtype != WEFT_INT64) return NULL;
    size_t count = fed->nbytes / weft_dtype_nbytes(fed->dtype);
    if (count > (fed->dtype == WEFT_BOOL || f->decides ? KNOWN_MASK : WEFT_MAX_RANK)) return NULL;
    int64_t *values = ARENA_ARRAY(&feeds->arena, int64_t, count ? count : 1);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        values[i] = fed->dtype == WEFT_INT64   ? ((const int64_t *)fed->data)[i]
                    : fed->dtype == WEFT_INT32 ? ((const int32_t *)fed->data)[i]
                                               : ((const uint8_t *)fed->data)[i];
    }
    *out = values;
    return NULL;
}

weft_status feeds_types(weft_feeds *feeds, int rank, size_t step, weft_feed_types *out_types) {
    const feed_set *set = feeds_of(feeds, rank);
    weft_feed_type *types = ARENA_ARRAY(&feeds->arena, weft_feed_type, set->count ? set->count : 1);
    size_t n = 0;
    if (!types) return base_out_of_memory();
    for (size_t i = 0; i < set->count; i++) {
        const feed_value *f = &set->items[i];
        const weft_var *v = f->is_rows ? NULL : feeds_find_var(feeds_program(feeds, rank), f->name);
        if (!v) continue;
        const weft_tensor *fed = feed_at(f, step);
        slice part;
        TRY(feeds_part(feeds, rank, v, fed, &part));
        TRY(check_type(feeds, rank, v, fed, &part));
        types[n] = (weft_feed_type){.name = f->name, .dtype = fed->dtype, .ndim = fed->ndim};
        memcpy(types[n].dims, part.extent, fed->ndim * sizeof *part.extent);
        TRY(known_values(feeds, f, fed, &part, &types[n].values));
        n++;
    }
    *out_types = (weft_feed_types){types, n};
    return NULL;
}
