/* axes_placement.c: one placement of an op's inputs: one that its rule allows must hold; of one that it denies it is
 * counted whether it does. */
#include "tests/support/axes_trial.h"

#include <stdio.h>

static void describe(const axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out, char *to,
                     size_t nbytes) {
    static const char *const kinds[] = {"sum", "max", "min", "prod", "avg", "any", "all"};
    size_t at = 0;
    *to = 0;
    for (uint32_t i = 0; i < t->nin + (out ? t->nout : 0) && at + 60 < nbytes; i++) {
        bool is_output = i >= t->nin;
        const axes_arg *x = is_output ? &t->rule.out[i - t->nin] : &t->rule.in[i];
        const axes_placed *p = is_output ? &out[i - t->nin] : &in[i];
        at += (size_t)snprintf(to + at, nbytes - at, "%s%s=",
                               i == t->nin ? " -> "
                               : i         ? " "
                                           : "",
                               (is_output ? t->schema->outputs : t->schema->inputs)[x->slot].name);
        for (int axis = 0; axis < on->naxes && at + 30 < nbytes; axis++) {
            int dim = -1;
            for (int d = 0; d < WEFT_MAX_RANK; d++)
                for (int k = 0; k < p->naxes[d]; k++)
                    if (p->axes[d][k] == axis) dim = d;
            if (p->partial[axis])
                at += (size_t)snprintf(to + at, nbytes - at, "P(%s)", kinds[p->partial[axis] - 1]);
            else if (dim >= 0)
                at += (size_t)snprintf(to + at, nbytes - at, "S%d", dim);
            else
                at += (size_t)snprintf(to + at, nbytes - at, "R");
        }
    }
}

static void wrong(axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out, const char *what) {
    if (t->tally->nwrong++) return;
    char ways[AXES_TEXT_ROOM];
    describe(t, on, in, out, ways, sizeof ways);
    snprintf(t->tally->wrong, sizeof t->tally->wrong, "%.300s: %.90s", ways, what);
}

/* A placement that the rule allows. */
void axes_check_allowed(axes_trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out) {
    tensor *made[MOST_RANKS];
    int64_t nfinite = 0;
    weft_status status = axes_run_ranks(t, on, in, out, made);
    if (status) {
        wrong(t, on, in, out, weft_status_message(status));
        weft_status_free(status);
        arena_reset(&t->scratch);
        return;
    }
    bool good = true;
    for (uint32_t k = 0; k < t->nout && good; k++)
        if (t->out[k].dtype != WEFT_DTYPE_NONE && !(good = axes_is_placed(t, on, &out[k], made, k, &nfinite))) {
            char what[60];
            snprintf(what, sizeof what, "%s is not so", t->schema->outputs[t->rule.out[k].slot].name);
            wrong(t, on, in, out, what);
        }
    t->tally->nchecked += good;
    arena_reset(&t->scratch);
}

/* --- placements that rules deny ----------------------------------------------------------------------------------- */

void axes_place(axes_placed *p, int code, int axis) {
    if (code >= PARTIAL) p->partial[axis] = (uint8_t)(1 + code - PARTIAL);
    if (code >= 0 && code < PARTIAL) p->axes[code][p->naxes[code]++] = (uint8_t)axis;
}

/* Some placement of output k that holds; false: none does. */
static bool find_output(const axes_trial *t, const axes_mesh *on, tensor *const *out, size_t k, axes_placed *found,
                        int64_t *nfinite) {
    const tensor *whole = &t->out[k];
    for (int code = REPLICATED; code < PARTIAL + 5; code++) {
        if (code >= whole->ndim && code < PARTIAL) code = PARTIAL;
        if (code >= 0 && code < PARTIAL && whole->dims[code] % on->extent[0]) continue;
        if (code >= PARTIAL && !axes_is_float(whole)) return false;
        *found = (axes_placed){{0}, {{0}}, {0}, 0};
        axes_place(found, code, 0);
        if (axes_is_placed(t, on, found, out, k, nfinite)) return true;
    }
    return false;
}

/* The entry of inputs that lie so; NULL: there are too many. */
static axes_missing *find_missing(axes_trial *t, const char *in) {
    axes_tally *y = t->tally;
    for (size_t i = 0; i < y->nmissing; i++)
        if (strcmp(y->missing[i].in, in) == 0) return &y->missing[i];
    if (y->nmissing == AXES_MISSING) return NULL;
    axes_missing *m = &y->missing[y->nmissing++];
    *m = (axes_missing){0};
    snprintf(m->in, sizeof m->in, "%.119s", in);
    return m;
}

static void classify(axes_missing *m, uint32_t nin, const axes_placed *in) {
    uint32_t reduces = 0;
    for (uint32_t i = 0; i < nin; i++) {
        for (int d = 0; d < WEFT_MAX_RANK; d++) m->shards |= in[i].naxes[d] != 0;
        if (in[i].partial[0]) reduces |= UINT32_C(1) << (in[i].partial[0] - 1);
    }
    m->sums = reduces == 0 || reduces == 1u << WEFT_REDUCE_SUM || reduces == 1u << WEFT_REDUCE_AVG;
}

void axes_try_denied(axes_trial *t, const axes_mesh *on, const axes_placed *in) {
    tensor *made[MOST_RANKS];
    axes_placed out[MOST_ARGS] = {0};
    int64_t nfinite = 0, before;
    char ways[AXES_TEXT_ROOM];
    describe(t, on, in, NULL, ways, 100);
    for (uint32_t i = 0; i < t->nin; i++)
        if (t->in[i].dtype != WEFT_DTYPE_NONE && t->in[i].numel == 0) return; /* an XShape may lie as it likes */
    axes_missing *m = find_missing(t, ways);
    if (!m) return;
    weft_status status = axes_run_ranks(t, on, in, NULL, made);
    bool good = !status;
    weft_status_free(status);
    m->ntried++;
    classify(m, t->nin, in);
    for (uint32_t k = 0; k < t->nout && good; k++) {
        before = nfinite;
        if (t->out[k].dtype == WEFT_DTYPE_NONE) continue;
        good = find_output(t, on, made, k, &out[k], &nfinite) && nfinite > before + 1; /* more than a number or two */
    }
    m->nheld += good;
    if (good) {
        describe(t, on, in, out, ways, sizeof ways);
        const char *arrow = strstr(ways, " -> ");
        snprintf(m->out, sizeof m->out, "%.119s", arrow ? arrow + 4 : "");
    }
    arena_reset(&t->scratch);
}
