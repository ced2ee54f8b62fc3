/* The coalesce_tensor of a bucket, and the var of its buffer. */
#include "passes/bucket_tensor.h"

enum { ALIGNMENT = 256 };

static size_t numel(const weft_var *v) {
    size_t n = 1;
    for (size_t i = 0; i < v->ndim; i++) n *= (size_t)v->dims[i];
    return n;
}

size_t bucket_tensor_padded(size_t nbytes) {
    return (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Elements of the buffer, with padding. */
static bool fused_numel(const bucket_layout *l, int64_t *out) {
    size_t total = 0, size = weft_dtype_nbytes((weft_dtype)l->views[0]->dtype), alignment = l->align ? ALIGNMENT : size;
    for (size_t i = 0; i < l->count; i++) {
        size_t nbytes;
        if (!base_add(numel(l->views[i]) * size, alignment - 1, &nbytes)) return false;
        if (!base_add(total, nbytes / alignment * alignment / size, &total)) return false;
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

static weft_status make_fused(weft_program *p, const bucket_layout *l, weft_var **out) {
    const name *n;
    int64_t total;
    weft_var *v;
    if (!fused_numel(l, &total))
        return weft_status_create(WEFT_LIMIT, p->place, "a bucket of %zu gradients is too large", l->count);
    TRY(program_unique_name(p, l->stem, &n));
    TRY(weft_block_add_var(p->blocks[0], n->bytes, (weft_dtype)l->views[0]->dtype, 1, &total, &v));
    v->has_persistable = v->has_stop_gradient = v->stop_gradient = true;
    if (l->mesh) TRY(unsharded(p, l->mesh, &v->dist));
    *out = v;
    return NULL;
}

/* `values` is of the program. */
static weft_status set_longs(weft_op *op, const char *name_of_attr, size_t count, const int64_t *values) {
    weft_attr *to;
    TRY(op_set_counted(op, name_of_attr, ATTR_LONGS, count, &to));
    to->u.ints = values;
    return NULL;
}

static weft_status set_shapes(weft_op *op, const bucket_layout *l) {
    arena *a = &op->program->arena;
    size_t naxes = 0, at = 0;
    for (size_t i = 0; i < l->count; i++) naxes += l->views[i]->ndim;
    int64_t *shapes = ARENA_ARRAY(a, int64_t, naxes + 1), *ranks = ARENA_ARRAY(a, int64_t, l->count);
    if (!shapes || !ranks) return base_out_of_memory();
    for (size_t i = 0; i < l->count; i++) {
        const weft_var *v = l->views[i];
        ranks[i] = (int64_t)v->ndim;
        for (size_t k = 0; k < v->ndim; k++) shapes[at++] = v->dims[k];
    }
    TRY(set_longs(op, "concated_shapes", naxes, shapes));
    return set_longs(op, "concated_ranks", l->count, ranks);
}

static weft_status set_attrs(weft_op *op, const bucket_layout *l) {
    TRY(weft_op_set_attr_int(op, "align_size", l->align ? ALIGNMENT : -1));
    TRY(weft_op_set_attr_float(op, "constant", 0.0));
    TRY(weft_op_set_attr_bool(op, "copy_data", l->copy));
    TRY(weft_op_set_attr_int(op, "dtype", l->views[0]->dtype));
    TRY(weft_op_set_attr_string(op, "op_device", ""));
    TRY(weft_op_set_attr_string(op, "op_namescope", "/"));
    TRY(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    TRY(weft_op_set_attr_bool(op, "persist_output", false));
    TRY(weft_op_set_attr_bool(op, "set_constant", false));
    TRY(weft_op_set_attr_bool(op, "use_align", l->align));
    TRY(weft_op_set_attr_int(op, "user_defined_size_of_dtype", -1));
    return set_shapes(op, l);
}

static size_t put_placements(op_placement *list, weft_var *const *vars, size_t count) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (vars[i]->dist) list[n++] = (op_placement){vars[i]->name, vars[i]->dist};
    return n;
}

/* Both sides have one list where members are their own views. */
static weft_status set_dist(weft_op *op, const bucket_layout *l, weft_var *fused) {
    weft_program *p = op->program;
    if (!l->mesh) return NULL;
    op_dist *own;
    op_dist_rest *d;
    TRY(op_dist_get(op, &own));
    TRY(op_dist_rest_get(p, own, &d));
    d->mesh = l->mesh;
    bool same = l->inputs == l->views;
    d->outputs = ARENA_ARRAY(&p->arena, op_placement, l->count + 1);
    d->inputs = same ? d->outputs : ARENA_ARRAY(&p->arena, op_placement, l->count);
    if (!d->inputs || !d->outputs) return base_out_of_memory();
    d->noutputs = put_placements(d->outputs, l->views, l->count);
    d->ninputs = same ? d->noutputs : put_placements(d->inputs, l->inputs, l->count);
    if (fused->dist) d->outputs[d->noutputs++] = (op_placement){fused->name, fused->dist};
    return NULL;
}

static weft_status append_args(weft_op *op, bool output, const char *slot_name, weft_var *const *vars, size_t count) {
    uint32_t s;
    TRY(op_append_room(op, output, slot_name, count, &s));
    for (size_t i = 0; i < count; i++) TRY(op_append_arg(op, output, s, vars[i]));
    return NULL;
}

weft_status bucket_tensor_make(weft_program *p, const bucket_layout *l, bucket_tensor *out) {
    weft_op *op;
    weft_var *fused = NULL;
    TRY(make_fused(p, l, &fused));
    TRY(weft_op_create(p, "coalesce_tensor", &op));
    TRY(append_args(op, false, "Input", l->inputs, l->count));
    TRY(weft_op_add_output(op, "FusedOutput", fused));
    TRY(append_args(op, true, "Output", l->views, l->count));
    TRY(set_attrs(op, l));
    TRY(set_dist(op, l, fused));
    *out = (bucket_tensor){op, fused};
    return NULL;
}

weft_status bucket_tensor_claim(weft_pass_context *pass, const bucket_layout *l, const bucket_tensor *of) {
    size_t size = weft_dtype_nbytes((weft_dtype)l->views[0]->dtype), alignment = l->align ? ALIGNMENT : size, at = 0;
    pass_claim claim = {.kind = CLAIM_SLICE, .op = of->op, .buffer = of->fused};
    for (size_t i = 0; i < l->count && pass_certifies(pass); i++) {
        size_t nbytes = numel(l->views[i]) * size;
        claim.var = l->views[i];
        claim.offset = (int64_t)at;
        claim.nbytes = (int64_t)nbytes;
        TRY(pass_claim_add(pass, claim));
        at += (nbytes + alignment - 1) / alignment * alignment;
    }
    return NULL;
}
