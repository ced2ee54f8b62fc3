/* Certificates: those of passes hold, once printed and read too. What they say of losses is derived. One of another
 * pair does not hold, and a document that is none does no harm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "proof/certificate/certificate.h"
#include "tests/support/certified.h"

#define RANK "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies"
#define WAITS "insert_comm_wait, schedule_comm_wait"

TestSuite(proof_certificate, .init = set_up, .fini = tear_down);

/* The checker's own list of derivatives has every op that ops.def marks as linear in its outer gradient. A mark that is
 * wrong there is one that somebody wrote down twice. */
Test(proof_certificate, derivatives_are_those_of_the_table) {
    weft_program *p;
    must(weft_program_create(context, &p));
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        weft_op *op;
        if (!(s->effects & OP_LINEAR_GRAD)) continue;
        must(weft_op_create(p, s->type, &op));
        for (size_t k = 0; k < s->ninputs; k++) {
            const char *slot_text = s->inputs[k].name;
            size_t n = strlen(slot_text);
            if (n < 5 || strcmp(slot_text + n - 5, "@GRAD") != 0) continue;
            const name *slot_name = interner_get(&p->names, slot_text, n);
            cr_expect(cert_is_linear(op, slot_name), "%s is not in derivatives.def", s->type);
        }
    }
    weft_program_destroy(p);
}

/* Factors are compared to the precision of a float, and no wider: what counts of ranks make is told apart. */
Test(proof_certificate, factors) {
    double odd = (double)0.353553385f;
    cr_expect_eq(cert_snap((double)(1.0f / 3)), 1.0 / 3);
    cr_expect_eq(cert_snap((double)(1.0f / 1536)), 1.0 / 1536);
    cr_expect_eq(cert_snap(odd), odd, "no fraction of few: products and quotients stay exact");
    cr_expect_eq(cert_snap(0.5 * odd) / cert_snap(odd), 0.5);
    cr_expect(cert_same_factor(0.5, 0.5 * (1 + 1e-7)) && cert_same_factor(-3, -3));
    cr_expect_not(cert_same_factor(0.5, 0.5 * (1 + 1e-6)));
    cr_expect_not(cert_same_factor(1.0 / 1000, 1.0 / 1001));
    cr_expect_not(cert_same_factor(0, 1e-30) || cert_same_factor(1, -1));
}

