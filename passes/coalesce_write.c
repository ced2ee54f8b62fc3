/* Writing buckets into a program. All ops and variables are made before the first edit.
 *
 * The last member's sync stays where it is and gets the fused variable; of its scales the last stays, with the product
 * of all. The other members' syncs go. Views are padded to ALIGNMENT bytes, said explicitly, so that the layout is the
 * same on every device. */
#include <stdio.h>

#include "passes/coalesce_grads.h"

enum { ALIGNMENT = 256 };

typedef struct bucket_ops {
    weft_op *coalesce;
    weft_op *before; /* the op that it is inserted before */
    weft_var *fused;
} bucket_ops;

static size_t numel(const weft_var *v) {
    size_t n = 1;
    for (size_t i = 0; i < v->ndim; i++) n *= (size_t)v->dims[i];
    return n;
}

/* Elements of the buffer, with padding. */
static bool fused_numel(const grad_bucket *b, int64_t *out) {
    size_t total = 0, size = weft_dtype_nbytes((weft_dtype)b->members[0]->var->dtype);
    for (size_t i = 0; i < b->count; i++) {
        size_t nbytes;
        if (!base_add(numel(b->members[i]->var) * size, ALIGNMENT - 1, &nbytes)) return false;
        if (!base_add(total, nbytes / ALIGNMENT * ALIGNMENT / size, &total)) return false;
    }
    *out = (int64_t)total;
    return total <= (size_t)INT64_MAX / 16;
}

/* A placement that shards nothing. */
static weft_status unsharded(weft_program *p, const mesh *m, placement **out) {
    placement where = {.mesh = m, .ndim = 1, .dims_mapping = (const int64_t[]){-1}};
    where.dynamic_dims = (const uint8_t[]){0};
    return placement_clone(p, &where, out);
}

static weft_status make_fused(weft_program *p, const grad_bucket *b, size_t index, weft_var **out) {
    char stem[64];
    snprintf(stem, sizeof stem, "coalesce_grad_%zu", index);
    const name *n;
    int64_t total;
    weft_var *v;
    if (!fused_numel(b, &total))
        return weft_status_create(WEFT_LIMIT, p->place, "a bucket of %zu gradients is too large", b->count);
    TRY(program_unique_name(p, stem, &n));
    TRY(weft_block_add_var(p->blocks[0], n->bytes, (weft_dtype)b->members[0]->var->dtype, 1, &total, &v));
    v->has_persistable = v->has_stop_gradient = v->stop_gradient = true;
    const mesh *m = grad_sync_mesh(b->members[0]);
    if (m) TRY(unsharded(p, m, &v->dist));
    *out = v;
    return NULL;
}

/* --- the coalesce_tensor --------------------------------------------------------------------------------------------
 */

static weft_status set_shapes(weft_op *op, const grad_bucket *b, arena *a) {
    size_t naxes = 0, at = 0;
    for (size_t i = 0; i < b->count; i++) naxes += b->members[i]->var->ndim;
    int64_t *shapes = ARENA_ARRAY(a, int64_t, naxes + 1), *ranks = ARENA_ARRAY(a, int64_t, b->count);
    if (!shapes || !ranks) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) {
        const weft_var *v = b->members[i]->var;
        ranks[i] = (int64_t)v->ndim;
        for (size_t k = 0; k < v->ndim; k++) shapes[at++] = v->dims[k];
    }
    TRY(weft_op_set_attr_longs(op, "concated_shapes", naxes, shapes));
    return weft_op_set_attr_longs(op, "concated_ranks", b->count, ranks);
}

