/* gather.c: what processes tell one another of their ranks' values, for train/fetch.c.
 *
 * Every process asks the same questions in the same order, so what each does next follows from what all have heard. A
 * process that has all ranks hears itself, and its values are taken from where they lie. */
#include "train/gather.h"

static const char *const when = "for the values of a step";

weft_status gather_each(const weft_trainer *t, const void *mine, size_t nbytes, void *all) {
    return executor_gather(t->executor, when, mine, nbytes, all);
}

weft_status gather_names(const weft_trainer *t, arena *a, const buffer *mine, gathered_bytes *out) {
    return executor_gather_bytes(t->executor, when, a, mine, out);
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
    TRY(executor_gather_sized(t->executor, when, mine, nbytes, all));
    for (int r = 0; r < nranks; all += nbytes[r++]) out[r] = all;
    return NULL;
}
