/* executor_threads.c: the executor on small programs of 1 to 16 ranks, each with a compute and a gradient_sync stream:
 * right results, equal bits whatever the timing, no allocation in the step loop, and every failure bounded and named. A
 * plain main, because it runs under ThreadSanitizer too. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/devices/cpu/cpu.h"
#include "tests/support/plain.h"
#include "tests/support/training.h"

enum { MOST_STEPS = 4 };

static bool says(weft_status status, const char *part) {
    return strstr(weft_status_message(status), part) != NULL;
}

static void finish(fixture *f) {
    long leaked = close_fixture(f);
    check(leaked == 0, "%ld blocks leaked", leaked);
}

/* --- what is put between the executor and its kernels and rings --------------------------------------------------- */

static _Atomic int delays;     /* sleep at random in kernels and collectives */
static _Atomic int fail_after; /* the n-th call fails, counted over all ranks; 0: none */
static _Atomic int ncalls;
static const comm_ring_engine *real_engine;
static weft_status (*real_mul)(const kernel_call *);
static _Thread_local unsigned luck;

static void maybe_sleep(void) {
    if (!delays) return;
    if (!luck) luck = (unsigned)wait_clock_ns() | 1;
    luck = luck * 1103515245u + 12345u;
    if (luck >> 16 & 3) return;
    usleep((luck >> 18) % 1500);
}

static bool is_to_fail(void) {
    int call = atomic_fetch_add(&ncalls, 1) + 1;
    return fail_after && call == fail_after;
}

static weft_status injected_run(comm_ring *r, const comm_request *request) {
    maybe_sleep();
    if (is_to_fail()) return weft_status_create(WEFT_RUNTIME, NULL, "injected into the collective");
    return real_engine->run(r, request);
}
static const comm_ring_engine injected_engine = {.name = "injected", .run = injected_run};

static weft_status injected_mul(const kernel_call *c) {
    maybe_sleep();
    return real_mul(c);
}

static weft_status failing_mul(const kernel_call *c) {
    if (c->rank == 1 && is_to_fail()) return kernel_failed(c, "injected into the kernel");
    return real_mul(c);
}

