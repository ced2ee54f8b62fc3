/* launch.c: starts the processes of a run with mpirun, and ends with the worst of their exit statuses.
 *
 * mpirun stays our child: signals are passed on, and if we are killed, it is told so and ends its processes. */
#include "cli/launch.h"
#include "cli/run_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weft/info.h"

static volatile sig_atomic_t child, is_open_mpi_child, was_asked; /* what the signal handler needs */

/* --- mpirun ------------------------------------------------------------------------------------------------------- */

typedef struct words {
    char **items;
    size_t count, capacity;
    bool failed;
} words;

static void add(words *w, const char *word) {
    if (w->count + 2 > w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 64;
        char **items = realloc(w->items, capacity * sizeof *items);
        if (!items) {
            w->failed = true;
            return;
        }
        w->items = items;
        w->capacity = capacity;
    }
    w->items[w->count] = strdup(word);
    w->failed = w->failed || !w->items[w->count];
    w->items[++w->count] = NULL;
}

static void words_fini(words *w) {
    for (size_t i = 0; i < w->count; i++) free(w->items[i]);
    free(w->items);
}

static weft_feature mpi_feature(void) {
    size_t i = 0;
    while (strcmp(weft_feature_at(i).name, "MPI") != 0) i++;
    return weft_feature_at(i);
}

static bool in_path(const char *name) {
    char file[4096];
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, name);
        if (access(file, X_OK) == 0) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static const char *find_launcher(bool is_open_mpi) {
    static const char *const open_mpi[] = {"mpirun.openmpi", "mpirun", "mpiexec", NULL};
    static const char *const others[] = {"mpiexec.hydra", "mpirun.mpich", "mpiexec", "mpirun", NULL};
    const char *const *names = is_open_mpi ? open_mpi : others;
    while (*names && !in_path(*names)) names++;
    return *names;
}

/* Variables that processes on other hosts need; on this one they inherit all. */
static void pass_environment(words *w) {
    static const char *const names[] = {"PATH", "LD_LIBRARY_PATH", "WEFT_PLUGIN_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!getenv(names[i])) continue;
        add(w, "-x");
        add(w, names[i]);
    }
}

/* More processes than this machine has cores: who waits gives its core away. */
static bool is_crowded(const cli_args *args, int nprocesses) {
    return !cli_given(args, "--hosts") && nprocesses > sysconf(_SC_NPROCESSORS_ONLN);
}

static void add_open_mpi(words *w, const cli_args *args, int nprocesses) {
    const char *hosts = cli_value(args, "--hosts"), *agent = cli_value(args, "--launch-agent");
    /* The timeout: between asking who is left behind a death to end, and ending them. */
    static const char *const always[] = {"--oversubscribe", "--bind-to", "none"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) add(w, always[i]);
    bool is_5 = atoi(mpi_feature().detail + strlen("Open MPI v")) >= 5; /* its launcher has other names */
    const char *own = is_5 ? "--prtemca" : "--mca";
    if (!is_5) add(w, "--quiet");
    add(w, own);
    add(w, "odls_base_sigkill_timeout");
    add(w, "0");
    if (is_5) { /* a kind of windows that no shared memory needs; it prints an error where it is not usable */
        add(w, "--mca");
        add(w, "osc");
        add(w, "^ucx");
    }
    if (geteuid() == 0) add(w, "--allow-run-as-root");
    if (is_crowded(args, nprocesses)) {
        add(w, "--mca");
        add(w, "mpi_yield_when_idle");
        add(w, "1");
    }
    if (agent) {
        add(w, own);
        add(w, is_5 ? "plm_ssh_agent" : "plm_rsh_agent");
        add(w, agent);
    }
    if (!hosts) return;
    add(w, "--host");
    add(w, hosts);
    /* A thread that the kernel wakes moves what comes over TCP: whoever polls beside computing comes too late. */
    add(w, "--mca");
    add(w, "btl_tcp_progress_thread");
    add(w, "1");
    pass_environment(w);
}

