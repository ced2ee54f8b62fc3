/* fetch.c: which values are fetched, and what each rank has of them. join.c puts them together. */
#include <stdlib.h>

#include "train/gather.h"

static const char *const fetch_prefix = "fetch.";

/* --- names -------------------------------------------------------------------------------------------------------- */

static weft_status find_fetch(const weft_trainer *t, trainer_fetch *f) {
    bool found = false, *mine = t->has_fetch, *all = t->has_fetch + t->nlocal;
    for (int i = 0; i < t->nlocal; i++) {
        f->values[i] = value_index_find(t->executor->ranks[i].index, f->name);
        mine[i] = f->values[i] >= 0;
    }
    TRY(gather_each(t, mine, sizeof *mine, all));
    for (int r = 0; r < t->nranks; r++) found = found || all[r];
    if (found) return NULL;
    return weft_status_create(WEFT_NOT_FOUND, NULL, "fetch \"%s\": block 0 has no such var", f->name);
}

/* Its name is kept: the plan that it may be from can go. */
static weft_status add_fetch(weft_trainer *t, const char *n) {
    trainer_fetch *f = &t->fetches[t->nfetches];
    f->name = arena_string(&t->arena, n, strlen(n));
    f->values = ARENA_ARRAY(&t->arena, int32_t, t->nlocal);
    if (!f->name || !f->values) return base_out_of_memory();
    t->nfetches++;
    return find_fetch(t, f);
}

/* The column of "fetch.COL", or -1. */
static int64_t column_of(const char *n) {
    size_t prefix = strlen(fetch_prefix);
    if (strncmp(n, fetch_prefix, prefix) != 0) return -1;
    char *end;
    long column = strtol(n + prefix, &end, 10);
    return *end || end == n + prefix || column < 0 ? -1 : column;
}

