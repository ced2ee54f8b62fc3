/* write_placed.c: how values of a program lie on the mesh of its FX graph, by name of the var. Inputs and outputs have
 * members of their own, which the document has. What a placement by mesh axis cannot say is left out. */
#include <stdio.h>

#include "dist_attr/dims.h"
#include "program/form.h"
#include "program/fx/fx.h"

void fx_placement_word(int dim, int reduce, char out[FX_PLACEMENT_WORD]) {
    if (reduce >= 0)
        snprintf(out, FX_PLACEMENT_WORD, "P(%s)", form_reduce_name(reduce));
    else if (dim >= 0)
        snprintf(out, FX_PLACEMENT_WORD, "S(%d)", dim);
    else
        snprintf(out, FX_PLACEMENT_WORD, "R");
}

/* The dimension that mesh axis `axis` shards; -1: none. */
static int dim_along(const placement *p, int axis) {
    for (int d = 0; d < p->ndim; d++)
        for (int i = 0; i < dim_naxes(p->dims_mapping[d]); i++)
            if (dim_axis(p->dims_mapping[d], i) == axis) return d;
    return -1;
}

/* A list by mesh axis has the major axis of a dimension first. */
static bool is_in_order(const placement *p) {
    for (int d = 0; d < p->ndim; d++)
        for (int i = 1; i < dim_naxes(p->dims_mapping[d]); i++)
            if (dim_axis(p->dims_mapping[d], i) < dim_axis(p->dims_mapping[d], i - 1)) return false;
    return true;
}

/* The graph's mesh: that of which it tells, or all ranks in a row. */
static bool is_of_graph(const fx_writer *w, const mesh *m) {
    const json_t *own = json_object_get(w->document, "mesh"), *shape = json_object_get(own, "shape"),
                 *ids = json_object_get(own, "ids");
    int64_t world_size = json_integer_value(json_object_get(w->document, "world_size"));
    if (own ? json_array_size(shape) != (size_t)m->ndim : m->ndim != 1 || m->shape[0] != world_size) return false;
    for (int i = 0; own && i < m->ndim; i++)
        if (json_integer_value(json_array_get(shape, (size_t)i)) != m->shape[i]) return false;
    for (int64_t i = 0; i < mesh_size(m); i++)
        if (m->ids[i] != (ids ? json_integer_value(json_array_get(ids, (size_t)i)) : i)) return false;
    return true;
}

static bool is_told(const fx_writer *w, const weft_var *v, const mesh **last) {
    const placement *p = v->dist;
    if (!p || !p->mesh || !v->has_tensor || p->ndim != (int)v->ndim) return false;
    if (p->mesh != *last && !is_of_graph(w, p->mesh)) return false;
    *last = p->mesh;
    return is_in_order(p);
}

static void put_placement(buffer *out, const placement *p) {
    for (int a = 0; a < p->mesh->ndim; a++) {
        char word[FX_PLACEMENT_WORD];
        fx_placement_word(dim_along(p, a), p->partial_axes >> a & 1 ? p->partial_reduce[a] : -1, word);
        buffer_format(out, "%s\"%s\"", a ? "," : p->mesh->ndim > 1 ? "[" : "", word);
    }
    if (p->mesh->ndim > 1) buffer_text(out, "]");
}

/* In the order in which nodes make them. */
weft_status fx_list_placements(fx_writer *w) {
    const mesh *last = NULL;
    bool *is_done = ARENA_ARRAY(&w->scratch, bool, w->program->nall_vars + 1); /* or has a member of its own */
    if (!is_done) return base_out_of_memory();
    for (size_t i = 0; i < w->nfetched; i++)
        if (w->fetched[i]) is_done[w->fetched[i]->id] = true;
    FOR_EACH_OP(op, w->block) {
        FOR_EACH_ARG(op, false, u) {
            is_done[u->var_id] = true; /* what is read before an op makes it is an input */
        }
        FOR_EACH_ARG(op, true, u) {
            const weft_var *v = use_var(op->program, u);
            if (is_done[v->id] || v->persistable) continue;
            is_done[v->id] = true;
            if (!is_told(w, v, &last)) continue;
            buffer_text(&w->placements, w->placements.nbytes ? "," : "{");
            fx_put_name(&w->placements, v->name);
            buffer_text(&w->placements, ":");
            put_placement(&w->placements, v->dist);
        }
    }
    if (w->placements.nbytes) buffer_text(&w->placements, "}");
    return buffer_status(&w->placements);
}
