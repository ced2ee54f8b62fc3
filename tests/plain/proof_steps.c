/* What is proved of slices, concatenations, folds and scatters over one axis of ranks or two, of parts that lists of
 * axes make and of parts that zeros fill up, is what comes out when they run: each program, and each with some words
 * changed, is judged against the serial program and run beside it. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

/* In the ranks' words, <a|b|c|d> is what each of them has. */
typedef struct change {
    const char *from, *to; /* in the ranks' program; NULL: no more */
} change;

typedef struct step {
    const char *name;
    int dp, mp; /* mesh [dp, mp]; ring 0 is of all, 1 along dp, 2 along mp */
    const char *vars, *ops, *serial_vars, *serial_ops;
    change wrong[8]; /* each makes other numbers */
} step;

#define STATE(dims, mapping) "{float32: [" dims "], persistable: true, dist: {mesh: 0, dims_mapping: [" mapping "]}}\n"
#define WHOLE(dims) "{float32: [" dims "], persistable: true}\n"
#define PLACED(dims, mapping) "{float32: [" dims "], dist: {mesh: 0, dims_mapping: [" mapping "]}}\n"
#define LOCAL(dims) "{float32: [" dims "]}\n"
#define SLICE(from, to, axis, first, end)                                                                              \
    "  - {slice: {Input: " from "}, out: {Out: " to "}, attrs: {axes: [" axis "], starts: [" first "], ends: [" end    \
    "], decrease_axis: []}}\n"
#define OP(type, from, to) "  - {" type ": {X: " from "}, out: {Out: " to "}}\n"
#define OVER(type, from, to, ring)                                                                                     \
    "  - {" type ": {X: " from "}, out: {Out: " to "}, attrs: {ring_id: " ring ", nranks: 2}}\n"
#define JOIN(a, b, to, axis) "  - {concat: {X: [" a ", " b "]}, out: {Out: " to "}, attrs: {axis: " axis "}}\n"
#define HALVES(from, a, b, axis)                                                                                       \
    "  - {split: {X: " from "}, out: {Out: [" a ", " b "]}, attrs: {axis: " axis ", num: 2, sections: []}}\n"
#define PAD(from, to, paddings, zero)                                                                                  \
    "  - {pad: {X: " from "}, out: {Out: " to "}, attrs: {paddings: [" paddings "], pad_value: " zero "}}\n"
#define SCALED(from, to, scale, bias)                                                                                  \
    "  - {scale: {X: " from "}, out: {Out: " to "}, attrs: {scale: " scale ", bias: " bias "}}\n"
#define MATMUL(x, w, to) "  - {matmul_v2: {X: " x ", \"Y\": " w "}, out: {Out: " to "}}\n"
#define ALONG(type, from, to)                                                                                          \
    "  - {" type ": {X: " from "}, out: {Out: " to "}, attrs: {dim: [1], keep_dim: false, reduce_all: false}}\n"

