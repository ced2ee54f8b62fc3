/* live.c: how many bytes of temporaries are live at each instruction, in plan order: what an arena needs at least.
 *
 * A buffer is live from the first to the last instruction that touches it or a slice of it. An output that takes over
 * the bytes of an input counts from the next instruction on: at this one the input stands for both. Bytes are counted
 * as they are, without the padding to PLAN_ALIGNMENT that an arena has. A plan that was read back gives the same
 * numbers, since all of it follows from values and instructions. */
#include "plan/plan.h"

typedef struct lifetime {
    int32_t first, last; /* instructions; first is -1 while nothing touched it */
} lifetime;

int32_t plan_root_of(const weft_plan *plan, int32_t value) {
    while (plan->values[value].view_of >= 0) value = plan->values[value].view_of;
    return value;
}

static void touch(const weft_plan *plan, lifetime *lives, int32_t value, int32_t instr) {
    for (; value >= 0; value = plan->values[value].rows) {
        lifetime *l = &lives[plan_root_of(plan, value)];
        if (l->first < 0) l->first = instr;
        l->last = instr;
    }
}

static void find_lifetimes(const weft_plan *plan, lifetime *lives) {
    for (size_t v = 0; v < plan->nvalues; v++) lives[v] = (lifetime){-1, -1};
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        uint32_t nout = instr->out_first[instr->schema->noutputs];
        for (size_t s = 0; s < instr->schema->ninputs; s++) {
            if (instr->schema->inputs[s].only_type) continue;
            for (uint32_t k = instr->in_first[s]; k < instr->in_first[s + 1]; k++)
                touch(plan, lives, instr->in[k], (int32_t)i);
        }
        for (uint32_t k = 0; k < nout; k++) touch(plan, lives, instr->out[k], (int32_t)i);
        touch(plan, lives, instr->guard, (int32_t)i);
        touch(plan, lives, instr->outer_guard, (int32_t)i);
    }
}

/* Whether a value that begins at `instr` lies where an input lies that ends there. */
static bool takes_over(const weft_plan *plan, const lifetime *lives, int32_t value, int32_t instr) {
    const plan_instr *i = &plan->instrs[instr];
    for (uint32_t k = 0; k < i->in_first[i->schema->ninputs]; k++) {
        if (i->in[k] < 0) continue;
        int32_t from = plan_root_of(plan, i->in[k]);
        const plan_value *v = &plan->values[from];
        if (from != value && v->space == PLAN_TEMPORARY && v->nbytes && v->offset == plan->values[value].offset &&
            lives[from].first < instr && lives[from].last == instr)
            return true;
    }
    return false;
}

weft_status plan_live_rest(const weft_plan *plan, const bool *left_out, arena *scratch, int64_t *out_live,
                           int32_t *out_first) {
    lifetime *lives = ARENA_ARRAY(scratch, lifetime, plan->nvalues + 1);
    int64_t *change = ARENA_ARRAY(scratch, int64_t, plan->ninstrs + 2);
    if (!lives || !change) return base_out_of_memory();
    find_lifetimes(plan, lives);
    for (size_t v = 0; v < plan->nvalues; v++) {
        const plan_value *value = &plan->values[v];
        if (out_first) out_first[v] = lives[v].first;
        if (value->space != PLAN_TEMPORARY || value->view_of >= 0 || lives[v].first < 0) continue;
        if (left_out && left_out[v]) continue;
        bool takes = !left_out && takes_over(plan, lives, (int32_t)v, lives[v].first);
        change[lives[v].first + takes] += value->nbytes;
        change[lives[v].last + 1] -= value->nbytes;
    }
    int64_t live = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) out_live[i] = live += change[i];
    return NULL;
}

weft_status plan_live_bytes(const weft_plan *plan, arena *scratch, int64_t *out_live) {
    return plan_live_rest(plan, NULL, scratch, out_live, NULL);
}

weft_status plan_find_peak(weft_plan *plan) {
    arena scratch;
    arena_init(&scratch, &plan->context->allocator);
    weft_status status = NULL;
    int64_t *live = ARENA_ARRAY(&scratch, int64_t, plan->ninstrs + 1);
    if (!live)
        status = base_out_of_memory();
    else
        status = plan_live_bytes(plan, &scratch, live);
    plan->live_nbytes = 0;
    for (size_t i = 0; !status && i < plan->ninstrs; i++)
        if (live[i] > plan->live_nbytes) plan->live_nbytes = live[i];
    if (!status) status = plan_find_buckets(plan, live, &scratch);
    arena_fini(&scratch);
    return status;
}
