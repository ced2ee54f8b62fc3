/* nccl.h: what NCCL's own model of its collectives says that they take, by algorithm and protocol. */
#ifndef PLAN_NCCL_H
#define PLAN_NCCL_H

#include "ops/collectives.h"
#include "weft/cluster.h"

typedef struct nccl_machine nccl_machine;

/* NULL: it is not known. */
const nccl_machine *plan_nccl_machine_find(const char *called);
extern const char *const plan_nccl_machine_names; /* "v100, a100, h100 or b200" */

/* A collective on a ring of ranks, `nranks` in all, in so many nodes. */
typedef struct nccl_call {
    const nccl_machine *machine;
    collective_kind kind;
    int nranks, nnodes;
    double intra, inter;  /* bytes a second that a ring reaches within a node, and that leave one */
    double inter_seconds; /* beside what NCCL counts: of the network */
} nccl_call;

/* Whether the model knows the kind. */
bool plan_nccl_has(collective_kind kind);

enum { NCCL_TREE, NCCL_RING, NCCL_NVLS, NCCL_NVLS_TREE, NCCL_PAT, NCCL_ALGORITHMS };
enum { NCCL_LL, NCCL_LL128, NCCL_SIMPLE, NCCL_PROTOCOLS };
extern const char *const plan_nccl_algorithms[NCCL_ALGORITHMS], *const plan_nccl_protocols[NCCL_PROTOCOLS];
/* As a collective's configuration names it (NCCL 2.31): "RING_LL128". */
const char *plan_nccl_selection(int algorithm, int protocol);
/* Whether a list, apart by commas, has names that NCCL may know. One that begins several stands for all of them. */
bool plan_nccl_selects(const char *names);

/* Of one way: microseconds before the first byte, and GB a second of large messages; 0: NCCL does not go it. */
typedef struct nccl_way {
    double latency_us, bandwidth;
} nccl_way;
nccl_way plan_nccl_way(const nccl_call *call, int algorithm, int protocol);

/* The same for who states prices. Its bandwidth is `factors` of that by the size, at 64 bytes and each power of two
 * above, linear between in the log of the size; NULL: no factors. From `plateau` bytes a part on, of so many parts, the
 * latency is another; 0 parts: it is not. */
typedef struct nccl_stated {
    double latency_us, bandwidth, plateau_latency_us;
    const double *factors;
    size_t nfactors;
    double parts, plateau;
} nccl_stated;
/* Those that NCCL goes; how many. The least counts, in the order of `out`. */
size_t plan_nccl_state(const nccl_call *call, nccl_stated out[NCCL_ALGORITHMS * NCCL_PROTOCOLS]);
/* Of `nbytes`, those of the larger side: the least over all ways; which it is, where somebody asks. */
double plan_nccl_seconds(const nccl_call *call, double nbytes, int *out_algorithm, int *out_protocol);

#endif
