/* weft/costs.h: what each instruction of a plan takes by a model, and beside it what it was measured to take. */
#ifndef WEFT_COSTS_H
#define WEFT_COSTS_H

#include "weft/cluster.h"
#include "weft/plan_instr.h"
#include "weft/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_costs weft_costs;

typedef struct weft_cost {
    double seconds; /* by the model */
    /* Where that comes from: "measured" (a table of the cluster), "links", NCCL's algorithm and protocol, "profile",
     * "flops", "bytes", or "op": what every op takes. Borrowed from the costs. */
    const char *source;
    double flops, nbytes;    /* that it computes and moves */
    double measured_seconds; /* of the profile; negative: it says nothing of this one */
} weft_cost;

/* Of a rank in a run of `nranks` (0: as many as the program's rings name, and 2 at least). `measured` may be NULL; that
 * of another program is refused. */
WEFT_MUST_USE weft_status weft_costs_create(weft_context *context, const weft_plan *plan, const weft_cluster *cluster,
                                            const weft_profile *measured, int nranks, int rank, weft_costs **out_costs);
void weft_costs_destroy(weft_costs *costs); /* NULL is fine */
/* Of the instruction at `index`, in the order of weft_plan_instr_at (weft/plan_instr.h). */
weft_cost weft_costs_at(const weft_costs *costs, size_t index);

#ifdef __cplusplus
}
#endif
#endif
