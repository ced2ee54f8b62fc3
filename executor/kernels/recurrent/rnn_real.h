/* rnn_real.h: the loops of rnn.c; a template (executor/kernels/each_real.h). */

/* Where the runs of one layer in one direction are kept; and its parameters. */
typedef struct NAME(cells) {
    REAL *rows; /* of the reserve */
    const REAL *input_weight, *state_weight, *input_bias, *state_bias, *begin, *begin_cell;
} NAME(cells);

static NAME(cells) NAME(cells_of)(const kernel_call *c, const rnn_state *s, int layer, int direction, REAL *reserve) {
    int at = layer * s->ndirections + direction, half = 2 * s->nlayers * s->ndirections;
    const tensor *w = &c->in[c->in_first[IN_WEIGHTS]], *begin = &c->in[c->in_first[IN_BEGIN]];
    int64_t nstates = s->batch * s->hidden;
    return (NAME(cells)){.rows = reserve + (int64_t)at * s->steps * s->batch * s->width,
                         .input_weight = w[2 * at].data,
                         .state_weight = w[2 * at + 1].data,
                         .input_bias = w[half + 2 * at].data,
                         .state_bias = w[half + 2 * at + 1].data,
                         .begin = (const REAL *)begin[0].data + at * nstates,
                         .begin_cell = s->mode == LSTM ? (const REAL *)begin[1].data + at * nstates : NULL};
}

/* What the cells of step t had from the step before: rows, and from where to where the next one is. */
static const REAL *NAME(before)(const rnn_state *s, const REAL *rows, const REAL *begin, int64_t t, bool is_backward,
                                int64_t column, int64_t *out_step) {
    bool is_first = t == (is_backward ? s->steps - 1 : 0);
    *out_step = is_first ? s->hidden : s->width;
    if (is_first) return begin;
    return rows + (is_backward ? t + 1 : t - 1) * s->batch * s->width + column;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* The input's part of all gates, of all steps at once. */
static void NAME(project_input)(const kernel_call *c, const rnn_state *s, int layer, const NAME(cells) *cells,
                                REAL *reserve) {
    int64_t nrows = s->steps * s->batch, ngates = s->ngates * s->hidden, h = s->hidden;
    for (int64_t r = 0; r < nrows; r++) {
        REAL *gates = cells->rows + r * s->width;
        for (int64_t j = 0; j < ngates; j++)
            gates[j] = cells->input_bias[j] + (s->mode == GRU ? 0 : cells->state_bias[j]);
    }
    if (layer == 0) {
        NAME(multiply)(c, false, true, nrows, ngates, s->input, arg_in(c, IN_X)->data, s->input, cells->input_weight,
                       s->input, 1, cells->rows, s->width);
        return;
    }
    for (int d = 0; d < s->ndirections; d++) {
        const REAL *below = reserve + (int64_t)((layer - 1) * s->ndirections + d) * nrows * s->width + s->out_column;
        NAME(multiply)(c, false, true, nrows, ngates, h, below, s->width, cells->input_weight + d * h,
                       h * s->ndirections, 1, cells->rows, s->width);
    }
}

static void NAME(lstm)(int64_t h, REAL *g, const REAL *was, REAL *cell, REAL *out) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) {
        REAL i = NAME(sigmoid)(g[j]), f = NAME(sigmoid)(g[h + j]), n = NAME(tangent)(g[2 * h + j]);
        REAL o = NAME(sigmoid)(g[3 * h + j]), c = f * was[j] + i * n;
        g[j] = i, g[h + j] = f, g[2 * h + j] = n, g[3 * h + j] = o;
        cell[j] = c;
        out[j] = o * NAME(tangent)(c);
    }
}

static void NAME(gru)(int64_t h, REAL *g, const REAL *own, const REAL *was, REAL *kept, REAL *out) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) {
        REAL r = NAME(sigmoid)(g[j] + own[j]), z = NAME(sigmoid)(g[h + j] + own[h + j]);
        REAL n = NAME(tangent)(g[2 * h + j] + r * own[2 * h + j]);
        g[j] = r, g[h + j] = z, g[2 * h + j] = n;
        kept[j] = own[2 * h + j];
        out[j] = (was[j] - n) * z + n;
    }
}

static void NAME(simple)(int64_t h, bool is_relu, REAL *g, REAL *out) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) {
        REAL y = is_relu ? (g[j] > 0 || g[j] != g[j] ? g[j] : 0) : NAME(tangent)(g[j]);
        g[j] = out[j] = y;
    }
}