static void add_hydra(words *w, const cli_args *args) {
    const char *hosts = cli_value(args, "--hosts"), *agent = cli_value(args, "--launch-agent");
    add(w, "-disable-auto-cleanup"); /* else all die at once, and nobody knows who did first */
    if (agent) {
        add(w, "-launcher");
        add(w, "rsh");
        add(w, "-launcher-exec");
        add(w, agent);
    }
    if (!hosts) return;
    add(w, "-hosts");
    add(w, hosts);
}

/* This command line, without what was for the launcher. */
static void add_command(words *w, const cli_args *args, const char *program) {
    char option[4096];
    add(w, program);
    add(w, args->command->name);
    for (size_t i = 0; i < args->ngiven; i++) {
        bool takes_value = args->values[i][0] != '\0';
        if (launch_is_own_option(args->names[i])) continue;
        int n = snprintf(option, sizeof option, "%s%s%s", args->names[i], takes_value ? "=" : "", args->values[i]);
        w->failed = w->failed || n < 0 || (size_t)n >= sizeof option;
        add(w, option);
    }
    add(w, "--");
    for (size_t i = 0; i < args->npositional; i++) add(w, args->positional[i]);
}

/* Which MPI the plugin is of decides how its launcher is spoken to. */
static weft_status make_words(words *w, const cli_args *args, int nprocesses) {
    char program[4096], count[16];
    weft_feature mpi = mpi_feature();
    if (!mpi.found) return weft_status_create(WEFT_UNSUPPORTED, NULL, "--launch needs MPI: %s", mpi.detail);
    bool is_open_mpi = strncmp(mpi.detail, "Open MPI", 8) == 0;
    const char *launcher = find_launcher(is_open_mpi);
    if (!launcher) return weft_status_create(WEFT_NOT_FOUND, NULL, "--launch: no mpirun for %s in PATH", mpi.detail);
    is_open_mpi_child = is_open_mpi;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return weft_status_create(WEFT_IO, "/proc/self/exe", "cannot read: %s", strerror(errno));
    program[n] = '\0';
    add(w, launcher);
    if (is_open_mpi)
        add_open_mpi(w, args, nprocesses);
    else
        add_hydra(w, args);
    snprintf(count, sizeof count, "%d", nprocesses);
    add(w, "-n");
    add(w, count);
    add_command(w, args, program);
    return w->failed ? cli_no_memory() : NULL;
}

/* --- watching ----------------------------------------------------------------------------------------------------- */

/* Behind a death on this host the others have no more to say than they say at once. One that fails in its own words
 * gives the others a second for theirs, and mpirun ends who is left. If it does not, or not in time, we do. */
static const double last_words_seconds = 0.3, patience_seconds = 6;

/* SIGHUP is handed on as SIGTERM. What Open MPI is told to end with, it kills a second later. SIGUSR1 and SIGUSR2 it
 * only hands on, and runs take them for SIGINT and SIGTERM (run_stop.c): so the first one asks, and the second one
 * ends. */
static void pass_on(int number) {
    int number_there = number == SIGHUP ? SIGTERM : number;
    if (is_open_mpi_child && !was_asked) number_there = number == SIGINT ? SIGUSR1 : SIGUSR2;
    was_asked = 1;
    if (child > 0) kill((pid_t)child, number_there);
}

/* The keyboard's SIGINT reaches us alone. Who is in the background may not read the terminal. */
static void leave_terminal(void) {
    setpgid(0, 0);
    if (!isatty(STDIN_FILENO)) return;
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
}

