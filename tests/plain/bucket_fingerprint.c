/* bucket_fingerprint.c: ranks whose buckets have equal sizes and other gradients are distinguished before the first
 * step.
 */
#include <string.h>

#include "program/ir.h"
#include "tests/support/plain.h"
#include "weft/executor.h"
#include "weft/pass.h"
#include "weft/plan.h"

/* relu and all_reduce of each of two inputs, fused; the gradients are called as given. */
static weft_plan *fused_plan(weft_context *context, const char *first, const char *second, weft_program **out) {
    static const char list_text[] = "fuse_allreduce_buckets: {mode: concat}";
    const char *const names[] = {first, second};
    const int64_t dims[] = {4}, ranks[] = {0, 1};
    weft_pass_list *list;
    weft_plan *plan;
    weft_program *p;
    must(weft_program_create(context, &p));
    must(weft_program_set_ring(p, 0, 2, ranks));
    for (size_t i = 0; i < 2; i++) {
        weft_block *b = weft_program_block(p, 0);
        weft_var *x, *grad;
        weft_op *op;
        must(weft_block_add_var(b, i ? "x1" : "x0", WEFT_FP32, 1, dims, &x));
        weft_var_set_persistable(x, true, false);
        must(weft_block_add_var(b, names[i], WEFT_FP32, 1, dims, &grad));
        must(weft_op_create(p, "relu", &op));
        must(weft_op_add_input(op, "X", x));
        must(weft_op_add_output(op, "Out", grad));
        weft_block_insert_before(b, NULL, op);
        must(weft_op_create(p, "c_allreduce_sum", &op));
        must(weft_op_add_input(op, "X", grad));
        must(weft_op_add_output(op, "Out", grad));
        weft_block_insert_before(b, NULL, op);
    }
    must(weft_pass_list_parse(context, list_text, sizeof list_text - 1, "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    must(weft_plan_create(p, NULL, &plan));
    weft_pass_list_destroy(list);
    *out = p;
    return plan;
}

static void compare(weft_context *context, const char *first, const char *second, bool agree) {
    weft_program *programs[2];
    const weft_plan *plans[2] = {fused_plan(context, "a", "b", &programs[0]),
                                 fused_plan(context, first, second, &programs[1])};
    weft_executor *x = NULL;
    weft_status status = weft_executor_create(context, plans, 2, 2, NULL, &x);
    const char *message = status ? weft_status_message(status) : "";
    check(agree == !status, "%s, %s: %s", first, second, message);
    check(agree || (strstr(message, "different gradients") && strstr(message, "rank 1")), "%s", message);
    weft_status_free(status);
    weft_executor_destroy(x);
    for (int i = 0; i < 2; i++) {
        weft_plan_destroy((weft_plan *)plans[i]);
        weft_program_destroy(programs[i]);
    }
}

int main(void) {
    weft_context *context;
    must(weft_context_create(NULL, &context));
    compare(context, "a", "b", true);
    compare(context, "b", "a", false);
    compare(context, "a", "c", false);
    weft_context_destroy(context);
    return report_checks();
}
