/* nccl.c: NCCL's tuning model (src/graph/tuning.cc and topo.h of NCCL 2.30; field survey 3.5): of each algorithm and
 * protocol a latency and a bandwidth, the least time counts. Microseconds and GB a second, as there.
 *
 * NCCL finds the bandwidth of a machine by looking at its topology; here the links of the cluster file say it. NCCL
 * corrects the bandwidth of trees by steps of a factor of two in the size; here the correction is a line between these,
 * so that more bytes never take less. CollNet (sums within switches) is left out. */
#include "plan/nccl.h"

#include <math.h>

typedef enum generation { VOLTA, AMPERE, HOPPER, BLACKWELL, GENERATIONS } generation;

struct nccl_machine {
    const char *name;
    generation generation;
    int nchannels; /* that NCCL makes of its links: an estimate */
};

static const nccl_machine machines[] = {
    {"v100", VOLTA, 12}, {"a100", AMPERE, 24}, {"h100", HOPPER, 24}, {"b200", BLACKWELL, 32}};
const char *const plan_nccl_machine_names = "v100, a100, h100 or b200";
const char *const plan_nccl_algorithms[NCCL_ALGORITHMS] = {"tree", "ring", "NVLS", "NVLS tree", "PAT"};
const char *const plan_nccl_protocols[NCCL_PROTOCOLS] = {"LL", "LL128", "Simple"};

static const char *const selections[NCCL_ALGORITHMS][NCCL_PROTOCOLS] = {
    [NCCL_TREE] = {"TREE_LL", "TREE_LL128", "TREE_SIMPLE"},
    [NCCL_RING] = {"RING_LL", "RING_LL128", "RING_SIMPLE"},
    [NCCL_NVLS] = {NULL, NULL, "NVLS_SIMPLE"},
    [NCCL_NVLS_TREE] = {NULL, NULL, "NVLSTREE_SIMPLE"},
    [NCCL_PAT] = {NULL, NULL, "PAT_SIMPLE"}};
/* Of algorithms that the model leaves out: how their names begin. */
static const char *const other_selections[] = {"COLLNET", "SYMK_"};

static const double base_latency[NCCL_ALGORITHMS][NCCL_PROTOCOLS] = {
    [NCCL_TREE] = {6.8, 14.0, 8.4}, [NCCL_RING] = {6.6, 14.0, 8.4}, [NCCL_PAT] = {8.0, 8.0, 8.0}};
/* A step over NVLink, and over the network. */
static const double nvlink_latency[NCCL_ALGORITHMS][NCCL_PROTOCOLS] = {[NCCL_TREE] = {0.6, 1.25, 4.0},
                                                                       [NCCL_RING] = {0.6, 1.9, 3.4},
                                                                       [NCCL_NVLS] = {0, 0, 25},
                                                                       [NCCL_NVLS_TREE] = {0, 0, 25},
                                                                       [NCCL_PAT] = {0, 0, 4.0}};
static const double net_latency[NCCL_ALGORITHMS][NCCL_PROTOCOLS] = {[NCCL_TREE] = {5.0, 8.5, 14.0},
                                                                    [NCCL_RING] = {2.7, 4.0, 14.0},
                                                                    [NCCL_NVLS] = {0, 0, 18},
                                                                    [NCCL_NVLS_TREE] = {0, 0, 20.9},
                                                                    [NCCL_PAT] = {0, 0, 14.0}};
