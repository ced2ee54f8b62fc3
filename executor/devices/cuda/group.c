#include "executor/devices/cuda/group.h"

#include "executor/kernels/typed.h"

/* --- who belongs together ----------------------------------------------------------------------------------------- */

static bool waits_for_another(const cuda_command *c) {
    const plan_instr *instr = c->of->instr;
    for (uint32_t i = 0; i < instr->nwaits; i++)
        if (instr->waits[i].count > 0 && instr->waits[i].stream != instr->stream) return true;
    return false;
}

static bool can_join(const cuda_command *c) {
    return c->op && c->op->updates && !c->half && !c->of->watched && c->of->delay_seconds <= 0;
}

static bool overlap(const tensor *a, const tensor *b) {
    if (a->dtype == WEFT_DTYPE_NONE || b->dtype == WEFT_DTYPE_NONE) return false;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + tensor_nbytes(b) && y < x + tensor_nbytes(a);
}

static uint32_t count_in(const cuda_command *c) {
    return c->on_device.in_first[c->on_device.schema->ninputs];
}
static uint32_t count_out(const cuda_command *c) {
    return c->on_device.out_first[c->on_device.schema->noutputs];
}

/* Whether one writes what the other touches. */
static bool writes_into(const cuda_command *writer, const cuda_command *other) {
    for (uint32_t i = 0; i < count_out(writer); i++) {
        for (uint32_t k = 0; k < count_in(other); k++)
            if (overlap(&writer->on_device.out[i], &other->on_device.in[k])) return true;
        for (uint32_t k = 0; k < count_out(other); k++)
            if (overlap(&writer->on_device.out[i], &other->on_device.out[k])) return true;
    }
    return false;
}

/* Whether `c` may be one more behind `n` others. */
static bool joins(const cuda_command *first, size_t n, const cuda_command *c) {
    const cuda_command *last = &first[n - 1];
    if (!can_join(c) || c->op->updates != first->op->updates || c->guards[0] != first->guards[0] ||
        c->guards[1] != first->guards[1] || last->of->signals || waits_for_another(c))
        return false;
    for (size_t k = 0; k < n; k++)
        if (writes_into(&first[k], c) || writes_into(c, &first[k])) return false;
    return true;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

enum { STEP = 4 }; /* floats that adam_begin makes for a parameter */

/* Its tables as they lie in the GPU's memory from `at` on: of arguments, of first items, of steps. */
static void fill_tables(const cuda_command *first, size_t n, char *host, char *at, updates_args *out) {
    update_args *table = (update_args *)(void *)host;
    cuda_index *firsts = (cuda_index *)(void *)(table + n), nitems = 0;
    size_t steps_at = (size_t)((char *)(firsts + n + 1) - host);
    for (size_t k = 0; k < n; k++) {
        table[k] = first[k].op->updates->args(&first[k].on_device);
        table[k].step = (float *)(void *)(at + steps_at) + STEP * k;
        firsts[k] = nitems;
        nitems += (table[k].nitems + CUDA_THREADS - 1) / CUDA_THREADS * CUDA_THREADS;
    }
    firsts[n] = nitems;
    *out = (updates_args){nitems, (const update_args *)(void *)at, (const cuda_index *)(void *)(at + n * sizeof *table),
                          (int)n};
}

static weft_status make_group(cuda_lane *l, cuda_command *first, size_t n) {
    cuda_rank *r = l->rank;
    device *d = r->run->head.device;
    cuda_group *g = ARENA_NEW(&r->run->head.executor->arena, cuda_group);
    size_t nbytes = n * (sizeof(update_args) + sizeof(cuda_index) + STEP * sizeof(float)) + sizeof(cuda_index);
    char *host = base_alloc(d->allocator, nbytes);
    if (!g || !host) {
        base_free(d->allocator, host, nbytes);
        return base_out_of_memory();
    }
    memset(host, 0, nbytes);
    g->of = first->op->updates;
    for (size_t k = 0; k < n; k++) first[k].is_away = true;
    first[n - 1].group = g;
    weft_status status = cuda_alloc(d, r->state->rank, DEVICE_OWN, nbytes, &g->memory);
    if (!status) {
        r->run->nbytes += g->memory.block_nbytes;
        fill_tables(first, n, host, (char *)g->memory.bytes, &g->args);
        status = cuda_copy_in(d, r->state->rank, g->memory.bytes, host, nbytes);
    }
    base_free(d->allocator, host, nbytes);
    return status;
}

weft_status cuda_group_lane(cuda_lane *l) {
    size_t end = l->state->ninstrs;
    if (l->rank->run->head.timed) return NULL; /* each has a time of its own */
    for (size_t i = 0; i < end;) {
        size_t n = 1;
        if (can_join(&l->commands[i]))
            while (i + n < end && joins(&l->commands[i], n, &l->commands[i + n])) n++;
        if (n > 1) TRY(make_group(l, &l->commands[i], n));
        i += n;
    }
    return NULL;
}

void cuda_group_discard(device *d, cuda_group *g) {
    if (g) cuda_free(d, &g->memory);
}

weft_status cuda_group_launch(const cuda_launch *l, const cuda_group *g) {
    updates_args a = g->args;
    if (g->of->begins != CUDA_KERNELS) {
        a.nitems = a.n;
        TRY(cuda_start_items(l, g->of->begins, a.nitems, &a));
    }
    a.nitems = g->args.nitems;
    return cuda_start_items(l, g->of->updates, a.nitems, &a);
}