/* --- that hold ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *file, *list;
} cases[] = {
    {"paddle26/mlp_sgd_dp2/serial.pdmodel", DATA_PARALLEL},
    {"paddle26/mlp_sgd_dp2/rank0.pdmodel", RANK},
    {"paddle26/mlp_sgd_dp2/rank0.pdmodel", "fuse_allreduce_buckets: {mode: concat}"},
    {"paddle26/gpt_tiny_adamw_dp2/serial.pdmodel", DATA_PARALLEL},
    {"paddle26/mlp_adam_dp2_amp/rank0.pdmodel", "prune_grad_scale: {allow_half: true}, overlap_comm, coalesce_grads"},
    {"paddle26/mlp_adam_dp2_amp/serial.pdmodel", DATA_PARALLEL},
    {"paddle26/mlp_dp2_gradmerge/rank0.pdmodel", RANK},
    {"paddle26/mlp_dp2_sharding/rank0.pdmodel", RANK},
    {"paddle26/mlp_dp2_sp2_tworings/rank0.pdmodel", RANK},
    {"paddle26/mlp_dp2_sp2_tworings/rank0.pdmodel", "overlap_comm, coalesce_grads, insert_dependencies"},
    {"paddle26/twoloss_dp2/rank0.pdmodel", RANK},
    {"paddle3/mlp_adam_dp2/serial.pdmodel", DATA_PARALLEL},
    {"torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets: {mode: in_place}, schedule_comm_wait"},
    {"torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets: {mode: coalesced}, schedule_comm_wait"},
    {"torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets: {mode: concat}, schedule_comm_wait"},
    {"torch/ddp/mlp6.w2/before.fx.json",
     "fuse_allreduce_buckets: {mode: concat, bucket_mb: 0.01, first_bucket_mb: 0.01}, fuse_allreduce_buckets"},
    {"torch/commtensor_functional/overlap.w2/before.fx.json", WAITS},
    {"torch/commtensor_functional/broadcast.w2/before.fx.json", WAITS},
    {"torch/commtensor_functional/all_reduce_coalesced.w2/before.fx.json", WAITS},
};

Test(proof_certificate, of_recorded_programs_holds) {
    size_t nskipped = 0, ncases = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < ncases; i++) {
        pair p;
        if (!make_fixture(&p, cases[i].file, cases[i].list)) {
            nskipped++;
            continue;
        }
        expect(&p, WEFT_CERTIFIED, NULL, cases[i].file);
        destroy(&p);
    }
    cr_expect_lt(nskipped, ncases / 2);
}

Test(proof_certificate, of_gathered_rows_holds) {
    pair p;
    cr_assert(make_fixture(&p, "paddle26/sparse_emb_dp2/serial.pdmodel", DATA_PARALLEL));
    expect(&p, WEFT_CERTIFIED, NULL, "sparse_emb");
    destroy(&p);
    for (int alike = 0; alike < 2; alike++) {
        make_rows(&p, alike, DATA_PARALLEL);
        expect(&p, WEFT_CERTIFIED, NULL, "a mean");
        destroy(&p);
        make_rows(&p, alike, "data_parallel: {ranks: 4, reduce: sum}");
        expect(&p, WEFT_CERTIFICATE_BAD, "is the mean", "a sum");
        destroy(&p);
    }
}

/* Rows behind rows are in another order than the batch's. */
Test(proof_certificate, the_order_of_gathered_rows_is_derived) {
    for (int axis = 0; axis < 2; axis++) {
        pair p;
        char op[100], *message;
        snprintf(op, sizeof op, "ops:\n  - {concat: {X: [half, half]}, out: {Out: [ids]}, attrs: {axis: %d}}\n", axis);
        char *yaml = replace(strdup(rows_yaml), "    ids: {", "    half: {int64: [-1, 3]}\n    ids: {");
        yaml = replace(replace(replace(yaml, "ops:\n", op), "X: [\"y\"]", "X: [a]"), "X: [\"y\"]", "X: [a]");
        make_yaml(&p, yaml, "data_parallel: {ranks: 2}");
        cr_expect_eq(check_message(&p, &message), WEFT_CERTIFIED);
        cr_expect_eq(!!strstr(message, "rows of it is not derived of \"ids\""), axis == 0, "axis %d: %s", axis, message);
        free(message);
        destroy(&p);
    }
}

Test(proof_certificate, holds_once_printed_and_read) {
    pair p;
    char *bytes;
    size_t nbytes;
    make_golden(&p, DATA_PARALLEL);
    must(weft_program_print(p.after, WEFT_FORM_YAML, &bytes, &nbytes));
    weft_program_destroy(p.after);
    must(weft_program_parse(context, WEFT_FORM_YAML, bytes, nbytes, NULL, 0, "printed", &p.after));
    weft_bytes_free(context, bytes, nbytes);
    expect(&p, WEFT_CERTIFIED, "values", "a printed program");
    destroy(&p);
}

/* --- how losses of ranks combine ---------------------------------------------------------------------------------- */

