/* pass_manager.c: runs a list of passes over a program, with the structural verifier before the first and after each,
 * and writes down what each did. */
#include <stdio.h>
#include <time.h>

#include "passes/certificate.h"
#include "passes/pass_manager.h"
#include "passes/pass_proof.h"
#include "passes/pending.h"

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The verifier's own status with when it spoke. Takes `problem`. */
static weft_status explain_problem(weft_status problem, const char *when, const char *pass_name) {
    if (!problem || weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
    weft_status worded = weft_status_create(weft_status_code(problem), weft_status_place(problem), "%s pass %s: %s",
                                            when, pass_name, weft_status_message(problem));
    weft_status_free(problem);
    return worded;
}

weft_status pass_keep_first(weft_status first, weft_status second) {
    if (!first) return second;
    weft_status_free(second);
    return first;
}

/* A pass may not make a program in which pending results are waited for, once and in time, into one in which they are
 * not. */
static weft_status check_waits(weft_program *program, pending_check *waits) {
    bool was_sound = waits->sound;
    size_t nproblems;
    TRY(check_pending_use(waits, program, &nproblems));
    if (was_sound && nproblems)
        return weft_status_create(WEFT_INVALID_PROGRAM, program->place, "%zu problem%s with waits for collectives",
                                  nproblems, nproblems == 1 ? "" : "s");
    return NULL;
}

static weft_status verify(weft_program *program, pending_check *waits) {
    TRY(program_verify_changed(program, false));
    return check_waits(program, waits);
}

/* Whether all passes behind that one leave attrs that say where ranks stand to others. */
static bool keep_places_behind(const weft_pass_list *list, size_t index) {
    for (size_t i = index + 1; i < list->count; i++)
        if (!list->entries[i].pass->keeps_places) return false;
    return true;
}

static weft_status run_one(const weft_pass_list *list, size_t index, weft_program *program, int64_t rank,
                           pass_told *told, weft_report *report, pass_finding *shared, pending_check *waits,
                           certifier *certify) {
    weft_context *context = report->context;
    const pass_entry *entry = &list->entries[index];
    pass_report *out = &report->passes[report->npasses++];
    *out = (pass_report){.name = entry->pass->name, .nops_before = weft_program_nops(program)};
    weft_pass_context pass = {.context = context,
                              .entry = entry,
                              .report = report,
                              .out = out,
                              .shared = shared,
                              .pending_list = &waits->found,
                              .rank = rank,
                              .told = told,
                              .keeps_edits = keep_places_behind(list, index)};
    TRY(certificate_begin(certify, entry->pass, report, out));
    if (out->certificate) pass.certificate = out->certificate;
    arena_init(&pass.scratch, &context->allocator);
    double start = now_seconds();
    weft_status status = entry->pass->run(&pass, program, entry->pass->user);
    out->seconds = now_seconds() - start;
    arena_fini(&pass.scratch);
    out->nops_after = weft_program_nops(program);
    status = base_status_at(status, entry->pass->name);
    status = pass_keep_first(status, report_place_left(report, out));
    if (!status) status = explain_problem(verify(program, waits), "after", entry->pass->name);
    if (!status) status = certificate_end(certify, program, report, out);
    if (status) {
        const char *message = weft_status_message(status);
        out->failure = arena_string(&report->arena, message, strlen(message));
    }
    return status;
}

/* What Paddle tells of a whole program may name the rank that told it; such a program does not communicate. */
weft_status pass_check_all_ranks(const weft_program *program) {
    bool communicates = false;
    if (program->rank < 0) return NULL;
    for (size_t i = 0; i < program->nblocks; i++)
        FOR_EACH_OP(op, program->blocks[i]) communicates = communicates || op_communicates(op);
    if (!communicates) return NULL;
    return weft_status_create(WEFT_REFUSED, program->place,
                              "expected a program of all ranks, found that of rank %lld: programs of other ranks are "
                              "made of their own",
                              (long long)program->rank);
}

weft_status pass_list_run_told(const weft_pass_list *list, weft_program *program, int64_t rank, pass_told *told,
                               weft_report **out_report) {
    weft_report *report = NULL;
    if (rank < 0) rank = program->rank;
    if (program->rank != rank) TRY(pass_check_all_ranks(program));
    TRY(report_create(list->context, list->count, &report));
    weft_status status = NULL;
    pass_finding shared = {.value = NULL};
    arena_init(&shared.arena, &list->context->allocator);
    pending_check waits;
    pending_check_init(&waits, list->context);
    if (list->count)
        status = explain_problem(program_verify_changed(program, false), "before", list->entries[0].pass->name);
    if (list->count && !status) status = check_waits(program, &waits);
    pass_proof proof = {.how = WEFT_PROVE_OFF};
    if (!status) status = pass_proof_begin(&proof, list, program);
    certifier certify = {.on = false};
    if (!status) status = certifier_begin(&certify, list, program, report);
    for (size_t i = 0; i < list->count && !status; i++) {
        status = run_one(list, i, program, rank, told, report, &shared, &waits, &certify);
        if (!status) status = pass_proof_after(&proof, list->entries[i].pass, program, report, &report->passes[i]);
    }
    certifier_end(&certify);
    pass_proof_end(&proof);
    pending_check_fini(&waits);
    arena_fini(&shared.arena);
    if (out_report)
        *out_report = report;
    else
        weft_report_destroy(report);
    return status;
}

weft_status weft_pass_list_run_rank(const weft_pass_list *list, weft_program *program, int64_t rank,
                                    weft_report **out_report) {
    pass_told told = {.is_told = false};
    return pass_list_run_told(list, program, rank, &told, out_report);
}

weft_status weft_pass_list_run(const weft_pass_list *list, weft_program *program, weft_report **out_report) {
    return weft_pass_list_run_rank(list, program, -1, out_report);
}