static void inject(weft_executor *x, weft_status (*mul)(const kernel_call *)) {
    for (int r = 0; r < x->nranks; r++) {
        rank_state *rank = &x->ranks[r];
        for (size_t i = 0; i < rank->nrings; i++) {
            real_engine = rank->rings[i].comm->engine;
            rank->rings[i].comm->engine = &injected_engine;
        }
        for (int s = 0; s < rank->plan->nstreams; s++) {
            for (size_t i = 0; i < rank->streams[s].ninstrs; i++) {
                cpu_call *b = &cpu_run_of(x->run)->ranks[r][s].calls[i];
                if (!mul || strcmp(b->call.schema->type, "elementwise_mul") != 0) continue;
                real_mul = b->run;
                b->run = mul;
            }
        }
    }
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static const float *param(weft_executor *x, int rank, int k) {
    char n[32];
    weft_tensor t;
    snprintf(n, sizeof n, "w_%d", k);
    must(weft_executor_get(x, rank, n, &t));
    return t.data;
}

/* The same in the plainest way, sums in the order of ranks. */
static void expected_param(int nranks, int nsteps, int k, float *out) {
    for (int i = 0; i < NELEMENTS; i++) {
        float w = w_of(k, i);
        for (int s = 0; s < nsteps; s++) {
            float sum = x_of(0, i) * w;
            for (int r = 1; r < nranks; r++) sum += x_of(r, i) * w;
            w -= 0.01f * sum;
        }
        out[i] = w;
    }
}

static bool close_to(const float *a, const float *b) {
    for (int i = 0; i < NELEMENTS; i++) {
        float d = a[i] - b[i], m = b[i] < 0 ? -b[i] : b[i];
        if (!((d < 0 ? -d : d) <= 1e-5f * (m > 1 ? m : 1))) return false;
    }
    return true;
}

static void test_results(int nranks) {
    static float want[NELEMENTS];
    fixture f;
    open_fixture(&f, nranks, NULL);
    for (int s = 0; s < MOST_STEPS; s++) must(weft_executor_run(f.executor));
    for (int k = 0; k < NPARAMS; k++) {
        expected_param(nranks, MOST_STEPS, k, want);
        for (int r = 0; r < nranks; r++) {
            check(close_to(param(f.executor, r, k), want), "%d ranks: w_%d of rank %d", nranks, k, r);
            check(memcmp(param(f.executor, r, k), param(f.executor, 0, k), sizeof want) == 0,
                  "%d ranks: w_%d of rank %d is not rank 0's", nranks, k, r);
        }
    }
    check(weft_executor_step_seconds(f.executor) > 0, "time of a step");
    finish(&f);
}

/* --- threads that a host lends ------------------------------------------------------------------------------------ */

typedef struct lent_thread {
    pthread_t thread;
    void (*run)(void *);
    void *arg;
} lent_thread;

static lent_thread lent[32];
static int nlent, most_lent;
static _Atomic int nback;

static void *lend(void *arg) {
    lent_thread *l = arg;
    l->run(l->arg);
    atomic_fetch_add(&nback, 1);
    return NULL;
}

static weft_status spawn(void *user, void (*run)(void *), void *arg) {
    (void)user;
    lent_thread *l = &lent[nlent];
    if (nlent == most_lent) return weft_status_create(WEFT_LIMIT, NULL, "no thread to lend");
    *l = (lent_thread){.run = run, .arg = arg};
    if (pthread_create(&l->thread, NULL, lend, l) != 0) return weft_status_create(WEFT_IO, NULL, "no thread");
    nlent++;
    return NULL;
}

/* Those from `first` on. */
static void take_back(int first) {
    int count = nlent - first;
    while (nlent > first) pthread_join(lent[--nlent].thread, NULL);
    check(nback == count, "%d of %d lent threads came back", nback, count);
    nback = 0;
}

/* The same results; then fewer threads than it takes, so that each start fails once. */
static void test_lent_threads(void) {
    static float want[NELEMENTS];
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 2, .spawn = spawn};
    fixture f;
    most_lent = sizeof lent / sizeof *lent;
    open_fixture(&f, 2, &options);
    for (int s = 0; s < MOST_STEPS; s++) must(weft_executor_run(f.executor));
    expected_param(2, MOST_STEPS, 0, want);
    check(close_to(param(f.executor, 1, 0), want), "results on lent threads");
    int needed = nlent;
    check(needed >= 4, "%d threads were lent: 3 streams, a watchdog and helpers", needed);
    const weft_plan *const *plans = (const weft_plan *const *)&f.plan;
    for (most_lent = needed; most_lent < 2 * needed; most_lent++) {
        weft_executor *x = NULL;
        weft_status status = weft_executor_create(f.context, plans, 1, 2, &options, &x);
        check(says(status, "no thread to lend"), "%d threads: %s", most_lent - needed, weft_status_message(status));
        weft_status_free(status);
        take_back(needed);
    }
    finish(&f);
    take_back(0);
}

static void set_param(weft_executor *x, int rank, float value) {
    float values[NELEMENTS];
    weft_tensor t;
    for (int i = 0; i < NELEMENTS; i++) values[i] = value;
    must(weft_executor_get(x, rank, "w_0", &t));
    t.data = values;
    must(weft_executor_set(x, rank, "w_0", &t));
}

/* On every thread that runs ops, and on none of the host's. */
static void test_subnormals_are_zero(void) {
    static const volatile float smallest = 1.5e-38f;
    fixture f;
    open_fixture(&f, 2, NULL);
    for (int r = 0; r < 2; r++) set_param(f.executor, r, 1e-39f);
    must(weft_executor_run(f.executor));
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < NELEMENTS; i++)
            check(param(f.executor, r, 0)[i] == 0, "rank %d: w_0[%d] is %g", r, i, (double)param(f.executor, r, 0)[i]);
    check(smallest * 0.25f > 0, "the host's thread flushes subnormals now");
    finish(&f);
}

