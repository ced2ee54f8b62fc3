/* feed.c: feeds: keys become values and steps; a rank gets its part of the global batch.
 *
 * The rule of parts: a var with a dist attr is cut as that says. Without one, rows are split over all ranks where dim 0
 * is the batch, which is the largest dim 0 among the feeds that are not persistable; everything else, and every
 * persistable, is given whole. A set of one rank's own is given as it is. Where a part goes is resolved once; a step
 * only copies. */
#include "train/trainer.h"

static const char *const rows_suffix = "#rows";

static weft_var *find_var(const weft_program *p, const char *n) {
    return weft_block_find_var(p->blocks[0], n);
}

/* The SelectedRows var whose row indices "V#rows" names, or NULL. */
static weft_var *find_rows_owner(const weft_program *p, const char *n, arena *scratch) {
    size_t nbytes = strlen(n), suffix = strlen(rows_suffix);
    if (nbytes <= suffix || strcmp(n + nbytes - suffix, rows_suffix) != 0) return NULL;
    const char *owner = arena_string(scratch, n, nbytes - suffix);
    weft_var *v = owner ? find_var(p, owner) : NULL;
    return v && v->kind == WEFT_SELECTED_ROWS ? v : NULL;
}

/* Whether a program of one of the ranks [first, end) has a var of that name. */
static bool any_program_has(weft_trainer *t, int first, int end, const char *n, bool *out_is_rows) {
    for (int r = first; r < end; r++) {
        *out_is_rows = false;
        if (find_var(trainer_program(t, r), n)) return true;
        *out_is_rows = find_rows_owner(trainer_program(t, r), n, &t->arena) != NULL;
        if (*out_is_rows) return true;
        if (t->options.nprograms == 1) break;
    }
    return false;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

enum { MAX_STEPS = 1 << 24 };

/* The name behind "STEP/"; NULL where the key has no such beginning. */
static const char *split_key(const char *key, size_t *out_step) {
    size_t step = 0, i = 0;
    for (; key[i] >= '0' && key[i] <= '9' && step < MAX_STEPS; i++) step = step * 10 + (size_t)(key[i] - '0');
    if (i == 0 || key[i] != '/' || step >= MAX_STEPS) return NULL;
    *out_step = step;
    return key + i + 1;
}

/* What the keys of one set are read into: feeds by the dense id of their name. */
typedef struct reading {
    weft_trainer *t;
    interner names;
    trainer_feed *feeds;
    int first, end; /* the ranks that the set is for */
} reading;

static weft_status read_key(reading *r, const weft_tensor *tensor_fed, trainer_feed **out_feed, bool *out_has_step,
                            size_t *out_step) {
    const char *key = tensor_fed->name, *behind = split_key(key, out_step), *n = key;
    bool is_rows;
    bool found = any_program_has(r->t, r->first, r->end, key, &is_rows);
    *out_has_step = !found && behind;
    if (*out_has_step) {
        n = behind;
        found = any_program_has(r->t, r->first, r->end, n, &is_rows);
    }
    if (!found) {
        return weft_status_create(WEFT_NOT_FOUND, NULL, "feed \"%s\": block 0 has no var \"%s\"", key, n);
    }
    const name *interned = interner_get(&r->names, n, strlen(n));
    if (!interned) return base_out_of_memory();
    *out_feed = &r->feeds[interned->id];
    (*out_feed)->name = interned->bytes;
    (*out_feed)->is_rows = is_rows;
    return NULL;
}

const weft_tensor *trainer_fed(const trainer_feed *f, size_t step) {
    return step < f->nsteps && f->steps[step] ? f->steps[step] : f->always;
}

static weft_status read_set(weft_trainer *t, const weft_tensors *from, int first, int end, trainer_feeds *set) {
    size_t count = weft_tensors_count(from), step;
    reading r = {.t = t, .first = first, .end = end, .feeds = ARENA_ARRAY(&t->arena, trainer_feed, count ? count : 1)};
    if (!r.feeds) return base_out_of_memory();
    interner_init(&r.names, &t->arena);
    trainer_feed *f;
    bool has_step;
    for (size_t i = 0; i < count; i++) { /* names and how many steps each has */
        TRY(read_key(&r, weft_tensors_at(from, i), &f, &has_step, &step));
        if (has_step && step >= f->nsteps) f->nsteps = step + 1;
    }
    set->items = r.feeds;
    set->count = r.names.count;
    for (size_t i = 0; i < set->count; i++) {
        f = &set->items[i];
        if (f->nsteps > set->nsteps) set->nsteps = f->nsteps;
        f->steps = ARENA_ARRAY(&t->arena, const weft_tensor *, f->nsteps ? f->nsteps : 1);
        if (!f->steps) return base_out_of_memory();
    }
    for (size_t i = 0; i < count; i++) {
        const weft_tensor *fed = weft_tensors_at(from, i);
        TRY(read_key(&r, fed, &f, &has_step, &step));
        *(has_step ? &f->steps[step] : &f->always) = fed;
    }
    return NULL;
}

void trainer_set_batch(weft_trainer *t, size_t step) {
    for (size_t k = 0; k < t->nsets; k++) {
        trainer_feeds *set = &t->sets[k];
        set->batch = 0;
        for (size_t i = 0; i < set->count; i++) {
            const weft_tensor *fed = trainer_fed(&set->items[i], step);
            const weft_var *v = find_var(trainer_program(t, 0), set->items[i].name);
            if (fed->ndim && !(v && v->persistable) && fed->dims[0] > set->batch) set->batch = fed->dims[0];
        }
    }
}

weft_status trainer_read_feeds(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    t->nsets = o->feeds && o->feeds_per_rank ? (size_t)t->nranks : 1;
    t->sets = ARENA_ARRAY(&t->arena, trainer_feeds, t->nsets);
    if (!t->sets) return base_out_of_memory();
    for (size_t i = 0; i < t->nsets && o->feeds; i++) {
        int first = t->nsets == 1 ? 0 : (int)i, end = t->nsets == 1 ? t->nranks : (int)i + 1;
        if (!o->feeds[i]) continue;
        TRY(read_set(t, o->feeds[i], first, end, &t->sets[i]));
    }
    return NULL;
}

weft_status trainer_check_steps(const weft_trainer *t) {
    for (size_t i = 0; i < t->nsets; i++) {
        for (size_t k = 0; k < t->sets[i].count; k++) {
            const trainer_feed *f = &t->sets[i].items[k];
            for (size_t s = t->first_step; s < t->first_step + t->nsteps && !f->always; s++) {
                if (!trainer_fed(f, s)) {
                    return weft_status_create(WEFT_NOT_FOUND, NULL, "feed \"%s\" has no value for step %zu of %zu",
                                              f->name, s, t->first_step + t->nsteps);
                }
            }
        }
    }
    return NULL;
}

bool trainer_is_fed(const weft_trainer *t, int rank, const char *n) {
    const trainer_feeds *set = trainer_set(t, rank);
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->items[i].name, n) == 0) return true;
    }
    return false;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Whether rows are split though no dist attr says so. */
