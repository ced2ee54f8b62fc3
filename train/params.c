/* params.c: what persistables hold before the first step: each rank's part of a saved state, of parameters, or
 * of what a startup program wrote, in that order; and what is missing.
 *
 * The invariant: after this, everything that a step reads before it writes it has been given or is fed. A var that ops
 * read only for its shape (XShape) holds no data and is no such thing. */
#include <stdio.h>

#include "train/trainer.h"

/* The first instruction that reads the value's data, or NULL. */
static const plan_instr *find_reader(const weft_plan *plan, int32_t value) {
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        if (instr->guard == value || instr->outer_guard == value) return instr;
        for (size_t s = 0; s < instr->schema->ninputs; s++) {
            if (strcmp(instr->schema->inputs[s].name, "XShape") == 0) continue;
            for (uint32_t k = instr->in_first[s]; k < instr->in_first[s + 1]; k++) {
                if (instr->in[k] == value) return instr;
            }
        }
    }
    return NULL;
}

/* Where one looked for a parameter: "a.npz, b.npz and the startup program". */
static const char *places(const weft_trainer *t, char *out, size_t nbytes) {
    const weft_trainer_options *o = &t->options;
    const char *found[3];
    size_t n = 0;
    if (o->state) found[n++] = o->state_place ? o->state_place : "the state";
    if (o->params) found[n++] = o->params_place ? o->params_place : "the parameters";
    if (o->nstartups) found[n++] = "the startup program";
    out[0] = '\0';
    for (size_t i = 0, used = 0; i < n && used < nbytes; i++) {
        const char *before = i == 0 ? "" : i + 1 == n ? " and " : ", ";
        used += (size_t)snprintf(out + used, nbytes - used, "%s%s", before, found[i]);
    }
    return out;
}

static weft_status missing(const weft_trainer *t, int rank, const plan_value *v, const plan_instr *reader) {
    char op[200], where[600];
    instr_place(reader, op, sizeof op);
    if (!v->persistable) {
        return weft_status_create(WEFT_NOT_FOUND, NULL, "\"%s\" is read by %s (rank %d) but not fed", v->name, op,
                                  rank);
    }
    if (!places(t, where, sizeof where)[0]) {
        return weft_status_create(WEFT_NOT_FOUND, NULL,
                                  "parameter \"%s\" is read by %s (rank %d) but no parameters were given", v->name, op,
                                  rank);
    }
    return weft_status_create(WEFT_NOT_FOUND, NULL, "parameter \"%s\" is read by %s (rank %d) but not in %s", v->name,
                              op, rank, where);
}

/* A value for before the first step, and where it is from. */
typedef struct given {
    weft_tensor tensor;
    bool is_part; /* the rank's own, taken as it is; else the rank takes its part */
    const char *place;
} given;

static bool take_found(const weft_tensors *set, const char *n, given *out) {
    const weft_tensor *found = set ? weft_tensors_find(set, n) : NULL;
    if (found) out->tensor = *found;
    return found;
}

/* What the startup programs wrote to a persistable; false if nothing. `out_is_part`: it is the rank's own part. */
static bool find_started(const weft_trainer *t, int rank, const char *n, weft_tensor *out_tensor, bool *out_is_part) {
    if (!t->startup) return false;
    *out_is_part = t->nranks == 1 || t->startup->nranks > 1;
    const rank_state *from = executor_rank(t->startup->executor, *out_is_part ? rank : 0);
    int32_t value = value_index_find(from->index, n);
    if (value < 0 || !from->plan->values[value].persistable || !from->plan->values[value].is_written) return false;
    weft_status status = weft_executor_get(t->startup->executor, from->rank, n, out_tensor);
    weft_status_free(status);
    return !status && out_tensor->dtype != WEFT_DTYPE_NONE;
}

static bool find_given(const weft_trainer *t, int rank, const char *n, given *out) {
    const weft_trainer_options *o = &t->options;
    *out = (given){.is_part = o->state_per_rank, .place = o->state_place};
    if (o->state && take_found(o->state[o->state_per_rank ? rank : 0], n, out)) return true;
    *out = (given){.place = o->params_place};
    if (take_found(o->params, n, out)) return true;
    *out = (given){.place = "the startup program"};
    return find_started(t, rank, n, &out->tensor, &out->is_part);
}

bool trainer_find_whole(const weft_trainer *t, int rank, const char *n, weft_tensor *out) {
    given found;
    if (!find_given(t, rank, n, &found) || found.is_part) return false;
    *out = found.tensor;
    return true;
}

static bool is_rounded(weft_dtype to, weft_dtype from) {
    return from == WEFT_FP32 && (to == WEFT_FP16 || to == WEFT_BF16);
}

/* The part of fp32 values, rounded to the half type of `to`: what Paddle's amp_init does with a startup program's. */
static weft_status take_rounded(const weft_trainer *t, int rank, int32_t value, const slice *part,
                                const weft_tensor *from, const tensor *to) {
    const weft_allocator *a = &t->context->allocator;
    size_t count = (size_t)to->numel;
    void *bytes;
    TRY(executor_stage(t->executor, rank, value, &bytes));
    float *values = base_alloc(a, count * sizeof *values);
    if (!values) return base_out_of_memory();
    slice_take(part, sizeof *values, from->data, values);
    uint16_t *halves = bytes;
    for (size_t i = 0; i < count; i++)
        halves[i] = to->dtype == WEFT_BF16 ? f32_to_bf16(values[i]) : f32_to_fp16(values[i]);
    base_free(a, values, count * sizeof *values);
    return executor_unstage(t->executor, rank, value);
}

