/* launch_wanted.c: whether this process is to start the others: by its options, or by what has started it. */
#include "cli/launch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const own_options[] = {"--launch", "--processes", "--hosts", "--launch-agent"};

bool launch_is_own_option(const char *name) {
    for (size_t i = 0; i < sizeof own_options / sizeof *own_options; i++)
        if (strcmp(name, own_options[i]) == 0) return true;
    return false;
}

/* --- the environment ---------------------------------------------------------------------------------------------- */

/* WEFT_LAUNCH: "mpi", or "mpi:T" with T ranks a process; *out_each 0: it is not set. False: neither, which is told. */
static bool read_environment(const cli_args *args, long long *out_each) {
    const char *given = getenv("WEFT_LAUNCH");
    *out_each = given && *given;
    if (!*out_each || strcmp(given, "mpi") == 0) return true;
    if (strncmp(given, "mpi:", 4) == 0 && cli_read_int(given + 4, 1, INT_MAX, out_each)) return true;
    cli_usage_error(args->command, "WEFT_LAUNCH: expected mpi or mpi:RANKS (of a process), found \"%s\"", given);
    return false;
}

/* What torchrun says to each process that it starts (torch/distributed/run.py, "Environment Variables"). */
typedef struct torchrun {
    long long index, count, nhere; /* of all hosts; of this one */
} torchrun;

static bool read_count(const char *name, long long *out) {
    const char *given = getenv(name);
    return given && cli_read_int(given, 0, INT_MAX, out);
}

/* False: another kind of launcher, or none. RANK and WORLD_SIZE alone do not tell: cluster managers set them too. */
static bool read_torchrun(torchrun *out) {
    long long local;
    if (!read_count("RANK", &out->index) || !read_count("WORLD_SIZE", &out->count) || !read_count("LOCAL_RANK", &local))
        return false;
    if (!read_count("LOCAL_WORLD_SIZE", &out->nhere)) out->nhere = out->count;
    return out->count > 1 && out->index < out->count;
}

bool launch_is_elsewhere(void) {
    torchrun t;
    return !weft_processes_launched() && read_torchrun(&t) && t.index > 0;
}

/* --- hosts -------------------------------------------------------------------------------------------------------- */

/* NAME or NAME:COUNT; *out_count 0: it has none. An address of IPv6 has colons of its own within brackets. */
static bool read_host(const char *text, size_t nbytes, long long *out_count) {
    char count[16] = "";
    const char *colon = memrchr(text, ':', nbytes);
    *out_count = 0;
    if (memchr(text, ' ', nbytes)) return false;
    if (!colon || text[nbytes - 1] == ']') return nbytes > 0;
    snprintf(count, sizeof count, "%.*s", (int)(text + nbytes - colon) - 1, colon + 1);
    return colon > text && cli_read_int(count, 1, INT_MAX, out_count);
}

/* What has no meaning, or no effect, with or without --hosts. */
static bool hosts_make_sense(const cli_args *args) {
    bool has_hosts = cli_given(args, "--hosts");
    if (cli_given(args, "--launch-agent") && !has_hosts) {
        cli_usage_error(args->command, "--launch-agent: expected --hosts");
        return false;
    }
    for (size_t i = 0; has_hosts && i < args->npositional; i++) {
        if (strcmp(args->positional[i], "-") != 0) continue;
        cli_usage_error(args->command,
                        "--hosts: expected a program in a file, which other hosts can read, found \"-\"");
        return false;
    }
    return true;
}

/* A host without a count has room for any number. */
static bool hosts_fit(const cli_args *args, int nprocesses) {
    const char *at = cli_value(args, "--hosts");
    long long room = 0, count;
    bool is_open = false, is_last = !at;
    while (!is_last) {
        size_t nbytes = strcspn(at, ",");
        if (!read_host(at, nbytes, &count)) {
            cli_usage_error(args->command, "--hosts: expected NAME:PROCESSES,..., found \"%.*s\"", (int)nbytes, at);
            return false;
        }
        is_open = is_open || count == 0;
        room += count;
        is_last = at[nbytes] == '\0';
        at += nbytes + 1;
    }
    if (!cli_given(args, "--hosts") || is_open || room >= nprocesses) return true;
    cli_usage_error(args->command, "--hosts has room for %lld process%s, and the run has %d: --processes says how many",
                    room, room == 1 ? "" : "es", nprocesses);
    return false;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static bool torchrun_fits(const cli_args *args, const torchrun *t, int nranks) {
    if (t->count > nranks && !cli_given(args, "--processes")) {
        cli_usage_error(args->command,
                        "torchrun has started %lld processes (WORLD_SIZE), and the program is run on %d rank%s",
                        t->count, nranks, nranks == 1 ? "" : "s");
        return false;
    }
    if (t->nhere == t->count || cli_given(args, "--hosts")) return true;
    cli_usage_error(
        args->command,
        "torchrun has started %lld of %lld processes on this host (LOCAL_WORLD_SIZE): expected --hosts, by which "
        "process 0 starts those of other hosts",
        t->nhere, t->count);
    return false;
}

bool launch_wanted(const cli_args *args, int nranks, int *out_nprocesses) {
    long long each;
    torchrun t;
    *out_nprocesses = 0;
    if (weft_processes_launched()) return false;
    bool by_torchrun = read_torchrun(&t), is_asked = cli_given(args, "--launch") || by_torchrun;
    if (!read_environment(args, &each)) *out_nprocesses = -1;
    bool by_environment = each > 0;
    long long nprocesses = by_torchrun ? t.count : by_environment ? (nranks + each - 1) / each : nranks;
    for (size_t i = 1; i < sizeof own_options / sizeof *own_options; i++) {
        if (is_asked || by_environment || !cli_given(args, own_options[i])) continue;
        cli_usage_error(args->command, "%s: expected --launch", own_options[i]);
        *out_nprocesses = -1;
    }
    if (by_torchrun && !torchrun_fits(args, &t, nranks)) *out_nprocesses = -1;
    if (*out_nprocesses == 0 && !cli_int(args, "--processes", 1, nranks, &nprocesses)) *out_nprocesses = -1;
    if (*out_nprocesses < 0 || !(is_asked || (by_environment && nprocesses > 1))) return false;
    bool fits = hosts_make_sense(args) && hosts_fit(args, (int)nprocesses);
    *out_nprocesses = fits ? (int)nprocesses : -1;
    return fits;
}
