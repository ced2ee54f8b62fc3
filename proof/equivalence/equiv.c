/* equiv.c: verdicts. Values whose terms are the same term are equal bit for bit; of the others, those with the same
 * normal form are equal over the real numbers; what is left differs, or no rule tells. */
#include "proof/equivalence/equiv.h"

#include <stdlib.h>

static const char *const grade_names[WEFT_GRADE_COUNT] = {
    [WEFT_SAME_BITS] = "same bits",
    [WEFT_SAME_REALS] = "same over the real numbers",
    [WEFT_SAME_RANGE] = "same over the real numbers, range changed",
    [WEFT_SAME_IF] = "same under a condition",
    [WEFT_NOT_PROVED] = "not proved",
    [WEFT_NOT_CHECKED] = "not checked",
};

const char *weft_grade_name(weft_grade grade) {
    return (unsigned)grade < WEFT_GRADE_COUNT ? grade_names[grade] : "unknown";
}

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

weft_status equivalence_create(weft_context *context, weft_equivalence **out) {
    weft_equivalence *e = base_alloc(&context->allocator, sizeof *e);
    if (!e) return base_out_of_memory();
    *e = (weft_equivalence){.context = context, .grade = WEFT_SAME_BITS};
    arena_init(&e->arena, &context->allocator);
    *out = e;
    return NULL;
}

void weft_equivalence_destroy(weft_equivalence *e) {
    if (!e) return;
    const weft_allocator *a = &e->context->allocator;
    base_free(a, e->items, e->capacity * sizeof *e->items);
    arena_fini(&e->arena);
    base_free(a, e, sizeof *e);
}

weft_status equivalence_add_of_rank(weft_equivalence *e, int64_t rank, const char *var, weft_grade grade,
                                    const char *message) {
    TRY(vector_reserve(&e->context->allocator, &e->items, &e->capacity, e->count + 1, sizeof *e->items));
    finding x = {.var = arena_string(&e->arena, var, strlen(var)),
                 .rank = rank,
                 .message = arena_string(&e->arena, message, strlen(message)),
                 .grade = grade,
                 .difference = grade == WEFT_NOT_PROVED ? WEFT_DIFFERENCE_UNKNOWN : WEFT_DIFFERENCE_NONE};
    x.shown = rank == OF_NO_RANK ? x.var : arena_format(&e->arena, "rank %lld: %s", (long long)rank, var);
    if (!x.shown || !x.var || !x.message) return base_out_of_memory();
    e->items[e->count++] = x;
    if (grade > e->grade) e->grade = grade;
    return NULL;
}

weft_status equivalence_add(weft_equivalence *e, const char *var, weft_grade grade, const char *message) {
    return equivalence_add_of_rank(e, OF_NO_RANK, var, grade, message);
}

weft_grade weft_equivalence_grade(const weft_equivalence *e) {
    return e->grade;
}

size_t weft_equivalence_nvalues(const weft_equivalence *e) {
    return e->nvalues;
}

size_t weft_equivalence_nfindings(const weft_equivalence *e) {
    return e->count;
}

const char *weft_equivalence_finding(const weft_equivalence *e, size_t index, weft_grade *out_grade,
                                     const char **out_message) {
    if (index >= e->count) return NULL;
    if (out_grade) *out_grade = e->items[index].grade;
    if (out_message) *out_message = e->items[index].message;
    return e->items[index].shown;
}

weft_difference weft_equivalence_difference(const weft_equivalence *e, size_t index) {
    return index < e->count ? e->items[index].difference : WEFT_DIFFERENCE_NONE;
}

