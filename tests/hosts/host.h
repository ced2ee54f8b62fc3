/* host.h: what the host programs of this folder share. They are compiled against installed files alone. */
#ifndef TESTS_HOSTS_HOST_H
#define TESTS_HOSTS_HOST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/program.h"

static int host_failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                            \
            host_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

/* Ends the program where a call fails that must not. */
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        weft_status must_status_ = (call);                                                                             \
        if (must_status_) {                                                                                            \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, weft_status_place(must_status_),                             \
                   weft_status_message(must_status_));                                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The call must fail with that code, in words that hold `words`. */
#define REFUSES(code, words, call)                                                                                     \
    do {                                                                                                               \
        weft_status refused_ = (call);                                                                                 \
        if (weft_status_code(refused_) != (code) || !strstr(weft_status_message(refused_), words)) {                   \
            printf("%s:%d: expected %s \"%s\", found %s \"%s\"\n", __FILE__, __LINE__, weft_code_name(code), words,    \
                   weft_code_name(weft_status_code(refused_)), weft_status_message(refused_));                         \
            host_failures++;                                                                                           \
        }                                                                                                              \
        weft_status_free(refused_);                                                                                    \
    } while (0)

static inline int host_end(const char *name) {
    printf("%s: %s\n", name, host_failures ? "failed" : "all as expected");
    return host_failures != 0;
}

#endif
