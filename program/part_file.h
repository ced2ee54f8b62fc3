/* part_file.h: a file of which only some bytes are read. */
#ifndef PROGRAM_PART_FILE_H
#define PROGRAM_PART_FILE_H

#include "program/tensors.h"

/* What is read in small pieces comes from a window of the file, anything else straight from there. */
typedef struct part_file {
    int fd;
    const char *place;
    uint64_t nbytes, at;           /* of the file; where the next read begins */
    uint64_t window_at, in_window; /* what the window holds */
    char window[256];
} part_file;

/* Whether only some of it can be read: a pipe has to be read whole. */
bool part_file_is_regular(const char *path);
WEFT_MUST_USE weft_status part_file_open(part_file *f, const char *path, size_t most_nbytes);
void part_file_close(part_file *f);
/* Exactly nbytes at `at`, or a status. */
WEFT_MUST_USE weft_status part_file_read_at(part_file *f, uint64_t at, void *out, size_t nbytes);
/* Reads behind one another, from f->at. */
byte_source part_file_source(part_file *f);

/* A run of a tensor's bytes, straight into it; `user` as it was given. */
typedef weft_status (*part_read_fn)(void *user, uint64_t at, void *out, size_t nbytes);
/* All boxes of a tensor that `parts` names. */
WEFT_MUST_USE weft_status part_read_boxes(const weft_tensor *t, weft_tensor_part_fn parts, void *parts_user,
                                          part_read_fn read, void *user);
/* The same where the tensor's bytes lie in the file, from `first` on. */
WEFT_MUST_USE weft_status part_file_fill(part_file *f, uint64_t first, const weft_tensor *t, weft_tensor_part_fn parts,
                                         void *user);

#endif