/* `s` has a row for each of the batch: [8, 2]. Ops that make the loss of it, and what is claimed of ranks' losses. */
static const struct {
    const char *ops, *reduce;
    weft_certified verdict;
    const char *message;
} losses[] = {
#define MADE(type, in, out, attrs) "  - {" type ": {" in "}, out: {Out: [" out "]}, attrs: {op_role: 0" attrs "}}\n"
#define LOSS(type, in, attrs) "  - {" type ": {" in "}, out: {Out: [loss]}, attrs: {op_role: 256" attrs "}}\n"
#define ALL ", reduce_all: true"
    {LOSS("reduce_mean", "X: [s]", ALL), "mean", WEFT_CERTIFIED, NULL},
    {LOSS("reduce_mean", "X: [s]", ALL), "sum", WEFT_CERTIFICATE_BAD, "is the mean of what ranks compute"},
    {LOSS("reduce_sum", "X: [s]", ALL), "sum", WEFT_CERTIFIED, NULL},
    {LOSS("reduce_sum", "X: [s]", ALL), "mean", WEFT_CERTIFICATE_BAD, "is the sum of what ranks compute"},
    {MADE("reduce_sum", "X: [s]", "each", ", dim: [1]") LOSS("mean", "X: [each]", ""), "mean", WEFT_CERTIFIED, NULL},
    {MADE("reduce_sum", "X: [s]", "each", ", dim: [1]") LOSS("mean", "X: [each]", ""), "sum", WEFT_CERTIFICATE_BAD, ""},
    {MADE("reduce_mean", "X: [s]", "each", ", dim: [-1]") LOSS("reduce_sum", "X: [each]", ALL), "mean",
     WEFT_CERTIFICATE_BAD, "is the sum"},
    {MADE("mean", "X: [s]", "one", "") LOSS("scale", "X: [one]", ", scale: 3.0, bias: 1.0"), "mean", WEFT_CERTIFIED,
     NULL},
    {MADE("mean", "X: [s]", "one", "") LOSS("scale", "X: [one]", ", scale: 3.0, bias: 1.0"), "sum",
     WEFT_CERTIFICATE_BAD, ""},
    {MADE("mean", "X: [s]", "one", "") LOSS("elementwise_add", "X: [one], \"Y\": [rate]", ""), "mean", WEFT_CERTIFIED,
     NULL},
    {MADE("mean", "X: [s]", "one", "") LOSS("elementwise_mul", "X: [one], \"Y\": [one]", ""), "mean", WEFT_CERTIFIED,
     "not derived of \"loss\" (elementwise_mul #3)"},
    {MADE("mish", "X: [s]", "t", "") LOSS("mean", "X: [t]", ""), "sum", WEFT_CERTIFICATE_BAD, "is the mean"},
    {MADE("softmax", "X: [s]", "t", ", axis: 0") LOSS("mean", "X: [t]", ""), "mean", WEFT_CERTIFIED,
     "not derived of \"loss\" (softmax #2)"},
    {MADE("softmax", "X: [s]", "t", ", axis: 1") LOSS("mean", "X: [t]", ""), "sum", WEFT_CERTIFICATE_BAD, ""},
    {MADE("reduce_sum", "X: [s]", "one", ALL) LOSS("scale", "X: [one]", ", scale: 3.0, bias: 1.0"), "sum",
     WEFT_CERTIFIED, "not derived of \"loss\" (scale #3)"},
    {MADE("reduce_sum", "X: [s]", "one", ALL) LOSS("scale", "X: [one]", ", scale: 3.0"), "sum", WEFT_CERTIFIED, NULL},
    {MADE("mean", "X: [s]", "one", "") MADE("reduce_sum", "X: [s]", "two", ALL)
         LOSS("elementwise_add", "X: [one], \"Y\": [two]", ""),
     "sum", WEFT_CERTIFIED, "not derived of \"loss\" (elementwise_add #4)"},
    {MADE("mean", "X: [w]", "one", "") MADE("mean", "X: [s]", "two", "")
         LOSS("elementwise_add", "X: [one], \"Y\": [two]", ""),
     "sum", WEFT_CERTIFICATE_BAD, "is the mean"},
};

static char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *bytes = calloc(1, 20000);
    cr_assert_not_null(f, "%s", path);
    cr_assert_gt(fread(bytes, 1, 19999, f), 0);
    fclose(f);
    return bytes;
}

