/* spmd_path.c: the steps from one placement to another.
 *
 * What makes a value smaller comes first: slices, then sums of which a rank keeps its part, then exchanges; what makes
 * it larger comes last. Axes along which all is summed go in one collective, and so do axes that are gathered of one
 * dimension. Bytes are what a rank sends with ring algorithms. */
#include "passes/spmd/spmd.h"

typedef struct path_finder {
    const spmd_mesh *mesh;
    const shape *whole;
    const axes_placed *to;
    axes_placed now;
    spmd_path *out;
} path_finder;

static double sent_by(spmd_step_kind kind, double w, double b) {
    switch (kind) {
    case STEP_SLICE: return 0;
    case STEP_ALL_TO_ALL:
    case STEP_REDUCE_SCATTER: return (w - 1) / w * b;
    case STEP_ALL_REDUCE: return 2 * (w - 1) / w * b;
    case STEP_ALL_GATHER: return (w - 1) * b;
    }
    return 0;
}

static bool add_step(path_finder *f, spmd_step step, const axes_placed *made) {
    if (f->out->count == SPMD_STEPS) return false;
    double nbytes = (double)placed_nbytes(f->mesh, &f->now, f->whole);
    step.sent = sent_by(step.kind, (double)spmd_extent(f->mesh, step.axes), nbytes);
    f->out->sent += step.sent;
    step.made = *made;
    if (!step.divide) step.divide = 1;
    f->out->steps[f->out->count++] = step;
    f->now = *made;
    return true;
}

/* The axis that is to shard `dim` next; -1: none, or what shards it now is in the way. */
static int next_axis(const path_finder *f, int dim) {
    int n = f->now.naxes[dim];
    if (n >= f->to->naxes[dim]) return -1;
    for (int i = 0; i < n; i++)
        if (f->now.axes[dim][i] != f->to->axes[dim][i]) return -1;
    return f->to->axes[dim][n];
}

static bool divides(const path_finder *f, int dim, int axis) {
    int64_t extent[WEFT_MAX_RANK];
    placed_extents(f->mesh, &f->now, f->whole, extent);
    return extent[dim] >= 0 && extent[dim] % f->mesh->axes.extent[axis] == 0;
}

static bool is_sum(int partial) {
    return partial == 1 + WEFT_REDUCE_SUM || partial == 1 + WEFT_REDUCE_AVG;
}

/* Slices, and sums of which parts are kept. */
static bool shrink(path_finder *f, bool *out_did) {
    for (int d = 0; d < f->whole->ndim; d++) {
        int axis = next_axis(f, d);
        if (axis < 0 || placed_dim_of(&f->now, f->whole->ndim, axis) >= 0) continue;
        int partial = f->now.partial[axis];
        if (partial && (!is_sum(partial) || !divides(f, d, axis))) continue;
        spmd_step step = {.kind = partial ? STEP_REDUCE_SCATTER : STEP_SLICE, .axes = UINT32_C(1) << axis, .dim = d};
        if (partial == 1 + WEFT_REDUCE_AVG) step.divide = f->mesh->axes.extent[axis];
        axes_placed made = f->now;
        made.partial[axis] = 0;
        placed_shard(&made, d, axis);
        *out_did = true;
        return add_step(f, step, &made);
    }
    return true;
}

static bool exchange(path_finder *f, bool *out_did) {
    for (int d = 0; d < f->whole->ndim; d++) {
        int axis = next_axis(f, d), from = axis < 0 ? -1 : placed_dim_of(&f->now, f->whole->ndim, axis);
        bool innermost = from >= 0 && f->now.axes[from][f->now.naxes[from] - 1] == axis;
        if (!innermost || from == d || !divides(f, d, axis)) continue;
        axes_placed made = f->now;
        made.naxes[from]--;
        placed_shard(&made, d, axis);
        *out_did = true;
        return add_step(f, (spmd_step){.kind = STEP_ALL_TO_ALL, .axes = UINT32_C(1) << axis, .dim = d, .from = from},
                        &made);
    }
    return true;
}

/* All axes along which it is partial in one way, and is not to be. */
static bool reduce(path_finder *f, bool *out_did) {
    spmd_step step = {.kind = STEP_ALL_REDUCE, .divide = 1};
    axes_placed made = f->now;
    int first = 0;
    for (int i = 0; i < f->mesh->axes.naxes; i++) {
        int own = f->now.partial[i];
        if (!own || own == f->to->partial[i]) continue;
        if (f->to->partial[i]) return false;
        if (first && !(is_sum(own) && is_sum(first)) && own != first) continue;
        first = first ? first : own;
        step.axes |= UINT32_C(1) << i;
        if (own == 1 + WEFT_REDUCE_AVG) step.divide *= f->mesh->axes.extent[i];
        made.partial[i] = 0;
    }
    if (!first) return true;
    step.reduce = is_sum(first) ? WEFT_REDUCE_SUM : first - 1;
    *out_did = true;
    return add_step(f, step, &made);
}

/* The axes of a dimension that do not belong there, from the innermost on, as far as their ring is in order. */
static uint32_t drop_axes(const path_finder *f, int d, axes_placed *made) {
    uint32_t axes = 0;
    int keep = 0;
    while (keep < made->naxes[d] && keep < f->to->naxes[d] && made->axes[d][keep] == f->to->axes[d][keep]) keep++;
    while (made->naxes[d] > keep) {
        uint32_t axis = UINT32_C(1) << made->axes[d][made->naxes[d] - 1];
        if (axes && axes < axis) break; /* the ring would be in another order */
        axes |= axis;
        made->naxes[d]--;
    }
    return axes;
}

static bool gather(path_finder *f, bool *out_did) {
    axes_placed made = f->now;
    spmd_step step = {.kind = STEP_ALL_GATHER, .dim = -1};
    for (int d = 0; d < f->whole->ndim; d++) {
        uint32_t axes = drop_axes(f, d, &made);
        if (!axes) continue;
        step.dim = step.axes ? -1 : d; /* parts of several dimensions come together */
        step.axes |= axes;
    }
    if (!step.axes) return true;
    *out_did = true;
    return add_step(f, step, &made);
}

bool spmd_find_path(const spmd_mesh *m, const shape *whole, const axes_placed *from, const axes_placed *to,
                    spmd_path *out) {
    path_finder f = {.mesh = m, .whole = whole, .to = to, .now = *from, .out = out};
    bool (*const moves[])(path_finder *, bool *) = {shrink, exchange, reduce, gather};
    out->start = *from;
    out->count = 0; /* steps are written as they come */
    out->sent = 0;
    for (int i = 0; i < m->axes.naxes; i++)
        if (to->partial[i] && from->partial[i] != to->partial[i]) return false;
    while (!placed_same(&f.now, to, whole->ndim, m->axes.naxes)) {
        bool did = false;
        for (size_t i = 0; i < sizeof moves / sizeof *moves && !did; i++)
            if (!moves[i](&f, &did)) return false;
        if (!did) return false;
    }
    return true;
}
