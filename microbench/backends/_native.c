/* Copy, scale, add and triad (McCalpin's STREAM) over slices of a pool of threads; plain stores, or non-temporal ones that leave the
 * destination out of the caches, so that it is not read before it is written. Compiled on demand for the machine it runs on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define LINE 64

#if defined(__AVX512F__)
#define PUT(p, x) _mm512_stream_si512((void *)(p), *(const __m512i *)&(x))
#elif defined(__AVX__)
#define PUT(p, x)                                              \
  (_mm256_stream_si256((__m256i *)(p), ((const __m256i *)&(x))[0]), \
   _mm256_stream_si256((__m256i *)(p) + 1, ((const __m256i *)&(x))[1]))
#elif defined(__SSE2__)
#define PUT(p, x)                                                                                                       \
  (_mm_stream_si128((__m128i *)(p), ((const __m128i *)&(x))[0]), _mm_stream_si128((__m128i *)(p) + 1, ((const __m128i *)&(x))[1]), \
   _mm_stream_si128((__m128i *)(p) + 2, ((const __m128i *)&(x))[2]), _mm_stream_si128((__m128i *)(p) + 3, ((const __m128i *)&(x))[3]))
#elif defined(__clang__)
#define PUT(p, x) __builtin_nontemporal_store((x), (p))
#endif

int native_has_streaming(void) {
#ifdef PUT
  return 1;
#else
  return 0;
#endif
}

typedef void (*kernel)(void *a, const void *b, const void *c, double s, size_t count);

/* The element and, for streaming stores, a vector of a whole cache line; arrays are aligned to lines. */
#ifdef PUT
#define STREAMING(name, T, expression)                                                                   \
  static void name##_stream(void *A, const void *B, const void *C, double S, size_t count) {             \
    typedef T line __attribute__((vector_size(LINE)));                                                   \
    const size_t lines = count * sizeof(T) / LINE;                                                       \
    const T s = (T)S;                                                                                    \
    (void)s;                                                                                             \
    for (size_t i = 0; i < lines; i++) {                                                                 \
      const line b = ((const line *)B)[i], c = ((const line *)C)[i];                                     \
      (void)c;                                                                                           \
      const line value = expression;                                                                     \
      PUT((line *)A + i, value);                                                                         \
    }                                                                                                    \
    for (size_t i = lines * (LINE / sizeof(T)); i < count; i++) {                                        \
      const T b = ((const T *)B)[i], c = ((const T *)C)[i];                                              \
      (void)c;                                                                                           \
      ((T *)A)[i] = expression;                                                                          \
    }                                                                                                    \
  }
#else
#define STREAMING(name, T, expression) \
  static void name##_stream(void *A, const void *B, const void *C, double S, size_t count) { name##_plain(A, B, C, S, count); }
#endif
#define KERNEL(name, T, expression)                                                                      \
  static void name##_plain(void *A, const void *B, const void *C, double S, size_t count) {              \
    T *restrict out = A;                                                                                 \
    const T *restrict first = B, *restrict second = C;                                                   \
    const T s = (T)S;                                                                                    \
    (void)s;                                                                                             \
    for (size_t i = 0; i < count; i++) {                                                                 \
      const T b = first[i], c = second[i];                                                               \
      (void)c;                                                                                           \
      out[i] = expression;                                                                               \
    }                                                                                                    \
  }                                                                                                      \
  STREAMING(name, T, expression)

KERNEL(copy_f32, float, b)
KERNEL(scale_f32, float, s *b)
KERNEL(add_f32, float, b + c)
KERNEL(triad_f32, float, b + s * c)
KERNEL(copy_f64, double, b)
KERNEL(scale_f64, double, s *b)
KERNEL(add_f64, double, b + c)
KERNEL(triad_f64, double, b + s * c)

