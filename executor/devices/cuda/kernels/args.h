/* args.h: what kernels are given: one struct each, by value. Seen by nvcc, and by the host's compiler. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_ARGS_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_ARGS_H

typedef long long cuda_index;

enum { KERNEL_AXES = 9, KERNEL_INPUTS = 3, KERNEL_TERMS = 64, LOOP_MEMBERS = 32 };

/* Types of elements that kernels know. Reals are computed with in fp32, and rounded once. */
typedef enum element_type {
    ELEMENT_FP32,
    ELEMENT_INT32,
    ELEMENT_INT64,
    ELEMENT_BOOL,
    ELEMENT_FP16,
    ELEMENT_BF16
} element_type;

/* unary.cu: out[i] from x[i], and from dy[i] where it is a gradient. */
typedef struct unary_args {
    cuda_index nitems;
    void *out;
    const void *x, *dy;
    float p, q;
    int type; /* element_type, a real one */
} unary_args;

/* strided.cu: each element of out from the elements of inputs at its place, added up over the summed axes. */
typedef struct strided_args {
    cuda_index nitems, nrows; /* both: elements of out */
    cuda_index nsummed;       /* elements that are added up for each */
    void *out;
    const void *in[KERNEL_INPUTS];
    float p;
    int type; /* element_type, a real one */
    int naxes, nsummed_axes;
    cuda_index extent[KERNEL_AXES], out_stride[KERNEL_AXES], stride[KERNEL_INPUTS][KERNEL_AXES];
    cuda_index summed_extent[KERNEL_AXES], summed_stride[KERNEL_INPUTS][KERNEL_AXES];
} strided_args;

/* elements.cu: each element of out is of the elements of inputs at its place; functions of elements.def. */
typedef struct elements_args {
    cuda_index nitems;
    strided_args walk; /* addresses are of any type */
    int function;
    int type, out_type; /* element_type; of inputs but a condition */
    int size;           /* of what moves: 1, 2, 4 or 8 bytes */
    cuda_index p, q;
} elements_args;
typedef enum element_function {
#define ELEMENTS(name, integer, real) ELEMENTS_##name,
#include "executor/devices/cuda/kernels/elements.def"
#undef ELEMENTS
    ELEMENTS_MOVE,   /* a */
    ELEMENTS_CHOOSE, /* b where the boolean a is true, else c */
} element_function;

/* The lower or upper triangles of matrices, by words. */
typedef struct triangle_args {
    cuda_index nitems, nrows, ncolumns, diagonal;
    void *out;
    const void *x;
    int size, is_lower;
} triangle_args;

/* Up to so many bytes that come with the launch. */
enum { KERNEL_BYTES = 2048 };
typedef struct given_args {
    cuda_index nitems; /* bytes */
    unsigned char *out;
    unsigned char bytes[KERNEL_BYTES];
} given_args;

/* simple.cu */
typedef struct fill_args {
    cuda_index nitems; /* words of 1, 4 or 8 bytes */
    void *out;
    unsigned long long word;
} fill_args;
typedef struct sum_args {
    cuda_index nitems;
    void *out;
    const void *in[KERNEL_TERMS];
    int n, type; /* element_type, a real one */
} sum_args;
typedef struct cast_args {
    cuda_index nitems;
    void *out;
    const void *x;
    int from, to; /* element_type */
} cast_args;
typedef struct dropout_args {
    cuda_index nitems;
    void *out;
    const void *x;
    unsigned char *mask; /* NULL: not kept; of the gradient it is read */
    unsigned long long seed, upper;
    const unsigned long long *step; /* NULL: the same numbers in every step */
    unsigned drop_below;
    float factor;
    int type; /* element_type, a real one */
} dropout_args;

/* amp.cu: loss scaling, a launch for up to KERNEL_TENSORS gradients. An item is an element of the largest. */
enum { KERNEL_TENSORS = 64 };
typedef struct scaling_args {
    cuda_index nitems;
    int n, first, ntensors; /* of this launch; the first of them; of the op */
    void *out[KERNEL_TENSORS];
    const void *in[KERNEL_TENSORS];
    cuda_index count[KERNEL_TENSORS];
    unsigned char type[KERNEL_TENSORS];
    const float *scale;
    int *bad; /* by tensor, whether it has what is no number; behind them the first that has */
    unsigned char *found;
    const unsigned char *was_found, *stop; /* stop: NULL: no */
    float *scale_out;
    const int *good, *missed;
    int *good_out, *missed_out;
    cuda_index good_steps, missed_steps;
    double up, down;
    int is_stopped;
} scaling_args;

