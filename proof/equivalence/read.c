/* read.c: reads a program in its order, block 0 and what that runs, and lists what leaves it.
 *
 * A conditional_block's body is read on what vars hold where it stands; all that it changes is select(condition, new,
 * old). Any other op with a block (a loop) is a function: of its inputs, and of its body read once with every var from
 * outside as a symbol. Blocks may be run by many ops, so what is read in all is limited. */
#include "proof/equivalence/read.h"
#include "ops/collectives.h"

#include <stdio.h>
#include <stdlib.h>

static weft_status read_op(reader *r, weft_op *op);

/* --- what leaves -------------------------------------------------------------------------------------------------- */

static weft_status add_output(reader *r, char kind, const char *what, const weft_var *v) {
    char small[256];
    int nbytes = snprintf(small, sizeof small, "%c%s", kind, what);
    const name *key = NULL;
    if ((size_t)nbytes < sizeof small) {
        key = interner_get(&r->t->symbols, small, (size_t)nbytes);
    } else {
        char *large = arena_format(&r->memory, "%c%s", kind, what);
        key = large ? interner_get(&r->t->symbols, large, strlen(large)) : NULL;
    }
    if (!key) return base_out_of_memory();
    output x = {.key = key, .var = key->bytes + 1, .rank = OF_NO_RANK};
    if (kind == 'f' && !(x.var = arena_string(&r->t->arena, v->name->bytes, v->name->nbytes)))
        return base_out_of_memory();
    TRY(read_var(r, v, &x.term));
    outputs *o = r->out;
    TRY(vector_reserve(&r->t->context->allocator, &o->items, &o->capacity, o->count + 1, sizeof x));
    o->items[o->count++] = x;
    return NULL;
}

void outputs_fini(const terms *t, outputs *o) {
    if (t->context) {
        base_free(&t->context->allocator, o->items, o->capacity * sizeof *o->items);
        base_free(&t->context->allocator, o->collectives, o->collectives_capacity * sizeof *o->collectives);
        base_free(&t->context->allocator, o->written, o->written_capacity * sizeof *o->written);
        base_free(&t->context->allocator, o->opened, o->opened_capacity * sizeof *o->opened);
    }
    *o = (outputs){.items = NULL};
}

static weft_status read_fetch(reader *r, const weft_op *op) {
    char column[32];
    snprintf(column, sizeof column, "%lld", (long long)attr_int(op, "col", 0));
    FOR_EACH_ARG(op, false, u) {
        TRY(add_output(r, 'f', column, use_var(op->program, u)));
    }
    return NULL;
}

/* What is sent leaves the program. */
static weft_status read_send(reader *r, const weft_op *op) {
    char what[96];
    int64_t number;
    TRY(next_message(r, op, &number));
    snprintf(what, sizeof what, "message %lld to member %lld on ring %lld", (long long)number,
             (long long)op_collective_root(op), (long long)op_ring(op));
    FOR_EACH_ARG(op, false, u) TRY(add_output(r, 's', what, use_var(op->program, u)));
    return NULL;
}

static bool is_state(const weft_var *v) {
    return v->persistable && v->block && (v->kind == WEFT_DENSE_TENSOR || v->kind == WEFT_SELECTED_ROWS);
}

/* Persistables, and what forward ops of role loss computed: one may ask for that by name. */
static weft_status read_state(reader *r) {
    for (size_t i = 0; i < r->p->nall_vars; i++) {
        const weft_var *v = program_var(r->p, i);
        if (is_state(v)) TRY(add_output(r, 'p', v->name->bytes, v));
    }
    FOR_EACH_OP(op, r->p->blocks[0]) {
        if (op_role(op) != WEFT_ROLE_LOSS) continue;
        FOR_EACH_ARG(op, true, u) {
            const weft_var *v = use_var(r->p, u);
            if (is_state(v) || !v->block || !op->block) continue;
            TRY(add_output(r, 'l', v->name->bytes, v));
        }
    }
    return NULL;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* The block of an op's BLOCK attr, NULL: it has none. */
static weft_block *sub_block(const reader *r, const weft_op *op) {
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK && op->attrs[i].u.i >= 0 && (size_t)op->attrs[i].u.i < r->p->nblocks)
            return r->p->blocks[op->attrs[i].u.i];
    return NULL;
}