typedef struct watch {
    const cli_args *args;
    weft_flights *flights;
    const char *launcher; /* mpirun's name */
    int nprocesses;
    int *processes;   /* a handle each, -1: not come yet, or elsewhere; -2: gone. Then mpirun's */
    int deaths;       /* the epoll of all handles: it tells of deaths in their order, as poll does not */
    double failed_at; /* the first failure; 0: none */
    bool has_died;    /* it was a death, or a process that has stopped for too long */
    double stop_limit, looked_at, *stopped; /* seconds: allowed; by process, how long it has been stopped */
    bool tells_late;
    double told_late_at, late_pause; /* when it was told last that somebody is late; the least time between two */
} watch;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of /proc: 'T' stopped, 'R' running, ... */
static char state_of(long pid) {
    char path[64], line[400], state = '?';
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    const char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (end) sscanf(end + 1, " %c", &state);
    if (file) fclose(file);
    return state;
}

static void say(const watch *w, int index, const weft_flight *f, const char *what) {
    fprintf(stderr, "weft %s: process %d (pid %ld on %s) %s: %s\n", w->args->command->name, index, f->pid, f->host,
            what, f->doing);
}

static void say_died(watch *w, int index) {
    weft_flight f;
    if (!weft_flights_get(w->flights, index, &f) || f.has_left) return;
    say(w, index, &f, "has died");
    w->failed_at = now();
    w->has_died = true;
}

/* False: it is gone already, and mpirun knows that. */
static bool watch_process(watch *w, int index, long pid) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    w->processes[index] = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U);
    if (w->processes[index] < 0) return errno != ESRCH;
    epoll_ctl(w->deaths, EPOLL_CTL_ADD, w->processes[index], &event);
    return true;
}

/* Who is gone before we had a turn to see it died before those that we do see: mpirun ends them for it. Of several such
 * nobody knows the first, and all are named. */
static void find_processes(watch *w) {
    char host[64] = "";
    weft_flight f;
    bool had_failed = w->failed_at > 0;
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < w->nprocesses; i++) {
        if (w->processes[i] != -1 || !weft_flights_get(w->flights, i, &f)) continue;
        bool is_gone = strcmp(f.host, host) == 0 && !watch_process(w, i, f.pid);
        if (is_gone) w->processes[i] = -2;
        if (is_gone && !had_failed) say_died(w, i);
        weft_flights_set_seen(w->flights, i);
    }
}

/* Others wait too long: who has stopped is named. */
static void look_for_stopped(const watch *w) {
    weft_flight f;
    for (int i = 0; i < w->nprocesses; i++)
        if (w->processes[i] >= 0 && weft_flights_get(w->flights, i, &f) && state_of(f.pid) == 'T')
            say(w, i, &f, "is stopped");
}

/* One has gone. The first one to die is named; those after it mpirun ends. */
static void look_at_gone(watch *w, int index) {
    if (!w->failed_at) say_died(w, index);
    close(w->processes[index]);
    w->processes[index] = -2;
}

static void look_at_failed(watch *w) {
    weft_flight f;
    for (int i = 0; i < w->nprocesses && !w->failed_at; i++) {
        if (w->processes[i] == -1 || !weft_flights_get(w->flights, i, &f)) continue;
        if (!f.has_left || !f.exit_status || f.exit_status >= 128) continue; /* 128: by a signal, in good order */
        look_for_stopped(w);
        w->failed_at = now();
    }
}

/* Who waits for a process that is stopped finds that out by its watchdog, but nobody may wait for a long time. A run
 * that is stopped as a whole was stopped on purpose. */
static void look_at_stopped(watch *w) {
    weft_flight f;
    int nhere = 0, nstopped = 0, longest = 0;
    double time = now(), passed = time - w->looked_at;
    if (passed < 0.5) return;
    w->looked_at = time;
    for (int i = 0; i < w->nprocesses; i++) {
        if (w->processes[i] < 0 || !weft_flights_get(w->flights, i, &f)) continue;
        bool is_stopped = state_of(f.pid) == 'T';
        nhere++;
        nstopped += is_stopped;
        w->stopped[i] = is_stopped ? w->stopped[i] + (passed < 1 ? passed : 1) : 0; /* more: we were stopped too */
        if (w->stopped[i] > w->stopped[longest]) longest = i;
    }
    if (nstopped == nhere || w->stopped[longest] < w->stop_limit) return;
    look_for_stopped(w);
    w->failed_at = time;
    w->has_died = true;
}

