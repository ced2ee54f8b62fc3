/* pass_context.c: what a pass is given while it runs. */
#include "passes/pass_manager.h"

arena *pass_scratch(weft_pass_context *pass) {
    return &pass->scratch;
}

void *weft_pass_alloc(weft_pass_context *pass, size_t nbytes) {
    return arena_alloc(&pass->scratch, nbytes ? nbytes : 1);
}

pass_finding *pass_shared_finding(weft_pass_context *pass) {
    return pass->shared;
}

pass_finding *pass_pending_finding(weft_pass_context *pass) {
    return pass->pending_list;
}

void pass_changes_meaning(weft_pass_context *pass, const char *how) {
    pass->out->not_proved = how;
}

int64_t pass_rank(const weft_pass_context *pass) {
    pass_tells_apart(pass, PASS_TOLD_APART);
    return pass->rank;
}

int64_t pass_rank_told(const weft_pass_context *pass) {
    return pass->rank;
}

void pass_tells_apart(const weft_pass_context *pass, uint32_t axes) {
    pass->told->is_told = true;
    pass->told->apart |= axes;
}

void pass_tells_ends(const weft_pass_context *pass, uint32_t axes) {
    pass->told->is_told = true;
    pass->told->ends |= axes;
}

rank_edits *pass_rank_edits(const weft_pass_context *pass) {
    return pass->keeps_edits ? pass->told->edits : NULL;
}
