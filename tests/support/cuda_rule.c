#include "tests/support/cuda_rule.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda_standin.h"

enum { NON_BLOCKING = 1, NO_TIMING = 2 };

void *rule_runtime, *rule_collectives, *rule_products, *rule_convolutions;

bool rules_open(void) {
    if (!cuda_standin_open()) return false;
    rule_runtime = cuda_standin_library("libcudart.so.13");
    rule_collectives = cuda_standin_library("libnccl.so.2");
    rule_products = cuda_standin_library("libcublasLt.so.13");
    rule_convolutions = cuda_standin_library("libcudnn.so.9");
    if (!rule_runtime || !rule_collectives || !rule_products) abort();
    return true;
}

rule_call *rule_find(void *library, const char *function) {
    union {
        void *object;
        rule_call *call;
    } symbol = {dlsym(library, function)};
    if (!symbol.object) _exit(9);
    return symbol.call;
}

void *rule_stream(void) {
    void *s = NULL;
    RUNTIME("cudaStreamCreateWithPriority", (void **, unsigned, int), &s, NON_BLOCKING, 0);
    return s;
}

void *rule_event(void) {
    void *e = NULL;
    RUNTIME("cudaEventCreateWithFlags", (void **, unsigned), &e, NO_TIMING);
    return e;
}

static void call(void *breaks) {
    (*(void (**)(void))breaks)();
}

int rule_break(void (*breaks)(void), char *said, size_t nbytes) {
    return cuda_standin_listen(call, &breaks, said, nbytes);
}

bool rule_holds(const rule *r, char *what, size_t nbytes) {
    char said[2000];
    int how = rule_break(r->breaks, said, sizeof said);
    snprintf(what, nbytes, "rule \"%s\": status %d: %s", r->words, how, said);
    return WIFSIGNALED(how) && strstr(said, r->words);
}