static int by_column(const void *a, const void *b) {
    int64_t x = column_of(*(const char *const *)a), y = column_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

/* What fetch ops of this process's programs fetch. */
static weft_status list_columns(const weft_trainer *t, buffer *out) {
    for (size_t p = 0; p < t->nplans; p++) {
        for (size_t i = 0; i < t->plans[p]->nvalues; i++) {
            const plan_value *v = &t->plans[p]->values[i];
            if (v->is_fetch && column_of(v->name) >= 0) buffer_append(out, v->name, strlen(v->name) + 1);
        }
    }
    return out->failed ? base_out_of_memory() : NULL;
}

static weft_status add_columns(weft_trainer *t, arena *scratch, const buffer *mine) {
    gathered_bytes names;
    TRY(gather_names(t, scratch, mine, &names));
    size_t capacity = 0, n = 0;
    for (size_t i = 0; i < names.nbytes; i++) capacity += !names.bytes[i];
    const char **found = ARENA_ARRAY(scratch, const char *, capacity + 1);
    t->fetches = ARENA_ARRAY(&t->arena, trainer_fetch, capacity + 1);
    if (!found || !t->fetches) return base_out_of_memory();
    for (size_t at = 0; at < names.nbytes; at += strlen(names.bytes + at) + 1) found[n++] = names.bytes + at;
    qsort(found, n, sizeof *found, by_column);
    for (size_t i = 0; i < n; i++) {
        if (i && column_of(found[i]) == column_of(found[i - 1])) continue; /* the same of another rank */
        TRY(add_fetch(t, found[i]));
    }
    return NULL;
}

/* What fetch ops of any rank's program fetch, by column. */
static weft_status bind_columns(weft_trainer *t) {
    arena scratch;
    buffer mine;
    arena_init(&scratch, &t->context->allocator);
    buffer_init(&mine, &t->context->allocator);
    weft_status status = list_columns(t, &mine);
    if (!status) status = add_columns(t, &scratch, &mine);
    buffer_fini(&mine);
    arena_fini(&scratch);
    return status;
}

weft_status trainer_bind_fetches(weft_trainer *t) {
    if (!t->has_fetch) t->has_fetch = ARENA_ARRAY(&t->arena, bool, (size_t)t->nlocal + (size_t)t->nranks);
    if (!t->has_fetch) return base_out_of_memory();
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

/* A status: the value is there and could not be brought here. */
static weft_status fetch_scalar(const weft_trainer *t, int rank, size_t index, weft_scalar *out) {
    weft_tensor v;
    *out = (weft_scalar){.value = 0};
    TRY(weft_trainer_fetch(t, rank, index, &v));
    out->is_there = v.data && v.nbytes == weft_dtype_nbytes(v.dtype) && as_number(&v, &out->value);
    return NULL;
}

bool weft_trainer_fetch_scalar(const weft_trainer *t, int rank, size_t index, double *out_value) {
    weft_scalar s;
    weft_status status = fetch_scalar(t, rank, index, &s);
    weft_status_free(status);
    if (status || !s.is_there) return false;
    *out_value = s.value;
    return true;
}

weft_status weft_trainer_fetch_scalars(weft_trainer *t, weft_scalar *out) {
    size_t n = t->nfetches, nlocal = (size_t)t->nlocal, nranks = (size_t)t->nranks;
    if (!n) return NULL;
    if (!t->scalars) t->scalars = ARENA_ARRAY(&t->arena, weft_scalar, n * (nlocal + nranks));
    if (!t->scalars) return base_out_of_memory();
    weft_scalar *mine = t->scalars, *all = mine + n * nlocal;
    weft_status failure = NULL; /* told when all processes have met: the others wait for this one there */
    for (size_t i = 0; i < nlocal; i++)
        for (size_t f = 0; f < n; f++) {
            weft_status status = fetch_scalar(t, t->first_rank + (int)i, f, &mine[i * n + f]);
            if (failure)
                weft_status_free(status);
            else
                failure = status;
        }
    weft_status status = gather_each(t, mine, n * sizeof *mine, all);
    if (failure) weft_status_free(status);
    if (failure || status) return failure ? failure : status;
    for (size_t f = 0; f < n; f++)
        for (size_t r = 0; r < nranks; r++) out[f * nranks + r] = all[r * n + f];
    return NULL;
}

/* --- all of one rank ---------------------------------------------------------------------------------------------- */

static const plan_value *value_at(const weft_trainer *t, int rank, int32_t value) {
    return &executor_rank(t->executor, rank)->plan->values[value];
}

static weft_status put_one(const weft_trainer *t, int rank, int32_t value, const char *n, weft_tensors *out) {
    const tensor *from = &executor_rank(t->executor, rank)->values[value];
    weft_tensor *to;
    TRY(weft_tensors_add(out, n, from->dtype, (size_t)from->ndim, from->dims, &to));
    const void *bytes;
    TRY(executor_lend(t->executor, rank, value, &bytes));
    if (to->nbytes) memcpy(to->data, bytes, to->nbytes);
    return NULL;
}

static weft_status put_rows(const weft_trainer *t, int rank, int32_t value, weft_tensors *out) {
    int32_t rows = value < 0 ? -1 : value_at(t, rank, value)->rows;
    return rows < 0 ? NULL : put_one(t, rank, rows, value_at(t, rank, rows)->name, out);
}

static weft_status put_rank(const weft_trainer *t, int rank, bool with_fetches, weft_tensors *out) {
    const weft_plan *plan = trainer_plan(t, rank);
    for (size_t i = 0; i < plan->nvalues; i++) {
        if (plan->values[i].persistable) TRY(put_one(t, rank, (int32_t)i, plan->values[i].name, out));
    }
    for (size_t i = 0; i < t->nfetches && with_fetches; i++) {
        int32_t value = t->fetches[i].values[rank - t->first_rank];
        if (value >= 0) TRY(put_one(t, rank, value, t->fetches[i].name, out));
        TRY(put_rows(t, rank, value, out));
    }
    return NULL;
}

static weft_status of_rank(const weft_trainer *t, int rank, bool with_fetches, weft_tensors **out_tensors) {
    if (!executor_has_rank(t->executor, rank)) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks %d to %d", rank,
                                  t->first_rank, t->first_rank + t->nlocal - 1);
    }
    weft_tensors *out = NULL;
    weft_status status = NULL;
    TRY_DONE(weft_tensors_create(t->context, &out));
    TRY_DONE(put_rank(t, rank, with_fetches, out));
    trainer_put_flat_weights(t, out);
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
