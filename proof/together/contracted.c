/* contracted.c: a product whose contracted dimension falls into parts is the sum of the products of these. That holds
 * over the real numbers: sums are rounded otherwise.
 *
 * Either the left operand is a concatenation along its last dimension; then the right one's rows fall into parts. Or it
 * is a transposed matrix, as in the gradient of a weight. Rows of it and of the right operand then lie one after
 * another. Columns of these are rows and columns of the sum. So are columns of any matrix on the right. */
#include "proof/together/together.h"

enum { MOST_COLUMNS = 4096 };

/* The op that makes the value, if it has that many arguments; NULL: none does. */
static const head *maker(const terms *t, uint32_t id, size_t nargs, uint32_t *out_op) {
    if (!term_is(t, id, HEAD_OUT)) return NULL;
    *out_op = term_args(t, id)[0].term;
    const head *h = term_head(t, *out_op);
    if (h->kind != HEAD_OP || !h->op || !h->schema || strcmp(term_head(t, id)->label, "XShape") == 0) return NULL;
    return !nargs || t->items[*out_op].nargs == nargs ? h : NULL;
}

static weft_status give_sum(terms *t, uint32_t id, const value *parts, size_t count, uint32_t *out) {
    value sum;
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    const int64_t *at = term_dims(t, id, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    if (count == 1)
        sum = parts[0];
    else
        TRY(rows_sum(t, parts, count, t->items[id].dtype, &sum));
    TRY(term_reshape(t, sum, ndim, dims, &sum));
    *out = sum.term;
    return NULL;
}

/* --- a concatenation on the left ---------------------------------------------------------------------------------- */

/* Rows [from, from + k) of the matrix b, k by n; of one that is transposed, columns. */
static weft_status take_rows(terms *t, value b, bool turns, int64_t all, int64_t n, int64_t from, int64_t k,
                             value *out) {
    if (!turns) {
        TRY(term_part(t, b, from * n, k * n, out));
        return term_reshape(t, *out, 2, (int64_t[]){k, n}, out);
    }
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    value *runs = ARENA_ARRAY(&memory, value, n);
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * n);
    if (!runs || !ranges) TRY_DONE(base_out_of_memory());
    for (int64_t i = 0; i < n; i++) {
        ranges[2 * i] = i * k;
        ranges[2 * i + 1] = k;
        TRY_DONE(term_part(t, b, i * all + from, k, &runs[i]));
    }
    TRY_DONE(term_flat(t, runs, ranges, (size_t)n, n * k, out));
    TRY_DONE(term_reshape(t, *out, 2, (int64_t[]){n, k}, out));
done:
    arena_fini(&memory);
    return status;
}

/* The concat along the last dimension that makes the left operand; NULL: none does. */
static const head *joined_columns(const terms *t, uint32_t x, int64_t k, uint32_t *out_op) {
    const head *h = maker(t, x, 0, out_op);
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x, &ndim);
    if (!h || !dims || !ndim || dims[ndim - 1] != k || t->items[*out_op].nargs > MOST_TOGETHER) return NULL;
    if (strcmp(h->schema->type, "concat") != 0 && strcmp(h->schema->type, "aten_cat") != 0) return NULL;
    int64_t axis = attr_int(h->op, "axis", attr_int(h->op, "dim", 0));
    return axis == (int64_t)ndim - 1 || axis == -1 ? h : NULL;
}

static weft_status sum_of_columns(terms *t, uint32_t id, uint32_t op, uint32_t join, const int64_t extents[3],
                                  uint32_t *out) {
    value parts[MOST_TOGETHER];
    size_t count = t->items[join].nargs;
    bool turns_right = attr_bool(term_head(t, op)->op, "trans_y", false);
    int64_t from = 0;
    for (size_t i = 0; i < count; i++) {
        value x = term_args(t, join)[i], b;
        int64_t numel = term_numel(t, x.term), k = numel / extents[0];
        if (numel <= 0 || numel % extents[0] || from + k > extents[1]) return NULL;
        TRY(take_rows(t, term_args(t, op)[1], turns_right, extents[1], extents[2], from, k, &b));
        TRY(rows_product(t, t->items[id].dtype, x, b, turns_right, (int64_t[]){extents[0], k, extents[2]}, true,
                         &parts[i]));
        from += k;
    }
    return from == extents[1] ? give_sum(t, id, parts, count, out) : NULL;
}

