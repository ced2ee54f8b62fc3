/* cuda_registered.c: memory that NCCL gives and communicators register: that rings do, with the same bits; what the
 * stand-in for NCCL does not let pass; and devices that break each of its rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/cuda_rule.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

/* --- rules -------------------------------------------------------------------------------------------------------- */

typedef void *comm_of(const char *, int, int);
enum { NBYTES = 8192, SYMMETRIC = 1 };

static void make_comms(void *comms[2]) {
    for (int r = 0; r < 2; r++) comms[r] = ((comm_of *)rule_find(rule_collectives, "standin_comm_create"))("a", 2, r);
}
static char *take(void) {
    void *block = NULL;
    CALL(rule_collectives, "ncclMemAlloc", (void **, size_t), &block, NBYTES);
    return block;
}
static void *tell(void *comm, void *bytes, size_t nbytes) {
    void *handle = NULL;
    CALL(rule_collectives, "ncclCommRegister", (void *, void *, size_t, void **), comm, bytes, nbytes, &handle);
    return handle;
}
static void untell(void *comm, void *handle) {
    CALL(rule_collectives, "ncclCommDeregister", (void *, void *), comm, handle);
}
static void open_window(void *comm, void *bytes, size_t nbytes) {
    static void *windows[8];
    static int n;
    CALL(rule_collectives, "ncclCommWindowRegister", (void *, void *, size_t, void **, int), comm, bytes, nbytes,
         &windows[n++], SYMMETRIC);
}
static void settle(void *comm) {
    int state;
    for (int i = 0; i < 4; i++) CALL(rule_collectives, "ncclCommGetAsyncError", (void *, int *), comm, &state);
}
static void end(void *comm, const char *call) {
    CALL(rule_collectives, call, (void *), comm);
}
static void reduce(void *block, void *comm, void *stream) {
    CALL(rule_collectives, "ncclAllReduce", (const void *, void *, size_t, int, int, void *, void *), block, block, 1,
         7, 0, comm, stream);
}

static void free_registered(void) {
    void *comms[2], *block = take();
    make_comms(comms);
    tell(comms[0], block, NBYTES);
    CALL(rule_collectives, "ncclMemFree", (void *), block);
}
static void free_by_the_other(void) {
    RUNTIME("cudaFree", (void *), take());
}
static void register_plain(void) {
    void *comms[2], *block = NULL;
    make_comms(comms);
    RUNTIME("cudaMalloc", (void **, size_t), &block, NBYTES);
    tell(comms[0], block, NBYTES);
}
static void register_unaligned(void) {
    void *comms[2];
    make_comms(comms);
    tell(comms[0], take() + 8, 8);
}
static void register_too_much(void) {
    void *comms[2];
    make_comms(comms);
    tell(comms[0], take(), NBYTES + 1);
}
static void register_after_abort(void) {
    void *comms[2];
    make_comms(comms);
    end(comms[0], "ncclCommAbort");
    open_window(comms[0], take(), NBYTES);
}
static void deregister_after_destroy(void) {
    void *comms[2];
    make_comms(comms);
    end(comms[0], "ncclCommDestroy");
    untell(comms[0], NULL);
}
static void deregister_nothing(void) {
    void *comms[2];
    make_comms(comms);
    untell(comms[0], NULL);
}
static void destroy_registered(void) {
    void *comms[2];
    make_comms(comms);
    tell(comms[0], take(), NBYTES);
    end(comms[0], "ncclCommDestroy");
}
static void deregister_under_graph(void) {
    void *comms[2], *graph = NULL, *s = rule_stream(), *block = take();
    make_comms(comms);
    void *handle = tell(comms[0], block, NBYTES);
    RUNTIME("cudaGraphCreate", (void **, unsigned), &graph, 0);
    RUNTIME("cudaStreamBeginCaptureToGraph", (void *, void *, void *, void *, size_t, int), s, graph, NULL, NULL, 0, 1);
    reduce(block, comms[0], s);
    settle(comms[0]);
    RUNTIME("cudaStreamEndCapture", (void *, void **), s, &graph);
    untell(comms[0], handle);
}
static void deregister_busy(void) {
    void *comms[2], *block = take();
    make_comms(comms);
    void *handle = tell(comms[0], block, NBYTES);
    reduce(block, comms[0], rule_stream());
    untell(comms[0], handle);
}
static void register_one_member(void) {
    void *comms[2];
    make_comms(comms);
    for (int r = 0; r < 2; r++) {
        char *block = take();
        if (!r) tell(comms[r], block, NBYTES);
        reduce(block, comms[r], rule_stream());
    }
}
static void lie_elsewhere(void) {
    void *comms[2];
    char *blocks[2] = {take(), take()};
    make_comms(comms);
    for (int r = 0; r < 2; r++) open_window(comms[r], blocks[r], NBYTES);
    for (int r = 0; r < 2; r++) settle(comms[r]);
    for (int r = 0; r < 2; r++) reduce(blocks[r] + 16 * r, comms[r], rule_stream());
}
static void free_before_comm(void) {
    void *comms[2], *blocks[2] = {take(), take()}, *s[2] = {rule_stream(), rule_stream()};
    make_comms(comms);
    for (int r = 0; r < 2; r++) reduce(blocks[r], comms[r], s[r]);
    for (int r = 0; r < 2; r++) settle(comms[r]);
    for (int r = 0; r < 2; r++) RUNTIME("cudaStreamSynchronize", (void *), s[r]);
    CALL(rule_collectives, "ncclMemFree", (void *), blocks[0]);
}
static void open_unequal_windows(void) {
    void *comms[2];
    make_comms(comms);
    for (int r = 0; r < 2; r++) open_window(comms[r], take(), NBYTES / (size_t)(r + 1));
    settle(comms[0]);
}

