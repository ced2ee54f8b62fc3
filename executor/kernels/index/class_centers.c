/* class_centers.c: class_center_sample: the classes that labels name, in order, then others, drawn one by one until
 * there are num_samples; and the labels as numbers of these. A seed that is fixed draws what Paddle draws.
 * Source: phi/kernels/cpu/class_center_sample_kernel.cc. */
#include "executor/kernels/fill/random.h"
#include "executor/kernels/fill/twister.h"
#include "executor/kernels/layout.h"

enum { IN_LABEL, OUT_LABEL = 0, OUT_CLASSES };

typedef struct centers_state {
    int64_t classes, samples, seed; /* seed 0: the run's */
} centers_state;

static weft_status prepare(kernel_prepare *p) {
    centers_state *s = KERNEL_STATE(p, centers_state);
    if (!s) return base_out_of_memory();
    const tensor *label = type_in(p, IN_LABEL), *to = type_out(p, OUT_LABEL), *classes = type_out(p, OUT_CLASSES);
    TRY(require_integers(p, label, "Label"));
    TRY(require_present(p, to, "RemappedLabel"));
    TRY(require_present(p, classes, "SampledLocalClassCenter"));
    TRY(require_like(p, label, to, label->numel, "RemappedLabel"));
    s->classes = attr_int(p->op, "num_classes", 0);
    s->samples = attr_int(p->op, "num_samples", 0);
    s->seed = attr_bool(p->op, "fix_seed", false) ? attr_int(p->op, "seed", 0) : 0;
    if (attr_int(p->op, "nranks", 1) > 1) return kernel_unsupported(p, "expected the classes of one rank");
    if (s->samples < 1 || s->samples > s->classes)
        return kernel_unsupported(p, "num_samples: expected 1 to %lld, found %lld", (long long)s->classes,
                                  (long long)s->samples);
    TRY(require_like(p, label, classes, s->samples, "SampledLocalClassCenter"));
    p->workspace_nbytes = (size_t)s->classes * sizeof(int64_t) + sizeof(twister);
    return NULL;
}

enum { NOT_TAKEN = -1, WANTED = -2 };

static weft_status run(const kernel_call *c) {
    const centers_state *s = c->state;
    const tensor *label = arg_in(c, IN_LABEL);
    int64_t *number = c->workspace, count = 0;
    twister *t = (twister *)(number + s->classes);
    for (int64_t k = 0; k < s->classes; k++) number[k] = NOT_TAKEN;
    for (int64_t i = 0; i < label->numel; i++) {
        int64_t class = tensor_integer(label, i);
        if (class < 0 || class >= s->classes)
            return kernel_failed(c, "Label: expected 0 to %lld, found %lld", (long long)s->classes - 1,
                                 (long long)class);
        number[class] = WANTED;
    }
    for (int64_t k = 0; k < s->classes; k++) {
        if (number[k] != WANTED) continue;
        if (count == s->samples)
            return kernel_failed(c, "expected labels of at most %lld classes, found more", (long long)s->samples);
        tensor_set_integer(arg_out(c, OUT_CLASSES), count, k);
        number[k] = count++;
    }
    twister_init(t, random_seed_of(c, s->seed));
    while (count < s->samples) {
        int64_t class = (int64_t)twister_below(t, (uint64_t)s->classes);
        if (number[class] != NOT_TAKEN) continue;
        tensor_set_integer(arg_out(c, OUT_CLASSES), count, class);
        number[class] = count++;
    }
    for (int64_t i = 0; i < label->numel; i++)
        tensor_set_integer(arg_out(c, OUT_LABEL), i, number[tensor_integer(label, i)]);
    return NULL;
}

const kernel kernel_class_center_sample = {prepare, run};
