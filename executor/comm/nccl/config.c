#include "executor/comm/nccl/config.h"

#include <limits.h>

enum { UNSET = INT_MIN }; /* NCCL_CONFIG_UNDEF_INT */

static weft_status read_number(const plan_instr *instr, const char *attr, int least, int most, int *out) {
    char op[200];
    int64_t given = weft_op_attr_int(instr->op, attr, UNSET);
    if (given != UNSET && (given < least || given > most))
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%s: %s is %lld: expected %d to %d",
                                  instr_place(instr, op, sizeof op), attr, (long long)given, least, most);
    *out = (int)given;
    return NULL;
}

weft_status nccl_config_make(arena *a, const plan_instr *instr, const nccl_config **out_config) {
    nccl_config made = {.nbytes = sizeof made,
                        .magic = 0xcafebeef,
                        .version = 23100,
                        .least_ctas = UNSET,
                        .nvls_ctas = UNSET,
                        .cluster = UNSET,
                        .algorithms = weft_op_attr_string(instr->op, "nccl_algorithm", NULL),
                        .tag = (uint64_t)instr->op_index + 1};
    *out_config = NULL;
    TRY(read_number(instr, "nccl_ctas", 1, 64, &made.most_ctas));
    TRY(read_number(instr, "nccl_policy", 0, 3, &made.policy));
    if (!made.algorithms && made.most_ctas == UNSET && made.policy == UNSET) return NULL;
    nccl_config *config = ARENA_NEW(a, nccl_config);
    if (!config) return base_out_of_memory();
    *config = made;
    *out_config = config;
    return NULL;
}

uint64_t nccl_config_word(const nccl_config *c) {
    if (!c) return 0;
    uint64_t word = c->algorithms ? base_hash(c->algorithms, strlen(c->algorithms)) : 1;
    return (word * 1099511628211u ^ (unsigned)c->most_ctas) * 1099511628211u ^ (unsigned)c->policy;
}
