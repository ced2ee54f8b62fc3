/* run_outputs.c: whether what a run is to leave can be written, before anything is computed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run_parts.h"

bool output_names_are_good(const cli_args *args) {
    const char *save = cli_value(args, "--save");
    if (!trace_name_is_good(args)) return false;
    if (save && !cli_ends_with(save, ".npz") && !cli_ends_with(save, ".pdiparams"))
        return cli_usage_error(args->command, "--save: expected F.npz or F.pdiparams, found \"%s\"", save), false;
    if (!save && cli_given(args, "--save-every"))
        return cli_usage_error(args->command, "--save-every: expected --save, which says where"), false;
    if (!cli_given(args, "--trace") && cli_given(args, "--trace-steps"))
        return cli_usage_error(args->command, "--trace-steps: expected --trace"), false;
    return true;
}

static weft_status refuse(const char *path, const char *why) {
    return weft_status_create(WEFT_IO, path, "cannot write there: %s", why);
}

/* What a file is written through: one beside it, which then takes its name. */
static weft_status try_beside(const char *path) {
    char *target = realpath(path, NULL), *name = NULL;
    const char *beside = target ? target : path;
    size_t room = strlen(beside) + 32;
    weft_status status = NULL;
    if ((name = malloc(room))) {
        snprintf(name, room, "%s.%ld.tmp", beside, (long)getpid());
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            status = refuse(path, strerror(errno));
        else
            close(fd), unlink(name);
    } else {
        status = cli_no_memory();
    }
    free(name);
    free(target);
    return status;
}

static weft_status check_output(const char *path) {
    struct stat found;
    if (!*path || strcmp(path, "-") == 0) return NULL;
    if (stat(path, &found) != 0) return try_beside(path);
    if (S_ISDIR(found.st_mode)) return refuse(path, "it is a folder");
    if (S_ISREG(found.st_mode)) return try_beside(path);
    return access(path, W_OK) == 0 ? NULL : refuse(path, strerror(errno));
}

static weft_status check_save(const char *path, int nranks) {
    weft_status status = NULL;
    char *of_step = path_with(path, "{step}", 0);
    int n = of_step && has_rank(of_step) ? nranks : 1;
    if (!of_step) return cli_no_memory();
    for (int rank = 0; !status && rank < n; rank++) {
        char *file = rank_path(of_step, rank);
        status = file ? check_output(file) : cli_no_memory();
        free(file);
    }
    free(of_step);
    return status;
}

weft_status check_outputs(const cli_args *args, int nranks) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--save") == 0) status = check_save(args->values[i], nranks);
        if (strcmp(args->names[i], "--trace") == 0 || strcmp(args->names[i], "--profile") == 0 ||
            strcmp(args->names[i], "--json") == 0)
            status = check_output(args->values[i]);
    }
    return status;
}
