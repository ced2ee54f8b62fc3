/* run_expect.c: losses beside recorded ones. */
#include <math.h>
#include <string.h>

#include "cli/run_parts.h"

weft_status expectation_init(expectation *e, const cli_args *args) {
    const char *path = cli_value(args, "--expect");
    if (!path) return NULL;
    weft_status status = weft_tensors_load(args->context, path, NULL, &e->file);
    if (status) return status;
    e->losses = weft_tensors_find(e->file, "losses");
    if (!e->losses)
        return weft_status_create(WEFT_NOT_FOUND, path, "expected an array \"losses\", found none of that name");
    if (e->losses->ndim != 1 || (e->losses->dtype != WEFT_FP32 && e->losses->dtype != WEFT_FP64))
        return weft_status_create(WEFT_PARSE, path, "\"losses\": expected one axis of float32 or float64");
    fprintf(stderr, "%6s  %12s  %12s  %10s\n", "step", "loss", "recorded", "difference");
    return NULL;
}

void expectation_fini(expectation *e) {
    weft_tensors_destroy(e->file);
}

static double recorded_loss(const weft_tensor *losses, size_t step) {
    const char *at = (const char *)losses->data + step * weft_dtype_nbytes(losses->dtype);
    float f;
    double d;
    if (losses->dtype == WEFT_FP64) return memcpy(&d, at, sizeof d), d;
    return memcpy(&f, at, sizeof f), (double)f;
}

void expectation_compare(expectation *e, size_t step, double loss) {
    if (!e->losses || (int64_t)step >= e->losses->dims[0]) return;
    double recorded = recorded_loss(e->losses, step);
    double difference = fabs(loss - recorded) / fmax(fabs(recorded), 1e-6);
    if (!(difference <= e->worst)) e->worst = isnan(difference) ? INFINITY : difference;
    fprintf(stderr, "%6zu  %12.7f  %12.7f  %10.1e\n", step, loss, recorded, difference);
}

bool expectation_held(const expectation *e) {
    if (!e->losses) return true;
    bool held = e->worst <= e->tolerance;
    fprintf(stderr, "summary: losses within %.1e of the recorded ones (allowed %.1e): %s\n", e->worst, e->tolerance,
            held ? "they match" : "THEY DO NOT MATCH");
    return held;
}
