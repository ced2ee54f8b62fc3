#include "tests/support/axes_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/axes_trial.h"

enum { MOST_PLACES = 24, MOST_WAYS = 4000, MOST_PAIRS = 40 };

/* --- all placements ----------------------------------------------------------------------------------------------- */

/* The ways in which input i may lie along one axis of n ranks. */
static size_t places_of(const axes_trial *t, size_t i, int64_t n, int8_t *out) {
    const tensor *x = &t->in[i];
    size_t count = 0;
    out[count++] = REPLICATED;
    if (x->dtype == WEFT_DTYPE_NONE) return count;
    for (int d = 0; d < x->ndim; d++)
        if (x->dims[d] >= n) out[count++] = (int8_t)d;
    if (t->schema->inputs[t->rule.in[i].slot].only_type || x->numel == 0) return count;
    for (int reduce = 0; reduce < 5 && axes_is_float(x); reduce++) out[count++] = (int8_t)(PARTIAL + reduce);
    if (x->dtype == WEFT_BOOL) out[count++] = PARTIAL + WEFT_REDUCE_ANY, out[count++] = PARTIAL + WEFT_REDUCE_ALL;
    return count;
}

static void try_way(axes_trial *t, int64_t n, const way *w) {
    axes_mesh on = {1, {n}, true, false};
    axes_placed in[MOST_ARGS] = {0}, out[MOST_ARGS];
    bool any = false, even = true;
    for (uint32_t i = 0; i < t->nin; i++) {
        axes_place(&in[i], w->in[i], 0);
        any |= w->in[i] != REPLICATED;
        even &= w->in[i] < 0 || w->in[i] >= PARTIAL || t->in[i].dims[w->in[i]] % n == 0;
    }
    if (!any && t->nin) return;
    if (!axes_follow(&t->rule, &on, in, out)) {
        if (t->nallowed < MOST_ROWS && n == 2) t->allowed[t->nallowed++] = *w;
        axes_check_allowed(t, &on, in, out);
    } else if (t->c->finds_missing && n == 2 && even) {
        axes_try_denied(t, &on, in);
    }
}

static void try_all(axes_trial *t, int64_t n, way *w, uint32_t from) {
    if (from == t->nin) {
        try_way(t, n, w);
        return;
    }
    int8_t places[MOST_PLACES];
    size_t count = places_of(t, from, n, places);
    for (size_t i = 0; i < count; i++) {
        w->in[from] = places[i];
        try_all(t, n, w, from + 1);
    }
}

/* Where there are too many: each factor in turn, and each group of partial inputs, whole or without one of it. */
static void try_rule(axes_trial *t, int64_t n) {
    for (size_t f = 0; f < t->rule.nfactors; f++) {
        way w;
        for (uint32_t i = 0; i < t->nin; i++) {
            w.in[i] = REPLICATED;
            for (int d = 0; d < t->rule.in[i].ndim; d++)
                if (t->rule.in[i].dims[d].nfactors && t->rule.in[i].dims[d].factors[0] == f) w.in[i] = (int8_t)d;
        }
        try_way(t, n, &w);
    }
    for (size_t g = 0; g < t->rule.ngroups; g++)
        for (int reduce = 0; reduce < 5; reduce++)
            for (uint32_t left = 0; left <= t->nin; left++) {
                way w;
                for (uint32_t i = 0; i < t->nin; i++) {
                    bool member = t->rule.in[i].in_group >> g & 1 && axes_is_float(&t->in[i]) && i != left;
                    w.in[i] = (int8_t)(member ? PARTIAL + reduce : REPLICATED);
                }
                try_way(t, n, &w);
            }
}

static size_t count_ways(const axes_trial *t, int64_t n) {
    size_t ways = 1;
    int8_t places[MOST_PLACES];
    for (uint32_t i = 0; i < t->nin && ways <= MOST_WAYS; i++) ways *= places_of(t, i, n, places);
    return ways;
}

/* Two axes, of 2 and of `second`: pairs of what is allowed along one of 2. Where both shard one dimension, one or the
 * other comes first. */
static void try_pairs(axes_trial *t, int64_t second) {
    axes_mesh on = {2, {2, second}, true, false};
    size_t all = t->nallowed * t->nallowed, step = all > MOST_PAIRS ? all / MOST_PAIRS + 1 : 1;
    if (step > 1 && t->nallowed % step == 0) step++;
    for (size_t k = 0; k < all; k += step) {
        axes_placed in[MOST_ARGS] = {0}, out[MOST_ARGS];
        const way *major = &t->allowed[k % t->nallowed], *minor = &t->allowed[k / t->nallowed];
        bool fits = true;
        for (uint32_t i = 0; i < t->nin; i++) {
            axes_place(&in[i], major->in[i], 0);
            axes_place(&in[i], minor->in[i], 1);
            for (int d = 0; d < t->in[i].ndim; d++) {
                int64_t nparts = in[i].naxes[d] == 2 ? 2 * second : minor->in[i] == d ? second : 1;
                fits &= t->in[i].dims[d] >= nparts; /* no part is empty */
                if (in[i].naxes[d] == 2 && k % 2) in[i].axes[d][0] = 1, in[i].axes[d][1] = 0;
            }
        }
        if (fits && !axes_follow(&t->rule, &on, in, out)) axes_check_allowed(t, &on, in, out);
    }
}

/* --- an op -------------------------------------------------------------------------------------------------------- */

