/* local_gather.c: gathers of the local engine: a board to which every process copies its ranks' bytes.
 *
 * The invariant: a round is written to one of two pages until all ranks have come, and read from it after. The page is
 * written again two rounds later, when everyone has begun the round between and so has read it. Nobody looks at another
 * one's memory, so a process that gives up can go. One that has all ranks never waits. This is no part of a step: a
 * mutex does. */
#include <errno.h>

#include "executor/comm/local.h"

typedef struct local_page local_page;

/* One exchange as one process takes part. */
typedef struct visit {
    const comm_world *world;
    const comm_gather *asked;
    local_board *board;
    size_t before, nbytes, total; /* bytes of ranks before its own, of its own, of all */
} visit;

static bool init_sync(local_board *board) {
    if (wait_condition_init(&board->changed) != 0) return false;
    if (pthread_mutex_init(&board->mutex, NULL) == 0) return true;
    pthread_cond_destroy(&board->changed);
    return false;
}

weft_status local_board_init(local_board *board, const weft_allocator *allocator, int nranks) {
    size_t nbytes = (size_t)nranks * sizeof *board->has_come;
    *board = (local_board){.has_come = base_alloc(allocator, nbytes)};
    if (!board->has_come) return base_out_of_memory();
    memset(board->has_come, 0, nbytes);
    if (init_sync(board)) return NULL;
    base_free(allocator, board->has_come, nbytes);
    return base_out_of_memory();
}

void local_board_fini(local_board *board, const weft_allocator *allocator, int nranks) {
    for (int i = 0; i < 2; i++) base_free(allocator, board->pages[i].bytes, board->pages[i].capacity);
    pthread_mutex_destroy(&board->mutex);
    pthread_cond_destroy(&board->changed);
    base_free(allocator, board->has_come, (size_t)nranks * sizeof *board->has_come);
}

/* "2, 5, 7": up to 8 of the ranks that have not come. */
static void list_missing(const visit *v, char *out, size_t nbytes) {
    size_t n = 0, listed = 0;
    *out = '\0';
    for (int r = 0; r < v->world->nranks && n < nbytes; r++) {
        if (v->board->has_come[r]) continue;
        if (listed++ == 8) {
            snprintf(out + n, nbytes - n, " and others");
            return;
        }
        n += (size_t)snprintf(out + n, nbytes - n, "%s%d", listed > 1 ? ", " : "", r);
    }
}

static weft_status given_up(const visit *v) {
    const char *why = comm_world_why(v->world);
    if (why) return weft_status_create(WEFT_RUNTIME, NULL, "%s", why);
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %d: what ranks exchange %s was given up",
                              v->world->first_rank, v->asked->when);
}

static weft_status reserve(const visit *v, local_page *p) {
    const weft_allocator *allocator = ((const local_world *)v->world->shared)->allocator;
    p->nbytes = v->total;
    if (v->total <= p->capacity) return NULL;
    char *bytes = base_resize(allocator, p->bytes, p->capacity, v->total);
    if (!bytes) return base_out_of_memory();
    p->bytes = bytes;
    p->capacity = v->total;
    return NULL;
}

static weft_status post(const visit *v, local_page *p) {
    local_board *board = v->board;
    int first = v->world->first_rank;
    if (board->narrived == 0) TRY(reserve(v, p));
    if (p->nbytes != v->total)
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %d gives %zu bytes %s, others %zu", first, v->total,
                                  v->asked->when, p->nbytes);
    if (v->nbytes) memcpy(p->bytes + v->before, v->asked->mine, v->nbytes);
    for (int r = first; r < first + v->world->nlocal; r++) board->has_come[r] = true;
    board->narrived += v->world->nlocal;
    return NULL;
}

static weft_status wait_for_all(const visit *v) {
    local_board *board = v->board;
    unsigned round = board->nrounds;
    struct timespec deadline = wait_condition_deadline(v->asked->timeout_seconds);
    while (board->nrounds == round && !board->has_ended) {
        if (pthread_cond_timedwait(&board->changed, &board->mutex, &deadline) != ETIMEDOUT) continue;
        if (board->nrounds != round) return NULL;
        char missing[120];
        list_missing(v, missing, sizeof missing);
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %d waited %g s %s for rank %s", v->world->first_rank,
                                  v->asked->timeout_seconds, v->asked->when, missing);
    }
    return board->nrounds == round ? given_up(v) : NULL;
}

static weft_status exchange(const visit *v) {
    local_board *board = v->board;
    local_page *p = &board->pages[board->nrounds % 2];
    if (board->has_ended) return given_up(v);
    TRY(post(v, p));
    if (board->narrived == v->world->nranks) {
        board->narrived = 0;
        board->nrounds++;
        memset(board->has_come, 0, (size_t)v->world->nranks * sizeof *board->has_come);
        pthread_cond_broadcast(&board->changed);
    } else {
        TRY(wait_for_all(v));
    }
    if (v->total) memcpy(v->asked->all, p->bytes, v->total);
    return NULL;
}

static weft_status measure(visit *v) {
    int first = v->world->first_rank, end = first + v->world->nlocal;
    for (int r = 0; r < v->world->nranks; r++) {
        size_t nbytes = v->asked->nbytes ? v->asked->nbytes[r] : v->asked->nbytes_each;
        if (r == first) v->before = v->total;
        if (r >= first && r < end) v->nbytes += nbytes;
        if (!base_add(v->total, nbytes, &v->total)) return base_out_of_memory();
    }
    return NULL;
}

void local_board_end(local_board *board) {
    pthread_mutex_lock(&board->mutex);
    board->has_ended = true;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->mutex);
}

weft_status local_gather(comm_world *world, const comm_gather *g) {
    local_board *board = &((local_world *)world->shared)->boards[g->channel];
    visit v = {.world = world, .asked = g, .board = board};
    TRY(measure(&v));
    pthread_mutex_lock(&board->mutex);
    weft_status status = exchange(&v);
    if (status) { /* for everyone */
        board->has_ended = true;
        pthread_cond_broadcast(&board->changed);
    }
    pthread_mutex_unlock(&board->mutex);
    return status;
}
