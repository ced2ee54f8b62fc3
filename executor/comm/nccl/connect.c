/* connect.c: the communicators of a world: one of all ranks, by an id that rank 0 makes, and one split from it for each
 * ring of any rank. */
#include <stdio.h>
#include <stdlib.h>

#include "executor/comm/nccl/engine.h"

/* A rank that is missing is found after so long. */
static const double deadline_seconds = 120;

/* Rings as all ranks know them: id, number of ranks, ranks. */
typedef struct ring_list {
    int64_t *words;
    size_t nwords;
    const int64_t **rings; /* each once, in the order of ids */
    bool *registers;       /* by ring: its members tell NCCL of their buffers */
    size_t nrings;
} ring_list;

typedef struct joining {
    nccl_world *w;
    const ring_list *list;
    const ncclUniqueId *id;
    int rank;
    weft_status status;
    pthread_t thread;
    bool has_thread;
} joining;

/* --- which rings there are ---------------------------------------------------------------------------------------- */

static size_t words_of(const nccl_world *w, int64_t rank, int64_t *out) {
    size_t n = 0;
    for (const nccl_ring *r = w->rings; r; r = r->next) {
        if (r->rank != rank) continue;
        if (out) {
            out[n] = r->view.id;
            out[n + 1] = r->view.nranks;
            memcpy(&out[n + 2], r->ranks, (size_t)r->view.nranks * sizeof *out);
        }
        n += 2 + (size_t)r->view.nranks;
    }
    return n;
}