// clang-format off
static const step steps[] = {
    {"a slice that all take, and one that is each rank's part, of the same bounds", 1, 2,
     "    x: " WHOLE("4, 6") "    w: " WHOLE("4, 6") "    z: " WHOLE("4, 3") "    y: " STATE("4, 3", "-1, 1")
     "    u: " LOCAL("4, 3") "    t: " LOCAL("4, 6") "    s: " LOCAL("4, 3"),
     SLICE("w", "u", "1", "0", "3") OP("assign", "u", "z") OP("tanh", "x", "t") SLICE("t", "s", "1", "<0|3>", "<3|6>")
     OP("assign", "s", "y"),
     "    x: " WHOLE("4, 6") "    w: " WHOLE("4, 6") "    z: " WHOLE("4, 3") "    y: " WHOLE("4, 6")
     "    u: " LOCAL("4, 3") "    t: " LOCAL("4, 6"),
     SLICE("w", "u", "1", "0", "3") OP("assign", "u", "z") OP("tanh", "x", "t") OP("assign", "t", "y"),
     {{"starts: [<0|3>], ends: [<3|6>]", "starts: [<3|0>], ends: [<6|3>]"},
      {"starts: [<0|3>], ends: [<3|6>]", "starts: [0], ends: [3]"},
      {"starts: [<0|3>], ends: [<3|6>]", "starts: [<1|3>], ends: [<4|6>]"},
      {"starts: [0], ends: [3]", "starts: [<0|3>], ends: [<3|6>]"}}},
    {"parts of three columns and of two", 1, 2,
     "    x: " WHOLE("4, 5") "    y: " STATE("4, <3|2>", "-1, 1") "    t: " LOCAL("4, 5") "    s: " LOCAL("4, <3|2>"),
     OP("tanh", "x", "t") SLICE("t", "s", "1", "<0|3>", "<3|5>") OP("assign", "s", "y"),
     "    x: " WHOLE("4, 5") "    y: " WHOLE("4, 5") "    t: " LOCAL("4, 5"),
     OP("tanh", "x", "t") OP("assign", "t", "y"),
     {{"starts: [<0|3>], ends: [<3|5>]", "starts: [<2|0>], ends: [<5|2>]"},
      {"starts: [<0|3>], ends: [<3|5>]", "starts: [<0|2>], ends: [<3|4>]"}}},
    {"rows behind a dimension of one", 1, 2,
     "    x: " WHOLE("1, 6, 2") "    y: " STATE("1, 3, 2", "-1, 1, -1") "    t: " LOCAL("1, 6, 2")
     "    s: " LOCAL("1, 3, 2"),
     OP("tanh", "x", "t") SLICE("t", "s", "1", "<0|3>", "<3|6>") OP("assign", "s", "y"),
     "    x: " WHOLE("1, 6, 2") "    y: " WHOLE("1, 6, 2") "    t: " LOCAL("1, 6, 2"),
     OP("tanh", "x", "t") OP("assign", "t", "y"),
     {{"starts: [<0|3>], ends: [<3|6>]", "starts: [<3|0>], ends: [<6|3>]"},
      {"starts: [<0|3>], ends: [<3|6>]", "starts: [<0|2>], ends: [<3|5>]"}}},
    {"rows, then columns of them", 2, 2,
     "    x: " WHOLE("4, 6") "    y: " STATE("2, 3", "0, 1") "    r: " LOCAL("2, 6") "    t: " LOCAL("2, 6")
     "    s: " LOCAL("2, 3"),
     SLICE("x", "r", "0", "<0|0|2|2>", "<2|2|4|4>") OP("tanh", "r", "t")
     SLICE("t", "s", "1", "<0|3|0|3>", "<3|6|3|6>") OP("assign", "s", "y"),
     "    x: " WHOLE("4, 6") "    y: " WHOLE("4, 6") "    t: " LOCAL("4, 6"),
     OP("tanh", "x", "t") OP("assign", "t", "y"),
     {{"starts: [<0|0|2|2>], ends: [<2|2|4|4>]", "starts: [<0|2|0|2>], ends: [<2|4|2|4>]"},
      {"starts: [<0|3|0|3>], ends: [<3|6|3|6>]", "starts: [<0|0|3|3>], ends: [<3|3|6|6>]"},
      {"starts: [<0|3|0|3>], ends: [<3|6|3|6>]", "starts: [<0|3|3|0>], ends: [<3|6|6|3>]"}}},
    {"what is gathered, and a part of it on the way", 2, 2,
     "    x: " STATE("2, 3", "0, 1") "    z: " STATE("2, 6", "0, -1") "    v: " WHOLE("4, 6")
     "    y: " STATE("2, 6", "0, -1") "    w: " STATE("2, 6", "0, -1") "    g: " LOCAL("8, 3") "    a: " LOCAL("4, 3")
     "    b: " LOCAL("4, 3") "    c: " LOCAL("2, 3") "    d: " LOCAL("2, 3") "    e: " LOCAL("2, 3")
     "    f: " LOCAL("2, 3") "    h: " LOCAL("2, 6") "    i: " LOCAL("2, 6") "    all: " LOCAL("4, 6")
     "    q: " LOCAL("2, 6") "    k: " LOCAL("2, 6"),
     "  - {c_allgather: {X: x}, out: {Out: g}, attrs: {ring_id: 0, nranks: 4}}\n" HALVES("g", "a", "b", "0")
     HALVES("a", "c", "d", "0") HALVES("b", "e", "f", "0") JOIN("c", "d", "h", "1") JOIN("e", "f", "i", "1")
     JOIN("h", "i", "all", "0") OP("assign", "all", "v")
     "  - {elementwise_mul: {X: z, \"Y\": <h|h|i|i>}, out: {Out: q}, attrs: {axis: -1}}\n" OP("assign", "q", "y")
     "  - {sum: {X: [z, <h|h|i|i>]}, out: {Out: k}}\n" OP("assign", "k", "w"),
     "    x: " WHOLE("4, 6") "    z: " WHOLE("4, 6") "    v: " WHOLE("4, 6") "    y: " WHOLE("4, 6")
     "    w: " WHOLE("4, 6") "    q: " LOCAL("4, 6") "    k: " LOCAL("4, 6"),
     OP("assign", "x", "v") "  - {elementwise_mul: {X: z, \"Y\": x}, out: {Out: q}, attrs: {axis: -1}}\n"
     OP("assign", "q", "y") "  - {sum: {X: [z, x]}, out: {Out: k}}\n" OP("assign", "k", "w"),
     {{"<h|h|i|i>}, out", "<h|i|h|i>}, out"},
      {"<h|h|i|i>}, out", "<i|i|h|h>}, out"},
      {"<h|h|i|i>}, out", "h}, out"},
      {"[z, <h|h|i|i>]", "[z, <i|i|h|h>]"},
      {"[z, <h|h|i|i>]", "[z, h]"},
      {"[h, i]", "[i, h]"},
      {"[c, d]}, out: {Out: h}", "[d, c]}, out: {Out: h}"}}},
    {"rows of what each rank gathered by itself, along either axis", 2, 2,
     "    x: " STATE("2, 2", "0, 1") "    y: " STATE("2, 4", "1, -1") "    z: " STATE("2, 4", "1, -1")
     "    w: " STATE("2, 4", "1, -1") "    g: " LOCAL("4, 2") "    a: " LOCAL("2, 2") "    b: " LOCAL("2, 2")
     "    j: " LOCAL("2, 4") "    u: " LOCAL("4, 4") "    s: " LOCAL("2, 4") "    t: " LOCAL("2, 4")
     "    k: " LOCAL("2, 4"),
     OVER("c_allgather", "x", "g", "2") HALVES("g", "a", "b", "0") JOIN("a", "b", "j", "1")
     OVER("c_allgather", "j", "u", "1") SLICE("u", "s", "0", "<0|2|0|2>", "<2|4|2|4>") OP("tanh", "s", "t")
     OP("assign", "t", "y") "  - {elementwise_mul: {X: z, \"Y\": s}, out: {Out: k}, attrs: {axis: -1}}\n"
     OP("assign", "k", "w"),
     "    x: " WHOLE("4, 4") "    y: " WHOLE("4, 4") "    z: " WHOLE("4, 4") "    w: " WHOLE("4, 4")
     "    t: " LOCAL("4, 4") "    k: " LOCAL("4, 4"),
     OP("tanh", "x", "t") OP("assign", "t", "y")
     "  - {elementwise_mul: {X: z, \"Y\": x}, out: {Out: k}, attrs: {axis: -1}}\n" OP("assign", "k", "w"),
     {{"starts: [<0|2|0|2>], ends: [<2|4|2|4>]", "starts: [<0|0|2|2>], ends: [<2|2|4|4>]"},
      {"starts: [<0|2|0|2>], ends: [<2|4|2|4>]", "starts: [<2|0|2|0>], ends: [<4|2|4|2>]"},
      {"starts: [<0|2|0|2>], ends: [<2|4|2|4>]", "starts: [0], ends: [2]"}}},
    {"columns of two values, one value behind the other", 1, 2,
     "    p: " STATE("2, 2", "-1, 1") "    q: " STATE("3, 2", "-1, 1") "    y: " STATE("5, 2", "-1, 1")
     "    j: " LOCAL("5, 2"),
     JOIN("p", "q", "j", "0") OP("assign", "j", "y"),
     "    p: " WHOLE("2, 4") "    q: " WHOLE("3, 4") "    y: " WHOLE("5, 4") "    j: " LOCAL("5, 4"),
     JOIN("p", "q", "j", "0") OP("assign", "j", "y"),
     {{"[p, q]", "[q, p]"}, {"[p, q]", "<[p, q]|[q, p]>"}}},
    {"a product and a maximum over columns", 1, 2,
     "    x: " STATE("3, 2", "-1, 1") "    y: " WHOLE("3") "    z: " WHOLE("3") "    p: " LOCAL("3")
     "    m: " LOCAL("3") "    r: " LOCAL("3") "    n: " LOCAL("3"),
     ALONG("reduce_prod", "x", "p") OVER("c_allreduce_prod", "p", "r", "2") OP("assign", "r", "y")
     ALONG("reduce_max", "x", "m") OVER("c_allreduce_max", "m", "n", "2") OP("assign", "n", "z"),
     "    x: " WHOLE("3, 4") "    y: " WHOLE("3") "    z: " WHOLE("3") "    p: " LOCAL("3") "    m: " LOCAL("3"),
     ALONG("reduce_prod", "x", "p") OP("assign", "p", "y") ALONG("reduce_max", "x", "m") OP("assign", "m", "z"),
     {{"c_allreduce_prod", "c_allreduce_sum"},
      {"c_allreduce_max", "c_allreduce_min"},
      {"c_allreduce_max", "c_allreduce_sum"},
      {OVER("c_allreduce_prod", "p", "r", "2"), OP("assign", "p", "r")},
      {OVER("c_allreduce_prod", "p", "r", "2"), OVER("c_allreduce_prod", "p", "r", "1")},
      {OVER("c_allreduce_prod", "p", "r", "2"),
       OVER("c_allreduce_prod", "p", "p", "2") OVER("c_allreduce_prod", "p", "r", "2")},
      {"{X: p}", "{X: <p|m>}"}}},
    {"a product over columns of a grid", 2, 2,
     "    x: " STATE("2, 2", "0, 1") "    y: " STATE("2", "0") "    p: " LOCAL("2") "    r: " LOCAL("2"),
     ALONG("reduce_prod", "x", "p") OVER("c_allreduce_prod", "p", "r", "2") OP("assign", "r", "y"),
     "    x: " WHOLE("4, 4") "    y: " WHOLE("4") "    p: " LOCAL("4"),
     ALONG("reduce_prod", "x", "p") OP("assign", "p", "y"),
     {{"ring_id: 2", "ring_id: 1"}, {"ring_id: 2", "ring_id: 0"}}},
    {"groups of channels", 1, 2,
     "    x: " STATE("2, 4, 3", "-1, 1, -1") "    y: " STATE("2, 4, 3", "-1, 1, -1") "    g: " LOCAL("2, 4, 3")
     "    m: " LOCAL("2, 2") "    v: " LOCAL("2, 2"),
     "  - {group_norm: {X: x}, out: {\"Y\": g, Mean: m, Variance: v}, attrs: {groups: 2, epsilon: 0.125}}\n"
     OP("assign", "g", "y"),
     "    x: " WHOLE("2, 8, 3") "    y: " WHOLE("2, 8, 3") "    g: " LOCAL("2, 8, 3") "    m: " LOCAL("2, 4")
     "    v: " LOCAL("2, 4"),
     "  - {group_norm: {X: x}, out: {\"Y\": g, Mean: m, Variance: v}, attrs: {groups: 4, epsilon: 0.125}}\n"
     OP("assign", "g", "y"),
     {{"groups: 2", "groups: 4"}, {"groups: 2", "groups: 1"}, {"epsilon: 0.125", "epsilon: 0.25"}}},
    {"sums scattered along another dimension than the one that the batch is cut at", 2, 2,
     "    a: " STATE("2, 4, 2", "0, -1, 1") "    w: " STATE("2, 2", "1, -1") "    y: " STATE("2, 2, 2", "0, 1, -1")
     "    m: " LOCAL("2, 4, 2") "    b: " LOCAL("2, 2, 2") "    c: " LOCAL("2, 2, 2") "    j: " LOCAL("4, 2, 2")
     "    r: " LOCAL("2, 2, 2"),
     "  - {matmul_v2: {X: a, \"Y\": w}, out: {Out: m}}\n" HALVES("m", "b", "c", "1") JOIN("b", "c", "j", "0")
     OVER("c_reducescatter", "j", "r", "2") OP("assign", "r", "y"),
     "    a: " WHOLE("4, 4, 4") "    w: " WHOLE("4, 2") "    y: " WHOLE("4, 4, 2") "    m: " LOCAL("4, 4, 2"),
     "  - {matmul_v2: {X: a, \"Y\": w}, out: {Out: m}}\n" OP("assign", "m", "y"),
     {{"ring_id: 2", "ring_id: 1"},
      {"[b, c]}, out: {Out: j}", "[c, b]}, out: {Out: j}"},
      {"[b, c]}, out: {Out: j}", "<[b, c]|[c, b]|[b, c]|[c, b]>}, out: {Out: j}"},
      {OVER("c_reducescatter", "j", "r", "2"), HALVES("j", "r", "b", "0")}}},
    {"parts by one list of axes become those by the other", 2, 2,
     "    x: " STATE("2, 3", "[0, 1], -1") "    y: " STATE("2, 3", "[1, 0], -1") "    g: " LOCAL("8, 3")
     "    r: " PLACED("4, 3", "1, -1") "    t: " PLACED("4, 3", "1, -1") "    s: " PLACED("2, 3", "[1, 0], -1"),
     "  - {c_allgather: {X: x}, out: {Out: g}, attrs: {ring_id: 0, nranks: 4}}\n"
     SLICE("g", "r", "0", "<0|4|0|4>", "<4|8|4|8>") OP("tanh", "r", "t")
     SLICE("t", "s", "0", "<0|0|2|2>", "<2|2|4|4>") OP("assign", "s", "y"),
     "    x: " WHOLE("8, 3") "    y: " WHOLE("8, 3") "    t: " LOCAL("8, 3"),
     OP("tanh", "x", "t") OP("assign", "t", "y"),
     {{"starts: [<0|4|0|4>], ends: [<4|8|4|8>]", "starts: [<0|0|4|4>], ends: [<4|4|8|8>]"},
      {"starts: [<0|0|2|2>], ends: [<2|2|4|4>]", "starts: [<0|2|0|2>], ends: [<2|4|2|4>]"},
      {"starts: [<0|0|2|2>], ends: [<2|2|4|4>]", "starts: [<0|0|1|2>], ends: [<2|2|3|4>]"}}},
    {"gathers of parts by two lists of axes, the minor axis first", 2, 2,
     "    x: " STATE("2, 3", "[1, 0], -1") "    y: " STATE("4, 3", "1, -1") "    v: " WHOLE("8, 3")
     "    z: " STATE("2, 3", "[0, 1], -1") "    w: " STATE("4, 3", "0, -1") "    g: " LOCAL("4, 3")
     "    all: " LOCAL("8, 3") "    h: " LOCAL("4, 3"),
     OVER("c_allgather", "x", "g", "1") OP("assign", "g", "y") OVER("c_allgather", "g", "all", "2")
     OP("assign", "all", "v") OVER("c_allgather", "z", "h", "2") OP("assign", "h", "w"),
     "    x: " WHOLE("8, 3") "    y: " WHOLE("8, 3") "    v: " WHOLE("8, 3") "    z: " WHOLE("8, 3")
     "    w: " WHOLE("8, 3"),
     OP("assign", "x", "y") OP("assign", "x", "v") OP("assign", "z", "w"),
     {{"{X: x}, out: {Out: g}, attrs: {ring_id: 1", "{X: x}, out: {Out: g}, attrs: {ring_id: 2"},
      {"{X: g}, out: {Out: all}, attrs: {ring_id: 2", "{X: g}, out: {Out: all}, attrs: {ring_id: 1"},
      {"{X: z}, out: {Out: h}, attrs: {ring_id: 2", "{X: z}, out: {Out: h}, attrs: {ring_id: 1"},
      {OVER("c_allgather", "x", "g", "1"), OVER("c_allgather", "z", "g", "1")},
      {OVER("c_allgather", "g", "all", "2"), OVER("c_allgather", "h", "all", "2")},
      {OVER("c_allgather", "g", "all", "2"),
       "  - {c_allgather: {X: x}, out: {Out: all}, attrs: {ring_id: 0, nranks: 4}}\n"}}},
    {"slices of parts, by either axis first", 2, 2,
     "    x: " WHOLE("8, 3") "    u: " WHOLE("8, 3") "    y: " STATE("2, 3", "[1, 0], -1")
     "    z: " STATE("2, 3", "[0, 1], -1") "    r: " LOCAL("4, 3") "    t: " LOCAL("4, 3")
     "    s: " LOCAL("2, 3") "    a: " LOCAL("4, 3") "    b: " LOCAL("4, 3") "    c: " LOCAL("2, 3"),
     SLICE("x", "r", "0", "<0|4|0|4>", "<4|8|4|8>") OP("tanh", "r", "t")
     SLICE("t", "s", "0", "<0|0|2|2>", "<2|2|4|4>") SLICE("u", "a", "0", "<0|0|4|4>", "<4|4|8|8>")
     OP("tanh", "a", "b") SLICE("b", "c", "0", "<0|2|0|2>", "<2|4|2|4>") OP("assign", "s", "y") OP("assign", "c", "z"),
     "    x: " WHOLE("8, 3") "    u: " WHOLE("8, 3") "    y: " WHOLE("8, 3") "    z: " WHOLE("8, 3")
     "    t: " LOCAL("8, 3") "    b: " LOCAL("8, 3"),
     OP("tanh", "x", "t") OP("tanh", "u", "b") OP("assign", "t", "y") OP("assign", "b", "z"),
     {{OP("assign", "s", "y") OP("assign", "c", "z"), OP("assign", "c", "y") OP("assign", "s", "z")},
      {"starts: [<0|0|2|2>], ends: [<2|2|4|4>]", "starts: [<0|2|0|2>], ends: [<2|4|2|4>]"},
      {"starts: [<0|4|0|4>], ends: [<4|8|4|8>]", "starts: [<4|0|4|0>], ends: [<8|4|8|4>]"},
      {"starts: [<0|2|0|2>], ends: [<2|4|2|4>]", "starts: [<1|2|1|2>], ends: [<3|4|3|4>]"}}},
    {"sums scattered inside the parts of an axis behind", 2, 2,
     "    a: " STATE("4, 2", "1, 0") "    w: " STATE("2, 3", "0, -1") "    y: " STATE("2, 3", "[1, 0], -1")
     "    x: " STATE("2, 3", "[0, 1], -1") "    z: " STATE("2, 3", "[0, 1], -1") "    m: " LOCAL("4, 3")
     "    r: " LOCAL("2, 3") "    b: " LOCAL("2, 3") "    t: " LOCAL("2, 3"),
     MATMUL("a", "w", "m") OVER("c_reducescatter", "m", "r", "1") OP("assign", "r", "y") OP("tanh", "x", "t")
     OP("assign", "t", "z"),
     "    a: " WHOLE("8, 4") "    w: " WHOLE("4, 3") "    y: " WHOLE("8, 3") "    x: " WHOLE("8, 3")
     "    z: " WHOLE("8, 3") "    m: " LOCAL("8, 3") "    t: " LOCAL("8, 3"),
     MATMUL("a", "w", "m") OP("assign", "m", "y") OP("tanh", "x", "t") OP("assign", "t", "z"),
     {{"ring_id: 1", "ring_id: 2"},
      {OVER("c_reducescatter", "m", "r", "1"), HALVES("m", "r", "b", "0")},
      {OP("assign", "r", "y") OP("tanh", "x", "t"), OP("assign", "x", "y") OP("tanh", "r", "t")}}},
    {"rows inside the parts of an axis behind become columns", 2, 2,
     "    x: " STATE("2, 4", "[1, 0], -1") "    y: " STATE("4, 2", "1, 0") "    u: " STATE("2, 3", "[0, 1], -1")
     "    a: " LOCAL("2, 2") "    b: " LOCAL("2, 2") "    j: " LOCAL("4, 2") "    r: " LOCAL("4, 2"),
     HALVES("x", "a", "b", "1") JOIN("a", "b", "j", "0") OVER("alltoall", "j", "r", "1") OP("assign", "r", "y")
     OP("assign", "u", "u"),
     "    x: " WHOLE("8, 4") "    y: " WHOLE("8, 4") "    u: " WHOLE("8, 3"),
     OP("assign", "x", "y") OP("assign", "u", "u"),
     {{"ring_id: 1", "ring_id: 2"}, {"[a, b]}, out: {Out: j}", "[b, a]}, out: {Out: j}"}}},
    {"parts that are filled up, gathered and cut", 2, 2,
     "    x: " STATE("<3|2|3|2>, 1", "1, 0") "    y: " STATE("5, 1", "-1, 0") "    p: " LOCAL("3, 1")
     "    s: " LOCAL("3, 1") "    g: " LOCAL("6, 1") "    c: " LOCAL("5, 1"),
     "<|" PAD("x", "p", "0, 1, 0, 0", "0.0") "||" PAD("x", "p", "0, 1, 0, 0", "0.0") ">"
     SCALED("<x|p|x|p>", "s", "2.0", "0.0")
     OVER("c_allgather", "s", "g", "2") SLICE("g", "c", "0", "0", "5") OP("assign", "c", "y"),
     "    x: " WHOLE("5, 2") "    y: " WHOLE("5, 2") "    s: " LOCAL("5, 2"),
     SCALED("x", "s", "2.0", "0.0") OP("assign", "s", "y"),
     {{"[0, 1, 0, 0]", "[1, 0, 0, 0]"},
      {"starts: [0], ends: [5]", "starts: [1], ends: [6]"},
      {"ring_id: 2", "ring_id: 1"},
      {"scale: 2.0", "scale: <2.0|3.0|2.0|3.0>"},
      {"bias: 0.0", "bias: 1.0"}}},
    {"parts of three ranks, filled up and gathered", 1, 3,
     "    x: " STATE("<2|2|1>, 2", "1, -1") "    y: " WHOLE("5, 2") "    p: " LOCAL("2, 2") "    g: " LOCAL("6, 2")
     "    c: " LOCAL("5, 2"),
     "<||" PAD("x", "p", "0, 1, 0, 0", "0.0") ">"
     "  - {c_allgather: {X: <x|x|p>}, out: {Out: g}, attrs: {ring_id: 2, nranks: 3}}\n" SLICE("g", "c", "0", "0", "5")
     OP("assign", "c", "y"),
     "    x: " WHOLE("5, 2") "    y: " WHOLE("5, 2"),
     OP("assign", "x", "y"),
     {{"[0, 1, 0, 0]", "[1, 0, 0, 0]"}, {"starts: [0], ends: [5]", "starts: [1], ends: [6]"}}},
    {"sums that are filled up, scattered and cut", 2, 2,
     "    a: " STATE("5, 2", "-1, 1") "    w: " STATE("2, 2", "1, 0") "    y: " STATE("<3|2|3|2>, 2", "1, 0")
     "    m: " LOCAL("5, 2") "    p: " LOCAL("6, 2") "    r: " LOCAL("3, 2") "    s: " LOCAL("2, 2"),
     MATMUL("a", "w", "m") PAD("m", "p", "0, 1, 0, 0", "0.0") OVER("c_reducescatter", "p", "r", "2")
     "<|" SLICE("r", "s", "0", "0", "2") "||" SLICE("r", "s", "0", "0", "2") ">" OP("assign", "<r|s|r|s>", "y"),
     "    a: " WHOLE("5, 4") "    w: " WHOLE("4, 4") "    y: " WHOLE("5, 4") "    m: " LOCAL("5, 4"),
     MATMUL("a", "w", "m") OP("assign", "m", "y"),
     {{"[0, 1, 0, 0]", "[1, 0, 0, 0]"},
      {"[0, 1, 0, 0]", "[<0|1|0|1>, <1|0|1|0>, 0, 0]"},
      {"starts: [0], ends: [2]", "starts: [1], ends: [3]"},
      {"ring_id: 2", "ring_id: 1"}}},
    {"columns that are filled up become rows", 2, 2,
     "    x: " STATE("2, <3|2|3|2>", "0, 1") "    y: " STATE("1, 5", "[0, 1], -1") "    p: " LOCAL("2, 3")
     "    t: " LOCAL("2, 3") "    u: " LOCAL("1, 3") "    v: " LOCAL("1, 3") "    j: " LOCAL("1, 6")
     "    k: " LOCAL("1, 5"),
     "<|" PAD("x", "p", "0, 0, 0, 1", "0.0") "||" PAD("x", "p", "0, 0, 0, 1", "0.0") ">"
     OVER("alltoall", "<x|p|x|p>", "t", "2") HALVES("t", "u", "v", "0") JOIN("u", "v", "j", "1")
     SLICE("j", "k", "1", "0", "5") OP("assign", "k", "y"),
     "    x: " WHOLE("4, 5") "    y: " WHOLE("4, 5"),
     OP("assign", "x", "y"),
     {{"[0, 0, 0, 1]", "[0, 0, 1, 0]"},
      {"starts: [0], ends: [5]", "starts: [1], ends: [6]"},
      {"{X: [u, v]}", "{X: [v, u]}"},
      {"ring_id: 2", "ring_id: 1"}}},
    {"parts among zeros, summed", 2, 2,
     "    x: " STATE("<3|2|3|2>, 1", "1, 0") "    y: " STATE("5, 1", "-1, 0") "    p: " LOCAL("5, 1")
     "    q: " LOCAL("5, 1") "    k: " LOCAL("5, 1"),
     PAD("x", "p", "<0|3|0|3>, <2|0|2|0>, 0, 0", "0.0") OVER("c_allreduce_sum", "p", "q", "2")
     SCALED("q", "k", "1.0", "1.0") OP("assign", "k", "y"),
     "    x: " WHOLE("5, 2") "    y: " WHOLE("5, 2") "    k: " LOCAL("5, 2"),
     SCALED("x", "k", "1.0", "1.0") OP("assign", "k", "y"),
     {{"<0|3|0|3>, <2|0|2|0>", "<2|0|2|0>, <0|3|0|3>"},
      {"<0|3|0|3>, <2|0|2|0>", "<0|2|0|2>, <2|1|2|1>"},
      {"pad_value: 0.0", "pad_value: 1.0"},
      {"ring_id: 2", "ring_id: 1"},
      {"c_allreduce_sum", "c_allreduce_max"},
      {OVER("c_allreduce_sum", "p", "q", "2"), OP("assign", "p", "q")},
      {OVER("c_allreduce_sum", "p", "q", "2") SCALED("q", "k", "1.0", "1.0"),
       SCALED("p", "q", "1.0", "1.0") OVER("c_allreduce_sum", "q", "k", "2")}}},
    {"parts that are filled up along two dimensions", 2, 2,
     "    x: " STATE("<3|3|2|2>, <2|1|2|1>", "0, 1") "    y: " WHOLE("5, 3") "    a: " LOCAL("<3|3|2|2>, 2")
     "    b: " LOCAL("3, 2") "    g: " LOCAL("6, 2") "    h: " LOCAL("12, 2") "    c: " LOCAL("6, 2")
     "    d: " LOCAL("6, 2") "    j: " LOCAL("6, 4") "    r: " LOCAL("5, 4") "    s: " LOCAL("5, 3"),
     "<|" PAD("x", "a", "0, 0, 0, 1", "0.0") "||" PAD("x", "a", "0, 0, 0, 1", "0.0") ">"
     "<||" PAD("x", "b", "0, 1, 0, 0", "0.0") "|" PAD("a", "b", "0, 1, 0, 0", "0.0") ">"
     OVER("c_allgather", "<x|a|b|b>", "g", "1") OVER("c_allgather", "g", "h", "2") HALVES("h", "c", "d", "0")
     JOIN("c", "d", "j", "1") SLICE("j", "r", "0", "0", "5") SLICE("r", "s", "1", "0", "3") OP("assign", "s", "y"),
     "    x: " WHOLE("5, 3") "    y: " WHOLE("5, 3"),
     OP("assign", "x", "y"),
     {{"[0, 0, 0, 1]", "[0, 0, 1, 0]"},
      {"[0, 1, 0, 0]", "[1, 0, 0, 0]"},
      {"{X: [c, d]}", "{X: [d, c]}"},
      {"starts: [0], ends: [5]", "starts: [1], ends: [6]"},
      {"starts: [0], ends: [3]", "starts: [1], ends: [4]"},
      {OVER("c_allgather", "<x|a|b|b>", "g", "1") OVER("c_allgather", "g", "h", "2"),
       OVER("c_allgather", "<x|a|b|b>", "g", "2") OVER("c_allgather", "g", "h", "1")}}},
};
// clang-format on

