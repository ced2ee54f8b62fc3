/* What else shard_updates cuts where gradients are clipped by their global norm: between a gradient's sum and its
 * update stand squared_l2_norm and a product with one number. Each rank's part has a sum of squares of its own. All
 * ranks' are added up, together for all gradients, before the first is read: that adds squares up in another order than
 * a whole gradient's norm does. */
#include "passes/shard_updates.h"

/* Of one number; nothing else writes it, and nothing reads it before. */
static bool is_own_norm(const sharder *s, const weft_op *op) {
    const weft_var *norm = op_out(op);
    size_t n;
    if (!norm || norm->persistable || norm->kind != WEFT_DENSE_TENSOR) return false;
    const access *accesses = accesses_of(&s->all, norm, &n);
    for (size_t i = 0; i < n; i++) {
        bool is_own = access_op(&s->all, accesses[i].position) == op;
        if (is_own != (i == 0) || (accesses[i].flags & (ACCESS_NESTED | ACCESS_ALIAS))) return false;
        if (i && (accesses[i].flags & ACCESS_WRITE)) return false;
    }
    return n > 0;
}

/* grad = grad * number. */
static bool is_clip(const weft_op *op, const weft_var *grad) {
    const weft_var *y = op_is(op, "elementwise_mul") ? weft_op_input(op, "Y", 0) : NULL;
    if (!y || y == grad || op_x(op) != grad || op_out(op) != grad || !y->has_tensor) return false;
    for (size_t i = 0; i < y->ndim; i++)
        if (y->dims[i] != 1) return false;
    return true;
}

bool shard_clip_takes(const sharder *s, update *u, weft_op *op) {
    const weft_var *grad = u->sync->var;
    bool is_norm = op_is(op, "squared_l2_norm") && !u->norm && op_x(op) == grad && is_own_norm(s, op);
    bool scales = !is_norm && !u->clip && is_clip(op, grad);
    if (is_norm) u->norm = op;
    if (scales) u->clip = op;
    return (is_norm || scales) && !*weft_op_stream(op);
}

/* The first op that reads a norm. */
static weft_op *first_reader(const sharder *s, const weft_op *norm) {
    size_t n;
    const access *accesses = accesses_of(&s->all, op_out(norm), &n);
    return n > 1 ? access_op(&s->all, accesses[1].position) : NULL;
}

weft_op *shard_clip_place(const sharder *s) {
    weft_op *last = NULL, *place = NULL;
    for (size_t i = 0; i < s->count; i++) {
        weft_op *norm = s->updates[i].norm, *reader = norm ? first_reader(s, norm) : NULL;
        if (norm && (!last || weft_op_is_before(last, norm))) last = norm;
        if (reader && (!place || weft_op_is_before(reader, place))) place = reader;
    }
    return place && weft_op_is_before(last, place) ? place : NULL;
}

weft_status shard_clip_write(const sharder *s, weft_op *place, int64_t ring_id) {
    weft_op *sum;
    TRY(weft_op_create(s->program, "all_reduce_coalesced", &sum));
    for (size_t i = 0; i < s->count; i++)
        if (s->updates[i].norm) TRY(weft_op_add_input(sum, "x", op_out(s->updates[i].norm)));
    for (size_t i = 0; i < s->count; i++)
        if (s->updates[i].norm) TRY(weft_op_add_output(sum, "out", op_out(s->updates[i].norm)));
    TRY(weft_op_set_attr_int(sum, "ring_id", ring_id));
    TRY(weft_op_set_attr_int(sum, "reduce_type", WEFT_REDUCE_SUM));
    TRY(weft_op_set_attr_int(sum, "op_role", op_role(place)));
    TRY(weft_op_set_attr_string(sum, "op_namescope", SHARD_NAMESCOPE));
    weft_block_insert_before(place->block, place, sum);
    return NULL;
}
