/* run_profile.c: what a run says of its time and memory: the line of the summary, and --profile. */
#include <string.h>

#include "cli/run.h"

enum { SHOWN_OPS = 20 }; /* on the terminal; a file has all */

void print_memory(const weft_trainer *trainer) {
    weft_plan_summary s;
    char persistent[32], temporary[32], live[32];
    weft_plan_summarize(weft_trainer_plan(trainer, 0), &s);
    fprintf(stderr,
            "summary: a rank has %s of parameters, state and feeds, and %s of temporaries, of which %s are live\n",
            cli_bytes((double)s.persistent_nbytes, persistent, sizeof persistent),
            cli_bytes((double)s.temporary_nbytes, temporary, sizeof temporary),
            cli_bytes((double)s.live_nbytes, live, sizeof live));
}

static weft_status save_profile(const cli_args *args, const weft_trainer *trainer, const char *path) {
    weft_profile_form form = cli_ends_with(path, ".csv")    ? WEFT_PROFILE_CSV
                             : cli_ends_with(path, ".json") ? WEFT_PROFILE_JSON
                                                            : WEFT_PROFILE_TEXT;
    char *bytes;
    size_t nbytes;
    weft_status status =
        weft_executor_profile(weft_trainer_executor(trainer), form, *path ? 0 : SHOWN_OPS, &bytes, &nbytes);
    if (status || *path) return status ? status : cli_write_taken(args, path, bytes, nbytes);
    fwrite(bytes, 1, nbytes, stderr);
    weft_bytes_free(args->context, bytes, nbytes);
    return NULL;
}

weft_status save_profiles(const cli_args *args, const weft_trainer *trainer) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--profile") == 0) status = save_profile(args, trainer, args->values[i]);
    return status;
}
