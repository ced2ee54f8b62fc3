/* colour.c: colours of text on a terminal, and nowhere else unless --color says so. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static enum { AUTO, ALWAYS, NEVER } when;

bool cli_set_colour(const char *word) {
    static const char *const words[] = {[AUTO] = "auto", [ALWAYS] = "always", [NEVER] = "never"};
    for (int i = AUTO; i <= NEVER; i++)
        if (strcmp(word, words[i]) == 0) return when = (unsigned)i, true;
    return false;
}

static bool takes_colour(FILE *to) {
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (when != AUTO) return when == ALWAYS;
    return !(off && *off) && terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(to));
}

const char *cli_colour(FILE *to, colour c) {
    static const char *const codes[] = {
        [PLAIN] = "\033[0m", [RED] = "\033[1;31m",  [GREEN] = "\033[32m", [YELLOW] = "\033[33m",
        [BLUE] = "\033[34m", [PURPLE] = "\033[35m", [CYAN] = "\033[36m"};
    return takes_colour(to) ? codes[c] : "";
}
