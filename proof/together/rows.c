/* rows.c: rows of products, concatenations and sums told apart.
 *
 * A product computes each row of its left operand alone. So a product of rows that lie one after another is the
 * products one after another. A product of a slice is a slice of the product. A bias that is added to each row changes
 * nothing of that. A product of two batches is that of each pair. Slices come outside of products and sums, so that
 * what is cut up and put together again is the term that it was. A row has the same bits in both, as long as the kernel
 * treats rows alike (docs/micro-pipeline.md, Bits). */
#include "proof/together/together.h"

#include "ops/view.h"

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Ops that multiply each row of one operand alone, or only add to it, and what their operands are called. */
static const struct row_wise {
    const char *type, *out, *rows, *matrix, *bias; /* bias: a row that is added to each; NULL: none */
} row_wise[] = {{"matmul_v2", "Out", "X", "Y", NULL},
                {"bmm", "Out", "X", "Y", NULL},
                {"aten_addmm", "out", "mat1", "mat2", "self"},
                {"aten_baddbmm", "out", "batch1", "batch2", "self"},
                {"elementwise_add", "Out", "X", NULL, "Y"}};
enum { ROW_WISE = sizeof row_wise / sizeof *row_wise, MOST_OPERANDS = 3 };

typedef struct product {
    terms *t;
    bool is_plain;          /* of two matrices: op_head is the product's then, whichever op makes it */
    bool turns, adds_parts; /* of plain ones */
    uint32_t op_head, out_head;
    value operands[MOST_OPERANDS]; /* in the op's order */
    size_t noperands;
    size_t rows_at, matrix_at, bias_at; /* which they are; as many as there are: none */
    int64_t nbatch;                     /* products of as many pairs of matrices, one after another */
    size_t ndim;                        /* of operands: 3 of batches, of which each is one then */
    int64_t k, n;
    int32_t dtype;
} product;

static weft_status product_of(const product *p, value x, int64_t rows, value *out);

static weft_status matrix_of(const product *p, value x, int64_t rows, int64_t columns, value *out) {
    int64_t dims[] = {1, rows, columns};
    return term_reshape(p->t, x, p->ndim, dims + 3 - p->ndim, out);
}

/* Columns of products; out->term TERM_NONE: the matrix is not columns of others. */
static weft_status product_of_columns(const product *p, value x, value b, int64_t rows, value *out) {
    terms *t = p->t;
    tile_block block;
    value products[MOST_TILES];
    *out = value_of(TERM_NONE);
    TRY(tiles_find(t, b, p->n, 0, p->k, &block));
    if (block.rows != p->k || tiles_is_whole(&block)) return NULL;
    for (size_t i = 0; i < block.ntiles; i++)
        TRY(rows_product(t, p->dtype, x, block.tiles[i].of, false, (int64_t[]){rows, p->k, block.tiles[i].width}, true,
                         &products[i]));
    return tiles_join(t, products, &(tile){.count = rows}, 1, block.tiles, block.ntiles, out);
}

/* Rows that are columns of several matrices, times some rows of `b` each: the sum; out->term TERM_NONE: of one. */
static weft_status sum_of_block(const product *p, const tile_block *block, value b, value *out) {
    value parts[MOST_TILES], x, some;
    int64_t from = 0;
    *out = value_of(TERM_NONE);
    if (!block->rows || block->ntiles < 2) return NULL;
    for (size_t i = 0; i < block->ntiles; i++) {
        int64_t k = block->tiles[i].count;
        TRY(tiles_columns(p->t, &block->tiles[i], block->rows, &x));
        if (x.term == TERM_NONE) return NULL;
        TRY(tiles_take_rows(p->t, b, p->turns, p->k, p->n, from, k, &some));
        TRY(rows_product(p->t, p->dtype, x, some, p->turns, (int64_t[]){block->rows, k, p->n}, true, &parts[i]));
        TRY(term_reshape(p->t, parts[i], 2, (int64_t[]){block->rows, p->n}, &parts[i]));
        from += k;
    }
    return rows_sum(p->t, parts, block->ntiles, p->dtype, true, out);
}

