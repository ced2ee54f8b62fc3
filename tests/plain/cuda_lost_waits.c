/* cuda_lost_waits.c: a device that forgets a wait of the plan: the stand-ins find it, whichever it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { WATCHES_KERNELS = 0 }; /* the compiler serves the sanitizer (tests/standin/races.c) */
#else
enum { WATCHES_KERNELS = 1 };
#endif

typedef struct forgetting {
    int wait; /* the n-th */
    const char *folder, *form, *rings;
    bool no_graph;
} forgetting;

static void train_forgetting(void *arg) {
    const forgetting *f = arg;
    char number[20], folder[TRAINING_PATH];
    cuda_training t;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda", .unsafe = true,
                                     .no_graph = f->no_graph, .rings = f->rings};
    snprintf(number, sizeof number, "%d", f->wait);
    setenv("WEFT_STANDIN_DROP", number, 1);
    if (!fixture_path(folder, sizeof folder, f->folder)) exit(4);
    cuda_training_open(&t, folder, f->form, 2, &options);
    if (t.status) fprintf(stderr, "%s\n", weft_status_message(t.status));
    int result = t.status ? 3 : 0;
    cuda_training_close(&t);
    exit(result);
}

/* Each wait of the plan is there for a reason: lost, it leaves two accesses in no order, or a graph without an edge.
 * The two of a captured stream by which it begins and ends are nothing new where its instructions wait, and are waited
 * for. Of ranks in one graph so are those that put its launch behind streams that have nothing, and them behind it. */
static void try_forgetting(const char *folder, const char *form, const char *rings, bool no_graph) {
    static const char *const words[] = {"nothing orders", "the captured graph does not order",
                                        "a stream that captures waits for an event that was not captured",
                                        "the capture ends before a stream is joined"};
    enum { KINDS = sizeof words / sizeof *words };
    char said[2000];
    forgetting f = {1, folder, form, rings, no_graph};
    int nfound[KINDS] = {0}, nharmless = 0;
    for (;; f.wait++) {
        int how = cuda_standin_listen(train_forgetting, &f, said, sizeof said), kind = 0;
        if (!strstr(said, "a wait is lost")) break;
        while (kind < KINDS && !strstr(said, words[kind])) kind++;
        if (kind < KINDS) nfound[kind]++;
        bool is_harmless = kind == KINDS && WIFEXITED(how) && WEXITSTATUS(how) == 0;
        nharmless += is_harmless;
        check(kind < KINDS || is_harmless, "%s: wait %d is lost: ends with %x: %s", folder, f.wait, (unsigned)how,
              said);
    }
    check(nharmless <= (no_graph ? 0 : rings ? 8 : 4), "%s: %d lost waits were not found", folder, nharmless);
    check(nfound[0] >= 4 && (no_graph || nfound[1] >= 4), "%s: %d and %d lost waits were found", folder, nfound[0],
          nfound[1]);
}

int main(void) {
    if (!WATCHES_KERNELS || !cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (int no_graph = 0; no_graph < 2; no_graph++) {
        try_forgetting("paddle26/mlp_sgd_dp2", "%s/rank%d.after.default.pdmodel", NULL, no_graph);
        try_forgetting("paddle26/mlp_sgd_dp2", "%s/rank%d.after.default.pdmodel", "loopback", no_graph);
    }
    return report_checks();
}