static void test_timing_does_not_show(int nranks) {
    static float first[NPARAMS][NELEMENTS];
    for (int turn = 0; turn < 4; turn++) {
        fixture f;
        open_fixture(&f, nranks, NULL);
        inject(f.executor, injected_mul);
        delays = turn > 0;
        for (int s = 0; s < MOST_STEPS; s++) must(weft_executor_run(f.executor));
        delays = 0;
        for (int k = 0; k < NPARAMS; k++) {
            const float *got = param(f.executor, nranks - 1, k);
            if (turn == 0) memcpy(first[k], got, sizeof first[k]);
            check(memcmp(first[k], got, sizeof first[k]) == 0, "run %d: the bits of w_%d differ", turn, k);
        }
        finish(&f);
    }
}

static void test_no_allocation(void) {
    for (int mode = 0; mode < 3; mode++) {
        fixture f;
        weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .trace = mode == 1, .trace_steps = 8,
                                         .profile = mode == 2};
        open_fixture(&f, 4, &options);
        must(weft_executor_run(f.executor)); /* makes room for the timeline */
        long before = f.count.nallocations;
        for (int s = 0; s < 50; s++) must(weft_executor_run(f.executor));
        check(f.count.nallocations == before, "%ld allocations in 50 steps", (long)f.count.nallocations - before);
        finish(&f);
    }
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* As linux/sched/types.h has it. */
typedef struct schedule {
    uint32_t nbytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
    uint32_t least, most;
} schedule;

enum { SHORT_SLICE_NS = 100000 };

/* Threads of this process with slices as streams of collectives ask for. */
static int count_short_slices(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        schedule s = {0};
        long id = strtol(d->d_name, NULL, 10);
        if (id > 0 && syscall(SYS_sched_getattr, id, &s, sizeof s, 0) == 0) n += s.slice_ns == SHORT_SLICE_NS;
    }
    if (tasks) closedir(tasks);
    return n;
}

/* Whether the kernel keeps the slice that a thread asks for; this one's are as before afterwards. */
static bool has_slices(void) {
    schedule own = {0}, s = {0};
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0) return false;
    s = own;
    s.slice_ns = SHORT_SLICE_NS;
    bool set = syscall(SYS_sched_setattr, 0, &s, 0) == 0;
    bool kept = set && syscall(SYS_sched_getattr, 0, &s, sizeof s, 0) == 0 && s.slice_ns == SHORT_SLICE_NS;
    return syscall(SYS_sched_setattr, 0, &own, 0) == 0 && kept;
}

/* With more streams than cores those beside compute go first when they wake: one a rank. */
static void test_short_slices(void) {
    int nranks = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;
    fixture f;
    if (!has_slices() || nranks > 64) return;
    open_fixture(&f, nranks, NULL);
    must(weft_executor_run(f.executor));
    check(count_short_slices() == nranks, "%d threads have short slices, expected %d", count_short_slices(), nranks);
    finish(&f);
}

static double seconds_since(int64_t start) {
    return (double)(wait_clock_ns() - start) * 1e-9;
}

static void test_nth_collective_fails(int nranks) {
    int total = nranks * NPARAMS;
    for (int n = 1; n <= total + 1; n++) {
        fixture f;
        open_fixture(&f, nranks, NULL);
        inject(f.executor, injected_mul);
        ncalls = 0;
        fail_after = n;
        int64_t start = wait_clock_ns();
        weft_status status = weft_executor_run(f.executor);
        fail_after = 0;
        check(seconds_since(start) < 5, "collective %d of %d: took %g s", n, total, seconds_since(start));
        bool named = says(status, "rank ") && says(status, "c_allreduce_sum #") && says(status, ", ring 0: injected");
        check(n <= total ? weft_status_code(status) == WEFT_RUNTIME && named : !status, "collective %d of %d: \"%s\"",
              n, total, weft_status_message(status));
        weft_status again = n <= total ? weft_executor_run(f.executor) : NULL;
        check(n > total || weft_status_code(again) == WEFT_INVALID_ARGUMENT, "a failed executor ran again");
        weft_status_free(again);
        weft_status_free(status);
        finish(&f);
    }
}

