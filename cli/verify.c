/* verify.c: weft verify: what is wrong with programs, as text or JSON. */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "weft/certificate.h"
#include "weft/collective.h"
#include "weft/equivalent.h"
#include "weft/verify.h"
#include "weft/witness.h"

static const cli_option options[] = {
    {"--ranks", 0, "N", "how many ranks run; default: what the programs say"},
    {"--reading", 0, "R", "in_order, by_name or by_bytes; default: in_order, then by_name"},
    {"--stream", 0, "W:S", "where no sidecar gives streams: ops W (dp_reduce, or a type) on stream S"},
    {"--launch", 0, "any", "by_name: every order of launches that worker pools allow, not just the usual one"},
    {"--in-flight", 0, "K", "launches go through one queue, with at most K collectives of a rank in flight"},
    {"--queued", 0, "N", "a stream takes at most N launches that are not done; then the host waits"},
    {"--against", 0, "BEFORE",
     "also hold the ranks against the serial program, or against what they were before a change"},
    {"--batch", 0, "N", "--against: of N rows, where feeds leave them open; default: any number of rows"},
    {"--certificate", 0, "FILE", "PROGRAM... is BEFORE AFTER: check what weft opt --certificate wrote, and no more"},
    {"--dist", 0, "FILE", "the sidecar, if it is not where its name says (one program only)"},
    {"--json", 0, NULL, "findings as JSON (docs/json.md)"},
    {"--output", 'o', "OUT", "where to write; default: stdout"},
};

/* --- reading programs --------------------------------------------------------------------------------------------- */

typedef struct programs {
    weft_program **items;
    size_t count;
} programs;

static void destroy_programs(programs *p) {
    for (size_t i = 0; i < p->count; i++) weft_program_destroy(p->items[i]);
    free(p->items);
}

static weft_status load_programs(const cli_args *args, programs *out) {
    out->items = calloc(args->npositional, sizeof *out->items);
    if (!out->items) return cli_no_memory();
    for (; out->count < args->npositional; out->count++) {
        weft_status status = weft_program_load(args->context, args->positional[out->count], cli_value(args, "--dist"),
                                               &out->items[out->count]);
        if (status) return status;
    }
    return NULL;
}

/* --- reporting ---------------------------------------------------------------------------------------------------- */

static void print_finding(FILE *to, const weft_finding *f) {
    fprintf(to, "%s%s:%s %s\n", cli_colour(to, RED), weft_verdict_name(f->verdict), cli_colour(to, PLAIN), f->message);
    if (f->remedy[0]) fprintf(to, "    mended by: %s\n", f->remedy);
}

static void print_findings(FILE *to, const weft_findings *found, weft_reading reading) {
    size_t n = weft_findings_count(found);
    for (size_t i = 0; i < n; i++) print_finding(to, weft_finding_at(found, i));
    for (size_t i = 0; i < weft_findings_nnotes(found); i++) fprintf(to, "note: %s\n", weft_findings_note(found, i));
    if (n)
        fprintf(to, "%s: %zu finding%s\n", weft_reading_name(reading), n, n == 1 ? "" : "s");
    else
        fprintf(to, "%s: %ssafe%s\n", weft_reading_name(reading), cli_colour(to, GREEN), cli_colour(to, PLAIN));
}

static weft_status write_findings(const cli_args *args, FILE *to, const weft_findings *found, weft_reading reading) {
    if (!cli_given(args, "--json")) {
        print_findings(to, found, reading);
        return NULL;
    }
    char *bytes;
    size_t nbytes;
    weft_status status = weft_findings_json(found, &bytes, &nbytes);
    if (status) return status;
    fprintf(to, "{\"reading\": \"%s\", \"result\": ", weft_reading_name(reading));
    fwrite(bytes, 1, nbytes, to);
    fprintf(to, "}\n");
    weft_bytes_free(args->context, bytes, nbytes);
    return NULL;
}

/* A document on a line of its own, freed. */
static weft_status print_json(FILE *to, json_t *root) {
    if (!root) return cli_no_memory();
    bool is_printed = json_dumpf(root, to, 0) == 0 && putc('\n', to) != EOF;
    json_decref(root);
    return is_printed ? NULL : weft_status_create(WEFT_IO, NULL, "cannot write");
}

