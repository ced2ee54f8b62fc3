/* feed_files.c: what some ranks need of a file of feeds or of parameters: of each tensor the boxes that they take. */
#include "plan/feeds.h"

typedef struct need {
    struct need *next;
    int64_t offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
} need;

/* Boxes of each tensor of a set, none within another that came before. */
typedef struct needs {
    const weft_tensors *set;
    arena *arena;
    need **first, **at; /* by tensor: its boxes, and the one that was added or told last; NULL: none */
} needs;

static bool is_within(const need *n, size_t ndim, const int64_t *offset, const int64_t *extent) {
    bool within = true;
    for (size_t d = 0; within && d < ndim; d++)
        within = offset[d] >= n->offset[d] && offset[d] + extent[d] <= n->offset[d] + n->extent[d];
    return within;
}

static weft_status add_need(needs *n, const weft_tensor *t, const int64_t *offset, const int64_t *extent) {
    size_t i = (size_t)(t - weft_tensors_at(n->set, 0));
    for (const need *have = n->first[i]; have; have = have->next)
        if (is_within(have, t->ndim, offset, extent)) return NULL;
    need *added = ARENA_NEW(n->arena, need);
    if (!added) return base_out_of_memory();
    memcpy(added->offset, offset, t->ndim * sizeof *offset);
    memcpy(added->extent, extent, t->ndim * sizeof *extent);
    *(n->at[i] ? &n->at[i]->next : &n->first[i]) = added;
    n->at[i] = added;
    return NULL;
}

/* Boxes are asked for in order, from the first: `at` goes along. */
static bool tell_part(void *user, const weft_tensor *t, size_t index, int64_t *offset, int64_t *extent) {
    const needs *n = user;
    size_t i = (size_t)(t - weft_tensors_at(n->set, 0));
    n->at[i] = index == 0 || !n->at[i] ? n->first[i] : n->at[i]->next;
    if (!n->at[i]) return false;
    memcpy(offset, n->at[i]->offset, t->ndim * sizeof *offset);
    memcpy(extent, n->at[i]->extent, t->ndim * sizeof *extent);
    return true;
}

static weft_status needs_init(needs *n, arena *a, const weft_tensors *set) {
    size_t count = weft_tensors_count(set) + 1;
    *n = (needs){set, a, ARENA_ARRAY(a, need *, count), ARENA_ARRAY(a, need *, count)};
    return n->first && n->at ? NULL : base_out_of_memory();
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

static weft_status need_fed(const weft_feeds *feeds, int rank, const feed_value *f, size_t step, needs *n) {
    const weft_tensor *fed = feed_at(f, step);
    weft_var *v = feeds_find_var(feeds_program(feeds, rank), f->name);
    slice part;
    if (!fed || !fed->ndim || (!v && !f->is_rows)) return NULL;
    TRY(feeds_part(feeds, rank, v, fed, &part));
    return add_need(n, fed, part.offset, part.extent);
}

/* Of the steps that are run; beyond those that the file names all are fed alike. */
static weft_status need_feeds(weft_feeds *feeds, int first_rank, int nlocal, needs *n) {
    const feed_set *set = &feeds->sets[0];
    size_t first = feeds->options.first_step, end = first + feeds->options.nsteps;
    size_t named = set->nsteps > first ? set->nsteps : first;
    for (size_t s = first; s < end && s <= named; s++) {
        feeds_set_batch(feeds, s);
        for (size_t i = 0; i < set->count; i++)
            for (int r = first_rank; r < first_rank + nlocal; r++) TRY(need_fed(feeds, r, &set->items[i], s, n));
    }
    return NULL;
}

weft_status weft_feeds_load(weft_context *context, const char *path, const weft_feeds_options *options, int first_rank,
                            int nlocal, weft_tensors **out_tensors) {
    weft_feeds_options o = *options;
    weft_tensors *set = NULL;
    weft_feeds *feeds = NULL;
    arena scratch;
    needs n;
    arena_init(&scratch, &context->allocator);
    weft_status status = weft_tensors_describe(context, path, o.programs[o.nprograms == 1 ? 0 : first_rank], &set);
    o.sets = (const weft_tensors *const *)&set;
    o.per_rank = false;
    if (!status) status = weft_feeds_create(context, &o, &feeds);
    if (!status) status = needs_init(&n, &scratch, set);
    if (!status) status = need_feeds(feeds, first_rank, nlocal, &n);
    if (!status) status = weft_tensors_fill(set, path, tell_part, &n);
    weft_feeds_destroy(feeds);
    arena_fini(&scratch);
    if (status)
        weft_tensors_destroy(set);
    else
        *out_tensors = set;
    return status;
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

static const weft_var *find_persistable(const weft_program *p, const char *n) {
    for (size_t b = 0; b < p->nblocks; b++) {
        const weft_var *v = weft_block_find_var(p->blocks[b], n);
        if (v && v->persistable) return v;
    }
    return NULL;
}

/* Where its part cannot be told, the whole: whoever takes it says what is wrong. */
static weft_status need_param(const weft_program *p, int rank, const weft_tensor *t, needs *n) {
    const weft_var *v = find_persistable(p, t->name);
    int64_t offset[WEFT_MAX_RANK] = {0}, extent[WEFT_MAX_RANK];
    if (!v || !t->ndim) return NULL;
    weft_status status = placement_slice(v->dist, (int)t->ndim, t->dims, rank, t->name, offset, extent);
    if (!status) return add_need(n, t, offset, extent);
    weft_status_free(status);
    return add_need(n, t, (const int64_t[WEFT_MAX_RANK]){0}, t->dims);
}

weft_status weft_params_load(weft_context *context, const char *path, const weft_program *const *programs,
                             size_t nprograms, int first_rank, int nlocal, weft_tensors **out_tensors) {
    weft_tensors *set = NULL;
    arena scratch;
    needs n;
    arena_init(&scratch, &context->allocator);
    weft_status status = weft_tensors_describe(context, path, programs[0] ? programs[0] : programs[first_rank], &set);
    if (!status) status = needs_init(&n, &scratch, set);
    for (int r = first_rank; !status && r < first_rank + nlocal; r++)
        for (size_t i = 0; !status && i < weft_tensors_count(set); i++)
            status = need_param(programs[nprograms == 1 ? 0 : r], r, weft_tensors_at(set, i), &n);
    if (!status) status = weft_tensors_fill(set, path, tell_part, &n);
    arena_fini(&scratch);
    if (status)
        weft_tensors_destroy(set);
    else
        *out_tensors = set;
    return status;
}
