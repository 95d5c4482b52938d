/* SPDX-License-Identifier: Apache-2.0
 *
 * What the static libraries in a wheel leave open.
 *
 * A wheel has the OpenBLAS without threads: the other one starts a thread per core as soon as it is loaded. Debian builds it without
 * OpenBLAS' own option for callers in several threads (USE_LOCKING), whose whole effect is a lock around the table of work buffers.
 * That lock is here, in front of the two functions through which everybody reaches the table (ld --wrap).
 */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The names are the linker's and the libraries', not ours to choose. */
void *__real_blas_memory_alloc(int position);
void *__wrap_blas_memory_alloc(int position);
void __real_blas_memory_free(void *buffer);
void __wrap_blas_memory_free(void *buffer);
double __wrap_hypot(double x, double y);
void _gfortran_concat_string(size_t size, char *out, size_t first_size, const char *first, size_t second_size,
                             const char *second);

static pthread_mutex_t buffers = PTHREAD_MUTEX_INITIALIZER;

void *__wrap_blas_memory_alloc(int position) {
    pthread_mutex_lock(&buffers);
    void *buffer = __real_blas_memory_alloc(position);
    pthread_mutex_unlock(&buffers);
    return buffer;
}

void __wrap_blas_memory_free(void *buffer) {
    pthread_mutex_lock(&buffers);
    __real_blas_memory_free(buffer);
    pthread_mutex_unlock(&buffers);
}

/* The one function of the Fortran runtime that the LAPACK routines in use call: a // b, cut or filled with blanks. */
void _gfortran_concat_string(size_t size, char *out, size_t first_size, const char *first, size_t second_size,
                             const char *second) {
    const size_t head = first_size < size ? first_size : size;
    const size_t tail = second_size < size - head ? second_size : size - head;
    memcpy(out, first, head);
    memcpy(out + head, second, tail);
    memset(out + head + tail, ' ', size - head - tail);
}

/* glibc 2.35 gave hypot a second version, which differs in how errors are reported; it would be the only reason why a wheel could
 * not be loaded by glibc 2.34, that of RHEL 9. This is the first version. */
#if defined __x86_64__
__asm__(".symver first_hypot, hypot@GLIBC_2.2.5");
#elif defined __aarch64__
__asm__(".symver first_hypot, hypot@GLIBC_2.17");
#else
#error "wheels are made for x86-64 and aarch64"
#endif
double first_hypot(double x, double y);

double __wrap_hypot(double x, double y) {
    return first_hypot(x, y);
}
