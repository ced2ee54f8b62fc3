/* launch_stdin.c: a program on the launcher's stdin, which the processes that it starts do not have.
 *
 * It is kept in no file that could be left behind: an unnamed one of the launcher's, which processes of the same
 * machine open below its folder in /proc. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const variable = "WEFT_STDIN"; /* where it is kept */

static weft_status keep(const char *bytes, size_t nbytes) {
    char path[64];
    int file = (int)syscall(SYS_memfd_create, "weft", 1U /* closed in children */);
    if (file < 0 || !cli_write_all(file, bytes, nbytes))
        return weft_status_create(WEFT_IO, "stdin", "cannot keep it for other processes: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    return setenv(variable, path, 1) == 0 ? NULL : cli_no_memory();
}

weft_status launch_keep_stdin(const cli_args *args, weft_program *const *programs) {
    char *bytes;
    size_t nbytes, i = 0;
    while (i < args->npositional && strcmp(args->positional[i], "-") != 0) i++;
    if (i == args->npositional) return NULL;
    weft_status status = weft_program_print(programs[i], WEFT_FORM_YAML, &bytes, &nbytes);
    if (status) return status;
    status = keep(bytes, nbytes);
    weft_bytes_free(args->context, bytes, nbytes);
    return status;
}

void launch_take_stdin(void) {
    const char *path = getenv(variable);
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    dup2(file, STDIN_FILENO);
    close(file);
}
