/* integer.c: integer programs, as they are put together. */
#include "passes/choice/integer.h"

#include "program/grow.h"

weft_status ip_add_column(integer_program *p, double low, double high, double cost, bool whole, uint32_t *out) {
    size_t n = p->ncolumns + 1;
    TRY(grow(p->memory, &p->low, &p->low_capacity, n, sizeof *p->low));
    TRY(grow(p->memory, &p->high, &p->high_capacity, n, sizeof *p->high));
    TRY(grow(p->memory, &p->cost, &p->cost_capacity, n, sizeof *p->cost));
    TRY(grow(p->memory, &p->is_whole, &p->whole_capacity, n, sizeof *p->is_whole));
    *out = (uint32_t)p->ncolumns;
    p->low[*out] = low;
    p->high[*out] = high;
    p->cost[*out] = cost;
    p->is_whole[*out] = whole;
    p->ncolumns = n;
    return NULL;
}

weft_status ip_add_row(integer_program *p, double low, double high, uint32_t *out) {
    size_t n = p->nrows + 1;
    TRY(grow(p->memory, &p->row_low, &p->row_low_capacity, n, sizeof *p->row_low));
    TRY(grow(p->memory, &p->row_high, &p->row_high_capacity, n, sizeof *p->row_high));
    *out = (uint32_t)p->nrows;
    p->row_low[*out] = low;
    p->row_high[*out] = high;
    p->nrows = n;
    return NULL;
}

weft_status ip_put(integer_program *p, uint32_t row, uint32_t column, double value) {
    if (value <= 0 && value >= 0) return NULL;
    TRY(grow(p->memory, &p->entries, &p->entry_capacity, p->nentries + 1, sizeof *p->entries));
    p->entries[p->nentries++] = (ip_entry){row, column, value};
    return NULL;
}
