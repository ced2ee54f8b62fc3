/* plan_views.c: outputs that are views of inputs, in plans: which cost nothing and where they lie, how long the bytes
 * live, what asynchronous collectives wait for, and what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/plan_check.h"
#include "tests/support/table.h"

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    a: {float32: [4, 8]}\n    b: {float32: [4, 8]}\n    c: {float32: [4, 8]}\n"        \
    "    d: {float32: [4, 8]}\n    w: {float32: [4, 8]}\n    g: {float32: [4, 8], persistable: true}\n"                \
    "    v: {float32: [32]}\n    u: {float32: [32]}\n    p: {float32: [2, 8]}\n    q: {float32: [2, 8]}\n"             \
    "    r: {float32: [8]}\n    s: {float32: [8]}\n    t: {float32: [8, 4]}\n    m: {float32: [8, 4]}\n"               \
    "    k: {float32: [2, 4, 8]}\n    l: {float32: [2, 4, 8]}\n    n: {float32: [2, 4, 8]}\n"                          \
    "    i: {float32: [4, 4]}\n    j: {float32: [4, 4]}\n    x: {float32: [4, 4]}\n    f: {float32: [-1]}\n    o: "    \
    "{kind: fetch_list}\n  ops:\n"
#define OP(type, in, out, attrs) "  - {" type ": {" in "}, out: {" out "}, attrs: {" attrs "}}\n"
#define RELU(x, y) OP("relu", "X: [" x "]", "Out: [" y "]", "")
#define WAIT(x, y) OP("wait_tensor", "X: [" x "]", "Out: [" y "]", "")
#define FLAT(x, y) OP("aten_view", "self: [" x "]", "out: [" y "]", "size: !longs [-1]")
#define TURN(x, y) OP("aten_t", "self: [" x "]", "out: [" y "]", "")
#define APART(x, y) OP("unstack", "X: [" x "]", "\"Y\": " y, "axis: 0, num: 2")
#define STACK(x, y) OP("stack", "X: " x, "\"Y\": [" y "]", "axis: 0")
#define FETCH(x) OP("fetch", "X: [" x "]", "Out: [o]", "col: 0")
#define BUCKET(args)                                                                                                   \
    OP("coalesce_tensor", "Input: " args, "Output: " args ", FusedOutput: [f]", "dtype: 5, use_align: false")
#define REDUCE(x, y, async) OP("all_reduce", "x: [" x "]", "out: [" y "]", "ring_id: 2, async_op: " async)

/* An instruction is "op(outputs)@stream" and what it waits for; a place is "name: P offset", P persistent, T not, of
 * the values that are asked for. */
typedef struct golden {
    const char *title, *program, *expected, *places;
} golden;

