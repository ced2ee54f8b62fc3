/* axes_follow.c: placements through a rule. Shardings of dimensions become shardings of factors, which all inputs must
 * agree on; outputs are read off. */
#include "ops/axes.h"

enum { MOST_FACTORS = 256 };

/* How a factor is sharded. */
typedef struct factor_axes {
    uint8_t seen, count, uneven;
    uint8_t axes[AXES_MESH];
} factor_axes;

typedef struct follower {
    const axes_rule *r;
    const axes_mesh *mesh;
    const axes_placed *in;
    axes_placed *out;
    factor_axes factors[MOST_FACTORS];
    uint32_t sharding; /* mesh axes that shard some factor */
} follower;

/* --- from dimensions to factors ----------------------------------------------------------------------------------- */

axes_cuts axes_cut(const axes_mesh *on, int64_t extent, const uint8_t *axes, int naxes) {
    int64_t size[1 << AXES_MESH], parts = 1; /* size: of parts: each cut leaves two kinds of each */
    int n = 1;
    bool even = true;
    for (int i = 0; i < naxes; i++) parts *= on->extent[axes[i]];
    if (extent < 0 || extent % parts == 0) return AXES_CUT_EVEN;
    size[0] = extent;
    for (int i = 0; i < naxes; i++) {
        int64_t by = on->extent[axes[i]];
        for (int k = 0, had = n; k < had; k++) {
            int64_t most = size[k] / by + (size[k] % by != 0), last = size[k] - (by - 1) * most;
            if (size[k] % by && last <= 0) return AXES_CUT_EMPTY;
            size[k] = most;
            if (last == most) continue;
            even = false;
            size[n++] = last;
        }
    }
    return even ? AXES_CUT_EVEN : AXES_CUT_UNEVEN;
}

int axes_factors(const axes_rule *r, const axes_mesh *on, const axes_arg *x, int d, const axes_placed *p,
                 uint16_t *out_factors) {
    const axes_dim *dim = &x->dims[d];
    int at = 0;
    if (dim->nfactors == 1) {
        for (int i = 0; i < p->naxes[d]; i++) out_factors[i] = dim->factors[0];
        return p->naxes[d];
    }
    int64_t left = dim->nfactors ? r->factors[dim->factors[0]].size : 1;
    for (int i = 0; i < p->naxes[d]; i++) {
        int64_t n = on->extent[p->axes[d][i]];
        while (left == 1 && at + 1 < dim->nfactors) left = r->factors[dim->factors[++at]].size;
        if (at >= dim->nfactors) return i;
        out_factors[i] = dim->factors[at];
        left = left < 0 ? left : left % n ? 0 : left / n; /* of parts that differ the next axis cuts each */
    }
    return p->naxes[d];
}

/* The factors of dimension `d` of an argument that lies so. */
static const char *project_dim(const follower *f, const axes_arg *x, int d, const axes_placed *p, factor_axes *to) {
    uint16_t factors[AXES_MESH];
    int n = axes_factors(f->r, f->mesh, x, d, p, factors);
    for (int i = 0; i < n; i++) {
        const axes_factor *factor = &f->r->factors[factors[i]];
        factor_axes *own = &to[factors[i]];
        if (factor->why) return factor->why;
        if (own->count == AXES_MESH) return "too many mesh axes";
        own->axes[own->count++] = p->axes[d][i];
        axes_cuts cuts = axes_cut(f->mesh, factor->size, own->axes, own->count);
        bool may_differ = f->mesh->uneven && x->dims[d].nfactors == 1;
        if (cuts == AXES_CUT_EMPTY || (cuts == AXES_CUT_UNEVEN && !may_differ)) return "its extent does not divide";
        own->uneven = cuts == AXES_CUT_UNEVEN;
    }
    return n < p->naxes[d] ? "nothing may shard that dimension" : NULL;
}

