/* join.c: fetches and persistables, joined over ranks.
 *
 * The rule of joining: a value with a sharded dist attr is put together from the parts of all ranks that hold it. Where
 * several hold the same part, the lowest rank's counts. Any other is the lowest rank's. A rank holds a persistable
 * where its instructions touch it: a program may declare a var that only other ranks keep up to date.
 *
 * Value by value all ranks tell what they hold, and give the bytes that are needed; so every process has all results.
 */
#include <stdio.h>

#include "dist_attr/dims.h"
#include "train/gather.h"

/* Something that does not work out on one rank, for all to report. */
typedef struct fault {
    weft_code code; /* WEFT_OK: none */
    char text[600];
} fault;

/* What a rank holds of a value. */
typedef struct holding {
    bool found, used, sharded;
    int32_t dtype, ndim;
    int64_t dims[WEFT_MAX_RANK];
    int64_t whole[WEFT_MAX_RANK]; /* sharded */
    fault fault;
} holding;

/* Where a rank's part of a value lies in the whole. */
typedef struct place {
    bool found;
    slice part;
    fault fault;
} place;

typedef struct join {
    const weft_trainer *t;
    arena memory;  /* of the whole join */
    arena scratch; /* of a value */
    bool **used;   /* by plan of this process and value: whether an instruction touches it */
    holding *mine, *all;
    int32_t *values;  /* by own rank: the value at hand, or -1 */
    const char *name; /* its */
    weft_tensors *out;
} join;

static void keep_fault(fault *f, weft_status status) {
    if (!status) return;
    f->code = weft_status_code(status);
    snprintf(f->text, sizeof f->text, "%s", weft_status_message(status));
    weft_status_free(status);
}

static weft_status raise(const fault *f) {
    return f->code == WEFT_OK ? NULL : weft_status_create(f->code, NULL, "%s", f->text);
}

static const rank_state *own(const join *j, int i) {
    return &j->t->executor->ranks[i];
}

/* The placement of a value; what a fetch op fetches lies as its source does. */
static const placement *dist_of(const rank_state *rank, int32_t value) {
    const plan_value *v = &rank->plan->values[value], *of = v->view_of >= 0 ? &rank->plan->values[v->view_of] : NULL;
    if (!v->dist && of && v->shape.ndim == of->shape.ndim &&
        memcmp(v->shape.dims, of->shape.dims, (size_t)v->shape.ndim * sizeof(int64_t)) == 0) {
        v = of;
    }
    return v->dist && v->dist->mesh && v->dist->ndim == v->shape.ndim && placement_is_sharded(v->dist) ? v->dist : NULL;
}

/* --- what ranks hold ---------------------------------------------------------------------------------------------- */

static void describe_holding(const join *j, int i, holding *out) {
    int32_t value = j->values[i];
    *out = (holding){.found = value >= 0};
    if (value < 0) return;
    const rank_state *rank = own(j, i);
    const tensor *x = &rank->values[value];
    const placement *dist = dist_of(rank, value);
    out->used = j->used[j->t->nplans == 1 ? 0 : i][value];
    out->sharded = dist;
    out->dtype = (int32_t)x->dtype;
    out->ndim = x->ndim;
    memcpy(out->dims, x->dims, sizeof out->dims);
    if (dist) keep_fault(&out->fault, placement_whole(dist, x->ndim, x->dims, j->name, out->whole));
}

/* Asks all ranks about the value of that name that each has. */
static weft_status ask(join *j, const char *n) {
    j->name = n;
    for (int i = 0; i < j->t->nlocal; i++) describe_holding(j, i, &j->mine[i]);
    return gather_each(j->t, j->mine, sizeof *j->mine, j->all);
}

/* Of a persistable only those ranks count whose instructions touch it, if there are any. */
static void drop_unused(join *j) {
    bool any = false;
    for (int r = 0; r < j->t->nranks; r++) any = any || (j->all[r].found && j->all[r].used);
    for (int r = 0; r < j->t->nranks; r++) {
        if (!any || j->all[r].used) continue;
        j->all[r].found = false;
        if (executor_has_rank(j->t->executor, r)) j->values[r - j->t->first_rank] = -1;
    }
}