static weft_status read_block(reader *r, weft_block *block);

static weft_status read_condition(reader *r, const weft_op *op, weft_block *body) {
    uint32_t condition = TERM_NONE, next;
    const slot *conditions = op_find_slot(op, false, "Cond");
    for (size_t i = 0; conditions && i < conditions->nargs; i++) {
        TRY(read_var(r, slot_var(op, conditions, i), &next));
        value both = value_of(next);
        if (condition != TERM_NONE)
            TRY(term_select(r->t, value_of(condition), value_of(next), value_of(condition), &both));
        condition = both.term;
    }
    if (condition == TERM_NONE) TRY(term_unknown(r->t, "a block without a condition", &condition));
    size_t mark = r->nchanges;
    r->depth++;
    TRY(read_block(r, body));
    r->depth--;
    TRY(merge_changes(r, condition, mark));
    if (r->depth == 0) r->nchanges = mark;
    return NULL;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The vars that a body wrote, each once, by id. */
static weft_status list_written(reader *r, size_t mark, uint32_t **out, size_t *out_count) {
    size_t n = r->nchanges - mark, kept = 0;
    uint32_t *ids = ARENA_ARRAY(&r->memory, uint32_t, n + 1);
    if (!ids) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) ids[i] = r->changes[mark + i].at;
    qsort(ids, n, sizeof *ids, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[kept - 1]) ids[kept++] = ids[i];
    *out = ids;
    *out_count = kept;
    return NULL;
}

typedef struct body {
    uint32_t *written, *terms;
    size_t nwritten;
    uint32_t *outer;
    size_t nouter;
    bool broken;
} body;

/* Reads a body apart: vars from outside are symbols, and hold after it what they held before. */
static weft_status read_body(reader *r, weft_block *block, body *out) {
    uint32_t fence = r->fence;
    size_t mark = r->nchanges, nouter = r->nouter;
    bool broken = r->fence_broken;
    r->fence = ++r->nfences;
    r->fence_broken = false;
    r->depth++;
    TRY(read_block(r, block));
    TRY(list_written(r, mark, &out->written, &out->nwritten));
    if (!(out->terms = ARENA_ARRAY(&r->memory, uint32_t, out->nwritten + 1))) return base_out_of_memory();
    for (size_t i = 0; i < out->nwritten; i++) out->terms[i] = r->cells[out->written[i]].term;
    for (size_t i = r->nchanges; i-- > mark;) {
        cell *c = &r->cells[r->changes[i].at];
        c->term = r->changes[i].old;
        c->fence = fence;
    }
    out->nouter = r->nouter - nouter;
    if (!(out->outer = ARENA_ARRAY(&r->memory, uint32_t, out->nouter + 1))) return base_out_of_memory();
    for (size_t i = 0; i < out->nouter; i++) out->outer[i] = r->outer[nouter + i];
    out->broken = r->fence_broken;
    r->depth--;
    r->nchanges = mark;
    r->nouter = nouter;
    r->fence = fence;
    r->fence_broken = broken;
    return NULL;
}

static weft_status write_loop_output(reader *r, const weft_var *v, uint32_t loop) {
    uint32_t head_id, id;
    buffer *key = head_begin(r->t, HEAD_OUT);
    head_put_text(key, v->name->bytes, v->name->nbytes);
    head_put_int(key, v->dtype);
    int64_t where[2] = {0, 0};
    head h = {.kind = HEAD_OUT, .label = v->name->bytes, .dtype = v->dtype, .ints = where, .nints = 2};
    TRY(head_finish(r->t, &h, &head_id));
    value x = value_of(loop);
    static const int64_t none[1] = {0};
    bool known = v->has_tensor && v->kind == WEFT_DENSE_TENSOR;
    TRY(term_make(r->t, head_id, &x, 1, v->dtype, known ? v->ndim : 0, known ? v->ndim ? v->dims : none : NULL, &id));
    return write_var(r, v, id);
}