static const golden cases[] = {
    {"a view costs nothing and what reads it may write in its place", VARS RELU("a", "b") FLAT("b", "v") RELU("v", "u"),
     "relu(b)@compute\nrelu(u)@compute\n", "a: P 0 feed\nb: T 0\nv: T 0\nu: T 0\n"},
    {"parts along the outermost axis are byte ranges, those of a feed too",
     VARS OP("aten_slice", "self: [a]", "out: [p]", "start: 1, end: 3") OP("aten_select", "self: [p]", "out: [r]",
                                                                           "index: -1")
         OP("aten_split", "self: [b]", "out: [q, \"@EMPTY@\"]", "split_size: !longs [2]") RELU("r", "s") RELU("q", "q"),
     "relu(s)@compute\nrelu(q)@compute\n", "a: P 0 feed\np: P 32\nr: P 64\nb: P 128 feed\nq: P 128\n"},
    {"views of views lie in the first",
     VARS RELU("a", "b") FLAT("b", "v") OP("aten_view", "self: [v]", "out: [c]", "size: !longs [4, 8]")
         OP("aten_slice", "self: [c]", "out: [p]", "start: 1, end: 3")
             OP("aten_select", "self: [p]", "out: [r]", "index: 1") RELU("r", "s"),
     "relu(b)@compute\nrelu(s)@compute\n", "b: T 0\nv: T 0\nc: T 0\np: T 32\nr: T 64\ns: T 128\n"},
    {"a split of rows is none, a split of columns one of what is no byte range",
     VARS OP("aten_split", "self: [a]", "out: [p, q]", "split_size: !longs [2]") RELU("q", "q")
         OP("aten_split", "self: [b]", "out: [i, j]", "split_size: !longs [4], dim: 1") RELU("j", "x"),
     "relu(q)@compute\naten_split(i, j)@compute\nrelu(x)@compute\n", NULL},
    {"a bucket's member and what is pending of it are one",
     VARS BUCKET("[b, c]") RELU("a", "b") RELU("a", "c") REDUCE("f", "f", "true") WAIT("c", "w") RELU("w", "d"),
     "relu(b)@compute\nrelu(c)@compute\nall_reduce(f)@ring_2 after compute 2\nrelu(d)@compute after ring_2 1\n",
     "b: T 0\nc: T 128\nf: T 0\nw: T 128\n"},
    {"a member that is a view stands for what it is a view of",
     VARS BUCKET("[v, c]") RELU("a", "b") FLAT("b", "v") RELU("a", "c") REDUCE("f", "f", "false"),
     "relu(b)@compute\nrelu(c)@compute\nall_reduce(f)@compute\n", "b: T 0\nv: T 0\nc: T 128\nf: T 0\n"},
    {"an asynchronous collective runs on its ring's stream and what touches the bytes waits",
     VARS RELU("a", "b") REDUCE("b", "c", "true") RELU("a", "d") WAIT("c", "w") RELU("w", "w"),
     "relu(b)@compute\nall_reduce(c)@ring_2 after compute 1\nrelu(d)@compute\nrelu(w)@compute after ring_2 1\n", NULL},
    {"one that is not asynchronous runs on compute",
     VARS RELU("a", "b") REDUCE("b", "c", "false") WAIT("c", "w") RELU("w", "w"),
     "relu(b)@compute\nall_reduce(c)@compute\nrelu(w)@compute\n", NULL},
    {"a pending result in place has another name for what it reduced",
     VARS RELU("a", "b") OP("all_reduce", "x: [b]", "out: [b], alias: [c]", "async_op: true") WAIT("c", "w")
         RELU("w", "d") RELU("b", "b"),
     "relu(b)@compute\nall_reduce(b)@ring_0 after compute 1\nrelu(d)@compute after ring_0 1\nrelu(b)@compute\n",
     "b: T 0\nc: T 0\nw: T 0\n"},
    {"several reduced at once keep their names",
     VARS RELU("a", "b") RELU("a", "c") OP("all_reduce_coalesced", "x: [b, c]", "out: [b, c], alias: [w, d]",
                                           "async_op: true") WAIT("d", "d") RELU("d", "d"),
     "relu(b)@compute\nrelu(c)@compute\nall_reduce_coalesced(b, c)@ring_0 after compute 2\nrelu(d)@compute after "
     "ring_0 1\n",
     NULL},
    {"copy_ writes its target, and its name is that",
     VARS RELU("a", "b") OP("aten_copy_", "self: [g], src: [b]", "self_out: [g], out: [w]", "") RELU("w", "c"),
     "relu(b)@compute\naten_copy_(g)@compute\nrelu(c)@compute\n", "g: P 0\nw: P 0\n"},
    {"what is fetched of a view is the bytes", VARS RELU("a", "b") FLAT("b", "v") FETCH("v"), "relu(b)@compute\n",
     "b: P 0\nv: P 0\nfetch.0: P 0\n"},
    {"or a copy where they change later, under whatever name",
     VARS RELU("a", "b") FLAT("b", "v") FETCH("v") RELU("b", "b"),
     "relu(b)@compute\nassign(fetch.0)@compute\nrelu(b)@compute\n", NULL},
    {"or where they are a small part", VARS RELU("a", "b") OP("aten_select", "self: [b]", "out: [r]", "") FETCH("r"),
     "relu(b)@compute\nassign(fetch.0)@compute\n", NULL},
    {"tensors taken apart are parts of the whole where nothing can observe it, and what is made of one alone lies "
     "there",
     VARS RELU("k", "l") APART("l", "[b, c]") RELU("b", "d") RELU("c", "c"),
     "relu(l)@compute\nrelu(d)@compute\nrelu(c)@compute\n", "l: T 0\nb: T 0\nc: T 128\nd: T 0\n"},
    {"they are not where the whole is touched later", VARS RELU("k", "l") APART("l", "[b, c]") RELU("l", "n"),
     "relu(l)@compute\nunstack(b, c)@compute\nrelu(n)@compute\n", NULL},
    {"nor of what is fed", VARS APART("k", "[b, c]") RELU("b", "d"), "unstack(b, c)@compute\nrelu(d)@compute\n", NULL},
    {"nor where a part was something before", VARS RELU("a", "b") RELU("k", "l") APART("l", "[b, c]") RELU("b", "d"),
     "relu(b)@compute\nrelu(l)@compute\nunstack(b, c)@compute\nrelu(d)@compute\n", NULL},
    {"a part that is read twice is not written over",
     VARS RELU("k", "l") APART("l", "[b, c]") RELU("b", "d") RELU("b", "w"),
     "relu(l)@compute\nrelu(d)@compute\nrelu(w)@compute\n", "b: T 0\nc: T 128\nd: T 256\n"},
    {"what is stacked is written where it will be",
     VARS RELU("a", "b") RELU("a", "c") STACK("[b, c]", "l") RELU("l", "n"),
     "relu(b)@compute\nrelu(c)@compute\nrelu(n)@compute\n", "b: T 0\nc: T 128\nl: T 0\nn: T 0\n"},
    {"but not twice", VARS RELU("a", "b") STACK("[b, b]", "l") RELU("l", "n"),
     "relu(b)@compute\nstack(l)@compute\nrelu(n)@compute\n", NULL},
    {"nor where a part lives on", VARS RELU("a", "b") RELU("a", "c") STACK("[b, c]", "l") RELU("l", "n") RELU("c", "d"),
     "relu(b)@compute\nrelu(c)@compute\nstack(l)@compute\nrelu(n)@compute\nrelu(d)@compute\n", NULL},
    {"nor what is a parameter", VARS RELU("a", "b") STACK("[b, g]", "l") RELU("l", "n"),
     "relu(b)@compute\nstack(l)@compute\nrelu(n)@compute\n", NULL},
    {"a part that is fetched is copied, not the whole kept", VARS RELU("k", "l") APART("l", "[b, c]") FETCH("b"),
     "relu(l)@compute\nassign(fetch.0)@compute\n", NULL},
    {"a transposed matrix is made", VARS RELU("a", "b") TURN("b", "t") RELU("t", "m"),
     "relu(b)@compute\naten_t(t)@compute\nrelu(m)@compute\n", NULL},
    {"what is read of it before the bytes change is right",
     VARS RELU("a", "b") TURN("b", "t") RELU("t", "m") RELU("b", "b"),
     "relu(b)@compute\naten_t(t)@compute\nrelu(m)@compute\nrelu(b)@compute\n", NULL},
    {"a write through a view is one to its base", VARS RELU("a", "b") FLAT("b", "v") RELU("v", "v") RELU("b", "c"),
     "relu(b)@compute\nrelu(v)@compute\nrelu(c)@compute\n", NULL},
};

