/* Certificates: those of passes hold; one with a claim changed or left out, one of a program that is not what it says,
 * and one of another pair do not. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "program/digest.h"
#include "proof/certificate/certificate.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/certificate.h"

#define DATA_PARALLEL                                                                                                  \
    "data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: 32, first_bucket_mb: "     \
    "0.001}, insert_dependencies"
#define RANK "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies"
#define WAITS "insert_comm_wait, schedule_comm_wait"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
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

/* A program before and after a list, and the certificate as text that the test may change. */
typedef struct pair {
    weft_program *before, *after;
    char *text;
} pair;

static void certify(pair *p, const char *list_text) {
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

static void make_golden(pair *p, const char *list) {
    must(weft_program_load(context, "tests/golden/full_list/in.yaml", NULL, &p->before));
    certify(p, list);
}

static bool make_fixture(pair *p, const char *file, const char *list) {
    char path[1024];
    if (!fixture_path(path, sizeof path, file)) return false;
    must(weft_program_load(context, path, NULL, &p->before));
    certify(p, list);
    return true;
}

static void destroy(pair *p) {
    weft_program_destroy(p->before);
    weft_program_destroy(p->after);
    free(p->text);
}

/* The words are the caller's (free). */
static weft_certified check_message(const pair *p, char **out_message) {
    weft_certified verdict;
    char *message;
    size_t nbytes;
    must(weft_certificate_check(p->before, p->after, p->text, strlen(p->text), "test", &verdict, &message, &nbytes));
    *out_message = strdup(message);
    weft_bytes_free(context, message, nbytes);
    return verdict;
}

static void expect(const pair *p, weft_certified verdict, const char *message, const char *what) {
    char *found;
    weft_certified is = check_message(p, &found);
    cr_expect_eq(is, verdict, "%s: verdict %d: %s", what, is, found);
    cr_expect(!message || strstr(found, message), "%s: expected \"%s\" in: %s", what, message, found);
    free(found);
}

/* `in` with the first `from` replaced; takes `in`. */
static char *replace(char *in, const char *from, const char *to) {
    char *at = strstr(in, from);
    cr_assert_not_null(at, "the text has no \"%s\":\n%s", from, in);
    size_t head = (size_t)(at - in);
    char *made = malloc(strlen(in) + strlen(to) + 1);
    sprintf(made, "%.*s%s%s", (int)head, in, to, at + strlen(from));
    free(in);
    return made;
}

/* Lets the certificate say that the program after is what it is now. */
static void claim_digest(pair *p) {
    char digest[PROGRAM_DIGEST_NBYTES], old[PROGRAM_DIGEST_NBYTES];
    program_digest(p->after, digest);
    const char *at = strstr(p->text, "\"after\": \"");
    snprintf(old, sizeof old, "%.32s", at + strlen("\"after\": \""));
    for (char *there = p->text; (there = strstr(there, old)); there += strlen(old))
        memcpy(there, digest, strlen(digest));
}

/* --- that hold ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *file, *list;
} cases[] = {
    {"paddle26/mlp_sgd_dp2/serial.pdmodel", DATA_PARALLEL},
    {"paddle26/mlp_sgd_dp2/rank0.pdmodel", RANK},
    {"paddle26/mlp_sgd_dp2/rank0.pdmodel", "fuse_allreduce_buckets: {mode: concat}"},
    {"paddle26/gpt_tiny_adamw_dp2/serial.pdmodel", DATA_PARALLEL},
    {"paddle26/sparse_emb_dp2/serial.pdmodel", DATA_PARALLEL},
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

/* --- claims that are not true ------------------------------------------------------------------------------------- */

static const struct {
    const char *what, *from, *to, *message;
} claim_mutants[] = {
#include "tests/unit/proof_certificate_claims.inc"
};

Test(proof_certificate, false_claims_are_refused) {
    for (size_t i = 0; i < sizeof claim_mutants / sizeof *claim_mutants; i++) {
        pair p;
        make_golden(&p, DATA_PARALLEL);
        p.text = replace(p.text, claim_mutants[i].from, claim_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, claim_mutants[i].message, claim_mutants[i].what);
        destroy(&p);
    }
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

/* Every claim is needed: without it something is left that none covers. */
static void expect_all_needed(pair *p, const char *what) {
    json_t *root = json_loads(p->text, 0, NULL), *passes = json_object_get(root, "passes"), *pass;
    char *whole = p->text;
    size_t i, nclaims = 0;
    json_array_foreach(passes, i, pass) {
        json_t *claims = json_object_get(pass, "claims");
        for (size_t k = 0; k < json_array_size(claims); k++, nclaims++) {
            json_t *claim = json_incref(json_array_get(claims, k));
            char message[256];
            snprintf(message, sizeof message, "%s without %s of \"%s\"", what,
                     json_string_value(json_object_get(claim, "claim")),
                     json_string_value(json_object_get(claim, "var")));
            json_array_remove(claims, k);
            p->text = json_dumps(root, JSON_COMPACT);
            expect(p, WEFT_CERTIFICATE_BAD, NULL, message);
            free(p->text);
            json_array_insert_new(claims, k, claim);
        }
    }
    cr_expect_gt(nclaims, 3, "%s", what);
    p->text = whole;
    json_decref(root);
}

Test(proof_certificate, every_claim_is_needed) {
    pair p;
    make_golden(&p, "data_parallel: {ranks: 2}, prune_grad_scale, coalesce_grads");
    expect_all_needed(&p, "a bucket");
    destroy(&p);
    make_golden(&p, "data_parallel: {ranks: 2}, coalesce_grads");
    expect_all_needed(&p, "a bucket and its scale");
    destroy(&p);
    if (!make_fixture(&p, "torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets: {mode: in_place}")) return;
    expect_all_needed(&p, "a traced graph");
    destroy(&p);
}

/* --- programs that are not what is claimed ------------------------------------------------------------------------ */

static const struct {
    const char *what, *from, *to, *message;
} program_mutants[] = {
    {"a factor dropped", "value: 0.5", "value: 1.0", "fill_constant #3: claimed to be 0.5 times"},
    {"a factor twice", "value: 0.5", "value: 0.25", "fill_constant #3: claimed to be 0.5 times"},
    {"a slice shifted", "align_size: 256", "align_size: 512", "is claimed to be bytes 256 to 288"},
    {"a member missing", "Input: [b@GRAD, w@GRAD]}, out: {FusedOutput: [coalesce_grad_0], Output: [b@GRAD, w@GRAD]}",
     "Input: [b@GRAD]}, out: {FusedOutput: [coalesce_grad_0], Output: [b@GRAD]}", "\"w@GRAD\" of matmul_v2_grad #6"},
    {"one member alone reduced", "c_allreduce_sum: {X: [coalesce_grad_0]}, out: {Out: [coalesce_grad_0]}",
     "c_allreduce_sum: {X: [w@GRAD]}, out: {Out: [w@GRAD]}", "sgd #11: input \"Grad\": expected 0.5 * sum over ring 0"},
    {"the reduce removed", "c_allreduce_sum: {X: [coalesce_grad_0]}, out: {Out: [coalesce_grad_0]}",
     "nop: {X: [coalesce_grad_0]}, out: {Out: [coalesce_grad_0]}", "is said to be an inserted c_allreduce_sum"},
    {"a maximum", "c_allreduce_sum: {X: [co", "c_allreduce_max: {X: [co", "inserted c_allreduce_sum"},
    {"another ring", "ring_id: 0", "ring_id: 5", "found 0.5 * sum over ring 5 of"},
    {"vars swapped", "Grad: [b@GRAD]", "Grad: [w@GRAD]", "sgd #11: input \"Grad\": expected"},
    {"a parameter updated from the buffer", "Grad: [b@GRAD]", "Grad: [coalesce_grad_0]", "a bucket of 2"},
    {"an activation swapped", "elementwise_add: {X: [h]", "elementwise_add: {X: [w]", "elementwise_add #1"},
    {"an attr", "reduce_all: true}}\n  - {fill", "reduce_all: false}}\n  - {fill", "attr \"reduce_all\""},
    {"a role", "attrs: {op_role: 2}, dist", "attrs: {op_role: 1}, dist", "attr \"op_role\""},
    {"reduced before the last producer",
     "dist: {record: grad_sync/0}}\n  - {nop: {X: [b@GRAD, w@GRAD]}, out: {Out: [co",
     "dist: {record: grad_sync/0}}\n  - {scale: {X: [w@GRAD]}, out: {Out: [w@GRAD]}, attrs: {scale: 2.0}}\n"
     "  - {nop: {X: [b@GRAD, w@GRAD]}, out: {Out: [co",
     "ops"},
    {"a rank's rows", "x: {float32: [4, 4]", "x: {float32: [2, 4]", "feed \"x\" is claimed to be split"},
    {"another stream", "dist: {stream: gradient_sync, record", "dist: {stream: other, record",
     "is claimed to be on stream"},
    {"a ring's ranks", "0: [0, 1]", "0: [0, 1, 2]", "ring 0 is not said to be"},
    {"an element type", "dtype: 5, op_device", "dtype: 6, op_device", "is claimed to be bytes"},
};

static void mutate_program(pair *p, const char *from, const char *to) {
    char *bytes, *yaml;
    size_t nbytes;
    must(weft_program_print(p->after, WEFT_FORM_YAML, &bytes, &nbytes));
    yaml = replace(strdup(bytes), from, to);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(p->after);
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "mutant", &p->after));
    free(yaml);
    claim_digest(p);
}

