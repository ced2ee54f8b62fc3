#include "passes/micro_pipeline/micro.h"
weft_status micro_write_chunks(micro_pass *m, micro_pair *pair, size_t number) {
    (void)pair; (void)number;
    return weft_pass_refuse(m->pass, "not yet");
}