static weft_status plan_of(weft_context *ctx, const char *source, const char *title, weft_plan **out) {
    weft_program *program;
    weft_status status = weft_program_parse(ctx, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &program);
    cr_assert_null(status, "%s: %s: %s", title, weft_status_place(status), weft_status_message(status));
    status = weft_plan_create(program, NULL, out);
    weft_program_destroy(program);
    return status;
}

static void put_instr(buffer *out, const weft_plan *p, const plan_instr *i) {
    buffer_format(out, "%s(", i->schema->type);
    for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++)
        buffer_format(out, "%s%s", k ? ", " : "", i->out[k] < 0 ? "-" : p->values[i->out[k]].name);
    buffer_format(out, ")@%s", p->stream_names[i->stream]);
    for (uint32_t w = 0; w < i->nwaits; w++)
        buffer_format(out, "%s%s %d", w ? ", " : " after ", p->stream_names[i->waits[w].stream], i->waits[w].count);
    buffer_text(out, "\n");
}

/* The places of the values that `wanted` has lines of, in its order. */
static void put_places(buffer *out, const weft_plan *p, const char *wanted) {
    for (const char *line = wanted; *line; line = strchr(line, '\n') + 1)
        for (size_t i = 0; i < p->nvalues; i++) {
            const plan_value *v = &p->values[i];
            size_t n = strlen(v->name);
            if (strncmp(line, v->name, n) != 0 || line[n] != ':') continue;
            buffer_format(out, "%s: %c %lld%s\n", v->name, v->space == PLAN_PERSISTENT ? 'P' : 'T',
                          (long long)v->offset, v->is_feed ? " feed" : "");
        }
}

