/* plan_golden.c: small programs and what is planned for them: one case, one behaviour. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "tests/support/plan_check.h"
#include "tests/support/table.h"

/* `expected` is what is in the plan, in its order: an instruction as "op(outputs)@stream", what it waits for, its
 * guards; a value as "name: place", after the instructions that are asked for. Values are given where the case is about
 * memory. */
typedef struct golden {
    const char *title, *program, *fetch, *expected, *places;
} golden;

#define VARS_ABC                                                                                                       \
    "weft: 1\nblocks:\n- vars:\n"                                                                                      \
    "    a: {float32: [16]}\n    b: {float32: [16]}\n    c: {float32: [16]}\n    d: {float32: [16]}\n"

#define VARS_UPDATE                                                                                                    \
    "weft: 1\nblocks:\n- vars:\n"                                                                                      \
    "    w: {float32: [2048, 2048], persistable: true}\n    n: {float32: [1]}\n    r: {float32: [1], persistable: "    \
    "true}\n"                                                                                                          \
    "    x: {float32: [2048, 2048]}\n    g: {float32: [2048, 2048]}\n    y: {float32: [2048, 2048]}\n"                 \
    "    z: {float32: [2048, 2048]}\n"

static const golden cases[] = {
    {"one stream needs no waits",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [b]}, out: {Out: [c]}}\n",
     NULL, "relu(b)@compute\nrelu(c)@compute\n", "a: persistent 0\nb: temporary 0\nc: temporary 0\n"},
    {"a read waits for the write, a write for the reads",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {scale: {X: [b]}, out: {Out: [c]}, dist: {stream: s}}\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [c]}, out: {Out: [d]}}\n",
     NULL, "relu(b)@compute\nscale(c)@s after compute 1\nrelu(b)@compute after s 1\nrelu(d)@compute\n", NULL},
    {"a wait that another implies is left out",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [b]}, out: {Out: [c]}, dist: {stream: s}}\n"
              "  - {elementwise_add: {X: [b], \"Y\": [c]}, out: {Out: [d]}, dist: {stream: t}}\n",
     NULL, "relu(b)@compute\nrelu(c)@s after compute 1\nelementwise_add(d)@t after s 1\n", NULL},
    {"two reads of one value are not ordered",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [c]}, dist: {stream: s}}\n",
     NULL, "relu(b)@compute\nrelu(c)@s\n", NULL},
    {"ops without bytes are no instructions and order nothing",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {nop: {X: [b]}, out: {Out: [c]}, dist: {stream: s}}\n"
              "  - {c_wait_compute: {}, out: {}, attrs: {ring_id: 0}}\n"
              "  - {relu: {X: [a]}, out: {Out: [d]}, dist: {stream: s}}\n",
     NULL, "relu(b)@compute\nrelu(d)@s\n", NULL},
    {"bucket members are bytes of the bucket",
     VARS_ABC "    f: {float32: [-1]}\n  ops:\n"
              "  - {coalesce_tensor: {Input: [b, c]}, out: {Output: [b, c], FusedOutput: [f]}, attrs: {dtype: 5, "
              "use_align: true, align_size: 256}}\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [c]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [d]}}\n"
              "  - {c_allreduce_sum: {X: [f]}, out: {Out: [f]}, attrs: {ring_id: 3, use_calc_stream: false}}\n"
              "  - {relu: {X: [d]}, out: {Out: [d]}}\n"
              "  - {relu: {X: [c]}, out: {Out: [c]}}\n",
     NULL,
     "relu(b)@compute\nrelu(c)@compute\nrelu(d)@compute\nc_allreduce_sum(f)@ring_3 after compute 2\n"
     "relu(d)@compute\nrelu(c)@compute after ring_3 1\n",
     "b: temporary 0\nc: temporary 256\nf: temporary 0\na: persistent 0\nd: temporary 512\n"},
    {"collectives of one ring follow program order on any streams",
     VARS_ABC "  ops:\n"
              "  - {c_allreduce_sum: {X: [a]}, out: {Out: [a]}, attrs: {ring_id: 0, use_calc_stream: true}}\n"
              "  - {c_allreduce_sum: {X: [b]}, out: {Out: [b]}, attrs: {ring_id: 0, use_calc_stream: false}}\n"
              "  - {c_allreduce_sum: {X: [c]}, out: {Out: [c]}, attrs: {ring_id: 1, use_calc_stream: false}}\n",
     NULL, "c_allreduce_sum(a)@compute\nc_allreduce_sum(b)@ring_0 after compute 1\nc_allreduce_sum(c)@ring_1\n", NULL},
    {"a conditional's ops are guarded and wait for the condition",
     "weft: 1\nblocks:\n- vars:\n    a: {float32: [4]}\n    b: {float32: [4]}\n    n: {float32: [1]}\n"
     "    c: {bool: [1]}\n    s: {kind: step_scopes}\n  ops:\n"
     "  - {equal: {X: [n], \"Y\": [n]}, out: {Out: [c]}, dist: {stream: s}}\n"
     "  - {conditional_block: {Cond: [c], Input: [a]}, out: {Out: [b], Scope: [s]}, attrs: {is_scalar_condition: true, "
     "sub_block: !block 1}}\n"
     "  - {relu: {X: [b]}, out: {Out: [a]}}\n"
     "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n"
     "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
     "  - {scale: {X: [b]}, out: {Out: [b]}}\n",
     NULL, "equal(c)@s\nrelu(b)@compute after s 1 if c\nscale(b)@compute if c\nrelu(a)@compute\n", NULL},
    {"an op that changes its own condition changes a copy's original",
     "weft: 1\nblocks:\n- vars:\n    a: {float32: [4]}\n    n: {float32: [1]}\n    c: {bool: [1]}\n  ops:\n"
     "  - {equal: {X: [n], \"Y\": [n]}, out: {Out: [c]}}\n"
     "  - {conditional_block: {Cond: [c], Input: [a]}, out: {}, attrs: {is_scalar_condition: true, "
     "sub_block: !block 1}}\n"
     "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n"
     "  - {equal: {X: [n], \"Y\": [n]}, out: {Out: [c]}}\n"
     "  - {relu: {X: [a]}, out: {Out: [a]}}\n",
     NULL, "equal(c)@compute\nassign(c@entry)@compute\nequal(c)@compute if c@entry\nrelu(a)@compute if c@entry\n",
     NULL},
    {"a fetch op names the bytes, or copies what changes later",
     VARS_ABC "    o: {kind: fetch_list}\n  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {fetch: {X: [b]}, out: {Out: [o]}, attrs: {col: 0}}\n"
              "  - {fetch: {X: [a]}, out: {Out: [o]}, attrs: {col: 1}}\n"
              "  - {relu: {X: [c]}, out: {Out: [a]}}\n",
     NULL, "relu(b)@compute\nassign(fetch.1)@compute\nrelu(a)@compute\n",
     "a: persistent 0\nb: persistent 64\nfetch.0: persistent 64\nfetch.1: persistent 128\nc: persistent 192\n"},
    {"fetched vars are not overwritten",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [b]}, out: {Out: [c]}}\n",
     "b", "relu(b)@compute\nrelu(c)@compute\n", "a: persistent 0\nb: persistent 64\nc: temporary 0\n"},
    {"an output that its op may not write in place gets a copy",
     "weft: 1\nblocks:\n- vars:\n    a: {float32: [4, 4]}\n    b: {float32: [4, 4]}\n  ops:\n"
     "  - {matmul_v2: {X: [a], \"Y\": [b]}, out: {Out: [a]}}\n"
     "  - {elementwise_add: {X: [b], \"Y\": [a]}, out: {Out: [a]}}\n",
     NULL, "matmul_v2(a@new)@compute\nassign(a)@compute\nelementwise_add(a@new_3)@compute\nassign(a)@compute\n", NULL},
    {"an update runs where its gradient is complete and its parameter was read last, behind what is light",
     VARS_UPDATE "  ops:\n"
                 "  - {relu: {X: [x]}, out: {Out: [g]}}\n"
                 "  - {matmul_v2: {X: [w], \"Y\": [x]}, out: {Out: [y]}}\n"
                 "  - {relu: {X: [y]}, out: {Out: [y]}}\n"
                 "  - {matmul_v2: {X: [y], \"Y\": [x]}, out: {Out: [z]}}\n"
                 "  - {sgd: {Param: [w], Grad: [g], LearningRate: [r]}, out: {ParamOut: [w]}}\n",
     NULL, "relu(g)@compute\nmatmul_v2(y)@compute\nrelu(y)@compute\nsgd(w)@compute\nmatmul_v2(z)@compute\n", NULL},
    {"an update of what another updates follows it",
     VARS_UPDATE "  ops:\n"
                 "  - {relu: {X: [x]}, out: {Out: [g]}}\n"
                 "  - {matmul_v2: {X: [x], \"Y\": [x]}, out: {Out: [z]}}\n"
                 "  - {sgd: {Param: [w], Grad: [g], LearningRate: [r]}, out: {ParamOut: [w]}}\n"
                 "  - {matmul_v2: {X: [x], \"Y\": [x]}, out: {Out: [y]}}\n"
                 "  - {sgd: {Param: [w], Grad: [g], LearningRate: [r]}, out: {ParamOut: [w]}}\n",
     NULL, "relu(g)@compute\nsgd(w)@compute\nmatmul_v2(z)@compute\nsgd(w)@compute\nmatmul_v2(y)@compute\n", NULL},
    {"an update stays where little is touched between its gradient and it",
     VARS_UPDATE "  ops:\n"
                 "  - {relu: {X: [x]}, out: {Out: [g]}}\n"
                 "  - {squared_l2_norm: {X: [x]}, out: {Out: [n]}}\n"
                 "  - {sgd: {Param: [w], Grad: [g], LearningRate: [r]}, out: {ParamOut: [w]}}\n",
     NULL, "relu(g)@compute\nsquared_l2_norm(n)@compute\nsgd(w)@compute\n", NULL},
    {"an update of what another stream reduces stays behind the backward pass",
     VARS_UPDATE "  ops:\n"
                 "  - {relu: {X: [x]}, out: {Out: [g]}}\n"
                 "  - {c_allreduce_sum: {X: [g]}, out: {Out: [g]}, attrs: {ring_id: 1, use_calc_stream: false}}\n"
                 "  - {relu: {X: [x]}, out: {Out: [y]}}\n"
                 "  - {matmul_v2: {X: [x], \"Y\": [x]}, out: {Out: [z]}}\n"
                 "  - {sgd: {Param: [w], Grad: [g], LearningRate: [r]}, out: {ParamOut: [w]}}\n",
     NULL,
     "relu(g)@compute\nc_allreduce_sum(g)@ring_1 after compute 1\nrelu(y)@compute\nmatmul_v2(z)@compute\n"
     "sgd(w)@compute after ring_1 1\n",
     NULL},
    {"memory is not shared between streams that nothing orders",
     VARS_ABC "  ops:\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {squared_l2_norm: {X: [b]}, out: {Out: [c]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [d]}, dist: {stream: s}}\n",
     NULL, NULL, NULL},
    {"a bucket filled by two streams takes no bytes that one of them may still use",
     VARS_ABC "    f: {float32: [-1]}\n    n: {float32: [1]}\n    big: {float32: [64]}\n  ops:\n"
              "  - {coalesce_tensor: {Input: [b, c]}, out: {Output: [b, c], FusedOutput: [f]}, attrs: {dtype: 5, "
              "use_align: true, align_size: 64}}\n"
              "  - {fill_constant: {}, out: {Out: [big]}, attrs: {shape: !longs [64], dtype: 5}}\n"
              "  - {squared_l2_norm: {X: [big]}, out: {Out: [n]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [b]}}\n"
              "  - {relu: {X: [a]}, out: {Out: [c]}, dist: {stream: s}}\n"
              "  - {elementwise_add: {X: [b], \"Y\": [c]}, out: {Out: [d]}}\n",
     NULL,
     "fill_constant(big)@compute\nsquared_l2_norm(n)@compute\nrelu(b)@compute\nrelu(c)@s\n"
     "elementwise_add(d)@compute after s 1\n",
     "b: temporary 256\nc: temporary 320\nf: temporary 256\nbig: temporary 0\nn: temporary 384\na: persistent 0\n"
     "d: temporary 0\n"},
};