/* function(inputs, vars read from outside, body): each var written, and each output of the op, is an output of it. */
static weft_status read_loop(reader *r, weft_op *op, weft_block *block) {
    body b = {.written = NULL};
    TRY(read_body(r, block, &b));
    size_t nins = op_nargs(op, false), n = 0;
    value *args = ARENA_ARRAY(&r->memory, value, nins + b.nouter + b.nwritten + 1);
    if (!args) return base_out_of_memory();
    FOR_EACH_ARG(op, false, u) {
        args[n].factor = FACTOR_ONE;
        TRY(read_var(r, use_var(op->program, u), &args[n++].term));
    }
    for (size_t i = 0; i < b.nouter; i++) {
        args[n].factor = FACTOR_ONE;
        TRY(read_var(r, program_var(r->p, b.outer[i]), &args[n++].term));
    }
    for (size_t i = 0; i < b.nwritten; i++) args[n++] = value_of(b.terms[i]);
    uint32_t head_id, loop;
    if (b.broken) {
        TRY(term_unknown(r->t, "a block that writes bytes it shares", &loop));
    } else {
        buffer *key = head_begin(r->t, HEAD_BODY);
        head_put_text(key, op->type->bytes, op->type->nbytes);
        for (size_t i = 0; i < b.nwritten; i++)
            head_put_text(key, program_var(r->p, b.written[i])->name->bytes,
                          program_var(r->p, b.written[i])->name->nbytes);
        TRY(head_finish(r->t, &(head){.kind = HEAD_BODY, .label = op->type->bytes}, &head_id));
        TRY(term_make(r->t, head_id, args, n, WEFT_DTYPE_NONE, 0, NULL, &loop));
    }
    for (size_t i = 0; i < b.nwritten; i++) TRY(write_loop_output(r, program_var(r->p, b.written[i]), loop));
    FOR_EACH_ARG(op, true, u) { /* a gradient's outputs have other vars within */
        const weft_var *v = use_var(op->program, u);
        bool is_written = !v->block;
        for (size_t i = 0; i < b.nwritten && !is_written; i++) is_written = b.written[i] == v->id;
        if (!is_written) TRY(write_loop_output(r, v, loop));
    }
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static weft_status write_unknown(reader *r, const weft_op *op, const char *message) {
    FOR_EACH_ARG(op, true, u) {
        uint32_t id;
        TRY(term_unknown(r->t, message, &id));
        TRY(write_var(r, use_var(op->program, u), id));
    }
    return NULL;
}

static void bind_view(reader *r, weft_op *op, const slot *s, size_t index, const weft_var *base) {
    const weft_var *v = slot_var(op, s, index);
    if (!v->block || v == base) return;
    cell *c = &r->cells[v->id];
    c->binding = BOUND_VIEW;
    c->target = base->id;
    c->view = op;
    c->view_slot = s;
    c->slot = (uint32_t)index;
}

static weft_status write_results(reader *r, weft_op *op, const uint32_t *results) {
    size_t at = 0;
    const weft_var *random = op_has_effect(op, OP_RANDOM) ? random_var(op) : NULL;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        for (size_t k = 0; k < s->nargs; k++, at++) {
            const weft_var *v = slot_var(op, s, k), *base = view_base(op, s, k);
            if (base || op_shows_own_input(op, &slot_args(op, s)[k])) continue;
            if (results[at] != TERM_NONE) TRY(write_var(r, v, results[at]));
        }
    }
    if (random) r->cells[random->id].nrandom++;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        for (size_t k = 0; k < s->nargs; k++) {
            const weft_var *base = view_base(op, s, k);
            uint32_t id;
            if (!base) continue;
            if (r->depth == 0) {
                bind_view(r, op, s, k, base);
                continue;
            }
            TRY(term_unknown(r->t, "a view made under a condition", &id));
            TRY(write_var(r, slot_var(op, s, k), id));
        }
    }
    return NULL;
}