/* Printed and read again it is the same. */
static void check_text(weft_context *ctx, const weft_plan *plan, const char *title) {
    char *a, *b;
    size_t na, nb;
    weft_plan *read;
    cr_assert_null(weft_plan_print(plan, &a, &na));
    weft_status status = weft_plan_parse(ctx, a, na, "p.plan", &read);
    cr_assert_null(status, "%s: %s: %s\n%s", title, weft_status_place(status), weft_status_message(status), a);
    cr_assert_null(weft_plan_print(read, &b, &nb));
    cr_assert(na == nb && memcmp(a, b, na) == 0, "%s: %s\nreads back as\n%s", title, a, b);
    cr_expect_eq(read->live_nbytes, plan->live_nbytes, "%s", title);
    weft_bytes_free(ctx, a, na);
    weft_bytes_free(ctx, b, nb);
    weft_plan_destroy(read);
}

TABLE_ROWS(plan_views, are_as_expected, cases);

TABLE_TEST(size_t *index, plan_views, are_as_expected) {
    const golden *g = &cases[*index];
    weft_allocator libc = base_libc_allocator();
    weft_context *ctx;
    weft_plan *plan;
    buffer found;
    char why[300];
    cr_assert_null(weft_context_create(NULL, &ctx));
    weft_status status = plan_of(ctx, g->program, g->title, &plan);
    cr_assert_null(status, "%s: %s", g->title, weft_status_message(status));
    cr_expect(plan_check(plan, true, why, sizeof why), "%s: %s", g->title, why);
    check_text(ctx, plan, g->title);
    buffer_init(&found, &libc);
    for (size_t i = 0; i < plan->ninstrs; i++) put_instr(&found, plan, &plan->instrs[i]);
    buffer_append(&found, "", 1);
    if (g->expected) cr_expect_str_eq(found.bytes, g->expected, "%s: found\n%s", g->title, found.bytes);
    found.nbytes = 0;
    if (g->places) put_places(&found, plan, g->places);
    buffer_append(&found, "", 1);
    if (g->places) cr_expect_str_eq(found.bytes, g->places, "%s: found\n%s", g->title, found.bytes);
    buffer_fini(&found);
    weft_plan_destroy(plan);
    weft_context_destroy(ctx);
}

/* --- memory: a program with views takes what it takes without ----------------------------------------------------- */

