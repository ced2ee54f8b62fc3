/* gives.c: what a collective gives a rank, as a term over what its members give: rows of all one after another, sums in
 * the order of members, parts of these, or the same value. All others are functions of what all members give. */
#include "proof/together/together.h"

#include "ops/collectives.h"

typedef struct call {
    together *g;
    int side;
    const meeting *m;
    const weft_op *op;
    const collective_schema *schema; /* NULL: none */
    uint32_t symbol;
    size_t output; /* which of the op's */
    int64_t numel; /* of that; -1: not known */
} call;

static uint32_t value_at(const call *c, size_t member, size_t arg) {
    return c->g->values[c->side][c->m->ranks[member]][c->m->of[member]->args[arg]];
}

/* Where among all of an op's arguments the slot begins; -1: it has not `index` + 1. */
static int64_t arg_of(const weft_op *op, bool is_output, const char *slot_name, size_t index) {
    size_t at = 0;
    for (size_t i = 0; i < op_nslots(op, is_output); i++) {
        const slot *s = op_slot(op, is_output, i);
        if (name_is(s->name, slot_name)) return index < s->nargs ? (int64_t)(at + index) : -1;
        at += s->nargs;
    }
    return -1;
}

/* What each member moves, of the same extents and element type on all; false: it is not known. */
static bool moved(const call *c, value *out) {
    const terms *t = c->g->t;
    size_t index = 0;
    if (c->schema->form == COLLECTIVE_EACH) {
        int64_t first = arg_of(c->op, true, c->schema->out, 0);
        if (first < 0 || (int64_t)c->output < first) return false;
        index = c->output - (size_t)first;
    }
    for (size_t i = 0; i < c->m->count; i++) {
        int64_t at = arg_of(c->m->of[i]->op, false, c->schema->in, index);
        if (at < 0) return false;
        out[i] = value_of(value_at(c, i, (size_t)at));
        if (term_numel(t, out[i].term) != term_numel(t, out[0].term) || term_numel(t, out[0].term) < 0 ||
            t->items[out[i].term].dtype != t->items[c->symbol].dtype)
            return false;
    }
    return true;
}

static weft_status with_extents(const call *c, value x, uint32_t *out) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    const int64_t *at = term_dims(c->g->t, c->symbol, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    TRY(term_reshape(c->g->t, x, ndim, dims, &x));
    *out = x.term;
    return NULL;
}

/* In the order of members. 16-bit floats are added up in fp32 and rounded once, means too; over the real numbers there
 * is no rounding. */
static weft_status sum_of(const call *c, const value *all, value *out) {
    terms *t = c->g->t;
    int32_t dtype = t->items[c->symbol].dtype, summed = dtype_is_half(dtype) && !c->g->adds_parts ? WEFT_FP32 : dtype;
    for (size_t i = 0; i < c->m->count; i++) {
        value x = all[i];
        if (summed != dtype) TRY(term_cast(t, x, summed, &x));
        if (i == 0)
            *out = x;
        else
            TRY(rows_sum(t, (value[]){*out, x}, 2, summed, c->g->adds_parts, out));
    }
    if (op_collective_reduce(c->op) == WEFT_REDUCE_AVG) TRY(term_scale(t, *out, (double)c->m->count, true, out));
    return summed == dtype ? NULL : term_cast(t, *out, dtype, out);
}

/* Another reduction, of the elements at one place. */
static weft_status reduced(const call *c, const value *all, value *out) {
    terms *t = c->g->t;
    uint32_t head_id;
    int32_t dtype = t->items[c->symbol].dtype;
    buffer *key = head_begin(t, HEAD_TOGETHER);
    head_put_text(key, "/reduced", 8);
    head_put_int(key, op_collective_reduce(c->op));
    head_put_int(key, dtype);
    TRY(head_finish(t, &(head){.kind = HEAD_TOGETHER, .label = "reduction", .dtype = dtype}, &head_id));
    return rows_each(t, head_id, all, c->m->count, dtype, out);
}

/* Of as many elements each. */
static weft_status reduce(const call *c, const value *all, value *out) {
    int kind = op_collective_reduce(c->op);
    bool adds = kind == WEFT_REDUCE_SUM || kind == WEFT_REDUCE_AVG;
    return adds && dtype_is_float(c->g->t->items[c->symbol].dtype) ? sum_of(c, all, out) : reduced(c, all, out);
}

static bool is_transposition(const char *type) {
    static const char *const types[] = {"aten_permute", "aten_transpose", "aten_t", "transpose2"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0) return true;
    return false;
}

