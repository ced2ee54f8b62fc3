/* cbc.c: COIN-OR's branch and cut (CBC), by the C interface of its solver library, opened at run time: Weft builds and
 * runs without it. Its headers are not needed either: what is called is a table of names. */
#include <dlfcn.h>
#include <stdio.h>

#include "passes/choice/integer.h"

typedef struct Cbc_Model Cbc_Model;

#define CALLS(CALL)                                                                                                    \
    CALL(newModel, Cbc_Model *, (void))                                                                                \
    CALL(deleteModel, void, (Cbc_Model *))                                                                             \
    CALL(loadProblem, void,                                                                                            \
         (Cbc_Model *, int, int, const int *, const int *, const double *, const double *, const double *,             \
          const double *, const double *, const double *))                                                             \
    CALL(setInteger, void, (Cbc_Model *, int))                                                                         \
    CALL(setParameter, void, (Cbc_Model *, const char *, const char *))                                                \
    CALL(solve, int, (Cbc_Model *))                                                                                    \
    CALL(isProvenOptimal, int, (Cbc_Model *))                                                                          \
    CALL(isProvenInfeasible, int, (Cbc_Model *))                                                                       \
    CALL(getObjValue, double, (Cbc_Model *))                                                                           \
    CALL(getBestPossibleObjValue, double, (Cbc_Model *))                                                               \
    CALL(bestSolution, const double *, (Cbc_Model *))

#define CALL(name, result, arguments) result(*name) arguments;
static struct cbc { CALLS(CALL) } cbc;
#undef CALL

bool cbc_open(const char *library, const char **out_why) {
    static char why[400];
    *out_why = why;
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* never closed */
    if (!opened) {
        const char *said = dlerror();
        snprintf(why, sizeof why, "%.300s", said ? said : library);
        return false;
    }
#define CALL(name, result, arguments)                                                                                  \
    {                                                                                                                  \
        union { /* ISO C has no cast from an object to a function */                                                   \
            void *object;                                                                                              \
            result(*call) arguments;                                                                                   \
        } symbol = {dlsym(opened, "Cbc_" #name)};                                                                      \
        cbc.name = symbol.call;                                                                                        \
        if (!symbol.object) {                                                                                          \
            snprintf(why, sizeof why, "%.300s has no Cbc_" #name, library);                                            \
            return false;                                                                                              \
        }                                                                                                              \
    }
    CALLS(CALL)
#undef CALL
    return true;
}

/* Entries by column, as the solver wants them. */
typedef struct by_column {
    int *start, *row;
    double *value;
} by_column;

static weft_status sort_entries(const integer_program *p, by_column *out) {
    out->start = ARENA_ARRAY(p->memory, int, p->ncolumns + 2);
    out->row = ARENA_ARRAY(p->memory, int, p->nentries + 1);
    out->value = ARENA_ARRAY(p->memory, double, p->nentries + 1);
    if (!out->start || !out->row || !out->value) return base_out_of_memory();
    for (size_t i = 0; i < p->nentries; i++) out->start[p->entries[i].column + 2]++;
    for (size_t c = 2; c < p->ncolumns + 2; c++) out->start[c] += out->start[c - 1];
    for (size_t i = 0; i < p->nentries; i++) {
        int at = out->start[p->entries[i].column + 1]++;
        out->row[at] = (int)p->entries[i].row;
        out->value[at] = p->entries[i].value;
    }
    return NULL;
}

static void take_answer(Cbc_Model *model, const integer_program *p, ip_answer *out) {
    const double *values = cbc.bestSolution(model);
    if (cbc.isProvenInfeasible(model)) {
        out->state = IP_NONE;
        return;
    }
    out->state = !values ? IP_STOPPED : cbc.isProvenOptimal(model) ? IP_BEST : IP_FOUND;
    if (!values) return;
    memcpy(out->values, values, p->ncolumns * sizeof *values);
    out->cost = cbc.getObjValue(model);
    out->bound = out->state == IP_BEST ? out->cost : cbc.getBestPossibleObjValue(model);
}

weft_status cbc_solve(const integer_program *p, double seconds, ip_answer *out) {
    by_column by;
    char limit[40];
    *out = (ip_answer){.state = IP_STOPPED, .values = ARENA_ARRAY(p->memory, double, p->ncolumns + 1)};
    if (p->ncolumns >= INT32_MAX || p->nrows >= INT32_MAX || p->nentries >= INT32_MAX)
        return weft_status_create(WEFT_LIMIT, NULL, "an integer program of %zu entries is too large", p->nentries);
    TRY(sort_entries(p, &by));
    Cbc_Model *model = out->values ? cbc.newModel() : NULL;
    if (!model) return base_out_of_memory();
    snprintf(limit, sizeof limit, "%.3f", seconds);
    cbc.loadProblem(model, (int)p->ncolumns, (int)p->nrows, by.start, by.row, by.value, p->low, p->high, p->cost,
                    p->row_low, p->row_high);
    for (size_t c = 0; c < p->ncolumns; c++)
        if (p->is_whole[c]) cbc.setInteger(model, (int)c);
    cbc.setParameter(model, "log", "0");
    cbc.setParameter(model, "timeMode", "elapsed");
    cbc.setParameter(model, "sec", limit);

    cbc.setParameter(model, "ratioGap", "0");
    cbc.setParameter(model, "allowableGap", "0");
    cbc.solve(model);
    take_answer(model, p, out);
    cbc.deleteModel(model);
    return NULL;
}