static const char *project(follower *f, size_t i) {
    const axes_arg *x = &f->r->in[i];
    const axes_placed *p = &f->in[i];
    for (int d = 0; d < x->ndim; d++) {
        factor_axes own[MOST_FACTORS]; /* only those of this dimension are looked at */
        const axes_dim *dim = &x->dims[d];
        for (int k = 0; k < dim->nfactors; k++) own[dim->factors[k]] = (factor_axes){0};
        const char *why = p->naxes[d] ? project_dim(f, x, d, p, own) : NULL;
        if (why) return why;
        for (int k = 0; k < dim->nfactors; k++) {
            factor_axes *all = &f->factors[dim->factors[k]], *mine = &own[dim->factors[k]];
            mine->seen = 1;
            if (!all->seen) *all = *mine;
            if (all->count != mine->count || memcmp(all->axes, mine->axes, mine->count) != 0)
                return "another input is not sharded alike";
        }
    }
    return NULL;
}

/* A mesh axis may shard one factor: else ranks see blocks of a diagonal only. */
static const char *claim_axes(follower *f) {
    for (size_t i = 0; i < f->r->nfactors; i++)
        for (int k = 0; k < f->factors[i].count; k++) {
            uint32_t bit = UINT32_C(1) << f->factors[i].axes[k];
            if (f->sharding & bit) return "one mesh axis shards two factors";
            f->sharding |= bit;
        }
    return NULL;
}

/* --- from factors to outputs -------------------------------------------------------------------------------------- */

static bool reads(const axes_rule *r, size_t out, size_t in) {
    return !r->in[in].any && !(r->out[out].unread >> r->in[in].slot & 1);
}

static bool has_factor(const axes_arg *x, size_t factor) {
    for (int d = 0; d < x->ndim; d++)
        for (int i = 0; i < x->dims[d].nfactors; i++)
            if (x->dims[d].factors[i] == factor) return true;
    return false;
}

static const char *shard_output(const follower *f, size_t o) {
    const axes_arg *x = &f->r->out[o];
    axes_placed *p = &f->out[o];
    for (int d = 0; d < x->ndim; d++) {
        bool broken = false; /* a factor before is not used up: parts of this one would lie apart */
        for (int k = 0; k < x->dims[d].nfactors; k++) {
            size_t factor = x->dims[d].factors[k];
            const factor_axes *own = &f->factors[factor];
            int64_t left = f->r->factors[factor].size;
            if (own->count && broken) return "parts of an output would not lie together";
            if (own->uneven && x->dims[d].nfactors > 1) return "its extent does not divide";
            for (int i = 0; i < own->count; i++) {
                if (p->naxes[d] == AXES_MESH) return "too many mesh axes";
                p->axes[d][p->naxes[d]++] = own->axes[i];
                left = left < 0 ? left : left / f->mesh->extent[own->axes[i]];
            }
            broken |= left != 1;
        }
    }
    return NULL;
}

/* What a factor that is sharded makes of an output that lacks it, or that is divided by its extent. */
static const char *reduce_factor(const follower *f, size_t o, size_t factor) {
    const axes_arg *x = &f->r->out[o];
    const factor_axes *own = &f->factors[factor];
    bool is_mean = factor < 64 && x->mean >> factor & 1, has = has_factor(x, factor), needs = false;
    for (size_t i = 0; i < f->r->nin; i++) needs |= reads(f->r, o, i) && has_factor(&f->r->in[i], factor);
    if (is_mean && own->uneven && !f->mesh->shares) return "a mean over parts of different extents";
    is_mean &= !own->uneven; /* of others it is a sum of shares */
    for (int k = 0; k < own->count; k++) {
        int axis = own->axes[k];
        if (has && is_mean) f->out[o].times |= UINT32_C(1) << axis;
        if (has || !needs || x->reduce == AXES_NONE) continue;
        f->out[o].partial[axis] = (uint8_t)(1 + (is_mean ? WEFT_REDUCE_AVG : x->reduce));
    }
    return NULL;
}

/* --- partial inputs ----------------------------------------------------------------------------------------------- */

/* Whether the inputs that are partial along the axis may be so, of output `o`: through one group. */
static bool passes(const follower *f, size_t o, int axis, int reduce) {
    for (size_t g = 0; g < f->r->ngroups; g++) {
        const axes_group *group = &f->r->groups[g];
        bool some = group->any >> reduce & 1, all = group->all >> reduce & 1, good = some || all;
        for (size_t i = 0; i < f->r->nin && good; i++) {
            bool member = f->r->in[i].in_group >> g & 1, partial = f->in[i].partial[axis] != 0;
            if (!reads(f->r, o, i)) continue;
            good = member ? partial || some : !partial;
        }
        if (good) return true;
    }
    return false;
}

