/* The five kernels that BabelStream defines (copy, mul, add, triad, dot), written anew: arrays a, b, c of n numbers,
   scalar 0.4. Counted are the arrays that a kernel reads and writes: 2, 2, 3, 3, 2. */
#define EACH \
    _Pragma("unroll 4") \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (size_t)n; i += (size_t)gridDim.x * blockDim.x)
#define KERNEL(name, T, ...) \
    extern "C" __global__ void name##_##T(T *__restrict__ a, T *__restrict__ b, T *__restrict__ c, T *sums, int n) \
    { __VA_ARGS__ }
#define KERNELS(T)                                   \
    KERNEL(copy, T, EACH c[i] = a[i];)               \
    KERNEL(mul, T, EACH b[i] = T(0.4) * c[i];)       \
    KERNEL(add, T, EACH c[i] = a[i] + b[i];)         \
    KERNEL(triad, T, EACH a[i] = b[i] + T(0.4) * c[i];) \
    /* one partial sum a thread: the caller adds them up */ \
    KERNEL(dot, T, T sum = 0; EACH sum += a[i] * b[i]; sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;)

KERNELS(float)
KERNELS(double)

#ifdef __NVCC__ /* a launcher for ctypes; NVRTC's kernels are launched by torch */
#define LAUNCH(name, T) \
    extern "C" int launch_##name##_##T(void *a, void *b, void *c, void *sums, int n, int blocks, int threads, void *stream) \
    { name##_##T<<<blocks, threads, 0, (cudaStream_t)stream>>>((T *)a, (T *)b, (T *)c, (T *)sums, n); return (int)cudaGetLastError(); }
#define LAUNCHES(T) LAUNCH(copy, T) LAUNCH(mul, T) LAUNCH(add, T) LAUNCH(triad, T) LAUNCH(dot, T)
LAUNCHES(float)
LAUNCHES(double)
#endif
