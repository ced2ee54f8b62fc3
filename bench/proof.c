/* proof.c: how proving grows with the number of ops, and with the number of ranks.
 *
 * usage: proof [OPS ...]     default 1000 10000 100000 1000000
 * Programs of buckets: coalesce_tensor, 6 producers on compute, a reduce on one of 7 other streams and one of 64 rings,
 * 6 consumers; ordered by events, so that nothing is found. They are read in order, by one rank, then by 1,024 ranks
 * with 8 distinct programs. The smallest of three times counts; building the programs does not. CSV on stdout:
 * ops,streams,rings,ranks,programs,seconds,reading,ns_per_op_and_doubling (of the number of ops). `reading` is the part
 * of the seconds that goes into comparing programs and turning each distinct one into launches, waits and bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proof/classes.h"
#include "proof/schedule/schedule.h"
#include "weft/verify.h"

enum {
    members = 6,
    ops_per_bucket = 2 + 2 * members,
    nstreams = 8,
    nrings = 64,
    repeats = 3,
    many_ranks = 1024,
    distinct = 8
};

static double now(void) { /* of this thread: others may load the machine */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct maker {
    weft_program *program;
    weft_block *block;
    weft_var *x, *grads[members], *used[members], *fused;
    char event[32], done[32];
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
    const char **events = ARENA_ARRAY(a, const char *, 1);
    if (!events || !(events[0] = arena_string(a, wait, strlen(wait)))) return base_out_of_memory();
    d->events_to_wait = events;
    d->nevents_to_wait = 1;
    return NULL;
}

static weft_status add_coalesce(maker *m) {
    weft_op *op;
    TRY(weft_op_create(m->program, "coalesce_tensor", &op));
    for (int i = 0; i < members; i++) {
        TRY(weft_op_add_input(op, "Input", m->grads[i]));
        TRY(weft_op_add_output(op, "Output", m->grads[i]));
    }
    TRY(weft_op_add_output(op, "FusedOutput", m->fused));
    TRY(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
    TRY(weft_op_set_attr_int(op, "align_size", 256));
    weft_block_insert_before(m->block, NULL, op);
    return NULL;
}

static weft_status add_bucket(maker *m, size_t k) {
    weft_op *op;
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
    TRY(place(m, op, 1 + (int64_t)(k % nrings) % (nstreams - 1), m->done, m->event));
    for (int i = 0; i < members; i++) {
        TRY(add_op(m, "relu", m->grads[i], m->used[i], &op));
        if (i == 0) TRY(place(m, op, 0, NULL, m->done));
    }
    return NULL;
}

/* `variant` is the length of x, so that programs differ in nothing that ranks must agree on. */
static weft_status make_program(weft_context *context, size_t nops, int64_t nranks, int64_t variant,
                                weft_program **out) {
    maker m = {0};
    int64_t *ranks = calloc((size_t)nranks, sizeof *ranks);
    if (!ranks) return base_out_of_memory();
    for (int64_t i = 0; i < nranks; i++) ranks[i] = i;
    weft_status status = weft_program_create(context, &m.program);
    if (!status) m.block = weft_program_block(m.program, 0);
    for (int64_t i = 0; i < nrings && !status; i++) status = weft_program_set_ring(m.program, i, (size_t)nranks, ranks);
    if (!status) status = weft_block_add_var(m.block, "x", WEFT_FP32, 1, (int64_t[]){48 + variant}, &m.x);
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

static weft_status measure_reading(const weft_program *const *programs, size_t n, const weft_verify_options *o,
                                   double *out) {
    *out = 1e9;
    for (int i = 0; i < repeats; i++) {
        arena a;
        arena_init(&a, &programs[0]->context->allocator);
        double start = now();
        weft_status status = read_each(programs, n, o, &a);
        double seconds = now() - start;
        arena_fini(&a);
        if (status) return status;
        if (seconds < *out) *out = seconds;
    }
    return NULL;
}

static weft_status measure(const weft_program *const *programs, size_t n, size_t nops, int64_t ndistinct) {
    double best = 1e9, reading;
    weft_verify_options o = {.reading = WEFT_READING_IN_ORDER, .nranks = (int64_t)n};
    TRY(measure_reading(programs, n, &o, &reading));
    for (int i = 0; i < repeats; i++) {
        weft_findings *found;
        double start = now();
        TRY(weft_verify(programs, n, &o, &found));
        double seconds = now() - start;
        if (seconds < best) best = seconds;
        size_t nfound = weft_findings_count(found);
        weft_findings_destroy(found);
        if (nfound) return weft_status_create(WEFT_RUNTIME, "proof", "expected no finding, found %zu", nfound);
    }
    double unit = best / (double)nops / log2((double)nops) * 1e9;
    printf("%zu,%d,%d,%zu,%lld,%.6f,%.6f,%.2f\n", nops, nstreams, nrings, n, (long long)ndistinct, best, reading, unit);
    fflush(stdout);
    return NULL;
}

static weft_status run(weft_context *context, size_t nops) {
    weft_program *programs[distinct] = {NULL};
    const weft_program *of_rank[many_ranks];
    weft_status status = make_program(context, nops, 1, 0, &programs[0]);
    if (!status) status = measure((const weft_program *const *)programs, 1, weft_program_nops(programs[0]), 1);
    weft_program_destroy(programs[0]);
    programs[0] = NULL;
    bool many = nops <= 100000; /* eight programs of a million ops want 10 GiB */
    for (int i = 0; i < distinct && many && !status; i++)
        status = make_program(context, nops, many_ranks, i, &programs[i]);
    for (int r = 0; r < many_ranks; r++) of_rank[r] = programs[r % distinct];
    if (!status && many) status = measure(of_rank, many_ranks, weft_program_nops(programs[0]), distinct);
    for (int i = 0; i < distinct; i++) weft_program_destroy(programs[i]);
    return status;
}

int main(int argc, char **argv) {
    static const char *const sizes[] = {"1000", "10000", "100000", "1000000"};
    weft_context *context = NULL;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) printf("ops,streams,rings,ranks,programs,seconds,reading,ns_per_op_and_doubling\n");
    for (int i = 0; !status && i < (argc > 1 ? argc - 1 : 4); i++)
        status = run(context, strtoul(argc > 1 ? argv[i + 1] : sizes[i], NULL, 10));
    if (status) fprintf(stderr, "proof: %s\n", weft_status_message(status));
    int failed = status != NULL;
    weft_status_free(status);
    weft_context_destroy(context);
    return failed;
}
