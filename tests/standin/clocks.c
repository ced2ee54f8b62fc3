#include "tests/standin/clocks.h"

#include "tests/standin/queue.h"

enum { NAMES = 1024 }; /* of the last items of a slot */

standin_clock standin_host;

static struct {
    bool is_taken;
    uint32_t count;
    const char *names[NAMES];
} slots[STANDIN_SLOTS];

void standin_clock_join(standin_clock *into, const standin_clock *other) {
    for (int i = 0; i < STANDIN_SLOTS; i++)
        if (other->at[i] > into->at[i]) into->at[i] = other->at[i];
}

int standin_slot_take(void) {
    for (int i = 0; i < STANDIN_SLOTS; i++) {
        if (slots[i].is_taken) continue;
        slots[i].is_taken = true;
        return i;
    }
    standin_broken("more than %d streams at a time", STANDIN_SLOTS);
}

void standin_slot_give(int slot) {
    slots[slot].is_taken = false;
}

void standin_clock_tick(standin_clock *clock, int slot, const char *what) {
    slots[slot].count++;
    slots[slot].names[slots[slot].count % NAMES] = what;
    clock->at[slot] = slots[slot].count;
}

const char *standin_slot_name(int slot, uint32_t count) {
    bool is_kept = slots[slot].count - count < NAMES && slots[slot].names[count % NAMES];
    return is_kept ? slots[slot].names[count % NAMES] : "something";
}
