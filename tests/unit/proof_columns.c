/* proof_columns.c: products of columns of a matrix, and of rows of a transposed one, are columns and rows of products:
 * what ranks that reduce parts of a gradient multiply. Right programs and wrong ones. */
#include <criterion/criterion.h>

#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"

enum { MOST_LINES = 60, MOST_OPS = 12 };

#define VARS                                                                                                           \
    "var x float32 4,6", "var z float32 4,6", "var d float32 4,8", "var e float32 4,8", "var w float32 6,8",           \
        "var xl float32 4,3", "var xr float32 4,3", "var zl float32 4,3", "var zr float32 4,3", "var dl float32 4,4",  \
        "var dr float32 4,4", "var el float32 4,4", "var er float32 4,4", "var wl float32 6,4", "var wr float32 6,4",  \
        "var xz float32 8,6", "var de float32 8,8", "var p float32 6,8", "var pl float32 6,4", "var pr float32 6,4",   \
        "var pt float32 3,8", "var pb float32 3,8", "var q float32 4,8", "var ql float32 4,4", "var qr float32 4,4",   \
        "var t float32 6,4", "var tt float32 3,4", "var tb float32 3,4", "var c float32 8,4", "var s float32 4,8",     \
        "var xa float32 2,6", "var xb float32 2,6", "var da float32 2,8", "var db float32 2,8", "var pa float32 6,8",  \
        "var pc float32 6,8", "var xx float32 4,6", "var zz float32 4,6", "var wt float32 3,8", "var wb float32 3,8",  \
        "var q2 float32 4,8", "var s2 float32 4,8", "var r float32 6,4", "var rs float32 0,4,6", "var rt float32 4,6", \
        "var ts float32 0,4,6"
#define TURNED "trans_x=true trans_y=false"
#define PLAIN "trans_x=false trans_y=false"
#define OF_D "op split X=d -> Out=dl,dr | axis=1 num=2"
#define OF_E "op split X=e -> Out=el,er | axis=1 num=2"
#define OF_X "op split X=x -> Out=xl,xr | axis=1 num=2"
#define OF_W "op split X=w -> Out=wl,wr | axis=1 num=2"
#define TURN "op aten_permute self=x -> out=t | dims=[1,0]", "op split X=t -> Out=tt,tb | axis=0 num=2"
#define OF_Z "op split X=z -> Out=zl,zr | axis=1 num=2"
#define HALVES "op split X=x -> Out=xa,xb | axis=0 num=2", "op split X=d -> Out=da,db | axis=0 num=2"
#define WITH_ROWS(first, second)                                                                                       \
    "op split X=w -> Out=wt,wb | axis=0 num=2", "op matmul_v2 X=" first " Y=wt -> Out=q | " PLAIN,                     \
        "op matmul_v2 X=" second " Y=wb -> Out=s | " PLAIN
#define WITH_ROWS_OF_NEXT(first, second)                                                                               \
    "op matmul_v2 X=" first " Y=wt -> Out=q2 | " PLAIN, "op matmul_v2 X=" second " Y=wb -> Out=s2 | " PLAIN
#define BOTH "op concat X=x,z -> Out=xz | axis=0"