/* Startup programs of Paddle make the counts of a metric a vector one element longer than the op, which drops the last.
 */
static weft_tensor without_spare_count(const weft_plan *plan, int32_t value, const tensor *to, weft_tensor from) {
    const plan_instr *reader = find_reader(plan, value);
    bool is_longer = from.ndim == 1 && from.dims[0] == to->numel + 1;
    if (!is_longer || !reader || !(reader->schema->effects & OP_METRIC)) return from;
    from.ndim = (size_t)to->ndim;
    memcpy(from.dims, to->dims, from.ndim * sizeof *from.dims);
    return from;
}

static weft_status set_param(const weft_trainer *t, int rank, int32_t value, const given *g) {
    const plan_value *v = &executor_rank(t->executor, rank)->plan->values[value];
    const tensor *to = &executor_rank(t->executor, rank)->values[value];
    const weft_tensor kept = without_spare_count(executor_rank(t->executor, rank)->plan, value, to, g->tensor);
    const weft_tensor *from = &kept;
    char want[200], got[200], whole[200];
    slice part = {.ndim = (int)from->ndim};
    memcpy(part.whole, from->dims, from->ndim * sizeof *from->dims);
    memcpy(part.extent, from->dims, from->ndim * sizeof *from->dims);
    if (!g->is_part) TRY(placement_slice(v->dist, part.ndim, from->dims, rank, v->name, part.offset, part.extent));
    bool rounded = is_rounded(to->dtype, from->dtype);
    bool same = (rounded || to->dtype == from->dtype) && to->ndim == part.ndim &&
                memcmp(to->dims, part.extent, (size_t)to->ndim * sizeof *to->dims) == 0;
    if (!same) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, g->place,
                                  "parameter \"%s\": rank %d expects %s, its part of %s is %s", v->name, rank,
                                  type_text(to->dtype, (size_t)to->ndim, to->dims, want, sizeof want),
                                  type_text(from->dtype, from->ndim, from->dims, whole, sizeof whole),
                                  type_text(from->dtype, from->ndim, part.extent, got, sizeof got));
    }
    if (rounded) return take_rounded(t, rank, value, &part, from, to);
    return executor_take(t->executor, rank, value, &part, from->data);
}

weft_status trainer_set_params(weft_trainer *t) {
    for (int r = t->first_rank; r < t->first_rank + t->nlocal; r++) {
        const rank_state *state = executor_rank(t->executor, r);
        for (size_t i = 0; i < state->plan->nvalues; i++) {
            const plan_value *v = &state->plan->values[i];
            if ((!v->persistable && !v->is_read_first) || state->is_inherited[i]) continue;
            if (trainer_is_fed(t, r, v->name)) continue;
            given g;
            if (v->persistable && find_given(t, r, v->name, &g)) {
                TRY(set_param(t, r, (int32_t)i, &g));
            } else if (v->is_read_first) {
                const plan_instr *reader = find_reader(state->plan, (int32_t)i);
                if (reader) return missing(t, r, v, reader);
            }
        }
    }
    return NULL;
}

/* --- between steps ------------------------------------------------------------------------------------------------ */

weft_status weft_trainer_set(weft_trainer *t, const char *n, const weft_tensor *whole) {
    bool found = false;
    for (int r = t->first_rank; r < t->first_rank + t->nlocal; r++) {
        const rank_state *state = executor_rank(t->executor, r);
        int32_t value = value_index_find(state->index, n);
        if (value < 0 || !state->plan->values[value].persistable) continue;
        TRY(set_param(t, r, value, &(given){.tensor = *whole, .place = "weft_trainer_set"}));
        found = true;
    }
    if (found || t->nlocal < t->nranks) return NULL; /* another process may have it */
    return weft_status_create(WEFT_NOT_FOUND, NULL, "no rank has a persistable \"%s\"", n);
}

/* A half type is given as fp32, which is rounded. */
static bool put_scalar(weft_dtype dtype, double number, weft_tensor *out) {
    switch (dtype) {
    case WEFT_FP16:
    case WEFT_BF16:
    case WEFT_FP32: out->dtype = WEFT_FP32, *(float *)out->data = (float)number; return true;
    case WEFT_FP64: *(double *)out->data = number; return true;
    case WEFT_INT32: *(int32_t *)out->data = (int32_t)number; return true;
    case WEFT_INT64: *(int64_t *)out->data = (int64_t)number; return true;
    default: return false;
    }
}

weft_status weft_trainer_set_scalar(weft_trainer *t, const char *n, double number) {
    for (int r = t->first_rank; r < t->first_rank + t->nlocal; r++) {
        const rank_state *state = executor_rank(t->executor, r);
        int32_t value = value_index_find(state->index, n);
        if (value < 0) continue;
        const tensor *to = &state->values[value];
        double bytes;
        weft_tensor one = {
            .name = n, .dtype = to->dtype, .ndim = (size_t)to->ndim, .data = &bytes, .nbytes = sizeof bytes};
        for (int d = 0; d < to->ndim; d++) one.dims[d] = to->dims[d];
        if (to->numel != 1 || !put_scalar(to->dtype, number, &one))
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "\"%s\": expected one number, found %s", n,
                                      type_text(to->dtype, one.ndim, one.dims, (char[200]){0}, 200));
        return weft_trainer_set(t, n, &one);
    }
    return t->nlocal < t->nranks ? NULL
                                 : weft_status_create(WEFT_NOT_FOUND, NULL, "no rank has a persistable \"%s\"", n);
}
