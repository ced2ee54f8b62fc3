/* summary.c: steps, plans, memory and overlap of a run. */
#include "cli/summary.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(summary *s) {
    qsort(s->seconds, s->nseconds, sizeof *s->seconds, by_value);
    return s->nseconds ? s->seconds[s->nseconds / 2] : 0;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void print_steps(summary *s) {
    char of[48] = "";
    if (s->nseconds < s->nsteps) snprintf(of, sizeof of, " of the last %zu", s->nseconds);
    fprintf(stderr, "summary: %zu step%s on %d rank%s, %.2f ms a step (median%s)\n", s->nsteps,
            s->nsteps == 1 ? "" : "s", s->nranks, s->nranks == 1 ? "" : "s", 1e3 * median(s), of);
}

static void print_shapes(const summary *s) {
    if (s->nplanned < 2) return;
    fprintf(stderr, "summary: feeds changed shape: planned %zu times, %zu plans kept, %zu gone\n", s->nplanned,
            s->nkept, s->ngone);
}

static void print_memory(const weft_plan *plan) {
    weft_plan_summary s;
    char persistent[32], temporary[32], live[32];
    weft_plan_summarize(plan, &s);
    fprintf(stderr,
            "summary: a rank has %s of parameters, state and feeds, and %s of temporaries, of which %s are live\n",
            cli_bytes((double)s.persistent_nbytes, persistent, sizeof persistent),
            cli_bytes((double)s.temporary_nbytes, temporary, sizeof temporary),
            cli_bytes((double)s.live_nbytes, live, sizeof live));
}

static void print_hidden(const summary *s) {
    char steps[48] = " and steps";
    if (s->nlast) snprintf(steps, sizeof steps, ", last %zu steps", s->nlast);
    fprintf(stderr,
            "summary: gradient collectives, all ranks%s: %zu, of which %zu hidden behind compute and %zu exposed; "
            "%.0f%% of their time hidden\n",
            steps, s->ncollectives, s->nhidden, s->ncollectives - s->nhidden,
            s->collective_seconds > 0 ? 100 * s->hidden_seconds / s->collective_seconds : 0);
}

void summary_print(summary *s) {
    print_steps(s);
    print_shapes(s);
    print_memory(s->plan);
    if (s->has_overlap) print_hidden(s);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *steps_json(summary *s) {
    json_t *made = json_object();
    double middle = median(s);
    cli_json_put(&made, "done", json_integer((json_int_t)s->nsteps));
    cli_json_put(&made, "timed", json_integer((json_int_t)s->nseconds));
    cli_json_put(&made, "median_seconds", cli_json_real(middle));
    cli_json_put(&made, "least_seconds", cli_json_real(s->nseconds ? s->seconds[0] : 0));
    cli_json_put(&made, "most_seconds", cli_json_real(s->nseconds ? s->seconds[s->nseconds - 1] : 0));
    return made;
}

static json_t *memory_json(const weft_plan *plan) {
    weft_plan_summary s;
    weft_plan_summarize(plan, &s);
    return json_pack("{s:I, s:I, s:I}", "persistent_nbytes", (json_int_t)s.persistent_nbytes, "temporary_nbytes",
                     (json_int_t)s.temporary_nbytes, "live_nbytes", (json_int_t)s.live_nbytes);
}

static json_t *overlap_json(const summary *s) {
    if (!s->has_overlap) return json_null();
    json_t *made = json_object();
    cli_json_put(&made, "steps", json_integer((json_int_t)(s->nlast ? s->nlast : s->nsteps)));
    cli_json_put(&made, "collectives", json_integer((json_int_t)s->ncollectives));
    cli_json_put(&made, "hidden", json_integer((json_int_t)s->nhidden));
    cli_json_put(&made, "collective_seconds", cli_json_real(s->collective_seconds));
    cli_json_put(&made, "hidden_seconds", cli_json_real(s->hidden_seconds));
    return made;
}

json_t *summary_json(summary *s) {
    json_t *made = json_object();
    cli_json_put(&made, "ranks", json_integer(s->nranks));
    cli_json_put(&made, "steps", steps_json(s));
    cli_json_put(&made, "plans",
                 json_pack("{s:I, s:I, s:I}", "made", (json_int_t)s->nplanned, "kept", (json_int_t)s->nkept, "gone",
                           (json_int_t)s->ngone));
    cli_json_put(&made, "memory", memory_json(s->plan));
    cli_json_put(&made, "overlap", overlap_json(s));
    return made;
}
