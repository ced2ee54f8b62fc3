/* cuda_mutants.c: devices that break a rule of a library of NVIDIA's while they train: the stand-ins find each.
 * Lost waits are in cuda_lost_waits.c, registered memory in cuda_registered.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

/* What the device forgets, or does otherwise (WEFT_STANDIN_LOSE, _BEND); with what else in the environment. %d: some
 * call of a few. */
typedef struct mutant {
    const char *lost, *bent, *words;
    const char *variable, *value;
    const char *rings;
    bool is_serial, convolves; /* a program for one rank; one with convolutions */
} mutant;

static const mutant mutants[] = {
    {.lost = "record:1", .words = "waits for an event that was never recorded"},
    {.lost = "eventdestroy:1", .words = "1 events left at the end"},
    {.lost = "streamdestroy:1", .words = "1 streams left at the end"},
    {.lost = "free:1", .words = "1 blocks of memory left at the end"},
    {.lost = "unload:1", .words = "1 libraries left at the end"},
    {.lost = "graphdestroy:1", .words = "1 graphs left at the end", .is_serial = true},
    {.lost = "attributes:0", .words = " is loaded while streams run"},
    {.lost = "groupstart:1", .words = "ncclGroupEnd without ncclGroupStart"},
    {.lost = "groupend:1", .words = "within a group"},
    {.bent = "eventquery.early:%d", .words = "an event is destroyed before it is done", .is_serial = true},
    {.lost = "eventdestroy:0",
     .bent = "eventquery.early:%d",
     .words = "a stream is destroyed that has work",
     .is_serial = true},
    {.bent = "groupend.waits:1", .words = "cudaStreamSynchronize within a group"},
    {.bent = "groupend.destroys:1",
     .words = "a communicator is destroyed that has work",
     .variable = "WEFT_STANDIN_FAIL",
     .value = "memalloc:1"},
    {.lost = "execdestroy:1",
     .words = "destroyed before graphs that have its collectives",
     .variable = "WEFT_STANDIN_FAIL",
     .value = "memalloc:1"},
    {.bent = "memcpy.legacy:1", .words = "the legacy stream"},
    {.bent = "stream.blocking:1", .words = "a stream that waits for the legacy stream"},
    {.bent = "load.other:1", .words = "expected a fatbin"},
    {.bent = "setdevice.next:3",
     .words = " on GPU 1 beside GPU 0",
     .variable = "WEFT_STANDIN_ONE_GPU",
     .value = "1",
     .rings = "loopback"},
    {.bent = "init.raw:1", .words = "a config that was not initialised"},
    {.words = "NCCL_LAUNCH_ORDER_IMPLICIT is 0", .variable = "NCCL_LAUNCH_ORDER_IMPLICIT", .value = "0"},
    {.bent = "malloc.gone:1", .words = "touches memory that was freed", .is_serial = true},
    {.bent = "malloc.less:1", .words = "bytes beyond a block of"},
    {.bent = "capture.waits:1", .words = "cudaStreamSynchronize while this thread captures"},
    {.bent = "capture.takes:1", .words = "cudaMalloc while this thread captures"},
    {.bent = "endcapture.elsewhere:1", .words = "another thread ends a capture"},
    {.bent = "record.asks:1", .words = "cudaEventQuery of an event that a capture has"},
    {.bent = "collective.more:1", .words = "ranks do not launch the same collective"},
    {.bent = "collective.beside:1", .words = "two threads use a communicator at once"},
    {.bent = "capture.global:1", .words = "a capture that other threads disturb"},
    {.bent = "capture.again:1", .words = "a capture of a stream or a graph in use"},
    {.bent = "endcapture.again:1", .words = "the end of a capture on a stream where none began"},
    {.bent = "graphlaunch.captures:1", .words = "a graph is launched on a stream that captures"},
    {.bent = "streamdestroy.captures:1", .words = "a stream is destroyed that captures"},
    {.bent = "wait.external:1", .words = "cudaStreamWaitEvent: flags"},
    {.bent = "free.again:1", .words = "memory is freed that is not there"},
    {.bent = "setdevice.first:0", .words = "Duplicate GPU detected"},
    {.bent = "init.blocks:1", .words = "a blocking communicator"},
    {.bent = "asyncerror.early:%d", .words = "a split of a communicator that is not complete"},
    {.bent = "window.plain:1", .words = "a window that is not symmetric"},
    {.bent = "destroy.again:1", .words = "a communicator ends twice"},
    {.lost = "destroy:4", .words = "1 communicators left at the end"},
    {.bent = "preference.any:1", .words = "a product whose sum has no order"},
    {.bent = "product.aside:1", .words = "a product's first factor is not aligned"},
    {.bent = "product.workspace:1", .words = "a product's workspace is not aligned"},
    {.bent = "convolution.any:1", .words = "a convolution whose sum has no order", .convolves = true},
    {.bent = "convolution.rounds:1", .words = "a convolution that rounds its factors", .convolves = true},
    {.bent = "convolution.aside:1", .words = "a convolution's workspace is not aligned", .convolves = true},
    {.bent = "convolution.beside:1", .words = "whose stream another thread set", .convolves = true},
    {.bent = "dnnstream.beside:1", .words = "two threads set the stream of a handle", .convolves = true},
    {.lost = "descriptorgone:1", .words = "1 descriptors left at the end", .convolves = true},
    {.lost = "dnngone:1", .words = "1 handles of cuDNN left at the end", .convolves = true},
    {.bent = "wait.joins:1", .words = "captures that are joined"},
    {.bent = "wait.busy:1", .words = "a stream joins a capture while it has work"},
    {.bent = "wait.outer:1", .words = "a stream that captures waits for an event that was not captured"},
    {.bent = "wait.leaves:0", .words = "the capture ends before a stream is joined"},
    {.bent = "endcapture.waits:1", .words = "a wait for an event that a capture has, which has ended"},
    {.bent = "edges.less:1", .words = "cudaGraphGetEdges: no room"},
    {.bent = "edges.plain:0,wait.early:%d", .words = "cudaGraphGetEdges: edges without what they are"},
    {.bent = "init.more:1", .words = "a communicator of "},
    {.bent = "init.first:0", .words = "rank 0 joins twice"},
    {.bent = "split.again:1", .words = "a split before the one at hand is complete"},
    {.bent = "window.again:1", .words = "a window before the one at hand is there"},
    {.words = "a collective on a communicator that has ended",
     .variable = "WEFT_STANDIN_EARLY",
     .value = "collective:1"},
    {.lost = "execdestroy:0",
     .words = "ncclCommAbort waits for graphs that have its collectives",
     .variable = "WEFT_STANDIN_FAIL",
     .value = "graphlaunch:1"},
    {.bent = "memset.frees:1", .words = "memory is freed while cudaMemsetAsync on stream ", .is_serial = true},
    {.lost = "lasterror:0", .words = " finds the error of a call before: device not ready"},
};