static int first_holder(const join *j) {
    int first = 0;
    while (first < j->t->nranks && !j->all[first].found) first++;
    return first;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static size_t nbytes_of(const holding *h) {
    size_t n = weft_dtype_nbytes((weft_dtype)h->dtype);
    for (int i = 0; i < h->ndim; i++) n *= (size_t)h->dims[i];
    return n;
}

/* The bytes of those ranks for which `wanted` has a value. */
static weft_status take_bytes(join *j, const bool *wanted, const void ***out) {
    int nranks = j->t->nranks;
    size_t *nbytes = ARENA_ARRAY(&j->scratch, size_t, nranks);
    const void **given = ARENA_ARRAY(&j->scratch, const void *, j->t->nlocal);
    *out = ARENA_ARRAY(&j->scratch, const void *, nranks);
    if (!nbytes || !given || !*out) return base_out_of_memory();
    for (int r = 0; r < nranks; r++) nbytes[r] = wanted[r] ? nbytes_of(&j->all[r]) : 0;
    for (int i = 0; i < j->t->nlocal; i++)
        if (wanted[j->t->first_rank + i])
            TRY(executor_lend(j->t->executor, j->t->first_rank + i, j->values[i], &given[i]));
    return gather_parts(j->t, &j->scratch, nbytes, given, *out);
}

static weft_status put_one(join *j, int rank, const char *n) {
    const holding *h = &j->all[rank];
    bool *wanted = ARENA_ARRAY(&j->scratch, bool, j->t->nranks);
    const void **bytes;
    weft_tensor *to;
    if (!wanted) return base_out_of_memory();
    wanted[rank] = true;
    TRY(take_bytes(j, wanted, &bytes));
    TRY(weft_tensors_add(j->out, n, (weft_dtype)h->dtype, (size_t)h->ndim, h->dims, &to));
    if (to->nbytes) memcpy(to->data, bytes[rank], to->nbytes);
    return NULL;
}

/* The rank that differs from the one at `coordinates` along the axes of `entry`: number `part` of those. */
static int64_t rank_of_part(const mesh *m, const int64_t *coordinates, int64_t entry, int64_t part) {
    int64_t at[MESH_MAX_NDIM], number = 0;
    memcpy(at, coordinates, (size_t)m->ndim * sizeof *at);
    for (int k = dim_naxes(entry); k-- > 0;) {
        at[dim_axis(entry, k)] = part % m->shape[dim_axis(entry, k)];
        part /= m->shape[dim_axis(entry, k)];
    }
    for (int i = 0; i < m->ndim; i++) number = number * m->shape[i] + at[i];
    return m->ids[number];
}

/* The whole extent of dimension d, which is sharded: those of the ranks along its mesh axes together. -1: some of them
 * have no part. */
static int64_t whole_extent(const join *j, const placement *dist, const int64_t *coordinates, int d) {
    int64_t sum = 0;
    for (int64_t part = 0; part < placement_parts(dist, d); part++) {
        int64_t rank = rank_of_part(dist->mesh, coordinates, dist->dims_mapping[d], part);
        if (rank >= j->t->nranks || !j->all[rank].found || d >= j->all[rank].ndim) return -1;
        sum += j->all[rank].dims[d];
    }
    return sum;
}

/* Where own rank i's part lies; `like`: what the lowest rank that holds the value holds. */
static void find_place(const join *j, int i, const holding *like, place *out) {
    const rank_state *rank = own(j, i);
    int32_t value = j->values[i];
    const placement *dist = value >= 0 ? dist_of(rank, value) : NULL;
    int64_t coordinates[MESH_MAX_NDIM];
    *out = (place){.part = {.ndim = like->ndim}};
    if (!dist || dist->mesh->ndim > MESH_MAX_NDIM || !mesh_coordinates(dist->mesh, rank->rank, coordinates)) return;
    slice *part = &out->part;
    const tensor *from = &rank->values[value];
    out->found = true;
    memcpy(part->whole, like->whole, sizeof part->whole);
    for (int d = 0; d < like->ndim; d++) {
        int64_t together = dist->dims_mapping[d] < 0 ? -1 : whole_extent(j, dist, coordinates, d);
        if (together >= 0) part->whole[d] = together;
    }
    keep_fault(&out->fault,
               placement_slice(dist, like->ndim, part->whole, rank->rank, j->name, part->offset, part->extent));
    if (out->fault.code != WEFT_OK || memcmp(from->dims, part->extent, (size_t)like->ndim * sizeof *from->dims) == 0)
        return;
    char got[200], want[200];
    keep_fault(&out->fault,
               weft_status_create(WEFT_RUNTIME, NULL, "\"%s\": rank %d holds %s, its part by dist attr is %s", j->name,
                                  rank->rank, type_text(from->dtype, (size_t)from->ndim, from->dims, got, sizeof got),
                                  type_text(from->dtype, (size_t)from->ndim, part->extent, want, sizeof want)));
}

static weft_status put_joined(join *j, int first, const char *n) {
    int nranks = j->t->nranks;
    const holding *like = &j->all[first];
    place *mine = ARENA_ARRAY(&j->scratch, place, j->t->nlocal), *all = ARENA_ARRAY(&j->scratch, place, nranks);
    bool *wanted = ARENA_ARRAY(&j->scratch, bool, nranks);
    const void **bytes;
    weft_tensor *to;
    if (!mine || !all || !wanted) return base_out_of_memory();
    TRY(raise(&like->fault));
    for (int i = 0; i < j->t->nlocal; i++) find_place(j, i, like, &mine[i]);
    TRY(gather_each(j->t, mine, sizeof *mine, all));
    for (int r = nranks - 1; r >= first; r--) {
        if (all[r].found) TRY(raise(&all[r].fault));
        wanted[r] = all[r].found;
    }
    TRY(take_bytes(j, wanted, &bytes));
    TRY(weft_tensors_add(j->out, n, (weft_dtype)like->dtype, (size_t)like->ndim,
                         all[first].found ? all[first].part.whole : like->whole, &to));
    for (int r = nranks - 1; r >= first; r--)
        if (wanted[r]) slice_put(&all[r].part, weft_dtype_nbytes((weft_dtype)like->dtype), to->data, bytes[r]);
    return NULL;
}

static weft_status put_holding(join *j, const char *n) {
    int first = first_holder(j);
    if (first == j->t->nranks) return NULL;
    arena_init(&j->scratch, &j->t->context->allocator);
    weft_status status = j->all[first].sharded ? put_joined(j, first, n) : put_one(j, first, n);
    arena_fini(&j->scratch);
    return status;
}

/* --- persistables and fetches ------------------------------------------------------------------------------------- */

/* By value: whether an instruction of the plan touches it. */
static weft_status find_used(const weft_plan *plan, arena *a, bool **out) {
    bool *used = ARENA_ARRAY(a, bool, plan->nvalues ? plan->nvalues : 1);
    if (!used) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        for (uint32_t k = 0; k < instr->in_first[instr->schema->ninputs]; k++) {
            if (instr->in[k] >= 0) used[instr->in[k]] = true;
        }
        for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++) {
            if (instr->out[k] >= 0) used[instr->out[k]] = true;
        }
    }
    *out = used;
    return NULL;
}

