/* races.c: who touches which bytes of the device's memory, and whether something orders it. Each word of a block knows
 * its last writer, and readers since: up to three that nothing orders, which is more than a rank has streams.
 *
 * Copies, products and collectives say what they touch. Kernels are compiled with calls before each access, those of
 * -fsanitize=thread, which end here; where a sanitizer needs the compiler for itself, kernels are not watched. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/queue.h"

enum { WORD = 4, READERS = 3, KEPT_NBYTES = 64 << 20, CACHED = 4 };

typedef uint64_t epoch; /* slot and count; 0: nobody */

typedef struct word {
    epoch writer, readers[READERS];
} word;

typedef struct block {
    unsigned char *bytes;
    size_t nbytes;
    word *words;
    uint32_t last[STANDIN_SLOTS]; /* touch of it, by slot */
    bool is_of_nccl, has_ended;
    int nregistered; /* by communicators */
    uint64_t users;  /* bits: those whose collectives had it */
    struct block *next;
} block;

static block *blocks; /* the newest first */
static size_t ended_nbytes;
static block *cached[CACHED];

/* --- blocks ------------------------------------------------------------------------------------------------------- */

void standin_block_add(void *bytes, size_t nbytes) {
    block *b = calloc(1, sizeof *b);
    if (!b) abort();
    *b = (block){.bytes = bytes, .nbytes = nbytes, .next = blocks};
    b->words = calloc(nbytes / WORD + 2, sizeof *b->words);
    if (!b->words) abort();
    blocks = b;
}

/* What has ended longest goes. */
static void forget_oldest(void) {
    block **oldest = NULL;
    for (block **at = &blocks; *at; at = &(*at)->next)
        if ((*at)->has_ended) oldest = at;
    if (!oldest) return;
    block *b = *oldest;
    *oldest = b->next;
    ended_nbytes -= b->nbytes;
    for (int i = 0; i < CACHED; i++)
        if (cached[i] == b) cached[i] = NULL;
    free(b->bytes);
    free(b->words);
    free(b);
}

static bool has(const block *b, const unsigned char *address) {
    return b && address >= b->bytes && address < b->bytes + b->nbytes;
}

static block *alive_at(const unsigned char *address) {
    block *b = blocks;
    while (b && (b->has_ended || !has(b, address))) b = b->next;
    return b;
}

void standin_block_end(void *bytes, bool by_nccl) {
    block *b = alive_at(bytes);
    if (!b || b->bytes != bytes) standin_broken("memory is freed that is not there");
    if (b->is_of_nccl != by_nccl) standin_broken("%s of memory of the other", by_nccl ? "ncclMemFree" : "cudaFree");
    if (b->nregistered) standin_broken("memory is freed that a communicator has registered");
    if (b->users) standin_broken("memory is freed before a communicator whose collectives had it");
    for (int slot = 0; slot < STANDIN_SLOTS; slot++)
        if (b->last[slot] > standin_host.at[slot])
            standin_broken("memory is freed while %s on stream %d may touch it", standin_slot_name(slot, b->last[slot]),
                           slot);
    b->has_ended = true;
    ended_nbytes += b->nbytes;
    free(b->words);
    b->words = NULL;
    while (ended_nbytes > KEPT_NBYTES) forget_oldest();
}

void standin_block_is_of_nccl(void *bytes) {
    alive_at(bytes)->is_of_nccl = true;
}

void standin_block_register(const void *address, size_t nbytes, int change) {
    block *b = alive_at(address);
    if (!b) standin_broken("memory is registered that is not there");
    if (!b->is_of_nccl) standin_broken("memory is registered that ncclMemAlloc has not given");
    size_t at = (size_t)((const unsigned char *)address - b->bytes);
    if (nbytes > b->nbytes - at) standin_broken("more is registered than a block of %zu bytes has", b->nbytes);
    if (at % 4096) standin_broken("memory is registered from byte %zu of its block on", at);
    b->nregistered += change;
}

void standin_block_use(const void *address, uint64_t user) {
    block *b = alive_at(address);
    if (b) b->users |= user;
}

void standin_blocks_leave(uint64_t user) {
    for (block *b = blocks; b; b = b->next) b->users &= ~user;
}

__attribute__((destructor)) static void forget_all(void) {
    while (ended_nbytes) forget_oldest();
}

/* NULL: not the device's. One item runs at a time, so that nobody else is here. */
static block *find(const unsigned char *address) {
    static unsigned turn;
    for (int i = 0; i < CACHED; i++)
        if (has(cached[i], address)) return cached[i];
    standin_lock();
    block *b = blocks;
    while (b && !has(b, address)) b = b->next;
    if (b) cached[turn++ % CACHED] = b;
    standin_unlock();
    return b;
}

