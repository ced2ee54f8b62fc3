/* run_profile.c: where a run's time went: --profile. */
#include <string.h>

#include "cli/run_parts.h"

enum { SHOWN_OPS = 20 }; /* on the terminal; a file has all */

static weft_status save_profile(const cli_args *args, const weft_trainer *trainer, const char *path, bool writes) {
    weft_profile_form form = cli_ends_with(path, ".csv")    ? WEFT_PROFILE_CSV
                             : cli_ends_with(path, ".json") ? WEFT_PROFILE_JSON
                                                            : WEFT_PROFILE_TEXT;
    char *bytes;
    size_t nbytes;
    weft_status status =
        weft_executor_profile(weft_trainer_executor(trainer), form, *path ? 0 : SHOWN_OPS, &bytes, &nbytes);
    if (status) return status;
    if (writes && *path) return cli_write_taken(args, path, bytes, nbytes);
    if (writes) fwrite(bytes, 1, nbytes, stderr);
    weft_bytes_free(args->context, bytes, nbytes);
    return NULL;
}

weft_status save_profiles(const cli_args *args, const weft_trainer *trainer, bool writes) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--profile") == 0) status = save_profile(args, trainer, args->values[i], writes);
    return status;
}
