/* outer.c: products whose left operand is transposed, as in the gradient of a weight: the sum of outer products of the
 * rows of two matrices. Blocks of rows are added up; columns of the two are rows and columns of the sum. */
#include "proof/together/together.h"

/* The op that makes the value, if it has that many arguments; NULL: none does. */
const head *op_making(const terms *t, uint32_t id, size_t nargs, uint32_t *out_op) {
    if (!term_is(t, id, HEAD_OUT)) return NULL;
    *out_op = term_args(t, id)[0].term;
    const head *h = term_head(t, *out_op);
    if (h->kind != HEAD_OP || !h->op || !h->schema || strcmp(term_head(t, id)->label, "XShape") == 0) return NULL;
    return !nargs || t->items[*out_op].nargs == nargs ? h : NULL;
}

static bool swaps_two(const head *h) {
    size_t n = 0;
    const int64_t *order = attr_ints(h->op, strcmp(h->schema->type, "transpose2") == 0 ? "axis" : "dims", &n);
    if (strcmp(h->schema->type, "aten_t") == 0) return true;
    bool permutes = strcmp(h->schema->type, "transpose2") == 0 || strcmp(h->schema->type, "aten_permute") == 0;
    return permutes && n == 2 && (order[0] == 1 || order[0] == -1);
}

/* The matrix, k by m, of which `x` is the transpose; false: of none. */
bool outer_is_turned(const terms *t, uint32_t x, int64_t m, int64_t k, value *out) {
    size_t ndim = 0;
    uint32_t by;
    const head *h = op_making(t, term_without_shape(t, x), 1, &by);
    if (!h || !swaps_two(h)) return false;
    *out = term_args(t, by)[0];
    const int64_t *dims = term_dims(t, out->term, &ndim);
    return dims && ndim == 2 && dims[0] == k && dims[1] == m;
}

static weft_status outer_part(terms *t, int32_t dtype, const tile *left, const tile *right, value *out) {
    value args[2] = {left->of, right->of};
    int64_t dims[2] = {left->width, right->width};
    buffer *key = head_begin(t, HEAD_TOGETHER);
    uint32_t head_id;
    head_put_text(key, "/outer", 6);
    head_put_int(key, dtype);
    TRY(head_finish(t, &(head){.kind = HEAD_TOGETHER, .label = OUTER_LABEL, .dtype = dtype, .pulls = true}, &head_id));
    out->factor = FACTOR_ONE;
    return term_make(t, head_id, args, 2, dtype, 2, dims, &out->term);
}

static weft_status outer_block(terms *t, int32_t dtype, const tile_block *left, const tile_block *right, value *out) {
    value products[MOST_TILES * MOST_TILES];
    for (size_t i = 0; i < left->ntiles; i++)
        for (size_t j = 0; j < right->ntiles; j++)
            TRY(outer_part(t, dtype, &left->tiles[i], &right->tiles[j], &products[i * right->ntiles + j]));
    if (tiles_is_whole(left) && tiles_is_whole(right)) return *out = products[0], NULL;
    return tiles_join(t, products, left->tiles, left->ntiles, right->tiles, right->ntiles, out);
}

weft_status outer_rows(terms *t, int32_t dtype, value left, value right, const int64_t extents[3], value *out) {
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
    return count == 1 ? (*out = parts[0], NULL) : rows_sum(t, parts, count, dtype, true, out);
}
