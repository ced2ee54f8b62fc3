/* spmd_price.h: what steps between placements take on a cluster. */
#ifndef PASSES_SPMD_SPMD_PRICE_H
#define PASSES_SPMD_SPMD_PRICE_H

#include "passes/spmd/spmd.h"
#include "plan/cost.h"

typedef struct spmd_prices {
    const spmd_mesh *mesh;
    arena *memory;
    weft_cluster cluster;
    plan_curve *curves; /* by kind of step and set of axes */
    bool *has_curve;
} spmd_prices;

/* `cluster_path` empty: the defaults. */
WEFT_MUST_USE weft_status spmd_prices_init(spmd_prices *c, weft_context *context, const spmd_mesh *on, arena *memory,
                                           const char *cluster_path);
WEFT_MUST_USE weft_status spmd_path_seconds(spmd_prices *c, const spmd_path *path, const kept_shape *whole,
                                            double *out);
/* An all-reduce, along one axis, in which a rank sends so much. */
WEFT_MUST_USE weft_status spmd_sum_seconds(spmd_prices *c, int axis, double sent, double *out);

#endif