static void put(buffer *out, const weft_plan *p, const plan_instr *i) {
    buffer_format(out, "%s(", i->schema->type);
    for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++)
        buffer_format(out, "%s%s", k ? ", " : "", p->values[i->out[k]].name);
    buffer_format(out, ")@%s", p->stream_names[i->stream]);
    for (uint32_t w = 0; w < i->nwaits; w++)
        buffer_format(out, "%s%s %d", w ? ", " : " after ", p->stream_names[i->waits[w].stream], i->waits[w].count);
    if (i->guard >= 0) buffer_format(out, " if %s", p->values[i->guard].name);
    buffer_text(out, "\n");
}

static void check_text(weft_context *ctx, const weft_plan *plan) {
    char *a, *b;
    size_t na, nb;
    weft_plan *read;
    weft_status status;
    cr_assert_null(weft_plan_print(plan, &a, &na));
    status = weft_plan_parse(ctx, a, na, "p.plan", &read);
    cr_assert_null(status, "%s: %s\n%s", weft_status_place(status), weft_status_message(status), a);
    cr_assert_null(weft_plan_print(read, &b, &nb));
    cr_assert(na == nb && memcmp(a, b, na) == 0, "%s\nreads back as\n%s", a, b);
    weft_bytes_free(ctx, a, na);
    weft_bytes_free(ctx, b, nb);
    weft_plan_destroy(read);
}

