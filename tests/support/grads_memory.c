/* grads_memory.c: passes without memory: grads_run_without_memory. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/grads.h"
#include "tests/support/must.h"

static void expect(bool good, const char *what, size_t allocation) {
    if (good) return;
    fprintf(stderr, "%s when allocation %zu fails\n", what, allocation);
    abort();
}

/* Whether the run needed fewer allocations than that. */
static bool run_without(size_t allocation, grads_make_fn make, unsigned seed, const char *yaml) {
    failing_allocator state = {0};
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)};
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    grads g;
    make(&g, &options, seed);
    must(weft_pass_list_parse(g.context, yaml, strlen(yaml), "test", &list));
    state.fail_at = state.nrequests + allocation;
    weft_status status = weft_pass_list_run(list, g.p, &report);
    state.fail_at = 0;
    expect(weft_status_code(status) == (state.failed ? WEFT_OUT_OF_MEMORY : WEFT_OK), "another status", allocation);
    must(weft_program_verify(g.p));
    weft_status_free(status);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    grads_destroy(&g);
    expect(state.held == 0, "a leak", allocation);
    return !state.failed;
}

void grads_run_without_memory(grads_make_fn make, unsigned seed, const char *yaml) {
    for (size_t n = 1; !run_without(n, make, seed, yaml);) n++;
}
