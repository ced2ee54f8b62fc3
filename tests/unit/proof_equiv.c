/* Equivalence of two programs: each rule with a pair that is equal and with pairs that are not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/ir.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"
#include "weft/pass.h"

/* s is a seed, g and h its gradients, w and v what they update. Rings: 1 is ranks 0 1 2 3, 2 is 0 1 and 3 is 0 2 of a
 * mesh of 2 x 2, 4 is 0 1 2 and 6 is 2 3. */
static const char *const vars[] = {
    "var x float32 4,8",
    "var s float32 4,8",
    "var g float32 4,8",
    "var h float32 4,8",
    "var t float32 4,8",
    "var lr float32 1 persist",
    "var one float32 1",
    "var w float32 4,8 persist",
    "var v float32 4,8 persist",
    "var F float32 64",
    "var g1 float32 32",
    "var h1 float32 32",
    "var b float32 64",
    "var s16 float16 4,8",
    "var g16 float16 4,8",
    "var i int64 4,8",
    "var n int64 4,8 persist",
    "var found bool 1 persist",
    "var c bool 1",
    "var loss_scale float32 1 persist",
    "var y float32 4,8",
    "var m uint8 4,8",
    "var k float32 1 persist",
    "var d float64 4,8",
    "var row float32 4,1,8",
    "var column float32 4,8,1",
    "var rest float32 8,1,4",
    "var z complex64 4,8",
    "var mask int32 1",
};

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_equiv, .init = set_up, .fini = tear_down);

static void set_rings(weft_program *p) {
    static const struct {
        int64_t id, n, ranks[4];
    } rings[] = {{1, 4, {0, 1, 2, 3}}, {2, 2, {0, 1}}, {3, 2, {0, 2}},   {4, 3, {0, 1, 2}},
                 {6, 2, {2, 3}},       {7, 2, {1, 0}}, {8, 3, {2, 1, 0}}};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        must(weft_program_set_ring(p, rings[i].id, (size_t)rings[i].n, rings[i].ranks));
    const mesh *m;
    must(program_add_mesh(p, &(mesh){2, (const int64_t[]){2, 2}, (const int64_t[]){0, 1, 2, 3}, NULL}, &m));
}

/* Ops are separated by ";"; "block" begins block 1. */
static weft_program *make(const char *ops) {
    const char *lines[128];
    size_t n = 0;
    char *copy = strdup(ops), *keep = NULL;
    for (; n < sizeof vars / sizeof *vars; n++) lines[n] = vars[n];
    size_t first = n;
    for (char *op = strtok_r(copy, ";", &keep); op; op = strtok_r(NULL, ";", &keep)) {
        char *line = malloc(strlen(op) + 4);
        bool is_block = strcmp(op, "block") == 0;
        sprintf(line, "%s%s", is_block ? "" : "op ", op);
        lines[n++] = line;
    }
    weft_program *p = small_program(context, lines, n);
    while (n > first) free((char *)lines[--n]);
    free(copy);
    set_rings(p);
    return p;
}

#define SEED(value) "fill_constant -> Out=s | value=" value " shape=[4,8];"
#define GRADS "relu_grad Out=x Out@GRAD=s -> X@GRAD=g;tanh_grad Out=x Out@GRAD=s -> X@GRAD=h;"
#define REDUCE(v, ring) "c_allreduce_sum X=" v " -> Out=" v " | ring_id=" ring ";"
#define SCALE(v, f) "scale X=" v " -> Out=" v " | scale=" f ";"
#define SGD "sgd Param=w Grad=g LearningRate=lr -> ParamOut=w;sgd Param=v Grad=h LearningRate=lr -> ParamOut=v;"
#define BOTH(f) REDUCE("g", "1") REDUCE("h", "1") SCALE("g", f) SCALE("h", f)
#define COALESCE "coalesce_tensor Input=g,h -> FusedOutput=F Output=g,h | dtype=5 align_size=256;"
#define COALESCED(align, shapes, ranks)                                                                                \
    "coalesce_tensor Input=g,h -> FusedOutput=F Output=g,h | dtype=5 align_size=" align " concated_shapes=" shapes     \
    " concated_ranks=" ranks ";"