static bool have_same_extents(const terms *t, value a, value b) {
    size_t na = 0, nb = 0;
    const int64_t *x = term_dims(t, a.term, &na), *y = term_dims(t, b.term, &nb);
    return x && y && na == nb && memcmp(x, y, na * sizeof *x) == 0;
}

/* Whether one transposition makes all of them: of `inner`, by the op *out_by. */
static bool are_turned_alike(const terms *t, const value *all, size_t count, value *inner, uint32_t *out_by) {
    for (size_t i = 0; i < count; i++) {
        uint32_t by;
        const head *h = op_making(t, all[i].term, 1, &by);
        if (!h || !is_transposition(h->schema->type) || all[i].factor != FACTOR_ONE) return false;
        inner[i] = term_args(t, by)[0];
        if (i == 0) *out_by = by;
        if (t->items[by].head != t->items[*out_by].head || t->items[all[i].term].head != t->items[all[0].term].head ||
            !have_same_extents(t, inner[i], inner[0]))
            return false;
    }
    return true;
}

/* The elements at one place of values that are transposed alike stood at one place before. */
static weft_status reduce_all(const call *c, const value *all, value *out) {
    terms *t = c->g->t;
    value inner[MOST_TOGETHER], turned;
    uint32_t by = TERM_NONE;
    if (!are_turned_alike(t, all, c->m->count, inner, &by)) return reduce(c, all, out);
    TRY(reduce(c, inner, out));
    TRY(term_again(t, by, out, &turned));
    return term_again(t, all[0].term, &turned, out);
}

static weft_status parts_of(const call *c, value *all, uint32_t *out) {
    terms *t = c->g->t;
    int64_t part = c->numel / (int64_t)c->m->count, ranges[2 * MOST_TOGETHER];
    value x;
    for (size_t i = 0; i < c->m->count; i++) {
        ranges[2 * i] = (int64_t)i * part;
        ranges[2 * i + 1] = part;
        TRY(term_part(t, all[i], (int64_t)c->m->position * part, part, &all[i]));
    }
    TRY(term_flat(t, all, ranges, c->m->count, c->numel, &x));
    return with_extents(c, x, out);
}

static weft_status gathered(const call *c, const value *all, uint32_t *out) {
    int64_t one = c->numel / (int64_t)c->m->count, ranges[2 * MOST_TOGETHER];
    value x;
    for (size_t i = 0; i < c->m->count; i++) {
        ranges[2 * i] = (int64_t)i * one;
        ranges[2 * i + 1] = one;
    }
    TRY(term_flat(c->g->t, all, ranges, c->m->count, c->numel, &x));
    return with_extents(c, x, out);
}

/* Beside each other along the last dimension: a run of each for each row. */
static weft_status beside(const call *c, const value *all, uint32_t *out) {
    terms *t = c->g->t;
    size_t ndim = 0, n = c->m->count;
    const int64_t *dims = term_dims(t, c->symbol, &ndim);
    int64_t width = ndim ? dims[ndim - 1] : 0, rows = width > 0 ? c->numel / width : 0;
    if (rows <= 0 || width % (int64_t)n || rows > MOST_RUNS / (int64_t)n) return NULL;
    tile tiles[MOST_TOGETHER];
    value x;
    for (size_t i = 0; i < n; i++) tiles[i] = (tile){.width = width / (int64_t)n, .count = width / (int64_t)n};
    TRY(tiles_join(t, all, &(tile){.count = rows}, 1, tiles, n, &x));
    return with_extents(c, x, out);
}

static weft_status scattered(const call *c, const value *all, uint32_t *out) {
    value x, parts[MOST_TOGETHER];
    for (size_t i = 0; i < c->m->count; i++)
        TRY(term_part(c->g->t, all[i], (int64_t)c->m->position * c->numel, c->numel, &parts[i]));
    TRY(reduce(c, parts, &x));
    return with_extents(c, x, out);
}

