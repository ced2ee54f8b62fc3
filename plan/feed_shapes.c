/* feed_shapes.c: which steps are fed alike.
 *
 * A plan holds for one shape of everything that is fed, so steps are sorted into classes at first: a
 * hash of all extents finds the candidates, and the extents themselves decide. A step then only looks up its class. */
#include "plan/feeds.h"

enum { FNV_PRIME = 0x01000193 };

static void mix(uint32_t *hash, int64_t extent) {
    *hash = (*hash ^ (uint32_t)extent ^ (uint32_t)((uint64_t)extent >> 32)) * FNV_PRIME;
}

/* Only feeds that can differ from step to step count. */
static uint32_t hash_step(const weft_feeds *f, size_t step) {
    uint32_t hash = 0x811c9dc5u;
    for (size_t k = 0; k < f->nsets; k++) {
        for (size_t i = 0; i < f->sets[k].count; i++) {
            if (!f->sets[k].items[i].nsteps) continue;
            const weft_tensor *fed = feed_at(&f->sets[k].items[i], step);
            mix(&hash, (int64_t)fed->ndim);
            for (size_t d = 0; d < fed->ndim; d++) mix(&hash, fed->dims[d]);
        }
    }
    return hash;
}

static bool fed_alike(const weft_feeds *f, size_t step, size_t other) {
    for (size_t k = 0; k < f->nsets; k++) {
        for (size_t i = 0; i < f->sets[k].count; i++) {
            const weft_tensor *a = feed_at(&f->sets[k].items[i], step), *b = feed_at(&f->sets[k].items[i], other);
            if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) != 0)
                return false;
            if (f->sets[k].items[i].decides && memcmp(a->data, b->data, a->nbytes) != 0) return false;
        }
    }
    return true;
}

static weft_status add_shape(weft_feeds *f, size_t step) {
    feed_shape *s = &f->shapes[f->nshapes++];
    s->step = step;
    s->types = ARENA_ARRAY(&f->arena, weft_feed_types, f->options.nranks);
    if (!s->types) return base_out_of_memory();
    feeds_set_batch(f, step);
    for (int r = 0; r < f->options.nranks; r++)
        if (feeds_program(f, r)) TRY(feeds_types(f, r, step, &s->types[r]));
    return NULL;
}

static weft_status sort_steps(weft_feeds *f, arena *scratch) {
    hash_table shapes = {.entries = NULL};
    for (size_t i = 0; i < f->options.nsteps; i++) {
        size_t step = f->options.first_step + i;
        TRY(table_reserve(scratch, &shapes, f->nshapes + 1));
        table_probe at = table_find(&shapes, table_hash(hash_step(f, step)));
        while (at.item != TABLE_NONE && !fed_alike(f, step, f->shapes[at.item].step)) table_next(&shapes, &at);
        if (at.item == TABLE_NONE) {
            table_put(&shapes, &at, (uint32_t)f->nshapes);
            TRY(add_shape(f, step));
        }
        f->shape_of[i] = at.item;
    }
    return NULL;
}

/* Feeds that are the same in every step have one shape, however many steps there are. */
static bool is_always_alike(const weft_feeds *f) {
    for (size_t k = 0; k < f->nsets; k++)
        for (size_t i = 0; i < f->sets[k].count; i++)
            if (f->sets[k].items[i].nsteps) return false;
    return true;
}

weft_status feeds_find_shapes(weft_feeds *f) {
    TRY(feeds_mark_deciding(f));
    if (is_always_alike(f)) {
        f->shapes = ARENA_NEW(&f->arena, feed_shape);
        return f->shapes ? add_shape(f, f->options.first_step) : base_out_of_memory();
    }
    if (f->options.nsteps > UINT32_MAX / 2)
        return weft_status_create(WEFT_LIMIT, NULL, "%zu steps are too many", f->options.nsteps);
    arena scratch;
    arena_init(&scratch, &f->context->allocator);
    f->shapes = ARENA_ARRAY(&f->arena, feed_shape, f->options.nsteps);
    f->shape_of = ARENA_ARRAY(&f->arena, uint32_t, f->options.nsteps);
    weft_status status = f->shapes && f->shape_of ? sort_steps(f, &scratch) : base_out_of_memory();
    arena_fini(&scratch);
    return status;
}
