/* serial.c: ranks against the serial program. What each rank leaves behind is lifted to serial values (lift.c), and
 * these are compared with what the serial program leaves behind. State must be whole on every rank that has it; a
 * fetched value or a loss may also be partial (the mean over the ranks is reported) or rows (these are put together
 * again). */
#include "proof/equivalence/equiv.h"
#include "proof/spmd/fixed.h"
#include "proof/spmd/lift.h"
#include "proof/spmd/suspects.h"

#include <stdio.h>

typedef struct judge {
    prover prover;
    lifter lifter;
    arena memory;
    outputs serial;
    outputs *ranks;
    const output ***by_key; /* by rank and key */
    weft_equivalence *out;
} judge;

enum { MOST_RANKS = LIFT_RANKS, MOST_LISTED = 1 << 25 };

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Whether the ranks' collectives are equal one by one. */
static bool are_uniform(const outputs *ranks, size_t nranks) {
    for (size_t i = 1; i < nranks; i++) {
        if (ranks[i].ncollectives != ranks[0].ncollectives) return false;
        for (size_t k = 0; k < ranks[0].ncollectives; k++) {
            const collective *a = &ranks[0].collectives[k], *b = &ranks[i].collectives[k];
            if (a->argument != b->argument || a->result != b->result || op_ring(a->op) != op_ring(b->op)) return false;
        }
    }
    return true;
}

static weft_status index_outputs(judge *j, size_t nranks) {
    size_t nsymbols = j->prover.terms.symbols.count;
    j->by_key = ARENA_ARRAY(&j->memory, const output **, nranks);
    for (size_t i = 0; j->by_key && i < nranks; i++) {
        if (!(j->by_key[i] = ARENA_ARRAY(&j->memory, const output *, nsymbols + 1))) return base_out_of_memory();
        for (size_t k = 0; k < j->ranks[i].count; k++)
            j->by_key[i][j->ranks[i].items[k].key->id] = &j->ranks[i].items[k];
    }
    return j->by_key ? NULL : base_out_of_memory();
}

static void mark_wanted(lifter *l, size_t rank) {
    const outputs *o = &l->outputs[rank];
    uint8_t *wanted = l->wanted[rank];
    for (size_t i = 0; i < o->count; i++) wanted[o->items[i].term] = 1;
    for (size_t i = 0; i < o->ncollectives; i++) {
        uint32_t result = o->collectives[i].result; /* of a list each argument goes to another rank */
        wanted[o->collectives[i].argument] = 1;
        if (term_is(l->t, result, HEAD_OUT)) wanted[term_args(l->t, result)[0].term] = 1;
    }
    for (size_t i = l->nterms; i-- > 0;)
        for (size_t k = 0; wanted[i] && k < l->t->items[i].nargs; k++) wanted[term_args(l->t, (uint32_t)i)[k].term] = 1;
}

/* Which slices of a value a rank needs: the rank's own part is the only one. */
static void note_rows(lifter *l, size_t rank) {
    for (size_t i = 0; i < l->nterms; i++) {
        if (!l->wanted[rank][i] || !term_is(l->t, (uint32_t)i, HEAD_PART)) continue;
        uint32_t *known = &l->rows[rank][term_args(l->t, (uint32_t)i)[0].term];
        *known = *known ? LIFT_MANY : (uint32_t)i + 1;
    }
}

