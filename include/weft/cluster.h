/* weft/cluster.h: what programs run on, for models of time: how fast a rank computes, and how ranks are linked. */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_CLUSTER_LINKS = 8, WEFT_CLUSTER_TABLES = 12, WEFT_TABLE_POINTS = 32 }; /* at most */

/* Over how many hops a message goes from one rank of a group to another. */
typedef enum weft_topology {
    WEFT_TOPOLOGY_DIRECT, /* one: each has a link to every other */
    WEFT_TOPOLOGY_RING,   /* each has links to the one before and the one behind; the shorter way round */
    WEFT_TOPOLOGY_SWITCH, /* two */
    WEFT_TOPOLOGY_COUNT
} weft_topology;

/* How the ranks of a group reach one another. */
typedef struct weft_link {
    int nranks;     /* of a group: ranks 0 .. nranks - 1 are one, the next so many another, and so on; 0: all ranks */
    double bytes;   /* a second, from one rank to another; default 5e10 */
    double seconds; /* what each hop of a message takes beside that; default 5e-6 */
    weft_topology topology;
    /* An all-reduce over this link alone is cut into so many parts, sent one after another, as ASTRA-sim does: each of
     * its messages takes endpoint_seconds at the end of the link, and each of its sums moves three times the message's
     * bytes in memory. 0: it is not. */
    int splits;
    double endpoint_seconds, memory_bytes; /* memory_bytes: a second; default: the cluster's bytes */
} weft_link;

/* What collectives of one kind were measured to take, by the bytes of their larger side. Both rise from point to point,
 * seconds may stay. Between two points the log of the seconds is linear in the log of the bytes. Below the first point
 * it is the first's seconds, beyond the last one the last's bytes a second. */
typedef struct weft_cluster_table {
    char kind[16]; /* as weft_collective.kind (weft/collective.h): "all_reduce", ... */
    int nranks;    /* of the ring */
    int nnodes;    /* groups of the first link that the ring has members in; 0: any number */
    size_t npoints;
    double nbytes[WEFT_TABLE_POINTS], seconds[WEFT_TABLE_POINTS];
} weft_cluster_table;

/* What matrix products were measured to compute: flops a second by the rows of their left operand. Rows rise. Between
 * two points the log of the rate is linear in the log of the rows, beyond the ends it is that of the end. */
typedef struct weft_cluster_products {
    size_t npoints;
    double rows[WEFT_TABLE_POINTS], flops[WEFT_TABLE_POINTS];
} weft_cluster_products;

/* 0 means the default, that of a nominal accelerator. */
typedef struct weft_cluster {
    double flops;      /* a second, on one stream; default 1e14 */
    double bytes;      /* a second, read or written by one stream; default 2e12 */
    double op_seconds; /* what an instruction takes beside that; default 2e-6 */
    /* From the smallest groups to the largest, each a whole number of times as large as the one before. Two ranks use
     * the first one that has them in one group. None: one of all ranks, with the defaults. */
    weft_link links[WEFT_CLUSTER_LINKS];
    size_t nlinks;
    /* The GPUs, by name: "v100", "a100", "h100" or "b200"; "": none of them. Then all-reduces, all-gathers and
     * reduce-scatters take what NCCL's own model says of them (plan/nccl.c), over links of these bytes a second: the
     * first joins the ranks of a node, the second nodes. */
    char machine[8];
    /* Measured: before what NCCL's model or links say. For rings of other kinds and sizes these count. */
    weft_cluster_table tables[WEFT_CLUSTER_TABLES];
    size_t ntables;
    weft_cluster_products products; /* 0 points: `flops` counts */
    /* How many times as long an instruction of the compute stream takes while a collective of the same rank runs on
     * another stream. The same of such a collective while one of its ranks computes; default 1. */
    double compute_beside_collective, collective_beside_compute;
    /* What instructions were measured to take (weft/profile.h): before flops and bytes. Borrowed; NULL: nothing. */
    const struct weft_profile *profile;
} weft_cluster;

/* Reads a cluster file (docs/clusters.md). `place` names it in messages. Problems go to the context's sink with line
 * and column; the status repeats the first. */
WEFT_MUST_USE weft_status weft_cluster_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                                             weft_cluster *out_cluster);
WEFT_MUST_USE weft_status weft_cluster_load(weft_context *context, const char *path, weft_cluster *out_cluster);
/* The file that reads back as this cluster, without its profile. The caller owns the bytes (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_cluster_print(weft_context *context, const weft_cluster *cluster, char **out_bytes,
                                             size_t *out_nbytes);

#ifdef __cplusplus
}
#endif
#endif