static weft_status sum_of_columns(const product *p, value x, value b, int64_t rows, value *out) {
    value blocks[MOST_TOGETHER];
    int64_t ranges[2 * MOST_TOGETHER], at = 0;
    size_t count = 0;
    for (*out = value_of(TERM_NONE); at < rows; count++) {
        tile_block block;
        if (count == MOST_TOGETHER) return NULL;
        TRY(tiles_find(p->t, x, p->k, at, rows - at, &block));
        TRY(sum_of_block(p, &block, b, &blocks[count]));
        if (blocks[count].term == TERM_NONE) return NULL;
        ranges[2 * count] = at * p->n;
        ranges[2 * count + 1] = block.rows * p->n;
        at += block.rows;
    }
    return term_flat(p->t, blocks, ranges, count, rows * p->n, out);
}

/* Rows of `x` times the matrix `b` as a sum, or columns, of other products; out->term TERM_NONE: as neither. */
static weft_status product_of_parts(const product *p, value x, value b, int64_t rows, value *out) {
    value left;
    *out = value_of(TERM_NONE);
    if (!p->is_plain || !p->adds_parts) return NULL;
    TRY(sum_of_columns(p, x, b, rows, out));
    if (out->term != TERM_NONE || p->turns) return NULL;
    if (outer_is_turned(p->t, x.term, rows, p->k, &left))
        TRY(outer_rows(p->t, p->dtype, left, b, (int64_t[]){rows, p->k, p->n}, out));
    return out->term == TERM_NONE ? product_of_columns(p, x, b, rows, out) : NULL;
}

/* Of the whole operand, which is no slice and no concatenation. */
static weft_status product_of_one(const product *p, value x, int64_t rows, value *out) {
    uint32_t op;
    value args[MOST_OPERANDS];
    int64_t dims[] = {1, rows, p->n};
    memcpy(args, p->operands, sizeof args);
    TRY(matrix_of(p, x, rows, p->k, &args[p->rows_at]));
    TRY(product_of_parts(p, args[p->rows_at], args[p->matrix_at], rows, out));
    if (out->term != TERM_NONE) return NULL;
    if (p->is_plain) {
        out->factor = FACTOR_ONE;
        return term_make(p->t, p->op_head, args, 2, p->dtype, 2, dims + 1, &out->term);
    }
    TRY(term_make(p->t, p->op_head, args, p->noperands, WEFT_DTYPE_NONE, 0, NULL, &op));
    value inner = value_of(op);
    out->factor = FACTOR_ONE;
    return term_make(p->t, p->out_head, &inner, 1, p->dtype, p->ndim, dims + 3 - p->ndim, &out->term);
}

static bool are_whole_rows(const head *h, int64_t k) {
    int64_t at = 0;
    for (uint32_t i = 0; i < h->nints; i += 2) {
        if (h->ints[i] != at || h->ints[i + 1] <= 0 || h->ints[i + 1] % k) return false;
        at += h->ints[i + 1];
    }
    return at == h->total;
}

static weft_status product_of_list(const product *p, uint32_t list, value *out) {
    terms *t = p->t;
    size_t n = t->items[list].nargs;
    int64_t total = term_head(t, list)->total / p->k * p->n;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *made = ARENA_ARRAY(&memory, value, n + 1);
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * n + 1);
    if (!made || !ranges) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < n; i++) {
        const int64_t *of = term_head(t, list)->ints + 2 * i;
        ranges[2 * i] = of[0] / p->k * p->n;
        ranges[2 * i + 1] = of[1] / p->k * p->n;
        TRY_DONE(product_of(p, term_args(t, list)[i], of[1] / p->k, &made[i]));
    }
    TRY_DONE(term_flat(t, made, ranges, n, total, out));
done:
    arena_fini(&memory);
    return status;
}

