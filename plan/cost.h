/* cost.h: what the instructions of a plan compute and move, and how long they take on a cluster, by a model. */
#ifndef PLAN_COST_H
#define PLAN_COST_H

#include "ops/collectives.h"
#include "ops/cost.h"
#include "plan/curve.h"
#include "plan/plan.h"
#include "plan/rings.h"
#include "weft/cluster.h"

/* Flops and bytes of an instruction. */
WEFT_MUST_USE weft_status plan_cost_of(const weft_plan *plan, const plan_instr *instr, arena *scratch,
                                       op_cost *out_cost);

/* A description with the defaults filled in; an error where a number makes no sense. `given` may be NULL. */
WEFT_MUST_USE weft_status plan_cluster_settle(const weft_cluster *given, weft_cluster *out_cluster);

/* Flops a second of matrix products of so many rows. */
double plan_product_rate(const weft_cluster *cluster, double rows);

/* What each instruction takes in a run of `nranks` ranks: ninstrs numbers. Of a collective: from when its last member
 * has come. `rank` is one that runs the plan: sends go from there. `cluster` is a settled one. Cost: O(instructions +
 * ranks in rings). */
WEFT_MUST_USE weft_status plan_find_times(const weft_plan *plan, const weft_cluster *cluster, int nranks, int64_t rank,
                                          arena *scratch, int64_t *out_ns);
/* The same, and where each number comes from: a static text, or one in `scratch`. */
WEFT_MUST_USE weft_status plan_find_costs(const weft_plan *plan, const weft_cluster *cluster, int nranks, int64_t rank,
                                          arena *scratch, int64_t *out_ns, const char **out_sources);

/* Of a collective that is no send or receive, on a ring of two ranks or more: plan_find_times says the same. The curve
 * borrows the cluster's tables. */
WEFT_MUST_USE weft_status plan_collective_curve(const weft_cluster *cluster, const plan_ring *r, const weft_op *op,
                                                plan_curve *out_curve);
/* The same of a kind. */
WEFT_MUST_USE weft_status plan_kind_curve(const weft_cluster *cluster, const plan_ring *r, collective_kind kind,
                                          plan_curve *out_curve);

/* Adds nanoseconds without overflow. */
int64_t plan_later(int64_t at_ns, int64_t by_ns);

#endif
