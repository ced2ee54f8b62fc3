/* simple.c: terms by the rules that hold bit for bit.
 *
 * Only moves of elements are undone here: shapes, concatenation and slices, and a cast that widened before it narrowed.
 * What works on each element alone (a scale, a cast, a sum, an all-reduce) goes inside of a concatenation and of a
 * shape. A slice goes outside of it, so that a bucket's reduce is its members' reduces. Factors, where arguments have
 * any, come out of moves. */
#include "proof/equivalence/term.h"

#include <stdio.h>

static void put_shape(buffer *b, size_t ndim, const int64_t *dims) {
    head_put_int(b, dims ? (int64_t)ndim : -1);
    for (size_t i = 0; dims && i < ndim; i++) head_put_int(b, dims[i]);
}

/* A copy of a term's arguments that stays when the table grows. */
static weft_status copy_args(terms *t, arena *a, uint32_t id, value **out) {
    size_t n = t->items[id].nargs;
    *out = ARENA_ARRAY(a, value, n + 1);
    if (!*out) return base_out_of_memory();
    if (n) memcpy(*out, term_args(t, id), n * sizeof **out);
    return NULL;
}

/* --- leaves ------------------------------------------------------------------------------------------------------- */

weft_status term_leaf(terms *t, head_kind kind, const char *label, const shape *type, uint32_t *out) {
    buffer *b = head_begin(t, kind);
    size_t ndim = type && type->ndim >= 0 ? (size_t)type->ndim : 0;
    const int64_t *dims = type && type->ndim >= 0 ? type->dims : NULL;
    head_put_text(b, label, strlen(label));
    head_put_int(b, type ? type->dtype : WEFT_DTYPE_NONE);
    head_put_int(b, type ? type->height : -1);
    put_shape(b, ndim, dims);
    uint32_t id;
    int32_t dtype = type ? type->dtype : WEFT_DTYPE_NONE;
    TRY(head_finish(t, &(head){.kind = kind, .label = label, .dtype = dtype}, &id));
    return term_make(t, id, NULL, 0, dtype, ndim, dims, out);
}

