/* run_replan.c: --replan N[:CLUSTER]: after N steps the buckets of gradients are planned again, from what was measured.
 *
 * The profile of the first steps says what ops take, a cluster file (or a calibration between the steps) what
 * collectives take. coalesce_grads makes its buckets of a copy of the program, which must be proved to leave the same
 * bits. Only then the run goes on with it, from the state that every rank has.
 *
 * Processes plan each for itself: profile and calibration are of all ranks, and equal in all processes. Executors
 * compare what ranks communicate before the first step, so other buckets in one process would be refused. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_parts.h"
#include "weft/calibrate.h"
#include "weft/pass.h"
#include "weft/processes.h"
#include "weft/profile.h"

bool replan_read(const cli_args *args, replan *out) {
    const char *given = cli_value(args, "--replan");
    int end = 0;
    *out = (replan){0};
    if (!given) return true;
    bool good =
        sscanf(given, "%lld%n", &out->nsteps, &end) == 1 && out->nsteps >= 2 && (!given[end] || given[end] == ':');
    if (good && given[end]) out->cluster = given + end + 1;
    if (!good)
        cli_usage_error(args->command, "--replan: expected N or N:CLUSTER, 2 steps at least, found \"%s\"", given);
    else if (args->npositional != 1)
        good = false, cli_usage_error(args->command, "--replan: expected one program for all ranks");
    else if (cli_given(args, "--reading"))
        good = false, cli_usage_error(args->command, "--replan: expected no --reading: an order is of one program");
    return good;
}

static weft_status put_profile(const cli_args *args, const weft_trainer *trainer, char path[CLI_TEMPORARY_ROOM],
                               double *out_seconds) {
    char *bytes;
    size_t nbytes;
    weft_profile *profile = NULL;
    weft_status status = weft_executor_profile(weft_trainer_executor(trainer), WEFT_PROFILE_JSON, 0, &bytes, &nbytes);
    if (status) return status;
    status = weft_profile_parse(args->context, bytes, nbytes, "profile", &profile);
    if (!status) *out_seconds = weft_profile_step_seconds(profile);
    if (!status) status = cli_put_temporary(bytes, nbytes, path);
    weft_profile_destroy(profile);
    weft_bytes_free(args->context, bytes, nbytes);
    return status;
}

static weft_status put_cluster(const cli_args *args, int nranks, const struct comm_host *host,
                               char path[CLI_TEMPORARY_ROOM]) {
    weft_cluster cluster;
    char *bytes;
    size_t nbytes;
    weft_calibrate_options o = {WEFT_CALIBRATE_OPTIONS_INIT, .nranks = nranks, .most_nbytes = 4 << 20, .nsteps = 5,
                                .host = host};
    weft_status status = weft_calibrate(args->context, &o, &cluster);
    if (!status) status = weft_cluster_print(args->context, &cluster, &bytes, &nbytes);
    if (status) return status;
    status = cli_put_temporary(bytes, nbytes, path);
    weft_bytes_free(args->context, bytes, nbytes);
    return status;
}

/* Buckets of the program; every pass must be proved to leave the same bits. */
static weft_status plan_again(const cli_args *args, weft_program *program, const char *cluster, const char *times,
                              int64_t out_ns[2]) {
    char list_text[8500];
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    int n =
        snprintf(list_text, sizeof list_text,
                 "overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: \"%s\", times: \"%s\"}, insert_dependencies",
                 cluster, times);
    weft_status status = weft_pass_list_parse(args->context, list_text, (size_t)n, "--replan", &list);
    if (!status) weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    if (!status) status = weft_pass_list_run(list, program, &report);
    for (size_t i = 0; !status && i < weft_report_npasses(report); i++) {
        const weft_equivalence *proved = weft_report_equivalence(report, i);
        if (!proved || weft_equivalence_grade(proved) != WEFT_SAME_BITS)
            status = weft_status_create(WEFT_INVALID_PROGRAM, "--replan", "%s is not proved to leave the same bits",
                                        weft_report_pass_name(report, i));
        out_ns[0] += weft_report_count(report, i, "predicted step ns");
        out_ns[1] += weft_report_count(report, i, "bound of all ns");
    }
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    return status;
}

weft_status replan_program(const cli_session *in, const replan *how, const weft_trainer *trainer,
                           const struct comm_host *host, replanned *out) {
    const cli_args *args = in->args;
    char times[CLI_TEMPORARY_ROOM] = "", made[CLI_TEMPORARY_ROOM] = "", room[4096];
    const char *cluster = how->cluster ? cli_find_config(how->cluster, "clusters/", room, sizeof room) : made;
    weft_plan_summary before;
    int64_t ns[2] = {0, 0};
    weft_plan_summarize(weft_trainer_plan(trainer, in->first_rank), &before);
    *out = (replanned){.ncollectives = before.ncollectives};
    weft_status status = put_profile(args, trainer, times, &out->measured_seconds);
    if (!status && !how->cluster) status = put_cluster(args, weft_trainer_nranks(trainer), host, made);
    if (!status) status = weft_program_clone(in->programs[0], &out->program);
    if (!status) status = plan_again(args, out->program, cluster, times, ns);
    out->predicted_seconds = 1e-9 * (double)ns[0];
    out->bound_seconds = 1e-9 * (double)ns[1];
    if (*times) unlink(times);
    if (*made) unlink(made);
    if (status) {
        weft_program_destroy(out->program);
        out->program = NULL;
    }
    return status;
}
