/* spmd_divide.c: mesh axes that are divided, since a reshape splits what they shard.
 *
 * Of 16 rows over 8 ranks that become [2, 8], the first factor takes 2 of the 8 ranks and the second the other 4. So
 * the axis is read as two, of 2 and 4: a mesh of one axis more, on which its old name is a list. Where annotations
 * reach such a dimension the program is decided on both meshes, and the one that sends less is kept. */
#include "passes/spmd/spmd.h"

#include <stdio.h>

/* By axis: the ranks of its major parts, each a multiple of the one before. */
typedef struct divisions {
    int64_t at[AXES_MESH][AXES_MESH];
    int count[AXES_MESH], total;
} divisions;

/* Divides the axis behind its first `major` ranks, if that goes with where it is divided already. */
static void divide(divisions *to, int axis, int64_t major, int naxes) {
    int at = 0, n = to->count[axis];
    while (at < n && to->at[axis][at] < major) at++;
    if (at < n && to->at[axis][at] == major) return;
    if ((at < n && to->at[axis][at] % major) || (at && major % to->at[axis][at - 1])) return;
    if (to->total + naxes == AXES_MESH) return;
    memmove(&to->at[axis][at + 1], &to->at[axis][at], (size_t)(n - at) * sizeof to->at[axis][0]);
    to->at[axis][at] = major;
    to->count[axis]++;
    to->total++;
}

/* An axis that shards a dimension of several factors takes what is left of one, and goes on with the next. */
static void look_at(const spmd_plan *plan, const axes_rule *r, const axes_dim *dim, const spmd_var *v, int d,
                    divisions *to) {
    int at = 0;
    int64_t left = r->factors[dim->factors[0]].size;
    for (int i = 0; i < v->want.naxes[d]; i++) {
        int axis = v->want.axes[d][i];
        for (int64_t n = plan->mesh.axes.extent[axis], major = 1; n > 1;) {
            while (left == 1 && at + 1 < dim->nfactors) left = r->factors[dim->factors[++at]].size;
            int64_t some = left > 1 ? base_common_divisor(left, n) : 1;
            if (some == 1) return;
            major *= some;
            n /= some;
            left /= some;
            if (n > 1) divide(to, axis, major, plan->mesh.axes.naxes);
            if (n > 1 && left > 1) return;
        }
    }
}

static void look(const spmd_plan *plan, const spmd_op *op, const axes_arg *x, const spmd_var *v, divisions *to) {
    if (!v || x->any || v->whole.ndim != x->ndim) return;
    for (int d = 0; d < x->ndim; d++)
        if (x->dims[d].nfactors > 1 && v->want.naxes[d]) look_at(plan, &op->kind->rule, &x->dims[d], v, d, to);
}

static weft_status find_divisions(spmd_plan *plan, divisions *to) {
    axes_placed *given = ARENA_ARRAY(&plan->memory, axes_placed, plan->nvars + 1);
    if (!given) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvars; i++) given[i] = plan->vars[i].want;
    plan->policy = (spmd_policy){.spread = SPREAD_ALL};
    TRY(spmd_follow(plan));
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        const axes_rule *r = &op->kind->rule;
        for (size_t i = 0; i < r->nin; i++) look(plan, op, &r->in[i], op->in[i], to);
        for (size_t o = 0; o < r->nout; o++) look(plan, op, &r->out[o], op->out[o], to);
    }
    for (size_t i = 0; i < plan->nvars; i++) {
        plan->vars[i].want = given[i];
        memset(plan->vars[i].origin, 0, sizeof plan->vars[i].origin);
    }
    return NULL;
}

/* Shardy's names of sub-axes: "x:(2)4" are 4 parts of each of the 2 that are major to them. */
static weft_status make_mesh(spmd_plan *plan, const divisions *by, mesh **out) {
    const mesh *from = plan->mesh.mesh;
    int naxes = from->ndim + by->total, n = 0;
    int64_t *extents = ARENA_ARRAY(&plan->memory, int64_t, naxes);
    const char **names = ARENA_ARRAY(&plan->memory, const char *, naxes);
    if (!(*out = ARENA_NEW(&plan->memory, mesh)) || !extents || !names) return base_out_of_memory();
    for (int a = 0; a < from->ndim; a++)
        for (int i = 0; i <= by->count[a]; i++, n++) {
            int64_t before = i ? by->at[a][i - 1] : 1, next = i < by->count[a] ? by->at[a][i] : from->shape[a];
            extents[n] = next / before;
            if (!from->names) continue;
            names[n] = from->names[a];
            if (by->count[a])
                names[n] = arena_format(&plan->memory, "%s:(%lld)%lld", from->names[a], (long long)before,
                                        (long long)extents[n]);
            if (!names[n]) return base_out_of_memory();
        }
    **out = (mesh){naxes, extents, from->ids, from->names ? names : NULL};
    return NULL;
}

static weft_status report(spmd_plan *plan, const mesh *from, double sent) {
    buffer b;
    buffer_init(&b, &plan->program->context->allocator);
    for (int a = 0; a < from->ndim; a++) {
        uint32_t axes = mesh_divided(plan->mesh.mesh, from, a);
        if (!(axes & (axes - 1))) continue;
        buffer_text(&b, b.nbytes ? ", " : "");
        if (from->names)
            buffer_text(&b, from->names[a]);
        else
            buffer_integer(&b, a);
        const char *before = " into ";
        for (int i = 0; i < plan->mesh.mesh->ndim; i++) {
            if (!(axes >> i & 1)) continue;
            buffer_text(&b, before);
            buffer_integer(&b, plan->mesh.mesh->shape[i]);
            before = " x ";
        }
    }
    buffer_append(&b, "", 1);
    weft_status status = buffer_status(&b);
    if (!status)
        status = weft_pass_did(plan->pass, "mesh axis %s divided: a rank sends %.0f bytes, else %.0f", b.bytes,
                               plan->cheapest, sent);
    buffer_fini(&b);
    return status;
}

weft_status spmd_plan_divided(spmd_plan *plan) {
    const mesh *whole = plan->mesh.mesh;
    divisions by = {.total = 0};
    mesh *divided = NULL;
    if (!plan->is_fx && plan->nops <= SPMD_MOST_OPS) TRY(find_divisions(plan, &by));
    if (by.total) TRY(make_mesh(plan, &by, &divided));
    TRY(spmd_plan_cheapest(plan));
    double sent = plan->cheapest;
    if (!divided || sent <= 0) return NULL;
    TRY(spmd_use_mesh(plan, divided));
    TRY(spmd_plan_cheapest(plan));
    if (plan->cheapest < sent) return report(plan, whole, sent);
    TRY(spmd_use_mesh(plan, whole));
    return spmd_plan_cheapest(plan);
}