static weft_status put_persistable(join *j, const char *n) {
    for (int i = 0; i < j->t->nlocal; i++) j->values[i] = value_index_find(own(j, i)->index, n);
    TRY(ask(j, n));
    drop_unused(j);
    return put_holding(j, n);
}

/* The persistables of this process's programs. */
static weft_status list_persistables(const weft_trainer *t, buffer *out) {
    for (size_t p = 0; p < t->nplans; p++) {
        for (size_t i = 0; i < t->plans[p]->nvalues; i++) {
            const plan_value *v = &t->plans[p]->values[i];
            if (v->persistable) buffer_append(out, v->name, strlen(v->name) + 1);
        }
    }
    return out->failed ? base_out_of_memory() : NULL;
}

static weft_status put_persistables(join *j) {
    gathered_bytes names;
    buffer mine;
    buffer_init(&mine, &j->t->context->allocator);
    weft_status status = list_persistables(j->t, &mine);
    if (!status) status = gather_names(j->t, &j->memory, &mine, &names);
    buffer_fini(&mine);
    if (status) return status;
    for (size_t at = 0; at < names.nbytes; at += strlen(names.bytes + at) + 1)
        if (!weft_tensors_find(j->out, names.bytes + at)) TRY(put_persistable(j, names.bytes + at));
    return NULL;
}

