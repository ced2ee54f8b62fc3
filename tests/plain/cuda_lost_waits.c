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

enum { SLOTS = 16 /* more than the streams of two ranks */, SCHEDULES = 6 };

typedef struct forgetting {
    int slot, wait; /* of the stream of that slot the n-th */
    const char *folder, *form, *rings;
    bool no_graph;
} forgetting;

static void train_forgetting(void *arg) {
    const forgetting *f = arg;
    char number[20], folder[TRAINING_PATH];
    cuda_training t;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda", .unsafe = true,
                                     .no_graph = f->no_graph, .rings = f->rings};
    snprintf(number, sizeof number, "%d:%d", f->slot, f->wait);
    setenv("WEFT_STANDIN_DROP", number, 1);
    if (!fixture_path(folder, sizeof folder, f->folder)) exit(4);
    cuda_training_open(&t, folder, f->form, 2, &options);
    if (t.status) fprintf(stderr, "%s\n", weft_status_message(t.status));
    int result = t.status ? 3 : 0;
    cuda_training_close(&t);
    exit(result);
}

typedef enum finding { RACE, NO_EDGE, NOT_CAPTURED, NOT_JOINED, HARMLESS, NOT_LOST, FINDINGS } finding;

static finding try_once(const forgetting *f, int seed) {
    static const char *const words[] = {[RACE] = "nothing orders",
                                        [NO_EDGE] = "the captured graph does not order",
                                        [NOT_CAPTURED] =
                                            "a stream that captures waits for an event that was not captured",
                                        [NOT_JOINED] = "the capture ends before a stream is joined"};
    char said[2000], number[20];
    snprintf(number, sizeof number, "%d", seed);
    setenv("WEFT_STANDIN_SEED", number, 1);
    int how = cuda_standin_listen(train_forgetting, (void *)(uintptr_t)f, said, sizeof said);
    if (!strstr(said, "a wait is lost")) return NOT_LOST;
    for (int k = 0; k < HARMLESS; k++)
        if (strstr(said, words[k])) return (finding)k;
    check(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%s: wait %d of slot %d is lost: ends with %x: %s", f->folder,
          f->wait, f->slot, (unsigned)how, said);
    return HARMLESS;
}

/* A host that has seen an event end orders what it asks for next, wait or none. So a loss may show in some schedules
 * alone. */
static finding try_schedules(const forgetting *f) {
    finding found = HARMLESS;
    for (int seed = 1; seed <= SCHEDULES && found == HARMLESS; seed++) found = try_once(f, seed);
    return found;
}

/* Each wait of the plan is there for a reason: lost, it leaves two accesses in no order, or a graph without an edge.
 * The two of a captured stream by which it begins and ends are nothing new where its instructions wait, and are waited
 * for. Of ranks in one graph so are those that put its launch behind streams that have nothing, and them behind it. */
static void try_forgetting(const char *folder, const char *form, const char *rings, bool no_graph) {
    forgetting f = {0, 1, folder, form, rings, no_graph};
    int nfound[FINDINGS] = {0};
    while (f.slot < SLOTS) {
        finding found = try_schedules(&f);
        if (found == NOT_LOST) {
            f.slot++;
            f.wait = 1;
        } else {
            nfound[found]++;
            f.wait++;
        }
    }
    int nharmless = nfound[HARMLESS];
    check(nharmless <= (no_graph ? 0 : rings ? 8 : 4), "%s: %d lost waits were not found", folder, nharmless);
    check(nfound[RACE] >= 4 && (no_graph || nfound[NO_EDGE] >= 4), "%s: %d and %d lost waits were found", folder,
          nfound[RACE], nfound[NO_EDGE]);
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