static void NAME(step)(const kernel_call *c, const rnn_state *s, const NAME(cells) *cells, int64_t t, bool is_backward,
                       const int64_t *lengths, REAL *own) {
    int64_t h = s->hidden, ngates = s->ngates * h, step, cell_step = 0;
    REAL *rows = cells->rows + t * s->batch * s->width;
    const REAL *was = NAME(before)(s, cells->rows, cells->begin, t, is_backward, ngates, &step), *was_cell = NULL;
    if (s->mode == LSTM)
        was_cell = NAME(before)(s, cells->rows, cells->begin_cell, t, is_backward, ngates + h, &cell_step);
    if (s->mode == GRU) {
        for (int64_t b = 0; b < s->batch; b++) memcpy(own + b * ngates, cells->state_bias, (size_t)ngates * sizeof *own);
        NAME(multiply)(c, false, true, s->batch, ngates, h, was, step, cells->state_weight, h, 1, own, ngates);
    } else {
        NAME(multiply)(c, false, true, s->batch, ngates, h, was, step, cells->state_weight, h, 1, rows, s->width);
    }
    for (int64_t b = 0; b < s->batch; b++) {
        REAL *g = rows + b * s->width, *state = g + ngates, *second = state + h;
        if (s->mode == LSTM) NAME(lstm)(h, g, was_cell + b * cell_step, second, state);
        if (s->mode == GRU) NAME(gru)(h, g, own + b * ngates, was + b * step, second, state);
        if (s->mode == SIMPLE_TANH || s->mode == SIMPLE_RELU) NAME(simple)(h, s->mode == SIMPLE_RELU, g, state);
        if (lengths && t >= lengths[b]) { /* padding: the state stays */
            memcpy(state, was + b * step, (size_t)h * sizeof *state);
            if (s->mode == LSTM) memcpy(second, was_cell + b * cell_step, (size_t)h * sizeof *state);
        }
    }
}

/* What the layer gives: states, 0 in padding. */
static void NAME(put_outputs)(const kernel_call *c, const rnn_state *s, int layer, int d, const NAME(cells) *cells,
                              const int64_t *lengths) {
    bool is_last = layer == s->nlayers - 1;
    int64_t h = s->hidden, ngates = s->ngates * h, nrows = s->steps * s->batch;
    REAL *out = arg_out(c, OUT)->data;
    for (int64_t r = 0; r < nrows; r++) {
        REAL *row = cells->rows + r * s->width, *to = row + s->out_column;
        if (lengths && r / s->batch >= lengths[r % s->batch])
            memset(to, 0, (size_t)h * sizeof *to);
        else
            memcpy(to, row + ngates, (size_t)h * sizeof *to);
        if (is_last) memcpy(out + (r * s->ndirections + d) * h, to, (size_t)h * sizeof *to);
    }
    int at = layer * s->ndirections + d;
    for (int k = 0; k < (s->mode == LSTM ? 2 : 1); k++) {
        REAL *end = (REAL *)c->out[c->out_first[OUT_END] + (uint32_t)k].data + at * s->batch * h;
        const REAL *from = cells->rows + (d ? 0 : s->steps - 1) * s->batch * s->width + ngates + k * h;
        for (int64_t b = 0; b < s->batch; b++) memcpy(end + b * h, from + b * s->width, (size_t)h * sizeof *end);
    }
}

static void NAME(forward)(const kernel_call *c, const rnn_state *s, const int64_t *lengths, REAL *own) {
    REAL *reserve = arg_out(c, OUT_RESERVE)->data;
    for (int layer = 0; layer < s->nlayers; layer++)
        for (int d = 0; d < s->ndirections; d++) {
            NAME(cells) cells = NAME(cells_of)(c, s, layer, d, reserve);
            NAME(project_input)(c, s, layer, &cells, reserve);
            for (int64_t k = 0; k < s->steps; k++)
                NAME(step)(c, s, &cells, d ? s->steps - 1 - k : k, d == 1, lengths, own);
            NAME(put_outputs)(c, s, layer, d, &cells, lengths);
        }
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

typedef struct NAME(grads) {
    REAL *gates, *own; /* of all steps: gradients of the gates before their functions; GRU: of the state's part */
    REAL *state, *cell; /* of the step's states, from the steps behind it */
    REAL *sum[2];       /* of a layer's outputs: this one's, and that below */
} NAME(grads);

static void NAME(lstm_grad)(int64_t h, const REAL *g, const REAL *was, const REAL *cell, const REAL *dy, REAL *dcell,
                            REAL *dg) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) {
        REAL i = g[j], f = g[h + j], n = g[2 * h + j], o = g[3 * h + j], t = NAME(tangent)(cell[j]);
        REAL dc = dcell[j] + dy[j] * o * (1 - t * t);
        dg[j] = dc * n * i * (1 - i);
        dg[h + j] = dc * was[j] * f * (1 - f);
        dg[2 * h + j] = dc * i * (1 - n * n);
        dg[3 * h + j] = dy[j] * t * o * (1 - o);
        dcell[j] = dc * f;
    }
}

