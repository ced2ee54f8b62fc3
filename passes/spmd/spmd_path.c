/* spmd_path.c: the cheapest steps from one placement to another.
 *
 * A shortest path over placements. Parts of open extents are sent only where nothing else leads there. A step costs
 * what a rank sends with ring algorithms; of equal bytes the path is better on which all ranks have something, then the
 * one that holds less at its largest, then that of fewer steps. Axes that neither placement names may help: what is
 * sliced along them is summed in parts, and gathered. Small values do without, since that is two collectives for one.
 * All ranks find the same path: sizes are those of the largest parts. Axes along which a value is summed, scattered or
 * gathered go in one collective where parts are equal. Paths are kept, since programs ask for few different ones.
 */
#include "passes/spmd/spmd.h"

#include "base/types.h"
#include "program/grow.h"

enum { FIRST_NODES = 64, MOST_NODES = 2048, HELPED_NBYTES = 1 << 20 };

typedef struct path_node {
    axes_placed at;
    spmd_step step; /* that leads here from node `from`; -1: the start */
    double sent, peak;
    int from, nsteps;
    int nempty, nopen; /* steps that leave some rank without elements; that send parts of an open extent */
    bool is_done;
} path_node;

typedef struct path_finder {
    const spmd_mesh *mesh;
    const kept_shape *whole;
    const axes_placed *to;
    uint32_t idle; /* axes that are left alone */
    bool is_short; /* of memory */
    path_node *nodes;
    arena *memory; /* of nodes */
    size_t capacity;
    int count, now; /* `now`: the node whose steps are taken */
    double have;    /* bytes of what it has */
    int end;        /* the node of `to`; 0: it was not reached yet */
} path_finder;

/* --- sizes -------------------------------------------------------------------------------------------------------- */

/* Bytes of the largest part. */
static double nbytes_of(const path_finder *f, const axes_placed *p) {
    int64_t extent[WEFT_MAX_RANK];
    double n = (double)weft_dtype_nbytes((weft_dtype)f->whole->dtype);
    placed_priced(f->mesh, p, f->whole, extent);
    for (int d = 0; d < f->whole->ndim; d++) n *= (double)extent[d];
    return n;
}

/* Parts of parts are equal only if all were. */
static bool is_even(const path_finder *f, const axes_placed *p, int dim) {
    return axes_cut(&f->mesh->axes, f->whole->dims[dim], p->axes[dim], p->naxes[dim]) == AXES_CUT_EVEN;
}

/* Whether the parts of `dim` would be equal along `n` ranks. An open extent divides by any number. */
static bool divides(const path_finder *f, const axes_placed *p, int dim, int64_t n) {
    int64_t extent[WEFT_MAX_RANK];
    placed_largest(f->mesh, p, f->whole, extent);
    return extent[dim] < 0 || (extent[dim] % n == 0 && is_even(f, p, dim));
}

