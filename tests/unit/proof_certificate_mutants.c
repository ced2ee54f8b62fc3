/* Certificates with a claim changed or left out, and those of a program that is not what it says, are refused. */
#include <jansson.h>

#include "tests/support/certified.h"

TestSuite(proof_certificate_mutants, .init = set_up, .fini = tear_down);

/* --- claims that are not true ------------------------------------------------------------------------------------- */

static const struct {
    const char *what, *from, *to, *message;
} claim_mutants[] = {
#include "tests/unit/proof_certificate_claims.inc"
};

Test(proof_certificate_mutants, false_claims_are_refused) {
    for (size_t i = 0; i < sizeof claim_mutants / sizeof *claim_mutants; i++) {
        pair p;
        make_golden(&p, DATA_PARALLEL);
        p.text = replace(p.text, claim_mutants[i].from, claim_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, claim_mutants[i].message, claim_mutants[i].what);
        destroy(&p);
    }
}

static const struct {
    const char *what, *from, *to, *message;
} gather_mutants[] = {
    {"gradients not divided", "\"factor\": 0.5, \"text\": \"Out@GRAD\"", "\"factor\": 1, \"text\": \"Out@GRAD\"",
     "claimed to count 1 times in slot \"Out@GRAD\""},
    {"ids divided", "\"factor\": 1.0, \"text\": \"Ids\"", "\"factor\": 0.5, \"text\": \"Ids\"",
     "claimed to count 0.5 times"},
    {"another slot", "\"factor\": 1.0, \"text\": \"Ids\"", "\"factor\": 1, \"text\": \"W\"", "did not insert"},
    {"another var", "\"var\": \"ids\", \"factor\"", "\"var\": \"w\", \"factor\"", "did not insert"},
    {"another reader", "\"other\": 6, \"var\": \"ids\"", "\"other\": 0, \"var\": \"ids\"", NULL},
    {"ids on all ranks", "\"text\": \"rows\"", "\"text\": \"whole\"", NULL},
    {"by another op", "\"op\": 9, \"other\": 6", "\"op\": 8, \"other\": 6", NULL},
    {"by no op", "\"op\": 9, \"other\": 6", "\"op\": 10, \"other\": 6", "did not insert"},
};

Test(proof_certificate_mutants, false_claims_of_gathered_rows_are_refused) {
    for (size_t i = 0; i < sizeof gather_mutants / sizeof *gather_mutants; i++) {
        pair p;
        make_rows(&p, false, "data_parallel: {ranks: 2}");
        p.text = replace(p.text, gather_mutants[i].from, gather_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, gather_mutants[i].message, gather_mutants[i].what);
        destroy(&p);
    }
}

/* The golden program of any batch: ranks that have different numbers of rows weigh their means. */
static void make_weighed(pair *p, const char *list) {
    weft_program *golden;
    char *bytes, *yaml;
    size_t nbytes;
    must(weft_program_load(context, "tests/golden/full_list/in.yaml", NULL, &golden));
    must(weft_program_print(golden, WEFT_FORM_YAML, &bytes, &nbytes));
    yaml = strdup(bytes);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(golden);
    while (strstr(yaml, "[8, ")) yaml = replace(yaml, "[8, ", "[-1, ");
    make_yaml(p, yaml, list);
}

static const struct {
    const char *what, *from, *to, *message;
} weight_mutants[] = {
    {"rows of what is no feed", "\"weight\", \"op\": 14, \"var\": \"x\"", "\"weight\", \"op\": 14, \"var\": \"w\"",
     "make the weight"},
    {"by another op", "\"weight\", \"op\": 14", "\"weight\", \"op\": 13", "make the weight"},
    {"sums that are weighed", "\"text\": \"mean\"", "\"text\": \"sum\"", NULL},
    {"a gradient that no reduce averages", "\"other\": 6, \"var\": \"w@GRAD\"}", "\"other\": 5, \"var\": \"w@GRAD\"}",
     "neither averaged nor a loss"},
    {"a value that others read", "\"other\": 6, \"var\": \"w@GRAD\"}", "\"other\": 0, \"var\": \"h\"}",
     "neither averaged nor a loss"},
    {"another feed's rows", "\"feed\", \"var\": \"x\", \"text\": \"rows\"",
     "\"feed\", \"var\": \"x\", \"text\": \"whole\"", NULL},
};

