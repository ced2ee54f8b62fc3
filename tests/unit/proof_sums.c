/* proof_sums.c: what ranks add up together, slice by slice: the programs of two ranks against others that do the same,
 * and against some that do not. */
#include <criterion/criterion.h>

#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"

enum { MOST_LINES = 32, MOST_OPS = 10, NRANKS = 2 };

#define REDUCE(var) "op c_allreduce_sum X=" var " -> Out=" var " | ring_id=0 use_calc_stream=true"
#define GREATEST(var) "op c_allreduce_max X=" var " -> Out=" var " | ring_id=0 use_calc_stream=true"
#define NARROW(from, to) "op cast X=" from " -> Out=" to " | in_dtype=5 out_dtype=4"
#define WIDE(from, to) "op cast X=" from " -> Out=" to " | in_dtype=4 out_dtype=5"
#define TURN(from, to) "op aten_permute self=" from " -> out=" to " | dims=[1,0]"
#define OF_ALL(how, from, to) "op c_allreduce_" how " X=" from " -> Out=" to " | ring_id=0 use_calc_stream=true"
#define HALVES "op split X=a -> Out=s,s2 | axis=0 num=2"
#define SCATTER(from, to) "op c_reducescatter X=" from " -> Out=" to " | ring_id=0 nranks=2 use_calc_stream=true"
#define GATHER(from, to) "op c_allgather X=" from " -> Out=" to " | ring_id=0 nranks=2 use_calc_stream=true"
#define MADE "op relu X=x -> Out=a", "op relu X=z -> Out=b"
#define FETCHED "op fetch X=a -> | col=0", "op fetch X=b -> | col=1"
/* The members begin at multiples of 256 bytes: there is room between them. */
#define BUCKET "op coalesce_tensor Input=a,b -> Output=a,b FusedOutput=f | dtype=5 use_align=true align_size=256"
#define VARS                                                                                                           \
    "var x float32 4", "var z float32 4", "var a float32 4", "var b float32 4", "var f float32 128",                   \
        "var s float32 2", "var s2 float32 2", "var f2 float32 64", "var h float16 4", "var g float16 2",              \
        "var w float32 4", "var k float32 2", "var m float32 2,3", "var l float32 2,3", "var t float32 3,2",           \
        "var u float32 3,2"

static const struct {
    const char *what, *before[MOST_OPS], *right[MOST_OPS], *wrong[MOST_OPS];
} kinds[] = {
    {"a bucket with room between its members",
     {MADE, REDUCE("a"), REDUCE("b"), FETCHED},
     {BUCKET, MADE, REDUCE("f"), FETCHED},
     {BUCKET, MADE, REDUCE("a"), FETCHED}},
    {"a bucket that is dealt out and gathered",
     {BUCKET, MADE, REDUCE("f"), FETCHED},
     {BUCKET, MADE, SCATTER("f", "f2"), GATHER("f2", "f"), FETCHED},
     {BUCKET, MADE, SCATTER("f", "f2"), FETCHED}},
    {"a value that is dealt out and gathered",
     {MADE, REDUCE("a"), FETCHED},
     {MADE, SCATTER("a", "s"), GATHER("s", "a"), FETCHED},
     {MADE, SCATTER("b", "s"), GATHER("s", "a"), FETCHED}},
    {"the greatest, half by half",
     {MADE, GREATEST("a"), FETCHED},
     {MADE, HALVES, GREATEST("s2"), GREATEST("s"), "op concat X=s,s2 -> Out=a | axis=0", FETCHED},
     {MADE, HALVES, GREATEST("s2"), GREATEST("s"), "op concat X=s2,s -> Out=a | axis=0", FETCHED}},
    {"the greatest, and not the sum of a half",
     {MADE, GREATEST("a"), FETCHED},
     {MADE, HALVES, GREATEST("s"), GREATEST("s2"), "op concat X=s,s2 -> Out=a | axis=0", FETCHED},
     {MADE, HALVES, GREATEST("s"), REDUCE("s2"), "op concat X=s,s2 -> Out=a | axis=0", FETCHED}},
    {"the greatest of a bucket with room between its members",
     {MADE, GREATEST("a"), GREATEST("b"), FETCHED},
     {BUCKET, MADE, GREATEST("f"), FETCHED},
     {BUCKET, MADE, GREATEST("b"), FETCHED}},
    {"16-bit floats, in fp32 and rounded once",
     {NARROW("x", "h"), REDUCE("h"), "op fetch X=h -> | col=0"},
     {NARROW("x", "h"), WIDE("h", "w"), REDUCE("w"), NARROW("w", "h"), "op fetch X=h -> | col=0"},
     {NARROW("x", "h"), REDUCE("x"), NARROW("x", "h"), "op fetch X=h -> | col=0"}},
    {"16-bit floats that are dealt out",
     {NARROW("x", "h"), SCATTER("h", "g"), "op fetch X=g -> | col=0"},
     {NARROW("x", "h"), WIDE("h", "w"), SCATTER("w", "k"), NARROW("k", "g"), "op fetch X=g -> | col=0"},
     {NARROW("x", "h"), REDUCE("h"), SCATTER("h", "g"), "op fetch X=g -> | col=0"}},
    {"a sum of what is transposed",
     {TURN("m", "t"), OF_ALL("sum", "t", "u"), "op fetch X=u -> | col=0"},
     {OF_ALL("sum", "m", "l"), TURN("l", "u"), "op fetch X=u -> | col=0"},
     {OF_ALL("sum", "m", "l"), "op aten_view self=l -> out=u | size=[3,2]", "op fetch X=u -> | col=0"}},
    {"the greatest of what is transposed",
     {TURN("m", "t"), OF_ALL("max", "t", "u"), "op fetch X=u -> | col=0"},
     {OF_ALL("max", "m", "l"), TURN("l", "u"), "op fetch X=u -> | col=0"},
     {OF_ALL("sum", "m", "l"), TURN("l", "u"), "op fetch X=u -> | col=0"}},
};
TABLE_ROWS(proof_sums, sums_of_ranks, kinds);

static weft_program *program_of(weft_context *context, const char *const *ops) {
    static const char *const vars[] = {VARS};
    const char *lines[MOST_LINES];
    size_t n = 0;
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++) lines[n++] = vars[i];
    for (size_t i = 0; i < MOST_OPS && ops[i]; i++) lines[n++] = ops[i];
    weft_program *p = small_program(context, lines, n);
    must(weft_program_set_ring(p, 0, NRANKS, (const int64_t[]){0, 1}));
    return p;
}

static weft_grade judge(const char *const *before, const char *const *after) {
    weft_context *context;
    must(weft_context_create(NULL, &context));
    weft_program *a = program_of(context, before), *b = program_of(context, after);
    weft_equivalence *e;
    must(weft_equivalent_ranks((const weft_program *const *)&a, 1, (const weft_program *const *)&b, 1, NULL, &e));
    weft_grade grade = weft_equivalence_grade(e);
    weft_equivalence_destroy(e);
    weft_program_destroy(a);
    weft_program_destroy(b);
    weft_context_destroy(context);
    return grade;
}

TABLE_TEST(size_t *row, proof_sums, sums_of_ranks) {
    const char *what = kinds[*row].what;
    cr_expect_eq(judge(kinds[*row].before, kinds[*row].right), WEFT_SAME_BITS, "%s", what);
    cr_expect_eq(judge(kinds[*row].before, kinds[*row].wrong), WEFT_NOT_PROVED, "%s: wrong", what);
}
