/* cluster.h: words of cluster files, for those who read and print them. */
#ifndef PLAN_CLUSTER_H
#define PLAN_CLUSTER_H

#include "weft/cluster.h"

extern const char *const plan_topology_names[WEFT_TOPOLOGY_COUNT];

#endif