static weft_status find_rule(axes_trial *t, const tensor *in, const tensor *out) {
    shape *types = ARENA_ARRAY(&t->arena, shape, t->nin + 1), *made = ARENA_ARRAY(&t->arena, shape, t->nout + 1);
    if (!types || !made) return base_out_of_memory();
    for (uint32_t i = 0; i < t->nin; i++) types[i] = axes_type_of(&in[i]);
    for (uint32_t i = 0; i < t->nout; i++) made[i] = axes_type_of(&out[i]);
    axes_call call = {t->op, t->schema, types, made, t->in_first, t->out_first};
    return axes_of_op(&call, &t->arena, &t->rule);
}

/* Attrs that the rule changes must be there, so that they can be put back. */
static weft_status add_attrs(axes_trial *t) {
    for (size_t i = 0; i < t->rule.nchanges; i++) {
        const char *n = t->rule.changes[i].attr;
        weft_attr *a;
        if (op_find_attr(t->op, n)) continue;
        for (size_t k = 0; k < t->schema->nattrs; k++)
            if (strcmp(t->schema->attrs[k].name, n) == 0) {
                weft_attr value = t->schema->attrs[k].default_value;
                TRY(op_set_attr(t->op, n, &a));
                a->type = value.type;
                a->count = value.count;
                a->u = value.u;
            }
    }
    return NULL;
}

static void try_everything(axes_trial *t) {
    way w;
    for (int64_t n = 2; n <= 3; n++) {
        if (count_ways(t, n) <= MOST_WAYS)
            try_all(t, n, &w, 0);
        else
            try_rule(t, n);
    }
    try_pairs(t, 2);
    try_pairs(t, 3);
}

/* The same with small integers, of which sums are exact. */
static const tensor *with_integers(axes_trial *t, const tensor *in) {
    tensor *other = ARENA_ARRAY(&t->arena, tensor, t->nin + 1);
    for (uint32_t i = 0; other && i < t->nin; i++) {
        other[i] = in[i];
        if (!axes_is_float(&in[i])) continue;
        if (!axes_make_room(&other[i], &t->arena)) return NULL;
        for (int64_t k = 0; k < in[i].numel; k++) {
            uint32_t h = axes_mix((uint64_t)k, 1000 + i);
            axes_put(&other[i], k, (double)(1 + h % 11) * (h & 64 ? 1 : -1));
        }
    }
    return other;
}

static bool run_whole(axes_trial *t, const tensor *in, const tensor *out) {
    tensor *whole = ARENA_ARRAY(&t->scratch, tensor, t->nout + 1);
    t->in = in;
    t->out = ARENA_ARRAY(&t->arena, tensor, t->nout + 1);
    if (!whole || !t->out) return false;
    for (uint32_t i = 0; i < t->nout; i++) {
        whole[i] = out[i];
        whole[i].rows = NULL;
    }
    weft_status status = axes_run_kernel(t, in, whole);
    bool good = !status;
    weft_status_free(status);
    for (uint32_t i = 0; i < t->nout && good; i++) {
        t->out[i] = whole[i];
        if (whole[i].dtype == WEFT_DTYPE_NONE) continue;
        good = axes_make_room(&t->out[i], &t->arena);
        if (good) memcpy(t->out[i].data, whole[i].data, (size_t)whole[i].numel * weft_dtype_nbytes(whole[i].dtype));
    }
    arena_reset(&t->scratch);
    return good;
}

static bool can_read(const tensor *t) {
    return axes_is_float(t) || t->dtype == WEFT_INT64 || t->dtype == WEFT_INT32 || t->dtype == WEFT_BOOL ||
           t->dtype == WEFT_UINT8 || t->dtype == WEFT_DTYPE_NONE;
}

static bool can_try(const axes_trial *t, const tensor *in, const tensor *out) {
    bool good = t->nin <= MOST_ARGS && t->nout <= MOST_ARGS && !(t->schema->effects & (OP_RANDOM | OP_ALIASES));
    for (uint32_t i = 0; i < t->nin && good; i++) good = can_read(&in[i]) && !in[i].rows && in[i].numel < 20000;
    for (uint32_t i = 0; i < t->nout && good; i++) good = can_read(&out[i]);
    return good;
}

void axes_check_op(axes_check *c, weft_op *op, const tensor *in, const uint32_t *in_first, const tensor *out,
                   const uint32_t *out_first) {
    const op_schema *s = op_schema_of(op);
    axes_trial *t = calloc(1, sizeof *t);
    if (!t) abort();
    *t = (axes_trial){.c = c, .tally = &c->tallies[s->index], .op = op, .schema = s, .in_first = in_first};
    t->out_first = out_first;
    t->nin = in_first[s->ninputs];
    t->nout = out_first[s->noutputs];
    arena_init(&t->arena, &c->context->allocator);
    arena_init(&t->scratch, &c->context->allocator);
    if (can_try(t, in, out) && run_whole(t, in, out)) {
        weft_status status = find_rule(t, in, t->out);
        if (!status) status = add_attrs(t);
        if (status)
            snprintf(t->tally->wrong, sizeof t->tally->wrong, "%s", weft_status_message(status)), t->tally->nwrong++;
        if (!status) {
            t->tally->ninstances++;
            try_everything(t);
            const tensor *other = with_integers(t, in);
            t->nallowed = 0;
            if (other && run_whole(t, other, out)) try_everything(t);
        }
        weft_status_free(status);
    }
    arena_fini(&t->scratch);
    arena_fini(&t->arena);
    free(t);
}