/* Somebody waits longer than usual for another: told more and more rarely, and not into a report that is JSON. */
static void look_at_late(watch *w) {
    char text[900];
    double time = now();
    if (w->failed_at || time < w->told_late_at + w->late_pause || !weft_flights_late(w->flights, text, sizeof text))
        return;
    w->told_late_at = time;
    w->late_pause = w->late_pause < 1 ? 1 : w->late_pause < 60 ? 2 * w->late_pause : w->late_pause;
    fprintf(stderr, "weft %s: note: %s\n", w->args->command->name, text);
    look_for_stopped(w);
}

/* Whoever comes waits until it is seen. */
static bool have_come(const watch *w) {
    for (int i = 0; i < w->nprocesses; i++)
        if (w->processes[i] == -1) return false;
    return true;
}

static void look_at_processes(watch *w, bool is_last) {
    struct epoll_event events[16];
    int n = epoll_wait(w->deaths, events, sizeof events / sizeof *events, is_last ? 0 : have_come(w) ? 50 : 5);
    for (int i = 0; i < n; i++)
        if (events[i].data.u32 < (uint32_t)w->nprocesses) look_at_gone(w, (int)events[i].data.u32);
    look_at_failed(w);
    if (w->stop_limit > 0 && !w->failed_at) look_at_stopped(w);
    if (w->tells_late) look_at_late(w);
}

static void kill_all(const watch *w) {
    weft_flight f;
    for (int i = 0; i < w->nprocesses; i++)
        if (w->processes[i] >= 0 && weft_flights_get(w->flights, i, &f))
            syscall(SYS_pidfd_send_signal, w->processes[i], SIGKILL, NULL, 0U);
}

/* mpirun stays as long as it can: it takes away what it has made. Hydra, which was told to leave the others alone, is
 * asked to end those of other hosts too. */
static void end_others(watch *w) {
    double seconds = now() - w->failed_at;
    if (seconds > patience_seconds) kill((pid_t)child, SIGKILL);
    if (seconds < (w->has_died ? last_words_seconds : patience_seconds)) return;
    kill_all(w);
    if (w->has_died && !is_open_mpi_child && !was_asked) kill((pid_t)child, SIGTERM);
    was_asked = 1;
}

/* --- what the dead have left -------------------------------------------------------------------------------------- */

/* Files that a process was writing are called "NAME.PID-N.tmp" (base/file.c). The pattern has '*' for {rank} and such.
 */
static void make_pattern(const char *name, long pid, char *out, size_t nbytes) {
    size_t n = 0;
    for (const char *at = name; *at && n + 40 < nbytes; at++) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (strchr("*?[]\\", *at)) out[n++] = '\\';
        out[n++] = end ? '*' : *at;
        if (end) at = end;
    }
    snprintf(out + n, nbytes - n, ".%ld-*.tmp", pid);
}

static void remove_half_written(const watch *w, int index) {
    char pattern[4096];
    weft_flight f;
    if (!weft_flights_get(w->flights, index, &f)) return;
    for (size_t i = 0; i < w->args->ngiven; i++) {
        glob_t found = {.gl_pathc = 0};
        if (!w->args->values[i][0]) continue;
        make_pattern(w->args->values[i], f.pid, pattern, sizeof pattern);
        size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
        for (size_t k = 0; k < n; k++) unlink(found.gl_pathv[k]);
        globfree(&found);
    }
}

