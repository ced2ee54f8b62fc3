/* memory.c: the blocks of memory that a rank's values lie in, and what is said where a device has none. */
#include "executor/memory.h"

#include <stdio.h>

const char *memory_amount(double nbytes, char *out, size_t out_nbytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; nbytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) nbytes /= 1024;
    snprintf(out, out_nbytes, unit ? "%.1f %s" : "%.0f %s", nbytes, units[unit]);
    return out;
}

static const plan_value *find_largest(const weft_plan *plan, plan_space space) {
    const plan_value *largest = NULL;
    for (size_t i = 0; i < plan->nvalues; i++) {
        const plan_value *v = &plan->values[i];
        if (v->space == space && (!largest || v->nbytes > largest->nbytes)) largest = v;
    }
    return largest;
}

static weft_status say_what_for(weft_status status, const rank_state *rank, plan_space space, int64_t nbytes) {
    static const char *const what[] = {
        [PLAN_PERSISTENT] = "parameters, state, feeds and fetches", [PLAN_TEMPORARY] = "values of a step"};
    const plan_value *largest = find_largest(rank->plan, space);
    char amounts[2][32];
    weft_status said = weft_status_create(
        WEFT_OUT_OF_MEMORY, NULL, "%s: rank %d has no %s for %s; the largest is \"%s\", %s",
        weft_status_message(status), rank->rank, memory_amount((double)nbytes, amounts[0], sizeof amounts[0]),
        what[space], largest ? largest->name : "",
        memory_amount(largest ? (double)largest->nbytes : 0, amounts[1], sizeof amounts[1]));
    weft_status_free(status);
    return said;
}

weft_status memory_alloc(const weft_executor *x, const rank_state *rank, plan_space space, int64_t nbytes,
                         device_memory *out_memory) {
    weft_status status = x->device->engine->alloc(x->device, rank->rank, DEVICE_OWN, (size_t)nbytes, out_memory);
    return weft_status_code(status) == WEFT_OUT_OF_MEMORY ? say_what_for(status, rank, space, nbytes) : status;
}