static const char *pass_partial(const follower *f, int axis) {
    int reduce = -1;
    for (size_t i = 0; i < f->r->nin; i++) {
        int own = (int)f->in[i].partial[axis] - 1;
        bool needed = false;
        for (size_t o = 0; own >= 0 && o < f->r->nout; o++) needed |= reads(f->r, o, i);
        if (!needed) continue;
        if (f->sharding >> axis & 1) return "one input is sharded along the axis, another partial";
        if (reduce >= 0 && own != reduce) return "inputs are partial in different ways";
        reduce = own;
    }
    for (size_t o = 0; reduce >= 0 && o < f->r->nout; o++) {
        bool needs = false;
        for (size_t i = 0; i < f->r->nin; i++) needs |= f->in[i].partial[axis] && reads(f->r, o, i);
        if (!needs) continue;
        if (!passes(f, o, axis, reduce)) return "a partial value is not what the op needs: a reduce is missing";
        f->out[o].partial[axis] = (uint8_t)(1 + reduce);
    }
    return NULL;
}

/* Sums and means are taken in any order; others are not mixed. */
static bool mixes_reduces(const axes_placed *p, int naxes) {
    int first = 0;
    for (int k = 0; k < naxes; k++) {
        int own = p->partial[k] == 1 + WEFT_REDUCE_AVG ? 1 + WEFT_REDUCE_SUM : p->partial[k];
        if (own && first && own != first) return true;
        if (own) first = own;
    }
    return false;
}

const char *axes_follow(const axes_rule *r, const axes_mesh *on, const axes_placed *in, axes_placed *out) {
    follower f = {.r = r, .mesh = on, .in = in, .out = out};
    const char *why = r->why_none;
    for (size_t o = 0; o < r->nout; o++) out[o] = (axes_placed){{0}, {{0}}, {0}, 0};
    for (size_t i = 0; i < r->nin && !why; i++)
        if (!r->in[i].any) why = project(&f, i);
    if (!why) why = claim_axes(&f);
    for (size_t o = 0; o < r->nout && !why; o++) {
        why = shard_output(&f, o);
        for (size_t k = 0; k < r->nfactors && !why; k++)
            if (f.factors[k].count) why = reduce_factor(&f, o, k);
    }
    for (int axis = 0; axis < on->naxes && !why; axis++) why = pass_partial(&f, axis);
    for (size_t o = 0; o < r->nout && !why; o++)
        if (mixes_reduces(&out[o], on->naxes)) why = "it would be partial in different ways";
    return why;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* The part of `n` that coordinate `at` has of [*offset, *offset + *extent). */
static void take_part(int64_t n, int64_t at, int64_t *offset, int64_t *extent) {
    int64_t most = *extent / n + (*extent % n != 0), begin = most && at > *extent / most ? *extent : at * most;
    *offset += begin;
    *extent = most < *extent - begin ? most : *extent - begin;
}

void axes_part(const axes_mesh *on, const axes_placed *p, int32_t ndim, const int64_t *extents, const int64_t *at,
               int64_t *out_offset, int64_t *out_extent) {
    for (int d = 0; d < ndim; d++) {
        out_offset[d] = 0;
        out_extent[d] = extents[d];
        for (int i = 0; i < p->naxes[d]; i++)
            take_part(on->extent[p->axes[d][i]], at[p->axes[d][i]], &out_offset[d], &out_extent[d]);
    }
}

/* The part of a factor that the rank has. */
static void factor_part(const follower *f, size_t factor, const int64_t *at, int64_t *offset, int64_t *extent) {
    *offset = 0;
    *extent = f->r->factors[factor].size;
    for (int k = 0; k < f->factors[factor].count; k++) {
        int axis = f->factors[factor].axes[k];
        take_part(f->mesh->extent[axis], at[axis], offset, extent);
    }
}

double axes_share(const axes_rule *r, const axes_mesh *on, const axes_placed *in, size_t o, const int64_t *at) {
    if (!r->out[o].mean || r->why_none) return 1;
    follower f = {.r = r, .mesh = on, .in = in};
    double share = 1;
    for (size_t i = 0; i < r->nin; i++)
        if (!r->in[i].any && project(&f, i)) return 1;
    for (size_t k = 0; k < r->nfactors && k < 64; k++) {
        int64_t offset, extent;
        if (!(r->out[o].mean >> k & 1) || !f.factors[k].uneven) continue;
        factor_part(&f, k, at, &offset, &extent);
        share *= (double)extent / (double)r->factors[k].size;
    }
    return share;
}

int64_t axes_offset(const axes_rule *r, const axes_mesh *on, const axes_placed *in, size_t factor, const int64_t *at,
                    uint32_t *out_axes) {
    follower f = {.r = r, .mesh = on, .in = in};
    int64_t offset, extent;
    *out_axes = 0;
    for (size_t i = 0; i < r->nin; i++)
        if (!r->in[i].any && project(&f, i)) return 0;
    for (int k = 0; k < f.factors[factor].count; k++) *out_axes |= UINT32_C(1) << f.factors[factor].axes[k];
    factor_part(&f, factor, at, &offset, &extent);
    return offset;
}

static weft_status set_list(weft_op *op, const char *attr, size_t n, const int64_t *values) {
    const weft_attr *a = op_find_attr(op, attr);
    if (a && a->type == ATTR_INTS) return weft_op_set_attr_ints(op, attr, n, values);
    return weft_op_set_attr_longs(op, attr, n, values);
}

static weft_status set_number(weft_op *op, const char *attr, int64_t value) {
    const weft_attr *had = op_find_attr(op, attr);
    attr_type type = had ? had->type : ATTR_INT;
    weft_attr *a;
    if (!had)
        for (size_t i = 0; i < op_schema_of(op)->nattrs; i++)
            if (strcmp(op_schema_of(op)->attrs[i].name, attr) == 0) type = op_schema_of(op)->attrs[i].type;
    TRY(op_set_attr(op, attr, &a));
    a->type = type;
    a->u.i = value;
    return NULL;
}

static weft_status localize_extents(const follower *f, const axes_change *c, const int64_t *at, weft_op *op) {
    const axes_arg *x = &f->r->out[c->arg];
    int64_t offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK], values[WEFT_MAX_RANK];
    size_t n;
    const int64_t *list = attr_ints(op, c->attr, &n);
    bool changed = false;
    if (x->ndim < 0 || n != (size_t)x->ndim) return NULL;
    axes_part(f->mesh, &f->out[c->arg], x->ndim, x->extents, at, offset, extent);
    for (size_t d = 0; d < n; d++) {
        values[d] = list[d] > 0 ? extent[d] : list[d];
        changed |= values[d] != list[d];
    }
    return changed ? set_list(op, c->attr, n, values) : NULL;
}

