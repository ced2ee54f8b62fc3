/* pass_proof.c: after each pass the program is read as terms and held against what it was before (proof/).
 *
 * The terms of all states lie in one table: what a pass leaves alone is the same term, so only what changed is looked
 * at twice, and the program before need not be kept. A pass that says that it changes the meaning is reported as not
 * checked; later passes are held against what it made.
 *
 * Where ops run on several streams, the waits that the program states (events, c_wait_*, wait_tensor) are looked at
 * too: a pass may not bring the first race into a program that had none when read in order. */
#include <time.h>

#include "passes/pass_proof.h"
#include "proof/classes.h"
#include "weft/verify.h"

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool has_streams(weft_program *p) {
    char of_ring[RING_STREAM_NBYTES];
    FOR_EACH_OP(op, p->blocks[0]) {
        if (op_stream(op, of_ring)) return true;
    }
    return false;
}

/* Whether ops race where only stated waits order streams. After `pass` (else NULL) that is an error. */
static weft_status find_race(weft_program *p, const weft_pass *pass, bool *out_races) {
    *out_races = false;
    if (!has_streams(p)) return NULL;
    const weft_program *one = p;
    weft_verify_options options = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER,
                                   .nranks = program_last_rank(p) + 1};
    weft_findings *findings;
    TRY(weft_verify(&one, 1, &options, &findings));
    weft_status status = NULL;
    for (size_t i = 0; !*out_races && i < weft_findings_count(findings); i++) {
        const weft_finding *f = weft_finding_at(findings, i);
        *out_races = f->verdict == WEFT_VERDICT_RACE;
        if (*out_races && pass)
            status = weft_status_create(WEFT_INVALID_PROGRAM, p->place, "after pass %s, read in order: %s", pass->name,
                                        f->message);
    }
    weft_findings_destroy(findings);
    return status;
}

weft_status pass_proof_begin(pass_proof *proof, const weft_pass_list *list, weft_program *program) {
    *proof = (pass_proof){.how = list->prove};
    if (proof->how < WEFT_PROVE_REPORT || list->count == 0) return NULL;
    TRY(prover_init(&proof->prover, list->context));
    TRY(prover_take(&proof->prover, program));
    proof->edits = program->edits;
    return find_race(program, NULL, &proof->races);
}

void pass_proof_end(pass_proof *proof) {
    prover_fini(&proof->prover);
}

/* The first value that is not proved, as an error. */
static weft_status not_proved(const weft_pass *pass, const weft_program *program, const weft_equivalence *e) {
    const char *message = "", *var = weft_equivalence_finding(e, 0, NULL, &message);
    return weft_status_create(WEFT_INVALID_PROGRAM, program->place,
                              "after pass %s: \"%s\" is not proved to be what it was:\n         %s", pass->name,
                              var ? var : "", message);
}

static weft_status compare(pass_proof *proof, const weft_pass *pass, weft_program *program, pass_report *out) {
    bool changed = program->edits != proof->edits;
    proof->edits = program->edits;
    if (changed && !proof->races) TRY(find_race(program, pass, &proof->races));
    if (pass->changes_meaning) out->not_proved = pass->changes_meaning;
    if (out->not_proved) return changed ? prover_take(&proof->prover, program) : NULL;
    TRY(changed ? prover_compare(&proof->prover, program, &out->proof) : prover_same(&proof->prover, &out->proof));
    if (proof->how == WEFT_PROVE_REQUIRE && weft_equivalence_grade(out->proof) == WEFT_NOT_PROVED)
        return not_proved(pass, program, out->proof);
    return NULL;
}

weft_status pass_proof_after(pass_proof *proof, const weft_pass *pass, weft_program *program, weft_report *report,
                             pass_report *out) {
    if (proof->how < WEFT_PROVE_REPORT) return NULL;
    double start = now_seconds();
    weft_status status = compare(proof, pass, program, out);
    if (!out->not_proved) out->proof_seconds = now_seconds() - start;
    if (status) {
        const char *message = weft_status_message(status);
        out->failure = arena_string(&report->arena, message, strlen(message));
    }
    return status;
}