/* *out stays TERM_NONE: it is a function like others. `moved` is how many elements a member moves. */
static weft_status defined(const call *c, value *all, int64_t moved_numel, uint32_t *out) {
    int64_t n = (int64_t)c->m->count;
    value x;
    switch (c->schema->kind) {
    case COLLECTIVE_ALL_GATHER:
        if (moved_numel * n != c->numel) return NULL;
        return c->schema->form == COLLECTIVE_LAST_DIM ? beside(c, all, out) : gathered(c, all, out);
    case COLLECTIVE_REDUCE_SCATTER: return moved_numel == c->numel * n ? scattered(c, all, out) : NULL;
    case COLLECTIVE_ALL_TO_ALL: return moved_numel == c->numel && c->numel % n == 0 ? parts_of(c, all, out) : NULL;
    case COLLECTIVE_BROADCAST: {
        int64_t root = op_collective_root(c->op);
        return moved_numel == c->numel && root >= 0 && root < n ? with_extents(c, all[root], out) : NULL;
    }
    case COLLECTIVE_ALL_REDUCE:
        if (moved_numel != c->numel) return NULL;
        TRY(reduce_all(c, all, &x));
        return with_extents(c, x, out);
    default: return NULL;
    }
}

static bool are_equal(const int64_t *extents, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (extents[i] != extents[0]) return false;
    return true;
}

/* Whether all members give and get equal parts. */
static bool has_equal_parts(const call *c) {
    for (size_t i = 0; i < c->m->count; i++) {
        size_t ngiven = 0, ngot = 0;
        const weft_op *op = c->m->of[i]->op;
        const int64_t *given = op_collective_splits(op, false, &ngiven), *got = op_collective_splits(op, true, &ngot);
        if (!are_equal(given, given ? ngiven : 0) || !are_equal(got, got ? ngot : 0)) return false;
    }
    return true;
}

static bool has_definition(const call *c) {
    const collective_schema *s = c->schema;
    if (!s || !s->in || c->numel < 0) return false; /* what others move is not said */
    if (s->form == COLLECTIVE_SPLITS) return has_equal_parts(c);
    if (s->form == COLLECTIVE_LAST_DIM) return s->kind == COLLECTIVE_ALL_GATHER;
    return s->form == COLLECTIVE_WHOLE || s->form == COLLECTIVE_EACH;
}

/* A function of what all members give, and of which member it is. */
static weft_status any_value(const call *c, uint32_t *out) {
    terms *t = c->g->t;
    size_t nargs = 0, at = 0;
    for (size_t i = 0; i < c->m->count; i++) nargs += c->m->of[i]->nargs;
    value *args = base_alloc(&t->context->allocator, (nargs + 1) * sizeof *args);
    if (!args) return base_out_of_memory();
    for (size_t i = 0; i < c->m->count; i++)
        for (size_t k = 0; k < c->m->of[i]->nargs; k++) args[at++] = value_of(value_at(c, i, k));
    int32_t dtype = t->items[c->symbol].dtype;
    buffer *key = head_begin(t, HEAD_TOGETHER);
    for (size_t i = 0; i < c->m->count; i++) head_put_int(key, c->m->of[i]->head);
    head_put_int(key, (int64_t)c->m->position);
    head_put_int(key, (int64_t)c->output);
    head_put_int(key, dtype);
    uint32_t head_id;
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, c->symbol, &ndim);
    weft_status status =
        head_finish(t, &(head){.kind = HEAD_TOGETHER, .label = c->op->type->bytes, .dtype = dtype}, &head_id);
    if (!status) status = term_make(t, head_id, args, nargs, dtype, ndim, dims, out);
    base_free(&t->context->allocator, args, (nargs + 1) * sizeof *args);
    return status;
}

/* The op a receive belongs to is the sender's; all others are their own. */
weft_status collective_value(together *g, int side, uint32_t symbol, const meeting *m, uint32_t *out) {
    const head *h = term_head(g->t, symbol);
    call c = {.g = g, .side = side, .m = m, .symbol = symbol, .numel = term_numel(g->t, symbol)};
    c.output = (size_t)h->ints[1];
    c.op = m->of[m->count == 1 ? 0 : m->position]->op;
    c.schema = op_collective(c.op);
    *out = TERM_NONE;
    value all[MOST_TOGETHER];
    if (c.schema && c.schema->kind == COLLECTIVE_SEND) { /* a message: what is sent is what comes */
        uint32_t sent = value_at(&c, 0, 0);
        bool fits =
            c.numel >= 0 && term_numel(g->t, sent) == c.numel && g->t->items[sent].dtype == g->t->items[symbol].dtype;
        return fits ? with_extents(&c, value_of(sent), out) : term_unknown(g->t, "a message of another size", out);
    }
    if (has_definition(&c) && moved(&c, all)) TRY(defined(&c, all, term_numel(g->t, all[0].term), out));
    return *out == TERM_NONE ? any_value(&c, out) : NULL;
}