TABLE_ROWS(plan_golden, plans_as_expected, cases);

TABLE_TEST(size_t *index, plan_golden, plans_as_expected) {
    const golden *g = &cases[*index];
    weft_context *ctx;
    weft_program *program;
    weft_plan *plan;
    weft_allocator libc = base_libc_allocator();
    buffer instrs, places;
    char why[300];
    cr_assert_null(weft_context_create(NULL, &ctx));
    weft_status status =
        weft_program_parse(ctx, WEFT_FORM_YAML, g->program, strlen(g->program), NULL, 0, "p.yaml", &program);
    cr_assert_null(status, "%s: %s: %s", g->title, weft_status_place(status), weft_status_message(status));
    weft_plan_options options = {WEFT_PLAN_OPTIONS_INIT, .fetches = &g->fetch, .nfetches = g->fetch ? 1 : 0};
    status = weft_plan_create(program, &options, &plan);
    cr_assert_null(status, "%s: %s", g->title, weft_status_message(status));
    cr_expect(plan_check(plan, true, why, sizeof why), "%s: %s", g->title, why);
    check_text(ctx, plan);
    buffer_init(&instrs, &libc);
    buffer_init(&places, &libc);
    for (size_t i = 0; i < plan->ninstrs; i++) put(&instrs, plan, &plan->instrs[i]);
    for (size_t v = 0; v < plan->nvalues; v++)
        buffer_format(&places, "%s: %s %lld\n", plan->values[v].name,
                      plan->values[v].space == PLAN_PERSISTENT ? "persistent" : "temporary",
                      (long long)plan->values[v].offset);
    buffer_append(&instrs, "", 1);
    buffer_append(&places, "", 1);
    if (g->expected) cr_expect_str_eq(instrs.bytes, g->expected, "%s: found\n%s", g->title, instrs.bytes);
    if (g->places) cr_expect_str_eq(places.bytes, g->places, "%s: found\n%s", g->title, places.bytes);
    buffer_fini(&instrs);
    buffer_fini(&places);
    weft_plan_destroy(plan);
    weft_program_destroy(program);
    weft_context_destroy(ctx);
}
