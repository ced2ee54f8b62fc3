/* shapes.c: which steps are fed alike.
 *
 * A plan holds for one shape of everything that is fed, so steps are sorted into classes when the trainer is made: a
 * hash of all extents finds the candidates, and the extents themselves decide. A step then only looks up its class. */
#include "train/trainer.h"

enum { FNV_PRIME = 0x01000193 };

static void mix(uint32_t *hash, int64_t extent) {
    *hash = (*hash ^ (uint32_t)extent ^ (uint32_t)((uint64_t)extent >> 32)) * FNV_PRIME;
}

/* Only feeds that can differ from step to step count. */
static uint32_t hash_step(const weft_trainer *t, size_t step) {
    uint32_t hash = 0x811c9dc5u;
    for (size_t k = 0; k < t->nsets; k++) {
        for (size_t i = 0; i < t->sets[k].count; i++) {
            if (!t->sets[k].items[i].nsteps) continue;
            const weft_tensor *fed = trainer_fed(&t->sets[k].items[i], step);
            mix(&hash, (int64_t)fed->ndim);
            for (size_t d = 0; d < fed->ndim; d++) mix(&hash, fed->dims[d]);
        }
    }
    return hash;
}

static bool fed_alike(const weft_trainer *t, size_t step, size_t other) {
    for (size_t k = 0; k < t->nsets; k++) {
        for (size_t i = 0; i < t->sets[k].count; i++) {
            const weft_tensor *a = trainer_fed(&t->sets[k].items[i], step),
                              *b = trainer_fed(&t->sets[k].items[i], other);
            if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) != 0)
                return false;
        }
    }
    return true;
}

static weft_status add_shape(weft_trainer *t, size_t step) {
    trainer_shape *s = &t->shapes[t->nshapes++];
    s->step = step;
    s->types = ARENA_ARRAY(&t->arena, weft_feed_types, t->nranks);
    if (!s->types) return base_out_of_memory();
    trainer_set_batch(t, step);
    for (int r = 0; r < t->nranks; r++) TRY(trainer_feed_types(t, r, step, &s->types[r]));
    return NULL;
}

static weft_status sort_steps(weft_trainer *t, arena *scratch) {
    hash_table shapes = {.entries = NULL};
    for (size_t i = 0; i < t->nsteps; i++) {
        size_t step = t->first_step + i;
        TRY(table_reserve(scratch, &shapes, t->nshapes + 1));
        table_probe at = table_find(&shapes, table_hash(hash_step(t, step)));
        while (at.item != TABLE_NONE && !fed_alike(t, step, t->shapes[at.item].step)) table_next(&shapes, &at);
        if (at.item == TABLE_NONE) {
            table_put(&shapes, &at, (uint32_t)t->nshapes);
            TRY(add_shape(t, step));
        }
        t->shape_of[i] = at.item;
    }
    return NULL;
}

/* Feeds that are the same in every step have one shape, however many steps there are. */
static bool is_always_alike(const weft_trainer *t) {
    for (size_t k = 0; k < t->nsets; k++)
        for (size_t i = 0; i < t->sets[k].count; i++)
            if (t->sets[k].items[i].nsteps) return false;
    return true;
}

weft_status trainer_find_shapes(weft_trainer *t) {
    if (is_always_alike(t)) {
        t->shapes = ARENA_NEW(&t->arena, trainer_shape);
        return t->shapes ? add_shape(t, t->first_step) : base_out_of_memory();
    }
    if (t->nsteps > UINT32_MAX / 2) return weft_status_create(WEFT_LIMIT, NULL, "%zu steps are too many", t->nsteps);
    arena scratch;
    arena_init(&scratch, &t->context->allocator);
    t->shapes = ARENA_ARRAY(&t->arena, trainer_shape, t->nsteps);
    t->shape_of = ARENA_ARRAY(&t->arena, uint32_t, t->nsteps);
    weft_status status = t->shapes && t->shape_of ? sort_steps(t, &scratch) : base_out_of_memory();
    arena_fini(&scratch);
    return status;
}
