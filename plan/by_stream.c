/* by_stream.c: a plan as those see it who run or simulate it: instructions stream by stream. A plan may have been read
 * from a file, so that streams cannot wait in a circle is checked here. */
#include <stdio.h>

#include "plan/plan.h"

const char *instr_place(const plan_instr *instr, char *out, size_t nbytes) {
    snprintf(out, nbytes, "%s #%d", instr->schema ? instr->schema->type : instr->op->type->bytes, instr->op_index);
    return out;
}

double plan_seconds_late(const weft_delay *delays, size_t ndelays, int rank, const plan_instr *instr) {
    double seconds = 0;
    for (size_t i = 0; i < ndelays; i++) {
        const weft_delay *d = &delays[i];
        if (d->op_index == instr->op_index && (d->rank < 0 || d->rank == rank)) seconds += d->seconds;
    }
    return seconds < 1e9 ? seconds : 1e9;
}

weft_status plan_check_waits(const weft_plan *plan, const plan_instr *instr, const size_t *ndone) {
    char op[200];
    if (instr->stream < 0 || instr->stream >= plan->nstreams || (size_t)instr->position != ndone[instr->stream])
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "%s: plan: instruction %zu is not at its place of a stream",
                                  instr_place(instr, op, sizeof op), (size_t)(instr - plan->instrs));
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        if (w->stream < 0 || w->stream >= plan->nstreams || w->count < 0 || (size_t)w->count > ndone[w->stream])
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                      "%s: plan: it waits for an instruction that comes later",
                                      instr_place(instr, op, sizeof op));
    }
    return NULL;
}

weft_status plan_list_streams(const weft_plan *plan, arena *a, plan_stream **out_streams) {
    size_t nstreams = plan->nstreams > 0 ? (size_t)plan->nstreams : 0;
    plan_stream *streams = ARENA_ARRAY(a, plan_stream, nstreams + 1);
    size_t *ndone = ARENA_ARRAY(a, size_t, nstreams + 1);
    if (!streams || !ndone) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        TRY(plan_check_waits(plan, instr, ndone));
        ndone[instr->stream]++;
    }
    for (size_t s = 0; s < nstreams; s++) {
        streams[s].instrs = ARENA_ARRAY(a, const plan_instr *, ndone[s] + 1);
        if (!streams[s].instrs) return base_out_of_memory();
    }
    for (size_t i = 0; i < plan->ninstrs; i++) {
        plan_stream *s = &streams[plan->instrs[i].stream];
        s->instrs[s->ninstrs++] = &plan->instrs[i];
    }
    *out_streams = streams;
    return NULL;
}