/* The rows of a fetch that is SelectedRows: the lowest rank's that has it. */
static weft_status put_rows(join *j, int first) {
    gathered_bytes names;
    buffer mine;
    int i = first - j->t->first_rank;
    buffer_init(&mine, &j->t->context->allocator);
    for (int k = 0; k < j->t->nlocal; k++)
        j->values[k] = j->values[k] < 0 ? -1 : own(j, k)->plan->values[j->values[k]].rows;
    if (i >= 0 && i < j->t->nlocal && j->values[i] >= 0) {
        const char *n = own(j, i)->plan->values[j->values[i]].name;
        buffer_append(&mine, n, strlen(n) + 1);
    }
    weft_status status = mine.failed ? base_out_of_memory() : gather_names(j->t, &j->memory, &mine, &names);
    buffer_fini(&mine);
    if (status || !names.nbytes) return status;
    TRY(ask(j, names.bytes));
    arena_init(&j->scratch, &j->t->context->allocator);
    status = put_one(j, first, names.bytes);
    arena_fini(&j->scratch);
    return status;
}

static weft_status put_fetches(join *j) {
    for (size_t i = 0; i < j->t->nfetches; i++) {
        const trainer_fetch *f = &j->t->fetches[i];
        memcpy(j->values, f->values, (size_t)j->t->nlocal * sizeof *j->values);
        TRY(ask(j, f->name));
        int first = first_holder(j);
        if (!weft_tensors_find(j->out, f->name)) TRY(put_holding(j, f->name));
        if (first < j->t->nranks) TRY(put_rows(j, first));
    }
    return NULL;
}

static weft_status join_all(join *j, bool with_fetches) {
    const weft_trainer *t = j->t;
    j->used = ARENA_ARRAY(&j->memory, bool *, t->nplans);
    j->values = ARENA_ARRAY(&j->memory, int32_t, t->nlocal);
    j->mine = ARENA_ARRAY(&j->memory, holding, t->nlocal);
    j->all = ARENA_ARRAY(&j->memory, holding, t->nranks);
    if (!j->used || !j->values || !j->mine || !j->all) return base_out_of_memory();
    for (size_t p = 0; p < t->nplans; p++) TRY(find_used(t->plans[p], &j->memory, &j->used[p]));
    TRY(put_persistables(j));
    return with_fetches ? put_fetches(j) : NULL;
}

static weft_status joined(const weft_trainer *t, bool with_fetches, weft_tensors **out_tensors) {
    join j = {.t = t};
    arena_init(&j.memory, &t->context->allocator);
    weft_status status = NULL;
    TRY_DONE(weft_tensors_create(t->context, &j.out));
    TRY_DONE(join_all(&j, with_fetches));
    trainer_put_flat_weights(t, j.out);
    *out_tensors = j.out;
    j.out = NULL;
done:
    weft_tensors_destroy(j.out);
    arena_fini(&j.memory);
    return status;
}

weft_status weft_trainer_result(const weft_trainer *t, weft_tensors **out_tensors) {
    return joined(t, true, out_tensors);
}

weft_status weft_trainer_state(const weft_trainer *t, weft_tensors **out_tensors) {
    return joined(t, false, out_tensors);
}
