/* feeds.c: keys become values and steps. */
#include "plan/feeds.h"

static const char *const rows_suffix = "#rows";

/* The SelectedRows var whose row indices "V#rows" names, or NULL. */
static weft_var *find_rows_owner(const weft_program *p, const char *n, arena *scratch) {
    size_t nbytes = strlen(n), suffix = strlen(rows_suffix);
    if (nbytes <= suffix || strcmp(n + nbytes - suffix, rows_suffix) != 0) return NULL;
    const char *owner = arena_string(scratch, n, nbytes - suffix);
    weft_var *v = owner ? feeds_find_var(p, owner) : NULL;
    return v && v->kind == WEFT_SELECTED_ROWS ? v : NULL;
}

/* Whether a program of one of the ranks [first, end) has a var of that name. */
static bool any_program_has(weft_feeds *feeds, int first, int end, const char *n, bool *out_is_rows) {
    for (int r = first; r < end; r++) {
        *out_is_rows = false;
        if (feeds_find_var(feeds_program(feeds, r), n)) return true;
        *out_is_rows = find_rows_owner(feeds_program(feeds, r), n, &feeds->arena) != NULL;
        if (*out_is_rows) return true;
        if (feeds->options.nprograms == 1) break;
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
    weft_feeds *feeds;
    interner names;
    feed_value *items;
    int first, end; /* the ranks that the set is for */
} reading;

static weft_status read_key(reading *r, const weft_tensor *tensor_fed, feed_value **out_feed, bool *out_has_step,
                            size_t *out_step) {
    const char *key = tensor_fed->name, *behind = split_key(key, out_step), *n = key;
    bool is_rows;
    bool found = any_program_has(r->feeds, r->first, r->end, key, &is_rows);
    *out_has_step = !found && behind;
    if (*out_has_step) {
        n = behind;
        found = any_program_has(r->feeds, r->first, r->end, n, &is_rows);
    }
    if (!found) {
        return weft_status_create(WEFT_NOT_FOUND, NULL, "feed \"%s\": block 0 has no var \"%s\"", key, n);
    }
    const name *interned = interner_get(&r->names, n, strlen(n));
    if (!interned) return base_out_of_memory();
    *out_feed = &r->items[interned->id];
    (*out_feed)->name = interned->bytes;
    (*out_feed)->is_rows = is_rows;
    return NULL;
}

static weft_status read_set(weft_feeds *feeds, const weft_tensors *from, int first, int end, feed_set *set) {
    size_t count = weft_tensors_count(from), step;
    reading r = {.feeds = feeds,
                 .first = first,
                 .end = end,
                 .items = ARENA_ARRAY(&feeds->arena, feed_value, count ? count : 1)};
    if (!r.items) return base_out_of_memory();
    interner_init(&r.names, &feeds->arena);
    feed_value *f;
    bool has_step;
    for (size_t i = 0; i < count; i++) { /* names and how many steps each has */
        TRY(read_key(&r, weft_tensors_at(from, i), &f, &has_step, &step));
        if (has_step && step >= f->nsteps) f->nsteps = step + 1;
    }
    set->items = r.items;
    set->count = r.names.count;
    for (size_t i = 0; i < set->count; i++) {
        f = &set->items[i];
        if (f->nsteps > set->nsteps) set->nsteps = f->nsteps;
        f->steps = ARENA_ARRAY(&feeds->arena, const weft_tensor *, f->nsteps ? f->nsteps : 1);
        if (!f->steps) return base_out_of_memory();
    }
    for (size_t i = 0; i < count; i++) {
        const weft_tensor *fed = weft_tensors_at(from, i);
        TRY(read_key(&r, fed, &f, &has_step, &step));
        *(has_step ? &f->steps[step] : &f->always) = fed;
    }
    return NULL;
}

static weft_status read_sets(weft_feeds *feeds) {
    const weft_feeds_options *o = &feeds->options;
    feeds->nsets = o->sets && o->per_rank ? (size_t)feeds->options.nranks : 1;
    feeds->sets = ARENA_ARRAY(&feeds->arena, feed_set, feeds->nsets);
    if (!feeds->sets) return base_out_of_memory();
    for (size_t i = 0; i < feeds->nsets && o->sets; i++) {
        int first = feeds->nsets == 1 ? 0 : (int)i, end = feeds->nsets == 1 ? feeds->options.nranks : (int)i + 1;
        if (!o->sets[i]) continue;
        TRY(read_set(feeds, o->sets[i], first, end, &feeds->sets[i]));
    }
    return NULL;
}

static weft_status check_steps(const weft_feeds *feeds) {
    size_t first = feeds->options.first_step, end = first + feeds->options.nsteps;
    for (size_t i = 0; i < feeds->nsets; i++) {
        for (size_t k = 0; k < feeds->sets[i].count; k++) {
            const feed_value *f = &feeds->sets[i].items[k];
            for (size_t s = first; s < end && !f->always; s++) {
                if (!feed_at(f, s)) {
                    return weft_status_create(WEFT_NOT_FOUND, NULL, "feed \"%s\" has no value for step %zu of %zu",
                                              f->name, s, end);
                }
            }
        }
    }
    return NULL;
}

/* --- from outside ------------------------------------------------------------------------------------------------- */

static weft_status check_options(const weft_feeds_options *o) {
    if (!o->nprograms || !o->programs) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no program to run");
    if (o->nranks < 1)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", o->nranks);
    if (o->nprograms == 1 || o->nprograms == (size_t)o->nranks) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu programs for %d ranks: expected 1 or %d", o->nprograms,
                              o->nranks, o->nranks);
}