Test(proof_certificate_mutants, false_claims_of_weights_are_refused) {
    for (size_t i = 0; i < sizeof weight_mutants / sizeof *weight_mutants; i++) {
        pair p;
        make_weighed(&p, "data_parallel: {ranks: 2, uneven: pad}");
        expect(&p, WEFT_CERTIFIED, NULL, weight_mutants[i].what);
        p.text = replace(p.text, weight_mutants[i].from, weight_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, weight_mutants[i].message, weight_mutants[i].what);
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

Test(proof_certificate_mutants, every_claim_is_needed) {
    pair p;
    make_golden(&p, "data_parallel: {ranks: 2}, prune_grad_scale, coalesce_grads");
    expect_all_needed(&p, "a bucket");
    destroy(&p);
    make_golden(&p, "data_parallel: {ranks: 2}, coalesce_grads");
    expect_all_needed(&p, "a bucket and its scale");
    destroy(&p);
    make_rows(&p, false, "data_parallel: {ranks: 2}");
    expect_all_needed(&p, "rows");
    destroy(&p);
    make_rows(&p, true, "data_parallel: {ranks: 2}");
    expect_all_needed(&p, "rows that all ranks look up");
    destroy(&p);
    make_weighed(&p, "data_parallel: {ranks: 2, uneven: pad}, prune_grad_scale, coalesce_grads");
    expect_all_needed(&p, "rows that are not equally many");
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

Test(proof_certificate_mutants, mutants_of_the_program_are_refused) {
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

static const struct {
    const char *what, *from, *to, *message;
} gather_program_mutants[] = {
    {"of fewer ranks", "nranks: 2", "nranks: 1", "does not gather what all ranks have"},
    {"over another ring", "attrs: {nranks: 2, op_namescope: /auto_parallel/data_parallel, op_role: 1, ring_id: 0",
     "attrs: {nranks: 2, op_namescope: /auto_parallel/data_parallel, op_role: 1, ring_id: 1", NULL},
    {"a sum for the rows", "c_allgather: {X: [a@GRAD]}", "c_allreduce_sum: {X: [a@GRAD]}", NULL},
    {"other rows", "c_allgather: {X: [a@GRAD]}", "c_allgather: {X: [s@GRAD]}", NULL},
    {"a rank's own ids", "Ids: [ids@ALL]", "Ids: [ids]", NULL},
    {"gradients twice", "scale: 0.5", "scale: 1.0", NULL},
};

Test(proof_certificate_mutants, mutants_of_gathered_rows_are_refused) {
    for (size_t i = 0; i < sizeof gather_program_mutants / sizeof *gather_program_mutants; i++) {
        pair p;
        make_rows(&p, false, "data_parallel: {ranks: 2}");
        mutate_program(&p, gather_program_mutants[i].from, gather_program_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, gather_program_mutants[i].message, gather_program_mutants[i].what);
        destroy(&p);
    }
}

static const struct {
    const char *what, *from, *to, *message;
} weight_program_mutants[] = {
    {"of more ranks", "scale: 2.0", "scale: 4.0", "make the weight"},
    {"of another extent", "starts: [0]", "starts: [1]", "make the weight"},
    {"of two extents", "ends: [1]", "ends: [2]", "make the weight"},
    {"of one rank", "{c_allreduce_sum: {X: [dp_rows]}", "{c_allreduce_max: {X: [dp_rows]}", NULL},
    {"of other rows", "shape: {Input: [x]}", "shape: {Input: [w]}", "make the weight"},
    {"upside down", "elementwise_div: {X: [dp_rows_by_ranks], \"Y\": [dp_batch]}",
     "elementwise_div: {X: [dp_batch], \"Y\": [dp_rows_by_ranks]}", "make the weight"},
    {"twice", "elementwise_mul: {X: [w@GRAD], \"Y\": [dp_weight]}", "elementwise_mul: {X: [w@GRAD], \"Y\": [w@GRAD]}",
     NULL},
    {"another gradient", "elementwise_mul: {X: [w@GRAD], \"Y\": [dp_weight]}, out: {Out: [w@GRAD]}",
     "elementwise_mul: {X: [b@GRAD], \"Y\": [dp_weight]}, out: {Out: [b@GRAD]}", NULL},
    {"the loss is not weighed", "elementwise_mul: {X: [loss], \"Y\": [dp_weight]}, out: {Out: [loss]}",
     "elementwise_mul: {X: [loss@GRAD], \"Y\": [dp_weight]}, out: {Out: [loss@GRAD]}", NULL},
    {"by a part of the weight", "\"Y\": [dp_weight]}, out: {Out: [b@GRAD]}", "\"Y\": [dp_batch]}, out: {Out: [b@GRAD]}",
     NULL},
};

Test(proof_certificate_mutants, mutants_of_weights_are_refused) {
    for (size_t i = 0; i < sizeof weight_program_mutants / sizeof *weight_program_mutants; i++) {
        pair p;
        make_weighed(&p, "data_parallel: {ranks: 2, uneven: pad}");
        mutate_program(&p, weight_program_mutants[i].from, weight_program_mutants[i].to);
        expect(&p, WEFT_CERTIFICATE_BAD, weight_program_mutants[i].message, weight_program_mutants[i].what);
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

Test(proof_certificate_mutants, reduced_before_the_last_producer) {
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

Test(proof_certificate_mutants, every_argument_is_seen) {
    pair p;
    if (!make_fixture(&p, "paddle26/mlp_sgd_dp2/serial.pdmodel", DATA_PARALLEL)) return;
    cr_expect_gt(expect_all_seen(&p, "mlp_sgd", 1), 30);
    destroy(&p);
    make_rows(&p, false, "data_parallel: {ranks: 2}");
    cr_expect_gt(expect_all_seen(&p, "rows", 1), 20);
    destroy(&p);
    make_weighed(&p, "data_parallel: {ranks: 2, uneven: pad}, prune_grad_scale, coalesce_grads");
    cr_expect_gt(expect_all_seen(&p, "weights", 1), 40);
    destroy(&p);
    if (!make_fixture(&p, "torch/ddp/mlp6.w2/before.fx.json", "fuse_allreduce_buckets, schedule_comm_wait")) return;
    cr_expect_gt(expect_all_seen(&p, "mlp6", 1), 60);
    destroy(&p);
    if (!make_fixture(&p, "paddle26/gpt_tiny_adamw_dp2/serial.pdmodel", DATA_PARALLEL)) return;
    cr_expect_gt(expect_all_seen(&p, "gpt_tiny", 17), 600);
    destroy(&p);
}