static const struct {
    const char *what, *before[MOST_OPS], *right[MOST_OPS], *wrong[MOST_OPS];
} kinds[] = {
    {"columns of a weight's gradient",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op split X=p -> Out=pl,pr | axis=1 num=2",
      "op fetch X=pr -> | col=0"},
     {OF_D, "op matmul_v2 X=x Y=dr -> Out=pr | " TURNED, "op fetch X=pr -> | col=0"},
     {OF_D, "op matmul_v2 X=x Y=dl -> Out=pr | " TURNED, "op fetch X=pr -> | col=0"}},
    {"rows of a weight's gradient",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op split X=p -> Out=pt,pb | axis=0 num=2",
      "op fetch X=pb -> | col=0"},
     {OF_X, "op matmul_v2 X=xr Y=d -> Out=pb | " TURNED, "op fetch X=pb -> | col=0"},
     {OF_X, "op matmul_v2 X=xl Y=d -> Out=pb | " TURNED, "op fetch X=pb -> | col=0"}},
    {"rows of a matrix that was turned before",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op split X=p -> Out=pt,pb | axis=0 num=2",
      "op fetch X=pb -> | col=0"},
     {TURN, "op matmul_v2 X=tb Y=d -> Out=pb | " PLAIN, "op fetch X=pb -> | col=0"},
     {TURN, "op matmul_v2 X=tt Y=d -> Out=pb | " PLAIN, "op fetch X=pb -> | col=0"}},
    {"rows of a matrix that was turned, and not only reshaped",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op fetch X=p -> | col=0"},
     {"op aten_permute self=x -> out=t | dims=[1,0]", "op matmul_v2 X=t Y=d -> Out=p | " PLAIN,
      "op fetch X=p -> | col=0"},
     {"op reshape2 X=x -> Out=r XShape=rs | shape=[6,4]", "op aten_permute self=r -> out=rt | dims=[1,0]",
      "op reshape2 X=rt -> Out=t XShape=ts | shape=[6,4]", "op matmul_v2 X=t Y=d -> Out=p | " PLAIN,
      "op fetch X=p -> | col=0"}},
    {"columns that are put together again",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op split X=p -> Out=pl,pr | axis=1 num=2",
      "op fetch X=pl -> | col=0"},
     {OF_D, OF_E, "op concat X=dl,er -> Out=c | axis=0", "op split X=c -> Out=ql,qr | axis=0 num=2",
      "op matmul_v2 X=x Y=ql -> Out=pl | " TURNED, "op fetch X=pl -> | col=0"},
     {OF_D, OF_E, "op concat X=dl,er -> Out=c | axis=0", "op split X=c -> Out=ql,qr | axis=0 num=2",
      "op matmul_v2 X=x Y=qr -> Out=pl | " TURNED, "op fetch X=pl -> | col=0"}},
    {"columns of the rows of two",
     {BOTH, "op concat X=d,e -> Out=de | axis=0", "op matmul_v2 X=xz Y=de -> Out=p | " TURNED,
      "op split X=p -> Out=pl,pr | axis=1 num=2", "op fetch X=pl -> | col=0"},
     {BOTH, OF_D, OF_E, "op concat X=dl,el -> Out=c | axis=0", "op matmul_v2 X=xz Y=c -> Out=pl | " TURNED,
      "op fetch X=pl -> | col=0"},
     {BOTH, OF_D, OF_E, "op concat X=dl,er -> Out=c | axis=0", "op matmul_v2 X=xz Y=c -> Out=pl | " TURNED,
      "op fetch X=pl -> | col=0"}},
    {"columns of a product",
     {"op matmul_v2 X=x Y=w -> Out=q | " PLAIN, "op split X=q -> Out=ql,qr | axis=1 num=2", "op fetch X=qr -> | col=0"},
     {OF_W, "op matmul_v2 X=x Y=wr -> Out=qr | " PLAIN, "op fetch X=qr -> | col=0"},
     {OF_W, "op matmul_v2 X=x Y=wl -> Out=qr | " PLAIN, "op fetch X=qr -> | col=0"}},
    {"pieces of rows that lie one behind another",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op fetch X=p -> | col=0"},
     {HALVES, "op matmul_v2 X=xa Y=da -> Out=pa | " TURNED, "op matmul_v2 X=xb Y=db -> Out=pc | " TURNED,
      "op elementwise_add X=pc Y=pa -> Out=p | axis=-1", "op fetch X=p -> | col=0"},
     {HALVES, "op matmul_v2 X=xa Y=db -> Out=pa | " TURNED, "op matmul_v2 X=xb Y=da -> Out=pc | " TURNED,
      "op elementwise_add X=pc Y=pa -> Out=p | axis=-1", "op fetch X=p -> | col=0"}},
    {"rows that are columns of two, one behind the other",
     {OF_X, OF_Z, "op concat X=xl,zr -> Out=xx | axis=1", "op concat X=xr,zl -> Out=zz | axis=1",
      "op concat X=xx,zz -> Out=xz | axis=0", "op matmul_v2 X=xz Y=w -> Out=de | " PLAIN, "op fetch X=de -> | col=0"},
     {OF_X, OF_Z, WITH_ROWS("xl", "zr"), "op elementwise_add X=q Y=s -> Out=d | axis=-1", WITH_ROWS_OF_NEXT("xr", "zl"),
      "op elementwise_add X=q2 Y=s2 -> Out=e | axis=-1", "op concat X=d,e -> Out=de | axis=0",
      "op fetch X=de -> | col=0"},
     {OF_X, OF_Z, WITH_ROWS("zr", "xl"), "op elementwise_add X=q Y=s -> Out=d | axis=-1", WITH_ROWS_OF_NEXT("xr", "zl"),
      "op elementwise_add X=q2 Y=s2 -> Out=e | axis=-1", "op concat X=d,e -> Out=de | axis=0",
      "op fetch X=de -> | col=0"}},
    {"a factor of an operand",
     {"op matmul_v2 X=x Y=d -> Out=p | " TURNED, "op scale X=p -> Out=w | scale=0.5 bias=0.0 bias_after_scale=true",
      "op split X=w -> Out=pl,pr | axis=1 num=2", "op fetch X=pr -> | col=0"},
     {"op scale X=d -> Out=s | scale=0.5 bias=0.0 bias_after_scale=true", "op split X=s -> Out=dl,dr | axis=1 num=2",
      "op matmul_v2 X=x Y=dr -> Out=pr | " TURNED, "op fetch X=pr -> | col=0"},
     {"op scale X=d -> Out=s | scale=0.25 bias=0.0 bias_after_scale=true", "op split X=s -> Out=dl,dr | axis=1 num=2",
      "op matmul_v2 X=x Y=dr -> Out=pr | " TURNED, "op fetch X=pr -> | col=0"}},
};
TABLE_ROWS(proof_columns, columns_of_products_are_products_of_columns, kinds);

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_columns, .init = set_up, .fini = tear_down);

static weft_program *program_of(const char *const *ops) {
    static const char *const vars[] = {VARS};
    const char *lines[MOST_LINES + MOST_OPS];
    size_t n = sizeof vars / sizeof *vars;
    memcpy(lines, vars, sizeof vars);
    for (size_t i = 0; i < MOST_OPS && ops[i]; i++) lines[n++] = ops[i];
    return small_program(context, lines, n);
}

static weft_grade judge(const char *const *before, const char *const *after) {
    weft_program *a = program_of(before), *b = program_of(after);
    const weft_program *of_a = a, *of_b = b;
    weft_equivalence *e;
    must(weft_equivalent_ranks(&of_a, 1, &of_b, 1, NULL, &e));
    weft_grade grade = weft_equivalence_grade(e);
    weft_equivalence_destroy(e);
    weft_program_destroy(a);
    weft_program_destroy(b);
    return grade;
}

TABLE_TEST(size_t *row, proof_columns, columns_of_products_are_products_of_columns) {
    weft_grade right = judge(kinds[*row].before, kinds[*row].right),
               wrong = judge(kinds[*row].before, kinds[*row].wrong);
    cr_expect_eq(right, WEFT_SAME_REALS, "%s: %s", kinds[*row].what, weft_grade_name(right));
    cr_expect_eq(wrong, WEFT_NOT_PROVED, "%s, another: %s", kinds[*row].what, weft_grade_name(wrong));
}
