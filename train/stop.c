/* stop.c: processes that end a run behind the same step.
 *
 * Asking costs a gather, so they do not after each step. Rank 0's process says with its answer how many steps there are to
 * the next time, by how long its steps take. */
#include "train/gather.h"

enum { ASKS_A_SECOND = 10, MOST_STEPS = 10000 };

/* How many steps until they ask again; 0: it wants to stop. */
static int32_t answer(const weft_trainer *t, bool wants) {
    double nsteps = 1 / (ASKS_A_SECOND * (weft_executor_step_seconds(t->executor) + 1e-9));
    if (wants) return 0;
    return nsteps < 1 ? 1 : nsteps > MOST_STEPS ? MOST_STEPS : (int32_t)nsteps;
}

static weft_status ask(weft_trainer *t, bool wants, bool *out_stops) {
    arena scratch;
    arena_init(&scratch, &t->context->allocator);
    int32_t *mine = ARENA_ARRAY(&scratch, int32_t, t->nlocal), *all = ARENA_ARRAY(&scratch, int32_t, t->nranks);
    weft_status status = mine && all ? NULL : base_out_of_memory();
    for (int i = 0; !status && i < t->nlocal; i++) mine[i] = answer(t, wants);
    if (!status) status = gather_each(t, mine, sizeof *mine, all);
    for (int r = 0; !status && r < t->nranks; r++) *out_stops = *out_stops || !all[r];
    if (!status) t->nuntil_asked = all[0];
    arena_fini(&scratch);
    return status;
}

weft_status weft_trainer_stops(weft_trainer *t, bool wants, bool *out_stops) {
    *out_stops = wants && t->nlocal == t->nranks;
    if (t->nlocal == t->nranks || --t->nuntil_asked > 0) return NULL;
    return ask(t, wants, out_stops);
}