/* How many steps there are, if nobody says: those in the feeds. */
static weft_status count_steps(weft_feeds *feeds) {
    weft_feeds_options *o = &feeds->options;
    size_t end = 0;
    for (size_t i = 0; i < feeds->nsets; i++)
        if (feeds->sets[i].nsteps > end) end = feeds->sets[i].nsteps;
    if (o->nsteps > SIZE_MAX - o->first_step)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu steps from %zu are too many", o->nsteps,
                                  o->first_step);
    if (o->nsteps) return NULL;
    if (end && end <= o->first_step)
        return weft_status_create(WEFT_NOT_FOUND, NULL, "the feeds have %zu steps: there is none from %zu on", end,
                                  o->first_step);
    o->nsteps = end ? end - o->first_step : 1;
    return NULL;
}

static weft_status read_all(weft_feeds *feeds) {
    TRY(check_options(&feeds->options));
    TRY(read_sets(feeds));
    TRY(count_steps(feeds));
    TRY(check_steps(feeds));
    return feeds_find_shapes(feeds);
}

weft_status weft_feeds_create(weft_context *context, const weft_feeds_options *options, weft_feeds **out_feeds) {
    weft_feeds_options taken;
    TRY(base_take_struct("weft_feeds_options", &taken, sizeof taken, options));
    weft_feeds *feeds = base_alloc(&context->allocator, sizeof *feeds);
    if (!feeds) return base_out_of_memory();
    *feeds = (weft_feeds){.context = context, .options = taken};
    if (feeds->options.nranks < 1) feeds->options.nranks = (int)taken.nprograms;
    arena_init(&feeds->arena, &context->allocator);
    weft_status status = read_all(feeds);
    if (status)
        weft_feeds_destroy(feeds);
    else
        *out_feeds = feeds;
    return status;
}

void weft_feeds_destroy(weft_feeds *feeds) {
    if (!feeds) return;
    arena_fini(&feeds->arena);
    base_free(&feeds->context->allocator, feeds, sizeof *feeds);
}

size_t weft_feeds_nsteps(const weft_feeds *feeds) {
    return feeds->options.nsteps;
}

size_t weft_feeds_nshapes(const weft_feeds *feeds) {
    return feeds->nshapes;
}

size_t weft_feeds_shape_of(const weft_feeds *feeds, size_t step) {
    return feeds->shape_of ? feeds->shape_of[step - feeds->options.first_step] : 0;
}

const weft_feed_types *weft_feeds_types(const weft_feeds *feeds, size_t number) {
    return feeds->shapes[number].types;
}