static int worst_first(const void *a, const void *b) {
    const finding *x = a, *y = b;
    if (x->grade != y->grade) return x->grade > y->grade ? -1 : 1;
    return strcmp(x->shown, y->shown);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

typedef struct pair {
    const output *before, *after;
    bool is_loose; /* equal but for a factor: another rank has the result, and its program tells */
} pair;

static weft_status say_difference(prover *v, value before, value after, weft_equivalence *out, const output *of) {
    const terms *t = &v->terms;
    value a, b;
    buffer message;
    buffer_init(&message, &t->context->allocator);
    value_difference(t, before, after, &a, &b);
    buffer_text(&message, "expected ");
    value_print(t, a, &message);
    buffer_text(&message, "\n         found ");
    value_print(t, b, &message);
    buffer_append(&message, "", 1);
    weft_status status = buffer_status(&message);
    if (!status) status = equivalence_add_of_rank(out, of->rank, of->var, WEFT_NOT_PROVED, message.bytes);
    if (!status) out->items[out->count - 1].difference = WEFT_DIFFERENCE_SUSPECTED;
    buffer_fini(&message);
    return status;
}

/* Pairs of equal terms leave the list; those of equal forms do too, with that grade. */
static weft_status settle(prover *v, normal_mode mode, pair *pairs, size_t *count, weft_equivalence *out) {
    const weft_allocator *a = &v->terms.context->allocator;
    size_t kept = 0, n = *count;
    uint32_t *ids = base_alloc(a, 2 * n * sizeof *ids);
    if (!ids) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        ids[2 * i] = pairs[i].before->term;
        ids[2 * i + 1] = pairs[i].after->term;
    }
    weft_status status = normal_find(&v->normals[mode], ids, 2 * n);
    base_free(a, ids, 2 * n * sizeof *ids);
    for (size_t i = 0; i < n && !status; i++) {
        value x = normal_of(&v->normals[mode], pairs[i].before->term);
        value y = normal_of(&v->normals[mode], pairs[i].after->term);
        if (x.term != y.term || (x.factor != y.factor && !pairs[i].is_loose))
            pairs[kept++] = pairs[i];
        else if (!pairs[i].is_loose)
            status = equivalence_add_of_rank(out, pairs[i].after->rank, pairs[i].after->var,
                                             mode == NORMAL_REALS ? WEFT_SAME_REALS : WEFT_SAME_RANGE, "");
    }
    *count = kept;
    return status;
}

static weft_status settle_all(prover *v, pair *pairs, size_t count, weft_equivalence *out) {
    if (count) TRY(settle(v, NORMAL_REALS, pairs, &count, out));
    if (count) TRY(settle(v, NORMAL_RANGE, pairs, &count, out));
    for (size_t i = 0; i < count; i++) {
        const normal *n = &v->normals[NORMAL_RANGE];
        TRY(say_difference(v, normal_of(n, pairs[i].before->term), normal_of(n, pairs[i].after->term), out,
                           pairs[i].after));
    }
    if (out->count) qsort(out->items, out->count, sizeof *out->items, worst_first);
    return NULL;
}

/* What is reduced to one rank leaves the others' programs, though nothing in them uses it. */
static bool is_sent(const collective *c) {
    return op_is_collective(c->op, COLLECTIVE_REDUCE);
}

static size_t find_sent(const outputs *o, size_t from) {
    while (from < o->ncollectives && !is_sent(&o->collectives[from])) from++;
    return from;
}

static weft_status pair_sent(const outputs *before, const outputs *after, arena *a, pair *pairs, size_t *count,
                             weft_equivalence *out) {
    size_t i = find_sent(before, 0), k = find_sent(after, 0);
    for (; i < before->ncollectives && k < after->ncollectives;
         i = find_sent(before, i + 1), k = find_sent(after, k + 1)) {
        const collective *x = &before->collectives[i], *y = &after->collectives[k];
        if (x->argument == y->argument) continue;
        output *both = ARENA_ARRAY(a, output, 2);
        if (!both) return base_out_of_memory();
        both[0] = (output){.var = "what is reduced to one rank", .rank = OF_NO_RANK, .term = x->argument};
        both[1] = (output){.var = "what is reduced to one rank", .rank = OF_NO_RANK, .term = y->argument};
        pairs[(*count)++] = (pair){&both[0], &both[1], true};
    }
    if (i < before->ncollectives || k < after->ncollectives)
        return equivalence_add(out, "what is reduced to one rank", WEFT_NOT_PROVED,
                               "expected as many reduces to one rank, found fewer or more");
    return NULL;
}