weft_status term_unknown(terms *t, const char *label, uint32_t *out) {
    buffer *b = head_begin(t, HEAD_UNKNOWN);
    uint32_t id;
    head_put_int(b, (int64_t)t->nunknown++);
    TRY(head_finish(t, &(head){.kind = HEAD_UNKNOWN, .label = label, .dtype = WEFT_DTYPE_NONE}, &id));
    return term_make(t, id, NULL, 0, WEFT_DTYPE_NONE, 0, NULL, out);
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

weft_status term_reshape(terms *t, value x, size_t ndim, const int64_t *dims, value *out) {
    int64_t own[WEFT_MAX_RANK];
    if (ndim > WEFT_MAX_RANK) return weft_status_create(WEFT_LIMIT, "proof", "a shape of %zu extents", ndim);
    if (ndim) memcpy(own, dims, ndim * sizeof *own);
    x.term = term_without_shape(t, x.term);
    size_t n;
    const int64_t *there = term_dims(t, x.term, &n);
    *out = x;
    if (there && n == ndim && memcmp(there, own, ndim * sizeof *own) == 0) return NULL;
    if (term_is(t, x.term, HEAD_FILL)) {
        shape type = {.dtype = t->items[x.term].dtype, .ndim = (int32_t)ndim, .height = -1};
        value filled;
        if (ndim) memcpy(type.dims, own, ndim * sizeof *own);
        TRY(term_fill(t, term_head(t, x.term)->number, &type, &filled));
        return out->term = filled.term, NULL;
    }
    buffer *b = head_begin(t, HEAD_RESHAPE);
    put_shape(b, ndim, own);
    uint32_t id;
    TRY(head_finish(t, &(head){.kind = HEAD_RESHAPE, .label = "reshape", .ints = own, .nints = (uint32_t)ndim}, &id));
    value inner = value_of(x.term);
    return term_make(t, id, &inner, 1, t->items[x.term].dtype, ndim, own, &out->term);
}

/* --- concatenation ------------------------------------------------------------------------------------------------ */

/* The list of pieces while a concatenation is made. */
typedef struct pieces {
    terms *t;
    arena memory;
    value *args;
    int64_t *ranges;
    size_t count;
} pieces;

static bool joins(const pieces *p, value x, int64_t offset) {
    if (p->count == 0 || !term_is(p->t, x.term, HEAD_PART)) return false;
    value last = p->args[p->count - 1];
    if (last.factor != x.factor || !term_is(p->t, last.term, HEAD_PART) ||
        term_args(p->t, last.term)[0].term != term_args(p->t, x.term)[0].term)
        return false;
    const int64_t *a = term_head(p->t, last.term)->ints, *b = term_head(p->t, x.term)->ints;
    const int64_t *range = p->ranges + 2 * (p->count - 1);
    return a[0] >= 0 && a[0] + a[1] == b[0] && range[0] + range[1] == offset;
}

static weft_status add_piece(pieces *p, value x, int64_t offset, int64_t numel) {
    x.term = term_without_shape(p->t, x.term);
    if (joins(p, x, offset)) {
        value *last = &p->args[p->count - 1];
        const int64_t *a = term_head(p->t, last->term)->ints;
        int64_t from = a[0], sum = a[1] + numel;
        value whole = {term_args(p->t, x.term)[0].term, x.factor};
        p->ranges[2 * p->count - 1] += numel;
        TRY(term_part(p->t, whole, from, sum, last));
        last->term = term_without_shape(p->t, last->term); /* all of it */
        return NULL;
    }
    p->args[p->count] = x;
    p->ranges[2 * p->count] = offset;
    p->ranges[2 * p->count + 1] = numel;
    p->count++;
    return NULL;
}

static weft_status add_pieces_of(pieces *p, value x, int64_t offset, int64_t numel) {
    terms *t = p->t;
    x.term = term_without_shape(t, x.term);
    const head *h = term_head(t, x.term);
    if (h->kind != HEAD_FLAT || h->total != numel || x.factor != FACTOR_ONE) return add_piece(p, x, offset, numel);
    size_t n = t->items[x.term].nargs;
    const int64_t *ranges = h->ints;
    value *args;
    TRY(copy_args(t, &p->memory, x.term, &args));
    for (size_t i = 0; i < n; i++) TRY(add_piece(p, args[i], offset + ranges[2 * i], ranges[2 * i + 1]));
    return NULL;
}

static size_t count_pieces(const terms *t, const value *args, size_t nargs) {
    size_t n = 0;
    for (size_t i = 0; i < nargs; i++) {
        uint32_t id = term_without_shape(t, args[i].term);
        n += term_is(t, id, HEAD_FLAT) ? t->items[id].nargs : 1;
    }
    return n;
}

static weft_status make_flat(terms *t, value *args, const int64_t *ranges, size_t nargs, int64_t total, value *out) {
    uint32_t id, common = nargs ? args[0].factor : FACTOR_ONE;
    for (size_t i = 0; i < nargs; i++)
        if (args[i].factor != common) common = FACTOR_ONE;
    for (size_t i = 0; i < nargs && common != FACTOR_ONE; i++) args[i].factor = FACTOR_ONE;
    buffer *b = head_begin(t, HEAD_FLAT);
    head_put_int(b, total);
    buffer_append(b, ranges, nargs * 2 * sizeof *ranges);
    TRY(head_finish(
        t,
        &(head){.kind = HEAD_FLAT, .label = "concat", .ints = ranges, .nints = (uint32_t)(2 * nargs), .total = total},
        &id));
    int32_t dtype = nargs ? t->items[args[0].term].dtype : WEFT_DTYPE_NONE;
    out->factor = common;
    return term_make(t, id, args, nargs, dtype, 1, total >= 0 ? &total : NULL, &out->term);
}

weft_status term_flat(terms *t, const value *args, const int64_t *ranges, size_t nargs, int64_t total, value *out) {
    pieces p = {.t = t};
    arena_init(&p.memory, &t->context->allocator);
    weft_status status = NULL;
    size_t most = count_pieces(t, args, nargs);
    p.args = ARENA_ARRAY(&p.memory, value, most + 1);
    p.ranges = ARENA_ARRAY(&p.memory, int64_t, 2 * most + 2);
    if (!p.args || !p.ranges) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < nargs; i++) TRY_DONE(add_pieces_of(&p, args[i], ranges[2 * i], ranges[2 * i + 1]));
    if (p.count == 1 && p.ranges[0] == 0 && p.ranges[1] == total && total >= 0)
        TRY_DONE(term_reshape(t, p.args[0], 1, &total, out));
    else
        TRY_DONE(make_flat(t, p.args, p.ranges, p.count, total, out));
done:
    arena_fini(&p.memory);
    return status;
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

/* The piece of a concatenation that holds `offset`: the last that starts no later. Offsets grow. */
static size_t find_piece(const head *h, int64_t offset) {
    size_t low = 0, high = h->nints / 2;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (h->ints[2 * middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static weft_status part_of_one(terms *t, value x, int64_t offset, int64_t numel, value *out) {
    buffer *b = head_begin(t, HEAD_PART);
    int64_t range[2] = {offset, numel};
    uint32_t id;
    head_put_int(b, offset);
    head_put_int(b, numel);
    TRY(head_finish(t, &(head){.kind = HEAD_PART, .label = "slice", .ints = range, .nints = 2}, &id));
    value inner = value_of(x.term);
    out->factor = x.factor;
    return term_make(t, id, &inner, 1, t->items[x.term].dtype, 1, numel >= 0 ? &numel : NULL, &out->term);
}

/* A range over several pieces, if these hold all of it. */
static weft_status part_of_several(terms *t, value x, size_t at, int64_t offset, int64_t numel, bool *out_held,
                                   value *out) {
    const head *h = term_head(t, x.term);
    const int64_t *ranges = h->ints;
    size_t n = h->nints / 2, end = at;
    int64_t held = offset;
    for (; end < n && held < offset + numel; end++) {
        if (ranges[2 * end] > held || ranges[2 * end + 1] < 0) break;
        held = ranges[2 * end] + ranges[2 * end + 1];
    }
    *out_held = held >= offset + numel;
    if (!*out_held) return NULL;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *all, *args = ARENA_ARRAY(&memory, value, end - at);
    int64_t *to = ARENA_ARRAY(&memory, int64_t, 2 * (end - at));
    if (!args || !to) TRY_DONE(base_out_of_memory());
    TRY_DONE(copy_args(t, &memory, x.term, &all));
    for (size_t i = at; i < end; i++) {
        int64_t first = ranges[2 * i] > offset ? ranges[2 * i] : offset, last = ranges[2 * i] + ranges[2 * i + 1];
        if (last > offset + numel) last = offset + numel;
        to[2 * (i - at)] = first - offset;
        to[2 * (i - at) + 1] = last - first;
        TRY_DONE(term_part(t, all[i], first - ranges[2 * i], last - first, &args[i - at]));
    }
    TRY_DONE(term_flat(t, args, to, end - at, numel, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status term_part(terms *t, value x, int64_t offset, int64_t numel, value *out) {
    x.term = term_without_shape(t, x.term);
    const head *h = term_head(t, x.term);
    int64_t all = term_numel(t, x.term);
    if (offset == 0 && all == numel && all >= 0) return term_reshape(t, x, 1, &numel, out);
    if (h->kind == HEAD_PART && h->ints[0] >= 0 && offset >= 0) {
        int64_t from = h->ints[0] + offset;
        return term_part(t, (value){term_args(t, x.term)[0].term, x.factor}, from, numel, out);
    }
    if (h->kind == HEAD_FLAT && x.factor == FACTOR_ONE && h->nints) {
        size_t at = 0, n = h->nints / 2;
        if (offset >= 0)
            at = find_piece(h, offset);
        else
            while (at < n && h->ints[2 * at] != offset) at++;
        if (at < n && h->ints[2 * at] == offset && h->ints[2 * at + 1] == numel) {
            *out = term_args(t, x.term)[at];
            return numel >= 0 ? term_reshape(t, *out, 1, &numel, out) : NULL;
        }
        bool held = false;
        if (offset >= 0 && numel >= 0) TRY(part_of_several(t, x, at, offset, numel, &held, out));
        if (held) return NULL;
    }
    return part_of_one(t, x, offset, numel, out);
}

/* --- what works on each element ----------------------------------------------------------------------------------- */

/* Makes the term of a head of one argument, or of an argument's pieces. */
static weft_status map(terms *t, uint32_t head_id, value x, int32_t dtype, value *out);

static weft_status map_pieces(terms *t, uint32_t head_id, value x, int32_t dtype, value *out) {
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *args;
    const head *h = term_head(t, x.term);
    size_t n = h->nints / 2;
    const int64_t *ranges = h->ints;
    int64_t total = h->total;
    TRY_DONE(copy_args(t, &memory, x.term, &args));
    for (size_t i = 0; i < n; i++) TRY_DONE(map(t, head_id, args[i], dtype, &args[i]));
    TRY_DONE(term_flat(t, args, ranges, n, total, out));
done:
    arena_fini(&memory);
    return status;
}

/* The argument's factor stays inside. */
static weft_status map(terms *t, uint32_t head_id, value x, int32_t dtype, value *out) {
    const head *h = term_head(t, x.term);
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x.term, &ndim);
    value inner;
    *out = value_of(TERM_NONE);
    switch (h->kind) {
    case HEAD_RESHAPE: {
        const int64_t *to = h->ints;
        size_t nto = h->nints;
        inner = (value){term_args(t, x.term)[0].term, x.factor};
        TRY(map(t, head_id, inner, dtype, &inner));
        return term_reshape(t, inner, nto, to, out);
    }
    case HEAD_PART: {
        int64_t offset = h->ints[0], numel = h->ints[1];
        inner = (value){term_args(t, x.term)[0].term, x.factor};
        TRY(map(t, head_id, inner, dtype, &inner));
        return term_part(t, inner, offset, numel, out);
    }
    case HEAD_FLAT:
        if (x.factor == FACTOR_ONE) return map_pieces(t, head_id, x, dtype, out);
        break;
    default: break;
    }
    return term_make(t, head_id, &x, 1, dtype, ndim, dims, &out->term);
}

static bool widens(int32_t from, int32_t to) {
    if (from == WEFT_FP16 || from == WEFT_BF16) return to == WEFT_FP32 || to == WEFT_FP64;
    if (from == WEFT_FP32) return to == WEFT_FP64;
    if (from == WEFT_INT32) return to == WEFT_INT64 || to == WEFT_FP64;
    return from == WEFT_BOOL && (to == WEFT_INT32 || to == WEFT_INT64 || dtype_is_float(to));
}

/* The boolean of which x is a number of times the 0 or 1 (a flag that ranks add up); TERM_NONE: it is none. */
static uint32_t counted_flag(const terms *t, value x) {
    const head *h = term_head(t, x.term);
    if (h->kind == HEAD_SCALE && h->number > 0 && !h->divides) x = term_args(t, x.term)[0];
    if (x.factor != FACTOR_ONE || !term_is(t, x.term, HEAD_CAST)) return TERM_NONE;
    value was = term_args(t, x.term)[0];
    return was.factor == FACTOR_ONE && t->items[was.term].dtype == WEFT_BOOL ? was.term : TERM_NONE;
}

/* Numbers that all types of numbers have exactly: casts and sums of these round nothing. */
static bool is_count(double number) {
    return number >= 0 && number <= 127 && number == (double)(int)number;
}

/* Whether the value is a constant of such a number. */
static bool fills_with_count(const terms *t, value x) {
    return x.factor == FACTOR_ONE && term_is(t, x.term, HEAD_FILL) && is_count(term_head(t, x.term)->number);
}

static weft_status cast_of_fill(terms *t, value x, int32_t dtype, value *out) {
    shape type = {.dtype = dtype, .height = -1};
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x.term, &ndim);
    double number = term_head(t, x.term)->number;
    type.ndim = (int32_t)ndim;
    if (ndim) memcpy(type.dims, dims, ndim * sizeof *dims);
    return term_fill(t, dtype == WEFT_BOOL ? number != 0 : number, &type, out);
}

weft_status term_fills_sum(terms *t, const value *args, size_t nargs, const shape *type, value *out, bool *out_is) {
    double sum = 0;
    size_t nonzero = 0;
    bool counts = true;
    *out_is = nargs > 0;
    for (size_t i = 0; i < nargs && *out_is; i++) {
        *out_is = args[i].factor == FACTOR_ONE && term_is(t, args[i].term, HEAD_FILL) &&
                  t->items[args[i].term].dtype == type->dtype;
        if (!*out_is) return NULL;
        double number = term_head(t, args[i].term)->number;
        nonzero += number != 0;
        counts = counts && is_count(number);
        sum += number;
    }
    *out_is = *out_is && (nonzero <= 1 || (counts && is_count(sum)));
    return *out_is ? term_fill(t, sum, type, out) : NULL;
}

weft_status term_cast(terms *t, value x, int32_t dtype, value *out) {
    int32_t from = t->items[x.term].dtype;
    uint32_t under = term_without_shape(t, x.term);
    *out = x;
    if (from == dtype && from != WEFT_DTYPE_NONE) return NULL;
    if (fills_with_count(t, x)) return cast_of_fill(t, x, dtype, out);
    if (dtype == WEFT_BOOL && x.factor == FACTOR_ONE && counted_flag(t, x) != TERM_NONE)
        return *out = value_of(counted_flag(t, x)), NULL;
    if (term_is(t, under, HEAD_CAST) && x.factor == FACTOR_ONE) {
        value was = term_args(t, under)[0];
        int32_t narrow = t->items[was.term].dtype;
        size_t ndim = 0;
        const int64_t *dims = term_dims(t, x.term, &ndim);
        if (narrow == dtype && widens(narrow, from) && (under == x.term || dims)) {
            *out = was;
            return under == x.term ? NULL : term_reshape(t, was, ndim, dims, out);
        }
    }
    buffer *b = head_begin(t, HEAD_CAST);
    uint32_t id;
    head_put_int(b, from);
    head_put_int(b, dtype);
    char label[48];
    snprintf(label, sizeof label, "cast to %s",
             weft_dtype_name((weft_dtype)dtype) ? weft_dtype_name((weft_dtype)dtype) : "?");
    TRY(head_finish(t, &(head){.kind = HEAD_CAST, .label = label, .dtype = dtype}, &id));
    return map(t, id, x, dtype, out);
}

weft_status term_scale(terms *t, value x, double number, bool divides, value *out) {
    buffer *b = head_begin(t, HEAD_SCALE);
    uint32_t id;
    buffer_append(b, &number, sizeof number);
    head_put_int(b, divides);
    char label[48];
    snprintf(label, sizeof label, divides ? "divide by %.9g" : "scale by %.9g", number);
    head h = {.kind = HEAD_SCALE, .label = label, .number = number, .divides = divides};
    TRY(head_finish(t, &h, &id));
    return map(t, id, x, t->items[x.term].dtype, out);
}

static weft_status fill_head(terms *t, double number, const shape *type, uint32_t unit, uint32_t *out) {
    buffer *b = head_begin(t, HEAD_FILL);
    buffer_append(b, &number, sizeof number);
    head_put_int(b, type->dtype);
    put_shape(b, (size_t)type->ndim, type->dims);
    char label[48];
    snprintf(label, sizeof label, "fill with %.9g", number);
    head h = {.kind = HEAD_FILL, .label = label, .dtype = type->dtype, .number = number, .unit = unit};
    return head_finish(t, &h, out);
}

weft_status term_fill(terms *t, double number, const shape *type, value *out) {
    uint32_t unit, id;
    TRY(fill_head(t, 1.0, type, UINT32_MAX, &unit));
    TRY(fill_head(t, number, type, unit, &id));
    out->factor = FACTOR_ONE;
    return term_make(t, id, NULL, 0, type->dtype, (size_t)type->ndim, type->dims, &out->term);
}

/* Of two ranks it does not matter which is first: a + b and b + a are one number. */
weft_status term_reduce(terms *t, value x, weft_reduce reduce, const char *label, const int64_t *ranks, size_t nranks,
                        value *out) {
    buffer *b = head_begin(t, HEAD_REDUCE);
    uint32_t id;
    head_put_int(b, reduce);
    bool is_reversed = nranks == 2 && ranks[0] > ranks[1];
    if (is_reversed)
        buffer_append(b, (int64_t[]){ranks[1], ranks[0]}, 2 * sizeof *ranks);
    else if (nranks)
        buffer_append(b, ranks, nranks * sizeof *ranks);
    else
        head_put_text(b, label, strlen(label));
    head h = {.kind = HEAD_REDUCE, .label = label, .reduce = reduce, .ints = ranks, .nints = (uint32_t)nranks};
    h.total = (int64_t)nranks;
    TRY(head_finish(t, &h, &id));
    return map(t, id, x, t->items[x.term].dtype, out);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* Whether all arguments are concatenations alike, without factors. */
static bool all_flat(const terms *t, const value *args, size_t nargs) {
    for (size_t i = 0; i < nargs; i++)
        if (args[i].factor != FACTOR_ONE || !term_is(t, args[i].term, HEAD_FLAT) ||
            t->items[args[i].term].head != t->items[args[0].term].head)
            return false;
    return nargs > 0;
}

static weft_status sum_pieces(terms *t, const value *args, size_t nargs, int32_t dtype, value *out) {
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    const head *h = term_head(t, args[0].term);
    size_t n = h->nints / 2;
    const int64_t *ranges = h->ints;
    int64_t total = h->total;
    value *column = ARENA_ARRAY(&memory, value, nargs), *sums = ARENA_ARRAY(&memory, value, n + 1);
    if (!column || !sums) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < nargs; k++) column[k] = term_args(t, args[k].term)[i];
        TRY_DONE(term_sum(t, column, nargs, dtype, &sums[i]));
    }
    TRY_DONE(term_flat(t, sums, ranges, n, total, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status term_sum(terms *t, const value *args, size_t nargs, int32_t dtype, value *out) {
    if (nargs == 1) return *out = args[0], NULL;
    if (all_flat(t, args, nargs)) return sum_pieces(t, args, nargs, dtype, out);
    head_begin(t, HEAD_SUM);
    uint32_t id;
    TRY(head_finish(t, &(head){.kind = HEAD_SUM, .label = "sum"}, &id));
    size_t ndim = 0;
    const int64_t *dims = nargs ? term_dims(t, args[0].term, &ndim) : NULL;
    out->factor = FACTOR_ONE;
    return term_make(t, id, args, nargs, dtype, ndim, dims, &out->term);
}

weft_status term_select(terms *t, value condition, value a, value b, value *out) {
    if (a.term == b.term && a.factor == b.factor) return *out = a, NULL;
    head_begin(t, HEAD_SELECT);
    uint32_t id;
    TRY(head_finish(t, &(head){.kind = HEAD_SELECT, .label = "select"}, &id));
    value args[3] = {condition, a, b};
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, a.term, &ndim);
    out->factor = FACTOR_ONE;
    return term_make(t, id, args, 3, t->items[a.term].dtype, ndim, dims, &out->term);
}

weft_status term_again(terms *t, uint32_t id, const value *args, value *out) {
    const head *h = term_head(t, id);
    term x = t->items[id];
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, id, &ndim);
    switch (h->kind) {
    case HEAD_RESHAPE: return term_reshape(t, args[0], h->nints, h->ints, out);
    case HEAD_FLAT: return term_flat(t, args, h->ints, x.nargs, h->total, out);
    case HEAD_PART: return term_part(t, args[0], h->ints[0], h->ints[1], out);
    case HEAD_SELECT: return term_select(t, args[0], args[1], args[2], out);
    case HEAD_CAST: return term_cast(t, args[0], h->dtype, out);
    case HEAD_SCALE:
    case HEAD_REDUCE: return map(t, x.head, args[0], t->items[args[0].term].dtype, out);
    case HEAD_SUM: return term_sum(t, args, x.nargs, x.dtype, out);
    default: break;
    }
    out->factor = FACTOR_ONE;
    return term_make(t, x.head, args, x.nargs, x.dtype, ndim, dims, &out->term);
}
