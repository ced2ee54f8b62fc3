/* Definitions that changed between versions of Paddle: a program gets those of its own version, and the document has
 * every row of the table. Recorded cases of both versions are kernels_recorded's. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ops/ops.h"
#include "ops/part.h"
#include "tests/support/kernel_run.h"
#include "tests/support/must.h"
#include "weft/op_table.h"

static float rounded(float x, int64_t version) {
    float out = 0;
    kernel_test t;
    kernel_test_init(&t, "round");
    if (version >= 0) weft_program_set_version(t.program, version);
    kernel_test_in(&t, "X", WEFT_FP32, &x, 1, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, &out, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    kernel_test_fini(&t);
    return out;
}

Test(ops_versions, a_program_gets_the_definition_of_its_version) {
    cr_expect_eq(rounded(2.5f, 2006002), 3);
    cr_expect_eq(rounded(2.5f, 2999999), 3);
    cr_expect_eq(rounded(2.5f, 3000000), 2);
    cr_expect_eq(rounded(2.5f, 3003001), 2);
    cr_expect_eq(rounded(2.5f, 0), 2, "a version of 0 is none");
    cr_expect_eq(rounded(2.5f, -1), 2, "no version");
}

Test(ops_versions, strided_ends) {
    static const struct {
        int64_t end, stride, count[2]; /* of 7 elements from the last on; now, before */
    } cases[] = {{-1, -1, {0, 7}}, {-100, -2, {4, 3}}, {-3, -1, {2, 2}}, {0, -1, {6, 6}}, {-8, -1, {7, 6}}, {-1, 1, {0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int older = 0; older < 2; older++) {
            int64_t first, end = strided_end(older, 7, cases[i].end, cases[i].stride);
            int64_t count = strided_extent(7, -1, end, cases[i].stride, &first);
            cr_expect_eq(count, cases[i].count[older], "end %lld, stride %lld, older %d: %lld", (long long)cases[i].end,
                         (long long)cases[i].stride, older, (long long)count);
        }
}

static bool document_has(const char *line) {
    char row[1024];
    bool found = false;
    FILE *file = fopen("docs/differences.md", "r");
    cr_assert_not_null(file);
    while (!found && fgets(row, sizeof row, file)) {
        row[strcspn(row, "\n")] = '\0';
        found = strcmp(row, line) == 0;
    }
    fclose(file);
    return found;
}

/* Bars inside a cell are escaped there. */
static void escape(const char *from, char *to) {
    for (; *from; *to++ = *from++)
        if (*from == '|') *to++ = '\\';
    *to = '\0';
}

Test(ops_versions, the_document_has_every_row) {
    weft_op_version v;
    size_t n = 0;
    for (; weft_op_version_at(n, &v); n++) {
        char line[1024], before[256];
        escape(v.before, before);
        if (v.versions)
            snprintf(line, sizeof line, "| %s | %s | %s | %s |", v.type, v.versions, before, v.now);
        else
            snprintf(line, sizeof line, "| %s | %s | %s |", v.type, before, v.now);
        cr_expect(document_has(line), "docs/differences.md lacks: %s", line);
        cr_expect(ops_row_of(v.type) >= 0, "%s", v.type);
        cr_expect(v.versions || v.since == 3000000, "docs and weft info say 3.0.0: %s", v.type);
    }
    cr_expect_gt(n, 10);
}
