/* The distributed side of a program: meshes, placements, rings and what ops have, all copied into its arena.
 *
 * Meshes are shared: equal ones (dim names included, since they are printed) are one pointer, found by hash. Rings are
 * kept sorted by id. */
#include "dist_attr/dims.h"
#include "program/grow.h"
#include "program/ir.h"

/* Insertion into the sorted array moves its tail; the cap keeps hostile sidecars from making that slow. */
enum { RING_LIMIT = 16384 };

static const int64_t *copy_ints(weft_program *p, const int64_t *values, size_t count) {
    int64_t *copy = ARENA_ARRAY(&p->arena, int64_t, count ? count : 1);
    if (copy && count) memcpy(copy, values, count * sizeof *copy);
    return copy;
}

/* --- meshes ------------------------------------------------------------------------------------------------------- */

static bool mesh_names_equal(const mesh *a, const mesh *b) {
    if (!a->names || !b->names) return a->names == b->names;
    for (int i = 0; i < a->ndim; i++)
        if (strcmp(a->names[i], b->names[i]) != 0) return false;
    return true;
}

/* The number of ids in a mesh that nobody has checked: 0 if its shape makes no sense. */
static size_t mesh_ids(const mesh *m) {
    size_t n = 1;
    for (int i = 0; i < m->ndim; i++)
        if (m->shape[i] < 0 || !base_mul(n, (size_t)m->shape[i], &n) || n > (size_t)INT32_MAX) return 0;
    return n;
}

static bool mesh_same(const mesh *a, const mesh *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    size_t n = mesh_ids(a);
    return (n == 0 || memcmp(a->ids, b->ids, n * sizeof *a->ids) == 0) && mesh_names_equal(a, b);
}

static uint32_t mesh_hash(const mesh *m) {
    uint32_t h = base_hash(m->shape, (size_t)m->ndim * sizeof *m->shape);
    return h * 31 + base_hash(m->ids, mesh_ids(m) * sizeof *m->ids);
}

static weft_status mesh_copy(weft_program *p, const mesh *m, mesh **out) {
    mesh *copy = ARENA_NEW(&p->arena, mesh);
    const int64_t *extents = copy_ints(p, m->shape, (size_t)m->ndim);
    const int64_t *ids = copy_ints(p, m->ids, mesh_ids(m));
    if (!copy || !extents || !ids) return base_out_of_memory();
    *copy = (mesh){.ndim = m->ndim, .shape = extents, .ids = ids};
    if (m->names) {
        const char **names = ARENA_ARRAY(&p->arena, const char *, m->ndim ? m->ndim : 1);
        if (!names) return base_out_of_memory();
        for (int i = 0; i < m->ndim; i++)
            if (!(names[i] = arena_string(&p->arena, m->names[i], strlen(m->names[i])))) return base_out_of_memory();
        copy->names = names;
    }
    *out = copy;
    return NULL;
}

weft_status program_add_mesh(weft_program *p, const mesh *m, const mesh **out) {
    TRY(table_reserve(&p->arena, &p->mesh_table, p->nmeshes + 1));
    table_probe at = table_find(&p->mesh_table, mesh_hash(m));
    while (at.item != TABLE_NONE && !mesh_same(p->meshes[at.item], m)) table_next(&p->mesh_table, &at);
    if (at.item != TABLE_NONE) {
        *out = p->meshes[at.item];
        return NULL;
    }
    TRY(grow(&p->arena, &p->meshes, &p->mesh_capacity, p->nmeshes + 1, sizeof *p->meshes));
    mesh *copy = NULL;
    TRY(mesh_copy(p, m, &copy));
    table_put(&p->mesh_table, &at, (uint32_t)p->nmeshes);
    p->meshes[p->nmeshes++] = copy;
    *out = copy;
    return NULL;
}

/* --- placements --------------------------------------------------------------------------------------------------- */

weft_status placement_clone(weft_program *p, const placement *from, placement **out) {
    placement *copy = ARENA_NEW(&p->arena, placement);
    if (!copy) return base_out_of_memory();
    *copy = *from;
    size_t n = from->ndim > 0 ? (size_t)from->ndim : 0;
    if (from->mesh) TRY(program_add_mesh(p, from->mesh, &copy->mesh));
    if (!(copy->dims_mapping = copy_ints(p, from->dims_mapping, n))) return base_out_of_memory();
    if (from->dynamic_dims && !(copy->dynamic_dims = arena_copy(&p->arena, from->dynamic_dims, n)))
        return base_out_of_memory();
    *out = copy;
    return NULL;
}

