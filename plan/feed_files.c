/* feed_files.c: what some ranks need of a file of feeds or of parameters: of each tensor the rows from the first that
 * one of them takes to the last. */
#include "plan/feeds.h"

/* Rows of each tensor of a set. */
typedef struct needs {
    const weft_tensors *set;
    int64_t (*rows)[2];
} needs;

static void need(needs *n, const weft_tensor *t, int64_t first, int64_t end) {
    int64_t *rows = n->rows[t - weft_tensors_at(n->set, 0)];
    bool is_new = rows[0] == rows[1];
    if (first >= end) return;
    if (is_new || first < rows[0]) rows[0] = first;
    if (is_new || end > rows[1]) rows[1] = end;
}

static void tell_rows(void *user, const weft_tensor *t, int64_t *first, int64_t *end) {
    const needs *n = user;
    *first = n->rows[t - weft_tensors_at(n->set, 0)][0];
    *end = n->rows[t - weft_tensors_at(n->set, 0)][1];
}

static weft_status needs_init(needs *n, arena *a, const weft_tensors *set) {
    size_t count = weft_tensors_count(set);
    *n = (needs){set, arena_array(a, count ? count : 1, sizeof *n->rows)};
    if (!n->rows) return base_out_of_memory();
    memset(n->rows, 0, (count ? count : 1) * sizeof *n->rows);
    return NULL;
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

static weft_status need_fed(const weft_feeds *feeds, int rank, const feed_value *f, size_t step, needs *n) {
    const weft_tensor *fed = feed_at(f, step);
    weft_var *v = feeds_find_var(feeds_program(feeds, rank), f->name);
    slice part;
    if (!fed || !fed->ndim || (!v && !f->is_rows)) return NULL;
    TRY(feeds_part(feeds, rank, v, fed, &part));
    need(n, fed, part.offset[0], part.offset[0] + part.extent[0]);
    return NULL;
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
    if (!status) status = weft_tensors_fill(set, path, tell_rows, &n);
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
static void need_param(const weft_program *p, int rank, const weft_tensor *t, needs *n) {
    const weft_var *v = find_persistable(p, t->name);
    int64_t offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
    if (!v || !t->ndim) return;
    weft_status status = placement_slice(v->dist, (int)t->ndim, t->dims, rank, t->name, offset, extent);
    if (status)
        need(n, t, 0, t->dims[0]);
    else
        need(n, t, offset[0], offset[0] + extent[0]);
    weft_status_free(status);
}

weft_status weft_params_load(weft_context *context, const char *path, const weft_program *const *programs,
                             size_t nprograms, int first_rank, int nlocal, weft_tensors **out_tensors) {
    weft_tensors *set = NULL;
    arena scratch;
    needs n;
    arena_init(&scratch, &context->allocator);
    weft_status status = weft_tensors_describe(context, path, programs[0], &set);
    if (!status) status = needs_init(&n, &scratch, set);
    for (int r = first_rank; !status && r < first_rank + nlocal; r++)
        for (size_t i = 0; i < weft_tensors_count(set); i++)
            need_param(programs[nprograms == 1 ? 0 : r], r, weft_tensors_at(set, i), &n);
    if (!status) status = weft_tensors_fill(set, path, tell_rows, &n);
    arena_fini(&scratch);
    if (status)
        weft_tensors_destroy(set);
    else
        *out_tensors = set;
    return status;
}
