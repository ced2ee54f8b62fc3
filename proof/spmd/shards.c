/* shards.c: collectives that add up different parts of one value.
 *
 * A value that is sharded over a mesh axis is another part of the whole on each rank along it. An all-reduce over ranks
 * that differ along that axis mixes the parts. (A partial value is whole on every rank, so its axis shards nothing.) */
#include <stdio.h>

#include "dist_attr/dims.h"
#include "proof/checks/checks.h"

static bool is_sharded(const weft_var *v) {
    bool found = false;
    for (int i = 0; v->dist && i < v->dist->ndim; i++) found |= v->dist->dims_mapping[i] >= 0;
    return found;
}

/* A mesh axis that shards `v` and along which the ring's ranks differ; -1: none. */
static int mixed_axis(const weft_var *v, const ring *r) {
    const placement *p = v->dist;
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM];
    if (!p || !p->mesh || !r || r->nranks < 2 || !mesh_coordinates(p->mesh, r->ranks[0], first)) return -1;
    for (int n = 1; n < r->nranks; n++) {
        if (!mesh_coordinates(p->mesh, r->ranks[n], at)) return -1;
        for (int i = 0; i < p->ndim; i++)
            for (int k = 0; k < dim_naxes(p->dims_mapping[i]); k++) {
                int axis = dim_axis(p->dims_mapping[i], k);
                if (axis >= 0 && axis < p->mesh->ndim && at[axis] != first[axis]) return axis;
            }
    }
    return -1;
}

static weft_status report(const proof_schedule *s, const proof_collective *c, const weft_var *v, int axis, int64_t rank,
                          weft_findings *f) {
    weft_finding *found;
    char message[256], of_axis[64];
    const mesh *m = v->dist->mesh;
    TRY(finding_add(f, WEFT_VERDICT_WRONG_DATA, &found));
    if (!found) return NULL;
    TRY(finding_op(f, found, s, c->event, rank, "communicates"));
    TRY(finding_says(f, &found->value, "%s", v->name->bytes));
    found->ring = c->ring;
    if (m->names && m->names[axis])
        snprintf(of_axis, sizeof of_axis, "%.60s", m->names[axis]);
    else
        snprintf(of_axis, sizeof of_axis, "%d", axis);
    TRY(finding_says(f, &found->message,
                     "%s reduces \"%s\" over ring %lld, whose ranks hold different parts of it: mesh axis %s shards it "
                     "(rank %lld)",
                     finding_op_text(&found->ops[0], message, sizeof message), found->value, (long long)c->ring,
                     of_axis, (long long)rank));
    return finding_says(f, &found->remedy, "a ring of ranks that are equal along mesh axis %s", of_axis);
}

weft_status check_shards(const proof_schedule *s, int64_t rank, weft_findings *f) {
    bool any = false;
    if (!s->program->nmeshes) return NULL;
    for (size_t i = 0; i < s->program->nall_vars && !any; i++) any = is_sharded(program_var(s->program, i));
    if (!any) return NULL;
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_collective *c = &s->collectives[i];
        if (c->peer >= 0 || (c->kind != COLLECTIVE_ALL_REDUCE && c->kind != COLLECTIVE_REDUCE)) continue;
        const ring *r = program_find_ring(s->program, c->ring);
        for (uint32_t k = 0; k < c->nmembers; k++) {
            const char *member = s->members[c->first_member + k].name;
            const weft_var *v = weft_block_find_var(s->program->blocks[0], member);
            int axis = v && is_sharded(v) ? mixed_axis(v, r) : -1;
            if (axis >= 0) TRY(report(s, c, v, axis, rank, f));
        }
    }
    return NULL;
}
