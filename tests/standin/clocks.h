/* clocks.h: which work of streams is ordered before which, as CUDA's rules have it, by vector clocks.
 *
 * A stream has a slot, and counts what it is given. An item's clock says how far of each slot is ordered before it:
 * what its stream has, and what the events that its stream waited for have. So is what the host had seen the end of
 * when it launched the item. The host is one: threads of it tell one another when a step ends. */
#ifndef TESTS_STANDIN_CLOCKS_H
#define TESTS_STANDIN_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STANDIN_SLOTS = 256 };

typedef struct standin_clock {
    uint32_t at[STANDIN_SLOTS];
} standin_clock;

void standin_clock_join(standin_clock *into, const standin_clock *other);
/* All with the lock. A slot that nobody has; it goes on counting where its last owner ended. */
int standin_slot_take(void);
void standin_slot_give(int slot);
/* One more item of the slot, behind all that `clock` has: what is before it. */
void standin_clock_tick(standin_clock *clock, int slot, const char *what);
/* What the host has seen the end of. */
extern standin_clock standin_host;

/* --- memory, and who touches it ----------------------------------------------------------------------------------- */

struct standin_item;
/* With the lock. */
void standin_block_add(void *bytes, size_t nbytes);
/* Ends the process when work that touches it may not have ended; later touches do. The memory goes back by and by. */
void standin_block_end(void *bytes, bool by_nccl);
/* It was taken for NCCL, whose communicators may know it. */
void standin_block_is_of_nccl(void *bytes);
__attribute__((visibility("default"))) void standin_block_register(const void *address, size_t nbytes, int change);
/* A communicator, a bit, has used a block, which stays until it ends. */
__attribute__((visibility("default"))) void standin_block_use(const void *address, uint64_t user);
__attribute__((visibility("default"))) void standin_blocks_leave(uint64_t user);
/* The kernel of the item runs on this thread. */
void standin_kernel_begins(const struct standin_item *item);

#endif
