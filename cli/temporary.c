/* temporary.c: a file that one part of the command hands to another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

bool cli_write_all(int file, const char *bytes, size_t nbytes) {
    while (nbytes) {
        ssize_t n = write(file, bytes, nbytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes += n;
        nbytes -= (size_t)n;
    }
    return true;
}

weft_status cli_put_temporary(const char *bytes, size_t nbytes, char name[CLI_TEMPORARY_ROOM]) {
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    int length = snprintf(name, CLI_TEMPORARY_ROOM, "%s/weft-XXXXXX", folder), file = -1;
    if (length < CLI_TEMPORARY_ROOM) file = mkstemp(name);
    bool good = file >= 0 && cli_write_all(file, bytes, nbytes);
    int why = errno;
    if (file >= 0) close(file);
    if (good) return NULL;
    if (file >= 0) unlink(name);
    *name = '\0';
    return weft_status_create(WEFT_IO, folder, "cannot write a temporary file: %s", strerror(why));
}