/* Compares two lists of outputs of one table. */
static weft_status compare_outputs(prover *v, const outputs *before, const outputs *after, weft_equivalence *out) {
    arena memory;
    arena_init(&memory, &v->terms.context->allocator);
    weft_status status = NULL;
    size_t count = 0;
    const output **by_key = ARENA_ARRAY(&memory, const output *, v->terms.symbols.count + 1);
    pair *pairs = ARENA_ARRAY(&memory, pair, before->count + before->ncollectives + 1);
    if (!by_key || !pairs) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < after->count; i++) by_key[after->items[i].key->id] = &after->items[i];
    for (size_t i = 0; i < before->count; i++) {
        const output *x = &before->items[i], *y = by_key[x->key->id];
        out->nvalues++;
        if (!y)
            TRY_DONE(equivalence_add(out, x->var, WEFT_NOT_PROVED, "expected it to leave the program, found it gone"));
        else if (x->term != y->term)
            pairs[count++] = (pair){x, y, false};
    }
    TRY_DONE(pair_sent(before, after, &memory, pairs, &count, out));
    TRY_DONE(settle_all(v, pairs, count, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status outputs_compare_pairs(prover *v, const outputs *before, const outputs *after, weft_equivalence *out) {
    arena memory;
    arena_init(&memory, &v->terms.context->allocator);
    weft_status status = NULL;
    size_t count = 0;
    pair *pairs = ARENA_ARRAY(&memory, pair, before->count + 1);
    if (!pairs) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < before->count; i++)
        if (before->items[i].term != after->items[i].term)
            pairs[count++] = (pair){&before->items[i], &after->items[i], false};
    TRY_DONE(settle_all(v, pairs, count, out));
done:
    arena_fini(&memory);
    return status;
}

/* --- a program's states ------------------------------------------------------------------------------------------- */

weft_status prover_init(prover *v, weft_context *context) {
    *v = (prover){.before = {.items = NULL}};
    TRY(terms_init(&v->terms, context));
    for (int i = 0; i < NORMAL_MODES; i++) normal_init(&v->normals[i], &v->terms, (normal_mode)i);
    return NULL;
}

void prover_fini(prover *v) {
    outputs_fini(&v->terms, &v->before);
    for (int i = 0; i < NORMAL_MODES; i++) normal_fini(&v->normals[i]);
    terms_fini(&v->terms);
}

weft_status prover_take(prover *v, weft_program *p) {
    outputs_fini(&v->terms, &v->before);
    return program_read(&v->terms, p, NULL, 0, &v->before);
}

weft_status prover_compare(prover *v, weft_program *p, weft_equivalence **out) {
    outputs after;
    TRY(program_read(&v->terms, p, NULL, 0, &after));
    weft_equivalence *e = NULL;
    weft_status status = equivalence_create(v->terms.context, &e);
    if (!status) status = compare_outputs(v, &v->before, &after, e);
    outputs_fini(&v->terms, &v->before);
    v->before = after;
    if (status)
        weft_equivalence_destroy(e);
    else
        *out = e;
    return status;
}

weft_status prover_same(const prover *v, weft_equivalence **out) {
    TRY(equivalence_create(v->terms.context, out));
    (*out)->nvalues = v->before.count;
    return NULL;
}

weft_status weft_equivalent(const weft_program *before, const weft_program *after,
                            const weft_equivalence_options *options, weft_equivalence **out_verdict) {
    weft_equivalence_options taken, *o = &taken;
    TRY(base_take_struct("weft_equivalence_options", &taken, sizeof taken, options));
    weft_context *context = before->context;
    prover v;
    outputs a = {.items = NULL}, b = a;
    weft_equivalence *e = NULL;
    weft_status status = prover_init(&v, context);
    /* Reading caches schemas on ops, as every look at a program does, and changes nothing else. */
    if (!status) status = program_read(&v.terms, (weft_program *)before, o->fetches, o->nfetches, &a);
    if (!status) status = program_read(&v.terms, (weft_program *)after, o->fetches, o->nfetches, &b);
    if (!status) status = equivalence_create(context, &e);
    if (!status) status = compare_outputs(&v, &a, &b, e);
    outputs_fini(&v.terms, &a);
    outputs_fini(&v.terms, &b);
    prover_fini(&v);
    if (status)
        weft_equivalence_destroy(e);
    else
        *out_verdict = e;
    return status;
}