static weft_status prepare(judge *j, const weft_program *const *programs, size_t nranks) {
    lifter *l = &j->lifter;
    l->nterms = l->t->count;
    l->known = ARENA_ARRAY(&j->memory, lifted *, nranks);
    l->wanted = ARENA_ARRAY(&j->memory, uint8_t *, nranks);
    l->turn = ARENA_ARRAY(&j->memory, uint32_t *, nranks);
    l->rows = ARENA_ARRAY(&j->memory, uint32_t *, nranks);
    l->record = ARENA_ARRAY(&j->memory, uint32_t *, nranks);
    l->told = ARENA_ARRAY(&j->memory, uint32_t *, nranks);
    l->programs = programs;
    l->outputs = j->ranks;
    l->uniform = are_uniform(j->ranks, nranks);
    l->elements_left = MOST_LISTED;
    TRY(index_outputs(j, nranks));
    TRY(lift_grid_init(l, &j->memory));
    if (!(l->uneven = ARENA_ARRAY(&j->memory, partitions, 1))) return base_out_of_memory();
    TRY(lift_name_views(l, &j->memory));
    TRY(lift_list_flats(l, &j->memory));
    TRY(lift_note_serial(l, &j->serial, &j->memory));
    if (!l->known || !l->wanted || !l->record || !l->turn || !l->rows || !l->told) return base_out_of_memory();
    for (size_t i = 0; i < nranks; i++) {
        l->known[i] = ARENA_ARRAY(&j->memory, lifted, l->nterms + 1);
        l->record[i] = ARENA_ARRAY(&j->memory, uint32_t, l->nterms + 1);
        l->wanted[i] = ARENA_ARRAY(&j->memory, uint8_t, l->nterms + 1);
        l->rows[i] = ARENA_ARRAY(&j->memory, uint32_t, l->nterms + 1);
        l->told[i] = ARENA_ARRAY(&j->memory, uint32_t, l->nterms + 1);
        if (!l->known[i] || !l->record[i] || !l->wanted[i] || !l->rows[i] || !l->told[i]) return base_out_of_memory();
        lift_note_told(l, i);
        mark_wanted(l, i);
        note_rows(l, i);
        TRY(lift_record(l, i, &j->memory));
    }
    for (size_t i = 0; i < nranks; i++) lift_drop_repeats(l, i);
    return NULL;
}

static weft_status read_all(judge *j, const weft_program *serial, const weft_program *const *programs, size_t nranks,
                            const weft_equivalence_options *o) {
    terms *t = &j->prover.terms;
    j->lifter = (lifter){
        .t = t, .reals = &j->prover.normals[NORMAL_REALS], .serial = (weft_program *)serial, .nranks = nranks};
    TRY(program_read(t, (weft_program *)serial, o->fetches, o->nfetches, &j->serial));
    j->lifter.nserial = t->count;
    for (size_t i = 0; i < nranks; i++)
        TRY(program_read(t, (weft_program *)programs[i], o->fetches, o->nfetches, &j->ranks[i]));
    return prepare(j, programs, nranks);
}

