/* curve.c: prices of collectives by their bytes. */
#include "plan/curve.h"

#include <math.h>
#include <stdio.h>

/* 31 years: some of them together are still far from what 64 bits hold. */
static const double most_ns = 1e18;

int64_t plan_ns(double seconds) {
    double ns = floor(seconds * 1e9 + 0.5);
    return (int64_t)(ns < most_ns ? ns : most_ns);
}

/* A line between the logs of bytes and those of seconds. */
static double table_seconds(const weft_cluster_table *t, double nbytes) {
    size_t last = t->npoints - 1, k = 0;
    if (nbytes <= t->nbytes[0]) return t->seconds[0];
    if (nbytes >= t->nbytes[last]) return t->seconds[last] * (nbytes / t->nbytes[last]);
    while (nbytes >= t->nbytes[k + 1]) k++;
    double part = log(nbytes / t->nbytes[k]) / log(t->nbytes[k + 1] / t->nbytes[k]);
    return t->seconds[k] * pow(t->seconds[k + 1] / t->seconds[k], part);
}

/* A ring's all-reduce as ASTRA-sim counts it (tests/rt_template; cost survey 4): whole nanoseconds of each message, of
 * each sum in memory, and at the end of the link, once more for the first. Parts follow one another. */
static double split_seconds(const plan_curve *c, double nbytes) {
    const weft_link *l = &c->links[0];
    double message = nbytes / l->splits / c->parts, sums = c->times / 2;
    double ns = c->times * floor(1e9 * (l->seconds + message / l->bytes)) +
                sums * 3 * floor(1e9 * message / l->memory_bytes) +
                (c->times + 1) * floor(1e9 * l->endpoint_seconds + 0.5);
    return 1e-9 * l->splits * ns + c->op_seconds;
}

double plan_curve_seconds(const plan_curve *c, double nbytes) {
    if (c->table) return table_seconds(c->table, nbytes);
    if (c->nccl.machine) return plan_nccl_seconds(&c->nccl, nbytes, NULL, NULL);
    if (c->is_split) return split_seconds(c, nbytes);
    double longest = 0;
    for (size_t k = 0; k < c->nlinks; k++) {
        double seconds = c->links[k].seconds + nbytes / c->parts / c->links[k].bytes;
        if (seconds > longest) longest = seconds;
    }
    return c->times * longest + c->op_seconds;
}

int64_t plan_curve_ns(const plan_curve *c, double nbytes) {
    return plan_ns(plan_curve_seconds(c, nbytes));
}

const char *plan_curve_source(const plan_curve *c, double nbytes, char *out, size_t out_nbytes) {
    int algorithm = NCCL_RING, protocol = NCCL_SIMPLE;
    if (c->table) return "measured";
    if (!c->nccl.machine) return "links";
    (void)plan_nccl_seconds(&c->nccl, nbytes, &algorithm, &protocol);
    snprintf(out, out_nbytes, "NCCL %s %s", plan_nccl_algorithms[algorithm], plan_nccl_protocols[protocol]);
    return out;
}
