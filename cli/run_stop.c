/* run_stop.c: SIGINT and SIGTERM. The first one asks the run to stop behind the step at hand; the second ends the
 * process, once the file is whole that is being written; a third does not wait for that. In a run of several processes
 * launch.c hands them on as SIGUSR1 and SIGUSR2. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_parts.h"

static volatile sig_atomic_t asked, late, is_writing, is_quiet;

static void on_signal(int given) {
    int number = given == SIGUSR1 ? SIGINT : given == SIGUSR2 ? SIGTERM : given;
    static const char note[] = "\nstopping when the step has ended; once more to stop at once\n";
    if (!asked) {
        asked = number;
        if (!is_quiet) (void)!write(STDERR_FILENO, note, sizeof note - 1);
    } else if (is_writing && !late) {
        late = number;
    } else {
        _exit(128 + number);
    }
}

void stop_watch(bool is_launched, bool speaks) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    is_quiet = !speaks;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < (is_launched ? 4 : 2); i++) sigaction(numbers[i], &action, NULL);
}

int stop_asked(void) {
    return asked;
}

const char *stop_name(void) {
    return asked == SIGINT ? "SIGINT" : asked ? "SIGTERM" : "a signal to another process";
}

void stop_hold(bool writes) {
    is_writing = writes;
    if (!writes && late) _exit(128 + late);
}
