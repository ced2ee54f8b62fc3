/* spmd_price.c: seconds of steps between placements, by the model of plan/cost.h. Nothing overlaps: what a step sends
 * is waited for. */
#include "passes/spmd/spmd_price.h"

#include "ops/collectives.h"

enum { STEP_KINDS = STEP_PAD + 1 };

static const collective_kind kinds[STEP_KINDS] = {
    [STEP_ALL_TO_ALL] = COLLECTIVE_ALL_TO_ALL, [STEP_REDUCE_SCATTER] = COLLECTIVE_REDUCE_SCATTER,
    [STEP_ALL_REDUCE] = COLLECTIVE_ALL_REDUCE, [STEP_ALL_GATHER] = COLLECTIVE_ALL_GATHER,
    [STEP_PERMUTE] = COLLECTIVE_ALL_TO_ALL,
};

weft_status spmd_prices_init(spmd_prices *c, weft_context *context, const spmd_mesh *on, arena *memory,
                             const char *path) {
    *c = (spmd_prices){.mesh = on, .memory = memory};
    if (*path) TRY(weft_cluster_load(context, path, &c->cluster));
    TRY(plan_cluster_settle(&c->cluster, &c->cluster));
    c->curves = ARENA_ARRAY(c->memory, plan_curve, STEP_KINDS << AXES_MESH);
    c->has_curve = ARENA_ARRAY(c->memory, bool, STEP_KINDS << AXES_MESH);
    return c->curves && c->has_curve ? NULL : base_out_of_memory();
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* The ring of the first rank along the axes. */
static weft_status ring_along(const spmd_prices *c, uint32_t axes, plan_ring *out) {
    const mesh *m = c->mesh->mesh;
    int64_t all = mesh_size(m), *ranks = ARENA_ARRAY(c->memory, int64_t, all);
    if (!ranks) return base_out_of_memory();
    *out = (plan_ring){.id = -1, .ranks = ranks};
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        bool is_member = true;
        for (int k = m->ndim - 1; k >= 0; rest /= m->shape[k--])
            is_member &= (axes >> k & 1) || rest % m->shape[k] == 0;
        if (is_member) ranks[out->nranks++] = m->ids[i];
    }
    return NULL;
}

static weft_status curve_of(spmd_prices *c, spmd_step_kind kind, uint32_t axes, const plan_curve **out) {
    size_t at = ((size_t)kind << AXES_MESH) + axes;
    *out = &c->curves[at];
    if (c->has_curve[at]) return NULL;
    plan_ring along;
    TRY(ring_along(c, axes, &along));
    c->has_curve[at] = true;
    return plan_kind_curve(&c->cluster, &along, kinds[kind], &c->curves[at]);
}

/* Bytes of the larger side, of which a rank sends so much. */
static double larger_side(spmd_step_kind kind, double w, double sent) {
    return sent * w / (w - 1) / (kind == STEP_ALL_REDUCE ? 2 : 1);
}

static double copy_seconds(const spmd_prices *c, double nbytes) {
    return 2 * nbytes / c->cluster.bytes + c->cluster.op_seconds;
}

static weft_status add_step(spmd_prices *c, const spmd_step *step, const kept_shape *whole, double *seconds) {
    double w = (double)spmd_extent(c->mesh, step->axes);
    double made = (double)placed_nbytes(c->mesh, &step->made, whole);
    if (step->divide > 1) *seconds += copy_seconds(c, made);
    if (!kinds[step->kind]) return *seconds += copy_seconds(c, made), NULL;
    const plan_curve *curve;
    double nbytes = larger_side(step->kind, w, step->sent);
    TRY(curve_of(c, step->kind, step->axes, &curve));
    *seconds += plan_curve_seconds(curve, nbytes);
    /* parts of other dimensions than the outermost are cut and put together */
    if (step->kind != STEP_ALL_REDUCE && step->dim != 0) *seconds += 2 * copy_seconds(c, nbytes);
    if (step->kind == STEP_ALL_TO_ALL && step->from != 0) *seconds += 2 * copy_seconds(c, nbytes);
    return NULL;
}

weft_status spmd_path_seconds(spmd_prices *c, const spmd_path *path, const kept_shape *whole, double *out) {
    *out = 0;
    for (int i = 0; i < path->count; i++) TRY(add_step(c, &path->steps[i], whole, out));
    return NULL;
}

weft_status spmd_sum_seconds(spmd_prices *c, int axis, double sent, double *out) {
    const plan_curve *curve;
    TRY(curve_of(c, STEP_ALL_REDUCE, UINT32_C(1) << axis, &curve));
    *out = plan_curve_seconds(curve, larger_side(STEP_ALL_REDUCE, (double)c->mesh->axes.extent[axis], sent));
    return NULL;
}
