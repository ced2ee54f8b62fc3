#include "tests/support/cuda_standin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/devices/plugin.h"

bool cuda_standin_is_left_out(void) {
    const char *asked = getenv("WEFT_TEST_GPU");
    return asked && *asked;
}

/* The stand-in is there already, opened by the plugin. */
void cuda_standin_seed(unsigned seed) {
    if (cuda_standin_is_left_out()) return;
    union {
        void *object;
        void (*call)(unsigned);
    } symbol = {NULL};
    void *library = cuda_standin_library("libcudart.so.13");
    if (library) symbol.object = dlsym(library, "standin_seed");
    if (!symbol.object) abort();
    symbol.call(seed);
}

int cuda_standin_launches(const char *which) {
    union {
        void *object;
        int (*call)(const char *);
    } symbol = {NULL};
    void *library = cuda_standin_library("libcudart.so.13");
    if (library) symbol.object = dlsym(library, "standin_launches");
    if (!symbol.object) abort();
    return symbol.call(which);
}

int cuda_standin_registered(bool is_window) {
    union {
        void *object;
        int (*call)(bool);
    } symbol = {NULL};
    void *library = cuda_standin_library("libnccl.so.2");
    if (library) symbol.object = dlsym(library, "standin_registered");
    if (!symbol.object) abort();
    return symbol.call(is_window);
}

bool cuda_standin_prepare(void) {
    char folder[PATH_MAX], path[PATH_MAX + 40];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 3; up++) { /* VARIANT/tests/KIND/NAME */
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
    }
    snprintf(path, sizeof path, "%s/weft_cuda.so", folder);
    if (access(path, R_OK) != 0) return false;
    setenv("WEFT_PLUGIN_PATH", folder, 1);
    snprintf(path, sizeof path, "%s/standin", folder);
    if (!cuda_standin_is_left_out()) setenv("WEFT_CUDA_PATH", path, 1);
    return true;
}

const device_engine *cuda_standin_open(void) {
    const char *why;
    if (!cuda_standin_prepare()) return NULL;
    const device_plugin *plugin = device_plugin_cuda(&why);
    if (plugin) return device_plugin_engine(plugin);
    fprintf(stderr, "%s\n", why);
    abort();
}

void *cuda_standin_library(const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("WEFT_CUDA_PATH"), file);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

int cuda_standin_listen(void (*work)(void *), void *arg, char *said, size_t nbytes) {
    int ends[2], how = 0;
    if (pipe(ends)) abort();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        alarm(60); /* what waits for ever has found nothing */
        work(arg);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t k;
    while ((k = read(ends[0], said + n, nbytes - 1 - n)) > 0) n += (size_t)k;
    said[n] = '\0';
    close(ends[0]);
    waitpid(child, &how, 0);
    return how;
}