static const rule rules[] = {
    {free_registered, "memory is freed that a communicator has registered"},
    {free_by_the_other, "cudaFree of memory of the other"},
    {register_plain, "memory is registered that ncclMemAlloc has not given"},
    {register_unaligned, "memory is registered from byte 8 of its block on"},
    {register_too_much, "more is registered than a block of 8192 bytes has"},
    {register_after_abort, "a window of a communicator that has ended"},
    {deregister_after_destroy, "a registration of a communicator that has ended"},
    {deregister_nothing, "a registration that is not there"},
    {destroy_registered, "a communicator is destroyed that has registered memory"},
    {deregister_under_graph, "a registration goes before graphs that may use it"},
    {deregister_busy, "a registration goes before work that may use it"},
    {register_one_member, "a buffer is registered by rank 0 and not by rank 1"},
    {lie_elsewhere, "buffers lie at byte 0 and at byte 16 of what is registered"},
    {free_before_comm, "memory is freed before a communicator whose collectives had it"},
    {open_unequal_windows, "windows of 4096 and 8192 bytes"},
};

/* --- devices that break them -------------------------------------------------------------------------------------- */

static const char program[] = "paddle26/mlp_sgd_dp2", form[] = "%s/rank%d.after.default.pdmodel";
static const weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda"};

/* What the device forgets, does too late, or does wrongly; where communicators have windows, or not. */
typedef struct mutant {
    const char *lost, *early, *bent;
    bool has_windows;
    const char *words;
} mutant;

static const mutant mutants[] = {
    {"windowgone:1", NULL, NULL, true, "a communicator is destroyed that has registered memory"},
    {"deregister:1", NULL, NULL, false, "a communicator is destroyed that has registered memory"},
    {"windowgone:0,destroy:0", NULL, NULL, true, "memory is freed that a communicator has registered"},
    {"destroy:0", NULL, NULL, true, "memory is freed before a communicator whose collectives had it"},
    {"execdestroy:1", NULL, NULL, true, "a window goes before graphs that may use it"},
    {"execdestroy:1", NULL, NULL, false, "a registration goes before graphs that may use it"},
    {"window:1", NULL, NULL, true, "is registered by rank"},
    {"register:1", NULL, NULL, false, "is registered by rank"},
    {"memalloc:1", NULL, NULL, true, "memory is registered that ncclMemAlloc has not given"},
    {NULL, "window:1", NULL, true, "a window of a communicator that has ended"},
    {NULL, "windowgone:1", NULL, true, "a window of a communicator that has ended"},
    {NULL, "register:1", NULL, false, "a registration of a communicator that has ended"},
    {NULL, "deregister:1", NULL, false, "a registration of a communicator that has ended"},
    {NULL, NULL, "memfree.other:1", true, "cudaFree of memory of the other"},
    {NULL, NULL, "free.other:1", true, "ncclMemFree of memory of the other"},
    {NULL, NULL, "window.aside:0", true, "memory is registered from byte 8 of its block on"},
    {NULL, NULL, "register.gone:1", false, "memory is registered that is not there"},
    {NULL, NULL, "register.aside:1", false, "memory is registered from byte 8 of its block on"},
    {NULL, NULL, "window.more:0", true, "more is registered than a block of"},
    {NULL, NULL, "register.more:1", false, "more is registered than a block of"},
    {NULL, NULL, "window.less:1", true, "windows of"},
    {NULL, NULL, "windowgone.twice:1", true, "a window that is not there"},
    {NULL, NULL, "deregister.twice:1", false, "a registration that is not there"},
    {NULL, NULL, "groupend.untells:1", true, "a window goes before work that may use it"},
    {NULL, NULL, "groupend.untells:1", false, "a registration goes before work that may use it"},
    {NULL, NULL, "collective.aside:1", true, "of what is registered"},
    {NULL, NULL, "collective.aside:1", false, "of what is registered"},
};

