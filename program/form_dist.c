/* form_dist.c: what the sidecar and the YAML form share: indices of meshes, vars by name, words for reduce kinds. */
#include <stdio.h>
#include <stdlib.h>

#include "program/form.h"

/* --- reduce kinds ------------------------------------------------------------------------------------------------- */

static const char *const reduce_names[] = {
    [WEFT_REDUCE_SUM] = "sum", [WEFT_REDUCE_MAX] = "max", [WEFT_REDUCE_MIN] = "min", [WEFT_REDUCE_PROD] = "prod",
    [WEFT_REDUCE_AVG] = "avg", [WEFT_REDUCE_ANY] = "any", [WEFT_REDUCE_ALL] = "all"};
enum { REDUCE_COUNT = sizeof reduce_names / sizeof *reduce_names };

const char *form_reduce_name(int reduce) {
    return reduce >= 0 && reduce < REDUCE_COUNT ? reduce_names[reduce] : NULL;
}

int form_reduce_parse(const char *bytes, size_t nbytes) {
    for (int i = 0; i < REDUCE_COUNT; i++)
        if (strlen(reduce_names[i]) == nbytes && memcmp(reduce_names[i], bytes, nbytes) == 0) return i;
    return -1;
}

/* --- meshes ------------------------------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const mesh_index *)a)->mesh, y = (uintptr_t)((const mesh_index *)b)->mesh;
    return (x > y) - (x < y);
}

weft_status mesh_indices(const weft_program *p, arena *a, mesh_index **out) {
    mesh_index *indices = ARENA_ARRAY(a, mesh_index, p->nmeshes + 1);
    if (!indices) return base_out_of_memory();
    for (size_t i = 0; i < p->nmeshes; i++) indices[i] = (mesh_index){p->meshes[i], i};
    if (p->nmeshes) qsort(indices, p->nmeshes, sizeof *indices, compare_addresses);
    *out = indices;
    return NULL;
}

int64_t mesh_index_find(const mesh_index *indices, size_t count, const mesh *m) {
    mesh_index key = {m, 0};
    const mesh_index *found = m && count ? bsearch(&key, indices, count, sizeof key, compare_addresses) : NULL;
    return found ? (int64_t)found->index : -1;
}

int64_t form_axis(const mesh *m, const char *bytes, size_t nbytes) {
    for (int i = 0; m && m->names && i < m->ndim; i++)
        if (strlen(m->names[i]) == nbytes && memcmp(m->names[i], bytes, nbytes) == 0) return i;
    return -1;
}

const char *form_axes_text(const mesh *m, char *out, size_t room) {
    if (!m) return "by number, for want of a mesh";
    if (!m->names) return "by number, since the mesh names none";
    size_t n = (size_t)snprintf(out, room, "of ");
    for (int i = 0; i < m->ndim && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%s", i ? ", " : "", m->names[i]);
    return out;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

weft_status vars_by_name(const weft_program *p, arena *a, weft_var ***out) {
    weft_var **vars = ARENA_ARRAY(a, weft_var *, p->names.count + 1);
    if (!vars) return base_out_of_memory();
    for (size_t i = 0; i < p->nblocks; i++) {
        const weft_block *b = p->blocks[i];
        for (size_t k = 0; k < b->nvars; k++) {
            weft_var *v = block_var(b, k), **place = &vars[v->name->id];
            if (!*place) *place = v;
        }
    }
    *out = vars;
    return NULL;
}

bool program_has_dist(const weft_program *p) {
    if (p->has_dist || p->nrings || p->nmeshes || p->fx_json) return true;
    for (size_t i = 0; i < p->nall_vars; i++)
        if (program_var(p, i)->dist || program_var(p, i)->dist_is_null) return true;
    for (size_t i = 0; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            if (op->dist) return true;
        }
    }
    return false;
}
