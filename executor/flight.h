/* flight.h: what the ranks of a process are at, written where it outlives the process: memory of the launcher's.
 *
 * Cost: a few stores a collective; nothing where no launcher gave such memory. */
#ifndef EXECUTOR_FLIGHT_H
#define EXECUTOR_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FLIGHT_MOST_RANKS = 256, FLIGHT_OP_NBYTES = 96, FLIGHT_LAUNCHER_MS = 5000, FLIGHT_MOST_TOLD = 16 };
enum { FLIGHT_SET = FLIGHT_MOST_RANKS / 64 };

typedef enum flight_state { FLIGHT_BEFORE, FLIGHT_IN, FLIGHT_BEHIND } flight_state;

/* One rank: the collective that it entered last. Written by the threads that run them; of several at once the last
 * shows. */
typedef struct flight_rank {
    _Atomic uint32_t state;
    _Atomic int64_t since_ns, late_ns;    /* when it came there; from when on others are late (0: not known) */
    _Atomic uint64_t awaited[FLIGHT_SET]; /* a bit for each of the others, up to FLIGHT_MOST_RANKS */
    _Atomic int64_t ring;
    _Atomic uint64_t step;
    char op[FLIGHT_OP_NBYTES]; /* "c_allreduce_sum #3" */
} flight_rank;

/* One process. */
typedef struct flight_process {
    _Atomic int64_t pid; /* 0: it has not come yet */
    char host[64];
    int32_t first_rank, nlocal;
    _Atomic int32_t has_left, exit_status; /* it ends by itself */
    _Atomic int32_t is_seen;               /* the launcher's: it hears of this process's death */
    flight_rank ranks[FLIGHT_MOST_RANKS];  /* nlocal of them */
} flight_process;

/* The memory of the launcher that started this process, or NULL: none did. */
flight_process *flight_join(int index);
/* Until the launcher has seen this process, or cannot: it may have no turn. NULL is fine. */
void flight_await_launcher(const flight_process *f);
void flight_leave(flight_process *f, int exit_status); /* NULL is fine */
/* Whether process `index`, which this one is, is the first of the launcher's to tell this text. Of more than
 * FLIGHT_MOST_TOLD texts all are first. */
bool flight_tells_first(flight_process *f, int index, const char *text);

/* A collective as it begins. */
typedef struct flight_entry {
    const char *op;
    int64_t ring_id, since_ns, late_ns;
    const uint64_t *awaited;
} flight_entry;

static inline void flight_enter(flight_rank *f, const flight_entry *e) {
    for (int i = 0; i < FLIGHT_OP_NBYTES - 1 && (f->op[i] = e->op[i]); i++) continue;
    atomic_store_explicit(&f->ring, e->ring_id, memory_order_relaxed);
    atomic_store_explicit(&f->since_ns, e->since_ns, memory_order_relaxed);
    atomic_store_explicit(&f->late_ns, e->late_ns, memory_order_relaxed);
    for (int i = 0; i < FLIGHT_SET; i++) atomic_store_explicit(&f->awaited[i], e->awaited[i], memory_order_relaxed);
    atomic_store_explicit(&f->state, FLIGHT_IN, memory_order_release);
}
static inline void flight_end(flight_rank *f) {
    atomic_store_explicit(&f->state, FLIGHT_BEHIND, memory_order_release);
}

#endif