Test(proof_certificate, mutants_of_the_program_are_refused) {
    for (size_t i = 0; i < sizeof program_mutants / sizeof *program_mutants; i++) {
        pair p;
        make_golden(&p,
                    "data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
        expect(&p, WEFT_CERTIFIED, NULL, program_mutants[i].what);
        mutate_program(&p, program_mutants[i].from, program_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, program_mutants[i].message, program_mutants[i].what);
        destroy(&p);
    }
}

static weft_op *find_op(const pair *p, const char *type) {
    FOR_EACH_OP(op, p->after->blocks[0]) {
        if (op_is(op, type)) return op;
    }
    cr_assert_fail("no %s", type);
    return NULL;
}

Test(proof_certificate, reduced_before_the_last_producer) {
    pair p;
    make_golden(&p, "data_parallel: {ranks: 2}, prune_grad_scale, coalesce_grads");
    weft_op_move_before(find_op(&p, "c_allreduce_sum"), find_op(&p, "matmul_v2_grad"));
    p.text = replace(p.text, "[5, 2], [11, 1], [7, 2]", "[5, 1], [11, 1], [6, 3]");
    claim_digest(&p);
    expect(&p, WEFT_CERTIFICATE_BAD, "expected 0.5 * sum over ring 0 of \"w@GRAD\"", "a reduce too early");
    destroy(&p);
}

/* What an op reads and the checker must see: not what only says order, and not what a bucket is made like. */
static bool is_read(const weft_program *p, const use *u) {
    const weft_op *op = use_op(p, u);
    return !op_is(op, "nop") && !op_is(op, "coalesce_tensor") && use_var(p, u)->block;
}

static bool has_reader(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        if (!u->is_output && is_read(v->program, u)) return true;
    }
    return false;
}

