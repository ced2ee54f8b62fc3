/* table.h: Criterion tests over the rows of a table, after TABLE_ROWS(suite, test, table):
 *
 *     TABLE_TEST(size_t *row, suite, test) { check(&table[*row]); }
 *
 * Criterion starts a process for each parameter, which takes longer than most rows do (0.1 s under ASan). So all rows
 * run in one. Between them the suite's fixture ends and begins anew. */
#ifndef TESTS_SUPPORT_TABLE_H
#define TESTS_SUPPORT_TABLE_H

#include <criterion/criterion.h>
#include <stdio.h>

typedef struct table_run {
    const char *name;
    size_t row, nrows;
} table_run;
static table_run table_running;

/* An assertion that fails ends the test: rows after it are not run. */
static void table_tell_row(void) {
    const table_run *t = &table_running;
    if (t->row < t->nrows) fprintf(stderr, "%s: ended in row %zu of %zu\n", t->name, t->row, t->nrows);
}

/* `suite` is NULL where the file has no TestSuite. */
static void table_run_rows(const char *test_name, size_t nrows, void (*run)(size_t *row),
                           const struct criterion_test_extra_data *suite) {
    table_run *t = &table_running;
    for (*t = (table_run){test_name, 0, nrows}; t->row < nrows; t->row++) {
        size_t row = t->row;
        if (row > 0 && suite && suite->fini) suite->fini();
        if (row > 0 && suite && suite->init) suite->init();
        run(&row);
    }
}

#define TABLE_ROWS(suite, test, table)                                                                                 \
    extern struct criterion_test_extra_data CR_SUITE_IDENTIFIER_(suite, extra) __attribute__((weak));                  \
    static void CR_IDENTIFIER_(suite, test, row)(size_t * row);                                                        \
    Test(suite, test, .fini = table_tell_row) {                                                                        \
        table_run_rows(#suite "/" #test, sizeof(table) / sizeof(table)[0], CR_IDENTIFIER_(suite, test, row),           \
                       &CR_SUITE_IDENTIFIER_(suite, extra));                                                           \
    }                                                                                                                  \
    struct table_rows_end

#define TABLE_TEST(parameter, suite, test) static void CR_IDENTIFIER_(suite, test, row)(parameter)

#endif
