/* plugin_file.c: where plugins lie. */
#include "executor/plugin_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_file(plugin_search *s, const char *path) {
    snprintf(s->path, sizeof s->path, "%.399s", path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: threads and handlers of libraries stay */
    if (!library) {
        const char *why = dlerror();
        snprintf(s->why, sizeof s->why, "%.500s", why ? why : path);
        return;
    }
    union { /* ISO C has no cast from an object to a function */
        void *object;
        const void *(*call)(void);
    } symbol = {dlsym(library, s->symbol)};
    s->found = symbol.object ? symbol.call() : NULL;
    if (!s->found) snprintf(s->why, sizeof s->why, "%.500s: no plugin of Weft", path);
}

static void look_in(plugin_search *s, const char *folder, size_t length, const char *below) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%.*s%s/%s", (int)length, folder, below, s->file_name);
    if (s->was_there || !length || n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0) return;
    s->was_there = true;
    open_file(s, path);
}

static void look_beside(plugin_search *s, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return;
    look_in(s, path, (size_t)(slash - path), "");
    look_in(s, path, (size_t)(slash - path), "/../lib/weft");
    look_in(s, path, (size_t)(slash - path), "/weft");
}

void plugin_search_run(plugin_search *s) {
    static const char here = 0;
    const char *folders = getenv("WEFT_PLUGIN_PATH");
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        look_in(s, folders, length, "");
        folders += length + (folders[length] == ':');
    }
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    look_beside(s, program);
    Dl_info info;
    if (dladdr(&here, &info) && info.dli_fname) look_beside(s, info.dli_fname);
    if (!s->was_there)
        snprintf(s->why, sizeof s->why, "no %s beside the program, nor in WEFT_PLUGIN_PATH", s->file_name);
}

void plugin_search_differs(plugin_search *s, unsigned abi, int expected_abi, const char *version) {
    s->found = NULL;
    snprintf(s->why, sizeof s->why, "%.399s: built with Weft %.40s (ABI %u), this is %s (ABI %d)", s->path,
             abi == (unsigned)expected_abi ? version : "?", abi, WEFT_VERSION, expected_abi);
}
