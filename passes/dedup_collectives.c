/* dedup_collectives: of collectives that give the same value, one is left.
 *
 * Two are equal if type, attrs, stream and what they read are: the same var, written as often, or a copy of it. What
 * the first gave must still stand where the second is. Readers of the second then read the first's result, and of the
 * waits for both the earlier one stays. Where others write one of the two results, or a fetch names it, the second
 * becomes a copy of the first's. Ranks must run equal programs: `weft verify` finds one whose collectives differ from
 * the others'. Sources: Paddle #72120 (two reduces of one partial gradient, +12 % tokens a second),
 * `_dedup_collectives` of PyTorch's torch/distributed/_spmd. */
#include <stdlib.h>

#include "ops/collectives.h"
#include "passes/attr_place.h"
#include "passes/certificate.h"
#include "passes/pending.h"

/* A collective of block 0 with one input and one output. */
typedef struct candidate {
    weft_op *op;
    weft_var *source; /* what it reads, seen through copies */
    uint32_t version; /* how often source was written before */
    uint32_t position;
} candidate;

typedef struct deduper {
    weft_pass_context *pass;
    access_index index;
    candidate *items;
    size_t count;
} deduper;

/* --- which there are ---------------------------------------------------------------------------------------------- */

static bool has_one_value(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    bool moves = c && collective_communicates(c->kind) && c->kind < COLLECTIVE_SEND && c->kind != COLLECTIVE_REDUCE;
    return moves && op_nargs(op, false) == 1 && op_nargs(op, true) == 1;
}

/* How often the bytes of `v` are written before a position. */
static uint32_t writes_before(const deduper *d, const weft_var *v, uint32_t position) {
    size_t n;
    uint32_t count = 0;
    const access *accesses = accesses_of(&d->index, v, &n);
    for (size_t i = 0; i < n && accesses[i].position < position; i++) count += (accesses[i].flags & ACCESS_WRITE) != 0;
    return count;
}

/* The one op that writes the bytes of `v`, NULL if there are more or none. */
static weft_op *only_writer(const deduper *d, const weft_var *v, uint32_t *out_position) {
    size_t n;
    weft_op *writer = NULL;
    const access *accesses = accesses_of(&d->index, v, &n);
    for (size_t i = 0; i < n; i++) {
        if (!(accesses[i].flags & ACCESS_WRITE)) continue;
        if (writer || (accesses[i].flags & ACCESS_NESTED)) return NULL;
        *out_position = accesses[i].position;
        writer = access_op(&d->index, *out_position);
    }
    return writer;
}

