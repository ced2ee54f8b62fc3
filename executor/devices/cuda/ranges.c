#include "executor/devices/cuda/ranges.h"

#include <stdio.h>

weft_status cuda_range_name(arena *a, const weft_plan *plan, const plan_instr *instr, const char **out_name) {
    char on_ring[40] = "", words[300];
    int32_t result = instr->out_first[instr->schema->noutputs] ? instr->out[0] : -1;
    if (instr->ring_id >= 0) snprintf(on_ring, sizeof on_ring, " on ring %lld", (long long)instr->ring_id);
    int n = snprintf(words, sizeof words, "%s%s: %s", instr->schema->type, on_ring,
                     result < 0 ? "no result" : plan->values[result].name);
    *out_name = arena_copy(a, words, (size_t)(n < (int)sizeof words ? n : (int)sizeof words - 1) + 1);
    return *out_name ? NULL : base_out_of_memory();
}

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

static nvtxDomainHandle_t domain; /* until the process ends */

static void make_domain(void) {
    domain = nvtxDomainCreateA("weft");
}

void cuda_range_begin(const char *its_name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_domain);
    nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message = {.ascii = its_name}};
    nvtxDomainRangePushEx(domain, &range);
}

void cuda_range_end(void) {
    nvtxDomainRangePop(domain);
}

#else /* a toolkit without it */

void cuda_range_begin(const char *its_name) {
    (void)its_name;
}
void cuda_range_end(void) {}

#endif
