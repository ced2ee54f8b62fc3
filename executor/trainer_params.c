/* trainer_params.c: parameters: each rank's slice of the whole tensors; and what is missing.
 *
 * The invariant: after this, everything that a step reads before it writes it has been given or is fed. A var that ops
 * read only for its shape (XShape) holds no data and is no such thing. */
#include "executor/trainer.h"

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

static weft_status missing(const weft_trainer *t, int rank, const plan_value *v, const plan_instr *reader) {
    char op[200];
    instr_place(reader, op, sizeof op);
    if (!v->persistable) {
        return weft_status_create(WEFT_NOT_FOUND, NULL, "\"%s\" is read by %s (rank %d) but not fed", v->name, op,
                                  rank);
    }
    const char *file = t->options.params_place;
    if (!t->options.params) {
        return weft_status_create(WEFT_NOT_FOUND, NULL,
                                  "parameter \"%s\" is read by %s (rank %d) but no parameters were given", v->name, op,
                                  rank);
    }
    return weft_status_create(WEFT_NOT_FOUND, NULL, "parameter \"%s\" is read by %s (rank %d) but not in %s", v->name,
                              op, rank, file ? file : "the parameters");
}

static weft_status set_param(const weft_trainer *t, int rank, const plan_value *v, const tensor *to,
                             const weft_tensor *from) {
    char want[200], got[200], whole[200];
    slice part = {.ndim = (int)from->ndim};
    memcpy(part.whole, from->dims, from->ndim * sizeof *from->dims);
    TRY(placement_slice(v->dist, part.ndim, from->dims, rank, from->name, part.offset, part.extent));
    bool same = to->dtype == from->dtype && to->ndim == part.ndim &&
                memcmp(to->dims, part.extent, (size_t)to->ndim * sizeof *to->dims) == 0;
    if (!same) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, t->options.params_place,
                                  "parameter \"%s\": rank %d expects %s, its part of %s is %s", from->name, rank,
                                  type_text(to->dtype, (size_t)to->ndim, to->dims, want, sizeof want),
                                  type_text(from->dtype, from->ndim, from->dims, whole, sizeof whole),
                                  type_text(from->dtype, from->ndim, part.extent, got, sizeof got));
    }
    slice_take(&part, weft_dtype_nbytes(to->dtype), from->data, to->data);
    return NULL;
}

weft_status trainer_set_params(weft_trainer *t) {
    for (int r = 0; r < t->nranks; r++) {
        const rank_state *state = &t->executor->ranks[r];
        for (size_t i = 0; i < state->plan->nvalues; i++) {
            const plan_value *v = &state->plan->values[i];
            if ((!v->persistable && !v->is_read_first) || trainer_is_fed(t, r, v->name)) continue;
            const weft_tensor *from =
                v->persistable && t->options.params ? weft_tensors_find(t->options.params, v->name) : NULL;
            if (from) {
                TRY(set_param(t, r, v, &state->values[i], from));
            } else if (v->is_read_first) {
                const plan_instr *reader = find_reader(state->plan, (int32_t)i);
                if (reader) return missing(t, r, v, reader);
            }
        }
    }
    return NULL;
}
