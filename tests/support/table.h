/* table.h: Criterion tests over the rows of a table. Criterion runs each case in a process of its own, where pointers
 * in parameters mean nothing: so the parameter is the row's index. After TABLE_ROWS(suite, test, table):
 *
 *     ParameterizedTest(size_t *row, suite, test) { check(&table[*row]); }
 */
#ifndef TESTS_SUPPORT_TABLE_H
#define TESTS_SUPPORT_TABLE_H

#include <criterion/parameterized.h>

#define TABLE_ROWS(suite, test, table)                                                                                 \
    ParameterizedTestParameters(suite, test) {                                                                         \
        static size_t table_rows[sizeof(table) / sizeof(table)[0]];                                                    \
        for (size_t i = 0; i < sizeof(table) / sizeof(table)[0]; i++) table_rows[i] = i;                               \
        return cr_make_param_array(size_t, table_rows, sizeof(table) / sizeof(table)[0]);                              \
    }                                                                                                                  \
    struct table_rows_end

#endif
