/* values.c: values as the host sees them.
 *
 * Where the host may touch the device's memory, its own bytes are lent. Elsewhere each value that the host looks at
 * gets a copy of its own in memory of the host. It is filled when it is asked for and lives as long as the executor, so
 * that several may be held at once. */
#include "dist_attr/slice.h"
#include "executor/executor.h"

static size_t nbytes_of(const tensor *t) {
    return (size_t)t->numel * weft_dtype_nbytes(t->dtype);
}

static const device_engine *engine_of(const weft_executor *x) {
    return x->device->engine;
}

weft_status executor_stage(const weft_executor *x, int rank, int32_t value, void **out_bytes) {
    const rank_state *state = executor_rank(x, rank);
    const tensor *t = &state->values[value];
    *out_bytes = t->data;
    if (engine_of(x)->has_host_memory || !nbytes_of(t)) return NULL;
    device_memory *copy = &state->copies[value];
    if (!copy->bytes) TRY(engine_of(x)->alloc(x->device, rank, DEVICE_HOST, nbytes_of(t), copy));
    *out_bytes = copy->bytes;
    return NULL;
}

weft_status executor_unstage(weft_executor *x, int rank, int32_t value) {
    const rank_state *state = executor_rank(x, rank);
    const tensor *t = &state->values[value];
    if (engine_of(x)->has_host_memory || !nbytes_of(t)) return NULL;
    return engine_of(x)->copy_in(x->device, rank, t->data, state->copies[value].bytes, nbytes_of(t));
}

weft_status executor_take(weft_executor *x, int rank, int32_t value, const slice *part, const void *whole) {
    const tensor *t = &executor_rank(x, rank)->values[value];
    void *bytes;
    if (!nbytes_of(t)) return NULL;
    if (slice_is_whole(part)) return engine_of(x)->copy_in(x->device, rank, t->data, whole, nbytes_of(t));
    TRY(executor_stage(x, rank, value, &bytes));
    slice_take(part, weft_dtype_nbytes(t->dtype), whole, bytes);
    return executor_unstage(x, rank, value);
}

weft_status executor_lend(const weft_executor *x, int rank, int32_t value, const void **out_bytes) {
    const tensor *t = &executor_rank(x, rank)->values[value];
    void *bytes;
    TRY(executor_stage(x, rank, value, &bytes));
    *out_bytes = bytes;
    if (engine_of(x)->has_host_memory || !nbytes_of(t)) return NULL;
    return engine_of(x)->copy_out(x->device, rank, bytes, t->data, nbytes_of(t));
}

/* --- by name ------------------------------------------------------------------------------------------------------ */

static weft_status check_rank(const weft_executor *x, int rank) {
    if (executor_has_rank(x, rank)) return NULL;
    if (rank >= 0 && rank < x->nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: this process has ranks %d to %d", rank,
                                  x->first_rank, x->first_rank + x->nlocal - 1);
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks 0 to %d", rank, x->nranks - 1);
}

static weft_status type_error(const char *n, const tensor *want, const weft_tensor *got) {
    char expected[200], found[200];
    type_text(want->dtype, (size_t)want->ndim, want->dims, expected, sizeof expected);
    type_text(got->dtype, got->ndim, got->dims, found, sizeof found);
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "\"%s\": expected %s, found %s", n, expected, found);
}

static bool same_type(const tensor *t, const weft_tensor *u) {
    if (t->dtype != u->dtype || (size_t)t->ndim != u->ndim) return false;
    return memcmp(t->dims, u->dims, u->ndim * sizeof *u->dims) == 0;
}

weft_status weft_executor_set(weft_executor *x, int rank, const char *n, const weft_tensor *from) {
    TRY(check_rank(x, rank));
    const rank_state *state = executor_rank(x, rank);
    int32_t v = value_index_find(state->index, n);
    if (v < 0) return weft_status_create(WEFT_NOT_FOUND, NULL, "\"%s\": rank %d has no such value", n, rank);
    const tensor *to = &state->values[v];
    if (!same_type(to, from)) return type_error(n, to, from);
    if (!nbytes_of(to)) return NULL;
    return engine_of(x)->copy_in(x->device, rank, to->data, from->data, nbytes_of(to));
}

weft_status weft_executor_get(const weft_executor *x, int rank, const char *n, weft_tensor *out_tensor) {
    TRY(check_rank(x, rank));
    const rank_state *state = executor_rank(x, rank);
    int32_t v = value_index_find(state->index, n);
    *out_tensor = (weft_tensor){.name = n, .dtype = WEFT_DTYPE_NONE};
    if (v < 0) return NULL;
    const plan_value *value = &state->plan->values[v];
    const tensor *t = &state->values[v];
    const void *bytes;
    if (value->space != PLAN_PERSISTENT && !value->is_fetch) return NULL; /* its bytes may be another's by now */
    TRY(executor_lend(x, rank, v, &bytes));
    *out_tensor = (weft_tensor){
        .name = value->name, .dtype = t->dtype, .ndim = (size_t)t->ndim, .data = (void *)bytes, .nbytes = nbytes_of(t)};
    memcpy(out_tensor->dims, t->dims, sizeof t->dims);
    return NULL;
}
