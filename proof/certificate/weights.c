/* weights.c: means of ranks that have different numbers of rows.
 *
 * A rank with b of the batch's B rows weighs its means by n b / B before the n ranks' are averaged. The claim `weight`
 * names the op that makes this number. It is checked from the extents of a feed on: shape, slice, cast, a sum over
 * ranks, a scale, a quotient, each made once and by the pass. A value times the weight has a link of its own in its
 * chain, as all-reduces have. In the program before, a claim `weigh` puts that link behind an op: on a gradient whose
 * reduce is the next claim, or on a loss that nothing reads afterwards. */
#include "proof/certificate/certificate.h"

/* --- the weight --------------------------------------------------------------------------------------------------- */

static int64_t number_of(const cert_checker *c, const weft_op *op) {
    for (uint32_t at = 0; at < c->nnew; at++)
        if (c->new_ops[at] == op) return c->doc.order.items[at];
    return -1;
}

/* The op of block 0 after that alone writes it; NULL: there are others, or none. */
static weft_op *only_writer(const weft_var *v) {
    weft_op *only = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output || !op->block) continue;
        if (only || op->block->idx != 0) return NULL;
        only = op;
    }
    return only;
}

static const weft_var *argument(const weft_op *op, const char *slot_text) {
    const slot *s = op_find_slot(op, false, slot_text);
    return s && s->nargs == 1 ? slot_var(op, s, 0) : NULL;
}

static bool is_one_integer(const weft_op *op, const char *attr, int64_t number) {
    const weft_attr *a = op_find_attr(op, attr);
    return a && (a->type == ATTR_INTS || a->type == ATTR_LONGS) && a->count == 1 && a->u.ints[0] == number;
}

static bool is_one_float(const weft_var *v) {
    return v && v->has_tensor && cert_is_float(v->dtype) && (v->ndim == 0 || (v->ndim == 1 && v->dims[0] == 1));
}

/* One step of the way to the weight. */
typedef struct way {
    cert_checker *c;
    const cert_claim *claim;
    weft_op *before; /* the op that comes next in the program */
} way;

/* What makes `v`: an op that the pass inserted, of that type, before those that were found. It makes no other weight.
 */
static weft_op *step_back(way *w, const weft_var *v, const char *type, bool is_followed) {
    weft_op *op = v ? only_writer(v) : NULL;
    int64_t n = op && op_is(op, type) ? number_of(w->c, op) : -1;
    if (n < 0 || (size_t)n < w->c->nold || w->c->inserted_by[n] != w->claim->pass) return NULL;
    if (block_find_text(w->c->before.p->blocks[0], v->name->bytes, v->name->nbytes)) return NULL;
    if (w->before && w->before->order <= op->order) return NULL;
    w->before = op;
    if (!is_followed) w->c->of_weight[n] = true;
    return op;
}

static bool counts_ranks(const cert_checker *c, const weft_op *scale) {
    return scale && cert_rule_of(scale) == CERT_SCALE && cert_scale_of(scale) == (double)c->ranks->count;
}

static bool adds_ranks(const cert_checker *c, const weft_op *sum) {
    return sum && cert_rule_of(sum) == CERT_JOIN && cert_reduce_of(sum) == WEFT_REDUCE_SUM &&
           cert_ring_of(sum) == c->ranks->ring && op_nargs(sum, false) == 1;
}

/* Whether nothing wrote the feed when that op of block 0 reads it. */
static bool is_as_fed(const weft_var *fed, const weft_op *reader) {
    bool is_written_within = false;
    FOR_EACH_USE(u, fed) {
        const weft_op *op = use_op(fed->program, u);
        if (!u->is_output || !op->block || op_is(op, "feed") || op_is(op, "feed_v2")) continue;
        if (op->block == reader->block && op->order <= reader->order) return false;
        is_written_within = is_written_within || op->block != reader->block;
    }
    for (const weft_op *op = reader->prev; op && is_written_within; op = op->prev)
        if (cert_runs_block(op)) return false;
    return true;
}

/* The extent of dimension 0 of the feed, as a float. */
static bool counts_rows(way *w, const weft_var *rows) {
    const weft_op *cast = is_one_float(rows) ? step_back(w, rows, "cast", false) : NULL;
    const weft_op *slice = cast ? step_back(w, argument(cast, "X"), "slice", false) : NULL;
    bool is_first = slice && op_nargs(slice, false) == 1 && is_one_integer(slice, "axes", 0) &&
                    is_one_integer(slice, "starts", 0) && is_one_integer(slice, "ends", 1);
    const weft_op *shape = is_first ? step_back(w, argument(slice, "Input"), "shape", false) : NULL;
    const weft_var *fed = shape ? argument(shape, "Input") : NULL;
    if (!fed || !fed->block || fed->block->idx != 0 || strcmp(fed->name->bytes, w->claim->var) != 0) return false;
    const weft_var *old = block_find_text(w->c->before.p->blocks[0], fed->name->bytes, fed->name->nbytes);
    return old && is_as_fed(fed, shape) && w->c->is_split_feed[old->id];
}