Test(proof_certificate, how_losses_combine_is_derived) {
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        pair p;
        char list[100];
        char *yaml = read_text("tests/golden/full_list/in.yaml");
        yaml = replace(yaml, "    h: {",
                       "    each: {float32: [8]}\n    one: {float32: []}\n    two: {float32: []}\n"
                       "    t: {float32: [8, 2]}\n    h: {");
        yaml = replace(yaml, LOSS("reduce_mean", "X: [s]", ALL), losses[i].ops);
        must(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "losses", &p.before));
        free(yaml);
        snprintf(list, sizeof list, "data_parallel: {ranks: 2, reduce: %s}", losses[i].reduce);
        certify(&p, list);
        expect(&p, losses[i].verdict, losses[i].message, losses[i].ops);
        if (!losses[i].message) {
            char *message;
            (void)check_message(&p, &message);
            cr_expect_null(strstr(message, "not derived"), "%s: %s", losses[i].ops, message);
            free(message);
        }
        destroy(&p);
    }
}

/* --- others ------------------------------------------------------------------------------------------------------- */

Test(proof_certificate, belongs_to_one_pair) {
    pair p, q;
    make_golden(&p, DATA_PARALLEL);
    make_golden(&q, "data_parallel: {ranks: 4}, coalesce_grads");
    pair mixed = {p.before, q.after, p.text};
    expect(&mixed, WEFT_CERTIFICATE_BAD, "it is another program's: the one after", "another program after");
    mixed = (pair){q.after, p.after, p.text};
    expect(&mixed, WEFT_CERTIFICATE_BAD, "it is another program's: the one before", "another program before");
    destroy(&p);
    destroy(&q);
}

static weft_status do_nothing(weft_pass_context *pass, weft_program *program, void *user) {
    (void)program;
    (void)user;
    return weft_pass_did(pass, "nothing");
}

Test(proof_certificate, a_host_s_pass_gives_none) {
    static const weft_pass host = {.name = "host_pass", .summary = "", .run = do_nothing};
    pair p;
    must(weft_pass_register(context, &host));
    make_golden(&p, "data_parallel: {ranks: 2}, host_pass");
    expect(&p, WEFT_CERTIFICATE_NONE, "pass host_pass gives no certificate", "a host's pass");
    destroy(&p);
}

Test(proof_certificate, only_where_it_was_asked_for) {
    weft_pass_list *list;
    weft_report *report;
    weft_program *program;
    char *bytes;
    size_t nbytes;
    must(weft_pass_list_parse(context, "prune_grad_scale", 16, "list", &list));
    must(weft_program_load(context, "tests/golden/full_list/in.yaml", NULL, &program));
    must(weft_pass_list_run(list, program, &report));
    weft_status status = weft_report_certificate(report, &bytes, &nbytes);
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
}

/* Half a certificate is no certificate, and one with wild numbers does no harm. */
Test(proof_certificate, hostile_documents) {
    pair p;
    char *message;
    size_t message_nbytes;
    weft_certified verdict;
    make_golden(&p, DATA_PARALLEL);
    size_t nbytes = strlen(p.text);
    for (size_t n = 0; n + 2 < nbytes; n += 37) {
        weft_status status =
            weft_certificate_check(p.before, p.after, p.text, n, "half", &verdict, &message, &message_nbytes);
        cr_expect_eq(weft_status_code(status), WEFT_PARSE, "%zu bytes", n);
        weft_status_free(status);
    }
    for (char *at = p.text + 40; (at = strpbrk(at, "0123456789")); at++) {
        char was = *at;
        for (int i = 0; i < 2; i++) {
            *at = i ? '9' : '-';
            weft_status status =
                weft_certificate_check(p.before, p.after, p.text, nbytes, "wild", &verdict, &message, &message_nbytes);
            if (!status) weft_bytes_free(context, message, message_nbytes);
            weft_status_free(status);
        }
        *at = was;
    }
    expect(&p, WEFT_CERTIFIED, NULL, "as it was");
    destroy(&p);
}
