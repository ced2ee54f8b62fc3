/* ranks.c: weft_equivalent_ranks: what each rank leaves behind, before and after. */
#include "proof/spmd/suspects.h"
#include "proof/together/together.h"

static weft_status read_one(together *g, int side, const weft_program *p, size_t first, size_t end,
                            const weft_equivalence_options *o) {
    reading *r = &g->readings[g->nreadings++];
    r->program = p;
    /* Reading caches schemas on ops, as every look at a program does, and changes nothing else. */
    TRY(program_read_apart(g->t, (weft_program *)p, o->fetches, o->nfetches, &r->read));
    for (size_t i = first; i < end; i++) g->of[side][i] = r;
    return turns_find(g, r);
}

static weft_status read_side(together *g, int side, const weft_program *const *programs, size_t nprograms,
                             const weft_equivalence_options *o) {
    if (nprograms == 1) return read_one(g, side, programs[0], 0, g->nranks, o);
    for (size_t i = 0; i < nprograms; i++) TRY(read_one(g, side, programs[i], i, i + 1, o));
    return NULL;
}

static weft_status make_room(together *g) {
    for (int side = BEFORE; side <= AFTER; side++)
        for (size_t i = 0; i < g->nranks; i++) {
            uint32_t *values = g->values[side][i] = ARENA_ARRAY(&g->memory, uint32_t, g->nread + 1);
            if (!values) return base_out_of_memory();
            for (uint32_t k = 0; k < g->nread; k++) values[k] = TERM_NONE;
        }
    return NULL;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

typedef struct lists {
    const weft_allocator *allocator;
    outputs before, after;
} lists;

static weft_status add_value(lists *l, outputs *to, uint32_t rank, const char *var, uint32_t id) {
    TRY(vector_reserve(l->allocator, &to->items, &to->capacity, to->count + 1, sizeof *to->items));
    to->items[to->count++] = (output){.rank = rank, .var = var, .term = id};
    return NULL;
}

static weft_status compare_rank(together *g, uint32_t rank, lists *l, weft_equivalence *e) {
    const outputs *before = &g->of[BEFORE][rank]->read, *after = &g->of[AFTER][rank]->read;
    const output **by_key = ARENA_ARRAY(&g->memory, const output *, g->t->symbols.count + 1);
    if (!by_key) return base_out_of_memory();
    for (size_t i = 0; i < after->count; i++) by_key[after->items[i].key->id] = &after->items[i];
    for (size_t i = 0; i < before->count; i++) {
        const output *x = &before->items[i], *y = by_key[x->key->id];
        uint32_t expected, found;
        e->nvalues++;
        if (!y) {
            TRY(equivalence_add_of_rank(e, rank, x->var, WEFT_NOT_PROVED,
                                        "expected it to leave the program, found it gone"));
            continue;
        }
        TRY(value_find(g, BEFORE, rank, x->term, &expected));
        TRY(value_find(g, AFTER, rank, y->term, &found));
        TRY(add_value(l, &l->before, rank, x->var, expected));
        TRY(add_value(l, &l->after, rank, x->var, found));
    }
    return NULL;
}

static weft_status compare_once(prover *v, together *g, weft_equivalence *e) {
    lists l = {.allocator = &g->t->context->allocator};
    weft_status status = make_room(g);
    for (uint32_t i = 0; i < g->nranks && !status; i++) status = compare_rank(g, i, &l, e);
    if (!status) status = outputs_compare_pairs(v, &l.before, &l.after, e);
    outputs_fini(g->t, &l.before);
    outputs_fini(g->t, &l.after);
    return status;
}

static size_t count_unproved(const weft_equivalence *e) {
    size_t n = 0;
    for (size_t i = 0; i < e->count; i++) n += e->items[i].grade == WEFT_NOT_PROVED;
    return n;
}

/* Where bits are not the same, sums may be, which are rounded otherwise. */
static weft_status compare(prover *v, together *g, weft_equivalence **out) {
    weft_context *context = g->t->context;
    weft_equivalence *first = NULL, *second = NULL;
    g->nread = (uint32_t)g->t->count;
    weft_status status = equivalence_create(context, &first);
    if (!status) status = compare_once(v, g, first);
    bool again = !status && first->grade == WEFT_NOT_PROVED;
    g->adds_parts = true;
    if (again) status = equivalence_create(context, &second);
    if (!status && again) status = compare_once(v, g, second);
    bool is_better = !status && again && count_unproved(second) < count_unproved(first);
    if (is_better && second->grade < WEFT_SAME_REALS) second->grade = WEFT_SAME_REALS;
    if (!status) *out = is_better ? second : first;
    if (status || is_better) weft_equivalence_destroy(first);
    if (status || !is_better) weft_equivalence_destroy(second);
    return status;
}

/* --- the verdict -------------------------------------------------------------------------------------------------- */

static weft_status count_ranks(const weft_program *const *before, size_t nbefore, size_t nafter,
                               const weft_equivalence_options *o, size_t *out) {
    int64_t n = (int64_t)(nafter > nbefore ? nafter : nbefore);
    if (n == 1) n = o->nranks > 0 ? o->nranks : weft_program_nranks(before[0]);
    if (n < 1) n = 1;
    *out = (size_t)n;
    const char *place = before[0]->place;
    if (n > MOST_TOGETHER)
        return weft_status_create(WEFT_LIMIT, place, "expected 1 to %d ranks, found %lld", MOST_TOGETHER, (long long)n);
    if ((nbefore != 1 && nbefore != *out) || (nafter != 1 && nafter != *out))
        return weft_status_create(WEFT_INVALID_ARGUMENT, place,
                                  "expected one program, or one for each of %lld ranks: found %zu before, %zu after",
                                  (long long)n, nbefore, nafter);
    return NULL;
}

weft_status weft_equivalent_ranks(const weft_program *const *before, size_t nbefore, const weft_program *const *after,
                                  size_t nafter, const weft_equivalence_options *options,
                                  weft_equivalence **out_verdict) {
    weft_equivalence_options taken, *o = &taken;
    TRY(base_take_struct("weft_equivalence_options", &taken, sizeof taken, options));
    if (nbefore == 0 || nafter == 0)
        return weft_status_create(WEFT_INVALID_ARGUMENT, "ranks", "expected at least one program before and after");
    size_t nranks;
    TRY(count_ranks(before, nbefore, nafter, o, &nranks));
    weft_context *context = before[0]->context;
    prover v;
    weft_equivalence *e = NULL;
    together g = {.t = &v.terms, .nranks = nranks};
    arena_init(&g.memory, &context->allocator);
    weft_status status = prover_init(&v, context);
    if (!status && !(g.readings = ARENA_ARRAY(&g.memory, reading, nbefore + nafter))) status = base_out_of_memory();
    if (!status) status = read_side(&g, BEFORE, before, nbefore, o);
    if (!status) status = read_side(&g, AFTER, after, nafter, o);
    if (!status) status = compare(&v, &g, &e);
    if (!status)
        status = suspects_ask(e,
                              &(weft_witness_question){.before = before,
                                                       .nbefore = nbefore,
                                                       .programs = after,
                                                       .nprograms = nafter,
                                                       .nranks = (int64_t)nranks},
                              o);
    for (size_t i = 0; i < g.nreadings; i++) outputs_fini(&v.terms, &g.readings[i].read);
    base_free(&context->allocator, g.stack, g.capacity * sizeof *g.stack);
    prover_fini(&v);
    arena_fini(&g.memory);
    if (status)
        weft_equivalence_destroy(e);
    else
        *out_verdict = e;
    return status;
}