static void test_nth_kernel_fails(void) {
    for (int n = 1; n <= NPARAMS; n++) {
        fixture f;
        open_fixture(&f, 3, NULL);
        inject(f.executor, failing_mul);
        for (int r = 0; r < 3; r++) f.executor->ranks[r].rings[0].comm->engine = real_engine; /* kernels only */
        ncalls = 0;
        fail_after = n;
        int64_t start = wait_clock_ns();
        weft_status status = weft_executor_run(f.executor);
        fail_after = 0;
        check(seconds_since(start) < 5, "kernel %d: took %g s", n, seconds_since(start));
        check(says(status, "rank 1, elementwise_mul #") && says(status, "injected into the kernel"),
              "kernel %d: \"%s\"", n, weft_status_message(status));
        weft_status_free(status);
        finish(&f);
    }
}

static void expect(weft_status status, const char *what, const char *a, const char *b) {
    check(status && says(status, a) && says(status, b), "%s: \"%s\"", what, weft_status_message(status));
    weft_status_free(status);
}

static comm_world *shared_world;

/* A rank aborts the world, as a timeout does, and only then comes to word why: its words count, not "was stopped". */
static weft_status slow_to_explain(comm_ring *r, const comm_request *request) {
    if (r->index != 1) return real_engine->run(r, request);
    comm_world_abort(shared_world, NULL);
    usleep(100000);
    return weft_status_create(WEFT_RUNTIME, NULL, "the reason");
}
static const comm_ring_engine slow_engine = {.name = "slow", .run = slow_to_explain};

static void test_the_reason_wins(void) {
    fixture f;
    open_fixture(&f, 3, NULL);
    inject(f.executor, NULL);
    shared_world = f.executor->world;
    for (int r = 0; r < 3; r++) f.executor->ranks[r].rings[0].comm->engine = &slow_engine;
    expect(weft_executor_run(f.executor), "slow to explain", "rank 1, c_allreduce_sum #", "the reason");
    finish(&f);
}

static void test_op_seeds(void) {
    fixture f;
    open_fixture(&f, 2, NULL);
    const rank_state *a = &f.executor->ranks[0], *b = &f.executor->ranks[1];
    bool distinct = true, equal = true;
    for (size_t i = 0; i < a->streams[0].ninstrs; i++) {
        uint64_t seed = a->streams[0].instrs[i].op_seed;
        equal = equal && seed == b->streams[0].instrs[i].op_seed;
        for (size_t j = 0; j < i; j++) distinct = distinct && seed != a->streams[0].instrs[j].op_seed;
    }
    check(distinct && equal, "seeds of ops are distinct, and equal on all ranks");
    finish(&f);
}

/* Two ranks with programs of their own; the status of creating their executor. */
static weft_status create_two(variation a, variation b, const int64_t *ring_of_1, size_t nring_of_1) {
    counter count = {0};
    weft_context *context = new_context(&count);
    weft_program *programs[] = {training_program(context, a), training_program(context, b)};
    if (ring_of_1) must(weft_program_set_ring(programs[1], b.ring_id, nring_of_1, ring_of_1));
    weft_plan *plans[2];
    weft_executor *x = NULL;
    for (int i = 0; i < 2; i++) must(weft_plan_create(programs[i], NULL, &plans[i]));
    const weft_plan *both[] = {plans[0], plans[1]};
    weft_status status = weft_executor_create(context, both, 2, 2, NULL, &x);
    weft_executor_destroy(x);
    for (int i = 0; i < 2; i++) {
        weft_plan_destroy(plans[i]);
        weft_program_destroy(programs[i]);
    }
    weft_context_destroy(context);
    check(count.nlive == 0, "%ld blocks leaked", (long)count.nlive);
    return status;
}

