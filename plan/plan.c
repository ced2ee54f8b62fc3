/* plan.c: what is asked of a whole plan. */
#include "plan/plan.h"

void weft_plan_destroy(weft_plan *plan) {
    if (!plan) return;
    weft_program_destroy(plan->program);
    arena_fini(&plan->arena);
    base_free(&plan->context->allocator, plan, sizeof *plan);
}

size_t weft_plan_nvalues(const weft_plan *plan) {
    return plan->nvalues;
}

void weft_plan_value_at(const weft_plan *plan, size_t index, weft_plan_value *out_value) {
    const plan_value *v = &plan->values[index];
    *out_value = (weft_plan_value){.name = v->name,
                                   .dtype = (weft_dtype)v->shape.dtype,
                                   .ndim = (size_t)v->shape.ndim,
                                   .persistable = v->persistable,
                                   .is_feed = v->is_feed,
                                   .is_fetch = v->is_fetch,
                                   .is_written = v->is_written,
                                   .is_read_first = v->is_read_first};
    memcpy(out_value->dims, v->shape.dims, (size_t)v->shape.ndim * sizeof *v->shape.dims);
}

void weft_plan_summarize(const weft_plan *plan, weft_plan_summary *out_summary) {
    *out_summary = (weft_plan_summary){.ninstructions = plan->ninstrs,
                                       .nremoved_ops = plan->nremoved,
                                       .nstreams = (size_t)plan->nstreams,
                                       .persistent_nbytes = plan->persistent_nbytes,
                                       .temporary_nbytes = plan->temporary_nbytes,
                                       .live_nbytes = plan->live_nbytes,
                                       .nbuckets = plan->nbuckets,
                                       .bucket_nbytes = plan->bucket_nbytes,
                                       .largest_bucket_nbytes = plan->largest_bucket_nbytes,
                                       .ahead_nbytes = plan->ahead_nbytes,
                                       .written_nbytes = plan->written_nbytes};
    for (size_t i = 0; i < plan->ninstrs; i++) {
        out_summary->nevents += plan->instrs[i].nwaits;
        out_summary->ncollectives += plan->instrs[i].ring_id >= 0;
    }
}