/* As a reading that has this one finding. */
static weft_status print_contradiction(const cli_args *args, FILE *to, const char *message) {
    const char *verdict = weft_verdict_name(WEFT_VERDICT_INVALID_PROGRAM);
    if (cli_given(args, "--json"))
        return print_json(to,
                          json_pack("{s:s, s:{s:[{s:s, s:o, s:[]}], s:[]}}", "reading", "declared", "result",
                                    "findings", "verdict", verdict, "message", cli_json_text(message), "ops", "notes"));
    fprintf(to, "%s%s:%s %s\n", cli_colour(to, RED), verdict, cli_colour(to, PLAIN), message);
    return NULL;
}

/* What declarations contradict is a finding like others; the rest is judged all the same. */
static weft_status check_declared(const cli_args *args, FILE *to, const programs *p, size_t *nfound) {
    for (size_t i = 0; i < p->count; i++) {
        weft_status status = weft_program_check_types(p->items[i]);
        if (status && weft_status_code(status) != WEFT_INVALID_PROGRAM) return status;
        weft_status failed = status ? print_contradiction(args, to, weft_status_message(status)) : NULL;
        *nfound += status != NULL;
        weft_status_free(status);
        if (failed) return failed;
    }
    return NULL;
}

static weft_status verify(const cli_args *args, FILE *to, const programs *p, weft_verify_options *o, size_t *nfound) {
    weft_findings *found;
    weft_status status = weft_verify((const weft_program *const *)p->items, p->count, o, &found);
    if (status) return status;
    *nfound += weft_findings_count(found);
    status = write_findings(args, to, found, o->reading);
    weft_findings_destroy(found);
    return status;
}

/* --- against the serial program ----------------------------------------------------------------------------------- */

/* Values that were shown to differ are wrong; all else that is not proved is only that. */
static const char *verdict_of(const weft_equivalence *e, size_t i) {
    bool is_shown = weft_equivalence_difference(e, i) == WEFT_DIFFERENCE_SHOWN;
    return is_shown ? weft_verdict_name(WEFT_VERDICT_WRONG_VALUE) : "not_proved";
}

/* Whether finding `i` says of its value what `k` says of another. */
static bool says_the_same(const weft_equivalence *e, size_t i, size_t k) {
    weft_grade grade, other_grade;
    const char *message, *other;
    (void)weft_equivalence_finding(e, i, &grade, &message);
    (void)weft_equivalence_finding(e, k, &other_grade, &other);
    return grade == other_grade && weft_equivalence_difference(e, i) == weft_equivalence_difference(e, k) &&
           strcmp(message, other) == 0;
}

/* Of equal reasons the first, and for how many more values it is one. */
static void print_unproved(FILE *to, const weft_equivalence *e, size_t i) {
    const char *message, *var = weft_equivalence_finding(e, i, NULL, &message);
    size_t nmore = 0;
    for (size_t k = 0; k < i; k++)
        if (says_the_same(e, i, k)) return;
    for (size_t k = i + 1; k < weft_equivalence_nfindings(e); k++) nmore += says_the_same(e, i, k);
    fprintf(to, "%s: %s", verdict_of(e, i), var);
    if (nmore) fprintf(to, " and %zu more", nmore);
    fprintf(to, ": %s\n", message);
}

static void print_equivalence(FILE *to, const char *what, const weft_equivalence *e) {
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        weft_grade grade;
        const char *message, *var = weft_equivalence_finding(e, i, &grade, &message);
        if (grade == WEFT_NOT_PROVED)
            print_unproved(to, e, i);
        else if (grade == WEFT_SAME_IF)
            fprintf(to, "note: %s: %s: %s\n", var, weft_grade_name(grade), message);
    }
    fprintf(to, "against %s: %s (%zu values)\n", what, weft_grade_name(weft_equivalence_grade(e)),
            weft_equivalence_nvalues(e));
}

