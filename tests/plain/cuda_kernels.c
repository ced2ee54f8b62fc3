/* cuda_kernels.c: each kernel for GPUs on the recorded inputs of its op, against the CPU's kernel: programs of one op
 * run on both devices. What the GPU's kernel does not take (strict_device refuses it) is counted apart. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "executor/kernel.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/fixtures.h"
#include "tests/support/npz.h"
#include "tests/support/plain.h"
#include "weft/trainer.h"

enum { MOST_FETCHES = 64 };

static const char *const ops[] = {
#define OP(type, launcher) #type,
#include "executor/devices/cuda/ops.def"
#undef OP
};

static int ncompared, nrefused, nunplanned;

typedef struct recording {
    weft_context *context;
    weft_program *program;
    npz npz;
    weft_tensors *params, *feeds;
    const char *fetches[MOST_FETCHES];
    size_t nfetches;
} recording;

/* --- reading ------------------------------------------------------------------------------------------------------ */

static const weft_var *find_var(const weft_program *p, const char *n) {
    for (size_t i = 0; i < p->nall_vars; i++)
        if (strcmp(program_var(p, i)->name->bytes, n) == 0) return program_var(p, i);
    return NULL;
}

static void add(recording *r, const npz_array *a) {
    char n[300];
    const weft_var *v = find_var(r->program, a->name + 3);
    if (!v || (weft_dtype)v->dtype == WEFT_DTYPE_NONE) return;
    bool is_param = v->persistable;
    snprintf(n, sizeof n, "%s%s", is_param ? "" : "0/", v->name->bytes);
    weft_tensor *t;
    must(weft_tensors_add(is_param ? r->params : r->feeds, n, (weft_dtype)v->dtype, (size_t)a->ndim, a->dims, &t));
    if (t->nbytes && t->nbytes == a->nbytes) memcpy((void *)(uintptr_t)t->data, a->data, a->nbytes);
}

static bool open_recording(recording *r, const char *path) {
    char file[700], why[300];
    *r = (recording){0};
    must(weft_context_create(NULL, &r->context));
    snprintf(file, sizeof file, "%.*s.npz", (int)(strlen(path) - strlen(".pdmodel")), path);
    must(weft_program_load(r->context, path, NULL, &r->program));
    must(weft_tensors_create(r->context, &r->params));
    must(weft_tensors_create(r->context, &r->feeds));
    if (!npz_open(&r->npz, &r->context->allocator, file, why, sizeof why)) return false;
    for (size_t i = 0; i < r->npz.count; i++) {
        const npz_array *a = &r->npz.arrays[i];
        if (strncmp(a->name, "in/", 3) == 0) add(r, a);
        bool is_rows = strstr(a->name, "#rows") != NULL;
        if (strncmp(a->name, "out/", 4) == 0 && !is_rows && r->nfetches < MOST_FETCHES &&
            find_var(r->program, a->name + 4))
            r->fetches[r->nfetches++] = a->name + 4;
    }
    return r->nfetches > 0;
}

static void close_recording(recording *r) {
    npz_close(&r->npz);
    weft_tensors_destroy(r->feeds);
    weft_tensors_destroy(r->params);
    weft_program_destroy(r->program);
    weft_context_destroy(r->context);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static weft_status run(const recording *r, const char *device_name, weft_trainer **out_trainer,
                       weft_tensors **out_result) {
    const weft_tensors *feeds[] = {r->feeds};
    const weft_program *programs[] = {r->program};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = programs,
                                    .nprograms = 1,
                                    .params = r->params,
                                    .feeds = weft_tensors_count(r->feeds) ? feeds : NULL,
                                    .fetches = r->fetches,
                                    .nfetches = r->nfetches,
                                    .nsteps = 1,
                                    .executor =
                                        &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .device = device_name,
                                                                 .strict_device = device_name != NULL, .unsafe = true}};
    TRY(weft_trainer_create(r->context, &options, out_trainer));
    TRY(weft_trainer_step(*out_trainer, 0));
    return weft_trainer_result(*out_trainer, out_result);
}