static weft_status product_of(const product *p, value x, int64_t rows, value *out) {
    terms *t = p->t;
    uint32_t base = term_without_shape(t, x.term);
    const head *h = term_head(t, base);
    if (h->kind == HEAD_FLAT && h->total == rows * p->k && are_whole_rows(h, p->k))
        return product_of_list(p, base, out);
    if (h->kind == HEAD_PART && h->ints[0] >= 0 && h->ints[0] % p->k == 0) {
        value inner = term_args(t, base)[0];
        int64_t from = h->ints[0] / p->k * p->n, all = term_numel(t, inner.term);
        if (all > 0 && all % p->k == 0) {
            TRY(product_of(p, inner, all / p->k, &inner));
            return term_part(t, inner, from, rows * p->n, out);
        }
    }
    return product_of_one(p, x, rows, out);
}

/* A product of rows and a matrix, which may be transposed, in the terms of no op: a gradient of a product is one too.
 */
static weft_status make_plain(product *p, value x, value b, bool turns, bool adds_parts) {
    p->is_plain = true;
    p->turns = turns;
    p->adds_parts = adds_parts;
    p->operands[0] = x;
    TRY(term_reshape(p->t, b, 2, turns ? (int64_t[]){p->n, p->k} : (int64_t[]){p->k, p->n}, &p->operands[1]));
    p->noperands = p->bias_at = 2;
    p->rows_at = 0, p->matrix_at = 1;
    p->ndim = 2;
    p->nbatch = 1;
    buffer *key = head_begin(p->t, HEAD_TOGETHER);
    head_put_text(key, "/rows", 5);
    head_put_int(key, turns);
    head_put_int(key, p->dtype);
    head own = {.kind = HEAD_TOGETHER,
                .label = turns ? "product with a transpose" : "product",
                .dtype = p->dtype,
                .pulls = true};
    return head_finish(p->t, &own, &p->op_head);
}

weft_status rows_product(terms *t, int32_t dtype, value x, value b, bool turns, const int64_t extents[3],
                         bool adds_parts, value *out) {
    product p = {.t = t, .k = extents[1], .n = extents[2], .dtype = dtype};
    TRY(make_plain(&p, x, b, turns, adds_parts));
    return product_of(&p, x, extents[0], out);
}

static const struct row_wise *row_wise_of(const terms *t, uint32_t id, uint32_t op) {
    const head *h = term_head(t, op);
    if (h->kind != HEAD_OP || !h->op || !h->schema || h->nargs != t->items[op].nargs) return NULL;
    for (const struct row_wise *r = row_wise; r < row_wise + ROW_WISE; r++)
        if (strcmp(h->schema->type, r->type) == 0)
            return h->nargs == 1u + !!r->matrix + !!r->bias && strcmp(term_head(t, id)->label, r->out) == 0 ? r : NULL;
    return NULL;
}

/* Which argument is in the slot; as many as there are: none. */
static size_t arg_in(const head *h, const char *slot_text) {
    const slot *s = slot_text ? op_find_slot(h->op, false, slot_text) : NULL;
    return s && s->nargs == 1 && s->first < h->nargs ? s->first : h->nargs;
}

/* Whether it is the same for each row, of each pair of `nbatch`. */
static bool is_one_row(const terms *t, value x, int64_t nbatch) {
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x.term, &ndim);
    if (!dims || ndim > 3) return false;
    return ndim < 2 || (dims[ndim - 2] == 1 && (ndim == 2 || dims[0] == 1 || dims[0] == nbatch));
}

/* Whether rows have a matrix to themselves, or each matrix of a batch. */
static bool has_matrices(const product *p, const int64_t *dx, size_t nx, int64_t *out_nbatch, size_t *out_ndim) {
    size_t nb = 2;
    const int64_t *db = p->matrix_at < p->noperands ? term_dims(p->t, p->operands[p->matrix_at].term, &nb) : dx;
    bool is_batched = db && nb == 3 && nx == 3 && db[0] == dx[0] && dx[0] <= MOST_RUNS;
    *out_nbatch = is_batched ? dx[0] : 1;
    *out_ndim = nb;
    return db && (nb == 2 || is_batched);
}

