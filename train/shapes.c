/* shapes.c: shapes of feeds, numbered alike by all processes of a run.
 *
 * Each process sees what its own ranks are fed, and would take another executor where that changes shape. An executor
 * is made by all processes together, so all must change in the same steps: steps are alike where they are to every
 * process. */
#include "train/gather.h"

/* How many steps a process's feeds have, and in how many shapes. */
typedef struct fed_steps {
    uint64_t nsteps, nshapes;
} fed_steps;

static weft_status exchange_counts(weft_trainer *t, arena *scratch, bool *out_differ) {
    fed_steps *mine = ARENA_ARRAY(scratch, fed_steps, t->nlocal), *all = ARENA_ARRAY(scratch, fed_steps, t->nranks);
    if (!mine || !all) return base_out_of_memory();
    for (int i = 0; i < t->nlocal; i++) mine[i] = (fed_steps){t->nsteps, t->feeds->nshapes};
    TRY(gather_each(t, mine, sizeof *mine, all));
    for (int r = 0; r < t->nranks; r++) {
        *out_differ = *out_differ || all[r].nshapes > 1;
        if (all[r].nsteps == all[0].nsteps) continue;
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "rank 0 is fed %llu steps, rank %d %llu: expected as many",
                                  (unsigned long long)all[0].nsteps, r, (unsigned long long)all[r].nsteps);
    }
    return NULL;
}

/* By process, then by step. */
static weft_status exchange_shapes(weft_trainer *t, arena *scratch, const uint32_t **out, size_t *out_nprocesses) {
    gathered_bytes all;
    buffer mine;
    buffer_init(&mine, &t->context->allocator);
    for (size_t i = 0; i < t->nsteps; i++) {
        uint32_t number = (uint32_t)weft_feeds_shape_of(t->feeds, t->first_step + i);
        buffer_append(&mine, &number, sizeof number);
    }
    weft_status status = executor_gather_bytes(t->executor, "for the shapes of feeds", scratch, &mine, &all);
    buffer_fini(&mine);
    if (status) return status;
    *out_nprocesses = all.nbytes / sizeof(uint32_t) / t->nsteps;
    *out = (const uint32_t *)(const void *)all.bytes;
    return NULL;
}

static weft_status number_steps(weft_feeds *f, arena *scratch, const uint32_t *all, size_t nprocesses) {
    size_t nsteps = f->options.nsteps, count = 0;
    hash_table found = {.entries = NULL};
    feed_shape *shapes = ARENA_ARRAY(&f->arena, feed_shape, nsteps);
    uint32_t *shape_of = ARENA_ARRAY(&f->arena, uint32_t, nsteps);
    if (!shapes || !shape_of) return base_out_of_memory();
    for (size_t i = 0; i < nsteps; i++) {
        uint64_t hash = 0;
        for (size_t p = 0; p < nprocesses; p++) hash = (hash ^ all[p * nsteps + i]) * 0x9e3779b97f4a7c15u;
        TRY(table_reserve(scratch, &found, count + 1));
        table_probe at = table_find(&found, table_hash(hash));
        for (; at.item != TABLE_NONE; table_next(&found, &at)) {
            size_t other = shapes[at.item].step - f->options.first_step, p = 0;
            while (p < nprocesses && all[p * nsteps + i] == all[p * nsteps + other]) p++;
            if (p == nprocesses) break;
        }
        if (at.item == TABLE_NONE) {
            size_t step = f->options.first_step + i;
            table_put(&found, &at, (uint32_t)count);
            shapes[count++] = (feed_shape){step, f->shapes[weft_feeds_shape_of(f, step)].types};
        }
        shape_of[i] = at.item;
    }
    f->shapes = shapes;
    f->shape_of = shape_of;
    f->nshapes = count;
    return NULL;
}

weft_status trainer_agree_on_shapes(weft_trainer *t) {
    arena scratch;
    bool differ = false;
    const uint32_t *all = NULL;
    size_t nprocesses = 0;
    if (t->nlocal == t->nranks) return NULL;
    arena_init(&scratch, &t->context->allocator);
    weft_status status = exchange_counts(t, &scratch, &differ);
    if (!status && differ) {
        status = exchange_shapes(t, &scratch, &all, &nprocesses);
        if (!status) status = number_steps(t->feeds, &scratch, all, nprocesses);
    }
    arena_fini(&scratch);
    return status;
}