/* A copy that nobody writes holds what was copied. */
static void see_through_copies(const deduper *d, candidate *c) {
    uint32_t at = c->position, where = 0;
    for (;;) {
        const weft_op *copy = only_writer(d, c->source, &where);
        if (!copy || !op_is(copy, "assign") || where >= at || !op_x(copy)) break;
        c->source = op_x(copy);
        at = where;
    }
    c->version = writes_before(d, c->source, at);
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* 0: of one type, and they read one value. */
static int compare_values(const candidate *x, const candidate *y) {
    int order = compare_numbers(x->source->id, y->source->id);
    if (!order) order = compare_numbers(x->version, y->version);
    return order ? order : compare_numbers((uintptr_t)x->op->type, (uintptr_t)y->op->type);
}

/* Those that may be equal side by side, in program order. */
static int by_value(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    int order = compare_values(x, y);
    return order ? order : compare_numbers(x->position, y->position);
}

static weft_status list_candidates(deduper *d, weft_program *p) {
    arena *scratch = pass_scratch(d->pass);
    TRY(access_index_begin(p, scratch, &d->index));
    d->items = ARENA_ARRAY(scratch, candidate, d->index.nops + 1);
    if (!d->items) return base_out_of_memory();
    for (uint32_t i = 0; i < d->index.nops; i++) {
        weft_op *op = access_op(&d->index, i);
        if (has_one_value(op)) d->items[d->count++] = (candidate){.op = op, .position = i};
    }
    if (d->count < 2) return NULL;
    TRY(access_index_gather(&d->index, scratch, NULL));
    for (size_t i = 0; i < d->count; i++) {
        d->items[i].source = use_var(p, op_args(d->items[i].op, false));
        see_through_copies(d, &d->items[i]);
    }
    qsort(d->items, d->count, sizeof *d->items, by_value);
    return NULL;
}

/* --- which are equal ---------------------------------------------------------------------------------------------- */

static weft_var *result(const candidate *c) {
    return use_var(c->op->program, op_args(c->op, true));
}

static bool has_attrs_of(const weft_op *a, const weft_op *b) {
    for (size_t i = 0; i < a->nattrs; i++) {
        const weft_attr *there = attr_is_of_place(&a->attrs[i]) ? &a->attrs[i] : op_find_attr(b, a->attrs[i].name->bytes);
        if (!there || !attr_equal(&a->attrs[i], there)) return false;
    }
    return true;
}

static bool same_type(const weft_var *a, const weft_var *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim && a->kind == b->kind;
    for (size_t i = 0; same && i < a->ndim; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static bool are_equal(const candidate *a, const candidate *b) {
    return has_attrs_of(a->op, b->op) && has_attrs_of(b->op, a->op) &&
           strcmp(weft_op_stream(a->op), weft_op_stream(b->op)) == 0 && same_type(result(a), result(b));
}

/* --- whether the second can go ------------------------------------------------------------------------------------ */

static bool is_fetched(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        if (!u->is_output && op_is(use_op(v->program, u), "fetch")) return true;
    }
    return false;
}

static bool is_used_below(const weft_var *v, const weft_block *block) {
    FOR_EACH_USE(u, v) {
        if (use_op(v->program, u)->block != block) return true;
    }
    return false;
}

/* Nobody else writes its bytes, and block 0 alone uses them: another name does as well. */
static bool has_own_result(const deduper *d, const candidate *c) {
    uint32_t position;
    const weft_var *v = result(c);
    return only_writer(d, v, &position) == c->op && !v->persistable && !is_used_below(v, c->op->block);
}

static bool still_stands(const deduper *d, const candidate *first, uint32_t position) {
    const weft_var *v = result(first);
    return writes_before(d, v, position) == writes_before(d, v, first->position + 1);
}

static bool runs_beside(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    bool leaves = c->stream == COLLECTIVE_CALC_STREAM && !weft_op_attr_bool(op, "use_calc_stream", false);
    return leaves || *weft_op_stream(op);
}

typedef enum way { WAY_NONE, WAY_RENAME, WAY_COPY } way;

static weft_status choose_way(const deduper *d, const candidate *first, const candidate *second, way *out) {
    bool is_async = op_is_async(second->op);
    *out = WAY_NONE;
    if (!still_stands(d, first, second->position))
        return weft_pass_left(d->pass, second->op, WEFT_REASON_IN_USE, "\"%s\" is overwritten before",
                              result(first)->name->bytes);
    if (!is_async && runs_beside(second->op))
        return weft_pass_left(d->pass, second->op, WEFT_REASON_DEPENDENCY,
                              "it runs on a stream of its own: run this pass before overlap_comm");
    bool renames = has_own_result(d, first) && has_own_result(d, second);
    if (is_async && !renames)
        return weft_pass_left(d->pass, second->op, WEFT_REASON_IN_USE, "others write \"%s\" or \"%s\"",
                              result(first)->name->bytes, result(second)->name->bytes);
    *out = renames && (is_async || !is_fetched(result(second))) ? WAY_RENAME : WAY_COPY;
    return NULL;
}

/* --- editing ------------------------------------------------------------------------------------------------------ */

static void rename_all(weft_var *from, weft_var *to) {
    const weft_program *p = from->program;
    for (use *u = use_at(p, from->first_use), *next; u; u = next) {
        next = use_at(p, u->next);
        use_rename_placed(u, to);
    }
}

/* Of several waits for `pending` the first stays; what the others gave, it gives. */
static weft_status keep_first_wait(deduper *d, weft_var *is_pending) {
    weft_op **waits = ARENA_ARRAY(pass_scratch(d->pass), weft_op *, is_pending->nuses + 1), *first = NULL;
    size_t count = 0;
    if (!waits) return base_out_of_memory();
    FOR_EACH_USE(u, is_pending) {
        weft_op *op = use_op(is_pending->program, u);
        if (u->is_output || !op_is_wait(op) || !op_out(op)) continue;
        waits[count++] = op;
        if (!first || weft_op_is_before(op, first)) first = op;
    }
    for (size_t i = 0; i < count; i++) {
        if (waits[i] == first) continue;
        weft_var *extra = op_out(waits[i]);
        weft_op_remove(waits[i]);
        rename_all(extra, op_out(first));
    }
    return NULL;
}

static weft_status rename(deduper *d, const candidate *first, const candidate *second) {
    weft_var *from = result(second), *to = result(first);
    weft_op_remove(second->op);
    rename_all(from, to);
    return op_is_async(first->op) ? keep_first_wait(d, to) : NULL;
}

static weft_status copy(const candidate *first, const candidate *second) {
    weft_op *op;
    weft_var *to = result(second);
    TRY(weft_op_create(to->program, "assign", &op));
    TRY(weft_op_add_input(op, "X", result(first)));
    TRY(weft_op_add_output(op, "Out", to));
    if (op_find_attr(second->op, "op_role")) TRY(weft_op_set_attr_int(op, "op_role", op_role(second->op)));
    weft_block_insert_before(second->op->block, second->op, op);
    weft_op_remove(second->op);
    return NULL;
}

static weft_status replace(deduper *d, const candidate *first, const candidate *second, way how) {
    TRY(pass_claim_add(d->pass, (pass_claim){.kind = CLAIM_SAME, .op = second->op, .other = first->op}));
    return how == WAY_RENAME ? rename(d, first, second) : copy(first, second);
}

/* Decides for all before the first edit: afterwards the lists of accesses hold no more. */
static weft_status decide(const deduper *d, size_t *firsts, way *ways) {
    for (size_t i = 0; i < d->count; i++) {
        firsts[i] = i;
        ways[i] = WAY_NONE;
        for (size_t k = i; k-- > 0 && compare_values(&d->items[k], &d->items[i]) == 0;) {
            if (firsts[k] != k || !are_equal(&d->items[k], &d->items[i])) continue;
            TRY(choose_way(d, &d->items[k], &d->items[i], &ways[i]));
            if (ways[i] != WAY_NONE) firsts[i] = k;
            break;
        }
    }
    return NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    deduper d = {.pass = pass};
    TRY(list_candidates(&d, program));
    if (d.count < 2) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "fewer than two collectives");
    size_t *firsts = ARENA_ARRAY(pass_scratch(pass), size_t, d.count);
    way *ways = ARENA_ARRAY(pass_scratch(pass), way, d.count);
    if (!firsts || !ways) return base_out_of_memory();
    TRY(decide(&d, firsts, ways));
    int64_t removed = 0, copies = 0;
    for (size_t i = 0; i < d.count; i++) {
        if (ways[i] == WAY_NONE) continue;
        removed++;
        copies += ways[i] == WAY_COPY;
        TRY(replace(&d, &d.items[firsts[i]], &d.items[i], ways[i]));
    }
    TRY(weft_pass_count_add(pass, "collectives removed", removed));
    if (!removed) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "no two collectives give the same value");
    return weft_pass_did(pass, "%lld of %zu collectives gave what another gives; %lld of them are copies now",
                         (long long)removed, d.count, (long long)copies);
}

const weft_pass pass_dedup_collectives = {.run = run};