/* Five numbers of 24 bits, and the same in another order. */
#define FIVE_SCALES(v) SCALE(v, "0.9") SCALE(v, "0.1") SCALE(v, "0.9") SCALE(v, "0.3") SCALE(v, "0.7")
#define SAME_SCALES(v) SCALE(v, "0.7") SCALE(v, "0.3") SCALE(v, "0.1") SCALE(v, "0.9") SCALE(v, "0.9")
#define TANH "tanh_grad Out=x Out@GRAD=s -> X@GRAD=g;"
#define PLAIN SEED("1.0") GRADS BOTH("0.25") SGD
#define FLATTEN(from, to) "reshape2 X=" from " -> Out=" to " | shape=[-1];"
#define UNFLATTEN(from, to) "reshape2 X=" from " -> Out=" to " | shape=[4,8];"
#define SLICE(to, a, b) "slice Input=b -> Out=" to " | axes=[0] starts=[" a "] ends=[" b "];"
#define BUCKET(a, b, c, d)                                                                                             \
    SEED("1.0")                                                                                                        \
    GRADS FLATTEN("g", "g1") FLATTEN("h", "h1") "concat X=g1,h1 -> Out=b | axis=0;" REDUCE("b", "1") SLICE("g1", a, b) \
        SLICE("h1", c, d) UNFLATTEN("g1", "g") UNFLATTEN("h1", "h") SCALE("g", "0.25") SCALE("h", "0.25") SGD

#define FILLS(all, one)                                                                                                \
    "fill_constant -> Out=g | value=" all " shape=[4,8] dtype=5;fill_constant -> Out=one | value=" one                 \
    " shape=[1] dtype=5;"
#define CHOOSE(a, b)                                                                                                   \
    "fill_constant -> Out=mask | value=1.0 shape=[1] dtype=2;select_input X=" a "," b " Mask=mask -> Out=g;"
#define TURN(to, axis)                                                                                                 \
    "reshape2 X=x -> Out=row | shape=[4,1,8];transpose2 X=row -> Out=" to " | axis=" axis ";"                          \
    "reshape2 X=" to " -> Out=g | shape=[4,8];" SGD

typedef struct row {
    const char *what, *before, *after;
    weft_grade grade;
    const char *message; /* part of the first finding's; NULL: any */
} row;

