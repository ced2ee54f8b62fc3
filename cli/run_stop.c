/* run_stop.c: SIGINT and SIGTERM. The first one asks the run to stop behind the step at hand; the second ends the
 * process, once the file is whole that is being written; a third does not wait for that. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_parts.h"

static volatile sig_atomic_t asked, late, is_writing;

static void on_signal(int number) {
    static const char note[] = "\nstopping when the step has ended; once more to stop at once\n";
    if (!asked) {
        asked = number;
        (void)!write(STDERR_FILENO, note, sizeof note - 1);
    } else if (is_writing && !late) {
        late = number;
    } else {
        _exit(128 + number);
    }
}

void stop_watch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int stop_asked(void) {
    return asked;
}

const char *stop_name(void) {
    return asked == SIGINT ? "SIGINT" : "SIGTERM";
}

void stop_hold(bool writes) {
    is_writing = writes;
    if (!writes && late) _exit(128 + late);
}