static double tolerance_of(const char *path) {
    static const char *const loose[] = {"norm", "log", "entropy", "conv", "_grad"};
    for (size_t i = 0; i < sizeof loose / sizeof *loose; i++)
        if (strstr(path, loose[i])) return 1e-4;
    return 1e-5;
}

/* An element of a real type. */
static double element_of(const weft_tensor *t, size_t i) {
    if (t->dtype == WEFT_FP32) return (double)((const float *)t->data)[i];
    uint16_t half = ((const uint16_t *)t->data)[i];
    return (double)(t->dtype == WEFT_BF16 ? bf16_to_f32(half) : fp16_to_f32(half));
}

static void compare_reals(const char *path, const weft_tensor *want, const weft_tensor *got) {
    double largest = 0, off = 0, tolerance = tolerance_of(path);
    if (want->dtype == WEFT_FP16) tolerance = 2e-3;
    if (want->dtype == WEFT_BF16) tolerance = 2e-2;
    for (size_t i = 0; i < want->nbytes / weft_dtype_nbytes(want->dtype); i++) {
        double a = element_of(want, i), b = element_of(got, i);
        if (!isfinite(a)) {
            check(a == b || (isnan(a) && isnan(b)), "%s: %s[%zu] is %g, not %g", path, want->name, i, b, a);
            continue;
        }
        largest = fmax(largest, fabs(a));
        off = fmax(off, isnan(b) ? INFINITY : fabs(a - b));
    }
    check(off <= tolerance * fmax(largest, 1e-6), "%s: %s is off by %g of %g", path, want->name, off, largest);
}

static void compare(const char *path, const weft_tensors *near, const weft_tensors *far) {
    for (size_t i = 0; i < weft_tensors_count(near); i++) {
        const weft_tensor *want = weft_tensors_at(near, i), *got = weft_tensors_find(far, want->name);
        check(got && got->nbytes == want->nbytes, "%s: %s is missing", path, want->name);
        if (!got || got->nbytes != want->nbytes || !want->nbytes) continue;
        if (want->dtype == WEFT_FP32 || dtype_is_half(want->dtype))
            compare_reals(path, want, got);
        else
            check(memcmp(want->data, got->data, want->nbytes) == 0, "%s: %s differs", path, want->name);
    }
}

static void try_recording(const char *path) {
    recording r;
    weft_trainer *near = NULL, *far = NULL;
    weft_tensors *near_result = NULL, *far_result = NULL;
    if (open_recording(&r, path)) {
        weft_status status = run(&r, NULL, &near, &near_result);
        weft_status other = status ? NULL : run(&r, "cuda", &far, &far_result);
        if (status) {
            nunplanned++; /* a case that only kernels alone can run */
        } else if (other) {
            nrefused++;
            check(strstr(weft_status_message(other), "it would run on the host") != NULL, "%s: %s", path,
                  weft_status_message(other));
        } else {
            ncompared++;
            compare(path, near_result, far_result);
        }
        weft_status_free(status);
        weft_status_free(other);
    }
    weft_tensors_destroy(near_result);
    weft_tensors_destroy(far_result);
    weft_trainer_destroy(near);
    weft_trainer_destroy(far);
    close_recording(&r);
}

int main(void) {
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char tail[200];
        glob_t found = {0};
        int before = ncompared;
        snprintf(tail, sizeof tail, "%s/*.pdmodel", ops[k]);
        (void)fixture_glob_ops(tail, &found); /* recordings of one of two folders will do */
        for (size_t i = 0; i < found.gl_pathc; i++) try_recording(found.gl_pathv[i]);
        if (found.gl_pathc && ncompared == before)
            fprintf(stderr, "%s: none of %zu was compared\n", ops[k], found.gl_pathc);
        globfree(&found);
    }
    fprintf(stderr, "%d recordings compared, %d refused, %d not run\n", ncompared, nrefused, nunplanned);
    check(ncompared > 20, "%d recordings were compared", ncompared);
    return report_checks();
}