static bool is_product(terms *t, uint32_t id, uint32_t op, product *out) {
    const head *h = term_head(t, op);
    const struct row_wise *r = row_wise_of(t, id, op);
    if (!r || attr_bool(h->op, "trans_x", false)) return false;
    size_t at = arg_in(h, r->rows), nx = 0, n = 0;
    const value *args = term_args(t, op);
    const int64_t *dx = at < h->nargs ? term_dims(t, args[at].term, &nx) : NULL, *d = term_dims(t, id, &n);
    if (!dx || !d || nx < 2 || n != nx) return false;
    *out = (product){.t = t,
                     .rows_at = at,
                     .matrix_at = arg_in(h, r->matrix),
                     .bias_at = arg_in(h, r->bias),
                     .noperands = h->nargs,
                     .k = dx[nx - 1],
                     .n = d[n - 1],
                     .dtype = t->items[id].dtype};
    memcpy(out->operands, args, h->nargs * sizeof *args);
    out->op_head = t->items[op].head;
    out->out_head = t->items[id].head;
    if ((r->matrix && out->matrix_at >= h->nargs) || (r->bias && out->bias_at >= h->nargs)) return false;
    if (!has_matrices(out, dx, nx, &out->nbatch, &out->ndim)) return false;
    if (r->bias && (!is_one_row(t, args[out->bias_at], out->nbatch) || attr_int(h->op, "axis", -1) != -1)) return false;
    bool only_adds = !r->matrix, keeps = out->k == out->n && term_numel(t, args[at].term) == term_numel(t, id);
    return out->k > 0 && out->n > 0 && term_numel(t, args[at].term) > 0 && (!only_adds || keeps);
}

/* The i-th of a batch's operands at `at`. */
static weft_status take_one(const product *p, size_t at, int64_t i, value *out) {
    size_t ndim = 0;
    int64_t dims[3] = {1};
    const int64_t *all = term_dims(p->t, p->operands[at].term, &ndim);
    if (ndim < 3 || all[0] != p->nbatch) return *out = p->operands[at], NULL; /* each has the same */
    dims[1] = all[1], dims[2] = all[2];
    TRY(term_part(p->t, p->operands[at], i * dims[1] * dims[2], dims[1] * dims[2], out));
    return term_reshape(p->t, *out, 3, dims, out);
}

/* Pairs of matrices, one after another. */
static weft_status product_of_batch(const product *p, value *out) {
    terms *t = p->t;
    value x = p->operands[p->rows_at];
    int64_t n = p->nbatch, size = term_numel(t, x.term) / n, rows = size / p->k;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *made = ARENA_ARRAY(&memory, value, n), one;
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * n);
    if (!made || !ranges) TRY_DONE(base_out_of_memory());
    for (int64_t i = 0; i < n; i++) {
        product of = *p;
        ranges[2 * i] = i * rows * p->n;
        ranges[2 * i + 1] = rows * p->n;
        TRY_DONE(take_one(p, p->matrix_at, i, &of.operands[p->matrix_at]));
        if (p->bias_at < p->noperands) TRY_DONE(take_one(p, p->bias_at, i, &of.operands[p->bias_at]));
        TRY_DONE(term_part(t, x, i * size, size, &one));
        TRY_DONE(product_of(&of, one, rows, &made[i]));
    }
    TRY_DONE(term_flat(t, made, ranges, (size_t)n, n * rows * p->n, out));
done:
    arena_fini(&memory);
    return status;
}

/* --- concatenations and slices along any dimension ---------------------------------------------------------------- */

weft_status rows_shaped_like(terms *t, uint32_t id, value x, uint32_t *out) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    const int64_t *at = term_dims(t, id, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    TRY(term_reshape(t, x, ndim, dims, &x));
    *out = x.term;
    return NULL;
}

static int64_t product_of_extents(const int64_t *dims, size_t first, size_t end) {
    int64_t n = 1;
    for (size_t i = first; i < end; i++) n *= dims[i];
    return n;
}