static weft_status set_coalesce_attrs(weft_op *op, const grad_bucket *b, arena *a) {
    TRY(weft_op_set_attr_int(op, "align_size", ALIGNMENT));
    TRY(weft_op_set_attr_float(op, "constant", 0.0));
    TRY(weft_op_set_attr_bool(op, "copy_data", false));
    TRY(weft_op_set_attr_int(op, "dtype", b->members[0]->var->dtype));
    TRY(weft_op_set_attr_string(op, "op_device", ""));
    TRY(weft_op_set_attr_string(op, "op_namescope", "/"));
    TRY(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    TRY(weft_op_set_attr_bool(op, "persist_output", false));
    TRY(weft_op_set_attr_bool(op, "set_constant", false));
    TRY(weft_op_set_attr_bool(op, "use_align", true));
    TRY(weft_op_set_attr_int(op, "user_defined_size_of_dtype", -1));
    return set_shapes(op, b, a);
}

static weft_status set_coalesce_dist(weft_op *op, const grad_bucket *b, weft_var *fused) {
    weft_program *p = op->program;
    const mesh *m = grad_sync_mesh(b->members[0]);
    if (!m) return NULL;
    op_dist *d;
    TRY(op_dist_get(op, &d));
    d->mesh = m;
    d->inputs = ARENA_ARRAY(&p->arena, op_placement, b->count);
    d->outputs = ARENA_ARRAY(&p->arena, op_placement, b->count + 1);
    if (!d->inputs || !d->outputs) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) {
        const weft_var *v = b->members[i]->var;
        if (!v->dist) continue;
        d->inputs[d->ninputs++] = d->outputs[d->noutputs++] = (op_placement){v->name, *v->dist};
    }
    if (fused->dist) d->outputs[d->noutputs++] = (op_placement){fused->name, *fused->dist};
    return NULL;
}

static weft_op *first_access(const grad_bucket *b) {
    weft_op *first = b->members[0]->accesses[0].op;
    for (size_t i = 1; i < b->count; i++)
        if (b->members[i]->accesses[0].op->mark < first->mark) first = b->members[i]->accesses[0].op;
    return first;
}

static weft_status make_ops(weft_program *p, const grad_bucket *b, size_t index, arena *a, bucket_ops *out) {
    weft_op *op;
    TRY(make_fused(p, b, index, &out->fused));
    TRY(weft_op_create(p, "coalesce_tensor", &op));
    for (size_t i = 0; i < b->count; i++) {
        TRY(weft_op_add_input(op, "Input", b->members[i]->var));
        TRY(weft_op_add_output(op, "Output", b->members[i]->var));
    }
    TRY(weft_op_add_output(op, "FusedOutput", out->fused));
    TRY(set_coalesce_attrs(op, b, a));
    TRY(set_coalesce_dist(op, b, out->fused));
    out->coalesce = op;
    out->before = first_access(b);
    return NULL;
}

/* --- the syncs ------------------------------------------------------------------------------------------------------
 */

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
    op_dist *d = op->dist;
    if (!d) return NULL;
    d->ninputs = d->noutputs = 0;
    d->extra_json = NULL; /* what else the sidecar says of the op is about the member */
    if (!fused->dist) return NULL;
    d->inputs = ARENA_ARRAY(&op->program->arena, op_placement, 1);
    d->outputs = ARENA_ARRAY(&op->program->arena, op_placement, 1);
    if (!d->inputs || !d->outputs) return base_out_of_memory();
    d->inputs[0] = d->outputs[0] = (op_placement){fused->name, *fused->dist};
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

weft_status grad_buckets_write(weft_program *p, arena *a, grad_bucket *const *buckets, size_t count) {
    bucket_ops *made = ARENA_ARRAY(a, bucket_ops, count + 1);
    if (!made) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) TRY(make_ops(p, buckets[i], i, a, &made[i]));
    for (size_t i = 0; i < count; i++) {
        const grad_bucket *b = buckets[i];
        weft_block_insert_before(p->blocks[0], made[i].before, made[i].coalesce);
        for (size_t k = 0; k + 1 < b->count; k++) remove_sync(b->members[k]);
        TRY(fuse_sync(b->members[b->count - 1], made[i].fused));
    }
    return NULL;
}
