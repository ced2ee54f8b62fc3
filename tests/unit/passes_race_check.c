/* Where passes are proved, the waits between streams are too: a pass may not bring a race into a program that had none.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/grads.h"
#include "tests/support/must.h"

static grads g;

static void set_up(void) {
    grads_create(&g);
    for (int i = 0; i < 2; i++) {
        grads_op(&g, i ? "relu_grad Out=a Out@GRAD=b -> X@GRAD=g1" : "relu_grad Out=a Out@GRAD=c -> X@GRAD=g0");
        grads_sync(&g, i ? "g1" : "g0", 1, 0.25);
    }
    grads_sgd(&g, "w0", "g0");
    grads_sgd(&g, "w1", "g1");
}
static void tear_down(void) {
    grads_destroy(&g);
}
TestSuite(passes_race_check, .init = set_up, .fini = tear_down);

/* A host's pass that computes what the program did, and loses the waits of the ops of a type. */
static weft_status forget_waits(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass;
    FOR_EACH_OP(op, p->blocks[0]) {
        if (!op->dist || !op_is(op, user)) continue;
        op->dist->waits = NULL;
        op_changed(op);
    }
    return NULL;
}

static weft_code run_list(const char *yaml, char *message, size_t nbytes) {
    weft_pass_list *list;
    must(weft_pass_list_parse(g.context, yaml, strlen(yaml), "list", &list));
    weft_status status = weft_pass_list_run(list, g.p, NULL);
    weft_code code = weft_status_code(status);
    snprintf(message, nbytes, "%s", status ? weft_status_message(status) : "");
    weft_status_free(status);
    weft_pass_list_destroy(list);
    return code;
}

Test(passes_race_check, waits_that_overlap_wrote_are_enough) {
    char message[512];
    cr_expect_eq(run_list("prove: require\npasses: [overlap_comm, coalesce_grads, insert_dependencies]", message,
                          sizeof message),
                 WEFT_OK, "%s", message);
}

Test(passes_race_check, a_lost_wait_is_a_race_and_its_pass_is_named) {
    static const char *const types[] = {"sgd", "c_allreduce_sum"};
    for (size_t i = 0; i < 2; i++) {
        char message[512];
        weft_pass forgetful = {.name = "forgetful", .summary = "", .run = forget_waits, .user = (void *)types[i]};
        must(weft_pass_register(g.context, &forgetful));
        cr_expect_eq(run_list("prove: require\npasses: [overlap_comm, forgetful]", message, sizeof message),
                     WEFT_INVALID_PROGRAM, "%s", types[i]);
        cr_expect(strstr(message, "after pass forgetful, read in order: ") && strstr(message, "g0"), "%s", message);
        tear_down();
        set_up();
    }
}

Test(passes_race_check, without_proofs_nobody_looks) {
    char message[512];
    weft_pass forgetful = {.name = "forgetful", .summary = "", .run = forget_waits, .user = (void *)"sgd"};
    must(weft_pass_register(g.context, &forgetful));
    cr_expect_eq(run_list("overlap_comm, forgetful", message, sizeof message), WEFT_OK, "%s", message);
    cr_expect_eq(run_list("prove: require\npasses: [prune_grad_scale]", message, sizeof message), WEFT_OK,
                 "a race that was there before is not the pass's: %s", message);
}