/* Ranks are later compared collective by collective. */
static weft_status note_result(reader *r, weft_op *op, const weft_var *x, uint32_t result) {
    outputs *o = r->out;
    collective c = {.op = op, .result = result};
    TRY(read_var(r, x, &c.argument));
    TRY(vector_reserve(&r->t->context->allocator, &o->collectives, &o->collectives_capacity, o->ncollectives + 1,
                       sizeof c));
    o->collectives[o->ncollectives++] = c;
    return NULL;
}

static weft_status note_collective(reader *r, weft_op *op, const uint32_t *results) {
    const collective_schema *c = op_collective(op);
    bool is_each = c && (c->form == COLLECTIVE_EACH ||
                         (c->form == COLLECTIVE_LIST && op_collective_kind(op) == COLLECTIVE_ALL_REDUCE));
    const slot *in = is_each ? op_find_slot(op, false, c->in) : NULL;
    const weft_var *x = op_x(op);
    if (!x) x = weft_op_input(op, "Logits", 0);
    if (!x) x = weft_op_input(op, "input", 0);
    for (size_t k = 0; in && k < in->nargs && k < op_noutputs(op); k++)
        TRY(note_result(r, op, slot_var(op, in, k), results[k]));
    if (is_each || !x || !op_noutputs(op) || results[0] == TERM_NONE) return NULL;
    return note_result(r, op, x, results[0]);
}

static weft_status read_op(reader *r, weft_op *op) {
    if (op_is(op, "fetch") || op_is(op, "fetch_v2")) return read_fetch(r, op);
    if (r->opens && depends_on_ring(op))
        return r->depth ? write_unknown(r, op, "a collective under a condition") : read_opened(r, op);
    if (op_collective_kind(op) == COLLECTIVE_SEND) return read_send(r, op);
    if (op_is(op, "coalesce_tensor"))
        return r->depth ? write_unknown(r, op, "a coalesce_tensor under a condition") : make_store(r, op);
    weft_block *block = sub_block(r, op);
    if (block) return op_is(op, "conditional_block") ? read_condition(r, op, block) : read_loop(r, op, block);
    bool agrees;
    TRY(agrees_with_declared(r, op, &agrees));
    if (!agrees) return write_unknown(r, op, "its extents are declared otherwise than its op makes them");
    uint32_t small[32], *results = small;
    size_t n = op_noutputs(op);
    if (n > sizeof small / sizeof *small && !(results = ARENA_ARRAY(&r->memory, uint32_t, n)))
        return base_out_of_memory();
    TRY(op_results(r, op, results));
    if (op_has_effect(op, OP_COLLECTIVE)) TRY(note_collective(r, op, results));
    return write_results(r, op, results);
}

static weft_status read_block(reader *r, weft_block *block) {
    enum { MOST_NESTED = 64, MOST_READINGS = 16, FEW = 100000 };
    size_t nops = weft_program_nops(r->p);
    if (r->depth > MOST_NESTED)
        return weft_status_create(WEFT_LIMIT, r->p->place, "blocks are nested more than %d deep", MOST_NESTED);
    FOR_EACH_OP(op, block) {
        if (++r->nsteps > nops * MOST_READINGS + FEW)
            return weft_status_create(WEFT_LIMIT, r->p->place, "blocks are run by too many ops to be read");
        TRY(read_op(r, op));
    }
    return NULL;
}

/* --- a program ---------------------------------------------------------------------------------------------------- */

static int64_t odd_part(int64_t n) {
    while (n > 1 && n % 2 == 0) n /= 2;
    return n;
}

