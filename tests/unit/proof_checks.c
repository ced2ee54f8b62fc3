/* proof_checks: the table of checks. Each row is told in docs/verify.md, and none is told that is no row. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/checks/checks.h"

static char *read_text(const char *path) {
    FILE *in = fopen(path, "rb");
    cr_assert(in, "%s", path);
    char *bytes = calloc(1, 1 << 18);
    cr_assert(bytes && fread(bytes, 1, (1 << 18) - 1, in) > 0);
    fclose(in);
    return bytes;
}

Test(proof_checks, docs_list_every_row_and_no_other) {
    size_t n, told = 0;
    const check *all = checks_all(&n);
    char *docs = read_text("docs/verify.md"), *at = strstr(docs, "## Checks\n"), row[512];
    cr_assert(at && n > 0);
    char *end = strstr(at, "\n## ");
    cr_assert(end);
    *end = 0;
    for (size_t i = 0; i < n; i++) {
        const char *reading = all[i].reading == CHECK_ANY ? "every" : weft_reading_name((weft_reading)all[i].reading);
        const char *tick = all[i].reading == CHECK_ANY ? "" : "`";
        snprintf(row, sizeof row, "\n| `%s` | %s%s%s", all[i].name, tick, reading, tick);
        char *found = strstr(at, row);
        cr_assert(found, "%s", row);
        snprintf(row, sizeof row, " | %s |", all[i].question);
        char *line_end = strchr(found + 1, '\n');
        cr_expect(line_end && strstr(found, row) && strstr(found, row) < line_end, "%s: %s", all[i].name, row);
    }
    for (char *p = at; (p = strstr(p, "\n| `")); p++) told++;
    cr_expect_eq(told, n);
    free(docs);
}

Test(proof_checks, what_ranks_are_asked_comes_after_what_classes_are) {
    size_t n;
    const check *all = checks_all(&n);
    bool of_ranks = false;
    for (size_t i = 0; i < n; i++) {
        cr_expect(!of_ranks || all[i].needs >= CHECK_CLASSES, "%s", all[i].name);
        of_ranks |= all[i].needs >= CHECK_CLASSES;
        cr_expect(all[i].needs >= CHECK_CLASSES || all[i].when < CHECK_PAIRED, "%s", all[i].name);
        for (size_t k = 0; k < i; k++) cr_expect_str_neq(all[i].name, all[k].name);
    }
}