static int by_id(const void *a, const void *b) {
    const int64_t *x = *(const int64_t *const *)a, *y = *(const int64_t *const *)b;
    int64_t n = x[1] < y[1] ? x[1] : y[1];
    if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
    for (int64_t i = 1; i < 2 + n; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static void sort_rings(ring_list *list) {
    list->nrings = 0;
    for (size_t i = 0; i < list->nwords; i += 2 + (size_t)list->words[i + 1])
        list->rings[list->nrings++] = &list->words[i];
    if (list->nrings) qsort(list->rings, list->nrings, sizeof *list->rings, by_id);
    size_t kept = 0;
    for (size_t i = 0; i < list->nrings; i++)
        if (!kept || by_id(&list->rings[kept - 1], &list->rings[i]) != 0) list->rings[kept++] = list->rings[i];
    list->nrings = kept;
}

static weft_status exchange(const nccl_world *w, arena *a, const void *mine, void *all, const size_t *nbytes,
                            size_t nbytes_each) {
    (void)a;
    return comm_world_gather(w->over.world, &(comm_gather){.channel = COMM_MAIN,
                                                           .mine = mine,
                                                           .all = all,
                                                           .nbytes = nbytes,
                                                           .nbytes_each = nbytes_each,
                                                           .timeout_seconds = deadline_seconds,
                                                           .when = "before communicators are made"});
}

static weft_status collect_rings(const nccl_world *w, arena *a, ring_list *out) {
    const comm_world *world = w->over.world;
    size_t *sizes = ARENA_ARRAY(a, size_t, world->nranks), *mine = ARENA_ARRAY(a, size_t, world->nlocal), nmine = 0;
    if (!sizes || !mine) return base_out_of_memory();
    for (int i = 0; i < world->nlocal; i++) nmine += mine[i] = words_of(w, world->first_rank + i, NULL);
    TRY(exchange(w, a, mine, sizes, NULL, sizeof *mine));
    for (int r = 0; r < world->nranks; r++) {
        out->nwords += sizes[r];
        sizes[r] *= sizeof(int64_t);
    }
    int64_t *words = ARENA_ARRAY(a, int64_t, nmine + 1);
    out->words = ARENA_ARRAY(a, int64_t, out->nwords + 1);
    out->rings = ARENA_ARRAY(a, const int64_t *, out->nwords + 1);
    if (!words || !out->words || !out->rings) return base_out_of_memory();
    size_t at = 0;
    for (int i = 0; i < world->nlocal; i++) at += words_of(w, world->first_rank + i, words + at);
    TRY(exchange(w, a, words, out->words, sizes, 0));
    sort_rings(out);
    return NULL;
}

/* --- what its members agree on -------------------------------------------------------------------------------------
 */

static nccl_ring *own_ring(const nccl_world *w, const int64_t *listed, int64_t rank) {
    for (nccl_ring *r = w->rings; r; r = r->next)
        if (r->rank == rank && r->view.id == listed[0] && r->view.nranks == listed[1] &&
            memcmp(r->ranks, &listed[2], (size_t)listed[1] * sizeof *listed) == 0)
            return r;
    return NULL;
}

/* What a member says of a ring. */
typedef struct ring_word {
    uint64_t buffers, configs;
} ring_word;

/* Words of all ranks, each of all rings; whether the members of ring k can register their buffers. */
static weft_status compare_words(const ring_list *list, const ring_word *words, size_t k) {
    const int64_t *listed = list->rings[k], *ranks = &listed[2];
    const ring_word *first = &words[(size_t)ranks[0] * list->nrings + k];
    list->registers[k] = first->buffers != 0;
    for (int64_t i = 1; i < listed[1]; i++) {
        const ring_word *other = &words[(size_t)ranks[i] * list->nrings + k];
        list->registers[k] &= other->buffers == first->buffers;
        if (other->configs != first->configs)
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                      "ring %lld: ranks %lld and %lld say different things of how NCCL runs its "
                                      "collectives (nccl_algorithm, nccl_ctas, nccl_policy)",
                                      (long long)listed[0], (long long)ranks[0], (long long)ranks[i]);
    }
    return NULL;
}

static weft_status agree_on_words(const nccl_world *w, arena *a, ring_list *list) {
    const comm_world *world = w->over.world;
    size_t n = list->nrings, nlocal = (size_t)world->nlocal;
    ring_word *mine = ARENA_ARRAY(a, ring_word, nlocal * n),
              *all = ARENA_ARRAY(a, ring_word, (size_t)world->nranks * n);
    list->registers = ARENA_ARRAY(a, bool, n);
    if (!mine || !all || !list->registers) return base_out_of_memory();
    for (size_t i = 0; i < nlocal * n; i++) {
        const nccl_ring *own = own_ring(w, list->rings[i % n], world->first_rank + (int64_t)(i / n));
        mine[i] = own ? (ring_word){nccl_buffers_word(own), own->configs} : (ring_word){0};
    }
    TRY(exchange(w, a, mine, all, NULL, n * sizeof *mine));
    for (size_t k = 0; k < n; k++) TRY(compare_words(list, all, k));
    return NULL;
}

/* Rank 0 makes it; the others' are forgotten. */
static weft_status agree_on_id(const nccl_world *w, arena *a, ncclUniqueId *out) {
    const comm_world *world = w->over.world;
    ncclUniqueId *mine = ARENA_ARRAY(a, ncclUniqueId, world->nlocal),
                 *all = ARENA_ARRAY(a, ncclUniqueId, world->nranks);
    if (!mine || !all) return base_out_of_memory();
    if (world->first_rank == 0) TRY(nccl_check(nccl.GetUniqueId(&mine[0]), "ncclGetUniqueId"));
    TRY(exchange(w, a, mine, all, NULL, sizeof *mine));
    *out = all[0];
    return NULL;
}

/* --- a rank's communicators --------------------------------------------------------------------------------------- */

static weft_status split(const joining *j, ncclComm_t all, const int64_t *listed, int rank) {
    nccl_ring *own = own_ring(j->w, listed, rank);
    const comm_world *world = j->w->over.world;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t *made = own ? &own->made : &j->w->none[rank - world->first_rank];
    ncclResult_t result = nccl.CommSplit(all, own ? 0 : NCCL_SPLIT_NOCOLOR, own ? own->view.index : 0, made, &config);
    TRY(nccl_settle(all, result, world, deadline_seconds, "ncclCommSplit"));
    if (!own) return NULL;
    TRY(nccl_settle(own->made, ncclSuccess, world, deadline_seconds, "ncclCommSplit"));
    CUDA_TRY(Malloc, &own->barrier, sizeof(float));
    pthread_mutex_lock(&own->lock);
    own->comm = own->made;
    own->made = NULL;
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static weft_status join_rank(const joining *j) {
    const comm_world *world = j->w->over.world;
    ncclComm_t *all = &j->w->all[j->rank - world->first_rank];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CUDA_TRY(SetDevice, cuda_gpu_of(j->w->device, j->rank));
    ncclResult_t result = nccl.CommInitRankConfig(all, world->nranks, *j->id, j->rank, &config);
    TRY(nccl_settle(*all, result, world, deadline_seconds, "ncclCommInitRankConfig"));
    for (size_t i = 0; i < j->list->nrings; i++) TRY(split(j, *all, j->list->rings[i], j->rank));
    for (size_t i = 0; i < j->list->nrings; i++) {
        nccl_ring *own = own_ring(j->w, j->list->rings[i], j->rank);
        if (own && j->list->registers[i]) TRY(nccl_register(own));
    }
    return NULL;
}

static void *run(void *arg) {
    joining *j = arg;
    j->status = join_rank(j);
    if (j->status) comm_world_abort(j->w->over.world, weft_status_message(j->status)); /* the others wait */
    return NULL;
}

/* A thread for each: they wait for one another. The first status that says why is kept. */
static weft_status join_all(nccl_world *w, const ring_list *list, const ncclUniqueId *id, joining *joinings) {
    weft_status status = NULL;
    int n = w->over.world->nlocal;
    for (int i = 0; i < n; i++) {
        joinings[i] = (joining){.w = w, .list = list, .id = id, .rank = w->over.world->first_rank + i};
        int failed = pthread_create(&joinings[i].thread, NULL, run, &joinings[i]);
        joinings[i].has_thread = !failed;
        if (failed) status = weft_status_create(WEFT_IO, NULL, "nccl: no thread: %s", strerror(failed));
        if (failed) comm_world_abort(w->over.world, weft_status_message(status));
        if (failed) break;
    }
    for (int i = 0; i < n; i++) {
        if (joinings[i].has_thread) pthread_join(joinings[i].thread, NULL);
        weft_status other = joinings[i].status;
        bool better = other && (!status || weft_status_code(status) == WEFT_CANCELLED);
        weft_status_free(better ? status : other);
        if (better) status = other;
    }
    return status;
}

weft_status nccl_connect(nccl_world *w) {
    arena a;
    ring_list list = {0};
    ncclUniqueId id;
    arena_init(&a, w->over.world->allocator);
    weft_status status = collect_rings(w, &a, &list);
    joining *joinings = ARENA_ARRAY(&a, joining, w->over.world->nlocal);
    if (!status && !joinings) status = base_out_of_memory();
    if (!status && list.nrings) status = agree_on_words(w, &a, &list);
    if (!status && list.nrings) status = agree_on_id(w, &a, &id);
    if (!status && list.nrings) status = join_all(w, &list, &id, joinings);
    arena_fini(&a);
    return status;
}