static int tried; /* of those calls */

static const char *program_of(const mutant *m) {
    return m->convolves ? "paddle3/lenet_momentum_dp2" : "paddle26/mlp_sgd_dp2";
}

static void train_mutant(void *arg) {
    const mutant *m = arg;
    char folder[TRAINING_PATH], bent[60];
    cuda_training t;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda", .unsafe = true, .rings = m->rings};
    if (m->lost) setenv("WEFT_STANDIN_LOSE", m->lost, 1);
    snprintf(bent, sizeof bent, "%.*s", m->bent ? (int)strcspn(m->bent, "%") : 0, m->bent ? m->bent : "");
    if (m->bent && strchr(m->bent, '%')) snprintf(bent + strlen(bent), sizeof bent - strlen(bent), "%d", tried);
    setenv("WEFT_STANDIN_BEND", bent, 1);
    setenv("WEFT_STANDIN_PATIENCE_MS", "2000", 1);
    if (m->variable) setenv(m->variable, m->value, 1);
    if (!fixture_path(folder, sizeof folder, program_of(m))) exit(4);
    cuda_training_open(&t, folder, m->is_serial ? "%s/serial.pdmodel" : "%s/rank%d.after.default.pdmodel",
                       m->is_serial ? 1 : 2, &options);
    if (t.status) fprintf(stderr, "%s\n", weft_status_message(t.status));
    cuda_training_close(&t);
    exit(0);
}

static bool is_found(const mutant *m, int *out_how, char *said, size_t nbytes) {
    enum { MOST_CALLS = 60 };
    int most = m->bent && strchr(m->bent, '%') ? MOST_CALLS : 1;
    for (tried = 1; tried <= most; tried++) {
        *out_how = cuda_standin_listen(train_mutant, (void *)(uintptr_t)m, said, nbytes);
        if (WIFSIGNALED(*out_how) && strstr(said, m->words)) return true;
    }
    return false;
}

int main(void) {
    char said[2000], folder[TRAINING_PATH];
    if (cuda_standin_is_left_out() || !cuda_standin_prepare() ||
        !fixture_path(folder, sizeof folder, "paddle26/mlp_sgd_dp2")) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    static const mutant none = {.words = ""};
    bool has_dnn = cuda_standin_library("libcudnn.so.9") != NULL;
    int how = cuda_standin_listen(train_mutant, (void *)(uintptr_t)&none, said, sizeof said);
    check(WIFEXITED(how) && WEXITSTATUS(how) == 0, "a device that breaks no rule ends with %x: %s", (unsigned)how,
          said);
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        const mutant *m = &mutants[i];
        if (m->convolves && (!has_dnn || !fixture_path(folder, sizeof folder, program_of(m)))) continue;
        check(is_found(m, &how, said, sizeof said), "%s%s (%s) ends with %x: %s", m->lost ? "without " : "with ",
              m->lost   ? m->lost
              : m->bent ? m->bent
                        : m->variable,
              m->words, (unsigned)how, said);
    }
    return report_checks();
}