static weft_status lift_all(judge *j) {
    lifter *l = &j->lifter;
    do {
        l->pending = l->moved = false;
        for (size_t i = 0; i < l->nranks; i++) TRY(lift_rank(l, i));
    } while (l->pending && l->moved);
    return NULL;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static weft_status add_unproved(judge *j, const char *var, size_t rank, const char *reason, uint32_t where) {
    const terms *t = j->lifter.t;
    buffer b;
    buffer_init(&b, &t->context->allocator);
    buffer_format(&b, "rank %zu: %s: ", rank, reason);
    if (where != TERM_NONE) value_print(t, value_of(where), &b);
    buffer_append(&b, "", 1);
    weft_status status = buffer_status(&b);
    if (!status) status = equivalence_add(j->out, var, WEFT_NOT_PROVED, b.bytes);
    buffer_fini(&b);
    return status;
}

/* Why state that is held as `x` is not what the serial program leaves there; NULL: it is. */
static const char *why_not_state(const lifter *l, size_t rank, const char *var, const lifted *x) {
    const weft_var *serial = weft_block_find_var(l->serial->blocks[0], var);
    const weft_var *own = weft_block_find_var(l->programs[rank]->blocks[0], var);
    lifted expected = lift_replicated(TERM_NONE);
    if (lift_is_partial(l, x)) return "it keeps a partial sum over the ranks: a reduce is missing";
    if (serial && own && lift_declared(l, serial, own, &expected)) return "it keeps something of another shape";
    lifted held = *x;
    for (size_t i = 0; i < l->grid.naxes; i++) {
        lift_swap_axes(l, rank, i, expected.placed[i], &held);
        if (placed_equal(held.placed[i], expected.placed[i])) continue;
        return is_replicated(expected.placed[i]) ? "it keeps what comes from the rank's rows alone"
                                                 : "it keeps another part than it began with";
    }
    return NULL;
}

/* The serial value that one output of a rank stands for; TERM_NONE where a finding says why there is none. */
static weft_status serial_value(judge *j, size_t rank, const output *x, bool is_state, uint32_t *out) {
    lifter *l = &j->lifter;
    lifted v = l->known[rank][x->term];
    *out = TERM_NONE;
    if (v.state == LIFT_PENDING)
        return add_unproved(j, x->var, rank, "it waits for ranks that wait for one another", x->term);
    if (v.state == LIFT_UNKNOWN) return add_unproved(j, x->var, rank, v.reason, v.term);
    const char *reason = is_state ? why_not_state(l, rank, x->var, &v) : NULL;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (has_runs(v.placed[i])) reason = "the rank's rows of it do not follow one another";
    if (reason) return add_unproved(j, x->var, rank, reason, x->term);
    return lift_times(l, v.term, lift_extent(l, lift_axes_with(l, &v, PARTIAL)), true, out); /* the mean */
}

/* Whether it is no mean over the ranks, as of losses that are means, but their sum. */
static weft_status add_if_sum(judge *j, const output *x, const output *own, const lifted *held, bool *out_is) {
    uint32_t both[2] = {x->term, held->term};
    normal *n = &j->prover.normals[NORMAL_REALS];
    *out_is = false;
    if (own->key->bytes[0] == 'p' || !lift_is_partial(&j->lifter, held)) return NULL;
    TRY(normal_find(n, both, 2));
    value a = normal_of(n, both[0]), b = normal_of(n, both[1]);
    *out_is = a.term == b.term && a.factor == b.factor;
    return *out_is ? equivalence_add(j->out, x->var, WEFT_SAME_IF,
                                     "if the ranks' values of it are added up: it is their sum, not their mean")
                   : NULL;
}

/* Compares one value of the serial program with that of every rank that has it. */
static weft_status judge_output(judge *j, const output *x, outputs *found, outputs *expected) {
    bool there = false, everywhere = true, needs_all = false;
    bool is_state = x->key->bytes[0] == 'p';
    uint32_t last = TERM_NONE;
    const lifted *first = NULL;
    for (size_t i = 0; i < j->lifter.nranks; i++) {
        const output *own = j->by_key[i][x->key->id];
        uint32_t lifted_term;
        if (!own) everywhere = false;
        if (!own) continue;
        there = true;
        size_t before = j->out->count;
        TRY(serial_value(j, i, own, is_state, &lifted_term));
        if (j->out->count > before) return NULL; /* one finding a value */
        const lifted *held = &j->lifter.known[i][own->term];
        needs_all |= !lift_is_replicated(&j->lifter, held);
        if (first && first->family != held->family)
            return add_unproved(j, x->var, i, "other ranks make their partial values of it in another way", own->term);
        first = held;
        if (lifted_term == last) continue;
        last = lifted_term;
        bool is_sum;
        TRY(add_if_sum(j, x, own, held, &is_sum));
        if (is_sum) continue;
        output pair = *x;
        pair.term = lifted_term;
        const weft_allocator *a = &j->lifter.t->context->allocator;
        TRY(vector_reserve(a, &found->items, &found->capacity, found->count + 1, sizeof pair));
        found->items[found->count++] = pair;
        TRY(vector_reserve(a, &expected->items, &expected->capacity, expected->count + 1, sizeof pair));
        expected->items[expected->count++] = *x;
    }
    if (there && (everywhere || !needs_all)) return NULL;
    return equivalence_add(j->out, x->var, WEFT_NOT_PROVED,
                           there ? "expected parts of it on all ranks, found some have none"
                                 : "expected it on some rank, found it on none");
}

static weft_status judge_all(judge *j) {
    outputs found = {.items = NULL}, expected = found;
    weft_status status = NULL;
    for (size_t i = 0; i < j->serial.count && !status; i++) {
        j->out->nvalues++;
        status = judge_output(j, &j->serial.items[i], &found, &expected);
    }
    if (!status) status = outputs_compare_pairs(&j->prover, &expected, &found, j->out);
    outputs_fini(j->lifter.t, &found);
    outputs_fini(j->lifter.t, &expected);
    if (j->out->grade < WEFT_SAME_REALS) j->out->grade = WEFT_SAME_REALS; /* ranks add up in another order */
    if (status || !j->lifter.random_rows || j->out->grade >= WEFT_NOT_PROVED) return status;
    return equivalence_add(
        j->out, "(all)", WEFT_SAME_IF,
        "if the random numbers that ranks draw for their rows are the serial program's for these rows");
}

static weft_status check_count(const weft_program *const *programs, size_t nprograms, const weft_equivalence_options *o,
                               size_t *out) {
    int64_t n = (int64_t)nprograms;
    if (nprograms == 1 && o->nranks > 0) n = o->nranks;
    for (size_t i = 0; nprograms == 1 && o->nranks <= 0 && i < programs[0]->nrings; i++)
        if (programs[0]->rings[i].nranks > n) n = programs[0]->rings[i].nranks;
    *out = (size_t)n;
    if (n >= 1 && n <= MOST_RANKS) return NULL;
    return weft_status_create(n < 1 ? WEFT_INVALID_ARGUMENT : WEFT_LIMIT, programs[0]->place,
                              "expected 1 to %d ranks, found %lld", MOST_RANKS, (long long)n);
}

/* The verdict on programs as they are. `rows` of a rank are a number that no other extent is; 0: there is none. */
static weft_status judge_programs(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                                  size_t nranks, int64_t rows, const weft_equivalence_options *o,
                                  weft_equivalence **out) {
    judge j = {.out = NULL};
    arena_init(&j.memory, &serial->context->allocator);
    weft_status status = NULL;
    const weft_program **all = ARENA_ARRAY(&j.memory, const weft_program *, nranks);
    j.ranks = ARENA_ARRAY(&j.memory, outputs, nranks);
    if (!all || !j.ranks) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < nranks; i++) all[i] = programs[nprograms == 1 ? 0 : i];
    TRY_DONE(prover_init(&j.prover, serial->context));
    TRY_DONE(equivalence_create(serial->context, &j.out));
    TRY_DONE(read_all(&j, serial, all, nranks, o));
    j.lifter.rows_of_rank = j.lifter.grid.naxes == 1 ? rows : 0;
    TRY_DONE(lift_all(&j));
    TRY_DONE(judge_all(&j));
    *out = j.out;
    j.out = NULL;
done:
    outputs_fini(&j.prover.terms, &j.serial);
    for (size_t i = 0; i < nranks && j.ranks; i++) outputs_fini(&j.prover.terms, &j.ranks[i]);
    base_free(&serial->context->allocator, j.lifter.shares, j.lifter.shares_capacity * sizeof *j.lifter.shares);
    base_free(&serial->context->allocator, j.lifter.views, j.lifter.views_capacity * sizeof *j.lifter.views);
    prover_fini(&j.prover);
    weft_equivalence_destroy(j.out);
    arena_fini(&j.memory);
    return status;
}

