/* fetch.c: what comes back: fetches and persistables, joined over ranks.
 *
 * The rule of joining: a value with a sharded dist attr is put together from the parts of all ranks that hold it (where
 * several hold the same part, the lowest rank's counts). Any other is the lowest rank's. A rank holds a persistable
 * where its instructions touch it: a program may declare a var that only other ranks keep up to date. */
#include <stdlib.h>

#include "train/trainer.h"

static const char *const fetch_prefix = "fetch.";

/* --- names -------------------------------------------------------------------------------------------------------- */

static const value_index *index_of(const weft_trainer *t, int rank) {
    return t->executor->ranks[rank].index;
}

static weft_status find_fetch(const weft_trainer *t, trainer_fetch *f) {
    bool found = false;
    for (int r = 0; r < t->nranks; r++) {
        f->values[r] = value_index_find(index_of(t, r), f->name);
        found = found || f->values[r] >= 0;
    }
    if (found) return NULL;
    return weft_status_create(WEFT_NOT_FOUND, NULL, "fetch \"%s\": block 0 has no such var", f->name);
}

/* Its name is kept: the plan that it may be from can go. */
static weft_status add_fetch(weft_trainer *t, const char *n) {
    trainer_fetch *f = &t->fetches[t->nfetches];
    f->name = arena_string(&t->arena, n, strlen(n));
    f->values = ARENA_ARRAY(&t->arena, int32_t, t->nranks);
    if (!f->name || !f->values) return base_out_of_memory();
    t->nfetches++;
    return find_fetch(t, f);
}

/* The column of "fetch.COL", or -1. */
static int64_t column_of(const plan_value *v) {
    size_t prefix = strlen(fetch_prefix);
    if (!v->is_fetch || strncmp(v->name, fetch_prefix, prefix) != 0) return -1;
    char *end;
    long column = strtol(v->name + prefix, &end, 10);
    return *end || end == v->name + prefix || column < 0 ? -1 : column;
}

static int by_column(const void *a, const void *b) {
    int64_t x = column_of(*(const plan_value *const *)a), y = column_of(*(const plan_value *const *)b);
    return (x > y) - (x < y);
}

/* What fetch ops of any rank's program fetch, by column. */
static weft_status bind_columns(weft_trainer *t) {
    size_t capacity = 0, n = 0;
    for (size_t p = 0; p < t->nplans; p++) {
        for (size_t i = 0; i < t->plans[p]->nvalues; i++) capacity += column_of(&t->plans[p]->values[i]) >= 0;
    }
    const plan_value **found = ARENA_ARRAY(&t->arena, const plan_value *, capacity ? capacity : 1);
    t->fetches = ARENA_ARRAY(&t->arena, trainer_fetch, capacity ? capacity : 1);
    if (!found || !t->fetches) return base_out_of_memory();
    for (size_t p = 0; p < t->nplans; p++) {
        for (size_t i = 0; i < t->plans[p]->nvalues; i++) {
            if (column_of(&t->plans[p]->values[i]) >= 0) found[n++] = &t->plans[p]->values[i];
        }
    }
    qsort(found, n, sizeof *found, by_column);
    for (size_t i = 0; i < n; i++) {
        if (i && column_of(found[i]) == column_of(found[i - 1])) continue; /* the same of another rank */
        TRY(add_fetch(t, found[i]->name));
    }
    return NULL;
}

weft_status trainer_bind_fetches(weft_trainer *t) {
    for (size_t i = 0; i < t->nfetches; i++) TRY(find_fetch(t, &t->fetches[i]));
    if (t->fetches) return NULL;
    if (!t->options.nfetches) return bind_columns(t);
    t->fetches = ARENA_ARRAY(&t->arena, trainer_fetch, t->options.nfetches);
    if (!t->fetches) return base_out_of_memory();
    for (size_t i = 0; i < t->options.nfetches; i++) TRY(add_fetch(t, t->options.fetches[i]));
    return NULL;
}

/* --- one rank's values -------------------------------------------------------------------------------------------- */

size_t weft_trainer_nfetches(const weft_trainer *t) {
    return t->nfetches;
}

const char *weft_trainer_fetch_name(const weft_trainer *t, size_t index) {
    return index < t->nfetches ? t->fetches[index].name : NULL;
}

weft_status weft_trainer_fetch(const weft_trainer *t, int rank, size_t index, weft_tensor *out_tensor) {
    if (index >= t->nfetches)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "fetch %zu of %zu", index, t->nfetches);
    return weft_executor_get(t->executor, rank, t->fetches[index].name, out_tensor);
}