/* For each step of the dimensions before it, a run of each argument. */
static weft_status join_runs(terms *t, uint32_t id, uint32_t op, size_t axis, uint32_t *out) {
    size_t ndim = 0, n = t->items[op].nargs, at = 0;
    int64_t outer = product_of_extents(term_dims(t, id, &ndim), 0, axis), total = term_numel(t, id), offset = 0;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *runs = ARENA_ARRAY(&memory, value, n * (size_t)outer + 1), whole;
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * n * (size_t)outer + 1);
    if (!runs || !ranges) TRY_DONE(base_out_of_memory());
    for (int64_t i = 0; i < outer; i++) {
        for (size_t k = 0; k < n; k++, at++) {
            value x = term_args(t, op)[k];
            int64_t run = term_numel(t, x.term) / outer;
            ranges[2 * at] = offset;
            ranges[2 * at + 1] = run;
            offset += run;
            TRY_DONE(term_part(t, x, i * run, run, &runs[at]));
        }
    }
    TRY_DONE(term_flat(t, runs, ranges, at, total, &whole));
    TRY_DONE(rows_shaped_like(t, id, whole, out));
done:
    arena_fini(&memory);
    return status;
}

/* The dimension of a concat; false: it makes too many runs, or something is not known. */
static bool joins_along(const terms *t, uint32_t id, uint32_t op, size_t *out_axis) {
    const head *h = term_head(t, op);
    if (strcmp(h->schema->type, "concat") != 0 && strcmp(h->schema->type, "aten_cat") != 0) return false;
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, id, &ndim);
    int64_t axis = attr_int(h->op, "axis", attr_int(h->op, "dim", 0)), total = 0;
    if (!dims || h->nargs != t->items[op].nargs) return false;
    if (axis < 0) axis += (int64_t)ndim;
    if (axis < 0 || axis >= (int64_t)ndim) return false;
    int64_t outer = product_of_extents(dims, 0, (size_t)axis);
    for (size_t i = 0; i < t->items[op].nargs; i++) {
        int64_t n = term_numel(t, term_args(t, op)[i].term);
        if (n < 0) return false;
        total += n;
    }
    *out_axis = (size_t)axis;
    return outer > 0 && outer * (int64_t)t->items[op].nargs <= MOST_RUNS && total == term_numel(t, id);
}

static weft_status look_through_transpose(const terms *t, uint32_t id, uint32_t op, op_view *out, bool *out_is) {
    size_t nx = 0, n = 0, norder = 0;
    const int64_t *dx = term_dims(t, term_args(t, op)[0].term, &nx), *d = term_dims(t, id, &n);
    const int64_t *order = attr_ints(term_head(t, op)->op, "axis", &norder);
    *out_is = order && norder == nx && n == nx && strcmp(term_head(t, id)->label, "Out") == 0;
    *out = (op_view){.ndim = (int32_t)nx};
    for (size_t i = 0; *out_is && i < nx; i++) {
        int64_t from = order[i] < 0 ? order[i] + (int64_t)nx : order[i];
        *out_is = from >= 0 && from < (int64_t)nx && dx[from] == d[i];
        out->dims[i] = d[i];
        out->strides[i] = *out_is ? product_of_extents(dx, (size_t)from + 1, nx) : 0;
    }
    return NULL;
}

/* What `op` shows of its one argument in its output `index`; false: that is not known. */
static weft_status look_through(const terms *t, uint32_t id, uint32_t op, op_view *out, bool *out_is) {
    const head *h = term_head(t, op);
    size_t nx = 0, n = 0;
    const int64_t *dx = term_dims(t, term_args(t, op)[0].term, &nx), *d = term_dims(t, id, &n);
    *out_is = false;
    if (!dx || !d || nx > WEFT_MAX_RANK) return NULL;
    if (strcmp(h->schema->type, "split") == 0) { /* parts of one extent */
        int64_t axis = attr_int(h->op, "axis", 0), index = term_head(t, id)->ints[1];
        if (axis < 0) axis += (int64_t)nx;
        if (axis < 0 || axis >= (int64_t)nx || n != nx || dx[axis] % d[axis]) return NULL;
        size_t nsections = 0;
        const int64_t *sections = attr_ints(h->op, "sections", &nsections);
        for (size_t i = 0; i < nsections; i++)
            if (sections[i] != d[axis]) return NULL;
        *out = (op_view){.ndim = (int32_t)n};
        for (size_t i = n, stride = 1; i-- > 0; stride *= (size_t)dx[i]) {
            out->dims[i] = d[i];
            out->strides[i] = (int64_t)stride;
        }
        out->offset = index * d[axis] * out->strides[axis];
        *out_is = true;
        return NULL;
    }
    if (strcmp(h->schema->type, "transpose2") == 0) return look_through_transpose(t, id, op, out, out_is);
    bool is_view = false;
    for (size_t i = 0; i < h->schema->noutputs; i++) is_view |= h->schema->outputs[i].view_of >= 0;
    if (!is_view) return NULL;
    shape type = {.dtype = t->items[term_args(t, op)[0].term].dtype, .ndim = (int32_t)nx, .height = -1};
    memcpy(type.dims, dx, nx * sizeof *dx);
    TRY(op_view_of(h->op, &type, (size_t)term_head(t, id)->ints[1], out));
    *out_is = out->ndim == (int32_t)n && out->offset >= 0;
    for (size_t i = 0; *out_is && i < n; i++) *out_is = out->dims[i] == d[i];
    return NULL;
}

