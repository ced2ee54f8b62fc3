/* comm_conformance.c: what every engine does. Threads play the ranks of the worlds that the engine's factory opens here;
 * what they do is in the files beside this one. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/kernel.h"
#include "tests/support/comm_member.h"

const comm_factory *comm_factory_at_hand;
static _Atomic int npassed, nfailed;

void comm_check(bool good, const char *format, ...) {
    if (good) {
        npassed++;
        return;
    }
    nfailed++;
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("FAIL %s: %s\n", comm_factory_at_hand->name, line);
}

weft_status comm_perform(const comm_member *m, const comm_request *request) {
    const comm_factory *f = comm_factory_at_hand;
    return f->perform ? f->perform(m->ring, request) : comm_run(m->ring, request);
}

static void *new_buffer(size_t nbytes) {
    const comm_factory *f = comm_factory_at_hand;
    void *bytes = f->alloc ? f->alloc(nbytes) : calloc(1, nbytes);
    if (!bytes) abort();
    return bytes;
}

static void free_buffer(void *bytes) {
    if (comm_factory_at_hand->alloc)
        comm_factory_at_hand->free(bytes);
    else
        free(bytes);
}

/* --- elements as doubles ------------------------------------------------------------------------------------------ */

double comm_load(weft_dtype dtype, const void *p, size_t i) {
    switch (dtype) {
    case WEFT_FP32: return (double)((const float *)p)[i];
    case WEFT_FP64: return ((const double *)p)[i];
    case WEFT_FP16: return (double)fp16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_BF16: return (double)bf16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_INT64: return (double)((const int64_t *)p)[i];
    case WEFT_SIZE_T: return (double)((const uint64_t *)p)[i];
    case WEFT_INT32: return ((const int32_t *)p)[i];
    case WEFT_INT16: return ((const int16_t *)p)[i];
    case WEFT_INT8: return ((const int8_t *)p)[i];
    case WEFT_UINT8:
    case WEFT_BOOL: return ((const uint8_t *)p)[i];
    default: abort();
    }
}

void comm_store(weft_dtype dtype, void *p, size_t i, double v) {
    switch (dtype) {
    case WEFT_FP32: ((float *)p)[i] = (float)v; break;
    case WEFT_FP64: ((double *)p)[i] = v; break;
    case WEFT_FP16: ((uint16_t *)p)[i] = f32_to_fp16((float)v); break;
    case WEFT_BF16: ((uint16_t *)p)[i] = f32_to_bf16((float)v); break;
    case WEFT_INT64: ((int64_t *)p)[i] = (int64_t)v; break;
    case WEFT_SIZE_T: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case WEFT_INT32: ((int32_t *)p)[i] = (int32_t)v; break;
    case WEFT_INT16: ((int16_t *)p)[i] = (int16_t)(int64_t)v; break;
    case WEFT_INT8: ((int8_t *)p)[i] = (int8_t)(int64_t)v; break;
    case WEFT_UINT8: ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; break;
    case WEFT_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: abort();
    }
}

/* --- rings as threads --------------------------------------------------------------------------------------------- */

/* The world that has the rank, or NULL: it is in a process elsewhere. */
static comm_world *world_of(comm_world *const *worlds, int nworlds, int64_t rank) {
    for (int i = 0; i < nworlds; i++)
        if (rank >= worlds[i]->first_rank && rank < worlds[i]->first_rank + worlds[i]->nlocal) return worlds[i];
    return NULL;
}

void comm_run_ring(int nranks, int nmembers, const int64_t *ranks, void *(*fn)(void *)) {
    comm_world *worlds[MOST_RANKS];
    comm_member members[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    int nworlds = 0, n = 0;
    weft_status status = comm_factory_at_hand->open(comm_factory_at_hand->user, nranks, worlds, &nworlds);
    comm_check(!status, "world of %d: %s", nranks, weft_status_message(status));
    if (status) {
        weft_status_free(status);
        return;
    }
    for (int i = 0; i < nmembers; i++) {
        comm_world *world = world_of(worlds, nworlds, ranks[i]);
        if (!world) continue;
        size_t nbytes = ((size_t)MOST_COUNT + 64) * (size_t)nmembers * 8 + 64;
        members[n] = (comm_member){world, NULL, i, nmembers, new_buffer(nbytes), new_buffer(nbytes)};
        must(comm_ring_get(world, 7, nmembers, ranks, ranks[i], &members[n++].ring));
    }
    for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, fn, &members[i]);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        free_buffer(members[i].a);
        free_buffer(members[i].b);
    }
    comm_factory_at_hand->close(comm_factory_at_hand->user, worlds, nworlds);
}

void comm_run_ranks(int nranks, void *(*fn)(void *)) {
    int64_t ranks[MOST_RANKS];
    for (int r = 0; r < nranks; r++) ranks[r] = r;
    comm_run_ring(nranks, nranks, ranks, fn);
}

void comm_conformance(const comm_factory *engine, int *out_passed, int *out_failed) {
    comm_factory_at_hand = engine;
    npassed = nfailed = 0;
    comm_test_kinds();
    comm_test_parts();
    comm_test_failures();
    comm_test_worlds();
    *out_passed = npassed;
    *out_failed = nfailed;
}