weft_status cert_prepare_weight(cert_checker *c, const cert_claim *claim) {
    bool is_number = claim->op >= (int64_t)c->nold && (uint64_t)claim->op < c->nnumbers;
    uint32_t at = is_number ? c->new_position[claim->op] : CERT_NONE;
    const weft_op *op = at == CERT_NONE ? NULL : c->new_ops[at];
    const weft_var *out = op ? weft_op_output(op, "Out", 0) : NULL;
    way w = {.c = c, .claim = claim};
    bool fits = out && c->ranks && !c->weight && strcmp(c->ranks->text, "mean") == 0 && is_one_float(out);
    const weft_op *quotient = fits ? step_back(&w, out, "elementwise_div", false) : NULL;
    fits = quotient && quotient == op;
    if (fits) {
        const weft_var *of_rank = argument(op, "X"), *all = argument(op, "Y");
        const weft_op *scale = of_rank ? only_writer(of_rank) : NULL, *sum = all ? only_writer(all) : NULL;
        way first = w, second = w; /* which of them comes first does not count */
        const weft_var *rows = scale && sum ? argument(scale, "X") : NULL;
        fits = rows && is_one_float(of_rank) && is_one_float(all) && counts_ranks(c, scale) && adds_ranks(c, sum) &&
               step_back(&first, of_rank, scale->type->bytes, true) &&
               step_back(&second, all, sum->type->bytes, true) && cert_x(sum) && slot_var(sum, cert_x(sum), 0) == rows;
        w.before = fits && scale->order < sum->order ? first.before : second.before;
        fits = fits && counts_rows(&w, rows);
    }
    if (!fits)
        return cert_refuse(c, "op %lld is claimed to make the weight of a rank's rows of \"%s\", which it does not",
                           (long long)claim->op, claim->var);
    c->weight = claim;
    return NULL;
}

/* --- what is weighed ---------------------------------------------------------------------------------------------- */

static bool is_same_place(const cert_claim *a, const cert_claim *b) {
    return a->pass == b->pass && a->other == b->other && strcmp(a->var, b->var) == 0;
}

bool cert_is_weighed(const cert_checker *c, const cert_claim *reduce) {
    return reduce > c->doc.claims && reduce[-1].kind == CERT_WEIGH && is_same_place(&reduce[-1], reduce);
}

/* Nothing uses it behind the op but what fetches it. */
static bool is_last_use(const weft_var *v, const weft_op *op) {
    FOR_EACH_USE(u, v) {
        const weft_op *by = use_op(v->program, u);
        if (!by->block || op_is(by, "fetch") || op_is(by, "fetch_v2")) continue;
        if (by->block != op->block || by->order > op->order) return false;
    }
    return true;
}

weft_status cert_prepare_weigh(cert_checker *c, const cert_claim *claim) {
    const weft_var *v = block_find_text(c->before.p->blocks[0], claim->var, strlen(claim->var));
    bool is_there = v && claim->other >= 0 && (uint64_t)claim->other < c->nold && claim->op >= (int64_t)c->nold &&
                    (uint64_t)claim->op < c->nnumbers && c->inserted_by[claim->op] == claim->pass;
    const cert_claim *next = claim + 1 < c->doc.claims + c->doc.nclaims ? claim + 1 : NULL;
    bool is_reduced = next && next->kind == CERT_REDUCE && is_same_place(claim, next);
    bool fits = is_there && c->weight && v->kind == WEFT_DENSE_TENSOR && cert_is_float(v->dtype) &&
                (is_reduced || (!v->persistable && is_last_use(v, c->old_ops[claim->other])));
    if (!fits)
        return cert_refuse(c, "\"%s\" is claimed to be weighed behind op %lld, where it is neither averaged nor a loss",
                           claim->var, (long long)claim->other);
    if (!is_reduced) c->is_weighed_loss[v->id] = true;
    return NULL;
}

static weft_status weigh(cert_checker *c, cert_world *w, weft_var *v) {
    cert_value value;
    cert_touch(w, v);
    TRY(cert_read_var(w, v, &value));
    TRY(cert_join_value(c, value, c->ranks->ring, CERT_BY_ROWS, 1, &value));
    return cert_write_var(w, v, value, CERT_NONE);
}

weft_status cert_apply_weigh(cert_checker *c, const cert_claim *claim) {
    return weigh(c, &c->before, block_find_text(c->before.p->blocks[0], claim->var, strlen(claim->var)));
}

/* An inserted op that makes the weight, or a copy of it in another type, or multiplies by it in place. */
weft_status cert_follow_weight(cert_checker *c, weft_op *op, uint32_t at, bool *out_is) {
    int64_t n = c->doc.order.items[at];
    const weft_var *x = argument(op, "X"), *y = argument(op, "Y");
    weft_var *out = weft_op_output(op, "Out", 0);
    *out_is = c->of_weight[n];
    if (!c->weight) return NULL;
    if (n == c->weight->op) c->is_weight[out->id] = true;
    if (*out_is) return NULL;
    if (op_is(op, "cast") && x && c->is_weight[x->id] && is_one_float(out) && only_writer(out) == op) {
        *out_is = c->is_weight[out->id] = true;
        return NULL;
    }
    bool fits = op_is(op, "elementwise_mul") && op_nargs(op, false) == 2 && op_nargs(op, true) == 1 && x && x == out &&
                y && c->is_weight[y->id] && x->dtype == y->dtype;
    if (!fits) return NULL;
    *out_is = true;
    return weigh(c, &c->after, out);
}
