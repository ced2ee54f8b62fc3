/* proof.c: how proving grows with the number of ops, and with the number of ranks.
 *
 * usage: proof [by_name] [OPS ...]     default 1000 10000 100000 1000000
 * Programs of buckets: coalesce_tensor, 6 producers on compute, a reduce on one of 7 other streams and one of 64 rings,
 * 5 consumers and an update of a parameter; ordered by events, so that nothing is found. They are read in order, by one
 * rank, then by 1,024 ranks with 8 distinct programs: that differ in the length of a value; in an op more on compute in
 * every eighth bucket, other buckets in each; in such an op that runs behind the reduce on its stream. The smallest of
 * five times or more counts; building the programs does not. CSV on stdout:
 * ops,streams,rings,ranks,programs,differ_in,seconds,reading, ns_per_op_and_doubling (of the number of
 * ops),times_one_rank. `reading` is the part of the seconds that goes into comparing programs and turning each distinct
 * one into launches, waits and bytes; `times_one_rank` is the rest of them over all of one rank's. by_name: what
 * Paddle's executor derives from the first program: ops,seconds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proof/classes.h"
#include "proof/schedule/schedule.h"
#include "weft/verify.h"

enum {
    members = 6,
    ops_per_bucket = 2 + 2 * members,
    nstreams = 8,
    nrings = 64,
    repeats = 5, /* and more of small programs */
    many_ranks = 1024,
    distinct = 8
};

/* In what programs differ. */
typedef enum difference { IN_NOTHING, IN_VALUES, IN_LAUNCHES, IN_STREAMS } difference;

static const char *const difference_words[] = {"nothing", "values", "launches", "streams"};

