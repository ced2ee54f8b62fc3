/* What fuse_allreduce_buckets may fuse: all-reduces of block 0, by what they are: no role, no name counts.
 *
 * Kinds (the key of a bucket): type of collective, ring, reduce, element type, device, stream, whether it is
 * asynchronous, and the scale or division by a number right before it. That one stays where it is, in the members: so a
 * bucket never mixes gradients that are averaged with others, which a later pass may want to scale as one. */
#include "passes/fuse_allreduce.h"

static const slot *slot_either(const weft_op *op, bool output, const char *upper, const char *lower) {
    const slot *s = op_find_slot(op, output, upper);
    return s ? s : op_find_slot(op, output, lower);
}

static weft_var *argument(const weft_op *op, const slot *s, size_t index) {
    return s && index < s->nargs ? slot_var(op, s, index) : NULL;
}

weft_var *reduce_part_x(const reduce_item *item, const reduce_part *part) {
    return argument(item->op, slot_either(item->op, false, "X", "x"), part->index);
}
weft_var *reduce_part_out(const reduce_item *item, const reduce_part *part) {
    return argument(item->op, slot_either(item->op, true, "Out", "out"), part->index);
}
weft_var *reduce_part_alias(const reduce_item *item, const reduce_part *part) {
    return argument(item->op, op_find_slot(item->op, true, "alias"), part->index);
}

static size_t nbytes_of(const weft_var *v) {
    size_t n = weft_dtype_nbytes((weft_dtype)v->dtype);
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] <= 0 || !base_mul(n, (size_t)v->dims[i], &n)) return 0;
    return n;
}

static bool is_dense(const weft_var *v) {
    return v->block && v->kind == WEFT_DENSE_TENSOR && v->has_tensor && nbytes_of(v) > 0;
}

static bool has_events(const weft_op *op) {
    return op->dist && (op->dist->event_to_record || op_dist_nwaits(op->dist));
}

static const char *why_not(const weft_op *op, const slot *x, const slot *out, weft_reason *reason) {
    *reason = WEFT_REASON_IN_USE;
    if (op_find_attr(op, "bucket_fingerprint")) return "it reduces a bucket already";
    if (weft_op_ninputs(op, "Cond")) return "it has a condition";
    if (has_events(op)) return "events order it: fuse before collectives get a stream";
    if (op->prev && op_is_collective(op->prev, COLLECTIVE_WAIT_COMPUTE) && op_ring(op->prev) == op_ring(op))
        return "a c_wait_compute stands before it: fuse before collectives get a stream";
    *reason = WEFT_REASON_SHAPE;
    if (!x || !out || x->nargs == 0 || x->nargs != out->nargs) return "it has not as many outputs as inputs";
    for (size_t i = 0; i < x->nargs; i++)
        if (!is_dense(slot_var(op, x, i)) || !slot_var(op, out, i)->block)
            return "its shape or element type is not known, or not dense";
    *reason = WEFT_REASON_DTYPE;
    for (size_t i = 1; i < x->nargs; i++)
        if (slot_var(op, x, i)->dtype != slot_var(op, x, 0)->dtype) return "it reduces several element types";
    return NULL;
}

bool reduce_item_read(weft_op *op, reduce_item *out, weft_reason *out_reason, const char **out_message) {
    reduce_item item = {.op = op, .position = op->mark, .factor = 1, .scale = ""};
    const collective_schema *c = op_collective(op);
    if (!c || c->kind != COLLECTIVE_ALL_REDUCE) return false;
    item.coalesced = c->form == COLLECTIVE_LIST;
    item.reduce = (weft_reduce)op_collective_reduce(op);
    const slot *x = slot_either(op, false, "X", "x");
    item.ring = op_ring(op);
    item.async = op_is_async(op);
    item.nparts = x ? x->nargs : 0;
    *out_message = why_not(op, x, slot_either(op, true, "Out", "out"), out_reason);
    *out = item;
    return true;
}

weft_status reduce_item_parts(const access_index *index, arena *a, reduce_item *item) {
    if (!(item->parts = ARENA_ARRAY(a, reduce_part, item->nparts))) return base_out_of_memory();
    for (size_t i = 0; i < item->nparts; i++) {
        reduce_part *part = &item->parts[i];
        part->index = i;
        weft_var *x = reduce_part_x(item, part), *out = reduce_part_out(item, part);
        part->nbytes = nbytes_of(x);
        part->x_class = access_class(index, x);
        part->out_class = access_class(index, out);
        part->in_place = x == out;
        if (!base_add(item->nbytes, part->nbytes, &item->nbytes))
            return weft_status_create(WEFT_LIMIT, item->op->program->place, "an all-reduce is too large");
    }
    return NULL;
}

/* --- the key ------------------------------------------------------------------------------------------------------ */

static int32_t dtype_of(const reduce_item *item) {
    return reduce_part_x(item, &item->parts[0])->dtype;
}

static uint64_t mix(uint64_t h, uint64_t value) {
    return (h ^ value) * UINT64_C(0x9E3779B97F4A7C15) ^ (h >> 29);
}

static uint64_t mix_text(uint64_t h, const char *s) {
    return mix(h, base_hash(s, strlen(s)));
}

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint64_t reduce_item_hash(void *user, const void *of) {
    (void)user;
    const reduce_item *item = of;
    uint64_t h = mix(mix((uint64_t)item->ring, (uint64_t)item->reduce), (uint64_t)dtype_of(item));
    h = mix_text(mix(mix_text(h, item->scale), double_bits(item->factor)), item->op->type->bytes);
    return mix_text(mix_text(h, attr_string(item->op, "op_device", "")), weft_op_stream(item->op));
}

bool reduce_item_same_kind(void *user, const void *x, const void *y) {
    (void)user;
    const reduce_item *a = x, *b = y;
    return a->op->type == b->op->type && a->ring == b->ring && a->reduce == b->reduce && dtype_of(a) == dtype_of(b) &&
           a->async == b->async && strcmp(a->scale, b->scale) == 0 &&
           double_bits(a->factor) == double_bits(b->factor) &&
           strcmp(weft_op_stream(a->op), weft_op_stream(b->op)) == 0 &&
           strcmp(attr_string(a->op, "op_device", ""), attr_string(b->op, "op_device", "")) == 0 &&
           attr_bool(a->op, "use_calc_stream", false) == attr_bool(b->op, "use_calc_stream", false) &&
           attr_bool(a->op, "use_model_parallel", false) == attr_bool(b->op, "use_model_parallel", false);
}

size_t reduce_item_nbytes(const void *item) {
    return ((const reduce_item *)item)->nbytes;
}

uint64_t fused_bucket_fingerprint(const fused_bucket *b) {
    uint64_t h = reduce_item_hash(NULL, b->items->items[0]);
    for (size_t i = 0; i < b->items->count; i++) {
        const reduce_item *item = b->items->items[i];
        for (size_t k = 0; k < item->nparts; k++) {
            h = mix(h, item->parts[k].nbytes);
            const name *n = reduce_part_x(item, &item->parts[k])->name;
            h = mix(h, base_hash(n->bytes, n->nbytes));
        }
    }
    return h;
}