static bool splits_rows(const weft_trainer *t, const trainer_feeds *set, const weft_var *v, const weft_tensor *fed) {
    if (t->options.feeds_per_rank || t->nranks == 1 || v->persistable || (v->dist && v->dist->mesh)) return false;
    return fed->ndim > 0 && fed->dims[0] == set->batch;
}

static weft_status rank_part(const weft_trainer *t, int rank, const weft_var *v, const weft_tensor *fed, slice *out) {
    *out = (slice){.ndim = (int)fed->ndim};
    memcpy(out->whole, fed->dims, fed->ndim * sizeof *fed->dims);
    memcpy(out->extent, fed->dims, fed->ndim * sizeof *fed->dims);
    if (!v || t->options.feeds_per_rank) return NULL;
    if (v->dist && v->dist->mesh) {
        return placement_slice(v->dist, out->ndim, fed->dims, rank, fed->name, out->offset, out->extent);
    }
    if (!splits_rows(t, trainer_set(t, rank), v, fed)) return NULL;
    if (fed->dims[0] % t->nranks != 0) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": %lld rows cannot be split over %d ranks",
                                  fed->name, (long long)fed->dims[0], t->nranks);
    }
    out->extent[0] = fed->dims[0] / t->nranks;
    out->offset[0] = rank * out->extent[0];
    return NULL;
}

/* What is fed is what the var declares, as far as it does. Where rows were split by the rule alone, the var may still
 * declare the rows of the global batch. */
