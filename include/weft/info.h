/* weft/info.h: what this build can do. */
#ifndef WEFT_INFO_H
#define WEFT_INFO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An optional part of the build: whether it is there, and what it is or why it is not. Strings are static. */
typedef struct weft_feature {
    const char *name;
    bool found;
    const char *detail;
} weft_feature;

size_t weft_feature_count(void);
/* The feature at `index` < weft_feature_count(). */
weft_feature weft_feature_at(size_t index);

#ifdef __cplusplus
}
#endif
#endif