static double sent_by(spmd_step_kind kind, double w, double b) {
    switch (kind) {
    case STEP_SLICE:
    case STEP_SHARE:
    case STEP_PAD: return 0;
    case STEP_ALL_TO_ALL:
    case STEP_REDUCE_SCATTER: return (w - 1) / w * b;
    case STEP_PERMUTE: return b;
    case STEP_ALL_REDUCE: return 2 * (w - 1) / w * b;
    case STEP_ALL_GATHER: return (w - 1) * b;
    }
    return 0;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool is_dearer(const path_node *a, const path_node *b) {
    if (a->nopen != b->nopen) return a->nopen > b->nopen;
    if (a->sent > b->sent * (1 + 1e-9) || b->sent > a->sent * (1 + 1e-9)) return a->sent > b->sent;
    if (a->nempty != b->nempty) return a->nempty > b->nempty;
    if (a->peak > b->peak || b->peak > a->peak) return a->peak > b->peak;
    return a->nsteps > b->nsteps;
}

/* Whether the placement leaves some rank without elements of a dimension, other than where the path begins and ends. */
static bool leaves_nothing(const path_finder *f, const axes_placed *p) {
    const axes_placed *ends[] = {&f->nodes[0].at, f->to};
    for (int d = 0; d < f->whole->ndim; d++) {
        if (placed_fitting(f->mesh, p, d, f->whole->dims[d]) == p->naxes[d]) continue;
        bool is_end = false;
        for (int i = 0; i < 2; i++) is_end |= placed_dim_axes(ends[i], d) == placed_dim_axes(p, d);
        if (!is_end) return true;
    }
    return false;
}

static bool sends_open(const path_finder *f, spmd_step_kind kind, const axes_placed *now, const axes_placed *made) {
    for (int d = 0; d < f->whole->ndim && kind != STEP_SLICE; d++)
        if (f->whole->dims[d] < 0 && made->naxes[d] != now->naxes[d]) return true;
    return false;
}

static bool has_room(path_finder *f) {
    if (f->count == MOST_NODES) return false;
    weft_status status = grow(f->memory, &f->nodes, &f->capacity, (size_t)f->count + 1, sizeof *f->nodes);
    f->is_short |= status != NULL;
    weft_status_free(status);
    return !f->is_short;
}

/* `priced`: what the collective works on, where that is padded; NULL: what there is. */
static void reach(path_finder *f, spmd_step step, const axes_placed *made, double priced) {
    const path_node *now = &f->nodes[f->now];
    double have = f->have, get = step.kind == STEP_ALL_REDUCE ? 0 : nbytes_of(f, made); /* in place */
    step.sent = sent_by(step.kind, (double)spmd_extent(f->mesh, step.axes), priced > 0 ? priced : have);
    step.made = *made;
    if (!step.divide) step.divide = 1;
    path_node n = {.at = *made, .step = step, .from = f->now, .nsteps = now->nsteps + 1};
    n.sent = now->sent + step.sent;
    n.nempty = now->nempty + leaves_nothing(f, made);
    n.nopen = now->nopen + sends_open(f, step.kind, &now->at, made);
    n.peak = now->peak > have + get ? now->peak : have + get;
    if (f->end && is_dearer(&n, &f->nodes[f->end])) return; /* what follows it is no cheaper */
    for (int i = 0; i < f->count; i++) {
        path_node *known = &f->nodes[i];
        if (!placed_same(&known->at, made, f->whole->ndim, f->mesh->axes.naxes)) continue;
        if (!known->is_done && is_dearer(known, &n)) *known = n;
        return;
    }
    if (!has_room(f)) return;
    if (placed_same(made, f->to, f->whole->ndim, f->mesh->axes.naxes)) f->end = f->count;
    f->nodes[f->count++] = n;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static bool is_sum(int partial) {
    return partial == 1 + WEFT_REDUCE_SUM || partial == 1 + WEFT_REDUCE_AVG;
}

/* Takes what is partial along the axes as summed; false: it is partial in different ways, or stays so. */
static bool sum_up(const path_finder *f, uint32_t axes, axes_placed *made, spmd_step *step) {
    int first = 0;
    step->divide = 1;
    for (int i = 0; i < f->mesh->axes.naxes; i++) {
        if (!(axes >> i & 1)) continue;
        int own = made->partial[i];
        if (!own || own == f->to->partial[i] || (first && own != first && !(is_sum(own) && is_sum(first))))
            return false;
        first = first ? first : own;
        if (own == 1 + WEFT_REDUCE_AVG) step->divide *= f->mesh->axes.extent[i];
        made->partial[i] = 0;
    }
    step->reduce = is_sum(first) ? WEFT_REDUCE_SUM : first - 1;
    return true;
}

static bool touches(const axes_placed *p, int32_t ndim, uint32_t axes) {
    for (int d = 0; d < ndim; d++)
        for (int i = 0; i < p->naxes[d]; i++)
            if (axes >> p->axes[d][i] & 1) return true;
    return false;
}

/* A dimension takes more axes: of what all have, or of a sum. */
static void shard(path_finder *f, uint32_t axes, const axes_placed *now) {
    bool is_partial = (placed_partial(now, f->mesh->axes.naxes) & axes) != 0;
    int64_t w = spmd_extent(f->mesh, axes);
    for (int d = 0; d < f->whole->ndim; d++) {
        spmd_step step = {.kind = is_partial ? STEP_REDUCE_SCATTER : STEP_SLICE, .axes = axes, .dim = d};
        axes_placed made = *now;
        if (is_partial && (!sum_up(f, axes, &made, &step) || step.reduce != WEFT_REDUCE_SUM)) return;
        if ((axes & (axes - 1)) && !divides(f, now, d, w)) continue;
        for (int i = 0; i < f->mesh->axes.naxes; i++)
            if (axes >> i & 1) placed_shard(&made, d, i);
        reach(f, step, &made, (double)w * nbytes_of(f, &made));
    }
}

static void all_reduce(path_finder *f, uint32_t axes, const axes_placed *now) {
    spmd_step step = {.kind = STEP_ALL_REDUCE, .axes = axes};
    axes_placed made = *now;
    if (sum_up(f, axes, &made, &step)) reach(f, step, &made, 0);
}

/* Takes the axes from the insides of dimensions, as far as a ring is in order. */
static bool drop_axes(const path_finder *f, uint32_t axes, axes_placed *made, int *out_dim) {
    bool alone = !(axes & (axes - 1));
    uint32_t left = axes;
    *out_dim = -2;
    for (int d = 0; d < f->whole->ndim; d++) {
        int last = f->mesh->axes.naxes, had = made->naxes[d];
        while (made->naxes[d] && (left >> made->axes[d][made->naxes[d] - 1] & 1)) {
            int axis = made->axes[d][made->naxes[d] - 1];
            if (axis > last) return false;
            last = axis;
            left &= ~(UINT32_C(1) << axis);
            made->naxes[d]--;
        }
        if (made->naxes[d] == had) continue;
        if (!alone && !is_even(f, &f->nodes[f->now].at, d)) return false;
        *out_dim = *out_dim == -2 ? d : -1; /* parts of several dimensions come together */
    }
    return left == 0;
}

static void all_gather(path_finder *f, uint32_t axes, const axes_placed *now) {
    spmd_step step = {.kind = STEP_ALL_GATHER, .axes = axes};
    axes_placed made = *now;
    if (drop_axes(f, axes, &made, &step.dim)) reach(f, step, &made, 0);
}

/* Parts along the axes, innermost in one dimension, become parts of another; of several axes if all are equal. */
static void all_to_all(path_finder *f, uint32_t axes, const axes_placed *now) {
    int64_t w = spmd_extent(f->mesh, axes);
    axes_placed without = *now;
    int from;
    if (!drop_axes(f, axes, &without, &from) || from < 0 || f->whole->dims[from] < 0) return;
    for (int d = 0; d < f->whole->ndim; d++) {
        axes_placed made = *now;
        if (d == from || ((axes & (axes - 1)) && !divides(f, now, d, w))) continue;
        for (int i = 0; i < f->mesh->axes.naxes; i++)
            if (axes >> i & 1) placed_shard(&made, d, i);
        double padded = (double)w * nbytes_of(f, &made); /* of both dimensions the largest part */
        made.naxes[from] = without.naxes[from];
        reach(f, (spmd_step){.kind = STEP_ALL_TO_ALL, .axes = axes, .dim = d, .from = from}, &made, padded);
    }
}

/* What is to be a sum: of a share of each rank, or of parts among zeros. Shares of integers would be rounded. */
static void make_partial(path_finder *f, uint32_t axes, const axes_placed *now) {
    axes_placed made = *now;
    bool is_sharded = touches(now, f->whole->ndim, axes);
    spmd_step step = {.kind = is_sharded ? STEP_PAD : STEP_SHARE, .axes = axes, .dim = -1};
    if (is_sharded ? !drop_axes(f, axes, &made, &step.dim) || step.dim < 0 || f->whole->dims[step.dim] < 0
                   : !dtype_is_float(f->whole->dtype))
        return;
    for (int i = 0; i < f->mesh->axes.naxes; i++) {
        if (!(axes >> i & 1)) continue;
        if (made.partial[i] || f->to->partial[i] != 1 + WEFT_REDUCE_SUM) return;
        made.partial[i] = 1 + WEFT_REDUCE_SUM;
    }
    reach(f, step, &made, 0);
}

/* To the end at once, where ranks have then what others had. */
static void permute(path_finder *f, const axes_placed *now) {
    uint32_t axes = spmd_permuted(f->mesh, f->whole, now, f->to);
    if (axes) reach(f, (spmd_step){.kind = STEP_PERMUTE, .axes = axes}, f->to, 0);
}

static void take_steps(path_finder *f) {
    const axes_placed now = f->nodes[f->now].at;
    int naxes = f->mesh->axes.naxes;
    f->have = nbytes_of(f, &now);
    uint32_t partial = placed_partial(&now, naxes);
    for (uint32_t axes = 1; axes < UINT32_C(1) << naxes; axes++) {
        if (axes & f->idle) continue;
        bool sharded = touches(&now, f->whole->ndim, axes);
        if (!sharded && (partial & axes) == axes) all_reduce(f, axes, &now);
        if (!sharded && ((partial & axes) == axes || !(partial & axes))) shard(f, axes, &now);
        if (sharded) all_gather(f, axes, &now);
        make_partial(f, axes, &now);
    }
    permute(f, &now);
    for (int a = 0; a < naxes; a++) all_to_all(f, UINT32_C(1) << a, &now);
    for (uint32_t axes = 3; axes < UINT32_C(1) << naxes; axes++)
        if ((axes & (axes - 1)) && !(axes & f->idle)) all_to_all(f, axes, &now);
}

static int next_node(const path_finder *f) {
    int best = -1;
    for (int i = 0; i < f->count; i++)
        if (!f->nodes[i].is_done && (best < 0 || is_dearer(&f->nodes[best], &f->nodes[i]))) best = i;
    return best;
}

static bool write_path(const path_finder *f, int last, spmd_path *out) {
    out->sent = f->nodes[last].sent;
    out->nopen = f->nodes[last].nopen;
    out->count = f->nodes[last].nsteps;
    if (out->count > SPMD_STEPS) return false;
    for (int i = last, k = out->count; k > 0; i = f->nodes[i].from) out->steps[--k] = f->nodes[i].step;
    return true;
}

static uint32_t axes_named(const path_finder *f, const axes_placed *p) {
    uint32_t axes = placed_partial(p, f->mesh->axes.naxes);
    for (int d = 0; d < f->whole->ndim; d++)
        for (int i = 0; i < p->naxes[d]; i++) axes |= UINT32_C(1) << p->axes[d][i];
    return axes;
}

static bool search(path_finder *f, const axes_placed *from, spmd_path *out) {
    if (nbytes_of(f, from) < HELPED_NBYTES) f->idle = ~(axes_named(f, from) | axes_named(f, f->to));
    f->nodes[0] = (path_node){.at = *from, .from = -1};
    f->count = 1;
    while ((f->now = next_node(f)) >= 0) {
        path_node *n = &f->nodes[f->now];
        if (f->end && f->now == f->end) return write_path(f, f->now, out);
        n->is_done = true;
        take_steps(f);
        if (f->is_short) return false;
    }
    return false;
}

/* --- kept paths --------------------------------------------------------------------------------------------------- */

typedef struct path_key {
    int64_t dims[WEFT_MAX_RANK];
    axes_placed from, to;
    int32_t ndim, dtype;
} path_key;

typedef struct kept_path {
    path_key key;
    bool is_tried, is_there;
    double sent;
    int nopen, count;
    const spmd_step *steps;
} kept_path;

struct spmd_paths {
    arena *memory;
    hash_table table;
    kept_path **items;
    size_t nitems, capacity;
    path_node *nodes; /* of the search at hand */
    size_t nnodes;
};

weft_status spmd_paths_init(spmd_mesh *m, arena *memory) {
    m->paths = ARENA_NEW(memory, spmd_paths);
    if (!m->paths) return base_out_of_memory();
    *m->paths = (spmd_paths){.memory = memory};
    return grow(memory, &m->paths->nodes, &m->paths->nnodes, FIRST_NODES, sizeof *m->paths->nodes);
}

static void put_placed(axes_placed *to, const axes_placed *p, int32_t ndim, int naxes) {
    memcpy(to->partial, p->partial, (size_t)naxes);
    for (int d = 0; d < ndim; d++)
        for (int i = 0; i < p->naxes[d]; i++) placed_shard(to, d, p->axes[d][i]);
}

/* Equal bytes for equal questions. */
static void make_key(const spmd_mesh *m, const kept_shape *whole, const axes_placed *from, const axes_placed *to,
                     path_key *out) {
    memset(out, 0, sizeof *out);
    out->ndim = whole->ndim;
    out->dtype = (int32_t)whole->dtype;
    for (int d = 0; d < whole->ndim; d++) out->dims[d] = whole->dims[d];
    put_placed(&out->from, from, whole->ndim, m->axes.naxes);
    put_placed(&out->to, to, whole->ndim, m->axes.naxes);
}

static kept_path *add_path(spmd_paths *paths, const path_key *key, table_probe *at) {
    kept_path *made = ARENA_NEW(paths->memory, kept_path);
    weft_status status = table_reserve(paths->memory, &paths->table, paths->nitems + 1);
    if (!status) status = grow(paths->memory, &paths->items, &paths->capacity, paths->nitems + 1, sizeof(kept_path *));
    weft_status_free(status);
    if (!made || status) return NULL;
    made->key = *key;
    *at = table_find(&paths->table, at->hash); /* it may have grown */
    while (at->item != TABLE_NONE) table_next(&paths->table, at);
    paths->items[paths->nitems] = made;
    table_put(&paths->table, at, (uint32_t)paths->nitems++);
    return made;
}

/* Writes `out` too. */
static void try_path(const spmd_mesh *m, const kept_shape *whole, kept_path *kept, const axes_placed *from,
                     const axes_placed *to, spmd_path *out) {
    spmd_paths *paths = m->paths;
    path_finder f = {
        .mesh = m, .whole = whole, .to = to, .nodes = paths->nodes, .memory = paths->memory, .capacity = paths->nnodes};
    bool is_there = search(&f, from, out);
    paths->nodes = f.nodes;
    paths->nnodes = f.capacity;
    kept->is_tried = true;
    if (!is_there) return;
    kept->sent = out->sent;
    kept->nopen = out->nopen;
    kept->count = out->count;
    kept->steps = arena_copy(paths->memory, out->steps, (size_t)out->count * sizeof *out->steps);
    kept->is_there = kept->steps != NULL;
}

bool spmd_find_path(const spmd_mesh *m, const kept_shape *whole, const axes_placed *from, const axes_placed *to,
                    spmd_path *out) {
    path_key key;
    out->start = *from;
    out->count = 0; /* steps are written as they come */
    out->nopen = 0;
    out->sent = 0;
    if (placed_same(from, to, whole->ndim, m->axes.naxes)) return true;
    for (int i = 0; i < m->axes.naxes; i++)
        if (to->partial[i] > 1 + WEFT_REDUCE_SUM && from->partial[i] != to->partial[i]) return false;
    make_key(m, whole, from, to, &key);
    spmd_paths *paths = m->paths;
    table_probe at = table_find(&paths->table, base_hash(&key, sizeof key));
    while (at.item != TABLE_NONE && memcmp(&paths->items[at.item]->key, &key, sizeof key) != 0)
        table_next(&paths->table, &at);
    kept_path *kept = at.item == TABLE_NONE ? add_path(paths, &key, &at) : paths->items[at.item];
    if (!kept) return false;
    if (!kept->is_tried) try_path(m, whole, kept, from, to, out);
    if (!kept->is_there) return false;
    out->nopen = kept->nopen;
    out->sent = kept->sent;
    out->count = kept->count;
    memcpy(out->steps, kept->steps, (size_t)out->count * sizeof *out->steps);
    return true;
}
