/* gather.c: what processes tell one another, over the world of the executor; one that has all ranks hears itself. */
#include "executor/gather.h"

enum { SMALL_NBYTES = 4096 };

/* Behind a step processes come at nearly one time: who does not has stopped. Behind the first one too, but there one
 * may have had much more to do than another. Values that are large take their time. */
static double patience(const weft_executor *x, bool is_large) {
    double usual = 10e-9 * (double)(x->end_ns - x->start_ns), least = x->options.watchdog_seconds;
    if (is_large || x->options.no_watchdog || x->nsteps < 2) return x->options.first_step_seconds;
    return usual > least ? usual : least;
}

static weft_status gather(const weft_executor *x, const char *when, const void *mine, const size_t *nbytes,
                          size_t nbytes_each, void *all) {
    return comm_world_gather(x->world,
                             &(comm_gather){.mine = mine,
                                            .all = all,
                                            .nbytes = nbytes,
                                            .nbytes_each = nbytes_each,
                                            .timeout_seconds = patience(x, nbytes || nbytes_each > SMALL_NBYTES),
                                            .when = when});
}

weft_status executor_gather(const weft_executor *x, const char *when, const void *mine, size_t nbytes, void *all) {
    return gather(x, when, mine, NULL, nbytes, all);
}

weft_status executor_gather_sized(const weft_executor *x, const char *when, const void *mine, const size_t *nbytes,
                                  void *all) {
    return gather(x, when, mine, nbytes, 0, all);
}

/* The first rank of each process speaks for it; the others have nothing to say. */
weft_status executor_gather_bytes(const weft_executor *x, const char *when, arena *a, const buffer *mine,
                                  gathered_bytes *out) {
    size_t *own = ARENA_ARRAY(a, size_t, x->nlocal), *nbytes = ARENA_ARRAY(a, size_t, x->nranks), total = 0;
    if (!own || !nbytes || mine->failed) return base_out_of_memory();
    own[0] = mine->nbytes;
    TRY(executor_gather(x, when, own, sizeof *own, nbytes));
    for (int r = 0; r < x->nranks; r++)
        if (!base_add(total, nbytes[r], &total)) return base_out_of_memory();
    char *all = arena_array(a, total + 1, 1);
    if (!all) return base_out_of_memory();
    TRY(executor_gather_sized(x, when, mine->bytes, nbytes, all));
    *out = (gathered_bytes){all, total};
    return NULL;
}