/* What `rank` has of the words. */
static void put_words(trial *t, char *b, const char *words, int rank) {
    for (const char *c = words; *c; c++) {
        if (*c != '<') {
            put(t, b, "%c", *c);
            continue;
        }
        for (int i = 0; i < rank; i++) c = strchr(c + 1, '|');
        size_t n = strcspn(++c, "|>");
        put(t, b, "%.*s", (int)n, c);
        c = strchr(c, '>');
    }
}

static void put_ranks(trial *t, char *b, int first, int step_by, int n) {
    for (int i = 0; i < n; i++) put(t, b, "%s%d", i ? ", " : "", first + i * step_by);
}

static void write_rank(trial *t, const step *s, const change *c, int rank) {
    static char words[TEXT];
    char *b = t->ranks[rank];
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [", rank);
    put_ranks(t, b, 0, 1, s->dp * s->mp);
    put(t, b, "], 1: [");
    put_ranks(t, b, rank % s->mp, s->mp, s->dp);
    put(t, b, "], 2: [");
    put_ranks(t, b, rank / s->mp * s->mp, 1, s->mp);
    put(t, b, "]}\nmeshes:\n- {shape: [%d, %d], ids: [", s->dp, s->mp);
    put_ranks(t, b, 0, 1, s->dp * s->mp);
    put(t, b, "], dims: [dp, mp]}\nblocks:\n- idx: 0\n  vars:\n");
    put_words(t, b, s->vars, rank);
    put(t, b, "  ops:\n");
    snprintf(words, sizeof words, "%s", s->ops);
    if (c) check(trial_replace(words, c->from, c->to), "%s: there is no %s", s->name, c->from);
    put_words(t, b, words, rank);
}

static void try_step(const step *s, const change *c) {
    static trial t;
    char message[100] = "";
    t.nranks = s->dp * s->mp;
    t.tolerance = 1e-5;
    for (int r = 0; r < t.nranks; r++) write_rank(&t, s, c, r);
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n%s  ops:\n%s", s->serial_vars, s->serial_ops);
    trial_run(context, &t);
    const char *what = c ? c->to : "as it is";
    check(t.equal == !c, "%s, %s: expected it to be %s", s->name, what, c ? "different" : "equal");
    check(t.proved == !c, "%s, %s: expected it to be %s: %s", s->name, what, c ? "refused" : "proved", t.message);
    if (!c) check(trial_fail_each(&t, message, sizeof message), "%s: %s", s->name, message);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        try_step(&steps[i], NULL);
        for (size_t k = 0; k < sizeof steps[i].wrong / sizeof(change) && steps[i].wrong[k].from; k++)
            try_step(&steps[i], &steps[i].wrong[k]);
    }
    weft_context_destroy(context);
    return report_checks();
}
