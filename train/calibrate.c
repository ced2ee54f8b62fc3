/* calibrate.c: measures the machine by running small programs on it, as ranks would run them.
 *
 * A program of a few equal ops is run for some steps, the first of which warm up; of each number the median over steps
 * and ranks counts, since others use the machine too. Ranks of several processes tell one another, so that all go on
 * with equal numbers. Seconds of a table are made not to fall as bytes grow: a point that is lower than the one before
 * takes the mean of both (pool adjacent violators).
 *
 * How compute and collectives slow one another down: chains of both that take about equally long alone run at once, on
 * two streams. While both run, compute is so many times slower, and so is the collective; once one has ended the other
 * goes on alone. */
#include "weft/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

#include "executor/profile.h"
#include "ops/collectives.h"
#include "plan/cost.h"
#include "train/gather.h"
#include "weft/executor.h"

enum { WARM_STEPS = 3, MOST_SHAPES = 24, TINY_OPS = 64, CHAIN = 8 };

typedef struct calibration {
    weft_context *context;
    weft_calibrate_options options;
    arena scratch;
    weft_cluster cluster;
} calibration;

/* Medians of a step. */
typedef struct measured {
    double compute, collective, exposed;
} measured;

/* --- running ------------------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

enum { TIMES = 3 };

/* Compute, collectives and what is exposed, of each step of this process's ranks. */
static weft_status run_steps(calibration *k, weft_executor *executor, double *mine) {
    size_t nsteps = (size_t)k->options.nsteps;
    for (size_t step = 0; step < WARM_STEPS + nsteps; step++) {
        TRY(weft_executor_run(executor));
        for (int i = 0; i < executor->nlocal && step >= WARM_STEPS; i++) {
            weft_rank_times t;
            double *to = mine + TIMES * ((size_t)i * nsteps + step - WARM_STEPS);
            TRY(weft_executor_rank_times(executor, executor->first_rank + i, &t));
            to[0] = t.compute_seconds;
            to[1] = t.collective_seconds;
            to[2] = t.exposed_seconds;
        }
    }
    return NULL;
}

/* What all collectives of a step take, from the last rank's start of each to the last rank's end. */
static weft_status take_turns(calibration *k, weft_executor *executor, measured *out) {
    *out = (measured){0, 0, 0};
    for (int step = 0; step < WARM_STEPS + k->options.nsteps; step++) TRY(weft_executor_run(executor));
    return profile_collective_seconds(executor, &k->scratch, &out->collective);
}

/* The medians over all ranks, which every process gets. */
static weft_status take_medians(calibration *k, weft_executor *executor, measured *out) {
    size_t each = TIMES * (size_t)k->options.nsteps, n = (size_t)k->options.nranks * (size_t)k->options.nsteps;
    double *mine = ARENA_ARRAY(&k->scratch, double, each *(size_t)executor->nlocal);
    double *all = ARENA_ARRAY(&k->scratch, double, each *(size_t)k->options.nranks);
    double *values = ARENA_ARRAY(&k->scratch, double, n), found[TIMES];
    if (!mine || !all || !values) return base_out_of_memory();
    TRY(run_steps(k, executor, mine));
    TRY(executor_gather(executor, "for the calibration", mine, each * sizeof *mine, all));
    for (size_t t = 0; t < TIMES; t++) {
        for (size_t i = 0; i < n; i++) values[i] = all[TIMES * i + t];
        found[t] = median(values, n);
    }
    *out = (measured){found[0], found[1], found[2]};
    return NULL;
}

typedef weft_status (*taker)(calibration *k, weft_executor *executor, measured *out);

static weft_status measure(calibration *k, const weft_program *program, taker take, measured *out) {
    weft_plan *plan = NULL;
    weft_executor *executor = NULL;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT,      .profile = take == take_turns,
                                     .trace = take == take_medians,   .trace_steps = 1,
                                     .nthreads = k->options.nthreads, .host = k->options.host};
    weft_status status = NULL;
    TRY_DONE(weft_plan_create(program, NULL, &plan));
    TRY_DONE(
        weft_executor_create(k->context, (const weft_plan *const *)&plan, 1, k->options.nranks, &options, &executor));
    TRY_DONE(take(k, executor, out));
done:
    weft_executor_destroy(executor);
    weft_plan_destroy(plan);
    return status;
}

static void begin_text(calibration *k, buffer *words, const char *vars) {
    buffer_init(words, &k->context->allocator);
    buffer_format(words, "weft: 1\nblocks:\n- vars: {%s}\n  ops:\n", vars);
}