static double now(void) { /* of this thread: others may load the machine */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct maker {
    weft_program *program;
    weft_block *block;
    weft_var *x, *rate, *grads[members], *used[members], *fused;
    char event[32], done[32];
    difference differ_in;
    size_t variant;
} maker;

static weft_status add_var(maker *m, const char *what, size_t bucket, int member, int64_t extent, weft_var **out) {
    char n[64];
    snprintf(n, sizeof n, "%s_%zu_%d", what, bucket, member);
    return weft_block_add_var(m->block, n, WEFT_FP32, 1, &extent, out);
}

static weft_status add_op(maker *m, const char *type, weft_var *in, weft_var *out, weft_op **out_op) {
    TRY(weft_op_create(m->program, type, out_op));
    TRY(weft_op_add_input(*out_op, "X", in));
    TRY(weft_op_add_output(*out_op, "Out", out));
    weft_block_insert_before(m->block, NULL, *out_op);
    return NULL;
}

static weft_status place(maker *m, weft_op *op, int64_t stream, const char *record, const char *wait) {
    op_dist *d;
    arena *a = &m->program->arena;
    TRY(op_dist_get(op, &d));
    if (stream) d->execution_stream = arena_format(a, "stream_%lld", (long long)stream);
    if (record) d->event_to_record = arena_string(a, record, strlen(record));
    if (!wait) return NULL;
    const char *event = arena_string(a, wait, strlen(wait));
    return event ? op_dist_set_waits(m->program, d, &event, 1) : base_out_of_memory();
}

static weft_status add_coalesce(maker *m) {
    weft_op *op;
    TRY(weft_op_create(m->program, "coalesce_tensor", &op));
    for (int i = 0; i < members; i++) TRY(weft_op_add_input(op, "Input", m->grads[i]));
    for (int i = 0; i < members; i++) TRY(weft_op_add_output(op, "Output", m->grads[i]));
    TRY(weft_op_add_output(op, "FusedOutput", m->fused));
    TRY(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
    TRY(weft_op_set_attr_int(op, "align_size", 256));
    weft_block_insert_before(m->block, NULL, op);
    return NULL;
}

/* What this program alone has in the bucket. */
static weft_status add_extra(maker *m, size_t k, int64_t stream) {
    weft_op *op;
    weft_var *more;
    bool on_compute = m->differ_in == IN_LAUNCHES;
    if (k % distinct != m->variant || m->differ_in < IN_LAUNCHES) return NULL;
    TRY(add_var(m, "more", k, 0, 48, &more));
    TRY(add_op(m, "relu", on_compute ? m->x : m->grads[0], more, &op));
    return on_compute ? NULL : place(m, op, stream, NULL, NULL);
}

static weft_status add_update(maker *m, weft_var *param, weft_var *grad) {
    weft_op *op;
    weft_var_set_persistable(param, true, true);
    TRY(weft_op_create(m->program, "sgd", &op));
    TRY(weft_op_add_input(op, "Param", param));
    TRY(weft_op_add_input(op, "Grad", grad));
    TRY(weft_op_add_input(op, "LearningRate", m->rate));
    TRY(weft_op_add_output(op, "ParamOut", param));
    weft_block_insert_before(m->block, NULL, op);
    return NULL;
}

static weft_status add_bucket(maker *m, size_t k) {
    weft_op *op;
    int64_t stream = 1 + (int64_t)(k % nrings) % (nstreams - 1);
    snprintf(m->event, sizeof m->event, "made_%zu", k);
    snprintf(m->done, sizeof m->done, "reduced_%zu", k);
    for (int i = 0; i < members; i++) {
        TRY(add_var(m, "grad", k, i, 48, &m->grads[i]));
        TRY(add_var(m, "used", k, i, 48, &m->used[i]));
    }
    TRY(add_var(m, "fused", k, 0, members * 64, &m->fused));
    TRY(add_coalesce(m));
    for (int i = 0; i < members; i++) {
        TRY(add_op(m, "scale", m->x, m->grads[i], &op));
        if (i == members - 1) TRY(place(m, op, 0, m->event, NULL));
    }
    TRY(add_op(m, "c_allreduce_sum", m->fused, m->fused, &op));
    TRY(weft_op_set_attr_int(op, "ring_id", (int64_t)(k % nrings)));
    TRY(weft_op_set_attr_bool(op, "use_calc_stream", true));
    TRY(place(m, op, stream, m->done, m->event));
    TRY(add_extra(m, k, stream));
    for (int i = 0; i + 1 < members; i++) {
        TRY(add_op(m, "relu", m->grads[i], m->used[i], &op));
        if (i == 0) TRY(place(m, op, 0, NULL, m->done));
    }
    return add_update(m, m->used[members - 1], m->grads[members - 1]);
}

/* Programs of a world differ in nothing that ranks must agree on. */
static weft_status make_program(weft_context *context, size_t nops, int64_t nranks, difference differ_in,
                                int64_t variant, weft_program **out) {
    maker m = {.differ_in = differ_in, .variant = (size_t)variant};
    int64_t extent = 48 + (differ_in == IN_VALUES ? variant : 0);
    int64_t *ranks = calloc((size_t)nranks, sizeof *ranks);
    if (!ranks) return base_out_of_memory();
    for (int64_t i = 0; i < nranks; i++) ranks[i] = i;
    weft_status status = weft_program_create(context, &m.program);
    if (!status) m.block = weft_program_block(m.program, 0);
    for (int64_t i = 0; i < nrings && !status; i++) status = weft_program_set_ring(m.program, i, (size_t)nranks, ranks);
    if (!status) status = weft_block_add_var(m.block, "x", WEFT_FP32, 1, &extent, &m.x);
    if (!status) m.x->need_check_feed = true;
    if (!status) status = weft_block_add_var(m.block, "rate", WEFT_FP32, 1, &(int64_t){1}, &m.rate);
    if (!status) weft_var_set_persistable(m.rate, true, false);
    for (size_t k = 0; k * ops_per_bucket < nops && !status; k++) status = add_bucket(&m, k);
    free(ranks);
    if (status)
        weft_program_destroy(m.program);
    else
        *out = m.program;
    return status;
}

static weft_status read_each(const weft_program *const *programs, size_t n, const weft_verify_options *o, arena *a) {
    rank_classes classes;
    TRY(classes_find(programs, n, o->nranks, a, &classes));
    for (size_t c = 0; c < classes.count; c++) {
        proof_schedule s;
        TRY(schedule_from_program(classes.programs[c], o, a, &s));
    }
    return NULL;
}

static weft_status time_reading(const weft_program *const *programs, size_t n, const weft_verify_options *o,
                                double *best) {
    arena a;
    arena_init(&a, &programs[0]->context->allocator);
    double start = now();
    weft_status status = read_each(programs, n, o, &a);
    arena_fini(&a); /* a proof gives back its memory too */
    double seconds = now() - start;
    if (!status && seconds < *best) *best = seconds;
    return status;
}

static weft_status time_proof(const weft_program *const *programs, size_t n, const weft_verify_options *o,
                              double *best) {
    weft_findings *found;
    double start = now();
    TRY(weft_verify(programs, n, o, &found));
    double seconds = now() - start;
    if (seconds < *best) *best = seconds;
    size_t nfound = weft_findings_count(found);
    weft_findings_destroy(found);
    return nfound ? weft_status_create(WEFT_RUNTIME, "proof", "expected no finding, found %zu", nfound) : NULL;
}

/* `one`: the seconds that one rank takes; set where this is one. */
static weft_status measure(const weft_program *const *programs, size_t n, difference differ_in, double *one) {
    double best = 1e9, reading = 1e9;
    size_t nops = weft_program_nops(programs[0]);
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = (int64_t)n};
    for (size_t i = 0; i < repeats + 100000 / nops; i++) { /* by turns: a machine has its moods */
        TRY(time_reading(programs, n, &o, &reading));
        TRY(time_proof(programs, n, &o, &best));
    }
    if (differ_in == IN_NOTHING) *one = best;
    double unit = best / (double)nops / log2((double)nops) * 1e9;
    printf("%zu,%d,%d,%zu,%d,%s,%.6f,%.6f,%.2f,%.2f\n", nops, nstreams, nrings, n,
           differ_in == IN_NOTHING ? 1 : distinct, difference_words[differ_in], best, reading, unit,
           (best - reading) / *one);
    fflush(stdout);
    return NULL;
}

static weft_status run_many(weft_context *context, size_t nops, difference differ_in, double *one) {
    weft_program *programs[distinct] = {NULL};
    const weft_program *of_rank[many_ranks];
    weft_status status = NULL;
    for (int i = 0; i < distinct && !status; i++)
        status = make_program(context, nops, many_ranks, differ_in, i, &programs[i]);
    for (int r = 0; r < many_ranks; r++) of_rank[r] = programs[r % distinct];
    if (!status) status = measure(of_rank, many_ranks, differ_in, one);
    for (int i = 0; i < distinct; i++) weft_program_destroy(programs[i]);
    return status;
}

static weft_status run(weft_context *context, size_t nops) {
    weft_program *alone = NULL;
    double one = 0;
    TRY(make_program(context, nops, 1, IN_NOTHING, 0, &alone));
    weft_status status = measure((const weft_program *const *)&alone, 1, IN_NOTHING, &one);
    weft_program_destroy(alone);
    bool many = nops <= 100000; /* eight programs of a million ops want 10 GiB */
    for (difference d = IN_VALUES; d <= IN_STREAMS && many && !status; d++) status = run_many(context, nops, d, &one);
    return status;
}

/* Reading, dependencies, events and who lets go of memory. */
static weft_status derive(const weft_program *program, arena *a) {
    proof_schedule s;
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .nranks = 1};
    TRY(schedule_from_program(program, &o, a, &s));
    return schedule_order_by_name(&s);
}

