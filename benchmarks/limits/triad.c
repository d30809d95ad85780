/* STREAM triad a[i] = b[i] + s * c[i] (McCalpin) in fp32, threads over slices, with plain and with non-temporal stores.
 *
 *     triad ELEMENTS THREADS PASSES
 *
 * prints one line a variant: its name and the seconds of each pass. Bytes are counted by the caller: 3 arrays a pass. Each thread
 * touches its own slice first; arrays are aligned to 2 MiB and huge pages are asked for, as an allocator for large arrays would.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    float *a, *b, *c;
    size_t count;
    int passes, streaming;
    double *seconds;
    pthread_barrier_t *barrier;
    int first;
} part;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void plain(float *restrict a, const float *restrict b, const float *restrict c, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 1.5f * c[i];
}

static void streaming(float *restrict a, const float *restrict b, const float *restrict c, size_t n) {
#if defined(__AVX512F__)
    const __m512 s = _mm512_set1_ps(1.5f);
    for (size_t i = 0; i + 16 <= n; i += 16) _mm512_stream_ps(a + i, _mm512_fmadd_ps(s, _mm512_load_ps(c + i), _mm512_load_ps(b + i)));
    _mm_sfence();
#elif defined(__AVX2__) && defined(__FMA__)
    const __m256 s = _mm256_set1_ps(1.5f);
    for (size_t i = 0; i + 8 <= n; i += 8) _mm256_stream_ps(a + i, _mm256_fmadd_ps(s, _mm256_load_ps(c + i), _mm256_load_ps(b + i)));
    _mm_sfence();
#else
    plain(a, b, c, n);
#endif
}

static void *work(void *argument) {
    part *p = argument;
    for (size_t i = 0; i < p->count; i++) { p->a[i] = 0; p->b[i] = i % 7; p->c[i] = i % 5; }
    for (int pass = -2; pass < p->passes; pass++) {
        pthread_barrier_wait(p->barrier);
        double start = now();
        (p->streaming ? streaming : plain)(p->a, p->b, p->c, p->count);
        pthread_barrier_wait(p->barrier);
        if (p->first && pass >= 0) p->seconds[pass] = now() - start;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int threads = atoi(argv[2]), passes = atoi(argv[3]);
    size_t slice = strtoull(argv[1], NULL, 10) / threads / 64 * 64, bytes = slice * threads * sizeof(float);
    if (threads < 1 || passes < 1 || slice == 0) return 2;
    for (int variant = 0; variant < 2; variant++) {
        float *arrays[3];
        for (int i = 0; i < 3; i++) {
            if (posix_memalign((void **)&arrays[i], 2 << 20, bytes)) return 1;
            madvise(arrays[i], bytes, MADV_HUGEPAGE);
        }
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, NULL, threads);
        pthread_t *ids = calloc(threads, sizeof *ids);
        part *parts = calloc(threads, sizeof *parts);
        double *seconds = calloc(passes, sizeof *seconds);
        for (int t = 0; t < threads; t++) {
            parts[t] = (part){arrays[0] + t * slice, arrays[1] + t * slice, arrays[2] + t * slice, slice, passes, variant, seconds, &barrier, t == 0};
            if (t) pthread_create(&ids[t], NULL, work, &parts[t]);
        }
        work(&parts[0]);
        for (int t = 1; t < threads; t++) pthread_join(ids[t], NULL);
        size_t last = slice * threads - 1;
        for (size_t i = 0; i <= last; i += last)
            if (arrays[0][i] != arrays[1][i] + 1.5f * arrays[2][i]) { fprintf(stderr, "wrong triad\n"); return 1; }
        printf("%s", variant ? "non-temporal" : "plain");
        for (int pass = 0; pass < passes; pass++) printf(" %.9f", seconds[pass]);
        printf("\n");
        for (int i = 0; i < 3; i++) free(arrays[i]);
        free(ids); free(parts); free(seconds);
    }
    return 0;
}