/* --- touching ----------------------------------------------------------------------------------------------------- */

static bool is_before(epoch e, const standin_item *item) {
    return item->clock.at[e >> 32] >= (uint32_t)e;
}

static void require(epoch e, const char *did, const standin_item *item, bool writes, const block *b, size_t at) {
    int slot = (int)(e >> 32);
    if (!e || is_before(e, item)) return;
    standin_broken(
        "nothing orders %s on stream %d, which %s byte %zu of a block of %zu, and %s on stream %d, which %s it",
        standin_slot_name(slot, (uint32_t)e), slot, did, at * WORD, b->nbytes, item->what, item->slot,
        writes ? "writes" : "reads");
}

static void read_word(word *w, epoch mine, const standin_item *item) {
    int at = 0;
    for (int i = READERS; i-- > 0;)
        if (!w->readers[i] || is_before(w->readers[i], item)) at = i;
    w->readers[at] = mine;
}

/* Whether the item was here before, and nobody since. */
static bool is_known(const word *w, epoch mine, bool writes) {
    if (!w->readers[0]) return w->writer == mine;
    return !writes && (w->readers[0] == mine || w->readers[1] == mine || w->readers[2] == mine);
}

static void touch_block(block *b, const standin_item *item, size_t first, size_t last, bool writes) {
    epoch mine = (uint64_t)item->slot << 32 | item->clock.at[item->slot];
    if (b->has_ended) standin_broken("%s on stream %d touches memory that was freed", item->what, item->slot);
    b->last[item->slot] = item->clock.at[item->slot];
    for (size_t i = first; i <= last; i++) {
        word *w = &b->words[i];
        if (is_known(w, mine, writes)) continue;
        if (w->writer != mine) require(w->writer, "writes", item, writes, b, i);
        if (!writes) {
            read_word(w, mine, item);
            continue;
        }
        for (int k = 0; k < READERS; k++) require(w->readers[k], "reads", item, writes, b, i);
        *w = (word){.writer = mine};
    }
}

void standin_touch(const standin_item *item, const void *address, size_t nbytes, bool writes) {
    block *b = nbytes ? find(address) : NULL;
    if (!b) return;
    size_t at = (size_t)((const unsigned char *)address - b->bytes);
    if (nbytes > b->nbytes - at)
        standin_broken("%s on stream %d goes %zu bytes beyond a block of %zu", item->what, item->slot,
                       nbytes - (b->nbytes - at), b->nbytes);
    touch_block(b, item, at / WORD, (at + nbytes - 1) / WORD, writes);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static const standin_item *running;
static const unsigned char *stack; /* of the thread that runs it: shared memory of blocks, and what kernels keep */
static size_t stack_nbytes;

void standin_kernel_begins(const standin_item *item) {
    pthread_attr_t attr;
    void *low = NULL;
    running = item;
    stack_nbytes = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return;
    pthread_attr_getstack(&attr, &low, &stack_nbytes);
    pthread_attr_destroy(&attr);
    stack = low;
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

static inline void touch(const void *address, size_t nbytes, bool writes) {
    if ((size_t)((const unsigned char *)address - stack) < stack_nbytes) return;
    if ((size_t)((const unsigned char *)address - running->bytes) < running->nbytes) return; /* its arguments */
    standin_touch(running, address, nbytes, writes);
}

/* The compiler calls them by these names. */
#define ACCESS(name, nbytes, writes)                                                                                   \
    SHOWN void __tsan_##name(const void *address);                                                                     \
    void __tsan_##name(const void *address) {                                                                          \
        touch(address, nbytes, writes);                                                                                \
    }
#define ACCESSES(nbytes)                                                                                               \
    ACCESS(read##nbytes, nbytes, false)                                                                                \
    ACCESS(write##nbytes, nbytes, true)                                                                                \
    ACCESS(unaligned_read##nbytes, nbytes, false)                                                                      \
    ACCESS(unaligned_write##nbytes, nbytes, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#define RANGE(name, writes)                                                                                            \
    SHOWN void __tsan_##name(const void *address, size_t nbytes);                                                      \
    void __tsan_##name(const void *address, size_t nbytes) {                                                           \
        touch(address, nbytes, writes);                                                                                \
    }
RANGE(read_range, false)
RANGE(write_range, true)
SHOWN void __tsan_init(void);
void __tsan_init(void) {}
SHOWN void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) {
    (void)caller;
}
SHOWN void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

#endif
