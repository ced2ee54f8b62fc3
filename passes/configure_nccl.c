/* configure_nccl: ops say how NCCL runs their collectives, in attrs that its engine passes on (docs/gpu.md).
 *
 * NCCL chooses algorithm and protocol when a step runs, by its own model of the machine. Here the same model chooses
 * before, from the cluster file: then a collective goes the way by which `plan_buckets` and `weft simulate` priced it.
 * Collectives beside compute may take fewer blocks of threads, which leaves more of the GPU to compute. Ranks agree,
 * since a ring's members move the same bytes. Who runs the program without NCCL passes over the attrs. */
#include "ops/collectives.h"
#include "passes/certificate.h"
#include "passes/pass_manager.h"
#include "plan/cost.h"
#include "plan/nccl.h"

static const weft_option options[] = {
    {"cluster", WEFT_OPTION_STRING, "", NULL, "a cluster file that names NVIDIA's machine, for algorithm: auto"},
    {"algorithm", WEFT_OPTION_STRING, "auto", NULL,
     "auto: the algorithm and protocol that NCCL's model takes on the cluster for the size; any: NCCL chooses; else "
     "names of NCCL's, apart by commas (RING_LL128,TREE_LL), for all collectives"},
    {"ctas", WEFT_OPTION_INT, "0", NULL,
     "blocks of threads that a collective takes at most, up to 64; 0: NCCL chooses"},
    {"ctas_beside", WEFT_OPTION_INT, "0", NULL, "the same of collectives that run beside compute; 0: as ctas"},
    {"policy", WEFT_OPTION_INT, "-1", NULL, "NCCL's policy for these blocks, 0 to 3; -1: the communicator's"},
};

enum { MOST_CTAS = 64, MOST_POLICY = 3 };

typedef struct configurer {
    weft_pass_context *pass;
    const weft_program *program;
    const char *algorithm; /* NULL: it is not written */
    bool is_auto;
    weft_cluster cluster;
    int64_t ctas, ctas_beside, policy;
} configurer;

/* Kinds that NCCL takes a configuration of. */
static bool is_configured(collective_kind kind) {
    return kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST ||
           kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_REDUCE_SCATTER;
}

/* --- the algorithm ------------------------------------------------------------------------------------------------ */

/* Of all arguments of one side; 0: their extents are not known. */
static double side_nbytes(const weft_op *op, bool output) {
    double sum = 0;
    FOR_EACH_ARG(op, output, u) {
        const weft_var *v = use_var(op->program, u);
        double n = v->has_tensor && v->kind == WEFT_DENSE_TENSOR ? (double)weft_dtype_nbytes((weft_dtype)v->dtype) : 0;
        for (size_t i = 0; i < v->ndim; i++) n *= v->dims[i] > 0 ? (double)v->dims[i] : 0;
        if (n <= 0) return 0;
        sum += n;
    }
    return sum;
}

static weft_status leave(const configurer *c, const weft_op *op, weft_reason reason, const char *why) {
    return weft_pass_left(c->pass, op, reason, "\"%s\": %s: NCCL chooses its algorithm",
                          op_x(op) ? op_x(op)->name->bytes : "?", why);
}