static weft_status run_by_name(weft_context *context, size_t nops) {
    weft_program *program = NULL;
    double best = 1e9;
    weft_status status = make_program(context, nops, 1, IN_NOTHING, 0, &program);
    for (int i = 0; i < repeats && !status; i++) {
        arena a;
        arena_init(&a, &context->allocator);
        double start = now();
        status = derive(program, &a);
        double seconds = now() - start;
        if (seconds < best) best = seconds;
        arena_fini(&a);
    }
    if (!status) printf("%zu,%.6f\n", weft_program_nops(program), best);
    weft_program_destroy(program);
    return status;
}

int main(int argc, char **argv) {
    bool by_name = argc > 1 && strcmp(argv[1], "by_name") == 0;
    static const char *const sizes[] = {"1000", "10000", "100000", "1000000"};
    weft_context *context = NULL;
    weft_status status = weft_context_create(
        &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .max_kept_nbytes = (size_t)1 << 30}, &context);
    argc -= by_name;
    argv += by_name;
    if (!status && by_name) printf("ops,seconds\n");
    if (!status && !by_name)
        printf("ops,streams,rings,ranks,programs,differ_in,seconds,reading,ns_per_op_and_doubling,times_one_rank\n");
    for (int i = 0; !status && i < (argc > 1 ? argc - 1 : 4); i++) {
        size_t nops = strtoul(argc > 1 ? argv[i + 1] : sizes[i], NULL, 10);
        status = by_name ? run_by_name(context, nops) : run(context, nops);
    }
    if (status) fprintf(stderr, "proof: %s\n", weft_status_message(status));
    int failed = status != NULL;
    weft_status_free(status);
    weft_context_destroy(context);
    return failed;
}
