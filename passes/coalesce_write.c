/* Writing buckets into a program. All ops and variables are made before the first edit.
 *
 * The last member's sync stays where it is and gets the fused variable; of its scales the last stays, with the product
 * of all. The other members' syncs go. */
#include <stdio.h>

#include "passes/bucket_tensor.h"
#include "passes/coalesce_grads.h"

typedef struct bucket_ops {
    bucket_tensor tensor;
    weft_op *before; /* the op that it is inserted before */
} bucket_ops;

static weft_op *first_access(const bucket *b) {
    const grad_sync *s = b->items[0];
    weft_op *first = s->accesses[0].op;
    for (size_t i = 1; i < b->count; i++) {
        s = b->items[i];
        if (s->accesses[0].op->mark < first->mark) first = s->accesses[0].op;
    }
    return first;
}

static weft_status make_ops(weft_pass_context *pass, weft_program *p, const bucket *b, size_t index, bucket_ops *out) {
    arena *a = pass_scratch(pass);
    char stem[64];
    snprintf(stem, sizeof stem, "coalesce_grad_%zu", index);
    weft_var **members = ARENA_ARRAY(a, weft_var *, b->count);
    if (!members) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) members[i] = ((const grad_sync *)b->items[i])->var;
    bucket_layout layout = {stem, members, members, b->count, .align = true, .mesh = grad_sync_mesh(b->items[0])};
    out->before = first_access(b);
    TRY(bucket_tensor_make(p, &layout, a, &out->tensor));
    return bucket_tensor_claim(pass, &layout, &out->tensor);
}

/* --- the syncs ---------------------------------------------------------------------------------------------------- */

/* The claims of one collective, or of one bucket's factors, stand together. */
static weft_status claim_members(weft_pass_context *pass, const bucket *b) {
    const grad_sync *last = b->items[b->count - 1];
    for (size_t k = 0; k < last->nreduces && pass_certifies(pass); k++) {
        for (size_t i = 0; i < b->count; i++) {
            const grad_sync *s = b->items[i];
            pass_claim claim = {.kind = CLAIM_MEMBER, .op = last->reduces[k].op, .other = s->reduces[k].op};
            claim.var = claim.to = s->var;
            TRY(pass_claim_add(pass, claim));
        }
    }
    for (size_t i = 0; i < b->count && pass_certifies(pass); i++) {
        const grad_sync *s = b->items[i];
        pass_claim claim = {.kind = CLAIM_FACTOR, .var = s->var, .text = "bucket"};
        for (size_t k = 0; k < s->nscales; k++) {
            claim.op = s->scales[k];
            claim.other = last->scales[last->nscales - 1];
            claim.factor = attr_float(s->scales[k], "scale", 1.0);
            TRY(pass_claim_add(pass, claim));
        }
    }
    return NULL;
}

static void remove_sync(const grad_sync *s) {
    for (size_t i = 0; i < s->nreduces; i++) {
        if (s->reduces[i].wait) weft_op_remove(s->reduces[i].wait);
        weft_op_remove(s->reduces[i].op);
    }
    for (size_t i = 0; i < s->nscales; i++) weft_op_remove(s->scales[i]);
}

/* The op now reads and writes the fused variable; so do its placements. */
static weft_status rename_op(weft_op *op, weft_var *from, weft_var *fused) {
    weft_op_rename_input(op, from, fused);
    weft_op_rename_output(op, from, fused);
    op_dist_rest *d;
    if (!op->dist || (!op->dist->rest && !fused->dist)) return NULL;
    TRY(op_dist_rest_get(op->program, op->dist, &d));
    d->ninputs = d->noutputs = 0;
    d->extra_json = NULL; /* what else the sidecar says of the op is about the member */
    if (!fused->dist) return NULL;
    d->inputs = ARENA_ARRAY(&op->program->arena, op_placement, 1);
    d->outputs = ARENA_ARRAY(&op->program->arena, op_placement, 1);
    if (!d->inputs || !d->outputs) return base_out_of_memory();
    d->inputs[0] = d->outputs[0] = (op_placement){fused->name, fused->dist};
    d->ninputs = d->noutputs = 1;
    return NULL;
}

static weft_status fuse_sync(const grad_sync *s, weft_var *fused) {
    for (size_t i = 0; i < s->nreduces; i++) TRY(rename_op(s->reduces[i].op, s->var, fused));
    if (s->nscales == 0) return NULL;
    for (size_t i = 0; i + 1 < s->nscales; i++) weft_op_remove(s->scales[i]);
    weft_op *scale = s->scales[s->nscales - 1];
    if (s->nscales > 1) TRY(weft_op_set_attr_float(scale, "scale", s->factor));
    return rename_op(scale, s->var, fused);
}

weft_status grad_buckets_write(weft_pass_context *pass, weft_program *p, bucket *const *buckets, size_t count) {
    bucket_ops *made = ARENA_ARRAY(pass_scratch(pass), bucket_ops, count + 1);
    if (!made) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) TRY(make_ops(pass, p, buckets[i], i, &made[i]));
    for (size_t i = 0; i < count; i++) {
        const bucket *b = buckets[i];
        TRY(claim_members(pass, b));
        weft_block_insert_before(p->blocks[0], made[i].before, made[i].tensor.op);
        for (size_t k = 0; k + 1 < b->count; k++) remove_sync(b->items[k]);
        TRY(fuse_sync(b->items[b->count - 1], made[i].tensor.fused));
    }
    return NULL;
}
