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

static weft_op *first_access(const grad_syncs *syncs, const bucket *b) {
    uint32_t first = UINT32_MAX;
    for (size_t i = 0, n; i < b->count; i++) {
        const access *of = accesses_of(&syncs->index, ((const grad_sync *)b->items[i])->var, &n);
        if (of->position < first) first = of->position;
    }
    return access_op(&syncs->index, first);
}

static weft_status make_ops(weft_pass_context *pass, weft_program *p, const grad_syncs *syncs, const bucket *b,
                            size_t index, bucket_ops *out) {
    arena *a = pass_scratch(pass);
    char stem[64];
    snprintf(stem, sizeof stem, "coalesce_grad_%zu", index);
    weft_var **members = ARENA_ARRAY(a, weft_var *, b->count);
    if (!members) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) members[i] = ((const grad_sync *)b->items[i])->var;
    bucket_layout layout = {stem,     members,       members,
                            b->count, .align = true, .mesh = grad_sync_mesh(syncs, b->items[0])};
    out->before = first_access(syncs, b);
    TRY(bucket_tensor_make(p, &layout, &out->tensor));
    return bucket_tensor_claim(pass, &layout, &out->tensor);
}

/* --- the syncs ---------------------------------------------------------------------------------------------------- */

/* The claims of one collective stand together. */
static weft_status claim_reduces(weft_pass_context *pass, const grad_syncs *syncs, const bucket *b) {
    const grad_sync *last = b->items[b->count - 1];
    uint32_t *at = ARENA_ARRAY(pass_scratch(pass), uint32_t, b->count), at_last = 0;
    if (!at) return base_out_of_memory();
    for (weft_op *op; (op = grad_sync_next_op(syncs, last, GRAD_REDUCE, &at_last));) {
        for (size_t i = 0; i < b->count; i++) {
            const grad_sync *s = b->items[i];
            pass_claim claim = {
                .kind = CLAIM_MEMBER, .op = op, .other = grad_sync_next_op(syncs, s, GRAD_REDUCE, &at[i])};
            claim.var = claim.to = s->var;
            TRY(pass_claim_add(pass, claim));
        }
    }
    return NULL;
}

/* Those of one bucket's factors do too. */
static weft_status claim_scales(weft_pass_context *pass, const grad_syncs *syncs, const bucket *b) {
    weft_op *last = grad_sync_last_of(syncs, b->items[b->count - 1], GRAD_SCALE);
    for (size_t i = 0; i < b->count; i++) {
        const grad_sync *s = b->items[i];
        pass_claim claim = {.kind = CLAIM_FACTOR, .other = last, .var = s->var, .text = "bucket"};
        FOR_EACH_SYNC_OP(scale, syncs, s, GRAD_SCALE) {
            claim.op = scale;
            claim.factor = attr_float(scale, "scale", 1.0);
            TRY(pass_claim_add(pass, claim));
        }
    }
    return NULL;
}

static void remove_sync(const grad_syncs *syncs, const grad_sync *s) {
    FOR_EACH_SYNC_OP(reduce, syncs, s, GRAD_REDUCE) {
        weft_op *wait = grad_reduce_wait(reduce);
        if (wait) weft_op_remove(wait);
        weft_op_remove(reduce);
    }
    FOR_EACH_SYNC_OP(scale, syncs, s, GRAD_SCALE) weft_op_remove(scale);
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

static weft_status fuse_sync(const grad_syncs *syncs, const grad_sync *s, weft_var *fused) {
    FOR_EACH_SYNC_OP(reduce, syncs, s, GRAD_REDUCE) TRY(rename_op(reduce, s->var, fused));
    if (s->nscales == 0) return NULL;
    weft_op *last = grad_sync_last_of(syncs, s, GRAD_SCALE);
    FOR_EACH_SYNC_OP(scale, syncs, s, GRAD_SCALE) if (scale != last) weft_op_remove(scale);
    if (s->nscales > 1) TRY(weft_op_set_attr_float(last, "scale", s->factor));
    return rename_op(last, s->var, fused);
}

weft_status grad_buckets_write(weft_pass_context *pass, weft_program *p, const grad_syncs *syncs,
                               bucket *const *buckets, size_t count) {
    bucket_ops *made = ARENA_ARRAY(pass_scratch(pass), bucket_ops, count + 1);
    if (!made) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) TRY(make_ops(pass, p, syncs, buckets[i], i, &made[i]));
    for (size_t i = 0; i < count; i++) {
        const bucket *b = buckets[i];
        if (pass_certifies(pass)) TRY(claim_reduces(pass, syncs, b));
        if (pass_certifies(pass)) TRY(claim_scales(pass, syncs, b));
        weft_block_insert_before(p->blocks[0], made[i].before, made[i].tensor.op);
        for (size_t k = 0; k + 1 < b->count; k++) remove_sync(syncs, b->items[k]);
        TRY(fuse_sync(syncs, b->items[b->count - 1], made[i].tensor.fused));
    }
    return NULL;
}

/* --- in another order --------------------------------------------------------------------------------------------- */

static void move_behind(weft_op *op, weft_op *where, moved_ops *out) {
    out->ops[out->count] = op;
    out->behind[out->count++] = op->prev;
    weft_op_move_after(op, where);
}

/* A reduce takes the wait before it along. */
static void move_sync(const grad_syncs *syncs, const grad_sync *s, const grad_sync *behind, moved_ops *out) {
    weft_op *where = access_op(&syncs->index, grad_sync_last(syncs, behind));
    for (size_t k = 0; k < grad_sync_nops(s); k++) {
        weft_op *op = access_op(&syncs->index, grad_sync_ops(syncs, s)[k].position);
        weft_op *wait = op_is_grad_reduce(op) ? grad_reduce_wait(op) : NULL;
        if (wait) move_behind(wait, where, out), where = wait;
        move_behind(op, where, out);
        where = op;
    }
}

weft_status grad_syncs_move(const grad_syncs *syncs, const bucket_moves *moves, arena *scratch, moved_ops *out) {
    size_t most = 0;
    for (size_t i = 0; i < moves->count; i++) most += 2 * grad_sync_nops(&syncs->items[moves->all[i].reduce]);
    *out = (moved_ops){ARENA_ARRAY(scratch, weft_op *, most + 1), ARENA_ARRAY(scratch, weft_op *, most + 1), 0};
    if (!out->ops || !out->behind) return base_out_of_memory();
    for (size_t i = 0; i < moves->count; i++)
        move_sync(syncs, &syncs->items[moves->all[i].reduce], &syncs->items[moves->all[i].behind], out);
    return NULL;
}

void moved_ops_undo(moved_ops *moved) {
    while (moved->count) {
        weft_op *op = moved->ops[--moved->count], *behind = moved->behind[moved->count];
        if (behind)
            weft_op_move_after(op, behind);
        else
            weft_op_move_before(op, op->block->first);
    }
}
