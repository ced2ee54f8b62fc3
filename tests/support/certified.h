/* certified.h: a program before and after a list of passes, and its certificate, for the suites that change one. */
#ifndef TESTS_SUPPORT_CERTIFIED_H
#define TESTS_SUPPORT_CERTIFIED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/digest.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/certificate.h"

#define DATA_PARALLEL                                                                                                  \
    "data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: 32, first_bucket_mb: "     \
    "0.001}, insert_dependencies"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}

/* A program before and after a list, and the certificate as text that the test may change. */
typedef struct pair {
    weft_program *before, *after;
    char *text;
} pair;

static inline void certify(pair *p, const char *list_text) {
    weft_pass_list *list;
    weft_report *report;
    char *bytes;
    size_t nbytes;
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "list", &list));
    weft_pass_list_set_certify(list, true);
    must(weft_program_clone(p->before, &p->after));
    must(weft_pass_list_run(list, p->after, &report));
    must(weft_report_certificate(report, &bytes, &nbytes));
    p->text = strdup(bytes);
    weft_bytes_free(context, bytes, nbytes);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
}

static inline void make_golden(pair *p, const char *list) {
    must(weft_program_load(context, "tests/golden/full_list/in.yaml", NULL, &p->before));
    certify(p, list);
}

static inline bool make_fixture(pair *p, const char *file, const char *list) {
    char path[1024];
    if (!fixture_path(path, sizeof path, file)) return false;
    must(weft_program_load(context, path, NULL, &p->before));
    certify(p, list);
    return true;
}

/* A table that is looked up by rows; its gradient is rows too. */
static const char rows_yaml[] =
    "weft: 1\nblocks:\n- vars:\n"
    "    ids: {int64: [-1, 3]}\n    y: {float32: [-1, 3, 4]}\n"
    "    w: {float32: [13, 4], persistable: true, parameter: true, stop_gradient: false}\n"
    "    lr: {float32: [1], persistable: true}\n"
    "    a: {float32: [-1, 3, 4]}\n    s: {float32: [-1, 3, 4]}\n    loss: {float32: []}\n"
    "    loss@GRAD: {float32: []}\n    s@GRAD: {float32: [-1, 3, 4]}\n    a@GRAD: {float32: [-1, 3, 4]}\n"
    "    w@GRAD: {float32: [13, 4], kind: selected_rows}\n"
    "  ops:\n"
    "  - {lookup_table_v2: {Ids: [ids], W: [w]}, out: {Out: [a]}, attrs: {is_sparse: true, op_role: 0}}\n"
    "  - {elementwise_mul: {X: [\"y\"], \"Y\": [a]}, out: {Out: [s]}, attrs: {op_role: 0, axis: -1}}\n"
    "  - {reduce_mean: {X: [s]}, out: {Out: [loss]}, attrs: {op_role: 256, reduce_all: true}}\n"
    "  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {op_role: 257, value: 1.0, dtype: 5, shape: !longs []}}\n"
    "  - {reduce_mean_grad: {X: [s], Out@GRAD: [loss@GRAD]}, out: {X@GRAD: [s@GRAD]}, attrs: {op_role: 1, "
    "reduce_all: true}}\n"
    "  - {elementwise_mul_grad: {X: [\"y\"], \"Y\": [a], Out@GRAD: [s@GRAD]}, out: {\"Y@GRAD\": [a@GRAD]}, attrs: {op_role: 1, "
    "axis: -1}}\n"
    "  - {lookup_table_v2_grad: {Ids: [ids], W: [w], Out@GRAD: [a@GRAD]}, out: {W@GRAD: [w@GRAD]}, attrs: {op_role: 1, "
    "is_sparse: true, op_role_var: [w, w@GRAD]}}\n"
    "  - {sgd: {Param: [w], Grad: [w@GRAD], LearningRate: [lr]}, out: {ParamOut: [w]}, attrs: {op_role: 2}}\n";

/* `in` with the first `from` replaced; takes `in`. */
static inline char *replace(char *in, const char *from, const char *to) {
    char *at = strstr(in, from);
    cr_assert_not_null(at, "the text has no \"%s\":\n%s", from, in);
    size_t head = (size_t)(at - in);
    char *made = malloc(strlen(in) + strlen(to) + 1);
    sprintf(made, "%.*s%s%s", (int)head, in, to, at + strlen(from));
    free(in);
    return made;
}

/* Takes the text. */
static inline void make_yaml(pair *p, char *yaml, const char *list) {
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "yaml", &p->before));
    free(yaml);
    certify(p, list);
}

/* `alike`: all rows look up the same. */
static inline void make_rows(pair *p, bool alike, const char *list) {
    char *yaml = strdup(rows_yaml);
    if (alike) yaml = replace(replace(replace(yaml, "ids: {int64: [-1, 3]}", "ids: {int64: [3]}"),
                                      " a: {float32: [-1, 3, 4]}", " a: {float32: [3, 4]}"),
                              "a@GRAD: {float32: [-1, 3, 4]}", "a@GRAD: {float32: [3, 4]}");
    make_yaml(p, yaml, list);
}

static inline void destroy(pair *p) {
    weft_program_destroy(p->before);
    weft_program_destroy(p->after);
    free(p->text);
}

/* The words are the caller's (free). */
static inline weft_certified check_message(const pair *p, char **out_message) {
    weft_certified verdict;
    char *message;
    size_t nbytes;
    must(weft_certificate_check(p->before, p->after, p->text, strlen(p->text), "test", &verdict, &message, &nbytes));
    *out_message = strdup(message);
    weft_bytes_free(context, message, nbytes);
    return verdict;
}

static inline void expect(const pair *p, weft_certified verdict, const char *message, const char *what) {
    char *found;
    weft_certified is = check_message(p, &found);
    cr_expect_eq(is, verdict, "%s: verdict %d: %s", what, is, found);
    cr_expect(!message || strstr(found, message), "%s: expected \"%s\" in: %s", what, message, found);
    free(found);
}

/* Lets the certificate say that the program after is what it is now. */
static inline void claim_digest(pair *p) {
    char digest[PROGRAM_DIGEST_NBYTES], old[PROGRAM_DIGEST_NBYTES];
    program_digest(p->after, digest);
    const char *at = strstr(p->text, "\"after\": \"");
    snprintf(old, sizeof old, "%.32s", at + strlen("\"after\": \""));
    for (char *there = p->text; (there = strstr(there, old)); there += strlen(old))
        memcpy(there, digest, strlen(digest));
}

#endif