/* What averages may divide by, and the meshes that say which rings make a grid. */
static weft_status learn_rings(terms *t, const weft_program *p) {
    enum { MOST_ODD = 2047 };
    int64_t odd = 1;
    for (size_t i = 0; i < p->nrings; i++) {
        int64_t n = odd_part(p->rings[i].nranks);
        if (n > 1 && odd * n <= MOST_ODD) odd *= n;
    }
    if (odd > t->odd) t->odd = odd;
    for (size_t i = 0; i < p->nmeshes; i++) {
        bool known = false;
        for (size_t k = 0; k < t->nmeshes && !known; k++) known = mesh_equal(t->meshes[k], p->meshes[i]);
        if (known) continue;
        mesh *copy = arena_copy(&t->arena, p->meshes[i], sizeof *copy);
        if (!copy) return base_out_of_memory();
        size_t n = (size_t)mesh_size(copy);
        copy->shape = arena_copy(&t->arena, copy->shape, (size_t)copy->ndim * sizeof *copy->shape);
        copy->ids = arena_copy(&t->arena, copy->ids, n * sizeof *copy->ids);
        copy->names = NULL;
        if (!copy->shape || !copy->ids) return base_out_of_memory();
        TRY(vector_reserve(&t->context->allocator, &t->meshes, &t->meshes_capacity, t->nmeshes + 1, sizeof copy));
        t->meshes[t->nmeshes++] = copy;
    }
    return NULL;
}

static weft_status reader_init(reader *r) {
    size_t nschemas = ops_count(r->t->context), nvars = r->p->nall_vars;
    r->cells = ARENA_ARRAY(&r->memory, cell, nvars + 1);
    r->attr_names = ARENA_ARRAY(&r->memory, const name **, nschemas + 1);
    r->rules = ARENA_ARRAY(&r->memory, uint8_t, nschemas + 1);
    if (!r->cells || !r->attr_names || !r->rules) return base_out_of_memory();
    for (size_t i = 0; i < nvars; i++) r->cells[i].term = TERM_NONE;
    return NULL;
}

static weft_status read_named(reader *r, const char *const *fetches, size_t nfetches) {
    for (size_t i = 0; i < nfetches; i++) {
        const weft_var *v = weft_block_find_var(r->p->blocks[0], fetches[i]);
        if (!v) return weft_status_create(WEFT_NOT_FOUND, r->p->place, "no variable \"%s\" to fetch", fetches[i]);
        TRY(add_output(r, 'n', fetches[i], v));
    }
    return NULL;
}

static weft_status read_program(terms *t, weft_program *p, bool opens, const char *const *fetches, size_t nfetches,
                                outputs *out) {
    reader r = {.t = t, .p = p, .opens = opens, .out = out};
    *out = (outputs){.items = NULL};
    arena_init(&r.memory, &t->context->allocator);
    weft_status status = NULL;
    TRY_DONE(learn_rings(t, p));
    TRY_DONE(reader_init(&r));
    TRY_DONE(read_block(&r, p->blocks[0]));
    TRY_DONE(read_state(&r));
    TRY_DONE(read_named(&r, fetches, nfetches));
done:
    base_free(&t->context->allocator, r.stores, r.stores_capacity * sizeof *r.stores);
    base_free(&t->context->allocator, r.changes, r.changes_capacity * sizeof *r.changes);
    base_free(&t->context->allocator, r.mailboxes, r.mailboxes_capacity * sizeof *r.mailboxes);
    base_free(&t->context->allocator, r.outer, r.outer_capacity * sizeof *r.outer);
    arena_fini(&r.memory);
    if (status) outputs_fini(t, out);
    return status;
}

weft_status program_read(terms *t, weft_program *p, const char *const *fetches, size_t nfetches, outputs *out) {
    return read_program(t, p, false, fetches, nfetches, out);
}

weft_status program_read_apart(terms *t, weft_program *p, const char *const *fetches, size_t nfetches, outputs *out) {
    return read_program(t, p, true, fetches, nfetches, out);
}
