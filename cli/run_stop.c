/* run_stop.c: SIGINT, SIGTERM and SIGHUP. The first one asks the run to stop behind the step at hand; the second ends
 * the process, once the file is whole that is being written; a third does not wait for that. In a run of several
 * processes launch.c hands them on as SIGUSR1 and SIGUSR2. */
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

void stop_catch(int number, void (*handler)(int)) {
    struct sigaction now, action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    bool is_ignored = sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    if (number != SIGHUP || !is_ignored) sigaction(number, &action, NULL);
}

void stop_watch(bool is_launched, bool speaks) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    is_quiet = !speaks;
    for (int i = 0; i < (is_launched ? 5 : 3); i++) stop_catch(numbers[i], on_signal);
}

int stop_asked(void) {
    return asked;
}

const char *stop_name(void) {
    return asked == SIGINT ? "SIGINT" : asked == SIGHUP ? "SIGHUP" : asked ? "SIGTERM" : "a signal to another process";
}

void stop_hold(bool writes) {
    is_writing = writes;
    if (!writes && late) _exit(128 + late);
}
