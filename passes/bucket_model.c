/* bucket_model.c: the options that say what buckets are planned by. */
#include "passes/bucket_former.h"
#include "passes/bucket_times.h"

weft_status bucket_model_read(weft_pass_context *pass, bucket_model *out) {
    *out = (bucket_model){.cluster = weft_pass_option_string(pass, "cluster"),
                          .times = weft_pass_option_string(pass, "times"),
                          .advice = "let overlap_comm come before this pass"};
    if (weft_pass_option_given(pass, "most_mb")) TRY(bucket_limit(pass, "most_mb", &out->most_nbytes));
    return weft_pass_option_given(pass, "most_live_mb") ? bucket_limit(pass, "most_live_mb", &out->most_live) : NULL;
}

weft_status bucket_model_check(weft_pass_context *pass, bool is_auto, const char *const *sizes) {
    static const char *const of_model[] = {"cluster", "times", "most_mb", "most_live_mb"};
    for (; is_auto && *sizes; sizes++)
        if (weft_pass_option_given(pass, *sizes))
            return weft_pass_refuse(pass, "bucket_mb: auto decides on every bucket: expected no %s", *sizes);
    for (size_t i = 0; !is_auto && i < sizeof of_model / sizeof *of_model; i++)
        if (weft_pass_option_given(pass, of_model[i]))
            return weft_pass_refuse(pass, "%s: only bucket_mb: auto asks for one", of_model[i]);
    return NULL;
}