/* rows.cu: a block for each row of `width` elements. */
typedef struct softmax_args {
    cuda_index nrows, nitems, width;
    void *out; /* the softmax, or a gradient */
    const void *x, *dy, *labels;
    int wide_labels; /* int64 */
    int type;        /* element_type of what is real */
    cuda_index ignore;
    void *loss;
} softmax_args;
typedef struct norm_args {
    cuda_index nrows, nitems, width; /* nitems: of the sums over rows: width */
    void *out;                       /* y, or dx */
    const void *x, *dy, *scale, *bias;
    void *mean, *variance, *dscale, *dbias;
    int type, param_type, moment_type; /* element_type: of elements; of scale, bias, gradients; of mean, variance */
    float epsilon;
} norm_args;

/* batch.cu: channels over a batch of planes. A channel's elements are taken in chunks, each by a block. */
typedef struct batch_args {
    cuda_index nrows, nitems; /* chunks of all channels; channels, or elements */
    cuda_index batch, channels, plane;
    cuda_index chunk, nchunks; /* elements of one, of a channel */
    void *out;                 /* y, or dx; of `type`, as x and dy are */
    const void *x, *dy;
    int type;
    const float *scale, *bias;
    const float *mean, *variance;            /* running; of the gradient: what was saved */
    float *new_mean, *new_variance;          /* running */
    float *saved_mean, *saved_inverse;       /* of the gradient: dscale, dbias */
    float *partial;                          /* two sums a chunk */
    float *centre, *factor, *slope, *offset; /* a channel */
    double epsilon, momentum;
    int use_running;
} batch_args;

/* pool.cu: windows of images. Steps are in elements, of image, channel, row and column. */
typedef struct pool_args {
    cuda_index nitems;
    void *out; /* y, or dx */
    const void *x, *y, *dy;
    int type; /* element_type of them */
    cuda_index channels, extent[2], count[2]; /* of x; windows */
    cuda_index in_step[4], out_step[4];
    cuda_index size[2], stride[2], before[2];
    int is_max, is_adaptive, is_exclusive;
} pool_args;

/* table.cu: rows of a table by id. */
typedef struct table_args {
    cuda_index nitems, width, nids, nrows;
    void *out; /* rows, or the table's gradient */
    const void *in, *ids;
    int type; /* element_type of rows */
    int wide_ids;
    cuda_index padding;
    int *next; /* of each lookup: the next one of the same id, or -1; negative first: it is not the first of its id */
    int *is_first;
} table_args;

/* optimizer.cu */
typedef struct update_args {
    cuda_index nitems;
    float *param_out;
    const float *param, *rate;
    const void *grad;
    void *rounded; /* what also gets the new parameter, whose master copy param is; NULL: nothing */
    int grad_type, rounded_type; /* element_type */
    float *moment_out, *second_out;
    const float *moment, *second;
    float mu, decay;
    int nesterov;
    double beta1, beta2, epsilon, coeff;
    const float *pow1, *pow2; /* of Adam's betas */
    float *pow1_out, *pow2_out;
    const unsigned char *skip; /* NULL, or whether the step changes nothing */
    float *step;               /* what adam_begin works out for adam: rate, epsilon, shrink, whether it is skipped */
} update_args;

/* loop.cu: elements `first` and after of the sources, reduced one after another, go to all results; sources and results
 * may be the same. With a `part` each source has as many parts of that size as there are results. Part k goes to result
 * k, which may be where the parts of source k begin. */
enum { LOOP_SUM, LOOP_MAX, LOOP_MIN, LOOP_PROD };
typedef struct loop_args {
    cuda_index nitems, first, part;
    const void *srcs[LOOP_MEMBERS];
    void *dsts[LOOP_MEMBERS];
    int nsrcs, ndsts, op, averages;
} loop_args;
/* Words `first` and after of each part, moved between members whose results begin where their sources do. */
enum { LOOP_GATHER, LOOP_EXCHANGE, LOOP_SCATTER };
typedef struct loop_move_args {
    cuda_index nitems, first, part;
    const void *srcs[LOOP_MEMBERS];
    void *dsts[LOOP_MEMBERS];
    int nmembers, kind, root;
} loop_move_args;
/* Ends after so long. */
typedef struct loop_delay_args {
    cuda_index nitems, ns; /* nitems: 1 */
} loop_delay_args;

/* Updates of many parameters at once: tables in the GPU's memory, by parameter. An item is an element of all of them,
 * one behind the other; first[k] is that of table[k], a multiple of a block. */
typedef struct updates_args {
    cuda_index nitems;
    const update_args *table;
    const cuda_index *first; /* one more than parameters */
    int n;
} updates_args;

#endif
