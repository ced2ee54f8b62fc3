/* lapack.h: what the files here call of LAPACK, by its Fortran names; matrices are there by columns. */
#ifndef EXECUTOR_KERNELS_LINEAR_LAPACK_H
#define EXECUTOR_KERNELS_LINEAR_LAPACK_H

#include "executor/kernel.h"

#if WEFT_HAVE_LAPACK
void dgetrf_(const int *m, const int *n, double *a, const int *lda, int *pivots, int *info);
void dgetri_(const int *n, double *a, const int *lda, const int *pivots, double *work, const int *lwork, int *info);
void dgetrs_(const char *trans, const int *n, const int *nrhs, const double *a, const int *lda, const int *pivots,
             double *b, const int *ldb, int *info, size_t trans_length);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b,
             const int *ldb, int *info, size_t uplo_length);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t uplo_length);
void dtrtrs_(const char *uplo, const char *trans, const char *diag, const int *n, const int *nrhs, const double *a,
             const int *lda, double *b, const int *ldb, int *info, size_t uplo_length, size_t trans_length,
             size_t diag_length);
void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info, size_t jobz_length, size_t uplo_length);
void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
             const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork, int *info,
             size_t jobz_length);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
             int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a, const int *lda, const double *tau, double *work,
             const int *lwork, int *info);
void sgeev_(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda, void *wr, void *wi, void *vl,
            const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info, size_t jobvl_length,
            size_t jobvr_length);
void dgeev_(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda, void *wr, void *wi, void *vl,
            const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info, size_t jobvl_length,
            size_t jobvr_length);
void zgesv_(const int *n, const int *nrhs, void *a, const int *lda, int *pivots, void *b, const int *ldb, int *info);
void dgelss_(const int *m, const int *n, const int *nrhs, double *a, const int *lda, double *b, const int *ldb,
             double *s, const double *rcond, int *rank, double *work, const int *lwork, int *info);
#endif

#endif