static weft_status print_equivalence_json(FILE *to, const char *what, const weft_equivalence *e) {
    json_t *findings = json_array();
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        weft_grade grade;
        const char *message, *var = weft_equivalence_finding(e, i, &grade, &message);
        json_t *made = json_object();
        cli_json_put(&made, "value", cli_json_text(var));
        cli_json_put(&made, "grade", json_string(weft_grade_name(grade)));
        if (grade == WEFT_NOT_PROVED) cli_json_put(&made, "verdict", json_string(verdict_of(e, i)));
        cli_json_put(&made, "message", cli_json_text(message));
        cli_json_put(&findings, NULL, made);
    }
    return print_json(to, json_pack("{s:s, s:s, s:I, s:o}", "against", what, "grade",
                                    weft_grade_name(weft_equivalence_grade(e)), "values",
                                    (json_int_t)weft_equivalence_nvalues(e), "findings", findings));
}

/* Whether the program is one rank's: it talks to others. */
static bool communicates(const weft_program *p) {
    weft_collective c;
    for (size_t i = 0; i < weft_program_nblocks(p); i++)
        for (weft_op *op = weft_block_first_op(weft_program_block(p, i)); op; op = weft_op_next(op))
            if (weft_op_collective(op, &c) && c.communicates) return true;
    return false;
}

static weft_status report_against(const cli_args *args, FILE *to, bool is_serial, const weft_equivalence *e,
                                  size_t *nfound) {
    *nfound += weft_equivalence_grade(e) == WEFT_NOT_PROVED;
    if (cli_given(args, "--json")) return print_equivalence_json(to, is_serial ? "serial" : "before", e);
    print_equivalence(to, is_serial ? "the serial program" : "what ranks ran before", e);
    return NULL;
}

/* "{rank}" in the name is a program for each rank. */
static weft_status load_before(const cli_args *args, const char *name, size_t nranks, programs *out) {
    const char *mark = strstr(name, "{rank}");
    size_t n = mark ? nranks : 1;
    out->items = calloc(n, sizeof *out->items);
    if (!out->items) return cli_no_memory();
    for (; out->count < n; out->count++) {
        char path[4096];
        if (mark)
            snprintf(path, sizeof path, "%.*s%zu%s", (int)(mark - name), name, out->count, mark + strlen("{rank}"));
        weft_status status = weft_program_load(args->context, mark ? path : name, NULL, &out->items[out->count]);
        if (status) return status;
    }
    return NULL;
}

static weft_status verify_against(const cli_args *args, FILE *to, const char *name, const programs *p, int64_t nranks,
                                  int64_t batch, size_t *nfound) {
    programs before = {0};
    weft_equivalence *verdict = NULL;
    weft_equivalence_options o = {WEFT_EQUIVALENCE_OPTIONS_INIT, .nranks = nranks, .batch = batch,
                                  .witness = weft_witness_run};
    const weft_program *const *items = (const weft_program *const *)p->items;
    weft_status status = load_before(args, name, p->count, &before);
    bool is_serial = !status && before.count == 1 && !communicates(before.items[0]);
    if (!status && is_serial)
        status = weft_equivalent_to_serial(before.items[0], items, p->count, &o, &verdict);
    else if (!status)
        status = weft_equivalent_ranks((const weft_program *const *)before.items, before.count, items, p->count, &o,
                                       &verdict);
    if (!status) status = report_against(args, to, is_serial, verdict, nfound);
    weft_equivalence_destroy(verdict);
    destroy_programs(&before);
    return status;
}

/* --- certificates ------------------------------------------------------------------------------------------------- */

static weft_status print_certified(const cli_args *args, FILE *to, weft_certified verdict, const char *message) {
    static const char *const names[] = {[WEFT_CERTIFIED] = "holds",
                                        [WEFT_CERTIFICATE_BAD] = "does not hold",
                                        [WEFT_CERTIFICATE_NONE] = "no certificate"};
    if (cli_given(args, "--json"))
        return print_json(to,
                          json_pack("{s:s, s:o}", "certificate", names[verdict], "message", cli_json_text(message)));
    fprintf(to, "certificate: %s: %s\n", names[verdict], message);
    return NULL;
}