static weft_status placement_divide(weft_program *p, const mesh *fine, const placement **at) {
    const placement *from = *at;
    int64_t mapping[WEFT_MAX_RANK];
    if (!from || !from->mesh || from->mesh == fine || from->ndim > WEFT_MAX_RANK) return NULL;
    placement made = *from, *copy;
    made.mesh = fine;
    made.dims_mapping = mapping;
    made.partial_axes = 0;
    for (int d = 0; d < from->ndim; d++) {
        mapping[d] = -1;
        for (int k = 0; k < dim_naxes(from->dims_mapping[d]); k++) {
            uint32_t axes = mesh_divided(fine, from->mesh, dim_axis(from->dims_mapping[d], k));
            for (int i = 0; i < fine->ndim; i++)
                if (axes >> i & 1) mapping[d] = dim_add(mapping[d], i);
        }
    }
    for (int a = 0; a < from->mesh->ndim; a++) {
        uint32_t axes = from->partial_axes >> a & 1 ? mesh_divided(fine, from->mesh, a) : 0;
        made.partial_axes |= axes;
        for (int i = 0; i < fine->ndim; i++)
            if (axes >> i & 1) made.partial_reduce[i] = from->partial_reduce[a];
    }
    TRY(placement_clone(p, &made, &copy));
    *at = copy;
    return NULL;
}

static weft_status op_divide(weft_program *p, weft_op *op, const mesh *fine) {
    op_dist_rest *rest = op->dist ? op->dist->rest : NULL;
    if (!rest) return NULL;
    if (rest->mesh) rest->mesh = fine;
    for (size_t i = 0; i < rest->ninputs; i++) TRY(placement_divide(p, fine, &rest->inputs[i].placement));
    for (size_t i = 0; i < rest->noutputs; i++) TRY(placement_divide(p, fine, &rest->outputs[i].placement));
    return NULL;
}

weft_status program_divide_meshes(weft_program *p, const mesh *fine, const mesh **out) {
    if (!p->nmeshes || (p->nmeshes == 1 && mesh_same(p->meshes[0], fine))) return program_add_mesh(p, fine, out);
    table_clear(&p->mesh_table);
    p->nmeshes = 0;
    TRY(program_add_mesh(p, fine, out));
    for (size_t i = 0; i < p->nall_vars; i++) {
        weft_var *v = program_var(p, i);
        const placement *at = v->dist;
        TRY(placement_divide(p, *out, &at));
        if (at == v->dist) continue;
        var_changed(v);
        v->dist = (placement *)(uintptr_t)at;
    }
    for (size_t b = 0; b < p->nblocks; b++) FOR_EACH_OP(op, p->blocks[b]) TRY(op_divide(p, op, *out));
    return NULL;
}