/* Where it cannot start processes on other hosts, mpirun says nothing in words, or too many. */
static void say_nobody_came(const watch *w, int result) {
    const char *hosts = cli_value(w->args, "--hosts"), *agent = cli_value(w->args, "--launch-agent");
    for (int i = 0; i < w->nprocesses; i++)
        if (w->processes[i] != -1) return;
    if (!result || was_asked) return;
    fprintf(stderr, "weft %s: %s ended with exit status %d, and no process of this host had begun%s%s%s%s\n",
            w->args->command->name, w->launcher, result, hosts ? "; those of --hosts " : "", hosts ? hosts : "",
            hosts ? " are started by " : "",
            !hosts  ? ""
            : agent ? agent
                    : "ssh");
}

static int wait_for_all(watch *w) {
    int status = 0, own = w->nprocesses;
    bool has_ended = false;
    for (int i = 0; i < w->nprocesses; i++) w->processes[i] = -1;
    watch_process(w, own, child);
    while (!has_ended) { /* who died before mpirun ended is looked at behind its end */
        pid_t ended = waitpid((pid_t)child, &status, WNOHANG);
        has_ended = ended == (pid_t)child || (ended < 0 && errno != EINTR);
        find_processes(w);
        look_at_processes(w, has_ended);
        if (w->failed_at && !has_ended) end_others(w);
    }
    int result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    say_nobody_came(w, result);
    kill_all(w); /* whoever mpirun has left */
    for (int i = 0; i < w->nprocesses && w->failed_at > 0; i++) remove_half_written(w, i);
    for (int i = 0; i <= own; i++)
        if (w->processes[i] >= 0) close(w->processes[i]);
    return result;
}

/* --- the child ---------------------------------------------------------------------------------------------------- */

static void become(const words *w, char *variable, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    putenv(variable);
    leave_terminal();
    if (getppid() == parent) execvp(w->items[0], w->items);
    _exit(127);
}

static weft_status start(const words *w, const weft_flights *flights) {
    char variable[200];
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP};
    weft_flights_variable(flights, variable, sizeof variable);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(w, variable, parent);
    if (pid < 0) return weft_status_create(WEFT_IO, w->items[0], "cannot start: %s", strerror(errno));
    child = (sig_atomic_t)pid;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) stop_catch(passed[i], pass_on);
    return NULL;
}

static const double first_step_seconds = 300; /* executor.h */

/* As the watchdog's in the first step, its longest: it may wait longer than in any step that it has seen. */
static double stop_limit_of(const cli_args *args) {
    double least, first;
    if (cli_given(args, "--no-watchdog") || !run_read_watchdog(args, &least, &first)) return 0;
    return first > 0 ? first : least > first_step_seconds ? least : first_step_seconds;
}

int launch(const cli_args *args, int nprocesses) {
    words w = {.items = NULL};
    weft_flights *flights = NULL;
    watch all = {.args = args,
                 .nprocesses = nprocesses,
                 .deaths = epoll_create1(EPOLL_CLOEXEC),
                 .tells_late = !cli_given(args, "--json"),
                 .stop_limit = stop_limit_of(args)};
    all.processes = calloc((size_t)nprocesses + 1, sizeof *all.processes);
    all.stopped = calloc((size_t)nprocesses + 1, sizeof *all.stopped);
    weft_status status = all.processes && all.stopped ? make_words(&w, args, nprocesses) : cli_no_memory();
    if (!status && all.deaths < 0) status = weft_status_create(WEFT_IO, NULL, "--launch: epoll: %s", strerror(errno));
    if (!status) status = weft_flights_create(nprocesses, &flights);
    if (!status) status = start(&w, flights);
    all.flights = flights;
    all.launcher = w.count ? w.items[0] : "";
    int result = status ? cli_fail(args, status) : wait_for_all(&all);
    weft_flights_destroy(flights);
    words_fini(&w);
    if (all.deaths >= 0) close(all.deaths);
    free(all.processes);
    free(all.stopped);
    return result;
}