/* *out NULL: the model does not say. */
static weft_status choose(const configurer *c, const weft_op *op, const char **out) {
    double in = side_nbytes(op, false), made = side_nbytes(op, true);
    const ring *r = program_find_ring(c->program, op_ring(op));
    int algorithm = NCCL_RING, protocol = NCCL_SIMPLE;
    plan_curve curve;
    *out = NULL;
    if (!plan_nccl_has(op_collective_kind(op))) return leave(c, op, WEFT_REASON_NOTHING, "the model has not its kind");
    if (!r) return leave(c, op, WEFT_REASON_RING, "its ring is not declared");
    if (r->nranks < 2) return leave(c, op, WEFT_REASON_RING, "its ring has one rank");
    if (in <= 0 || made <= 0) return leave(c, op, WEFT_REASON_SHAPE, "its extents are not known");
    TRY(plan_collective_curve(&c->cluster, &(plan_ring){.id = r->id, .nranks = r->nranks, .ranks = r->ranks}, op,
                              &curve));
    (void)plan_nccl_seconds(&curve.nccl, in > made ? in : made, &algorithm, &protocol);
    *out = plan_nccl_selection(algorithm, protocol);
    return NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static bool is_beside_compute(const weft_op *op) {
    return *weft_op_stream(op) || op_is_async(op);
}

static weft_status write(const configurer *c, weft_op *op, int64_t *nwritten) {
    const char *algorithm = c->algorithm;
    int64_t ctas = c->ctas_beside && is_beside_compute(op) ? c->ctas_beside : c->ctas;
    if (c->is_auto) TRY(choose(c, op, &algorithm));
    if (algorithm) TRY(weft_op_set_attr_string(op, "nccl_algorithm", algorithm));
    if (ctas) TRY(weft_op_set_attr_int(op, "nccl_ctas", ctas));
    if (c->policy >= 0) TRY(weft_op_set_attr_int(op, "nccl_policy", c->policy));
    *nwritten += algorithm || ctas || c->policy >= 0;
    return NULL;
}

static weft_status configure(const configurer *c, const weft_program *program) {
    int64_t nwritten = 0;
    for (size_t i = 0; i < program->nblocks; i++) FOR_EACH_OP(op, program->blocks[i])
    if (is_configured(op_collective_kind(op))) TRY(write(c, op, &nwritten));
    TRY(weft_pass_count_add(c->pass, "collectives configured", nwritten));
    if (!nwritten) return weft_pass_left(c->pass, NULL, WEFT_REASON_NOTHING, "no collective that NCCL is told of");
    return weft_pass_did(c->pass, "NCCL is told of %lld collectives", (long long)nwritten);
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static weft_status check_number(const configurer *c, const char *option, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return NULL;
    return weft_pass_refuse(c->pass, "%s: expected %lld to %lld, found %lld", option, (long long)least, (long long)most,
                            (long long)value);
}

static weft_status read_numbers(configurer *c) {
    c->ctas = weft_pass_option_int(c->pass, "ctas");
    c->ctas_beside = weft_pass_option_int(c->pass, "ctas_beside");
    c->policy = weft_pass_option_int(c->pass, "policy");
    TRY(check_number(c, "ctas", c->ctas, 0, MOST_CTAS));
    TRY(check_number(c, "ctas_beside", c->ctas_beside, 0, MOST_CTAS));
    return check_number(c, "policy", c->policy, -1, MOST_POLICY);
}

/* Numbers alone need no cluster, where nobody has asked for algorithms. */
static weft_status read_algorithm(configurer *c) {
    const char *asked = weft_pass_option_string(c->pass, "algorithm");
    const char *file = weft_pass_option_string(c->pass, "cluster");
    bool has_numbers = c->ctas || c->ctas_beside || c->policy >= 0;
    if (strcmp(asked, "any") == 0) return NULL;
    c->is_auto = strcmp(asked, "auto") == 0;
    if (!c->is_auto) c->algorithm = asked;
    if (!c->is_auto && !plan_nccl_selects(asked))
        return weft_pass_refuse(c->pass,
                                "algorithm: expected names such as RING_LL128 or TREE, apart by commas, found "
                                "\"%s\"",
                                asked);
    if (!c->is_auto || *file) return NULL;
    c->is_auto = false;
    if (has_numbers && !weft_pass_option_given(c->pass, "algorithm")) return NULL;
    return weft_pass_refuse(c->pass, "algorithm: auto: expected a cluster file");
}

static weft_status read_cluster(configurer *c) {
    const char *file = weft_pass_option_string(c->pass, "cluster");
    if (!c->is_auto) return NULL;
    TRY(weft_cluster_load(c->pass->context, file, &c->cluster));
    TRY(plan_cluster_settle(&c->cluster, &c->cluster));
    if (plan_nccl_machine_find(c->cluster.machine)) return NULL;
    return weft_pass_refuse(c->pass, "%s: expected machine: %s", file, plan_nccl_machine_names);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    configurer c = {.pass = pass, .program = program};
    (void)user;
    TRY(read_numbers(&c));
    TRY(read_algorithm(&c));
    TRY(read_cluster(&c));
    return configure(&c, program);
}

const weft_pass pass_configure_nccl = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run, .keeps_places = true};
