/* find.c: which kernels this machine runs.
 *
 * The folder is compiled for the plain architecture and, by the Makefile's KERNEL_ISAS, for some of its levels
 * (x86-64-v3 has AVX2 and FMA, x86-64-v4 AVX-512). The last table that the machine can run is taken for every op, so
 * results are the same wherever on one machine an op runs. This file alone is compiled once. */
#include "executor/kernels/find.h"
#include "executor/kernels/complex_adaptor.h"
#include "executor/kernels/complex_functions.h"
#include "executor/kernels/half_adaptor.h"
#include "executor/kernels/integer_adaptor.h"
#include "ops/rows.h"

typedef struct kernel_isa {
    const char *isa;
    const kernel *const *kernels;
} kernel_isa;

#if defined(KERNELS_v3)
extern const kernel *const kernel_table_v3[];
static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
           __builtin_cpu_supports("movbe");
}
#endif
#if defined(KERNELS_v4)
extern const kernel *const kernel_table_v4[];
static bool has_v4(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#if defined(__x86_64__)
#define PLAIN "x86-64"
#else
#define PLAIN "plain"
#endif

/* The tables that the machine can run; returns how many. */
static size_t tables(kernel_isa out[3]) {
    size_t n = 0;
    out[n++] = (kernel_isa){PLAIN, kernel_table_base};
#if defined(KERNELS_v3)
    if (has_v3()) out[n++] = (kernel_isa){"x86-64-v3", kernel_table_v3};
#endif
#if defined(KERNELS_v4)
    if (has_v4()) out[n++] = (kernel_isa){"x86-64-v4", kernel_table_v4};
#endif
    return n;
}

size_t kernel_tables(void) {
    kernel_isa all[3];
    return tables(all);
}

const char *kernel_table_name(size_t table) {
    kernel_isa all[3];
    return table < tables(all) ? all[table].isa : NULL;
}

const kernel *kernel_find_in(size_t table, const op_schema *schema) {
    kernel_isa all[3];
    if (!schema || schema->index < 0 || table >= tables(all)) return NULL;
    return all[table].kernels[schema->index];
}

const kernel *kernel_find(const op_schema *schema) {
    if (schema && schema->host) return kernel_of_host(schema);
    return kernel_find_in(kernel_tables() - 1, schema);
}

bool kernel_is_there(int row) {
    return row >= 0 && kernel_table_base[row]; /* all tables have the same rows */
}

/* Which kernel of kernels.c takes the tensors that a kernel has refused; -1: none. */
static int adaptor_for(const kernel_prepare *p) {
    if (complex_function_fits(p)) return COMPLEX_FUNCTION;
    if (complex_adaptor_fits(p)) return COMPLEX_ADAPTOR;
    if (half_adaptor_fits(p)) return HALF_ADAPTOR;
    return integer_adaptor_fits(p) ? INTEGER_ADAPTOR : -1;
}

/* The adaptors of the same instruction set stand in its table after the kernels of the rows. */
weft_status kernel_bind(kernel_prepare *p, kernel_run_fn *out_run) {
    kernel_isa all[3];
    const kernel *k = kernel_find(p->schema);
    p->older = op_follows_older(p->op);
    weft_status status = k->prepare ? k->prepare(p) : NULL;
    *out_run = k->run;
    int found = weft_status_code(status) == WEFT_UNSUPPORTED ? adaptor_for(p) : -1;
    if (found < 0) return status;
    weft_status_free(status);
    p->split = (row_split){0};
    const kernel *adaptor = all[tables(all) - 1].kernels[NROWS + found];
    p->adapted = k;
    *out_run = adaptor->run;
    return adaptor->prepare(p);
}