static void fill_f32(void *A, const void *B, const void *C, double S, size_t count) {
  (void)B, (void)C;
  for (size_t i = 0; i < count; i++) ((float *)A)[i] = (float)S;
}
static void fill_f64(void *A, const void *B, const void *C, double S, size_t count) {
  (void)B, (void)C;
  for (size_t i = 0; i < count; i++) ((double *)A)[i] = S;
}

/* [element: float, double][copy, scale, add, triad, fill][plain, streaming] */
static const kernel KERNELS[2][5][2] = {
    {{copy_f32_plain, copy_f32_stream},
     {scale_f32_plain, scale_f32_stream},
     {add_f32_plain, add_f32_stream},
     {triad_f32_plain, triad_f32_stream},
     {fill_f32, fill_f32}},
    {{copy_f64_plain, copy_f64_stream},
     {scale_f64_plain, scale_f64_stream},
     {add_f64_plain, add_f64_stream},
     {triad_f64_plain, triad_f64_stream},
     {fill_f64, fill_f64}}};

static struct {
  int threads;
  kernel function;
  char *a;
  const char *b, *c;
  double s;
  size_t count, element;
  int streaming;
  atomic_uint generation;
  atomic_int pending;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} pool = {.threads = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* Turns of a waiting loop before it sleeps (workers) or gives the CPU away (the caller): some tens of microseconds. */
#define SPINS 20000

static inline void relax(void) {
#if defined(__SSE2__)
  _mm_pause();
#endif
}

static void part(int index) {
  /* Slices begin at cache lines. */
  const size_t lines = (pool.count * pool.element + LINE - 1) / LINE, each = LINE / pool.element;
  size_t begin = lines * index / pool.threads * each, end = lines * (index + 1) / pool.threads * each;
  if (end > pool.count) end = pool.count;
  if (begin < end)
    pool.function(pool.a + begin * pool.element, pool.b + begin * pool.element, pool.c + begin * pool.element, pool.s, end - begin);
#if defined(__SSE2__)
  if (pool.streaming) _mm_sfence();
#endif
}

static void *worker(void *argument) {
  const int index = (int)(ptrdiff_t)argument;
  unsigned seen = 0;
  for (;;) {
    for (int turn = 0; atomic_load(&pool.generation) == seen && turn < SPINS; turn++) relax();
    if (atomic_load(&pool.generation) == seen) {
      pthread_mutex_lock(&pool.lock);
      while (atomic_load(&pool.generation) == seen) pthread_cond_wait(&pool.wake, &pool.lock);
      pthread_mutex_unlock(&pool.lock);
    }
    seen++;
    part(index);
    atomic_fetch_sub(&pool.pending, 1);
  }
  return NULL;
}

/* Start a pool of `threads` (this one among them), each on a CPU of its own where cpus is given; return 0, or an error number. */
int native_start(int threads, const int *cpus) {
  for (int i = 0; i < threads; i++) {
    pthread_t thread = pthread_self();
    const int error = i ? pthread_create(&thread, NULL, worker, (void *)(ptrdiff_t)i) : 0;
    if (error) return error;
#if defined(__linux__)
    if (cpus) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpus[i], &one);
      pthread_setaffinity_np(thread, sizeof one, &one); /* where it is not allowed, the thread stays free */
    }
#endif
  }
  pool.threads = threads;
  return 0;
}

/* Run one pass; a, b and c are aligned to cache lines. */
void native_run(int element, int operation, int streaming, void *a, const void *b, const void *c, double s, size_t count) {
  pool.function = KERNELS[element][operation][streaming];
  pool.a = a, pool.b = b, pool.c = c, pool.s = s, pool.count = count, pool.streaming = streaming;
  pool.element = element ? sizeof(double) : sizeof(float);
  if (pool.threads > 1) {
    atomic_store(&pool.pending, pool.threads - 1);
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.generation, 1);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
  }
  part(0);
  if (pool.threads > 1)
    for (int turn = 0; atomic_load(&pool.pending); turn++)
      if (turn < SPINS)
        relax();
      else
        sched_yield();
}