weft_status op_dist_rest_get(weft_program *p, op_dist *d, op_dist_rest **out) {
    op_dist_rest *rest = d->rest ? d->rest : ARENA_NEW(&p->arena, op_dist_rest);
    if (!rest) return base_out_of_memory();
    d->rest = *out = rest;
    return NULL;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* The index of the first ring whose id is not below `id`. */
static size_t ring_position(const weft_program *p, int64_t id) {
    size_t low = 0, high = p->nrings;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->rings[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t weft_program_nranks(const weft_program *program) {
    int64_t nranks = 0;
    for (size_t i = 0; i < program->nrings; i++)
        for (int k = 0; k < program->rings[i].nranks; k++)
            if (program->rings[i].ranks[k] >= nranks) nranks = program->rings[i].ranks[k] + 1;
    return nranks;
}

const ring *program_find_ring(const weft_program *p, int64_t id) {
    /* Most programs number their rings from 0. */
    if (id >= 0 && (uint64_t)id < p->nrings && p->rings[id].id == id) return &p->rings[id];
    size_t at = ring_position(p, id);
    return at < p->nrings && p->rings[at].id == id ? &p->rings[at] : NULL;
}

weft_status program_put_ring(weft_program *p, const ring *r) {
    ring copy = *r;
    if (!(copy.ranks = copy_ints(p, r->ranks, (size_t)r->nranks))) return base_out_of_memory();
    if (r->type && !(copy.type = arena_string(&p->arena, r->type, strlen(r->type)))) return base_out_of_memory();
    size_t at = ring_position(p, r->id);
    if (at == p->nrings || p->rings[at].id != r->id) {
        if (p->nrings >= RING_LIMIT) return weft_status_create(WEFT_LIMIT, p->place, "more than %d rings", RING_LIMIT);
        TRY(grow(&p->arena, &p->rings, &p->ring_capacity, p->nrings + 1, sizeof *p->rings));
        memmove(p->rings + at + 1, p->rings + at, (p->nrings - at) * sizeof *p->rings);
        p->nrings++;
    }
    p->rings[at] = copy;
    p->has_dist = true;
    return NULL;
}

bool weft_program_ring(const weft_program *program, int64_t ring_id, size_t *out_nranks, const int64_t **out_ranks) {
    const ring *r = program_find_ring(program, ring_id);
    if (!r) return false;
    *out_nranks = (size_t)r->nranks;
    *out_ranks = r->ranks;
    return true;
}

weft_status weft_program_set_ring(weft_program *program, int64_t ring_id, size_t nranks, const int64_t *ranks) {
    if (nranks == 0 || nranks > INT32_MAX)
        return weft_status_create(WEFT_INVALID_ARGUMENT, program->place, "ring %lld: expected 1 to %d ranks, found %zu",
                                  (long long)ring_id, INT32_MAX, nranks);
    return program_put_ring(program, &(ring){.id = ring_id, .nranks = (int)nranks, .ranks = ranks});
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

weft_status op_dist_get(weft_op *op, op_dist **out) {
    if (!op->dist && !(op->dist = ARENA_NEW(&op->program->arena, op_dist))) return base_out_of_memory();
    op->generation = op->program->generation;
    *out = op->dist;
    return NULL;
}

weft_status op_waits_create(weft_program *p, size_t count, op_waits **out) {
    size_t nbytes;
    if (!base_mul(count, sizeof(char *), &nbytes) || !base_add(nbytes, sizeof **out, &nbytes) ||
        !(*out = arena_alloc(&p->arena, nbytes)))
        return base_out_of_memory();
    (*out)->count = count;
    return NULL;
}

weft_status op_dist_set_waits(weft_program *p, op_dist *d, const char *const *events, size_t count) {
    op_waits *waits = NULL;
    if (count) {
        TRY(op_waits_create(p, count, &waits));
        memcpy(waits->events, events, count * sizeof *events);
    }
    d->waits = waits;
    return NULL;
}

weft_status op_dist_set_mesh(weft_program *p, op_dist *d, const mesh *m) {
    op_dist_rest *rest;
    if (m == op_dist_mesh(d)) return NULL;
    TRY(op_dist_rest_get(p, d, &rest));
    rest->mesh = m;
    return NULL;
}

/* After a change: an op whose attribute says nothing has none, so that it is written as if it never had one. */
static void drop_empty_dist(weft_op *op) {
    const op_dist *d = op->dist;
    if (d && !d->execution_stream && !d->event_to_record && !op_dist_nwaits(d) &&
        op_dist_rest_is_empty(op_dist_rest_of(d)))
        op->dist = NULL;
    op_changed(op);
}

static weft_status copy_name(weft_program *p, const char *bytes, const char **out) {
    const name *n = NULL;
    if (bytes && *bytes) TRY(program_name(p, bytes, strlen(bytes), &n));
    *out = n ? n->bytes : NULL;
    return NULL;
}

weft_status weft_op_set_stream(weft_op *op, const char *stream) {
    op_dist *d;
    TRY(op_dist_get(op, &d));
    TRY(copy_name(op->program, stream, &d->execution_stream));
    drop_empty_dist(op);
    return NULL;
}

weft_status weft_op_set_event_recorded(weft_op *op, const char *event) {
    op_dist *d;
    TRY(op_dist_get(op, &d));
    TRY(copy_name(op->program, event, &d->event_to_record));
    drop_empty_dist(op);
    return NULL;
}

weft_status weft_op_set_events_awaited(weft_op *op, size_t count, const char *const *events) {
    op_dist *d;
    op_waits *waits = NULL;
    TRY(op_dist_get(op, &d));
    if (count) TRY(op_waits_create(op->program, count, &waits));
    for (size_t i = 0; i < count; i++) TRY(copy_name(op->program, events[i], &waits->events[i]));
    d->waits = waits;
    drop_empty_dist(op);
    return NULL;
}
