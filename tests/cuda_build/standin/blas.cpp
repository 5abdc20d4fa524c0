// cuBLAS and cuBLASLt: a product takes 2 m n k operations at the rate of its number type.
#include "standin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>

using namespace standin;

namespace {

struct Handle {
  cudaStream_t stream;
  cublasPointerMode_t mode;
  cublasMath_t math;
};
struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
};
struct Product {
  std::map<int, std::vector<char>> attributes;
};

const char* name_of(int type) {
  switch (type) {
    case CUDA_R_64F: return "TFLOPS_FP64";
    case CUDA_R_32F: return "TFLOPS_FP32";
    case CUDA_R_8I: return "TFLOPS_INT8";
    case CUDA_R_8F_E4M3: return "TFLOPS_FP8";
    case CUDA_R_16F:
    case CUDA_R_16BF: return "TFLOPS_BF16";
    default: return "TFLOPS_FP4";
  }
}

cublasStatus_t multiply(cudaStream_t stream, double m, double n, double k, const char* type) {
  static bool first = true;
  if (std::exchange(first, false)) wait_until(now() + setting("FIRST_PRODUCT_S", 0));  // while it loads its kernels
  Lock lock(mutex);
  queue(stream_of(stream), KERNELS, 2 * m * n * k / (setting(type, 780) * 1e12) + launch_seconds());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t dot(Handle* handle, double bytes) {
  Stream* stream;
  {
    Lock lock(mutex);
    stream = &stream_of(handle->stream);
    queue(*stream, KERNELS, bytes / (setting("MEMORY_GBS", 4300) * 1e9));
  }
  if (handle->mode == CUBLAS_POINTER_MODE_HOST) wait_until(stream->free_at);
  return CUBLAS_STATUS_SUCCESS;
}

Handle* of(cublasHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

}  // namespace

API cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new Handle{});
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  of(handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  of(handle)->math = math;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* math) {
  *math = of(handle)->math;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  of(handle)->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = of(handle)->mode;
  return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const float*, const float*, int, const float*, int, const float*, float*, int) {
  bool tf32 = of(handle)->math == CUBLAS_TF32_TENSOR_OP_MATH;
  return multiply(of(handle)->stream, m, n, k, tf32 ? "TFLOPS_TF32" : "TFLOPS_FP32");
}
API cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const double*, const double*, int, const double*, int, const double*, double*, int) {
  return multiply(of(handle)->stream, m, n, k, "TFLOPS_FP64");
}
API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                const void*, const void*, cudaDataType type, int, const void*, cudaDataType, int,
                                const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t) {
  return multiply(of(handle)->stream, m, n, k, name_of(type));
}
API cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n,
                                            int k, const float*, const float*, int, long long, const float*, int,
                                            long long, const float*, float*, int, long long, int batches) {
  bool tf32 = of(handle)->math == CUBLAS_TF32_TENSOR_OP_MATH;
  return multiply(of(handle)->stream, m, 1.0 * n * batches, k, tf32 ? "TFLOPS_TF32" : "TFLOPS_FP32");
}
API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n,
                                             int k, const void*, const void*, cudaDataType type, int, long long,
                                             const void*, cudaDataType, int, long long, const void*, void*,
                                             cudaDataType, int, long long, int batches, cublasComputeType_t,
                                             cublasGemmAlgo_t) {
  return multiply(of(handle)->stream, m, 1.0 * n * batches, k, name_of(type));
}
API cublasStatus_t cublasDdot_v2(cublasHandle_t handle, int n, const double*, int, const double*, int, double*) {
  return dot(of(handle), 16.0 * n);
}
API cublasStatus_t cublasSdot_v2(cublasHandle_t handle, int n, const float*, int, const float*, int, float*) {
  return dot(of(handle), 8.0 * n);
}

// -- cuBLASLt

API size_t cublasLtGetVersion() { return 10000 * (CUDART_VERSION / 1000) + 100; }
API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                              uint64_t columns, int64_t) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns});
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t, cudaDataType) {
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{});
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete reinterpret_cast<Product*>(product);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which,
                                                  const void* value, size_t size) {
  const char* bytes = static_cast<const char*>(value);
  reinterpret_cast<Product*>(product)->attributes[which].assign(bytes, bytes + size);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = static_cast<cublasLtMatmulPreference_t>(malloc(8));
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  free(preference);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                        const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int count,
                                                  cublasLtMatmulHeuristicResult_t* results, int* found) {
  memset(results, 0, sizeof *results * count);
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void*, const void*,
                                  cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t, const void*,
                                  const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t d,
                                  const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  const Layout &left = *reinterpret_cast<Layout*>(a), &result = *reinterpret_cast<Layout*>(d);
  auto& attributes = reinterpret_cast<Product*>(product)->attributes;
  auto transposed = attributes.find(CUBLASLT_MATMUL_DESC_TRANSA);
  int turned = CUBLAS_OP_N;
  if (transposed != attributes.end()) memcpy(&turned, transposed->second.data(), sizeof turned);
  uint64_t inner = turned == CUBLAS_OP_N ? left.columns : left.rows;
  return multiply(stream, result.rows, result.columns, inner, name_of(left.type));
}
