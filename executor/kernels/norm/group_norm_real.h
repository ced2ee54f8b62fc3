/* group_norm_real.h: the gradients of group_norm.c; a template (executor/kernels/each_real.h). */

/* Sums of one group: of g = dy * scale and of g * h, h = (x - mean) * r; and into dscale and dbias. */
static void NAME(sum_group)(const group_state *s, const REAL *x, const REAL *dy, const REAL *scale, double mean,
                            double r, double *dscale, double *dbias, double *sum_g, double *sum_gh) {
    for (int64_t c = 0; c < s->channels / s->groups; c++) {
        double dot = 0, sum = 0, f = scale ? (double)scale[c] : 1;
        for (int64_t i = 0; i < s->plane; i++) {
            int64_t e = c * s->channel_step + i * s->element_step;
            dot += (double)dy[e] * ((double)x[e] - mean) * r;
            sum += (double)dy[e];
        }
        dscale[c] += dot;
        dbias[c] += sum;
        *sum_gh += dot * f;
        *sum_g += sum * f;
    }
}

static void NAME(backward)(const kernel_call *call, const group_grad *slots) {
    const group_state *s = &slots->s;
    const REAL *x = arg_in(call, GRAD_IN_X)->data, *scale = data_or_null(arg_in(call, slots->scale));
    const REAL *means = arg_in(call, slots->mean)->data, *variances = arg_in(call, slots->variance)->data;
    const REAL *dy = arg_in(call, slots->dy)->data;
    REAL *dx = data_or_null(arg_out(call, OUT_DX)), *dscale = data_or_null(arg_out(call, OUT_DSCALE));
    REAL *dbias = data_or_null(arg_out(call, OUT_DBIAS));
    int64_t size = s->channels / s->groups;
    double *dscales = call->workspace, *dbiases = dscales + s->channels;
    memset(dscales, 0, 2 * (size_t)s->channels * sizeof *dscales);
    for (int64_t g = 0; g < s->batch * s->groups; g++) {
        int64_t first = g % s->groups * size, at = g / s->groups * s->sample_step + first * s->channel_step;
        double v = (double)variances[g], r = s->saved_inverse ? v : 1 / sqrt(v + s->epsilon);
        double mean = (double)means[g], sum_g = 0, sum_gh = 0, count = (double)(size * s->plane);
        NAME(sum_group)
        (s, x + at, dy + at, scale ? scale + first : NULL, mean, r, dscales + first, dbiases + first, &sum_g, &sum_gh);
        for (int64_t c = 0; dx && c < size; c++) {
            double f = scale ? (double)scale[first + c] : 1;
            for (int64_t i = 0; i < s->plane; i++) {
                int64_t e = at + c * s->channel_step + i * s->element_step;
                double h = ((double)x[e] - mean) * r;
                dx[e] = (REAL)(r * ((double)dy[e] * f - (sum_g + h * sum_gh) / count));
            }
        }
    }
    for (int64_t c = 0; dscale && c < s->channels; c++) dscale[c] = (REAL)dscales[c];
    for (int64_t c = 0; dbias && c < s->channels; c++) dbias[c] = (REAL)dbiases[c];
}
