/* placed.h: how ranks hold a value along one axis of their grid. */
#ifndef PROOF_SPMD_PLACED_H
#define PROOF_SPMD_PLACED_H

#include <stdbool.h>
#include <stdint.h>

typedef enum placed_kind {
    PLACED_REPLICATED, /* all ranks have the value */
    PLACED_SHARDED,    /* each has the part of its coordinate */
    PLACED_PARTIAL     /* the values of all add up to it */
} placed_kind;

enum { LIFT_RANKS = 64, LIFT_PARTITIONS = 64, LIFT_RUNS = 4 };

/* How a dimension is split over the coordinates: evenly; by the partition of that number (1 to LIFT_PARTITIONS);
 * dealt out in runs of one length, each rank every n-th: run SPLIT_RUNS + i is that of number i; or evenly too, but
 * into parts of the parts of axes behind it (lift_nest.c). */
enum { SPLIT_EVEN = 0, SPLIT_RUNS = LIFT_PARTITIONS + 1, SPLIT_INNER = SPLIT_RUNS + LIFT_RUNS };

/* Of what is not sharded, dim and split are 0. A zeroed one is replicated. */
typedef struct axis_placement {
    uint8_t kind; /* a placed_kind */
    int8_t dim;
    uint8_t split;
} axis_placement;

#define REPLICATED ((axis_placement){.kind = PLACED_REPLICATED})
#define PARTIAL ((axis_placement){.kind = PLACED_PARTIAL})

static inline axis_placement sharded_by(int dim, int split) {
    return (axis_placement){PLACED_SHARDED, (int8_t)dim, (uint8_t)split};
}
/* Evenly. */
static inline axis_placement sharded(int dim) {
    return sharded_by(dim, SPLIT_EVEN);
}
static inline bool placed_equal(axis_placement a, axis_placement b) {
    return a.kind == b.kind && a.dim == b.dim && a.split == b.split;
}
static inline bool is_replicated(axis_placement p) {
    return p.kind == PLACED_REPLICATED;
}
static inline bool is_partial(axis_placement p) {
    return p.kind == PLACED_PARTIAL;
}
static inline bool is_sharded(axis_placement p) {
    return p.kind == PLACED_SHARDED;
}
/* The dimension; -1: none is. */
static inline int sharded_dim(axis_placement p) {
    return p.kind == PLACED_SHARDED ? p.dim : -1;
}
static inline bool is_sharded_evenly(axis_placement p, int dim) {
    return p.kind == PLACED_SHARDED && p.dim == dim && p.split == SPLIT_EVEN;
}
static inline bool has_partition(axis_placement p) {
    return p.split > SPLIT_EVEN && p.split < SPLIT_RUNS;
}
static inline bool has_runs(axis_placement p) {
    return p.split >= SPLIT_RUNS && p.split < SPLIT_INNER;
}
/* 0: its parts are of those of the axes before it. */
static inline int nest_depth(axis_placement p) {
    return p.split >= SPLIT_INNER ? p.split - SPLIT_INNER + 1 : 0;
}
/* Into equal parts, whatever they are parts of. */
static inline bool is_sharded_equally(axis_placement p, int dim) {
    return p.kind == PLACED_SHARDED && p.dim == dim && (p.split == SPLIT_EVEN || p.split >= SPLIT_INNER);
}

#endif
