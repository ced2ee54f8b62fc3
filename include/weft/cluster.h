/* weft/cluster.h: what programs run on, for models of time: how fast a rank computes, and how ranks are linked. */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_CLUSTER_LINKS = 8 }; /* at most */

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
} weft_link;

/* 0 means the default, that of a nominal accelerator. */
typedef struct weft_cluster {
    double flops;      /* a second, on one stream; default 1e14 */
    double bytes;      /* a second, read or written by one stream; default 2e12 */
    double op_seconds; /* what an instruction takes beside that; default 2e-6 */
    /* From the smallest groups to the largest, each a whole number of times as large as the one before. Two ranks use
     * the first one that has them in one group. None: one of all ranks, with the defaults. */
    weft_link links[WEFT_CLUSTER_LINKS];
    size_t nlinks;
} weft_cluster;

/* Reads a cluster file (docs/clusters.md). `place` names it in messages. Problems go to the context's sink with line and
 * column; the status repeats the first. */
WEFT_MUST_USE weft_status weft_cluster_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                                             weft_cluster *out_cluster);
WEFT_MUST_USE weft_status weft_cluster_load(weft_context *context, const char *path, weft_cluster *out_cluster);

#ifdef __cplusplus
}
#endif
#endif
