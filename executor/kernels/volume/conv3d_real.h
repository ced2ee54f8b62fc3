/* conv3d_real.h: the loops of conv3d.c; a template (executor/kernels/each_real.h). */

/* Where in an image the tap of a window lies; -1: outside. */
static inline int64_t NAME(place)(const windows *w, const int64_t at[AXES], const int64_t tap[AXES]) {
    int64_t offset = 0;
    for (int d = 0; d < AXES; d++) {
        int64_t i = at[d] * w->stride[d] - w->before[d] + tap[d] * w->dilation[d];
        if (i < 0 || i >= w->in.extent[d]) return -1;
        offset += i * w->in.axis[d];
    }
    return offset;
}

/* Between an image's channels and columns [channel and tap, window]: copies, or adds back. */
static void NAME(columns)(const windows *w, int64_t channels, REAL *image, REAL *columns, bool adds) {
    for (int64_t c = 0; c < channels; c++, image += w->in.channel)
        for (int64_t t = 0; t < w->taps; t++) {
            int64_t tap[AXES] = {t / (w->size[1] * w->size[2]), t / w->size[2] % w->size[1], t % w->size[2]}, at[AXES];
            for (at[0] = 0; at[0] < w->out.extent[0]; at[0]++)
                for (at[1] = 0; at[1] < w->out.extent[1]; at[1]++)
                    for (at[2] = 0; at[2] < w->out.extent[2]; at[2]++, columns++) {
                        int64_t from = NAME(place)(w, at, tap);
                        if (!adds)
                            *columns = from < 0 ? 0 : image[from];
                        else if (from >= 0)
                            image[from] += *columns;
                    }
        }
}

/* Between a tensor's channels and a matrix [channel, position]. */
static void NAME(gather)(const volume *v, int64_t channels, REAL *from, REAL *to, bool back) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < v->positions; i++, to++) {
            int64_t x = i % v->extent[2], y = i / v->extent[2] % v->extent[1], z = i / (v->extent[2] * v->extent[1]);
            REAL *at = from + c * v->channel + z * v->axis[0] + y * v->axis[1] + x * v->axis[2];
            if (back)
                *at = *to;
            else
                *to = *at;
        }
}

/* y = filter times columns of x; `places` are the windows' values: y, or of a transposed convolution its input. */
static void NAME(forward)(const kernel_call *c, const conv3d_state *s, REAL *image, const REAL *filter, REAL *places) {
    REAL *columns = c->workspace, *matrix = columns + s->channels * s->w.taps * s->w.out.positions;
    int64_t k = s->channels * s->w.taps, p = s->w.out.positions;
    for (int64_t n = 0; n < s->w.in.count; n++)
        for (int64_t g = 0; g < s->groups; g++) {
            REAL *x = image + n * s->w.in.image + g * s->channels * s->w.in.channel;
            REAL *y = places + n * s->w.out.image + g * s->filters * s->w.out.channel;
            NAME(columns)(&s->w, s->channels, x, columns, false);
            NAME(multiply)(c, false, false, s->filters, p, k, filter + g * s->filters * k, k, columns, p, 0, matrix, p);
            NAME(gather)(&s->w.out, s->filters, y, matrix, true);
        }
}

/* image += columns of filter^T times places. */
static void NAME(spread)(const kernel_call *c, const conv3d_state *s, REAL *image, const REAL *filter, REAL *places) {
    REAL *columns = c->workspace, *matrix = columns + s->channels * s->w.taps * s->w.out.positions;
    int64_t k = s->channels * s->w.taps, p = s->w.out.positions;
    memset(image, 0, (size_t)(s->w.in.count * s->w.in.channels * s->w.in.positions) * sizeof *image);
    for (int64_t n = 0; n < s->w.in.count; n++)
        for (int64_t g = 0; g < s->groups; g++) {
            REAL *x = image + n * s->w.in.image + g * s->channels * s->w.in.channel;
            REAL *y = places + n * s->w.out.image + g * s->filters * s->w.out.channel;
            NAME(gather)(&s->w.out, s->filters, y, matrix, false);
            NAME(multiply)(c, true, false, k, p, s->filters, filter + g * s->filters * k, k, matrix, p, 0, columns, p);
            NAME(columns)(&s->w, s->channels, x, columns, true);
        }
}

/* dfilter = places times columns^T. */
static void NAME(filter_grad)(const kernel_call *c, const conv3d_state *s, REAL *image, REAL *dfilter, REAL *places) {
    REAL *columns = c->workspace, *matrix = columns + s->channels * s->w.taps * s->w.out.positions;
    int64_t k = s->channels * s->w.taps, p = s->w.out.positions;
    for (int64_t n = 0; n < s->w.in.count; n++)
        for (int64_t g = 0; g < s->groups; g++) {
            REAL *x = image + n * s->w.in.image + g * s->channels * s->w.in.channel;
            REAL *y = places + n * s->w.out.image + g * s->filters * s->w.out.channel;
            NAME(columns)(&s->w, s->channels, x, columns, false);
            NAME(gather)(&s->w.out, s->filters, y, matrix, false);
            NAME(multiply)(c, false, true, s->filters, k, p, matrix, p, columns, p, n ? 1 : 0,
                           dfilter + g * s->filters * k, k);
        }
    if (!s->w.in.count) memset(dfilter, 0, (size_t)(s->groups * s->filters * k) * sizeof *dfilter);
}