/* Every `step`-th argument of the ops in turn becomes another var; of outputs those that somebody reads. */
static size_t expect_all_seen(pair *p, const char *what, size_t step) {
    weft_block *b = p->after->blocks[0];
    size_t count = 0;
    for (int output = 0; output < 2; output++) {
        FOR_EACH_OP(op, b) {
            FOR_EACH_ARG(op, output, u) {
                weft_var *was = use_var(op->program, u), *other = weft_block_var_at(b, ++count * 7 % b->nvars);
                if (count % step || !is_read(p->after, u) || other == was || (output && !has_reader(was))) continue;
                use_rename(u, other);
                claim_digest(p);
                char message[400];
                snprintf(message, sizeof message, "%s: %s has \"%s\" for \"%s\"", what, op->type->bytes,
                         other->name->bytes, was->name->bytes);
                expect(p, WEFT_CERTIFICATE_BAD, NULL, message);
                use_rename(u, was);
            }
        }
    }
    claim_digest(p);
    expect(p, WEFT_CERTIFIED, NULL, what);
    return count;
}

Test(proof_certificate, every_argument_is_seen) {
    pair p;
    if (!make_fixture(&p, "paddle26/mlp_sgd_dp2/serial.pdmodel", DATA_PARALLEL)) return;
    cr_expect_gt(expect_all_seen(&p, "mlp_sgd", 1), 30);
    destroy(&p);
    if (!make_fixture(&p, "torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets, schedule_comm_wait")) return;
    cr_expect_gt(expect_all_seen(&p, "mlp6", 1), 60);
    destroy(&p);
    if (!make_fixture(&p, "paddle26/gpt_tiny_adamw_dp2/serial.pdmodel", DATA_PARALLEL)) return;
    cr_expect_gt(expect_all_seen(&p, "gpt_tiny", 17), 600);
    destroy(&p);
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
