/* All-to-all of unequal parts: what one rank gives to another must be what that one expects. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/judge.h"

#define RANK(n, given, got, op)                                                                                        \
    "weft: 1\nrank: " #n "\nrings: {0: [0, 1]}\nblocks:\n- vars:\n"                                                    \
    "    x: {float32: " given ", need_check_feed: true}\n    y: {float32: " got ", persistable: true}\n"               \
    "    a: {float32: [2, 3], need_check_feed: true}\n    b: {float32: [5], need_check_feed: true}\n"                  \
    "    c: {float32: [2, 3], persistable: true}\n    d: {float32: [5], persistable: true}\n"                          \
    "    e: {float32: [4], persistable: true}\n    z: {float32: [6], persistable: true}\n  ops:\n" op
#define SPLIT(in, out)                                                                                                 \
    "  - {all_to_all: {x: x}, out: {out: y}, attrs: {ring_id: 0, in_splits: !longs [" in "], out_splits: !longs [" out \
    "]}}\n"
#define EVEN "  - {all_to_all: {x: x}, out: {out: y}, attrs: {ring_id: 0}}\n"
#define LIST(in, out) "  - {all_to_all_list: {x: [" in "]}, out: {out: [" out "]}, attrs: {ring_id: 0}}\n"

static const struct {
    const char *what, *rank0, *rank1, *expected, *text;
} cases[] = {
    {"what each gives is what the other expects", RANK(0, "[4, 2]", "[3, 2]", SPLIT("1, 3", "1, 2")),
     RANK(1, "[5, 2]", "[6, 2]", SPLIT("2, 3", "3, 3")), "safe", NULL},
    {"rank 0 gives more than 1 expects", RANK(0, "[4, 2]", "[3, 2]", SPLIT("1, 3", "1, 2")),
     RANK(1, "[5, 2]", "[5, 2]", SPLIT("2, 3", "2, 3")), "deadlock",
     "on rank 0 gives 6 elements to rank 1, which expects 4 of it"},
    {"rank 1 gives less than 0 expects", RANK(0, "[4, 2]", "[3, 2]", SPLIT("1, 3", "1, 2")),
     RANK(1, "[4, 2]", "[6, 2]", SPLIT("1, 3", "3, 3")), "deadlock",
     "on rank 1 gives 2 elements to rank 0, which expects 4 of it"},
    {"equal in rows, not in elements", RANK(0, "[4, 2]", "[3, 2]", SPLIT("1, 3", "1, 2")),
     RANK(1, "[5, 3]", "[6, 3]", SPLIT("2, 3", "3, 3")), "deadlock",
     "on rank 0 gives 6 elements to rank 1, which expects 9"},
    {"a rank's own part", RANK(0, "[4, 2]", "[4, 2]", SPLIT("1, 3", "2, 2")),
     RANK(1, "[5, 2]", "[6, 2]", SPLIT("2, 3", "3, 3")), "deadlock",
     "on rank 0 gives 2 elements to rank 0, which expects 4"},
    {"one rank's are unequal", RANK(0, "[4, 2]", "[4, 2]", EVEN), RANK(1, "[4, 2]", "[4, 2]", SPLIT("2, 2", "2, 2")),
     "safe", NULL},
    {"one rank's are unequal, and not what the other's are", RANK(0, "[4, 2]", "[4, 2]", EVEN),
     RANK(1, "[4, 2]", "[4, 2]", SPLIT("1, 3", "2, 2")), "deadlock",
     "on rank 1 gives 2 elements to rank 0, which expects 4 of it"},
    {"equal programs that cut otherwise than they expect", RANK(0, "[4, 2]", "[4, 2]", SPLIT("1, 3", "2, 2")),
     RANK(1, "[4, 2]", "[4, 2]", SPLIT("1, 3", "2, 2")), "deadlock", "gives 2 elements to rank 0"},
    {"parts for another number of ranks", RANK(0, "[4, 2]", "[4, 2]", SPLIT("1, 1, 2", "1, 1, 2")),
     RANK(1, "[4, 2]", "[4, 2]", SPLIT("1, 1, 2", "1, 1, 2")), "invalid_program", NULL},
    {"lists", RANK(0, "[1]", "[1]", LIST("a, b", "z, e")), RANK(1, "[1]", "[1]", LIST("e, a", "d, z")), "safe", NULL},
    {"lists, of which one is too long", RANK(0, "[1]", "[1]", LIST("a, b", "z, e")),
     RANK(1, "[1]", "[1]", LIST("b, a", "d, z")), "deadlock",
     "on rank 1 gives 5 elements to rank 0, which expects 4 of it"},
};

Test(proof_exchanges, parts_that_do_not_meet) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
            weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT,
                                     .reading = by_bytes ? WEFT_READING_BY_BYTES : WEFT_READING_IN_ORDER};
            char *found = judge(cases[i].rank0, cases[i].rank1, &o);
            char *message = judge_message(cases[i].rank0, cases[i].rank1, &o);
            cr_expect_str_eq(found, cases[i].expected, "%s: expected %s, found %s: %s", cases[i].what,
                             cases[i].expected, found, message);
            if (cases[i].text) cr_expect(strstr(message, cases[i].text), "%s: %s", cases[i].what, message);
            free(found);
            free(message);
        }
    }
}