static bool as_number(const weft_tensor *v, double *out) {
    union {
        float f;
        double d;
        uint16_t h;
        int64_t i64;
        uint64_t u64;
        int32_t i32;
        int16_t i16;
        int8_t i8;
        uint8_t u8;
    } x;
    memcpy(&x, v->data, weft_dtype_nbytes(v->dtype) <= sizeof x ? weft_dtype_nbytes(v->dtype) : 0);
    switch (v->dtype) {
    case WEFT_FP32: *out = (double)x.f; return true;
    case WEFT_FP64: *out = x.d; return true;
    case WEFT_FP16: *out = (double)fp16_to_f32(x.h); return true;
    case WEFT_BF16: *out = (double)bf16_to_f32(x.h); return true;
    case WEFT_INT64: *out = (double)x.i64; return true;
    case WEFT_SIZE_T: *out = (double)x.u64; return true;
    case WEFT_INT32: *out = x.i32; return true;
    case WEFT_INT16: *out = x.i16; return true;
    case WEFT_INT8: *out = x.i8; return true;
    case WEFT_UINT8:
    case WEFT_BOOL: *out = x.u8; return true;
    default: return false;
    }
}

bool weft_trainer_fetch_scalar(const weft_trainer *t, int rank, size_t index, double *out_value) {
    weft_tensor v;
    weft_status status = weft_trainer_fetch(t, rank, index, &v);
    weft_status_free(status);
    if (status || !v.data || v.nbytes != weft_dtype_nbytes(v.dtype)) return false;
    return as_number(&v, out_value);
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

static const plan_value *value_at(const weft_trainer *t, int rank, int32_t value) {
    return &t->executor->ranks[rank].plan->values[value];
}

/* The placement of a value; what a fetch op fetches lies as its source does. */
static const placement *dist_of(const weft_trainer *t, int rank, int32_t value) {
    const plan_value *v = value_at(t, rank, value);
    if (!v->dist && v->view_of >= 0 && v->shape.ndim == value_at(t, rank, v->view_of)->shape.ndim &&
        memcmp(v->shape.dims, value_at(t, rank, v->view_of)->shape.dims, (size_t)v->shape.ndim * sizeof(int64_t)) ==
            0) {
        v = value_at(t, rank, v->view_of);
    }
    return v->dist && v->dist->mesh && v->dist->ndim == v->shape.ndim && placement_is_sharded(v->dist) ? v->dist : NULL;
}

static weft_status put_one(const weft_trainer *t, int rank, int32_t value, const char *n, weft_tensors *out) {
    const tensor *from = &t->executor->ranks[rank].values[value];
    weft_tensor *to;
    TRY(weft_tensors_add(out, n, from->dtype, (size_t)from->ndim, from->dims, &to));
    if (to->nbytes) memcpy(to->data, from->data, to->nbytes);
    return NULL;
}

static weft_status put_joined(const weft_trainer *t, int first, const int32_t *values, const char *n,
                              weft_tensors *out) {
    const tensor *like = &t->executor->ranks[first].values[values[first]];
    slice part = {.ndim = like->ndim};
    weft_tensor *to;
    TRY(placement_whole(dist_of(t, first, values[first]), like->ndim, like->dims, n, part.whole));
    TRY(weft_tensors_add(out, n, like->dtype, (size_t)like->ndim, part.whole, &to));
    for (int r = t->nranks - 1; r >= first; r--) {
        const placement *dist = values[r] >= 0 ? dist_of(t, r, values[r]) : NULL;
        int64_t coordinates[32];
        if (!dist || dist->mesh->ndim > 32 || !mesh_coordinates(dist->mesh, r, coordinates)) continue;
        const tensor *from = &t->executor->ranks[r].values[values[r]];
        TRY(placement_slice(dist, like->ndim, part.whole, r, n, part.offset, part.extent));
        if (memcmp(from->dims, part.extent, (size_t)like->ndim * sizeof *from->dims) != 0) {
            char got[200], want[200];
            return weft_status_create(WEFT_RUNTIME, NULL, "\"%s\": rank %d holds %s, its part by dist attr is %s", n, r,
                                      type_text(from->dtype, (size_t)from->ndim, from->dims, got, sizeof got),
                                      type_text(from->dtype, (size_t)from->ndim, part.extent, want, sizeof want));
        }
        slice_put(&part, weft_dtype_nbytes(like->dtype), to->data, from->data);
    }
    return NULL;
}

/* `values` by rank, -1 where a rank has none. */
static weft_status put_value(const weft_trainer *t, const int32_t *values, const char *n, weft_tensors *out) {
    int first = 0;
    while (first < t->nranks && values[first] < 0) first++;
    if (first == t->nranks) return NULL;
    if (dist_of(t, first, values[first])) return put_joined(t, first, values, n, out);
    return put_one(t, first, values[first], n, out);
}

static int32_t rows_of(const weft_trainer *t, int rank, int32_t value) {
    return value < 0 ? -1 : value_at(t, rank, value)->rows;
}

static weft_status put_rows(const weft_trainer *t, int rank, int32_t value, weft_tensors *out) {
    int32_t rows = rows_of(t, rank, value);
    return rows < 0 ? NULL : put_one(t, rank, rows, value_at(t, rank, rows)->name, out);
}

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

/* The value of that name on every rank: on those whose instructions touch it, or on all that declare it if none does.
 */
static void find_holders(const weft_trainer *t, bool *const *used, const char *n, int32_t *values) {
    bool any = false;
    for (int r = 0; r < t->nranks; r++) {
        values[r] = value_index_find(index_of(t, r), n);
        any = any || (values[r] >= 0 && used[t->nplans == 1 ? 0 : r][values[r]]);
    }
    for (int r = 0; r < t->nranks && any; r++) {
        if (values[r] >= 0 && !used[t->nplans == 1 ? 0 : r][values[r]]) values[r] = -1;
    }
}

static weft_status put_persistables(const weft_trainer *t, arena *scratch, weft_tensors *out) {
    bool **used = ARENA_ARRAY(scratch, bool *, t->nplans);
    int32_t *values = ARENA_ARRAY(scratch, int32_t, t->nranks);
    if (!used || !values) return base_out_of_memory();
    for (size_t p = 0; p < t->nplans; p++) TRY(find_used(t->plans[p], scratch, &used[p]));
    for (size_t p = 0; p < t->nplans; p++) {
        for (size_t i = 0; i < t->plans[p]->nvalues; i++) {
            const plan_value *v = &t->plans[p]->values[i];
            if (!v->persistable || weft_tensors_find(out, v->name)) continue;
            find_holders(t, used, v->name, values);
            TRY(put_value(t, values, v->name, out));
        }
    }
    return NULL;
}

static weft_status put_fetches(const weft_trainer *t, weft_tensors *out) {
    for (size_t i = 0; i < t->nfetches; i++) {
        const trainer_fetch *f = &t->fetches[i];
        if (!weft_tensors_find(out, f->name)) TRY(put_value(t, f->values, f->name, out));
        for (int r = 0; r < t->nranks; r++) {
            if (f->values[r] < 0) continue;
            TRY(put_rows(t, r, f->values[r], out));
            break;
        }
    }
    return NULL;
}

static weft_status joined(const weft_trainer *t, bool with_fetches, weft_tensors **out_tensors) {
    weft_tensors *out = NULL;
    arena scratch;
    arena_init(&scratch, &t->context->allocator);
    weft_status status = NULL;
    TRY_DONE(weft_tensors_create(t->context, &out));
    TRY_DONE(put_persistables(t, &scratch, out));
    if (with_fetches) TRY_DONE(put_fetches(t, out));
    *out_tensors = out;
    out = NULL;
done:
    weft_tensors_destroy(out);
    arena_fini(&scratch);
    return status;
}

weft_status weft_trainer_result(const weft_trainer *t, weft_tensors **out_tensors) {
    return joined(t, true, out_tensors);
}

weft_status weft_trainer_state(const weft_trainer *t, weft_tensors **out_tensors) {
    return joined(t, false, out_tensors);
}

static weft_status put_rank(const weft_trainer *t, int rank, bool with_fetches, weft_tensors *out) {
    const weft_plan *plan = trainer_plan(t, rank);
    for (size_t i = 0; i < plan->nvalues; i++) {
        if (plan->values[i].persistable) TRY(put_one(t, rank, (int32_t)i, plan->values[i].name, out));
    }
    for (size_t i = 0; i < t->nfetches && with_fetches; i++) {
        int32_t value = t->fetches[i].values[rank];
        if (value >= 0) TRY(put_one(t, rank, value, t->fetches[i].name, out));
        TRY(put_rows(t, rank, value, out));
    }
    return NULL;
}

static weft_status of_rank(const weft_trainer *t, int rank, bool with_fetches, weft_tensors **out_tensors) {
    if (rank < 0 || rank >= t->nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks 0 to %d", rank,
                                  t->nranks - 1);
    }
    weft_tensors *out = NULL;
    weft_status status = NULL;
    TRY_DONE(weft_tensors_create(t->context, &out));
    TRY_DONE(put_rank(t, rank, with_fetches, out));
    *out_tensors = out;
    out = NULL;
done:
    weft_tensors_destroy(out);
    return status;
}

weft_status weft_trainer_rank_result(const weft_trainer *t, int rank, weft_tensors **out_tensors) {
    return of_rank(t, rank, true, out_tensors);
}

weft_status weft_trainer_rank_state(const weft_trainer *t, int rank, weft_tensors **out_tensors) {
    return of_rank(t, rank, false, out_tensors);
}
