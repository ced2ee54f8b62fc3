/* executor_timeline.c: the timeline of a run of 4 ranks: its events, the page that shows them, and how much of the
 * collectives is hidden. A plain main, because it runs under ThreadSanitizer too. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "executor/devices/cpu/cpu.h"
#include "tests/support/plain.h"
#include "tests/support/training.h"

static void finish(fixture *f) {
    long leaked = close_fixture(f);
    check(leaked == 0, "%ld blocks leaked", leaked);
}

static size_t count_events(const char *json, size_t nbytes, weft_context *context, const char *cat) {
    json_t *root = NULL, *event;
    size_t i, n = 0;
    must(json_read(context, json, nbytes, "trace", &root));
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *ph = json_string_value(json_object_get(event, "ph"));
        const char *c = json_string_value(json_object_get(event, "cat"));
        if (!ph || strcmp(ph, "X") != 0 || (cat && strcmp(c, cat) != 0)) continue;
        n++;
        check(json_number_value(json_object_get(event, "ts")) >= 0, "ts of an event");
    }
    json_decref(root);
    return n;
}

static void test_timeline(int trace_steps, size_t kept) {
    fixture f;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .trace = true, .trace_steps = trace_steps};
    open_fixture(&f, 4, &options);
    char *json = NULL, *html = NULL;
    size_t njson, nhtml, ncollectives, nhidden;
    weft_status status = weft_executor_trace_json(f.executor, &json, &njson);
    check(strstr(weft_status_message(status), "no timeline") && strstr(weft_status_message(status), "options.trace"),
          "before a step: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    for (int s = 0; s < 20; s++) must(weft_executor_run(f.executor));
    must(weft_executor_trace_json(f.executor, &json, &njson));
    must(weft_executor_trace_html(f.executor, "a <b> & \"c\" </script>", &html, &nhtml));
    check(count_events(json, njson, f.context, NULL) == kept * 4 * 3 * NPARAMS, "events of %zu steps", kept);
    check(count_events(json, njson, f.context, "collective") == kept * 4 * NPARAMS, "collectives of %zu steps", kept);
    check(strstr(html, "a &lt;b&gt; &amp; &quot;c&quot; &lt;/script&gt;") && !strstr(html, "<b>"),
          "the title is escaped");
    check(strstr(strstr(html, "</script>") + 1, "</script>") == NULL, "a name ends the script");
    check(!strstr(html, "http:") && !strstr(html, "https:") && !strstr(html, "src="), "the page needs no network");
    double seconds, hidden;
    weft_executor_overlap(f.executor, &seconds, &hidden);
    weft_executor_hidden(f.executor, &ncollectives, &nhidden);
    check(seconds > 0 && hidden >= 0 && hidden <= seconds, "%g s of %g s hidden", hidden, seconds);
    check(ncollectives == kept * 4 * NPARAMS && nhidden <= ncollectives, "%zu of %zu collectives", nhidden,
          ncollectives);
    weft_bytes_free(f.context, json, njson);
    weft_bytes_free(f.context, html, nhtml);
    finish(&f);
}

static void test_overlap_arithmetic(void) {
    fixture f;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .trace = true, .trace_steps = 1};
    open_fixture(&f, 1, &options);
    must(weft_executor_run(f.executor));
    timeline_lane *compute = &f.executor->timeline->ranks[0][0], *sync = &f.executor->timeline->ranks[0][1];
    for (size_t i = 0; i < compute->instrs->ninstrs; i++) { /* busy in [10 i, 10 i + 8) */
        compute->events[i] = (trace_event){(int64_t)i * 10, (int64_t)i * 10 + 8};
    }
    for (size_t i = 0; i < sync->instrs->ninstrs; i++)
        sync->events[i] = (trace_event){(int64_t)i * 20 + 5, (int64_t)i * 20 + 25};
    sync->events[NPARAMS - 1] = (trace_event){1000, 1100}; /* exposed */
    double seconds, hidden;
    size_t ncollectives, nhidden;
    weft_executor_overlap(f.executor, &seconds, &hidden);
    weft_executor_hidden(f.executor, &ncollectives, &nhidden);
    /* Five of [5, 25): busy 5-8, 10-18, 20-25 = 16 of 20 ns each; one exposed. */
    check(seconds > 199.5e-9 && seconds < 200.5e-9 && hidden > 79.5e-9 && hidden < 80.5e-9, "%g of %g", hidden,
          seconds);
    check(ncollectives == 6 && nhidden == 5, "%zu of %zu hidden", nhidden, ncollectives);
    finish(&f);
}

int main(void) {
    test_timeline(0, 20);
    test_timeline(3, 3);
    test_overlap_arithmetic();
    return report_checks();
}