/* --- open extents ------------------------------------------------------------------------------------------------- */

/* The rows of a rank where they are fixed: of the first var that is cut along dimension 0; 0: there is none. */
static int64_t fixed_rows(const weft_program *p) {
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        bool is_cut = v->block && v->has_tensor && !v->persistable && v->dist && v->dist->mesh && v->dist->ndim > 0 &&
                      v->ndim && v->dist->dims_mapping[0] >= 0;
        if (is_cut && v->dims[0] > 1) return v->dims[0];
    }
    return 0;
}

/* Constants as long as a rank's rows are parts of longer ones, which any constant may be taken for. */
static weft_status judge_again(const fixed_programs *f, size_t nranks, const weft_equivalence_options *o,
                               weft_equivalence **verdict) {
    weft_equivalence *again = NULL;
    const weft_program *const *programs = (const weft_program *const *)f->programs;
    int64_t rows = fixed_rows(f->programs[0]);
    if (!rows) return NULL;
    TRY(judge_programs(f->serial, programs, f->nprograms, nranks, rows, o, &again));
    if (again->grade >= WEFT_NOT_PROVED) {
        weft_equivalence_destroy(again);
        return NULL;
    }
    weft_equivalence_destroy(*verdict);
    *verdict = again;
    return NULL;
}