/* --- a transposed matrix on the left ------------------------------------------------------------------------------ */

static bool swaps_two(const head *h) {
    size_t n = 0;
    const int64_t *order = attr_ints(h->op, strcmp(h->schema->type, "transpose2") == 0 ? "axis" : "dims", &n);
    if (strcmp(h->schema->type, "aten_t") == 0) return true;
    bool permutes = strcmp(h->schema->type, "transpose2") == 0 || strcmp(h->schema->type, "aten_permute") == 0;
    return permutes && n == 2 && (order[0] == 1 || order[0] == -1);
}

/* The matrix, k by m, of which `x` is the transpose; false: of none. */
static bool is_turned(const terms *t, uint32_t x, int64_t m, int64_t k, value *out) {
    size_t ndim = 0;
    uint32_t by;
    const head *h = maker(t, term_without_shape(t, x), 1, &by);
    if (!h || !swaps_two(h)) return false;
    *out = term_args(t, by)[0];
    const int64_t *dims = term_dims(t, out->term, &ndim);
    return dims && ndim == 2 && dims[0] == k && dims[1] == m;
}

/* The matrix whose transpose the left operand is, k by m; false: it is none. */
static bool find_turned(const terms *t, uint32_t op, const int64_t extents[3], value *out) {
    size_t ndim = 0;
    value x = term_args(t, op)[0];
    if (!term_dims(t, x.term, &ndim) || ndim != 2) return false;
    if (!attr_bool(term_head(t, op)->op, "trans_x", false)) return is_turned(t, x.term, extents[0], extents[1], out);
    *out = x;
    return true;
}

static weft_status outer_part(terms *t, int32_t dtype, const tile *left, const tile *right, value *out) {
    value args[2] = {left->of, right->of};
    int64_t dims[2] = {left->width, right->width};
    buffer *key = head_begin(t, HEAD_TOGETHER);
    uint32_t head_id;
    head_put_text(key, "/outer", 6);
    head_put_int(key, dtype);
    TRY(head_finish(t, &(head){.kind = HEAD_TOGETHER, .label = "outer product", .dtype = dtype, .pulls = true},
                    &head_id));
    out->factor = FACTOR_ONE;
    return term_make(t, head_id, args, 2, dtype, 2, dims, &out->term);
}

/* Some rows of some columns: row by row those of `rows`, each the columns of all products in its line of `products`, of
 * which there is one for each pair. */
static weft_status join_columns(terms *t, const value *products, const tile *rows, size_t nrows, const tile *columns,
                                size_t ncolumns, value *out) {
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    int64_t m = 0, at = 0;
    size_t count = 0;
    for (size_t i = 0; i < nrows; i++) m += rows[i].count;
    *out = value_of(TERM_NONE);
    if (m > MOST_RUNS / (int64_t)ncolumns) goto done;
    value *runs = ARENA_ARRAY(&memory, value, m * (int64_t)ncolumns);
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * m * (int64_t)ncolumns);
    if (!runs || !ranges) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < nrows; i++)
        for (int64_t k = rows[i].first; k < rows[i].first + rows[i].count; k++)
            for (size_t j = 0; j < ncolumns; j++, count++) {
                const tile *c = &columns[j];
                ranges[2 * count] = at;
                ranges[2 * count + 1] = c->count;
                at += c->count;
                TRY_DONE(term_part(t, products[i * ncolumns + j], k * c->width + c->first, c->count, &runs[count]));
            }
    TRY_DONE(term_flat(t, runs, ranges, count, at, out));
done:
    arena_fini(&memory);
    return status;
}

static weft_status outer_block(terms *t, int32_t dtype, const tile_block *left, const tile_block *right, value *out) {
    value products[MOST_TILES * MOST_TILES];
    for (size_t i = 0; i < left->ntiles; i++)
        for (size_t j = 0; j < right->ntiles; j++)
            TRY(outer_part(t, dtype, &left->tiles[i], &right->tiles[j], &products[i * right->ntiles + j]));
    if (tiles_is_whole(left) && tiles_is_whole(right)) return *out = products[0], NULL;
    return join_columns(t, products, left->tiles, left->ntiles, right->tiles, right->ntiles, out);
}