static weft_status localize_element(const axes_change *c, int64_t value, weft_op *op) {
    size_t n;
    int64_t values[WEFT_MAX_RANK];
    const int64_t *list = attr_ints(op, c->attr, &n);
    if (c->arg >= n || n > WEFT_MAX_RANK || list[c->arg] == value) return NULL;
    memcpy(values, list, n * sizeof *list);
    values[c->arg] = value;
    return set_list(op, c->attr, n, values);
}

weft_status axes_localize(const axes_rule *r, const axes_mesh *on, const axes_placed *in, const axes_placed *out,
                          const int64_t *at, weft_op *op) {
    if (!r->nchanges && !r->why_none) return NULL;
    follower f = {.r = r, .mesh = on, .in = in, .out = (axes_placed *)(uintptr_t)out}; /* only looked at */
    const char *why = r->why_none;
    for (size_t i = 0; i < r->nin && !why; i++)
        if (!r->in[i].any) why = project(&f, i);
    if (why) return weft_status_create(WEFT_INVALID_ARGUMENT, op->type->bytes, "%s", why);
    for (size_t i = 0; i < r->nchanges; i++) {
        const axes_change *c = &r->changes[i];
        int64_t offset, extent;
        if (c->kind == AXES_EXTENTS) {
            TRY(localize_extents(&f, c, at, op));
            continue;
        }
        factor_part(&f, c->factor, at, &offset, &extent);
        if (!f.factors[c->factor].count) continue;
        if (c->kind == AXES_ELEMENT) {
            TRY(localize_element(c, extent, op));
            continue;
        }
        TRY(set_number(op, c->attr, c->kind == AXES_EXTENT ? extent : attr_int(op, c->attr, 0) + offset));
    }
    return NULL;
}