/* What holds for stand-ins holds for every batch. */
static weft_status judge_open(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                              size_t nranks, const weft_equivalence_options *o, weft_equivalence **out) {
    fixed_programs f;
    int64_t rows;
    TRY(fixed_stand_in(serial, programs, nprograms, nranks, &rows, &f));
    weft_status status =
        judge_programs(f.serial, (const weft_program *const *)f.programs, nprograms, nranks, rows, o, out);
    if (!status && !rows && (*out)->grade == WEFT_NOT_PROVED) status = judge_again(&f, nranks, o, out);
    fixed_fini(&f);
    return status;
}

/* A program whose batch is no other's number has no open extents to give one. */
static weft_status check_batch(const weft_program *serial, int64_t batch) {
    bool is_open, is_there = false;
    TRY(open_extents_find((weft_program *)serial, &is_open));
    for (size_t i = 0; i < serial->nall_vars && !is_open; i++) {
        const weft_var *v = program_var(serial, i);
        is_there |= v->has_tensor && v->ndim && !v->persistable && v->dims[0] == batch;
    }
    if (is_open || is_there) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, serial->place,
                              "a batch of %lld rows was given, but no feed leaves its rows open", (long long)batch);
}

/* With that many rows where they are open; then asks about what is suspected. */
static weft_status judge_batch(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                               size_t nranks, const weft_equivalence_options *o, weft_equivalence **out) {
    open_extents e = {.rows = o->batch, .nranks = (int64_t)nranks};
    fixed_programs f;
    TRY(fixed_make(serial, programs, nprograms, &e, false, &f));
    const weft_program *const *fixed = (const weft_program *const *)f.programs;
    weft_status status = judge_open(f.serial, fixed, nprograms, nranks, o, out);
    if (!status)
        status =
            suspects_ask(*out,
                         &(weft_witness_question){
                             .serial = f.serial, .programs = fixed, .nprograms = nprograms, .nranks = (int64_t)nranks},
                         o);
    fixed_fini(&f);
    return status;
}

weft_status weft_equivalent_to_serial(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                                      const weft_equivalence_options *options, weft_equivalence **out_verdict) {
    weft_equivalence_options taken, *o = &taken;
    TRY(base_take_struct("weft_equivalence_options", &taken, sizeof taken, options));
    if (nprograms == 0) return weft_status_create(WEFT_INVALID_ARGUMENT, serial->place, "expected at least one rank");
    size_t nranks;
    TRY(check_count(programs, nprograms, o, &nranks));
    if (o->batch) TRY(check_batch(serial, o->batch));
    weft_equivalence *open = NULL, *given = NULL;
    weft_status status = judge_open(serial, programs, nprograms, nranks, o, &open);
    bool is_proved = !status && open->grade != WEFT_NOT_PROVED;
    if (!status && !is_proved && o->batch) status = judge_batch(serial, programs, nprograms, nranks, o, &given);
    if (!status && !is_proved && !o->batch)
        status =
            suspects_ask(open,
                         &(weft_witness_question){
                             .serial = serial, .programs = programs, .nprograms = nprograms, .nranks = (int64_t)nranks},
                         o);
    if (!status) *out_verdict = given ? given : open;
    if (status || given) weft_equivalence_destroy(open);
    if (status) weft_equivalence_destroy(given);
    return status;
}
