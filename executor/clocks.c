/* clocks.c: comparing clocks by a gather, which nobody leaves before everybody has come.
 *
 * The idea: process p leaves after rank 0's process has come, and that one leaves after p has come. So p's clock is
 * ahead by at most left(p) - came(0), and by at least came(p) - left(0). Each round narrows the interval, down to what
 * the fastest gather takes. Clocks that may be equal are taken for one clock, as processes of one machine have; else
 * the middle is taken. What a round found out is told in the next one. */
#include "executor/clocks.h"

enum { ROUNDS = 12 };

/* When a process came to the last round but one, and left it. */
typedef struct stay {
    int64_t came_ns, left_ns;
} stay;

/* All ranks of a process say the same; rank 0 and the own first rank are listened to. */
static weft_status tell(comm_world *w, double timeout_seconds, stay own, stay *out_first) {
    stay *mine = base_alloc(w->allocator, (size_t)(w->nlocal + w->nranks) * sizeof *mine);
    if (!mine) return base_out_of_memory();
    for (int i = 0; i < w->nlocal; i++) mine[i] = own;
    weft_status status = comm_world_gather(w, &(comm_gather){.mine = mine,
                                                             .all = mine + w->nlocal,
                                                             .nbytes_each = sizeof *mine,
                                                             .timeout_seconds = timeout_seconds,
                                                             .when = "to compare clocks"});
    *out_first = mine[w->nlocal];
    base_free(w->allocator, mine, (size_t)(w->nlocal + w->nranks) * sizeof *mine);
    return status;
}

weft_status clocks_compare(comm_world *w, double timeout_seconds, int64_t (*now)(void *user), void *user,
                           clock_reading *out) {
    int64_t least = INT64_MIN, most = INT64_MAX;
    stay own = {0}, first = {0};
    *out = (clock_reading){.at_ns = now(user)};
    if (w->nlocal == w->nranks) return NULL;
    for (int round = 0; round <= ROUNDS; round++) {
        stay here = {.came_ns = now(user)};
        TRY(tell(w, timeout_seconds, own, &first));
        here.left_ns = now(user);
        if (round) {
            int64_t low = own.came_ns - first.left_ns, high = own.left_ns - first.came_ns;
            least = low > least ? low : least;
            most = high < most ? high : most;
        }
        own = here;
    }
    bool may_be_equal = least <= 0 && most >= 0;
    *out = (clock_reading){now(user), may_be_equal ? 0 : least + (most - least) / 2, most - least};
    return NULL;
}
