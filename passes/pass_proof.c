/* pass_proof.c: after each pass the program is read as terms and held against what it was before (proof/).
 *
 * The terms of all states lie in one table: what a pass leaves alone is the same term, so only what changed is looked
 * at twice, and the program before need not be kept. A pass that says that it changes the meaning is reported as not
 * checked; later passes are held against what it made. */
#include <time.h>

#include "passes/pass_proof.h"

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

weft_status pass_proof_begin(pass_proof *proof, const weft_pass_list *list, weft_program *program) {
    *proof = (pass_proof){.how = list->prove};
    if (proof->how < WEFT_PROVE_REPORT || list->count == 0) return NULL;
    TRY(prover_init(&proof->prover, list->context));
    TRY(prover_take(&proof->prover, program));
    proof->edits = program->edits;
    return NULL;
}

void pass_proof_end(pass_proof *proof) {
    prover_fini(&proof->prover);
}

/* The first value that is not proved, as an error. */
static weft_status not_proved(const weft_pass *pass, const weft_program *program, const weft_equivalence *e) {
    const char *words = "", *var = weft_equivalence_finding(e, 0, NULL, &words);
    return weft_status_create(WEFT_INVALID_PROGRAM, program->place,
                              "after pass %s: \"%s\" is not proved to be what it was:\n         %s", pass->name,
                              var ? var : "", words);
}

weft_status pass_proof_after(pass_proof *proof, const weft_pass *pass, weft_program *program, weft_report *report,
                             pass_report *out) {
    if (proof->how < WEFT_PROVE_REPORT) return NULL;
    bool changed = program->edits != proof->edits;
    double start = now_seconds();
    proof->edits = program->edits;
    if (pass->changes_meaning) {
        out->not_proved = pass->changes_meaning;
        return changed ? prover_take(&proof->prover, program) : NULL;
    }
    weft_status status =
        changed ? prover_compare(&proof->prover, program, &out->proof) : prover_same(&proof->prover, &out->proof);
    out->proof_seconds = now_seconds() - start;
    if (!status && proof->how == WEFT_PROVE_REQUIRE && weft_equivalence_grade(out->proof) == WEFT_NOT_PROVED)
        status = not_proved(pass, program, out->proof);
    if (status) {
        const char *message = weft_status_message(status);
        out->failure = arena_string(&report->arena, message, strlen(message));
    }
    return status;
}