/* A view as runs that lie apart in its base: `axis` is the first of the dimensions that make a run. */
static bool has_runs(const op_view *v, size_t *out_axis, int64_t *out_nruns) {
    size_t axis = (size_t)v->ndim;
    for (int64_t run = 1; axis > 0 && v->strides[axis - 1] == run; axis--) run *= v->dims[axis - 1];
    *out_axis = axis;
    *out_nruns = product_of_extents(v->dims, 0, axis);
    return *out_nruns > 0 && *out_nruns <= MOST_RUNS && axis < (size_t)v->ndim;
}

static weft_status take_runs(terms *t, uint32_t id, value x, const op_view *v, size_t axis, int64_t nruns,
                             uint32_t *out) {
    int64_t run = product_of_extents(v->dims, axis, (size_t)v->ndim);
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *runs = ARENA_ARRAY(&memory, value, nruns), whole;
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * nruns);
    if (!runs || !ranges) TRY_DONE(base_out_of_memory());
    for (int64_t i = 0; i < nruns; i++) {
        int64_t offset = v->offset, rest = i;
        for (size_t k = axis; k-- > 0; rest /= v->dims[k]) offset += rest % v->dims[k] * v->strides[k];
        ranges[2 * i] = i * run;
        ranges[2 * i + 1] = run;
        TRY_DONE(term_part(t, x, offset, run, &runs[i]));
    }
    TRY_DONE(term_flat(t, runs, ranges, (size_t)nruns, nruns * run, &whole));
    TRY_DONE(rows_shaped_like(t, id, whole, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status rows_value(terms *t, uint32_t id, uint32_t op, bool adds_parts, uint32_t *out) {
    product p;
    op_view v;
    size_t axis;
    int64_t nruns;
    bool is_known = false;
    const head *h = term_head(t, op);
    if (is_product(t, id, op, &p)) {
        bool is_matmul = strcmp(h->schema->type, "matmul_v2") == 0 || strcmp(h->schema->type, "bmm") == 0;
        if (is_matmul && p.nbatch == 1)
            TRY(make_plain(&p, p.operands[p.rows_at], p.operands[p.matrix_at], attr_bool(h->op, "trans_y", false),
                           adds_parts));
        value x = p.operands[p.rows_at], made;
        TRY(p.nbatch > 1 ? product_of_batch(&p, &made) : product_of(&p, x, term_numel(t, x.term) / p.k, &made));
        return rows_shaped_like(t, id, made, out);
    }
    bool is_op = h->kind == HEAD_OP && h->op && h->schema;
    if (is_op && joins_along(t, id, op, &axis)) return join_runs(t, id, op, axis, out);
    if (is_op && t->items[op].nargs == 1) TRY(look_through(t, id, op, &v, &is_known));
    if (is_known && has_runs(&v, &axis, &nruns)) return take_runs(t, id, term_args(t, op)[0], &v, axis, nruns, out);
    value inner = value_of(op), made;
    TRY(term_again(t, id, &inner, &made));
    *out = made.term;
    return NULL;
}
