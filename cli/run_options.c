/* run_options.c: options of weft run that are more than a number or a name. */
#include <string.h>

#include "cli/run_parts.h"
#include "cli/simulate.h"

bool run_read_watchdog(const cli_args *args, double *out_least, double *out_first) {
    const char *given = cli_value(args, "--watchdog");
    int end = 0;
    *out_least = *out_first = 0;
    if (!given) return true;
    bool good = sscanf(given, "%lf%n", out_least, &end) == 1 && *out_least > 0;
    if (good && given[end]) {
        int from = end;
        good = sscanf(given + from, ":%lf%n", out_first, &end) == 1 && *out_first > 0 && !given[from + end];
    }
    if (!good) cli_usage_error(args->command, "--watchdog: expected seconds, S or S:F, found \"%s\"", given);
    return good;
}

bool run_read_rings(const cli_args *args, run_rings *out) {
    const char *given = cli_value(args, "--rings");
    *out = (run_rings){0};
    if (!given) return true;
    size_t n = strcspn(given, ":");
    int end = 0;
    bool good = n > 0 && n < sizeof out->engine;
    if (good) memcpy(out->engine, given, n);
    if (good && given[n])
        good = sscanf(given + n, ":%lf%n", &out->gb_per_second, &end) == 1 && out->gb_per_second > 0 &&
               !given[n + (size_t)end] && strcmp(out->engine, "loopback") == 0;
    if (!good) cli_usage_error(args->command, "--rings: expected nccl, loopback or loopback:GB, found \"%s\"", given);
    return good;
}

bool run_read_check_finite(const cli_args *args, long long *out) {
    const char *given = cli_value(args, "--check-finite");
    *out = given != NULL;
    if (!given || !*given) return true;
    return cli_int(args, "--check-finite", 1, 1LL << 40, out);
}

bool run_read_collectives(const cli_args *args, weft_collectives *out) {
    static const char *const names[] = {[WEFT_COLLECTIVES_ORDERED] = "ordered", [WEFT_COLLECTIVES_LIBRARY] = "library"};
    const char *given = cli_value(args, "--collectives");
    *out = given && strcmp(given, "library") == 0 ? WEFT_COLLECTIVES_LIBRARY : WEFT_COLLECTIVES_ORDERED;
    if (!given || strcmp(given, names[*out]) == 0) return true;
    return cli_usage_error(args->command, "--collectives: expected ordered or library, found \"%s\"", given), false;
}

/* An option that was given and makes no sense on this device; NULL: none. */
static const char *find_misplaced(const cli_args *args, bool simulates) {
    static const char *const of_results[] = {"--save",    "--save-every",   "--expect",
                                             "--profile", "--check-finite", "--replan"};
    for (size_t i = 0; simulates && i < sizeof of_results / sizeof *of_results; i++)
        if (cli_given(args, of_results[i])) return of_results[i];
    for (size_t i = 0; !simulates && i < nsimulate_options; i++)
        if (cli_given(args, simulate_options[i].name)) return simulate_options[i].name;
    return NULL;
}

bool run_read_device(const cli_args *args, bool *out_simulates) {
    const char *device = cli_value(args, "--device");
    *out_simulates = device && strcmp(device, "null") == 0;
    if (device && !*out_simulates && strcmp(device, "cpu") != 0 && strcmp(device, "cuda") != 0)
        return cli_usage_error(args->command, "--device: expected cpu, cuda or null, found \"%s\"", device), false;
    const char *wrong = find_misplaced(args, *out_simulates);
    if (wrong)
        cli_usage_error(args->command,
                        *out_simulates ? "%s: the null device computes nothing" : "%s: expected --device null", wrong);
    return !wrong;
}
