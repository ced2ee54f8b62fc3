/* exact_made.c: a program that is exact as it is written: each of two ranks updates one of two parameters from a sum
 * that it alone gets, and sends it to the other. For what recorded programs do not have: collectives with a root. */
#include <stdio.h>

#include "tests/support/exact.h"
#include "tests/support/must.h"

#define REDUCE(k) "  - {c_reduce_sum: {X: g" k "}, out: {Out: g" k "}, attrs: {ring_id: 0, root_id: " k ", " REST "\n"
#define SEND(k) "  - {c_broadcast: {X: w" k "}, out: {Out: w" k "}, attrs: {ring_id: 0, root: " k ", " REST "\n"
#define REST "use_calc_stream: true, op_role: 1}}"

static const char format[] =
    "weft: 1\nrank: %d\nrings: {0: [0, 1]}\nblocks:\n- vars:\n"
    "    x: {float32: [8], need_check_feed: true}\n    rate: {float32: [1], persistable: true}\n"
    "    w0: {float32: [8], persistable: true}\n    w1: {float32: [8], persistable: true}\n"
    "    g0: {float32: [8]}\n    g1: {float32: [8]}\n  ops:\n"
    "  - {elementwise_mul: {X: x, \"Y\": w0}, out: {Out: g0}}\n"
    "  - {elementwise_mul: {X: x, \"Y\": w1}, out: {Out: g1}}\n" REDUCE("0") REDUCE(
        "1") "  - {scale: {X: g0}, out: {Out: g0}, attrs: {scale: 0.5}}\n"
             "  - {scale: {X: g1}, out: {Out: g1}, attrs: {scale: 0.5}}\n"
             "  - {sgd: {Grad: g%d, LearningRate: rate, Param: w%d}, out: {ParamOut: w%d}, attrs: {op_role: 2}}\n" SEND(
                 "0") SEND("1");

void world_make_owners(exact_world *w, weft_context *context) {
    *w = (exact_world){.nranks = 2};
    for (int r = 0; r < 2; r++) {
        char message[2500];
        int n = snprintf(message, sizeof message, format, r, r, r, r);
        must(weft_program_parse(context, WEFT_FORM_YAML, message, (size_t)n, NULL, 0, "owners.yaml", &w->programs[r]));
    }
}
