/* NaN and infinities in the inputs of every kernel, against what Paddle 2.6.2 made of them
 * (tools/record_not_finite.py). A NaN that Paddle keeps is kept; where Paddle loses one, or has one without a cause,
 * the table below says what Weft does instead. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

typedef struct difference {
    const char *recording, *why;
} difference;

#define NAN_WINS "NaN wins, as in numpy; Paddle loses it"
#define SLOPE_AT_INFINITY "the slope at an infinity; Paddle multiplies it by a mask of 0"
#define LIMIT "the limit; Paddle's formula subtracts infinities, or multiplies one by 0"
#define SQUARE_ROOT "Paddle's square root of infinity is NaN"
#define NO_PLACE "Out is not that of X, since the inputs were changed one by one"
#define ZERO_WEIGHT "a neighbour of weight 0 is not read; Paddle multiplies it by 0"
#define NOT_DATA "what lies beyond a sequence is 0; Paddle multiplies it by 0"
#define ONE_ELEMENT "NaN of one element stays; Paddle fills in a constant"

static const difference differences[] = {
    {"arg_max/ties", NAN_WINS},
    {"arg_min/ties", NAN_WINS},
    {"elementwise_max/ties", NAN_WINS},
    {"elementwise_min/ties", NAN_WINS},
    {"huber_loss_grad/huber_loss.d1", NAN_WINS},
    {"leaky_relu_grad/leaky_relu.a", NAN_WINS},
    {"logcumsumexp/flat", NAN_WINS},
    {"max_pool2d_with_index/a", NAN_WINS},
    {"max_pool3d_with_index/a", NAN_WINS},
    {"maxout/last", NAN_WINS},
    {"reduce_amin/first", NAN_WINS},
    {"log_softmax/zero_d", ONE_ELEMENT},
    {"log_softmax_grad/log_softmax.zero_d", ONE_ELEMENT},
    {"softmax/zero_d", ONE_ELEMENT},
    {"softmax_grad/softmax.zero_d", ONE_ELEMENT},
    {"abs_grad/abs.zero_d", SLOPE_AT_INFINITY},
    {"celu_grad/zero_d", SLOPE_AT_INFINITY},
    {"hard_swish_grad/hard_swish.d", SLOPE_AT_INFINITY},
    {"logsigmoid_grad/f64", SLOPE_AT_INFINITY},
    {"where_grad/where.same", "what was not taken has the gradient 0; Paddle multiplies by 0"},
    {"batch_norm/train_2d", LIMIT},
    {"logcumsumexp_grad/exclusive", LIMIT},
    {"logsigmoid/zero_d", LIMIT},
    {"logsumexp/a", LIMIT},
    {"softshrink/zero_d", LIMIT},
    {"thresholded_relu/zero_d", LIMIT},
    {"p_norm_grad/p_norm.p0", "the gradient is multiplied by 0, and stays NaN; Paddle's is 0"},
    {"erfinv/f64", "an infinity has no inverse; Paddle's is infinite"},
    {"decayed_adagrad/a", SQUARE_ROOT},
    {"norm/l2norm", SQUARE_ROOT},
    {"batch_norm_grad/global", NO_PLACE},
    {"cumprod_grad/zero", NO_PLACE},
    {"reduce_amin_grad/first", NO_PLACE},
    {"linear_interp_v2/mode1", ZERO_WEIGHT},
    {"trilinear_interp_v2/mode1", ZERO_WEIGHT},
    {"rnn/rnn_relu_1_1_lengths", NOT_DATA},
    {"rnn_grad/rnn_relu_1_1_lengths", NOT_DATA},
    {"elementwise_heaviside/a", NAN_WINS},
    {"renorm/one", NAN_WINS},
    {"slogdeterminant/batch", NAN_WINS},
    {"hinge_loss_grad/a", SLOPE_AT_INFINITY},
    {"bpr_loss_grad/a", "a slope of 0 times an infinite gradient; Paddle clips infinities first"},
    {"cholesky_solve_grad/lower", "what lies beyond the triangle is not read; Paddle multiplies it by 0"},
    {"lrn/nhwc", "NaN stays within its windows; Paddle's running sum carries it on"},
    {"angle/real", NAN_WINS},
    {"i0e_grad/f64", "the slope is of X; Paddle's reads Out as well"},
    {"i1_grad/f64", "the slope is of X; Paddle's reads Out as well"},
    {"i1e_grad/f64", "the slope is of X; Paddle's reads Out as well"},
    {"polygamma/n1", LIMIT},
    {"polygamma_grad/n2", LIMIT},
    {"rrelu_grad/test", "the slope is Noise; Paddle's is 1 where X is above 0"},
    {"top_k/a", "NaN is largest, as for top_k_v2"},
};

static bool is_difference(const char *recording) {
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        if (strcmp(differences[i].recording, recording) == 0) return true;
    return false;
}

Test(kernels_not_finite_recorded, as_paddle_has_them) {
    weft_context *context;
    size_t ncompared = 0, ndifferent = 0;
    glob_t found;
    must(weft_context_create(NULL, &context));
    cr_assert_eq(glob("tests/data/not_finite/*/*.pdmodel", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char dir[300], op[200], recording[300], why[400];
        snprintf(dir, sizeof dir, "%s", found.gl_pathv[i]);
        char *variant = strrchr(dir, '/');
        *variant++ = 0;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        snprintf(op, sizeof op, "%s", strrchr(dir, '/') + 1);
        snprintf(recording, sizeof recording, "%s/%s", op, variant);
        ops_result result = ops_fixture_run(context, dir, op, variant, OPS_APART, why, sizeof why);
        ncompared += result != OPS_SKIPPED;
        ndifferent += result == OPS_FAILED;
        if (is_difference(recording))
            cr_expect_neq(result, OPS_PASSED, "%s is as Paddle has it, and the table says that it is not", recording);
        else
            cr_expect_neq(result, OPS_FAILED, "%s: %s", recording, why);
    }
    globfree(&found);
    weft_context_destroy(context);
    cr_assert_gt(ncompared, 300, "only %zu recordings", ncompared);
    cr_assert_lt(ndifferent, ncompared / 8, "%zu of %zu recordings differ", ndifferent, ncompared);
}
