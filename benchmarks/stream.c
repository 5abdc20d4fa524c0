/* Memory traffic without torch: compiled by overhead.py with the system's C compiler, called by loops.py. */

void stream_copy(const float *restrict a, float *restrict b, long n)
{
#pragma omp parallel for
    for (long i = 0; i < n; i++)
        b[i] = a[i];
}

void stream_triad(float *restrict a, const float *restrict b, const float *restrict c, long n)
{
#pragma omp parallel for
    for (long i = 0; i < n; i++)
        a[i] = b[i] + 3.0f * c[i];
}

float stream_read(const float *a, long n)
{
    float sum = 0.0f;
#pragma omp parallel for simd reduction(+ : sum)
    for (long i = 0; i < n; i++)
        sum += a[i];
    return sum;
}
