/* gradients.c: what matmul_v2_grad makes of a product with a matrix is two products: that of rows, of the result's
 * gradient and the matrix, and that of two transposed operands. Programs whose ranks multiply some rows at a time have
 * an op for each. The second one's sum is over all rows, which libraries form in other orders: it is equal over the
 * real numbers. */
#include "proof/together/together.h"

typedef struct gradients {
    value x, y, of; /* of: the gradient of the product */
    int64_t rows, k, n;
    bool turns; /* the matrix is transposed in the product */
} gradients;

static bool find_arg(const terms *t, uint32_t op, const char *slot_text, value *out) {
    const head *h = term_head(t, op);
    const slot *s = op_find_slot(h->op, false, slot_text);
    if (!s || s->nargs != 1 || s->first >= h->nargs) return false;
    *out = term_args(t, op)[s->first];
    return true;
}

static bool read_op(const terms *t, uint32_t op, gradients *out) {
    const head *h = term_head(t, op);
    size_t nx = 0, ny = 0;
    if (h->kind != HEAD_OP || !h->op || !h->schema || strcmp(h->schema->type, "matmul_v2_grad") != 0) return false;
    if (h->nargs != t->items[op].nargs || attr_bool(h->op, "trans_x", false)) return false;
    if (!find_arg(t, op, "X", &out->x) || !find_arg(t, op, "Y", &out->y) || !find_arg(t, op, "Out@GRAD", &out->of))
        return false;
    const int64_t *dx = term_dims(t, out->x.term, &nx), *dy = term_dims(t, out->y.term, &ny);
    int64_t numel = term_numel(t, out->x.term);
    if (!dx || !dy || nx < 2 || ny != 2 || numel <= 0) return false;
    out->turns = attr_bool(h->op, "trans_y", false);
    out->k = dy[out->turns];
    out->n = dy[!out->turns];
    out->rows = numel / dx[nx - 1];
    return dx[nx - 1] == out->k && term_numel(t, out->of.term) == out->rows * out->n;
}

weft_status gradient_value(terms *t, uint32_t id, uint32_t op, bool adds_parts, uint32_t *out) {
    gradients g;
    value made;
    size_t ndim = 0;
    const char *label = term_head(t, id)->label;
    *out = TERM_NONE;
    if (!read_op(t, op, &g) || !term_dims(t, id, &ndim) || ndim > WEFT_MAX_RANK) return NULL;
    if (strcmp(label, "X@GRAD") == 0 && term_numel(t, id) == g.rows * g.k) {
        TRY(rows_product(t, t->items[id].dtype, g.of, g.y, !g.turns, (int64_t[]){g.rows, g.n, g.k}, adds_parts, &made));
        return rows_shaped_like(t, id, made, out);
    }
    if (!adds_parts || strcmp(label, "Y@GRAD") != 0 || ndim != 2) return NULL;
    int64_t of_matrix[] = {g.turns ? g.n : g.k, g.rows, g.turns ? g.k : g.n};
    TRY(outer_rows(t, t->items[id].dtype, g.turns ? g.of : g.x, g.turns ? g.x : g.of, of_matrix, &made));
    return made.term != TERM_NONE ? rows_shaped_like(t, id, made, out) : NULL;
}