/* dy becomes what goes to the state before without the weights. */
static void NAME(gru_grad)(int64_t h, const REAL *g, const REAL *was, const REAL *kept, REAL *dy, REAL *dg,
                           REAL *down) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) {
        REAL r = g[j], z = g[h + j], n = g[2 * h + j], dn = dy[j] * (1 - z) * (1 - n * n);
        down[j] = dg[j] = dn * kept[j] * r * (1 - r);
        down[h + j] = dg[h + j] = dy[j] * (was[j] - n) * z * (1 - z);
        dg[2 * h + j] = dn;
        down[2 * h + j] = dn * r;
        dy[j] *= z;
    }
}

static void NAME(simple_grad)(int64_t h, bool is_relu, const REAL *y, const REAL *dy, REAL *dg) {
    INDEPENDENT for (int64_t j = 0; j < h; j++) dg[j] = dy[j] * (is_relu ? (REAL)(y[j] > 0) : 1 - y[j] * y[j]);
}

static void NAME(step_grad)(const kernel_call *c, const rnn_state *s, const NAME(cells) *cells, NAME(grads) *d,
                            int64_t t, int direction, const int64_t *lengths) {
    int64_t h = s->hidden, ngates = s->ngates * h, step, cell_step = 0;
    const REAL *rows = cells->rows + t * s->batch * s->width, *was_cell = NULL;
    const REAL *was = NAME(before)(s, cells->rows, cells->begin, t, direction == 1, ngates, &step);
    REAL *gates = d->gates + t * s->batch * ngates, *own = d->own ? d->own + t * s->batch * ngates : gates;
    if (s->mode == LSTM)
        was_cell = NAME(before)(s, cells->rows, cells->begin_cell, t, direction == 1, ngates + h, &cell_step);
    for (int64_t b = 0; b < s->batch; b++) {
        const REAL *g = rows + b * s->width, *dy = d->sum[0] + ((t * s->batch + b) * s->ndirections + direction) * h;
        REAL *dg = gates + b * ngates, *down = own + b * ngates, *state = d->state + b * h;
        if (lengths && t >= lengths[b]) {
            memset(dg, 0, (size_t)ngates * sizeof *dg);
            memset(down, 0, (size_t)ngates * sizeof *down);
            continue;
        }
        for (int64_t j = 0; j < h; j++) state[j] += dy[j];
        if (s->mode == LSTM)
            NAME(lstm_grad)(h, g, was_cell + b * cell_step, g + ngates + h, state, d->cell + b * h, dg);
        else if (s->mode == GRU)
            NAME(gru_grad)(h, g, was + b * step, g + ngates + h, state, dg, down);
        else
            NAME(simple_grad)(h, s->mode == SIMPLE_RELU, g, state, dg);
        if (s->mode != GRU) memset(state, 0, (size_t)h * sizeof *state);
    }
    NAME(multiply)(c, false, false, s->batch, h, ngates, own, ngates, cells->state_weight, h, 1, d->state, h);
}

/* Gradients of parameters, from those of all gates. */
static void NAME(weight_grads)(const kernel_call *c, const rnn_state *s, int layer, int direction,
                               const NAME(cells) *cells, const NAME(grads) *d, const REAL *reserve) {
    int at = layer * s->ndirections + direction, half = 2 * s->nlayers * s->ndirections;
    int64_t h = s->hidden, ngates = s->ngates * h, nrows = s->steps * s->batch;
    REAL *own = d->own ? d->own : d->gates, *dw = NAME(weight_grad)(c, 2 * at), *du = NAME(weight_grad)(c, 2 * at + 1);
    REAL *biases[] = {NAME(weight_grad)(c, half + 2 * at), NAME(weight_grad)(c, half + 2 * at + 1)};
    if (dw && layer == 0)
        NAME(multiply)(c, true, false, ngates, s->input, nrows, d->gates, ngates, arg_in(c, IN_X)->data, s->input, 0, dw,
                       s->input);
    for (int k = 0; dw && layer && k < s->ndirections; k++)
        NAME(multiply)(c, true, false, ngates, h, nrows, d->gates, ngates,
                       reserve + (int64_t)((layer - 1) * s->ndirections + k) * nrows * s->width + s->out_column,
                       s->width, 0, dw + k * h, h * s->ndirections);
    if (du) {
        int64_t first = direction ? s->steps - 1 : 0, later = direction ? 0 : 1;
        NAME(multiply)(c, true, false, ngates, h, s->batch, own + first * s->batch * ngates, ngates, cells->begin, h, 0,
                       du, h);
        if (s->steps > 1)
            NAME(multiply)(c, true, false, ngates, h, nrows - s->batch, own + later * s->batch * ngates, ngates,
                           cells->rows + (direction ? s->batch * s->width : 0) + ngates, s->width, 1, du, h);
    }
    for (int k = 0; k < 2; k++) {
        const REAL *from = k ? own : d->gates;
        if (!biases[k]) continue;
        memset(biases[k], 0, (size_t)ngates * sizeof(REAL));
        for (int64_t r = 0; r < nrows; r++)
            INDEPENDENT for (int64_t j = 0; j < ngates; j++) biases[k][j] += from[r * ngates + j];
    }
}