weft_status contracted_rows(terms *t, int32_t dtype, value left, value right, const int64_t extents[3], value *out) {
    value parts[MOST_TOGETHER];
    tile_block of_left, of_right;
    size_t count = 0;
    int64_t m = extents[0], k = extents[1], n = extents[2];
    *out = value_of(TERM_NONE);
    for (int64_t from = 0; from < k; from += of_left.rows, count++) {
        TRY(tiles_find(t, left, m, from, k - from, &of_left));
        TRY(tiles_find(t, right, n, from, of_left.rows, &of_right));
        if (of_right.rows < of_left.rows) TRY(tiles_find(t, left, m, from, of_right.rows, &of_left));
        if (!of_right.rows || !of_left.rows || count == MOST_TOGETHER) return NULL;
        TRY(outer_block(t, dtype, &of_left, &of_right, &parts[count]));
        if (parts[count].term == TERM_NONE) return NULL;
    }
    for (size_t i = 0; i < count; i++) TRY(term_reshape(t, parts[i], 2, (int64_t[]){m, n}, &parts[i]));
    return count == 1 ? (*out = parts[0], NULL) : rows_sum(t, parts, count, dtype, out);
}

/* --- columns of the matrix on the right --------------------------------------------------------------------------- */

static weft_status product_of_columns(terms *t, int32_t dtype, value x, value b, const int64_t extents[3], value *out) {
    tile_block block;
    value products[MOST_TILES];
    int64_t rows = extents[0], k = extents[1];
    *out = value_of(TERM_NONE);
    TRY(tiles_find(t, b, extents[2], 0, k, &block));
    if (block.rows != k || tiles_is_whole(&block)) return NULL;
    for (size_t i = 0; i < block.ntiles; i++)
        TRY(rows_product(t, dtype, x, block.tiles[i].of, false, (int64_t[]){rows, k, block.tiles[i].width}, true,
                         &products[i]));
    return join_columns(t, products, &(tile){.count = rows}, 1, block.tiles, block.ntiles, out);
}

weft_status contracted_product(terms *t, int32_t dtype, value x, value b, bool turns, const int64_t extents[3],
                               value *out) {
    value left;
    *out = value_of(TERM_NONE);
    if (turns) return NULL;
    if (is_turned(t, x.term, extents[0], extents[1], &left)) TRY(contracted_rows(t, dtype, left, b, extents, out));
    return out->term == TERM_NONE ? product_of_columns(t, dtype, x, b, extents, out) : NULL;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

weft_status contracted_value(terms *t, uint32_t id, uint32_t op, uint32_t *out) {
    const head *h = term_head(t, op);
    size_t nb = 0, n = 0;
    *out = TERM_NONE;
    if (h->kind != HEAD_OP || !h->op || !h->schema || strcmp(h->schema->type, "matmul_v2") != 0) return NULL;
    if (t->items[op].nargs != 2 || strcmp(term_head(t, id)->label, "Out") != 0) return NULL;
    value x = term_args(t, op)[0], b = term_args(t, op)[1], left, sum;
    const int64_t *db = term_dims(t, b.term, &nb), *d = term_dims(t, id, &n);
    if (!db || nb != 2 || !d || n < 2 || term_numel(t, x.term) <= 0) return NULL;
    bool turns_right = attr_bool(h->op, "trans_y", false), turns_left = attr_bool(h->op, "trans_x", false);
    int64_t extents[3] = {term_numel(t, id) / d[n - 1], db[turns_right], d[n - 1]};
    if (extents[0] <= 0 || extents[1] <= 0 || extents[2] <= 0 || extents[2] > MOST_COLUMNS) return NULL;
    if (term_numel(t, x.term) != extents[0] * extents[1]) return NULL;
    uint32_t join;
    if (!turns_left && joined_columns(t, term_without_shape(t, x.term), extents[1], &join))
        return sum_of_columns(t, id, op, join, extents, out);
    if (turns_right || !find_turned(t, op, extents, &left)) return NULL;
    TRY(contracted_rows(t, t->items[id].dtype, left, b, extents, &sum));
    return sum.term != TERM_NONE ? rows_shaped_like(t, id, sum, out) : NULL;
}
