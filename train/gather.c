/* gather.c: what processes tell one another of their ranks' values, for train/fetch.c.
 *
 * Every process asks the same questions in the same order, so what each does next follows from what all have heard. A
 * process that has all ranks hears itself, and its values are taken from where they lie. */
#include "train/gather.h"

static weft_status gather(const weft_trainer *t, const void *mine, const size_t *nbytes, size_t nbytes_each,
                          void *all) {
    weft_executor *x = t->executor;
    return comm_world_gather(x->world, &(comm_gather){.mine = mine,
                                                     .all = all,
                                                     .nbytes = nbytes,
                                                     .nbytes_each = nbytes_each,
                                                     .timeout_seconds = x->options.first_step_seconds,
                                                     .when = "for the values of a step"});
}

weft_status gather_each(const weft_trainer *t, const void *mine, size_t nbytes, void *all) {
    return gather(t, mine, NULL, nbytes, all);
}

weft_status gather_names(const weft_trainer *t, arena *a, const buffer *mine, gathered_names *out) {
    int nranks = t->nranks, nlocal = t->executor->nlocal;
    size_t *own = ARENA_ARRAY(a, size_t, nlocal), *nbytes = ARENA_ARRAY(a, size_t, nranks), total = 0;
    if (!own || !nbytes) return base_out_of_memory();
    own[0] = mine->nbytes; /* the first rank speaks for the process */
    TRY(gather_each(t, own, sizeof *own, nbytes));
    for (int r = 0; r < nranks; r++)
        if (!base_add(total, nbytes[r], &total)) return base_out_of_memory();
    char *all = arena_array(a, total + 1, 1);
    if (!all) return base_out_of_memory();
    *out = (gathered_names){all, total};
    return gather(t, mine->bytes, nbytes, 0, all);
}

weft_status gather_parts(const weft_trainer *t, arena *a, const size_t *nbytes, const void *const *own,
                         const void **out) {
    int nranks = t->nranks, first = t->executor->first_rank, nlocal = t->executor->nlocal;
    for (int i = 0; i < nlocal; i++) out[first + i] = own[i];
    if (nlocal == nranks) return NULL;
    size_t given = 0, total = 0;
    for (int r = 0; r < nranks; r++) {
        if (!base_add(total, nbytes[r], &total)) return base_out_of_memory();
        if (executor_has_rank(t->executor, r)) given += nbytes[r];
    }
    char *mine = arena_array(a, given + 1, 1), *all = arena_array(a, total + 1, 1);
    if (!mine || !all) return base_out_of_memory();
    for (size_t i = 0, at = 0; i < (size_t)nlocal; at += nbytes[first + (int)i++])
        if (nbytes[first + (int)i]) memcpy(mine + at, own[i], nbytes[first + (int)i]);
    TRY(gather(t, mine, nbytes, 0, all));
    for (int r = 0; r < nranks; all += nbytes[r++]) out[r] = all;
    return NULL;
}