static weft_status check_certificate(const cli_args *args, FILE *to, const char *path, const programs *p,
                                     size_t *nfound) {
    char *bytes, *message;
    size_t nbytes, message_nbytes;
    weft_certified verdict;
    weft_status status = cli_read(path, &bytes, &nbytes);
    if (status) return status;
    status = weft_certificate_check(p->items[0], p->items[1], bytes, nbytes, path, &verdict, &message, &message_nbytes);
    free(bytes);
    if (status) return status;
    status = print_certified(args, to, verdict, message);
    weft_bytes_free(args->context, message, message_nbytes);
    *nfound += verdict != WEFT_CERTIFIED;
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static bool read_options(const cli_args *args, weft_verify_options *out, bool *both) {
    const char *reading = cli_value(args, "--reading"), *launch = cli_value(args, "--launch");
    long long nranks = 0, in_flight = 0, queued = 0;
    *both = !reading;
    if (reading && !weft_reading_parse(reading, &out->reading)) {
        cli_usage_error(args->command, "--reading: expected in_order, by_name or by_bytes, found \"%s\"", reading);
        return false;
    }
    if (launch && strcmp(launch, "any") != 0) {
        cli_usage_error(args->command, "--launch: expected any, found \"%s\"", launch);
        return false;
    }
    if (!cli_int(args, "--ranks", 1, 1 << 18, &nranks) || !cli_int(args, "--in-flight", 1, 1 << 20, &in_flight) ||
        !cli_int(args, "--queued", 1, 1 << 20, &queued))
        return false;
    out->nranks = nranks;
    out->max_in_flight = in_flight;
    out->max_queued = queued;
    out->launch_any = launch != NULL;
    out->stream = cli_value(args, "--stream");
    return true;
}

/* The second reading of the two that nobody asked for by name: a program too large for it is no failure. */
static weft_status verify_by_name(const cli_args *args, FILE *to, const programs *p, weft_verify_options o,
                                  size_t *nfound) {
    o.reading = WEFT_READING_BY_NAME;
    weft_status status = verify(args, to, p, &o, nfound);
    if (weft_status_code(status) != WEFT_LIMIT) return status;
    fprintf(stderr, "weft verify: not judged: %s\n", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static int run(cli_args *args) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER};
    programs p = {0};
    size_t nfound = 0;
    long long batch = 0;
    bool both;
    if (!read_options(args, &o, &both) || !cli_int(args, "--batch", 1, 1LL << 40, &batch)) return EXIT_USAGE;
    if (cli_given(args, "--certificate") && (args->npositional != 2 || cli_given(args, "--against")))
        return cli_usage_error(args->command,
                               "--certificate: expected two programs, BEFORE and AFTER, and no --against");
    const char *path = cli_value(args, "--output");
    FILE *to = path && strcmp(path, "-") != 0 ? fopen(path, "w") : stdout;
    if (!to) return cli_fail(args, weft_status_create(WEFT_IO, path, "cannot write"));
    weft_status status = load_programs(args, &p);
    const char *certificate = cli_value(args, "--certificate");
    if (!status && certificate) status = check_certificate(args, to, certificate, &p, &nfound);
    if (!status && !certificate) status = check_declared(args, to, &p, &nfound);
    if (!status && !certificate) status = verify(args, to, &p, &o, &nfound);
    if (!status && !certificate && both) status = verify_by_name(args, to, &p, o, &nfound);
    const char *serial = cli_value(args, "--against");
    if (!status && serial) status = verify_against(args, to, serial, &p, o.nranks, batch, &nfound);
    destroy_programs(&p);
    if (to != stdout && fclose(to) != 0 && !status) status = weft_status_create(WEFT_IO, path, "cannot write");
    if (status) return cli_fail(args, status);
    return nfound ? EXIT_WORK_FAILED : EXIT_DONE;
}

static void print_checks(FILE *to) {
    fprintf(to, "\nchecks, in the order in which they are made\n");
    weft_check c;
    for (size_t i = 0; weft_check_at(i, &c); i++)
        fprintf(to, "  %-14s %s%s%s%s\n", c.name, c.question, *c.when ? " (" : "", c.when, *c.when ? ")" : "");
}

const cli_command command_verify = {
    .name = "verify",
    .arguments = "PROGRAM... [--ranks N] [--reading R] [--against BEFORE [--batch N]] [--json]",
    .summary = "Proves that programs neither race nor hang nor let replicas drift apart, or reports the ops that do.\n"
               "One program is every rank's, several are one a rank. Exit status 0: safe, 1: findings.\n"
               "Readings: in_order (explicit events), by_name (Paddle semantics), by_bytes (Weft's plan).",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = -1,
    .example = "weft verify rank0.pdmodel rank1.pdmodel --reading by_bytes",
    .print_more = print_checks,
    .run = run,
};
