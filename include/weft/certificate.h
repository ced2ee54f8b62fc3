/* weft/certificate.h: what passes claim to have done to a program, and a check of it.
 *
 * A certificate is JSON (docs/certificates.md): it says of each pass where values went, which factors were folded into
 * what, and which collectives became one. It says which ops were inserted, removed and moved. Digests of the programs
 * tie it to one pair. The check shares nothing with the passes but the reader of programs. It follows
 * both programs by rules of its own about ops. */
#ifndef WEFT_CERTIFICATE_H
#define WEFT_CERTIFICATE_H

#include "weft/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether passes write their claims down; at first they do not. */
void weft_pass_list_set_certify(weft_pass_list *list, bool certify);
/* The certificate of a list that was run so. Owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_report_certificate(const weft_report *report, char **out_bytes, size_t *out_nbytes);

typedef enum weft_certified {
    WEFT_CERTIFIED,       /* `after` is `before` but for what is claimed, and the claims hold */
    WEFT_CERTIFICATE_BAD, /* a claim does not hold, or something changed that none covers, or it is another pair's */
    WEFT_CERTIFICATE_NONE /* a pass gives none */
} weft_certified;

/* Checks the certificate of the pair. Programs are only read. `place` names the certificate in messages. *out_message
 * gives the first thing that does not hold, or what was checked; owned by the caller (weft_bytes_free). A certificate
 * that cannot be read is an error, one that does not hold is none. Linear in the programs. */
WEFT_MUST_USE weft_status weft_certificate_check(const weft_program *before, const weft_program *after,
                                                 const char *certificate, size_t nbytes, const char *place,
                                                 weft_certified *out_verdict, char **out_message,
                                                 size_t *out_message_nbytes);

#ifdef __cplusplus
}
#endif
#endif