static void test_disagreements(void) {
    static const int64_t alone[] = {0}, outside[] = {0, 1, 2}, only_self[] = {1};
    variation shorter = plain, longer = plain, other_ring = plain;
    shorter.skipped_reduce = 2;
    longer.last_count = NELEMENTS + 1;
    other_ring.ring_id = 4;
    weft_status status = create_two(plain, plain, NULL, 0);
    check(!status, "equal programs: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    expect(create_two(plain, shorter, NULL, 0), "one reduce less", "rank 0 runs c_allreduce_sum #11 of 3000 float32",
           "rank 1 runs none");
    expect(create_two(plain, longer, NULL, 0), "another count", "rank 0 runs c_allreduce_sum #11 of 3000 float32",
           "rank 1 runs c_allreduce_sum #11 of 3001 float32");
    expect(create_two(plain, other_ring, NULL, 0), "another ring", "ring 0", "rank 1 runs none");
    expect(create_two(plain, plain, alone, 1), "ring without the rank", "rank 1, c_allreduce_sum #1",
           "ring 0 does not contain rank 1");
    expect(create_two(plain, plain, outside, 3), "ring with a rank too many", "ring 0 has 3 ranks", "the run has 2");
    expect(create_two(plain, plain, only_self, 1), "rings of other ranks",
           "ring 0: ranks disagree on its ranks: rank 0 ",
           "among [0, 1], rank 1 runs c_allreduce_sum #1 of 3000 float32 among [1]");
}

static void test_values(void) {
    fixture f;
    open_fixture(&f, 2, NULL);
    float v[4] = {0};
    weft_tensor t = {.dtype = WEFT_FP32, .ndim = 1, .dims = {4}, .data = v}, got;
    expect(weft_executor_set(f.executor, 0, "w_0", &t), "wrong dims", "\"w_0\": expected float32 [3000]",
           "float32 [4]");
    t.dtype = WEFT_INT32;
    t.dims[0] = 1;
    expect(weft_executor_set(f.executor, 0, "lr", &t), "wrong dtype", "\"lr\": expected float32 [1]", "int32 [1]");
    expect(weft_executor_set(f.executor, 0, "nobody", &t), "unknown", "\"nobody\"", "rank 0");
    expect(weft_executor_set(f.executor, 2, "lr", &t), "unknown rank", "rank 2", "0 to 1");
    must(weft_executor_get(f.executor, 1, "nobody", &got));
    check(!got.data, "a value of no var");
    must(weft_executor_get(f.executor, 1, "w_0@GRAD", &got));
    check(!got.data, "a temporary is nobody's to read");
    must(weft_executor_get(f.executor, 1, "lr", &got));
    check(got.data && got.nbytes == 4 && got.ndim == 1 && *(float *)got.data == 0.01f, "a persistable");
    finish(&f);
}

static void test_no_kernel(void) {
    counter count = {0};
    weft_context *context = new_context(&count);
    weft_program *p = training_program(context, plain);
    weft_plan *plan = NULL;
    must(weft_plan_create(p, NULL, &plan));
    op_schema unknown = {0};
    for (size_t i = 0; i < plan->ninstrs; i++) { /* a row of the table without a kernel */
        if (plan->instrs[i].op_index != 3) continue;
        unknown = *plan->instrs[i].schema;
        unknown.index = -1;
        plan->instrs[i].schema = &unknown;
    }
    const weft_plan *plans[] = {plan};
    weft_executor *x = NULL;
    expect(weft_executor_create(context, plans, 1, 2, NULL, &x), "no kernel", "rank 0, c_allreduce_sum #3",
           "no kernel for op c_allreduce_sum on this device");
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    weft_context_destroy(context);
}

int main(void) {
    static const int sizes[] = {1, 2, 3, 4, 8, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) test_results(sizes[i]);
    test_lent_threads();
    test_subnormals_are_zero();
    test_timing_does_not_show(4);
    test_no_allocation();
    test_short_slices();
    test_nth_collective_fails(3);
    test_nth_kernel_fails();
    test_the_reason_wins();
    test_op_seeds();
    test_disagreements();
    test_values();
    test_no_kernel();
    return report_checks();
}
