/* The gradient passes on Paddle's rank programs: no more all-reduces and scales than the real pass leaves where that one
 * is right, the expected ones where it is not, and safe by explicit waits. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "passes/grad_sync.h"
#include "tests/support/fixtures.h"
#include "tests/support/grads.h"

#define ALL "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies"

typedef struct expectation {
    const char *name;
    int nreduces, nscales; /* what is left, of data parallelism; nreduces -1: as few as the real pass */
} expectation;

/* twoloss, lenet_bias, resnet18 and paddle3/lenet keep one scale: folding would change what they compute. */
static const expectation cases[] = {
    {"paddle26/mlp_sgd_dp2", 1, 0},
    {"paddle26/mlp_adam_dp2", 1, 0},
    {"paddle26/lenet_momentum_dp2", 1, 0},
    {"paddle26/gpt_tiny_adamw_dp2", 1, 0},
    {"paddle26/gpt_tiny_dp2_mp2", 1, 0},
    {"paddle26/bert_tiny_adamw_dp4", 1, 0},
    {"paddle26/mlp_adam_dp2_lossscale", 1, 0},
    {"paddle26/mlp_adam_dp2_amp", 1, 1},
    {"paddle26/mlp_adam_dp2_amp_bf16", 1, 0},
    {"paddle26/mlp_dp2_recompute", 1, 0},
    {"paddle26/mlp_dp2_sharding", 1, 0},
    {"paddle26/mlp_dp2_gradmerge", 1, 0},
    {"paddle26/mlp_dp2_sp2_tworings", 2, 0},
    {"paddle26/many_params_dp8", -1, 0},
    {"paddle26/gpt_dropout_dp2", 1, 0},
    {"paddle26/gpt_small_dp8", -1, 0},
    {"paddle26/twoloss_dp2", 1, 1},
    {"paddle26/lenet_bias_dp2", 1, 1},
    {"paddle26/resnet18_momentum_dp2", 1, 1},
    {"paddle26/sparse_emb_dp2", 2, 2},
    {"paddle3/mlp_sgd_dp2", 1, 0},
    {"paddle3/mlp_adam_dp2", 1, 0},
    {"paddle3/gpt_tiny_adamw_dp2", 1, 0},
    {"paddle3/gpt_tiny_dp2_mp2", 1, 0},
    {"paddle3/lenet_momentum_dp2", 1, 1},
};

static bool load(weft_context *context, const char *of_case, const char *file, weft_program **out) {
    char relative[256], path[1024];
    snprintf(relative, sizeof relative, "%s/%s.pdmodel", of_case, file);
    if (!fixture_path(path, sizeof path, relative)) {
        snprintf(relative, sizeof relative, "%s/%s.pdmodel.gz", of_case, file);
        if (!fixture_path(path, sizeof path, relative)) return false;
    }
    weft_status status = weft_program_load(context, path, NULL, out);
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
    return true;
}

static void count(const weft_program *p, int *nreduces, int *nscales) {
    *nreduces = *nscales = 0;
    FOR_EACH_OP(op, p->blocks[0]) {
        *nreduces += op_is_grad_reduce(op);
        *nscales += op_is_grad_scale(op);
    }
}

static void check(grads *g, const expectation *e) {
    int nreduces, nscales, real_reduces = 0, real_scales = 0;
    weft_program *real, *once;
    char why[256];
    weft_report *report = grads_passes(g, ALL);
    weft_report_destroy(report);
    count(g->p, &nreduces, &nscales);
    if (e->nreduces >= 0) cr_expect_eq(nreduces, e->nreduces, "%s: %d reduces", e->name, nreduces);
    cr_expect_eq(nscales, e->nscales, "%s: %d scales", e->name, nscales);
    if (load(g->context, e->name, "rank0.after.default", &real)) {
        count(real, &real_reduces, &real_scales);
        cr_expect(nscales > 0 || nreduces <= real_reduces, "%s: %d reduces, the real pass %d", e->name, nreduces,
                  real_reduces);
        weft_program_destroy(real);
    }
    cr_expect(grads_in_order_safe(g->p, why, sizeof why), "%s: %s", e->name, why);
    cr_expect_eq(grads_count(g, "c_wait_compute"), 0);
    cr_assert_null(weft_program_clone(g->p, &once));
    grads_run(g, ALL);
    cr_expect(weft_program_equal(once, g->p), "%s: running it again changes the program", e->name);
    weft_program_destroy(once);
}

Test(passes_fixtures, as_few_reduces_and_scales_as_is_right, .timeout = 300) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grads g = {0};
        cr_assert_null(weft_context_create(NULL, &g.context));
        if (load(g.context, cases[i].name, "rank0", &g.p)) {
            g.b = g.p->blocks[0];
            check(&g, &cases[i]);
            weft_program_destroy(g.p);
        }
        weft_context_destroy(g.context);
    }
}