static void NAME(input_grads)(const kernel_call *c, const rnn_state *s, int layer, int direction,
                              const NAME(cells) *cells, const NAME(grads) *d) {
    int64_t nrows = s->steps * s->batch, ngates = s->ngates * s->hidden;
    int64_t width = layer ? s->hidden * s->ndirections : s->input;
    REAL *to = layer ? d->sum[1] : data_or_null(arg_out(c, OUT_X_GRAD));
    if (to)
        NAME(multiply)(c, false, false, nrows, width, ngates, d->gates, ngates, cells->input_weight, width,
                       direction ? 1 : 0, to, width);
}

static void NAME(begin_state_grads)(const kernel_call *c, const rnn_state *s, int at, NAME(grads) *d) {
    size_t nstates = (size_t)(s->batch * s->hidden);
    for (uint32_t k = 0; k < (s->mode == LSTM ? 2u : 1u); k++) {
        const tensor *end = c->in_first[IN_END_GRAD] + k < c->in_first[IN_END_GRAD + 1]
                                ? &c->in[c->in_first[IN_END_GRAD] + k]
                                : NULL;
        REAL *to = k ? d->cell : d->state;
        if (end && end->dtype != WEFT_DTYPE_NONE)
            memcpy(to, (const REAL *)end->data + (size_t)at * nstates, nstates * sizeof *to);
        else
            memset(to, 0, nstates * sizeof *to);
    }
}

static void NAME(end_state_grads)(const kernel_call *c, const rnn_state *s, int at, const NAME(grads) *d) {
    size_t nstates = (size_t)(s->batch * s->hidden);
    for (uint32_t k = 0; k < (s->mode == LSTM ? 2u : 1u); k++) {
        uint32_t i = c->out_first[OUT_BEGIN_GRAD] + k;
        if (i >= c->out_first[OUT_BEGIN_GRAD + 1] || c->out[i].dtype == WEFT_DTYPE_NONE) continue;
        memcpy((REAL *)c->out[i].data + (size_t)at * nstates, k ? d->cell : d->state, nstates * sizeof(REAL));
    }
}

static void NAME(backward)(const kernel_call *c, const rnn_state *s, const int64_t *lengths, void *scratch) {
    REAL *reserve = arg_in(c, IN_RESERVE)->data, *w = scratch;
    const tensor *dy = arg_in(c, IN_OUT_GRAD);
    int64_t nrows = s->steps * s->batch, ngates = s->ngates * s->hidden, outputs = nrows * s->hidden * s->ndirections;
    NAME(grads) d = {.gates = w, .own = s->mode == GRU ? w + nrows * ngates : NULL};
    w += nrows * ngates * (s->mode == GRU ? 2 : 1);
    d.state = w, d.cell = w + s->batch * s->hidden;
    w += 2 * s->batch * s->hidden;
    d.sum[0] = w, d.sum[1] = w + outputs;
    if (dy)
        memcpy(d.sum[0], dy->data, (size_t)outputs * sizeof(REAL));
    else
        memset(d.sum[0], 0, (size_t)outputs * sizeof(REAL));
    for (int layer = s->nlayers - 1; layer >= 0; layer--) {
        for (int k = 0; k < s->ndirections; k++) {
            NAME(cells) cells = NAME(cells_of)(c, s, layer, k, reserve);
            NAME(begin_state_grads)(c, s, layer * s->ndirections + k, &d);
            for (int64_t t = 0; t < s->steps; t++)
                NAME(step_grad)(c, s, &cells, &d, k ? t : s->steps - 1 - t, k, lengths);
            NAME(end_state_grads)(c, s, layer * s->ndirections + k, &d);
            NAME(weight_grads)(c, s, layer, k, &cells, &d, reserve);
            NAME(input_grads)(c, s, layer, k, &cells, &d);
        }
        REAL *below = d.sum[1];
        d.sum[1] = d.sum[0], d.sum[0] = below;
    }
}
