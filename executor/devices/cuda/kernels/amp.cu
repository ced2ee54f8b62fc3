/* amp.cu: loss scaling, as executor/kernels/optimizer/amp.c has it. */
#include "executor/devices/cuda/kernels/kernel.h"

/* Whoever finds something says the same. */
ITEM_KERNEL(scaling_find, scaling_args) {
    for (int k = 0; k < a->n; k++) {
        if (i >= a->count[k]) continue;
        float x = real_at(a->in[k], a->type[k], i);
        if (x - x != 0) a->bad[a->first + k] = 1;
    }
}

ITEM_KERNEL(scaling_first, scaling_args) {
    int first = 0;
    if (i) return;
    while (first < a->ntensors && !a->bad[first]) first++;
    a->bad[a->ntensors] = first;
    *a->found = first < a->ntensors;
}

ITEM_KERNEL(scaling_divide, scaling_args) {
    float inverse = (float)(1 / (double)*a->scale);
    int first = a->bad[a->ntensors];
    for (int k = 0; k < a->n; k++) {
        if (i >= a->count[k]) continue;
        float factor = a->first + k < first ? inverse : 0;
        store_real(a->out[k], a->type[k], i, real_at(a->in[k], a->type[k], i) * factor);
    }
}

ITEM_KERNEL(scaling_clear, scaling_args) {
    int found = *a->was_found;
    for (int k = 0; k < a->n; k++)
        if (i < a->count[k]) store_real(a->out[k], a->type[k], i, found ? 0 : real_at(a->in[k], a->type[k], i));
}

ITEM_KERNEL(scaling_move, scaling_args) {
    int found = *a->was_found, good = *a->good, missed = *a->missed;
    double scale = *a->scale;
    if (i) return;
    if (!a->is_stopped && !(a->stop && *a->stop)) {
        good = found ? 0 : good + 1;
        missed = found ? missed + 1 : 0;
        if (found && missed == a->missed_steps) {
            scale = scale * a->down < 1 ? 1 : scale * a->down;
            missed = 0;
        }
        if (!found && good == a->good_steps) {
            float raised = (float)(scale * a->up);
            if (raised - raised == 0) scale = raised;
            good = 0;
        }
    }
    *a->scale_out = (float)scale;
    *a->good_out = good;
    *a->missed_out = missed;
}