/* Of a program as text, which goes away. */
static weft_status end_text(calibration *k, buffer *words, taker take, measured *out) {
    weft_program *program = NULL;
    weft_status status = buffer_status(words);
    if (!status)
        status = weft_program_parse(k->context, WEFT_FORM_YAML, words->bytes, words->nbytes, NULL, 0, "calibration",
                                    &program);
    if (!status) status = measure(k, program, take, out);
    weft_program_destroy(program);
    buffer_fini(words);
    return status;
}

/* So many of one op on vars, then of another. */
static weft_status measure_text(calibration *k, const char *vars, const char *first, int nfirst, const char *second,
                                int nsecond, measured *out) {
    buffer words;
    begin_text(k, &words, vars);
    for (int i = 0; i < nfirst; i++) buffer_format(&words, "  - %s\n", first);
    for (int i = 0; i < nsecond; i++) buffer_format(&words, "  - %s\n", second);
    return end_text(k, &words, take_medians, out);
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

/* A shape of an op, and how often the program has it. */
typedef struct shape_of_op {
    const weft_op *op;
    op_cost cost;
    int count;
} shape_of_op;

/* Products and convolutions: what computes much more than it moves. */
static void note_shape(shape_of_op *shapes, size_t *n, const weft_op *op, op_cost cost) {
    if (cost.flops < 4 * cost.bytes || cost.flops <= 0) return;
    for (size_t i = 0; i < *n; i++) {
        shape_of_op *s = &shapes[i];
        if (s->cost.flops != cost.flops || s->cost.bytes != cost.bytes ||
            strcmp(weft_op_type(s->op), weft_op_type(op)) != 0)
            continue;
        s->count++;
        return;
    }
    if (*n < MOST_SHAPES) shapes[(*n)++] = (shape_of_op){op, cost, 1};
}

static weft_status list_shapes(calibration *k, shape_of_op *shapes, size_t *out_n) {
    weft_plan *plan = NULL;
    weft_status status = weft_plan_create(k->options.program, NULL, &plan);
    for (size_t i = 0; !status && i < plan->ninstrs; i++) {
        op_cost cost = {0, 0, 0};
        status = plan_cost_of(plan, &plan->instrs[i], &k->scratch, &cost);
        bool is_of_block = weft_op_block(plan->instrs[i].op) == weft_program_block(k->options.program, 0);
        if (is_of_block && plan->instrs[i].ring_id < 0) note_shape(shapes, out_n, plan->instrs[i].op, cost);
    }
    weft_plan_destroy(plan);
    return status;
}

/* A copy of the program in which one op is left, whose inputs live from step to step. */
static weft_status keep_op(const weft_program *from, size_t index, weft_program **out) {
    TRY(weft_program_clone(from, out));
    weft_op *next, *op = weft_block_first_op(weft_program_block(*out, 0));
    for (size_t i = 0; op; op = next, i++) {
        next = weft_op_next(op);
        if (i != index) weft_op_remove(op);
    }
    op = weft_block_first_op(weft_program_block(*out, 0));
    for (size_t s = 0; s < weft_op_nslots(op, false); s++) {
        size_t nargs;
        weft_op_slot(op, false, s, &nargs);
        for (size_t i = 0; i < nargs; i++) weft_var_set_persistable(weft_op_arg(op, false, s, i), true, false);
    }
    return NULL;
}

static weft_status measure_shapes(calibration *k, const shape_of_op *shapes, size_t n) {
    double flops = 0, seconds = 0;
    for (size_t i = 0; i < n; i++) {
        weft_program *alone = NULL;
        measured m = {0, 0, 0};
        weft_status status = keep_op(k->options.program, weft_op_index(shapes[i].op), &alone);
        if (!status) status = measure(k, alone, take_medians, &m);
        weft_program_destroy(alone);
        TRY(status);
        flops += shapes[i].cost.flops * shapes[i].count;
        seconds += m.compute * shapes[i].count;
    }
    if (seconds > 0) k->cluster.flops = flops / seconds;
    return NULL;
}

static weft_status measure_products(calibration *k) {
    double flops = 0, seconds = 0;
    for (int n = 64; n <= 256; n *= 2) {
        char vars[200];
        measured m;
        snprintf(vars, sizeof vars, "a: {float32: [%d, %d], persistable: true}, b: {float32: [%d, %d]}", n, n, n, n);
        TRY(measure_text(k, vars, "{matmul_v2: {X: a, Y: a}, out: {Out: b}}", CHAIN, "", 0, &m));
        flops += 2.0 * n * n * n * CHAIN;
        seconds += m.compute;
    }
    k->cluster.flops = flops / seconds;
    return NULL;
}

static const weft_var *right_operand(const weft_op *op) {
    for (size_t s = 0; s < weft_op_nslots(op, false); s++) {
        size_t nargs;
        if (strcmp(weft_op_slot(op, false, s, &nargs), "Y") == 0 && nargs) return weft_op_arg(op, false, s, 0);
    }
    return NULL;
}

/* Extents of the program's largest product of matrices, or some that are usual. */
static void find_extents(const shape_of_op *shapes, size_t n, int64_t *inner, int64_t *columns) {
    double most = 0;
    *inner = *columns = 256;
    for (size_t i = 0; i < n; i++) {
        const weft_var *y = shapes[i].cost.rows > 0 ? right_operand(shapes[i].op) : NULL;
        if (shapes[i].cost.flops <= most || !y || weft_var_ndim(y) != 2) continue;
        most = shapes[i].cost.flops;
        *inner = weft_var_dims(y)[0];
        *columns = weft_var_dims(y)[1];
    }
}

/* Products of few rows compute fewer flops a second. */
static weft_status measure_rows(calibration *k, const shape_of_op *shapes, size_t n) {
    enum { FIRST = 8, LAST = 4096 };
    const double most_flops = 4e9;
    weft_cluster_products *p = &k->cluster.products;
    int64_t inner, columns;
    find_extents(shapes, n, &inner, &columns);
    for (int64_t rows = FIRST; rows <= LAST && 2.0 * (double)(rows * inner * columns) <= most_flops; rows *= 2) {
        double flops = 2.0 * (double)(rows * inner * columns), seconds;
        int times = flops < 1e8 ? CHAIN : 1;
        char vars[300];
        measured m;
        snprintf(vars, sizeof vars,
                 "a: {float32: [%lld, %lld], persistable: true}, w: {float32: [%lld, %lld], persistable: true}, "
                 "b: {float32: [%lld, %lld], persistable: true}",
                 (long long)rows, (long long)inner, (long long)inner, (long long)columns, (long long)rows,
                 (long long)columns);
        TRY(measure_text(k, vars, "{matmul_v2: {X: a, \"Y\": w}, out: {Out: b}}", times, "", 0, &m));
        seconds = m.compute / times - k->cluster.op_seconds;
        if (!(seconds > 0)) continue;
        p->rows[p->npoints] = (double)rows;
        p->flops[p->npoints++] = flops / seconds;
    }
    return NULL;
}

static weft_status measure_rank(calibration *k) {
    enum { LARGE = 1 << 20 };
    shape_of_op shapes[MOST_SHAPES];
    size_t n = 0;
    measured large, tiny;
    char vars[200];
    if (k->options.program) TRY(list_shapes(k, shapes, &n));
    TRY(n ? measure_shapes(k, shapes, n) : measure_products(k));
    TRY(measure_text(k, "x: {float32: [16], persistable: true}", "{relu: {X: x}, out: {Out: x}}", TINY_OPS, "", 0,
                     &tiny));
    k->cluster.op_seconds = tiny.compute / TINY_OPS;
    TRY(measure_rows(k, shapes, n));
    snprintf(vars, sizeof vars, "x: {float32: [%d], persistable: true}, y: {float32: [%d], persistable: true}", LARGE,
             LARGE);
    TRY(measure_text(k, vars, "{relu: {X: x}, out: {Out: y}}", CHAIN, "", 0, &large));
    k->cluster.bytes = 8.0 * LARGE * CHAIN / large.compute;
    return NULL;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

typedef struct probe {
    collective_kind kind;
    const char *op, *attrs;
    bool has_out;                 /* a var of its own */
    bool in_is_part, out_is_part; /* of the larger side an n-th */
} probe;

static const probe probes[] = {
    {COLLECTIVE_ALL_REDUCE, "c_allreduce_sum", "ring_id: 0, use_calc_stream: true", false, false, false},
    {COLLECTIVE_ALL_GATHER, "c_allgather", "ring_id: 0, use_calc_stream: true", true, true, false},
    {COLLECTIVE_REDUCE_SCATTER, "c_reducescatter", "ring_id: 0, use_calc_stream: true", true, false, true},
    {COLLECTIVE_BROADCAST, "c_broadcast", "ring_id: 0, root: 0, use_calc_stream: true", false, false, false},
};

/* Some 0.1 ms of compute. */
#define PRODUCT_VARS "a: {float32: [192, 192], persistable: true}, b: {float32: [192, 192]}"
static const char product[] = "{matmul_v2: {X: a, Y: a}, out: {Out: b}}";

/* Of `count` floats on the larger side, as in a step: each rank has computed and then written what it gives, ranks do
 * not all come at the same time, and each collective has tensors of its own, which the caches do not all hold. While
 * ranks compute, threads that wait for messages fall asleep: to wake them is part of what a collective takes. */
static weft_status measure_collective(calibration *k, const probe *p, int64_t count, double *out_seconds) {
    long long in = (long long)(p->in_is_part ? count / k->options.nranks : count);
    long long out = (long long)(p->out_is_part ? count / k->options.nranks : count);
    int times = count > 1 << 20 ? 2 : CHAIN;
    buffer vars, words;
    measured m;
    buffer_init(&vars, &k->context->allocator);
    for (int i = 0; i < times; i++)
        buffer_format(&vars, "%sx%d: {float32: [%lld], persistable: true}, y%d: {float32: [%lld], persistable: true}",
                      i ? ", " : "", i, in, i, out);
    buffer_text(&vars, ", " PRODUCT_VARS);
    buffer_append(&vars, "", 1); /* its end */
    begin_text(k, &words, vars.bytes ? vars.bytes : "");
    buffer_fini(&vars);
    for (int i = 0; i < times; i++) {
        buffer_format(&words,
                      "  - %s\n  - {relu: {X: x%d}, out: {Out: x%d}}\n  - {%s: {X: x%d}, out: {Out: %c%d}, attrs: {%s",
                      product, i, i, p->op, i, p->has_out ? 'y' : 'x', i, p->attrs);
        if (p->has_out) buffer_format(&words, ", nranks: %d", k->options.nranks);
        buffer_text(&words, "}}\n");
    }
    TRY(end_text(k, &words, take_turns, &m));
    *out_seconds = m.collective / times;
    return NULL;
}

/* The nearest numbers that do not fall: runs of points that do take their mean. */
static void make_monotone(weft_cluster_table *t) {
    double sum[WEFT_TABLE_POINTS];
    size_t count[WEFT_TABLE_POINTS], n = 0;
    for (size_t i = 0; i < t->npoints; i++) {
        sum[n] = t->seconds[i];
        count[n++] = 1;
        while (n > 1 && sum[n - 2] / (double)count[n - 2] > sum[n - 1] / (double)count[n - 1]) {
            sum[n - 2] += sum[n - 1];
            count[n - 2] += count[n - 1];
            n--;
        }
    }
    for (size_t i = 0, at = 0; i < n; i++)
        for (size_t j = 0; j < count[i]; j++) t->seconds[at++] = sum[i] / (double)count[i];
}

static weft_status measure_table(calibration *k, const probe *p) {
    weft_cluster_table *t = &k->cluster.tables[k->cluster.ntables++];
    *t = (weft_cluster_table){.nranks = k->options.nranks};
    snprintf(t->kind, sizeof t->kind, "%s", collective_kind_name(p->kind));
    for (size_t nbytes = 1024; nbytes <= k->options.most_nbytes && t->npoints < WEFT_TABLE_POINTS; nbytes *= 2) {
        int64_t count = (int64_t)(nbytes / 4) / k->options.nranks * k->options.nranks;
        if (!count) continue;
        t->nbytes[t->npoints] = (double)count * 4;
        TRY(measure_collective(k, p, count, &t->seconds[t->npoints++]));
    }
    make_monotone(t);
    return NULL;
}

/* For rings of other sizes: the line through the ends of the all-reduces' table. */
static void fit_link(calibration *k) {
    const weft_cluster_table *t = &k->cluster.tables[0];
    double n = k->options.nranks, messages = 2 * (n - 1);
    double per_byte = (t->seconds[t->npoints - 1] - t->seconds[0]) / (t->nbytes[t->npoints - 1] - t->nbytes[0]);
    if (!(per_byte > 1e-15)) per_byte = 1e-15;
    double start = (t->seconds[0] - per_byte * t->nbytes[0] - k->cluster.op_seconds) / messages;
    k->cluster.links[0] = (weft_link){.bytes = messages / n / per_byte, .seconds = start > 1e-9 ? start : 1e-9};
    k->cluster.nlinks = 1;
}

/* --- side by side ------------------------------------------------------------------------------------------------- */

static const char pair_vars[] = "x: {float32: [65536], persistable: true}, " PRODUCT_VARS;
static const char pair_reduce[] =
    "{c_allreduce_sum: {X: x}, out: {Out: x}, attrs: {ring_id: 0, use_calc_stream: true}, "
    "dist: {stream: beside}}";

/* Chains of about 5 ms each. */
static int chain_of(double seconds, int now) {
    double wanted = seconds > 0 ? now * 5e-3 / seconds : now;
    return wanted < CHAIN ? CHAIN : wanted > 1000 ? 1000 : (int)wanted;
}

/* Nothing gets faster beside something else; what seems to take so much longer was disturbed while it was measured. */
static double slowdown(double together, double alone) {
    const double most = 16;
    double factor = alone > 0 ? together / alone : 1;
    return factor < 1 ? 1 : factor < most ? factor : most;
}

/* Reduces that end before the products do are slowed down from their first to their last: no small difference of two
 * long times says how much. They end behind half of the products at least, so that these are slowed down by more than
 * the clock is off. How many do is found by trying. */
static weft_status measure_both(calibration *k, int nproducts, int nreduces, measured *out_reduces,
                                measured *out_both) {
    enum { TRIES = 5 };
    for (int i = 0; i < TRIES; i++) {
        TRY(measure_text(k, pair_vars, product, nproducts, pair_reduce, nreduces, out_both));
        double part = out_both->collective > 0 ? out_both->compute / out_both->collective : 1;
        if ((part > 1.25 && part < 2) || (part <= 1.25 && nreduces == 1)) break;
        nreduces = (int)(nreduces * part / 1.6);
        if (nreduces < 1) nreduces = 1;
    }
    return measure_text(k, pair_vars, "", 0, pair_reduce, nreduces, out_reduces);
}

static weft_status measure_pair(calibration *k) {
    measured products, reduces, both;
    TRY(measure_text(k, pair_vars, product, CHAIN, "", 0, &products));
    TRY(measure_text(k, pair_vars, "", 0, pair_reduce, CHAIN, &reduces));
    int nproducts = chain_of(products.compute, CHAIN), nreduces = chain_of(reduces.collective, CHAIN);
    TRY(measure_text(k, pair_vars, product, nproducts, "", 0, &products));
    TRY(measure_both(k, nproducts, nreduces, &reduces, &both));
    double alone = both.compute - both.collective; /* products run by themselves at the end */
    if (alone < 0) alone = 0;
    double together = both.compute - alone;
    k->cluster.compute_beside_collective = slowdown(together, products.compute - alone);
    k->cluster.collective_beside_compute = slowdown(together, reduces.collective);
    return NULL;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static weft_status measure_all(calibration *k) {
    TRY(measure_rank(k));
    if (k->options.nranks < 2) return NULL;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) TRY(measure_table(k, &probes[i]));
    fit_link(k);
    return measure_pair(k);
}

/* Six digits: more were never measured. */
static void round_number(double *number) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.6g", *number);
    *number = strtod(digits, NULL);
}

static void round_numbers(weft_cluster *c) {
    double *numbers[] = {&c->flops,
                         &c->bytes,
                         &c->op_seconds,
                         &c->compute_beside_collective,
                         &c->collective_beside_compute,
                         &c->links[0].bytes,
                         &c->links[0].seconds};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) round_number(numbers[i]);
    for (size_t i = 0; i < c->products.npoints; i++) round_number(&c->products.flops[i]);
    for (size_t t = 0; t < c->ntables; t++)
        for (size_t i = 0; i < c->tables[t].npoints; i++) round_number(&c->tables[t].seconds[i]);
}

weft_status weft_calibrate(weft_context *context, const weft_calibrate_options *options, weft_cluster *out_cluster) {
    calibration k = {.context = context};
    TRY(base_take_struct("weft_calibrate_options", &k.options, sizeof k.options, options));
    if (k.options.nranks < 1)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", k.options.nranks);
    if (k.options.nsteps < 1) k.options.nsteps = 15;
    if (!k.options.most_nbytes) k.options.most_nbytes = 16 << 20;
    arena_init(&k.scratch, &context->allocator);
    weft_status status = measure_all(&k);
    arena_fini(&k.scratch);
    round_numbers(&k.cluster);
    if (!status) *out_cluster = k.cluster;
    return status;
}