static weft_status check_type(const weft_trainer *t, int rank, const weft_var *v, const weft_tensor *fed,
                              const slice *part) {
    bool same = fed->dtype == (weft_dtype)v->dtype && (!v->has_tensor || v->ndim == fed->ndim);
    for (size_t i = 0; i < v->ndim && same && v->has_tensor; i++) {
        bool global_rows = i == 0 && splits_rows(t, trainer_set(t, rank), v, fed) && v->dims[0] == fed->dims[0];
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

/* The elements of a feed that shapes may depend on: few integers (a shape, an axis, a count) or a small mask, whole on
 * this rank and the same in every step. NULL for any other. */
static weft_status known_values(weft_trainer *t, const trainer_feed *f, const slice *part, const int64_t **out) {
    const weft_tensor *fed = f->always;
    *out = NULL;
    if (!fed || f->nsteps || !slice_is_whole(part)) return NULL;
    if (fed->dtype != WEFT_BOOL && fed->dtype != WEFT_INT32 && fed->dtype != WEFT_INT64) return NULL;
    size_t count = fed->nbytes / weft_dtype_nbytes(fed->dtype);
    if (count > (fed->dtype == WEFT_BOOL ? KNOWN_MASK : WEFT_MAX_RANK)) return NULL;
    int64_t *values = ARENA_ARRAY(&t->arena, int64_t, count ? count : 1);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        values[i] = fed->dtype == WEFT_INT64   ? ((const int64_t *)fed->data)[i]
                    : fed->dtype == WEFT_INT32 ? ((const int32_t *)fed->data)[i]
                                               : ((const uint8_t *)fed->data)[i];
    }
    *out = values;
    return NULL;
}

weft_status trainer_feed_types(weft_trainer *t, int rank, size_t step, weft_feed_types *out_types) {
    const trainer_feeds *set = trainer_set(t, rank);
    weft_feed_type *types = ARENA_ARRAY(&t->arena, weft_feed_type, set->count ? set->count : 1);
    size_t n = 0;
    if (!types) return base_out_of_memory();
    for (size_t i = 0; i < set->count; i++) {
        const trainer_feed *f = &set->items[i];
        const weft_var *v = f->is_rows ? NULL : find_var(trainer_program(t, rank), f->name);
        if (!v) continue;
        const weft_tensor *fed = trainer_fed(f, step);
        slice part;
        TRY(rank_part(t, rank, v, fed, &part));
        TRY(check_type(t, rank, v, fed, &part));
        types[n] = (weft_feed_type){.name = f->name, .dtype = fed->dtype, .ndim = fed->ndim};
        memcpy(types[n].dims, part.extent, fed->ndim * sizeof *part.extent);
        TRY(known_values(t, f, &part, &types[n].values));
        n++;
    }
    *out_types = (weft_feed_types){types, n};
    return NULL;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static weft_status bind_feed(weft_trainer *t, int rank, const trainer_feed *f, size_t step) {
    const rank_state *state = &t->executor->ranks[rank];
    int32_t value = value_index_find(state->index, f->name);
    if (value < 0) return NULL; /* another rank's program has it */
    const weft_tensor *fed = trainer_fed(f, step);
    const plan_value *v = &state->plan->values[value];
    feed_target *target = &t->targets[t->ntargets];
    *target = (feed_target){.feed = f, .to = state->values[value], .once = !f->nsteps && !v->is_written};
    TRY(rank_part(t, rank, f->is_rows ? NULL : find_var(trainer_program(t, rank), f->name), fed, &target->part));
    const tensor *to = &target->to;
    if (to->dtype != fed->dtype || to->ndim != target->part.ndim ||
        memcmp(to->dims, target->part.extent, (size_t)to->ndim * sizeof *to->dims) != 0) {
        char want[200], got[200];
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": rank %d expects %s, found %s", fed->name,
                                  rank, type_text(to->dtype, (size_t)to->ndim, to->dims, want, sizeof want),
                                  type_text(fed->dtype, fed->ndim, target->part.extent, got, sizeof got));
    }
    t->ntargets++;
    return NULL;
}

static weft_status reserve_targets(weft_trainer *t) {
    size_t count = 0;
    for (int r = 0; r < t->nranks; r++) count += trainer_set(t, r)->count;
    t->targets = ARENA_ARRAY(&t->arena, feed_target, count ? count : 1);
    return t->targets ? NULL : base_out_of_memory();
}

weft_status trainer_bind_feeds(weft_trainer *t, size_t step) {
    if (!t->targets) TRY(reserve_targets(t));
    t->ntargets = 0;
    t->has_fed = false;
    for (int r = 0; r < t->nranks; r++) {
        const trainer_feeds *set = trainer_set(t, r);
        for (size_t i = 0; i < set->count; i++) TRY(bind_feed(t, r, &set->items[i], step));
    }
    return NULL;
}

void trainer_feed_step(weft_trainer *t, size_t step) {
    for (size_t i = 0; i < t->ntargets; i++) {
        const feed_target *target = &t->targets[i];
        if (target->once && t->has_fed) continue;
        const weft_tensor *fed = trainer_fed(target->feed, step);
        slice_take(&target->part, weft_dtype_nbytes(target->to.dtype), fed->data, target->to.data);
    }
    t->has_fed = true;
}