static const row rows[] = {
    {"the same", PLAIN, PLAIN, WEFT_SAME_BITS, NULL},
    {"reduces in another order", PLAIN,
     SEED("1.0") GRADS REDUCE("h", "1") SCALE("h", "0.25") REDUCE("g", "1") SCALE("g", "0.25") SGD, WEFT_SAME_BITS,
     NULL},

/* messages */
#define SEND(v, peer) "send_v2 X=" v " | ring_id=1 peer=" peer ";"
#define RECV(v, peer) "recv_v2 -> Out=" v " | ring_id=1 peer=" peer " dtype=5 out_shape=[4,8];"
    {"sends in another order", SEND("x", "1") SEND("y", "1"), SEND("y", "1") SEND("x", "1"), WEFT_NOT_PROVED, NULL},
    {"to others in another order", SEND("x", "1") SEND("y", "2"), SEND("y", "2") SEND("x", "1"), WEFT_SAME_BITS, NULL},
    {"something else is sent", SEND("x", "1"), "relu X=x -> Out=x;" SEND("x", "1"), WEFT_NOT_PROVED, NULL},
    {"one is not sent", SEND("x", "1") SEND("y", "1"), SEND("x", "1"), WEFT_NOT_PROVED, NULL},
    {"received in another order", RECV("g", "1") RECV("h", "1") SGD, RECV("h", "1") RECV("g", "1") SGD, WEFT_NOT_PROVED,
     NULL},
    {"from others in another order", RECV("g", "1") RECV("h", "2") SGD, RECV("h", "2") RECV("g", "1") SGD,
     WEFT_SAME_BITS, NULL},

    /* factors */
    {"a factor folded into the seed", PLAIN, SEED("0.25") GRADS REDUCE("g", "1") REDUCE("h", "1") SGD, WEFT_SAME_REALS,
     NULL},
    {"factors beyond 64 bits, folded into the seed", SEED("1.0") TANH FIVE_SCALES("g") REDUCE("g", "1") SGD,
     SEED("1.0") SAME_SCALES("s") TANH REDUCE("g", "1") SGD, WEFT_SAME_REALS, NULL},
    {"one of them is another", SEED("1.0") TANH FIVE_SCALES("g") SCALE("g", "0.7") REDUCE("g", "1") SGD,
     SEED("1.0") SAME_SCALES("s") SCALE("s", "0.6") TANH REDUCE("g", "1") SGD, WEFT_NOT_PROVED, NULL},
    {"a factor dropped", PLAIN, SEED("1.0") GRADS REDUCE("g", "1") REDUCE("h", "1") SGD, WEFT_NOT_PROVED,
     "1/4 * all_red"},
    {"a factor twice", PLAIN, SEED("0.25") GRADS BOTH("0.25") SGD, WEFT_NOT_PROVED, "1/16 * all_reduce"},
    {"a factor dropped from one", PLAIN, SEED("0.25") GRADS REDUCE("g", "1") BOTH("1.0") SGD, WEFT_NOT_PROVED, NULL},
    {"a third as a float", SEED("1.0") GRADS REDUCE("g", "4") SCALE("g", "0.333333343") SGD,
     SEED("0.333333343") GRADS REDUCE("g", "4") SCALE("h", "3.0") SGD, WEFT_SAME_REALS, NULL},
    {"a third, not quite", SEED("1.0") GRADS REDUCE("g", "4") SCALE("g", "0.3333") SGD,
     SEED("0.333333343") GRADS REDUCE("g", "4") SCALE("h", "3.0") SGD, WEFT_NOT_PROVED, NULL},
    {"a mean is a sum by the size", SEED("1.0") GRADS REDUCE("g", "4") SCALE("g", "0.333333343") SGD,
     SEED("1.0") GRADS "c_allreduce_avg X=g -> Out=g | ring_id=4;" SGD, WEFT_SAME_REALS, NULL},
    {"a mean is no sum", SEED("1.0") GRADS REDUCE("g", "4") SGD,
     SEED("1.0") GRADS "c_allreduce_avg X=g -> Out=g | ring_id=4;" SGD, WEFT_NOT_PROVED, NULL},
    {"past a function that is not linear", "scale X=x -> Out=g | scale=0.5;relu X=g -> Out=g;" SGD,
     "relu X=x -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_NOT_PROVED, "relu.Out(1/2 * x)"},
    {"past a product's X", "scale X=x -> Out=g | scale=0.5;elementwise_mul X=g Y=y -> Out=g;" SGD,
     "elementwise_mul X=x Y=y -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_SAME_REALS, NULL},
    {"past a product's Y", "scale X=y -> Out=t | scale=0.5;elementwise_mul X=x Y=t -> Out=g;" SGD,
     "elementwise_mul X=x Y=y -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_SAME_REALS, NULL},
    {"another factor past a product's Y", "scale X=y -> Out=t | scale=0.5;elementwise_mul X=x Y=t -> Out=g;" SGD,
     "elementwise_mul X=x Y=y -> Out=g;scale X=g -> Out=g | scale=0.25;" SGD, WEFT_NOT_PROVED, NULL},
    {"past a quotient's Y", "scale X=y -> Out=t | scale=0.5;elementwise_div X=x Y=t -> Out=g;" SGD,
     "elementwise_div X=x Y=y -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_NOT_PROVED, NULL},
    {"past a type that is not known", "scale X=x -> Out=g | scale=0.5;my_op X=g -> Out=g;" SGD,
     "my_op X=x -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_NOT_PROVED, "my_op.Out(1/2 * x)"},
    {"through complex numbers", "scale X=x -> Out=g | scale=0.5;complex X=g Y=g -> Out=z;imag X=z -> Out=g;" SGD,
     "complex X=x Y=x -> Out=z;imag X=z -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_SAME_REALS, NULL},
    {"through one part of a complex number",
     "scale X=x -> Out=g | scale=0.5;complex X=g Y=x -> Out=z;imag X=z -> Out=g;" SGD,
     "complex X=x Y=x -> Out=z;imag X=z -> Out=g;scale X=g -> Out=g | scale=0.5;" SGD, WEFT_NOT_PROVED, NULL},
    {"past a choice of two", "scale X=x -> Out=g | scale=0.5;scale X=y -> Out=t | scale=0.5;" CHOOSE("g", "t") SGD,
     CHOOSE("x", "y") "scale X=g -> Out=g | scale=0.5;" SGD, WEFT_SAME_REALS, NULL},
    {"of one of the two", "scale X=x -> Out=g | scale=0.5;" CHOOSE("g", "y") SGD,
     CHOOSE("x", "y") "scale X=g -> Out=g | scale=0.5;" SGD, WEFT_NOT_PROVED, NULL},
    {"an extent of 1 changes its place", TURN("column", "[0,2,1]"), "assign X=x -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"so it does in a gradient",
     "reshape2 X=x -> Out=row | shape=[4,1,8];"
     "transpose2_grad Out@GRAD=row -> X@GRAD=column | axis=[0,2,1];reshape2 X=column -> Out=g | shape=[4,8];" SGD,
     "assign X=x -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"another extent does", TURN("rest", "[2,1,0]"), "assign X=x -> Out=g;" SGD, WEFT_NOT_PROVED, NULL},
    {"as long as another tensor", "fill_constant_batch_size_like Input=x -> Out=g | value=2.0 shape=[1,8] dtype=5;" SGD,
     "fill_constant -> Out=g | value=2.0 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"with the number in words",
     "fill_constant_batch_size_like Input=x -> Out=g | value=2.0 str_value=3e0 shape=[1,8] dtype=5;" SGD,
     "fill_constant -> Out=g | value=3.0 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"with another number", "fill_constant_batch_size_like Input=x -> Out=g | value=2.0 shape=[1,8] dtype=5;" SGD,
     "fill_constant -> Out=g | value=3.0 shape=[4,8] dtype=5;" SGD, WEFT_NOT_PROVED, NULL},
    {"constants that are added up", FILLS("1.0", "2.0") "elementwise_add X=g Y=one -> Out=g;" SGD,
     "fill_constant -> Out=g | value=3.0 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"and a zero", FILLS("-9e15", "0.0") "elementwise_add X=g Y=one -> Out=g;" SGD,
     "fill_constant -> Out=g | value=-9e15 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"to another sum", FILLS("1.0", "2.0") "elementwise_add X=g Y=one -> Out=g;" SGD,
     "fill_constant -> Out=g | value=2.0 shape=[4,8] dtype=5;" SGD, WEFT_NOT_PROVED, NULL},
    {"a constant that is repeated", FILLS("1.0", "2.0") "expand_v2 X=one -> Out=g | shape=[4,8];" SGD,
     "fill_constant -> Out=g | value=2.0 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"what is no constant and repeated", "expand_v2 X=lr -> Out=g | shape=[4,8];" SGD,
     "fill_constant -> Out=g | value=2.0 shape=[4,8] dtype=5;" SGD, WEFT_NOT_PROVED, NULL},
    {"a constant of another type",
     "fill_constant -> Out=s16 | value=2.0 shape=[4,8] dtype=4;cast X=s16 -> Out=g | in_dtype=4 out_dtype=5;" SGD,
     "fill_constant -> Out=g | value=2.0 shape=[4,8] dtype=5;" SGD, WEFT_SAME_BITS, NULL},
    {"one that was rounded",
     "fill_constant -> Out=s16 | value=0.1 shape=[4,8] dtype=4;cast X=s16 -> Out=g | in_dtype=4 out_dtype=5;" SGD,
     "fill_constant -> Out=g | value=0.1 shape=[4,8] dtype=5;" SGD, WEFT_SAME_RANGE, NULL},
    {"with a bias", "scale X=x -> Out=g | scale=0.5 bias=1.0;scale X=g -> Out=g | scale=0.5;" SGD,
     "scale X=x -> Out=g | scale=0.25 bias=1.0;" SGD, WEFT_NOT_PROVED, NULL},
    {"a bias is a sum with a constant", "scale X=x -> Out=g | scale=0.5 bias=1.5;" SGD,
     "scale X=x -> Out=g | scale=0.5;" SEED("1.5") "elementwise_add X=g Y=s -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"a bias before the factor", "scale X=x -> Out=g | scale=0.5 bias=3.0 bias_after_scale=false;" SGD,
     "scale X=x -> Out=g | scale=0.5 bias=1.5;" SGD, WEFT_SAME_REALS, NULL},
    {"another bias", "scale X=x -> Out=g | scale=0.5 bias=1.5;" SGD,
     "scale X=x -> Out=g | scale=0.5;" SEED("1.25") "elementwise_add X=g Y=s -> Out=g;" SGD, WEFT_NOT_PROVED, NULL},
    {"the gradient of a quotient by a constant",
     SEED("4.0") "elementwise_div_grad X=x Y=s Out=t Out@GRAD=y -> X@GRAD=g | axis=-1;" SGD,
     "scale X=y -> Out=g | scale=0.25;" SGD, WEFT_SAME_REALS, NULL},
    {"by another", SEED("4.0") "elementwise_div_grad X=x Y=s Out=t Out@GRAD=y -> X@GRAD=g | axis=-1;" SGD,
     "scale X=y -> Out=g | scale=4.0;" SGD, WEFT_NOT_PROVED, NULL},
    {"the gradient of a product's Y, by a constant",
     SEED("4.0") "elementwise_mul_grad X=x Y=s Out@GRAD=y -> Y@GRAD=g | axis=-1;" SGD,
     "scale X=y -> Out=g | scale=4.0;" SGD, WEFT_NOT_PROVED, NULL},
    {"the sign of a positive multiple", "scale X=x -> Out=g | scale=0.5;sign X=g -> Out=g;" SGD,
     "sign X=x -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"the sign of a negative multiple", "scale X=x -> Out=g | scale=-0.5;sign X=g -> Out=g;" SGD,
     "sign X=x -> Out=g;" SGD, WEFT_NOT_PROVED, NULL},
    {"of integers", "scale X=i -> Out=i | scale=3.0;scale X=i -> Out=n | scale=0.5;",
     "scale X=i -> Out=i | scale=0.5;scale X=i -> Out=n | scale=3.0;", WEFT_NOT_PROVED, NULL},
    {"past a maximum over ranks", SEED("0.5") GRADS "c_allreduce_max X=g -> Out=g | ring_id=1;" SGD,
     SEED("1.0") GRADS "c_allreduce_max X=g -> Out=g | ring_id=1;" SCALE("g", "0.5") SCALE("h", "0.5") SGD,
     WEFT_NOT_PROVED, "all_reduce max"},

    {"an element type that says what is so by default", "reduce_sum X=x -> Out=g | dim=[0] in_dtype=5 out_dtype=5;" SGD,
     "reduce_sum X=x -> Out=g | dim=[0];" SGD, WEFT_SAME_BITS, NULL},
    {"an element type that says otherwise", "reduce_sum X=x -> Out=g | dim=[0] out_dtype=6;" SGD,
     "reduce_sum X=x -> Out=g | dim=[0];" SGD, WEFT_NOT_PROVED, NULL},

    /* buckets */
    {"a bucket", PLAIN, SEED("1.0") COALESCE GRADS REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_SAME_BITS, NULL},
    {"a bucket and its members' scales", PLAIN,
     SEED("1.0") COALESCE GRADS REDUCE("F", "1") SCALE("g", "0.25") SCALE("h", "0.25") SGD, WEFT_SAME_BITS, NULL},
    {"a buffer of another element type", PLAIN,
     SEED("1.0") "coalesce_tensor Input=g,h -> FusedOutput=F Output=g,h | dtype=4 align_size=256;" GRADS REDUCE(
         "F", "1") SCALE("F", "0.25") SGD,
     WEFT_NOT_PROVED, NULL},
    {"a bucket of members under other extents", PLAIN,
     SEED("1.0") COALESCED("256", "[32,8,4]", "[1,2]") GRADS REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_SAME_BITS,
     NULL},
    {"a member that is larger than said, within its padding", PLAIN,
     SEED("1.0") COALESCED("256", "[8,32]", "[1,1]") GRADS REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_SAME_BITS,
     NULL},
    {"a member that runs into the next", PLAIN,
     SEED("1.0") COALESCED("64", "[8,32]", "[1,1]") GRADS REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_NOT_PROVED,
     "a buffer of other elements"},
    {"a member that runs out of the buffer", PLAIN,
     SEED("1.0") COALESCED("64", "[32,8]", "[1,1]") GRADS REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_NOT_PROVED,
     NULL},
    {"a member missing", PLAIN,
     SEED("1.0") "coalesce_tensor Input=g -> FusedOutput=F Output=g | dtype=5 align_size=256;" GRADS REDUCE("F", "1")
         SCALE("F", "0.25") SGD,
     WEFT_NOT_PROVED, NULL},
    {"reduced before its last producer", PLAIN,
     SEED("1.0") COALESCE "relu_grad Out=x Out@GRAD=s -> X@GRAD=g;" REDUCE("F", "1")
         SCALE("F", "0.25") "tanh_grad Out=x Out@GRAD=s -> X@GRAD=h;" SGD,
     WEFT_NOT_PROVED, NULL},
    {"reduced before any producer", PLAIN, SEED("1.0") COALESCE REDUCE("F", "1") SGD, WEFT_NOT_PROVED,
     "undefined bytes of"},
    {"another ring", PLAIN, SEED("1.0") COALESCE GRADS REDUCE("F", "2") SCALE("F", "0.25") SGD, WEFT_NOT_PROVED,
     "over ranks 0,1("},
    {"views bound too late", PLAIN, SEED("1.0") GRADS COALESCE REDUCE("F", "1") SCALE("F", "0.25") SGD, WEFT_NOT_PROVED,
     "undefined bytes of"},
    {"a concatenation", PLAIN, BUCKET("0", "32", "32", "64"), WEFT_SAME_BITS, NULL},
    {"slices exchanged", PLAIN, BUCKET("32", "64", "0", "32"), WEFT_NOT_PROVED, NULL},
    {"a slice shifted", PLAIN, BUCKET("1", "33", "32", "64"), WEFT_NOT_PROVED, "slice[1 31]"},

    /* rings */
    {"a chain of rings that make a grid", SEED("1.0") GRADS REDUCE("g", "2") REDUCE("g", "3") SGD,
     SEED("1.0") GRADS REDUCE("g", "1") SGD, WEFT_SAME_REALS, NULL},
    {"the chain's other order", SEED("1.0") GRADS REDUCE("g", "2") REDUCE("g", "3") SGD,
     SEED("1.0") GRADS REDUCE("g", "3") REDUCE("g", "2") SGD, WEFT_SAME_REALS, NULL},
    {"one ring twice", SEED("1.0") GRADS REDUCE("g", "2") REDUCE("g", "2") SGD, SEED("1.0") GRADS REDUCE("g", "1") SGD,
     WEFT_NOT_PROVED, NULL},
    {"rings that do not meet", SEED("1.0") GRADS REDUCE("g", "2") REDUCE("g", "6") SGD,
     SEED("1.0") GRADS REDUCE("g", "1") SGD, WEFT_NOT_PROVED, NULL},

    /* element types */
    {"widened, then narrowed",
     "cast X=s16 -> Out=t | in_dtype=4 out_dtype=5;cast X=t -> Out=g16 | in_dtype=5 out_dtype=4;"
     "my_op X=g16 -> Out=w;",
     "my_op X=s16 -> Out=w;", WEFT_SAME_BITS, NULL},
    {"narrowed, then widened",
     "cast X=x -> Out=g16 | in_dtype=5 out_dtype=4;cast X=g16 -> Out=g | in_dtype=4 out_dtype=5;" SGD,
     "assign X=x -> Out=g;" SGD, WEFT_NOT_PROVED, NULL},
    {"cast to another type", "cast X=x -> Out=d | out_dtype=6;my_op X=d -> Out=w;",
     "cast X=x -> Out=s16 | out_dtype=4;my_op X=s16 -> Out=w;", WEFT_NOT_PROVED, NULL},
    {"before a sum in fp16",
     "scale X=s16 -> Out=g16 | scale=0.5;" REDUCE("g16", "1") "cast X=g16 -> Out=g | out_dtype=5;" SGD,
     REDUCE("s16", "1") "scale X=s16 -> Out=g16 | scale=0.5;cast X=g16 -> Out=g | out_dtype=5;" SGD, WEFT_SAME_RANGE,
     NULL},
    {"before a check for infinities",
     SCALE("x", "0.5") "check_finite_and_unscale X=x,y Scale=loss_scale -> Out=g,h FoundInfinite=found;" SGD,
     "check_finite_and_unscale X=x,y Scale=loss_scale -> Out=g,h FoundInfinite=found;" SCALE("g", "0.5") SGD,
     WEFT_SAME_RANGE, NULL},
    {"a check's list in another order",
     "check_finite_and_unscale X=x,y Scale=loss_scale -> Out=g,h FoundInfinite=found;" SGD,
     "check_finite_and_unscale X=y,x Scale=loss_scale -> Out=h,g FoundInfinite=found;" SGD, WEFT_NOT_PROVED, NULL},

    /* sums */
    {"a sum's order", "sum X=x,y,t -> Out=g;" SGD, "sum X=t,y,x -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"a sum and additions", "sum X=x,y,t -> Out=g;" SGD,
     "elementwise_add X=x Y=y -> Out=g;elementwise_add X=t Y=g -> Out=g;" SGD, WEFT_SAME_REALS, NULL},
    {"twice the same is two of it", "sum X=x,y,x -> Out=g;" SGD, SCALE("x", "2.0") "sum X=x,y -> Out=g;" SGD,
     WEFT_SAME_REALS, NULL},
    {"the gradient of a sum", "elementwise_add_grad X=x Y=y Out@GRAD=s -> X@GRAD=g Y@GRAD=h;" SGD,
     "assign X=s -> Out=g;assign X=s -> Out=h;" SGD, WEFT_SAME_BITS, NULL},
    {"the gradient of what a sum repeats", "elementwise_add_grad X=x Y=lr Out@GRAD=s -> X@GRAD=g Y@GRAD=k;" SGD,
     "assign X=s -> Out=g;assign X=lr -> Out=k;" SGD, WEFT_NOT_PROVED, NULL},
    {"which of two ranks is first", "c_allreduce_sum X=x -> Out=g | ring_id=2;" SGD,
     "c_allreduce_sum X=x -> Out=g | ring_id=7;" SGD, WEFT_SAME_BITS, NULL},
    {"which of three ranks is first", "c_allreduce_sum X=x -> Out=g | ring_id=4;" SGD,
     "c_allreduce_sum X=x -> Out=g | ring_id=8;" SGD, WEFT_NOT_PROVED, NULL},
    {"an argument less", "sum X=x,y,t -> Out=g;" SGD, "sum X=x,y -> Out=g;" SGD, WEFT_NOT_PROVED, NULL},

    /* what changes nothing, and what is not a function of its inputs alone */
    {"names, waits and copies", "relu X=x -> Out=g;" SGD,
     "relu X=x -> Out=t;nop X=t -> Out=g;c_wait_compute X=t -> Out=t;share_data X=t -> Out=y;assign X=y -> Out=g;"
     "depend X=g Dep=t -> Out=g;" SGD,
     WEFT_SAME_BITS, NULL},
    {"random numbers", "dropout X=x -> Out=g Mask=m | dropout_prob=0.5;" SGD,
     "dropout X=x -> Out=g Mask=m | dropout_prob=0.5;" SGD, WEFT_SAME_BITS, NULL},
    {"other random numbers", "dropout X=x -> Out=g Mask=m | dropout_prob=0.5;" SGD,
     "dropout X=x -> Out=t Mask=m | dropout_prob=0.5;assign X=t -> Out=g;" SGD, WEFT_NOT_PROVED, "random numbers of t"},
    {"drawn once more before", "dropout X=x -> Out=g Mask=m | dropout_prob=0.5;" SGD,
     "dropout X=y -> Out=g Mask=m | dropout_prob=0.5;dropout X=x -> Out=g Mask=m | dropout_prob=0.5;" SGD,
     WEFT_NOT_PROVED, NULL},
    {"a type that is not known", "my_op X=x -> Out=g | deep=1;" SGD, "my_op X=x -> Out=g | deep=1 op_role=1;" SGD,
     WEFT_SAME_BITS, NULL},
    {"of which an attr changed", "my_op X=x -> Out=g | deep=1;" SGD, "my_op X=x -> Out=g | deep=2;" SGD,
     WEFT_NOT_PROVED, NULL},
    {"a default said", "softmax X=x -> Out=g;" SGD, "softmax X=x -> Out=g | axis=-1;" SGD, WEFT_SAME_BITS, NULL},
    {"an attr that is no default", "softmax X=x -> Out=g;" SGD, "softmax X=x -> Out=g | axis=0;" SGD, WEFT_NOT_PROVED,
     NULL},
    {"a fetched value", "scale X=x -> Out=g | scale=0.5;fetch X=g -> | col=0;",
     "scale X=x -> Out=g | scale=0.25;fetch X=g -> | col=0;", WEFT_NOT_PROVED,
     "expected 1/2 * x\n         found 1/4 * x"},
    {"a fetch that is gone", "fetch X=x -> | col=0;", "relu X=x -> Out=g;", WEFT_NOT_PROVED, "gone"},

    /* blocks */
    {"a condition", "conditional_block Cond=c -> Out=w | sub_block=@1;block;" SGD,
     "conditional_block Cond=c -> Out=w | sub_block=@1;block;" SGD, WEFT_SAME_BITS, NULL},
    {"a factor within it",
     "conditional_block Cond=c | sub_block=@1;block;" SCALE("x", "0.5") "tanh_grad Out=y Out@GRAD=x -> X@GRAD=g;" SGD,
     "conditional_block Cond=c | sub_block=@1;block;"
     "tanh_grad Out=y Out@GRAD=x -> X@GRAD=g;" SCALE("g", "0.5") SGD,
     WEFT_SAME_REALS, NULL},
    {"without the condition", "conditional_block Cond=c | sub_block=@1;block;" SGD, SGD, WEFT_NOT_PROVED, "select(c,"},
    {"another body", "conditional_block Cond=c | sub_block=@1;block;" SGD,
     "conditional_block Cond=c | sub_block=@1;block;" SCALE("g", "2.0") SGD, WEFT_NOT_PROVED, NULL},
    {"a loop", "while Condition=c X=w | sub_block=@1;block;relu X=w -> Out=w;",
     "while Condition=c X=w | sub_block=@1;block;relu X=w -> Out=w;", WEFT_SAME_BITS, NULL},
    {"a loop's other body", "while Condition=c X=w | sub_block=@1;block;relu X=w -> Out=w;",
     "while Condition=c X=w | sub_block=@1;block;tanh X=w -> Out=w;", WEFT_NOT_PROVED, NULL},
    {"what a loop reads", "while Condition=c X=w | sub_block=@1;block;elementwise_add X=w Y=x -> Out=w;",
     "relu X=x -> Out=x;while Condition=c X=w | sub_block=@1;block;elementwise_add X=w Y=x -> Out=w;", WEFT_NOT_PROVED,
     NULL},
};
TABLE_ROWS(proof_equiv, rules, rows);

static weft_equivalence *judge(const weft_program *before, const weft_program *after) {
    weft_equivalence *e = NULL;
    must(weft_equivalent(before, after, NULL, &e));
    return e;
}

TABLE_TEST(size_t *row_index, proof_equiv, rules) {
    const row *r = &rows[*row_index];
    weft_program *before = make(r->before), *after = make(r->after);
    weft_equivalence *e = judge(before, after), *self = judge(after, after);
    const char *message = "";
    (void)weft_equivalence_finding(e, 0, NULL, &message);
    cr_expect_eq(weft_equivalence_grade(e), r->grade, "%s: %s: %s", r->what, weft_grade_name(weft_equivalence_grade(e)),
                 message);
    if (r->message) cr_expect(strstr(message, r->message), "%s: %s", r->what, message);
    if (r->grade == WEFT_NOT_PROVED) cr_expect(strstr(message, "found"), "%s: %s", r->what, message);
    cr_expect_eq(weft_equivalence_grade(self), WEFT_SAME_BITS, "%s: with itself", r->what);
    weft_equivalence_destroy(e);
    weft_equivalence_destroy(self);
    weft_program_destroy(before);
    weft_program_destroy(after);
}

/* --- with the pass manager ---------------------------------------------------------------------------------------- */

static weft_status drop_scale(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass;
    (void)user;
    FOR_EACH_OP(op, p->blocks[0]) {
        if (!op_is(op, "scale")) continue;
        weft_op_remove(op);
        break;
    }
    return NULL;
}

static const weft_pass wrong = {.name = "wrong", .summary = "drops a scale", .run = drop_scale};
static const weft_pass honest = {
    .name = "honest", .summary = "drops a scale", .run = drop_scale, .changes_meaning = "it drops a scale"};

static weft_code run_list(const char *yaml, weft_prove how, weft_report **out) {
    weft_pass_list *list;
    weft_program *p = make(PLAIN);
    must(weft_pass_list_parse(context, yaml, strlen(yaml), "test", &list));
    if (how != WEFT_PROVE_UNSET) weft_pass_list_set_prove(list, how);
    weft_status status = weft_pass_list_run(list, p, out);
    weft_code code = weft_status_code(status);
    weft_status_free(status);
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
    return code;
}

Test(proof_equiv, a_wrong_pass_fails_the_list) {
    must(weft_pass_register(context, &wrong));
    must(weft_pass_register(context, &honest));
    weft_report *r = NULL;
    cr_expect_eq(run_list("passes: [wrong]", WEFT_PROVE_REQUIRE, &r), WEFT_INVALID_PROGRAM);
    weft_report_destroy(r);
    cr_expect_eq(run_list("prove: require\npasses: [wrong]", WEFT_PROVE_UNSET, &r), WEFT_INVALID_PROGRAM);
    weft_report_destroy(r);
    cr_expect_eq(run_list("prove: report\npasses: [wrong]", WEFT_PROVE_UNSET, &r), WEFT_OK);
    cr_expect_eq(weft_equivalence_grade(weft_report_equivalence(r, 0)), WEFT_NOT_PROVED);
    weft_report_destroy(r);
    cr_expect_eq(run_list("passes: [wrong]", WEFT_PROVE_UNSET, &r), WEFT_OK);
    cr_expect_null(weft_report_equivalence(r, 0), "the library proves where it is asked to");
    weft_report_destroy(r);
    weft_pass_list *list = NULL;
    static const char unclear[] = "prove: maybe\npasses: []";
    weft_status status = weft_pass_list_parse(context, unclear, strlen(unclear), "test", &list);
    cr_expect_eq(weft_status_code(status), WEFT_PARSE);
    weft_status_free(status);
}

Test(proof_equiv, a_pass_that_says_so_may_change_the_meaning) {
    must(weft_pass_register(context, &wrong));
    must(weft_pass_register(context, &honest));
    weft_report *r = NULL;
    cr_expect_eq(run_list("passes: [honest]", WEFT_PROVE_REQUIRE, &r), WEFT_OK);
    char *message;
    size_t nbytes;
    must(weft_report_print(r, false, &message, &nbytes));
    cr_expect(strstr(message, "not checked: it drops a scale"), "%s", message);
    weft_bytes_free(context, message, nbytes);
    weft_report_destroy(r);
    cr_expect_eq(run_list("passes: [honest, wrong]", WEFT_PROVE_REQUIRE, &r), WEFT_INVALID_PROGRAM);
    weft_report_destroy(r);
}

/* --- programs of Paddle's pass ------------------------------------------------------------------------------------ */

static const struct {
    const char *folder, *variant;
    weft_grade grade;
} recorded[] = {
    {"paddle26/mlp_adam_dp2", "fuse", WEFT_SAME_BITS},
    {"paddle26/mlp_adam_dp2", "default", WEFT_SAME_REALS},
    {"paddle26/mlp_adam_dp2_amp", "default", WEFT_SAME_RANGE},
    {"paddle26/gpt_tiny_dp2_mp2", "default", WEFT_SAME_REALS},
    {"paddle26/lenet_bias_dp2", "default", WEFT_NOT_PROVED},
    {"paddle26/twoloss_dp2", "default", WEFT_NOT_PROVED},
    {"paddle26/mlp_dp2_sp2_tworings", "prune", WEFT_NOT_PROVED},
};
TABLE_ROWS(proof_equiv, paddles_pass, recorded);

TABLE_TEST(size_t *row_index, proof_equiv, paddles_pass) {
    char relative[200], before_path[512], after_path[512];
    weft_program *before = NULL, *after = NULL;
    snprintf(relative, sizeof relative, "%s/rank0.pdmodel", recorded[*row_index].folder);
    bool there = fixture_path(before_path, sizeof before_path, relative);
    snprintf(relative, sizeof relative, "%s/rank0.after.%s.pdmodel", recorded[*row_index].folder,
             recorded[*row_index].variant);
    if (!there || !fixture_path(after_path, sizeof after_path, relative)) cr_skip("no fixture %s", relative);
    must(weft_program_load(context, before_path, NULL, &before));
    must(weft_program_load(context, after_path, NULL, &after));
    weft_equivalence *e = judge(before, after);
    cr_expect_eq(weft_equivalence_grade(e), recorded[*row_index].grade, "%s: %s", relative,
                 weft_grade_name(weft_equivalence_grade(e)));
    weft_equivalence_destroy(e);
    weft_program_destroy(before);
    weft_program_destroy(after);
}
