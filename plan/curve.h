/* curve.h: what an instruction takes by the bytes of its tensor: measured, by NCCL's model, or over links. */
#ifndef PLAN_CURVE_H
#define PLAN_CURVE_H

#include "plan/nccl.h"

/* A table of measured times says all if there is one; then NCCL's model. Else so many messages one after another, and
 * what every op takes. Each is one of `parts` of the bytes and as slow as on the slowest link. */
typedef struct plan_curve {
    const weft_cluster_table *table; /* the cluster's */
    nccl_call nccl;                  /* machine NULL: it does not count */
    double times, parts, op_seconds;
    weft_link links[WEFT_CLUSTER_LINKS]; /* nranks does not count */
    size_t nlinks;
    bool is_split; /* an all-reduce on one link that says splits */
} plan_curve;

double plan_curve_seconds(const plan_curve *curve, double nbytes);
/* Whole nanoseconds; they do not fall as bytes grow. */
int64_t plan_curve_ns(const plan_curve *curve, double nbytes);
/* "measured", "links", or NCCL's algorithm and protocol. */
const char *plan_curve_source(const plan_curve *curve, double nbytes, char *out, size_t out_nbytes);

/* Rounded; at most 31 years. */
int64_t plan_ns(double seconds);

#endif