Test(plan_views, take_no_memory) {
    weft_context *ctx;
    weft_plan *with, *without;
    cr_assert_null(weft_context_create(NULL, &ctx));
    cr_assert_null(plan_of(ctx,
                           VARS TURN("a", "t") FLAT("t", "v") RELU("v", "u") REDUCE("u", "f", "true") WAIT("f", "s")
                               OP("aten_view", "self: [s]", "out: [b]", "size: !longs [4, 8]") OP(
                                   "elementwise_add", "X: [b], \"Y\": [a]", "Out: [c]", "") RELU("c", "d") FETCH("d"),
                           "with", &with));
    cr_assert_null(plan_of(ctx,
                           VARS TURN("a", "t") RELU("t", "m") REDUCE("m", "f", "true")
                               OP("aten_t", "self: [f]", "out: [b]", "") RELU("b", "d") FETCH("d"),
                           "without", &without));
    cr_expect_eq(with->temporary_nbytes, 128, "%lld", (long long)with->temporary_nbytes);
    cr_expect_eq(with->live_nbytes, 128, "%lld", (long long)with->live_nbytes);
    cr_expect_geq(without->temporary_nbytes, with->temporary_nbytes);
    weft_plan_destroy(with);
    weft_plan_destroy(without);
    weft_context_destroy(ctx);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *program, *expected[3];
} refusals[] = {
    {VARS RELU("a", "b") TURN("b", "t") RELU("a", "b") RELU("t", "m"),
     {"relu #3: it reads \"t\"", "aten_t #1 made as a view of \"b\"", "after relu #2 wrote"}},
    {VARS RELU("a", "b") FLAT("b", "v") TURN("b", "t") RELU("v", "v") RELU("t", "m"),
     {"relu #4: it reads \"t\"", "aten_t #2", "relu #3"}},
    {VARS RELU("a", "b") TURN("b", "t") TURN("t", "c") OP("aten_copy_", "self: [b], src: [a]", "self_out: [b]", "")
         RELU("c", "d"),
     {"relu #4: it reads \"c\"", "aten_t #2", "aten_copy_ #3"}},
    {VARS RELU("a", "b") TURN("b", "t") RELU("a", "b") FETCH("t"),
     {"fetch #3: it reads \"t\"", "aten_t #1", "relu #2"}},
    {VARS RELU("a", "b") TURN("b", "t") RELU("t", "t"), {"relu #2: it writes \"t\"", "aten_t #1", "\"b\""}},
    {VARS RELU("a", "v") RELU("a", "b") FLAT("b", "v"),
     {"aten_view #2: \"v\" is a view here, but relu #0 uses it before", "", ""}},
    {VARS FLAT("b", "v") FLAT("c", "v"), {"aten_view #1: \"v\" is a view here, but aten_view #0 uses it", "", ""}},
};

Test(plan_views, are_refused_in_words) {
    weft_context *ctx;
    cr_assert_null(weft_context_create(NULL, &ctx));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        weft_plan *plan;
        weft_status status = plan_of(ctx, refusals[i].program, "refusal", &plan);
        cr_assert_not_null(status, "%zu: planned\n%s", i, refusals[i].program);
        for (int k = 0; k < 3; k++)
            cr_expect(strstr(weft_status_message(status), refusals[i].expected[k]), "%zu: %s", i,
                      weft_status_message(status));
        weft_status_free(status);
    }
    weft_context_destroy(ctx);
}

/* --- memory that is not there ------------------------------------------------------------------------------------- */

/* Each allocation fails once, in a program with views, a bucket and a materialised view. */
Test(plan_views, end_cleanly_without_memory) {
    static const char source[] = VARS BUCKET("[v, c]") RELU("a", "b") FLAT("b", "v") RELU("a", "c") TURN("b", "t")
        RELU("t", "m") REDUCE("f", "f", "true") WAIT("c", "w") FETCH("w");
    bool failed = true, sampled = getenv("WEFT_SANITIZED") != NULL; /* there every object is a request */
    for (size_t n = 1; failed; n += sampled ? 1 + n / 16 : 1) {
        failing_allocator a = {.fail_at = n};
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&a)};
        weft_context *ctx = NULL;
        weft_program *program = NULL;
        weft_plan *plan = NULL;
        weft_status status = weft_context_create(&options, &ctx);
        if (!status)
            status = weft_program_parse(ctx, WEFT_FORM_YAML, source, sizeof source - 1, NULL, 0, "p.yaml", &program);
        if (!status) status = weft_plan_create(program, NULL, &plan);
        cr_assert_eq(weft_status_code(status), a.failed ? WEFT_OUT_OF_MEMORY : WEFT_OK, "request %zu: %s", n,
                     weft_status_message(status));
        weft_status_free(status);
        weft_plan_destroy(plan);
        weft_program_destroy(program);
        weft_context_destroy(ctx);
        cr_assert(a.held == 0 && !a.wrong_size, "request %zu: %zu bytes are held", n, a.held);
        failed = a.failed;
    }
}