static const double net_overhead = 1; /* of a step within a node where there are several; of Intel's processors */
/* On one node, two, more; 0: no limit. */
static const double ll_most[GENERATIONS][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double ring_ll128_channel[GENERATIONS] = {20, 20, 36.7, 40};
static const double tree_ll128_channel[GENERATIONS][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_channel[GENERATIONS][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double nvls_tree_channel[GENERATIONS][3] = {{0}, {0}, {0, 57.7, 45.5}, {0, 96, 80}};
static const double nvls_efficiency[GENERATIONS] = {0, 0, 0.85, 0.74};

/* Of a tree's bandwidth, at 64 bytes and each power of two above. */
enum { NSIZES = 24 };
static const double tree_factor[NCCL_PROTOCOLS][NSIZES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

const nccl_machine *plan_nccl_machine_find(const char *called) {
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (strcmp(machines[i].name, called) == 0) return &machines[i];
    return NULL;
}

const char *plan_nccl_selection(int algorithm, int protocol) {
    return selections[algorithm][protocol];
}

static bool is_selection(const char *given, size_t n) {
    for (size_t i = 0; i < sizeof other_selections / sizeof *other_selections; i++)
        if (n && strncmp(given, other_selections[i], strlen(other_selections[i])) == 0) return true;
    for (int a = 0; a < NCCL_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_PROTOCOLS; p++)
            if (n && selections[a][p] && strncmp(given, selections[a][p], n) == 0) return true;
    return false;
}

bool plan_nccl_selects(const char *names) {
    for (;; names++) {
        size_t n = strcspn(names, ",");
        if (!is_selection(names, n)) return false;
        names += n;
        if (!*names) return true;
    }
}

bool plan_nccl_has(collective_kind kind) {
    return kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_REDUCE_SCATTER;
}

/* Which of three figures counts. */
static int of_nodes(const nccl_call *c) {
    return c->nnodes < 2 ? 0 : c->nnodes == 2 ? 1 : 2;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

static bool is_there(const nccl_call *c, int algorithm, int protocol) {
    bool all = c->kind == COLLECTIVE_ALL_REDUCE, has_nvls = nvls_efficiency[c->machine->generation] > 0;
    switch (algorithm) {
    case NCCL_RING: return true;
    case NCCL_TREE: return all;
    case NCCL_NVLS: return protocol == NCCL_SIMPLE && has_nvls && c->nnodes == 1 && c->nranks > 2;
    case NCCL_NVLS_TREE: return protocol == NCCL_SIMPLE && has_nvls && c->nnodes > 1 && all && c->nranks > c->nnodes;
    default: return protocol == NCCL_SIMPLE && !all && c->nnodes == c->nranks && c->nnodes > 1; /* PAT: a rank a node */
    }
}

/* What all links of the ring or tree reach together. */
static double bus_bandwidth(const nccl_call *c, int algorithm, int protocol) {
    const nccl_machine *m = c->machine;
    double bw = 1e-9 * (c->nnodes > 1 ? least(c->nranks > c->nnodes ? c->intra : c->inter, c->inter) : c->intra);
    int n = of_nodes(c), g = m->generation, channels = m->nchannels;
    switch (algorithm) {
    case NCCL_RING:
        if (protocol == NCCL_LL) return least(ll_most[g][n], bw * 0.5);
        return protocol == NCCL_LL128 ? least(bw * 0.92, channels * ring_ll128_channel[g]) : bw;
    case NCCL_TREE:
        bw = least(bw * 0.92, channels * tree_channel[g][n]);
        if (protocol == NCCL_LL) return least(bw / 3.8, ll_most[g][n]);
        if (protocol != NCCL_LL128) return bw;
        return least(bw * (c->nnodes == 1 ? 7.0 / 9 : 120.0 / 128), channels * tree_ll128_channel[g][n]);
    case NCCL_NVLS:
        bw *= nvls_efficiency[g] * (channels - 1) / channels;
        return c->kind == COLLECTIVE_ALL_REDUCE ? 2 * bw : bw;
    case NCCL_NVLS_TREE: return least(bw * nvls_efficiency[g], channels * nvls_tree_channel[g][n]);
    default: return bw * 0.75;
    }
}

static double latency_us(const nccl_call *c, int algorithm, int protocol) {
    bool all = c->kind == COLLECTIVE_ALL_REDUCE;
    double intra = nvlink_latency[algorithm][protocol], inter = net_latency[algorithm][protocol];
    double network = 1e6 * c->inter_seconds, p = c->nranks, n = c->nnodes, deep = n > 1 ? floor(log2(n)) : 0;
    double steps = all ? 2 * (p - 1) : p - 1, inter_steps = all ? 2 * (n - 1) : n - 1;
    double overhead = n > 1 ? net_overhead * (protocol == NCCL_SIMPLE ? 3 : 1) : 0;
    inter += network * (protocol == NCCL_SIMPLE ? 2 : 1); /* once more for the flush */
    switch (algorithm) {
    case NCCL_RING: return (steps - inter_steps) * fmax(intra, overhead) + inter_steps * inter;
    case NCCL_TREE: return 2 * ((p / n - 1) * intra + deep * inter);
    case NCCL_NVLS: return intra;
    case NCCL_NVLS_TREE: return intra + 2 * deep * inter;
    default: return deep * inter / 3.5 + 2.8 * p;
    }
}

nccl_way plan_nccl_way(const nccl_call *c, int algorithm, int protocol) {
    nccl_way way = {0, 0};
    if (!is_there(c, algorithm, protocol)) return way;
    double steps = c->kind == COLLECTIVE_ALL_REDUCE ? 2.0 * (c->nranks - 1) : c->nranks - 1;
    bool is_tree = algorithm == NCCL_TREE || algorithm == NCCL_NVLS_TREE;
    way.latency_us = base_latency[algorithm][protocol] + latency_us(c, algorithm, protocol);
    way.bandwidth = bus_bandwidth(c, algorithm, protocol) * (is_tree ? 0.5 : c->nranks / steps);
    return way;
}

/* A ring over nodes: its latency is more for messages of 64 bytes and more a channel. */
static bool has_plateau(const nccl_call *c, int algorithm, int protocol) {
    return algorithm == NCCL_RING && protocol == NCCL_SIMPLE && c->nnodes > 1 && c->kind == COLLECTIVE_ALL_REDUCE;
}

static const double plateau_nbytes = 64;

static double on_plateau(const nccl_call *c, double latency_us) {
    return latency_us * (c->machine->generation < AMPERE ? 1.9 : 1.4);
}

size_t plan_nccl_state(const nccl_call *c, nccl_stated out[NCCL_ALGORITHMS * NCCL_PROTOCOLS]) {
    size_t n = 0;
    for (int a = 0; a < NCCL_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_PROTOCOLS; p++) {
            nccl_way way = plan_nccl_way(c, a, p);
            if (way.bandwidth <= 0) continue;
            nccl_stated *to = &out[n++];
            *to = (nccl_stated){.latency_us = way.latency_us, .bandwidth = way.bandwidth};
            if (a == NCCL_TREE) to->factors = tree_factor[p], to->nfactors = NSIZES;
            if (!has_plateau(c, a, p)) continue;
            to->parts = c->machine->nchannels * c->nranks;
            to->plateau = plateau_nbytes;
            to->plateau_latency_us = on_plateau(c, way.latency_us);
        }
    return n;
}

static double factor_at(int protocol, double nbytes) {
    double at = nbytes > 64 ? log2(nbytes / 64) : 0;
    if (at >= NSIZES - 1) return 1;
    int below = (int)at;
    double part = at - below, *f = (double *)tree_factor[protocol];
    return f[below] * (1 - part) + f[below + 1] * part;
}

double plan_nccl_seconds(const nccl_call *c, double nbytes, int *out_algorithm, int *out_protocol) {
    double best = INFINITY;
    for (int a = 0; a < NCCL_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_PROTOCOLS; p++) {
            nccl_way way = plan_nccl_way(c, a, p);
            if (way.bandwidth <= 0) continue;
            if (a == NCCL_TREE) way.bandwidth *= factor_at(p, nbytes);
            bool plateau = has_plateau(c, a, p) && nbytes / (c->machine->nchannels * c->nranks) >= plateau_nbytes;
            if (plateau) way.latency_us = on_plateau(c, way.latency_us);
            double us = way.latency_us + nbytes / (1000 * way.bandwidth);
            if (us >= best) continue;
            best = us;
            if (out_algorithm) *out_algorithm = a;
            if (out_protocol) *out_protocol = p;
        }
    return 1e-6 * best;
}