static void set_windows(bool there) {
    if (there)
        unsetenv("WEFT_STANDIN_NO_WINDOWS");
    else
        setenv("WEFT_STANDIN_NO_WINDOWS", "1", 1);
}

static void train_mutant(void *arg) {
    const mutant *m = arg;
    char folder[TRAINING_PATH];
    cuda_training t;
    set_windows(m->has_windows);
    if (m->lost) setenv("WEFT_STANDIN_LOSE", m->lost, 1);
    if (m->early) setenv("WEFT_STANDIN_EARLY", m->early, 1);
    if (m->bent) setenv("WEFT_STANDIN_BEND", m->bent, 1);
    if (!fixture_path(folder, sizeof folder, program)) exit(4);
    cuda_training_open(&t, folder, form, 2, &options);
    cuda_training_close(&t);
}

static void test_mutants(void) {
    char said[2000];
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        const mutant *m = &mutants[i];
        int how = cuda_standin_listen(train_mutant, (void *)(uintptr_t)m, said, sizeof said);
        check(WIFSIGNALED(how) && strstr(said, m->words), "a device %s%s ends with %x: %s",
              m->lost    ? "without "
              : m->early ? "without an end behind "
                         : "with ",
              m->lost    ? m->lost
              : m->early ? m->early
                         : m->bent,
              (unsigned)how, said);
    }
}

/* --- devices that do not ------------------------------------------------------------------------------------------ */

/* Where NCCL gives a rank no memory once, nothing is registered; where it has no windows, each member registers. */
static void test_bits(const char *folder) {
    static const struct {
        const char *failing;
        bool has_windows;
    } ways[] = {{"memalloc:1", true}, {NULL, true}, {NULL, false}};
    cuda_training t[3];
    int n[2] = {0, 0};
    for (int i = 0; i < 3; i++) {
        if (ways[i].failing) setenv("WEFT_STANDIN_FAIL", ways[i].failing, 1);
        set_windows(ways[i].has_windows);
        cuda_training_open(&t[i], folder, form, 2, &options);
        unsetenv("WEFT_STANDIN_FAIL");
        bool adds_windows = cuda_standin_registered(true) > n[1], adds_others = cuda_standin_registered(false) > n[0];
        check(!t[i].status, "way %d: %s", i, weft_status_message(t[i].status));
        check(adds_windows == (i == 1) && adds_others == (i == 2), "way %d registers %s", i,
              adds_windows  ? "windows"
              : adds_others ? "without windows"
                            : "nothing");
        for (int k = 0; k < 2; k++) n[k] = cuda_standin_registered(k);
    }
    for (int i = 1; i < 3; i++) check(cuda_training_same_result(&t[0], &t[i]), "way %d has other bits", i);
    for (int i = 0; i < 3; i++) cuda_training_close(&t[i]);
    set_windows(true);
}

int main(void) {
    char what[2500], folder[TRAINING_PATH];
    if (cuda_standin_is_left_out() || !rules_open() || !fixture_path(folder, sizeof folder, program)) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check(rule_holds(&rules[i], what, sizeof what), "%s", what);
    test_mutants();
    test_bits(folder);
    return report_checks();
}
